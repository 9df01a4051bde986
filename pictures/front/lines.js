// Notebook 00: point at a word or letter that is written, and see which of those that are read it looks at, and how much.
import { button, byHand, frame, html, listed, percent, sum, svg } from "./kit.js";

const ORDINALS = [
  ..."first second third fourth fifth sixth seventh eighth".split(" "),
  ..."ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth".split(" "),
];
const THICK = 9; // pixels of a line with all the weight
const SEEN = 0.01; // a line with less is too thin to be seen
const ROOM = 32; // pixels that a share needs beside another

// The places of numbers, that of the largest first.
const downwards = (numbers) => numbers.map((_, i) => i).sort((a, b) => numbers[b] - numbers[a]);
// Does a case hold letters, not words?
const spelled = ({ above, below }) => [...above, ...below].every((word) => [...word].length === 1);

// weights (T, S) -> of each row and each column: where its largest number is, its size, that of the smallest, whether all
// are about equal, and how many are more than a half
export function looks(weights) {
  const most = (numbers) => {
    const share = Math.max(...numbers);
    const least = Math.min(...numbers);
    const even = numbers.length > 1 && least > 0 && share <= 1.5 * least;
    return { best: numbers.indexOf(share), share, least, even, over: numbers.filter((weight) => weight > 0.5).length };
  };
  return { rows: weights.map(most), columns: weights[0].map((_, s) => most(weights.map((row) => row[s]))) };
}

// The places of the largest numbers of a row, as many as make four fifths of it, but three at most.
export function largest(row) {
  const order = downwards(row);
  return order.slice(0, [1, 2].find((n) => sum(order.slice(0, n).map((s) => row[s])) >= 0.8) ?? 3);
}

const short = (share) => (share < 1 && share >= 0.995 ? ">99%" : percent(share)); // 100% is all of it
const spoken = (share) => short(share).replace(">", "more than ").replace("<", "less than ");
const between = (a, b) => (spoken(a) === spoken(b) ? `${spoken(a)} each` : `${spoken(a)} to ${spoken(b)}`);

// a case -> { below: t => sentence, above: s => sentence }, with *emphasis* between stars
export function sentences({ above, below, weights }) {
  const { rows, columns } = looks(weights);
  const letters = spelled({ above, below });
  const unit = letters ? "letter" : "word";
  // A letter, or a word that occurs twice, is told by its place.
  const numbered = (s) => letters || above.indexOf(above[s]) !== above.lastIndexOf(above[s]);
  const who = (s) => (numbered(s) ? `place ${s + 1}, *${above[s]}*` : `*${above[s]}*`);

  function ofBelow(t) {
    const { best, share, least, even } = rows[t];
    const start = `To write its ${ORDINALS[t]} ${unit}, *${below[t]}*, it`;
    if (share === 1 && !letters) return `*${below[t]}* comes from ${who(best)}.`;
    if (even) return `${start} looks at all places about equally, ${between(least, share)}.`;
    const top = largest(weights[t]);
    const rest = above.length - top.length;
    const most = sum(top.map((s) => weights[t][s])) >= 0.8;
    const others = most ? "" : ` The rest comes from the other ${rest > 1 ? `${rest} places` : "place"}.`;
    const another = letters && share > 0.5 && above[best] !== below[t] && above.includes(below[t]); // it looks elsewhere
    const shares = listed(top.map((s) => `${spoken(weights[t][s])} from ${who(s)}`));
    const takes = `${start} takes ${shares.replace("* and", letters ? "*, and" : "* and")}.${others}`;
    return another ? `${takes} Place ${best + 1} holds *${above[best]}*, not *${below[t]}*.` : takes;
  }
  function ofAbove(s) {
    const { best, share, least, even, over } = columns[s];
    const here = numbered(s) ? `P${who(s).slice(1)},` : who(s);
    if (!letters && share === 0) return `${here} has no line: none of the words below comes from it.`;
    if (!letters && weights.every((row) => row[s] === 0 || row[s] === 1)) {
      const becomes = below.filter((_, t) => weights[t][s]);
      return `${here} becomes ${listed(becomes.map((word) => `*${word}*`))}.`;
    }
    if (even) return `${here} is looked at about as much for every ${unit} that is written, ${between(least, share)}.`;
    if (share < 0.06) return `${here} is hardly looked at: never more than ${Math.max(1, Math.ceil(100 * share))}%.`;
    const often = over > 1 ? ` For ${over} of the ${below.length} ${unit}s it gets more than half of the weight.` : "";
    return `${here} is looked at most when ${unit} ${best + 1} is written: ${spoken(share)}.${often}`;
  }
  return { below: ofBelow, above: ofAbove };
}

