// The machine that answers: point at a word or a number of the drawing, and it says where that comes from.
import { arrow, byHand, frame, svg } from "./kit.js";
import { answers } from "./machine/answers.js";
import { drawn, fitted, MARKS, pointIn } from "./machine/drawing.js";
import { lighting } from "./machine/lighting.js";
import { walking } from "./machine/walking.js";

const transposed = (table) => table[0].map((_, j) => table.map((row) => row[j]));
const inside = (value, from, size) => value >= from && value < from + size;

// What lies at a point of the drawing: a number, a missing table, a step, a row or a column; nothing elsewhere.
function placeAt({ boxes, lines }, grids, data, steps, { x, y }) {
  for (const [name, [left, top, wide, tall]] of Object.entries(boxes)) {
    if (!inside(x, left, wide) || !inside(y, top, tall)) continue;
    if (!grids[name]) return { missing: name };
    const [n, m] = [grids[name].length, grids[name][0].length];
    return { name, i: Math.floor(((y - top) / tall) * n), j: Math.floor(((x - left) / wide) * m) };
  }
  for (const line of lines) {
    const [, top, , tall] = boxes[line[0]];
    if (!inside(y, top, tall)) continue;
    const step = line.find((name, k) => {
      if (!k || !steps[name] || !grids[name] || data.alone.includes(name)) return false;
      const [before] = boxes[line[k - 1]];
      return x > before + boxes[line[k - 1]][2] && x < boxes[name][0];
    });
    return step ? { step } : { row: Math.floor(((y - top) / tall) * data.rows.length) };
  }
  const [from, roof, wide] = boxes.key;
  if (grids.key && inside(x, from, wide) && y < roof && y > roof - 90) {
    return { column: Math.floor(((x - from) / wide) * data.columns.length) };
  }
  return null;
}

export function mount(element, data) {
  const grids = { ...data.tables };
  if (grids.key) grids.key = transposed(grids.key); // as it is drawn
  const says = answers(data);
  const invitation = "Point at a word or a number: where does it come from?";
  const attributes = {
    class: "explore-board",
    tabindex: 0,
    role: "application",
    "aria-label": "the machine: move with the arrow keys, Escape goes back to the start",
    onpointermove: (event) => event.pointerType === "mouse" && show(at(event)),
    onpointerdown: (event) => show(at(event)),
    onpointerleave: (event) => event.pointerType === "mouse" && document.activeElement !== board && show(start()),
    onkeydown: step,
  };
  const board = svg("svg", attributes);
  const lights = svg("g", {});
  const { say, remove } = frame(element, { name: "machine", css: CSS, invitation }, board);
  const walk = walking(grids, data.rows.length);
  let drawing = null;
  let light = null;
  let place = {};

  const start = () => {
    if (data.follow !== null) return { row: data.follow };
    return grids.weights || grids.scores ? { row: 0 } : {};
  };
  const at = (event) => {
    return placeAt(drawing, grids, data, says.steps, pointIn(board, event)) ?? start();
  };
  function step(event) {
    const [down, right] = arrow(event);
    if (event.key === "Escape") return show(start());
    if (down === undefined) return;
    event.preventDefault();
    show(right ? walk.sideways(place, right) : walk.upright(place, down));
  }
  function show(next) {
    place = next;
    lights.replaceChildren(...light(next));
    // The drawing follows one row; where another one is pointed at, it does not.
    board.classList.toggle("explore-elsewhere", next.row !== data.follow);
    say(sentence(next));
  }
  function sentence({ name, i, j, step, missing, column, row }) {
    if (name) return says.ofNumber(name, i, j);
    if (step) return says.steps[step];
    if (missing) return says.missing(missing);
    if (column !== undefined) return says.ofColumn(column);
    if (row !== undefined) return says.ofRow(row);
    return byHand("All of it is an outline here: point at a part to hear which notebook builds it.");
  }
  place = start();
  const leave = fitted(board, data.drawings, (fitting) => {
    drawing = fitting;
    light = lighting(drawing, grids, data);
    board.replaceChildren(...drawn(drawing, grids, { mask: grids.mask, kept: data.kept }, lights));
    show(place);
  });
  return () => {
    leave();
    remove();
  };
}

const CSS = `${MARKS}
.explore-board { max-width: 1000px; cursor: crosshair; touch-action: pan-y pinch-zoom; }
.explore-line { min-height: 4.2em; font-size: 15px; }
.explore-elsewhere .explore-frame.explore-followed { display: none; }
.explore-elsewhere .explore-text.explore-followed { font-weight: 400; }
.explore-band { fill: var(--explore-blue); opacity: 0.12; }
.explore-source { fill: var(--explore-blue); fill-opacity: 0.12; stroke: var(--explore-blue); stroke-width: 2; }
.explore-number { fill: none; stroke: var(--explore-red); stroke-width: 3; }
.explore-way { stroke: var(--explore-blue); stroke-width: 2.2; fill: none; }
`;
