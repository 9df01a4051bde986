// The machine as it lies there: what pictures/machine.py has marked, and its tables, in the colours of explorers.
import { decimal, svg } from "../kit.js";

export const LETTERS = { 700: [9.4, 10.8], 350: [10.4, 11.6] }; // small and large, in units, by the drawing's width
// As pictures/marks.py and plotting.py have them: a test compares.
const GREENEST = 0.6;
const OF_A_MASK = 6;
export const MOST = 6;
const EM = 0.58; // how wide a digit is
const STRONG = 0.58; // on a colour as opaque as that, black is read best, in the dark too
const ANCHORS = { left: "start", center: "middle", right: "end" };
const BASELINES = { top: "hanging", center: "central", bottom: "auto" };

export function writing({ tone, at: [x, y], text, ha = "center", va = "center", large, turned }, size) {
  const lines = text.split("\n").map((line, i) => svg("tspan", { x, dy: i ? "1.25em" : 0 }, line));
  const attributes = {
    x,
    y,
    class: `explore-text explore-${tone}`,
    "font-size": size[large ? 1 : 0],
    "text-anchor": turned ? "start" : ANCHORS[ha],
    "dominant-baseline": turned ? "central" : BASELINES[va],
  };
  return svg("text", turned ? { ...attributes, transform: `rotate(-90 ${x} ${y})` } : attributes, ...lines);
}

const boxOf = ({ tone, fill, box: [x, y, width, height] }) =>
  svg("rect", { x, y, width, height, class: `explore-frame explore-${tone} explore-fill-${fill}` });

const arrowOf = ({ tone, path }) =>
  svg("polyline", {
    points: path.join(" "),
    class: `explore-arrow explore-${tone}`,
    "marker-end": `url(#explore-tip-${tone})`,
  });

const MAKE = { write: writing, frame: boxOf, arrow: arrowOf };

// Numbers with as many decimals as fit: of all cells, or of none.
function numerals(table, width, height, size, most) {
  if (Math.max(table.length, table[0].length) > most || height < size) return null;
  const whole = table.flat().every(Number.isInteger);
  for (const digits of whole ? [0] : [2, 1]) {
    const texts = table.map((row) => row.map((x) => decimal(x, digits)));
    if (texts.flat().every((number) => number.length * EM * size < width - 1)) return texts;
  }
  return null;
}

// As far as colours go in a table.
export function reach(name, table) {
  if (name === "mask") return OF_A_MASK;
  return name.startsWith("weights") ? GREENEST : 1.5 * Math.max(...table.flat().map(Math.abs), 1e-9);
}

// A table's cells: blue above zero, red below; weights and masks green; what is forbidden is hatched. Numbers are
// written in tables of up to `most` rows and columns.
export function cells(name, table, [left, top, wide, tall], style, size) {
  const { strength, tone, allowed, kept, most = MOST, far = reach(name, table) } = style;
  const [width, height] = [wide / table[0].length, tall / table.length];
  const share = name.startsWith("weights") || name === "mask";
  const numbers = name === "mask" ? null : numerals(table, width, height, size[0], most);
  // A small share, too, must stand out from the ground.
  const opaque = (x) => Math.min(1, Math.abs(x) / far) ** (share ? 0.7 : 1) * strength;
  const color = (x) => {
    if (x === 0) return { class: "explore-cell explore-nothing" };
    return { class: `explore-cell explore-${share ? "share" : x > 0 ? "plus" : "minus"}`, opacity: opaque(x) };
  };
  return table.flatMap((row, i) =>
    row.flatMap((x, j) => {
      const box = { x: left + j * width, y: top + i * height, width, height };
      const [middle, centre] = [box.x + width / 2, box.y + height / 2];
      if (share && allowed && !allowed[i][j]) return [svg("rect", { ...box, fill: "url(#explore-hatch)" })];
      const dropped = name === "weights" && kept && !kept[i][j];
      const what = dropped ? "×" : numbers?.[i][j];
      const cell = svg("rect", { ...box, ...(dropped ? { class: "explore-cell explore-dropped" } : color(x)) });
      if (what === undefined) return [cell];
      const ink = `explore-number-of${!dropped && opaque(x) > STRONG ? " explore-strong" : ""}`;
      return [cell, writing({ tone: `${tone} ${ink}`, at: [middle, centre], text: what }, size)];
    }),
  );
}