// data: cases, each with name, above (S), below (T) and weights (T, S)
export function mount(element, data) {
  const { cases } = data;
  const unit = cases.every(spelled) ? "letter" : "word";
  const state = { one: null, kept: { side: "below", i: 0 } }; // the case that is open, and the place that stays lit
  const fan = threads(state);
  const rows = writing(state);
  const caption = (text) => html("div", { class: "explore-caption" }, text);
  const below = caption(byHand(`what is written (click a ${unit} to keep its lines)`));
  const drawing = html("div", takingHold(), caption("what is read"), rows.above, fan.node, rows.below, below);
  const buttons = cases.map(({ name }, k) => button(name, () => open(k)));
  const whose = listed(cases.map(({ name }) => name)).replace(" and ", " or ");
  const invitation =
    cases.length > 1
      ? `Choose ${whose}, then point at a ${unit} below: where do its lines go?`
      : data.waits
        ? `One line is drawn. Where would you draw those from the other ${unit}s below? Guess, then click one.`
        : `Point at a ${unit} below: where do its lines go?`;
  const { say, remove } = frame(
    element,
    { name: "lines", css: CSS, waits: data.waits, invitation },
    html("div", { class: "explore-scroll" }, drawing),
    ...(cases.length > 1 ? [html("div", { class: "explore-tools" }, ...buttons)] : []),
  );

  function takingHold() {
    const keep = (event) => {
      state.kept = at(event) ?? state.kept;
      if (at(event)) light(state.kept);
    };
    return {
      class: "explore-drawing",
      role: "toolbar",
      onclick: keep,
      onfocusin: keep,
      onkeydown: (event) => rows.walk(event, at(event)),
      "aria-label":
        "what is read and what is written: left and right move along a row, up and down follow the thickest line",
      onpointermove: (event) => event.pointerType === "mouse" && at(event) && light(at(event)),
      onpointerleave: () => light(state.kept),
    };
  }
  function open(k) {
    state.one = cases[k];
    state.says = sentences(state.one);
    drawing.style.setProperty("--explore-long", rows.open());
    fan.open(rows.middles);
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", i === k);
    });
    if (!state.one[state.kept.side][state.kept.i]) state.kept = { side: "below", i: 0 };
    light(state.kept);
  }
  function light(place) {
    fan.light(place);
    rows.light(place, fan.node.clientWidth);
    say(state.says[place.side](place.i));
  }
  open(0);
  return remove;
}

// Which word or letter is under the pointer, or has the focus.
function at(event) {
  const { side, i } = event.target.closest("[data-side]")?.dataset ?? {};
  return side && { side, i: +i };
}

// A line for each weight, as thick as it; those of the place that is lit lie on top.
function threads(state) {
  let lines;
  const attributes = {
    class: "explore-fan",
    viewBox: "0 0 100 100",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  };
  const node = svg("svg", attributes);
  const open = ({ above, below }) => {
    const drawn = (weight, t, s) => {
      const [x1, x2] = [100 * below[t], 100 * above[s]];
      return svg("line", { x1, y1: 100, x2, y2: 0, style: `stroke-width: ${THICK * weight}px` });
    };
    lines = state.one.weights.flatMap((row, t) =>
      row.flatMap((weight, s) => (weight < SEEN ? [] : [{ below: t, above: s, drawn: drawn(weight, t, s) }])),
    );
    node.replaceChildren(...lines.map(({ drawn }) => drawn));
  };
  const light = ({ side, i }) => {
    for (const line of lines) line.drawn.setAttribute("class", line[side] === i ? "explore-lit" : "");
    node.append(...lines.filter((line) => line[side] === i).map(({ drawn }) => drawn));
  };
  return { node, open, light };
}

