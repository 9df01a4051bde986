// The machine with a sheet for each head: point at a word, and see where each head looks and what they add up to.
import { arrow, decimal, frame, listed, named, svg } from "./kit.js";
import { cells, drawn, fitted, LETTERS, MARKS, MOST, pointIn, reach, writing } from "./machine/drawing.js";

const OF_A_WORD = ["x", "query", "weights", "context", "contribution", "added", "output"]; // tables with a row for each
// As pictures/sheets.py has them: a test compares.
const LOUD = 0.2;
const ALIKE = 0.005;

const kindOf = (name) => name.split(" ")[0];

// The places with the largest weight: one, several that are alike, or none if all are.
function largest(weights) {
  const least = Math.max(...weights) - ALIKE;
  const places = weights.map((_, s) => s).filter((s) => weights[s] > least);
  return places.length < weights.length ? places : [];
}

// The word that lies at a point of the drawing: a row of a table or of the words beside x, or a column of keys.
function wordAt({ boxes, single, room }, words, { x, y }) {
  for (const [name, [left, top, wide, tall]] of Object.entries(boxes)) {
    const kind = kindOf(name);
    const [more, above] = [kind === "x" ? room : 0, kind === "key" ? room : 0];
    if (x < left - more || x >= left + wide || y < top - above || y >= top + tall) continue;
    if (kind === "key") return Math.floor(((x - left) / wide) * words);
    if (kind === "slice" || single.includes(name)) return null;
    return Math.floor(((y - top) / tall) * words);
  }
  return null;
}

// t => what stands out: the row of word t in every table, where each head looks most, and the ways to the sum
function following({ boxes, single, lines, lane, width, tones }, { tables, rows, heads }) {
  const size = LETTERS[width];
  const placeOf = (name, t) => {
    const [left, top, wide, tall] = boxes[name];
    if (single.includes(name)) return [left, top, wide, tall];
    return [left, top + (t * tall) / rows.length, wide, tall / rows.length];
  };
  const rect = (kind, [x, y, wide, tall]) => svg("rect", { x, y, width: wide, height: tall, class: `explore-${kind}` });
  const path = (...points) => {
    const style = { class: "explore-arrow explore-followed", "marker-end": "url(#explore-tip-followed)" };
    return svg("polyline", { points: points.join(" "), ...style });
  };

  function band(line, t) {
    const [first, last] = [placeOf(line[0], t), placeOf(line.at(-1), t)];
    const words = line[0] === "x" ? first[0] - 4 : 4;
    return rect("band", [first[0] - words, first[1], last[0] + last[2] - first[0] + words + 4, first[3]]);
  }
  function rowOf(name, t) {
    const [table, box] = [tables[name], placeOf(name, t)];
    const share = kindOf(name) === "weights";
    const style = {
      strength: 1,
      tone: "followed",
      far: reach(name, table),
      most: share || tones[name].most ? 0 : MOST,
    };
    const [left, top, wide, tall] = box;
    const loud = (share ? table[t] : []).map((weight, s) => {
      const at = [left + ((s + 0.5) * wide) / rows.length, top + tall / 2];
      return weight >= LOUD && writing({ tone: "followed explore-loud", at, text: decimal(weight) }, size);
    });
    return [
      rect("paper", box),
      ...cells(name, [table[t]], box, style, size),
      rect("around", box),
      ...loud.filter(Boolean),
    ];
  }
  function look(h, t) {
    const [left, top, wide, tall] = boxes[`key ${h}`];
    return largest(tables[`weights ${h}`][t]).flatMap((s) => {
      const key = rect("found", [left + (s * wide) / rows.length, top, wide / rows.length, tall]);
      return boxes[`value ${h}`] ? [key, rect("found", placeOf(`value ${h}`, s))] : [key];
    });
  }
  function way(before, after, between, t) {
    const [a, b] = [placeOf(before, t), placeOf(after, t)];
    const [start, stop] = [a[1] + a[3] / 2, b[1] + b[3] / 2];
    const end = between > b[0] ? b[0] + b[2] + 2 : b[0] - 2;
    return path([a[0] + a[2] + 2, start], [between, start], [between, stop], [end, stop]);
  }
  return (t) => {
    const there = Object.keys(boxes).filter((name) => OF_A_WORD.includes(kindOf(name)));
    const ways = heads.flatMap((_, k) => {
      const back = way(`contribution ${k + 1}`, `added ${k + 1}`, lane, t);
      if (boxes.x[1] !== boxes["query 1"][1]) return [back]; // on a phone x lies above, and only an arrow leads down
      const [left, , wide] = boxes.x;
      return [way("x", `query ${k + 1}`, (left + wide + boxes["query 1"][0] - 10) / 2, t), back];
    });
    const looks = heads.flatMap((_, k) => look(k + 1, t));
    return [...lines.map((line) => band(line, t)), ...ways, ...there.flatMap((name) => rowOf(name, t)), ...looks];
  };
}