function definitions() {
  const tip = (tone) => {
    const size = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9 };
    const marker = { id: `explore-tip-${tone}`, ...size, markerUnits: "userSpaceOnUse", orient: "auto" };
    return svg("marker", marker, svg("path", { d: "M0 0L8 4L0 8z", class: `explore-head explore-${tone}` }));
  };
  const hatch = { id: "explore-hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse" };
  const stroke = svg("path", { d: "M-1 1L1 -1M0 5L5 0M4 6L6 4", class: "explore-hatching" });
  return svg("defs", {}, ...["lit", "known", "missing", "light", "followed"].map(tip), svg("pattern", hatch, stroke));
}

// `lights` lie above the tables and below all writing, so that no word is struck out.
export function drawn({ width, marks, boxes, tones }, tables, { mask, kept }, lights) {
  const size = LETTERS[width];
  const made = (above) => marks.filter((mark) => mark.above === above).map((mark) => MAKE[mark.kind](mark, size));
  const filled = Object.entries(tables).filter(([name]) => boxes[name]);
  const all = filled.flatMap(([name, table]) => {
    return cells(name, table, boxes[name], { ...tones[name], allowed: mask, kept }, size);
  });
  const [numbers, colors] = [true, false].map((wanted) => all.filter((node) => (node.tagName === "text") === wanted));
  return [definitions(), ...made(false), ...colors, lights, ...made(true), ...numbers];
}

// How all marks look.
export const MARKS = `
.explore-text { paint-order: stroke; stroke: var(--explore-paper); stroke-width: 3px; stroke-linejoin: round; fill: var(--explore-ink); }
.explore-text.explore-known, .explore-text.explore-missing { fill: var(--explore-soft); }
.explore-text.explore-lit, .explore-text.explore-followed { font-weight: 700; }
.explore-text.explore-followed { stroke: none; }
.explore-text.explore-number-of { stroke: none; fill: var(--explore-ink); font-weight: 400; }
.explore-text.explore-strong { fill: #000; }
.explore-frame { fill: none; stroke: none; }
.explore-fill-paper { fill: var(--explore-paper); }
.explore-fill-band { fill: light-dark(#fbe9b7, #4a3d14); }
.explore-fill-none.explore-known, .explore-fill-none.explore-missing, .explore-arrow { stroke: var(--explore-soft); stroke-width: 1.2; }
.explore-fill-none.explore-missing, .explore-arrow.explore-missing { stroke: var(--explore-line); }
.explore-fill-none.explore-lit, .explore-arrow.explore-lit { stroke: var(--explore-red); stroke-width: 2.6; }
.explore-fill-none.explore-followed { stroke: var(--explore-ink); stroke-width: 2.2; }
.explore-arrow { fill: none; }
.explore-head { fill: var(--explore-soft); }
.explore-head.explore-missing { fill: var(--explore-line); }
.explore-head.explore-lit { fill: var(--explore-red); }
.explore-head.explore-light { fill: var(--explore-blue); }
.explore-head.explore-followed { fill: var(--explore-ink); }
.explore-cell { stroke: var(--explore-paper); stroke-width: 0.6; }
.explore-plus { fill: var(--explore-blue); }
.explore-minus { fill: var(--explore-red); }
.explore-share { fill: var(--explore-green); }
.explore-nothing { fill: var(--explore-faint); }
.explore-dropped { fill: none; stroke: var(--explore-line); }
.explore-hatching { stroke: var(--explore-line); stroke-width: 1.2; }
`;

// Where in the drawing a pointer is.
export const pointIn = (board, event) =>
  new DOMPoint(event.clientX, event.clientY).matrixTransform(board.getScreenCTM().inverse());

const STACKED_BELOW = 560; // pixels

// Have `draw` make one of two drawings, and anew where the room has become narrow or wide; returns what ends that.
export function fitted(board, [wide, narrow], draw) {
  let drawing = null;
  function fit() {
    const fitting = board.clientWidth && board.clientWidth < STACKED_BELOW ? narrow : wide;
    if (fitting === drawing) return;
    drawing = fitting;
    board.setAttribute("viewBox", `0 0 ${drawing.width} ${drawing.height}`);
    draw(drawing);
  }
  fit();
  const observer = new ResizeObserver(fit);
  observer.observe(board);
  return () => observer.disconnect();
}