// What is read and what is written: two rows of buttons, with the shares of the place that is lit.
function writing(state) {
  const above = html("div", { class: "explore-words explore-above" });
  const below = html("div", { class: "explore-words" });
  const cells = {};
  const middles = {};

  // Like a line of text: a long word gets more room than a short one.
  function spread(side, row) {
    const wide = state.one[side].map((word) => [...word].length + 1.2);
    const total = sum(wide);
    cells[side] = state.one[side].map((word, i) => {
      const attributes = {
        type: "button",
        "data-side": side,
        "data-i": i,
        style: `flex-grow: ${wide[i]}`,
        "aria-label": `${side === "above" ? "read" : "written"}, ${i + 1}: ${word}`,
      };
      return html("button", attributes, html("span", {}, word), html("span", { class: "explore-share" }));
    });
    middles[side] = wide.map((width, i) => (sum(wide.slice(0, i)) + width / 2) / total);
    row.replaceChildren(...cells[side]);
    return total;
  }
  function walk(event, { side, i }) {
    const row = cells[side];
    const { best } = looks(state.one.weights)[side === "below" ? "rows" : "columns"][i];
    const ways = {
      ArrowLeft: row[i - 1] ?? row[i],
      ArrowRight: row[i + 1] ?? row[i],
      ArrowUp: side === "below" ? cells.above[best] : row[i],
      ArrowDown: side === "above" ? cells.below[best] : row[i],
      Escape: cells.below[0],
    };
    const to = ways[event.key];
    if (!to) return;
    event.preventDefault();
    to.focus();
  }
  function light({ side, i }, wide) {
    const { weights } = state.one;
    const other = side === "below" ? "above" : "below";
    const shares = side === "below" ? weights[i] : weights.map((row) => row[i]);
    for (const button of [...cells.above, ...cells.below]) {
      button.className = button.lastChild.textContent = "";
      button.setAttribute("aria-pressed", button === cells[side][i]);
      button.setAttribute("tabindex", button === cells[state.kept.side][state.kept.i] ? 0 : -1);
    }
    const taken = [];
    const free = (x) => taken.every((place) => Math.abs(place - x) * wide >= ROOM);
    for (const k of downwards(shares)) {
      const x = middles[other][k];
      if (shares[k] < SEEN) cells[other][k].className = "explore-pale";
      else if (free(x)) {
        taken.push(x);
        cells[other][k].lastChild.textContent = short(shares[k]);
      }
    }
  }
  const open = () => Math.max(spread("above", above), spread("below", below)); // how many letters the longer one takes
  return { above, below, middles, open, walk, light };
}

const CSS = `
.explore-scroll { overflow-x: auto; padding: 4px 8px; margin: -4px -8px; }
.explore-drawing {
  min-width: calc(6px * var(--explore-long)); max-width: calc(34px * var(--explore-long));
  font-size: clamp(11px, calc(100cqw / var(--explore-long) / 0.56), 18px);
}
.explore-words { display: flex; user-select: none; margin: 2px 0; }
.explore-words button {
  display: flex; flex: 1 1 0; flex-direction: column; align-items: center; min-width: 0; padding: 0; border: 0; background: none;
  line-height: 1.4; white-space: nowrap; touch-action: manipulation;
}
.explore-above button { flex-direction: column-reverse; }
.explore-words span { padding: 0 0.3em; border-radius: 6px; border: 1px solid transparent; }
.explore-words .explore-share { height: 20px; padding: 0; color: var(--explore-blue); font-size: 12px; }
.explore-words .explore-pale { color: var(--explore-soft); }
[aria-pressed="true"] { font-weight: 700; }
.explore-tools [aria-pressed="true"], [aria-pressed="true"] > span:first-child {
  border-color: var(--explore-blue); background: var(--explore-faint);
}
.explore-fan { height: 150px; }
line { stroke: var(--explore-blue); opacity: 0.13; vector-effect: non-scaling-stroke; }
.explore-lit { opacity: 1; }
&.explore-waiting :is(line:not(.explore-lit), .explore-share) { visibility: hidden; }
&.explore-waiting .explore-words button { color: inherit; font-weight: inherit; }
&.explore-waiting .explore-words span { border-color: transparent; background: none; }
.explore-line { font-size: 15px; }
@container (max-width: 420px) { .explore-line { min-height: 4.2em; } }
`;