// t => what is said: where each head looks, and the sum for each number
function saying({ tables, rows, numbers, heads }) {
  const word = named(rows);
  function looks(h, t) {
    const weights = tables[`weights ${h}`][t];
    const to = largest(weights);
    const who = `Head ${h} (${heads[h - 1]}) looks`;
    if (!to.length) return `${who} at all words alike.`;
    return `${who} most at ${listed(to.map(word))}, ${decimal(weights[to[0]])}${to.length > 1 ? " each" : ""}.`;
  }
  return (t) => {
    const sums = numbers.map((name, c) => {
      const parts = heads.map((_, k) => decimal(tables[`contribution ${k + 1}`][t][c]));
      return `${name} ${parts.join(" + ")} = ${decimal(tables.output[t][c])}`;
    });
    return `${word(t)}: ${heads.map((_, k) => looks(k + 1, t)).join(" ")} Added up: ${sums.join("; ")}.`;
  };
}

export function mount(element, data) {
  const says = saying(data);
  const invitation = "Point at a word: where does each head look, and what do the heads add up to?";
  const attributes = {
    class: "explore-board",
    tabindex: 0,
    role: "application",
    "aria-label": "the machine with its heads: up and down go from word to word, Escape goes back to the start",
    onpointermove: (event) => event.pointerType === "mouse" && show(at(event)),
    onpointerdown: (event) => show(at(event)),
    onpointerleave: (event) => event.pointerType === "mouse" && document.activeElement !== board && show(data.follow),
    onkeydown: step,
  };
  const board = svg("svg", attributes);
  const lights = svg("g", {});
  const { say, remove } = frame(element, { name: "sheets", css: CSS, invitation }, board);
  let [drawing, light, word] = [null, null, data.follow];

  const at = (event) => {
    return wordAt(drawing, data.rows.length, pointIn(board, event)) ?? word;
  };
  function step(event) {
    const [down] = arrow(event);
    if (event.key === "Escape") return show(data.follow);
    if (!down) return;
    event.preventDefault();
    show(Math.max(0, Math.min(data.rows.length - 1, word + down)));
  }
  function show(t) {
    word = t;
    lights.replaceChildren(...light(t));
    say(says(t));
  }
  const leave = fitted(board, data.drawings, (fitting) => {
    drawing = fitting;
    light = following(drawing, data);
    const whole = Object.entries(data.tables).filter(([name]) => !drawing.single.includes(name));
    board.replaceChildren(...drawn(drawing, Object.fromEntries(whole), {}, lights));
    show(word);
  });
  return () => {
    leave();
    remove();
  };
}

const CSS = `${MARKS}
.explore-board { max-width: 1000px; cursor: crosshair; touch-action: pan-y pinch-zoom; }
.explore-line { min-height: 5.6em; font-size: 15px; }
.explore-arrow.explore-followed { stroke: var(--explore-ink); stroke-width: 2.2; }
.explore-band { fill: light-dark(#fbe9b7, #4a3d14); }
.explore-paper { fill: var(--explore-paper); }
.explore-around { fill: none; stroke: var(--explore-ink); stroke-width: 2.2; }
.explore-text.explore-loud { stroke: light-dark(transparent, var(--explore-paper)); stroke-width: 2px; font-weight: 400; }
.explore-found { fill: none; stroke: var(--explore-ink); stroke-width: 1.6; }
`;
