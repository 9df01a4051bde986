// Notebook 07: six people in a ring, a card for each arrow. Add givers, subtract receivers: who is left?
import { button, byHand, frame, html, listed, svg } from "./kit.js";

// looked (N) of booleans, one for each card: person i gives to person i + 1 -> how often each gives less receives (N)
export function tally(looked) {
  const N = looked.length;
  return looked.map((sees, i) => sees - looked[(i + N - 1) % N]);
}

const CARD = [54, 25]; // how wide and how high, in units of the drawing
const SIGN = { "-1": "−1", 0: "0", 1: "+1" };

// data: names (N) in the order of the ring, things (N), asker: who asks
export function mount(element, data) {
  const { names, asker } = data;
  const N = names.length;
  let looked = names.map(() => true);
  const ring = circle(data, (i) => look(looked.with(i, !looked[i])));
  const choice = (text, rule) => button(text, () => look(names.map((_, i) => rule(i))));
  const his = (i) => i === asker || (i + 1) % N === asker;
  const { say, remove } = frame(
    element,
    {
      name: "ring",
      css: CSS,
      invitation: `Click cards away until only ${names[asker]}'s friend is left with a plus.`,
    },
    ring.node,
    html("div", { class: "explore-caption" }, byHand("click a card, or press Enter on it, to turn it over")),
    html(
      "div",
      { class: "explore-tools" },
      choice("all cards", () => true),
      choice(`only ${names[asker]}'s card`, (i) => i === asker),
      choice(`the cards without ${names[asker]}`, (i) => !his(i)),
    ),
  );

  function look(to) {
    looked = to;
    show();
  }
  function show() {
    const counts = tally(looked);
    ring.render(looked, counts);
    say(sentence(data, looked, counts));
  }
  show();
  return remove;
}

// The people, and between two of them an arrow with its card, which is turned over.
function circle({ names, things, asker }, turnOver) {
  const place = (i, far) => {
    const angle = (2 * Math.PI * i) / names.length - Math.PI / 2;
    return [200 + far * Math.cos(angle), 160 + far * Math.sin(angle)];
  };
  const arrows = names.map((name, i) => {
    const [x1, y1] = place(i + 0.2, 100);
    const [x2, y2] = place(i + 0.8, 100);
    const turn = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
    const [x, y] = place(i + 0.5, 57);
    const attributes = {
      role: "button",
      tabindex: 0,
      "aria-label": `${name} gives the ${things[i]} to ${names[(i + 1) % names.length]}`,
      class: "explore-arrow",
      onclick: () => turnOver(i),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        turnOver(i);
      },
    };
    return svg(
      "g",
      attributes,
      svg("line", { x1, y1, x2, y2, class: "explore-touch" }),
      svg("line", { x1, y1, x2, y2 }),
      svg("path", { d: "M 0 0 l -12 -6 v 12 z", transform: `translate(${x2} ${y2}) rotate(${turn})` }),
      svg("rect", { x: x - CARD[0] / 2, y: y - CARD[1] / 2, width: CARD[0], height: CARD[1], rx: 5 }),
      svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central" }, things[i]),
    );
  });
  const marks = names.map(() => svg("tspan", { class: "explore-mark" }));
  const people = names.map((name, i) => {
    const [x, y] = place(i, 136);
    const text = { x, y, "text-anchor": "middle", "dominant-baseline": "middle", class: i === asker && "explore-best" };
    return svg("text", text, svg("tspan", {}, `${name} `), marks[i]);
  });
  const render = (looked, counts) => {
    arrows.forEach((arrow, i) => {
      arrow.setAttribute("aria-pressed", looked[i]);
    });
    marks.forEach((mark, i) => {
      mark.textContent = SIGN[counts[i]];
      mark.setAttribute("class", `explore-mark explore-${["minus", "zero", "plus"][counts[i] + 1]}`);
    });
  };
  return { node: svg("svg", { viewBox: "0 0 400 320", class: "explore-circle" }, ...arrows, ...people), render };
}

function sentence({ names, asker }, looked, counts) {
  const n = looked.filter(Boolean).length;
  const who = (sign) => names.filter((_, i) => counts[i] === sign).map((name) => `*${name}*`);
  const [plus, minus] = [who(1), who(-1)];
  const friend = (asker + 1) % names.length;
  const sentences = [`Looked at: ${n} ${n === 1 ? "card" : "cards"}.`];
  if (!plus.length) sentences.push("Everybody cancels, and nobody is left.");
  else sentences.push(`A plus is left for ${listed(plus)}, a minus for ${listed(minus)}.`);
  if (plus.length === 1 && counts[friend] === 1) sentences.push(`That plus is *${names[asker]}*'s friend.`);
  if (counts[friend] === -1) sentences.push("The friend has a *minus*: the one right card is ruled out.");
  return sentences.join(" ");
}

const CSS = `
.explore-circle { max-width: 460px; margin: 0 auto; }
.explore-caption { text-align: center; }
.explore-arrow { cursor: pointer; touch-action: manipulation; }
.explore-arrow line { stroke: var(--explore-ink); stroke-width: 3; }
.explore-arrow .explore-touch { stroke: transparent; stroke-width: 30; }
.explore-arrow path { fill: var(--explore-ink); }
.explore-arrow rect { fill: var(--explore-faint); stroke: var(--explore-soft); }
.explore-arrow:is(:hover, :focus-visible) { outline: none; }
.explore-arrow:is(:hover, :focus-visible) :is(rect, line:not(.explore-touch)) { stroke: var(--explore-blue); }
.explore-arrow:is(:hover, :focus-visible) path { fill: var(--explore-blue); }
.explore-arrow:hover rect { stroke-width: 2; }
.explore-arrow:focus-visible rect { stroke-width: 4; }
.explore-arrow[aria-pressed="false"] :is(line:not(.explore-touch), path) { opacity: 0.25; }
.explore-arrow[aria-pressed="false"] rect { fill: none; stroke-dasharray: 4 3; }
.explore-arrow[aria-pressed="false"] text { fill: var(--explore-soft); text-decoration: line-through; }
.explore-mark { font-weight: 700; }
.explore-plus { fill: var(--explore-blue); }
.explore-minus { fill: var(--explore-red); }
.explore-zero { fill: var(--explore-soft); font-weight: 400; }
`;
