// The machine that answers: point at a word or a number of the drawing, and it says where that comes from.
import { arrow, decimal, frame, html, named, sum, svg } from "./kit.js";

const IN_A_ROW = ["x", "query", "scores", "weights", "context", "output"];
const ABOVE = { key: "scores", mask: "weights", value: "context" }; // what stands above what
const BUILT_IN = {
  x: "01",
  scores: "01",
  weights: "02",
  context: "02",
  query: "03",
  key: "03",
  value: "03",
  mask: "04",
  output: "06",
};
const NEAR = 0.01; // how far what is computed from rounded numbers may lie from what PyTorch computed

const near = (a, b) => Math.abs(a - b) <= NEAR * Math.max(1, Math.abs(b));
const transposed = (table) => table[0].map((_, j) => table.map((row) => row[j]));
// Powers of e may be tiny or huge.
function power(x) {
  if (x >= 0.1 && x < 10_000) return decimal(x);
  return x.toPrecision(3).replace(/e\+?(-?)(\d+)/, (_, sign, n) => ` · 10^${sign && "−"}${n}`);
}

// ---------------------------------------------------------------- what it says
// `data` as pictures/machine.py makes it -> functions of places, whose sentences have *emphasis* between stars
export function answers({ rows, columns, tables, alone, kept }) {
  const word = named(rows);
  const other = named(columns);
  const own = String(rows) === String(columns); // or do rows look at other words?
  const allowed = (t, s) => !tables.mask || tables.mask[t][s] === 1;
  const open_to = (t) => columns.map((_, s) => s).filter((s) => allowed(t, s));
  const looked_at = tables.weights ? "weights" : tables.scores ? "scores" : null;
  const share_of = (t, s) => Math.exp(tables.scores[t][s]) / sum(open_to(t).map((i) => Math.exp(tables.scores[t][i])));
  const the_largest = (places, of) => places.reduce((a, b) => (of(b) > of(a) ? b : a));
  const dropped = kept && tables.scores ? scale() : 1;

  // By what dropout has multiplied all that it kept, read off where it can be read best.
  function scale() {
    const pairs = rows.flatMap((_, t) => open_to(t).map((s) => [t, s])).filter(([t, s]) => kept[t][s]);
    if (!pairs.length) return 1;
    const [t, s] = the_largest(pairs, ([t, s]) => tables.weights[t][s]);
    return tables.weights[t][s] / share_of(t, s);
  }
  // What is said of a row: its word looks.
  function of_row(t) {
    if (!looked_at) return `${word(t)}: its row would run through every table, from left to right.`;
    const open = open_to(t);
    const here = `${word(t)} looks: follow its row from left to right.`;
    if (!open.length) return `${here} The mask lets it look at nobody.`;
    const s = the_largest(open, (s) => tables[looked_at][t][s]);
    const most = tables[looked_at][t][s];
    if (looked_at === "weights" && most === 0) {
      return `${here} It gives nothing to anybody${kept ? ": dropout has dropped its whole row" : ""}.`;
    }
    const rest = tables.context ? " What it takes home is its row of context." : "";
    return looked_at === "weights"
      ? `${here} It gives its largest share, ${decimal(most)}, to ${other(s)}.${rest}`
      : `${here} It has its highest score, ${decimal(most)}, with ${other(s)}.${rest}`;
  }
  // What is said of a column: its word is looked at.
  function of_column(s) {
    if (!looked_at) return `${other(s)} is looked at: all rows meet its key.`;
    const open = rows.map((_, t) => t).filter((t) => allowed(t, s));
    if (!open.length) return `${other(s)}: the mask lets nobody look at it.`;
    const t = the_largest(open, (t) => tables[looked_at][t][s]);
    const most = decimal(tables[looked_at][t][s]);
    const what = looked_at === "weights" ? `gives it the most, ${most}` : `fits it best, with a score of ${most}`;
    return `${other(s)} is looked at: its column meets every row. ${word(t)} ${what}.`;
  }
  // In words "a × b + c × d", the largest first where there are many.
  function products(left, right, names) {
    const terms = left.map((a, i) => ({
      size: Math.abs(a * right[i]),
      text: `${decimal(a)} × ${decimal(right[i])}${names ? ` from ${names[i]}` : ""}`,
    }));
    const joined = (some) => some.map(({ text }) => text).join(" + ");
    if (terms.length <= 4) return joined(terms);
    terms.sort((a, b) => b.size - a.size);
    return `${joined(terms.slice(0, 3))} + ${terms.length - 3} smaller products`;
  }

  function of_projection(name, t, d) {
    const who = name === "query" ? word(t) : other(t);
    const does = { query: "asks", key: "offers", value: "says" }[name];
    const here = decimal(tables[name][t][d]);
    const n = tables[name][t].length;
    if (alone.includes(name)) {
      return `${here}: nothing is projected yet, so ${who} ${does} its own vector, x. This is its number ${d + 1}.`;
    }
    const what = `${here}: what ${who} ${does}, number ${d + 1} of ${n}.`;
    if (tables.x && (own || name === "query")) {
      return `${what} It is the row of ${who} in x, times column ${d + 1} of the matrix W_${name}.`;
    }
    return `${what} Column ${d + 1} of the matrix W_${name} made it.`;
  }
  function of_score(t, s) {
    const score = tables.scores[t][s];
    const { query, key } = tables;
    const asks = `${decimal(score)}: how well ${word(t)} and ${other(s)} fit.`;
    if (!query || !key) return asks;
    const dot = sum(query[t].map((q, d) => q * key[s][d]));
    const D = query[t].length;
    const divided = dot / D ** 0.5;
    const is_divided = Math.abs(divided - score) < Math.abs(dot - score);
    if (!near(is_divided ? divided : dot, score)) return asks;
    const row_times_column = `${asks} Row times column: ${products(query[t], key[s])} = `;
    return is_divided
      ? `${row_times_column}${decimal(dot)}, and divided by √${D} that is ${decimal(score)}.`
      : `${row_times_column}${decimal(score)}.`;
  }
  function of_weight(t, s) {
    const weight = tables.weights[t][s];
    const share = `${decimal(weight)}: the share that ${word(t)} gives to ${other(s)}.`;
    if (!allowed(t, s)) {
      return `0: the mask forbids ${word(t)} to look at ${other(s)}${s > t && own ? ", which comes later" : ""}.`;
    }
    if (kept && !kept[t][s]) {
      return `0: ${word(t)} would look at ${other(s)}, but the coin said no: dropout has dropped this weight.`;
    }
    if (!tables.scores || !near(share_of(t, s) * dropped, weight)) return share;
    const e = Math.exp(tables.scores[t][s]);
    const whole = e / share_of(t, s);
    const which = tables.mask ? "that the mask allows in its row" : "in its row";
    const raised = `e^${decimal(tables.scores[t][s], 3)} = ${power(e)}`;
    const made = `${share} ${raised}, divided by the sum of all such powers ${which}, ${power(whole)}`;
    if (near(dropped, 1)) return `${made}.`;
    return (
      `${made}, is ${decimal(share_of(t, s))}; ` +
      `dropout has kept it and multiplied it by ${decimal(dropped)}, to make up for what it drops.`
    );
  }
  function of_context(t, d) {
    const { weights, value } = tables;
    const context = tables.context[t][d];
    const what = `${decimal(context)}: number ${d + 1} of what ${word(t)} takes home`;
    if (!weights || !value) return `${what}.`;
    const from = columns.map((_, s) => s).filter((s) => weights[t][s] !== 0);
    if (!from.length) return `${what}, and nothing is left to mix.`;
    if (!near(sum(from.map((s) => weights[t][s] * value[s][d])), context)) return `${what}.`;
    const shares = from.map((s) => weights[t][s]);
    const values = from.map((s) => value[s][d]);
    return `${what}, a mixture: ${products(shares, values, from.map(other))}.`;
  }
  // Row i and column j of a table as it is DRAWN: the key stands on its side.
  function of_number(name, i, j) {
    if (name === "query" || name === "value") return of_projection(name, i, j);
    if (name === "key") return of_projection("key", j, i);
    if (name === "scores") return of_score(i, j);
    if (name === "weights") return of_weight(i, j);
    if (name === "context") return of_context(i, j);
    if (name === "mask") {
      return allowed(i, j)
        ? `${word(i)} may look at ${other(j)}.`
        : `${word(i)} may not look at ${other(j)}: it must guess without it.`;
    }
    const here = decimal(tables[name][i][j]);
    if (name === "x") return `${here}: number ${j + 1} of the ${tables.x[i].length} that stand for ${word(i)}.`;
    const leaves = `number ${j + 1} of what leaves the layer at ${word(i)}`;
    return `${here}: ${leaves}, after all heads are put side by side and multiplied by W_out.`;
  }
  const steps = {
    query: "*W_query*: each row of x, times this matrix, becomes what the word asks.",
    weights: "*softmax*: each score s becomes e^s, and each row is divided by its sum, so that it adds up to 1.",
  };
  const missing = (name) => `*${name}*: an outline, without numbers here. Notebook ${BUILT_IN[name]} builds it.`;
  return { of_row, of_column, of_number, missing, steps };
}

// ---------------------------------------------------------------- the drawing
export function mount(element, data, picture = []) {
  const { rows, columns, boxes, tables, height, follow } = data;
  const grids = { ...tables };
  if (grids.key) grids.key = transposed(grids.key); // as it is drawn
  const says = answers(data);
  const own = String(rows) === String(columns);

  const lights = svg("g", {});
  const start = () => {
    if (follow !== null) return { row: follow };
    return grids.weights || grids.scores ? { row: 0 } : {};
  };
  const tip = svg("path", { d: "M0 0L8 4L0 8z", class: "explore-arrowhead" });
  const marker = { id: "explore-head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5 };
  const heads = svg("defs", {}, svg("marker", { ...marker, orient: "auto" }, tip));
  const attributes = {
    viewBox: `0 0 700 ${height}`,
    class: "explore-board",
    tabindex: 0,
    role: "application",
    "aria-label": "the machine: move with the arrow keys, Escape goes back to the start",
    onpointermove: hover,
    onpointerdown: (event) => show(at(event)),
    onpointerleave: (event) => event.pointerType === "mouse" && document.activeElement !== board && show(start()),
    onkeydown: walk,
  };
  const board = svg("svg", attributes, heads, lights);
  const invitation = "Point at a word or a number, or move with the arrow keys: where does it come from?";
  const drawing = html("div", { class: "explore-drawing" });
  const { say, remove } = frame(element, { name: "machine", css: CSS, invitation }, drawing);
  drawing.append(...picture.map((node) => node.cloneNode(true)), board);
  let place = {};

  const inside = (value, from, size) => value >= from && value < from + size;
  const size_of = (name) => [grids[name]?.length ?? 0, grids[name]?.[0].length ?? 0];
  // Of row i and column j; without i or j, of a whole column or row.
  const cell = (name, i, j) => {
    const [left, top, wide, tall] = boxes[name];
    const [n, m] = size_of(name);
    const x = j === undefined ? left : left + (j * wide) / m;
    const y = i === undefined ? top : top + (i * tall) / n;
    return { x, y, width: j === undefined ? wide : wide / m, height: i === undefined ? tall : tall / n };
  };
  const end_before = (name) => {
    const [left, , wide] = boxes[IN_A_ROW[IN_A_ROW.indexOf(name) - 1]];
    return left + wide;
  };

  // What lies under the pointer.
  function at(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(board.getScreenCTM().inverse());
    for (const [name, [left, top, wide, tall]] of Object.entries(boxes)) {
      if (!inside(point.x, left, wide) || !inside(point.y, top, tall)) continue;
      if (!grids[name]) return { missing: name };
      const [n, m] = size_of(name);
      return { name, i: Math.floor(((point.y - top) / tall) * n), j: Math.floor(((point.x - left) / wide) * m) };
    }
    const [left, top, , tall] = boxes.x;
    const [from, roof, wide] = boxes.key;
    if (inside(point.y, top, tall)) {
      const step = Object.keys(says.steps).find((name) => point.x < boxes[name][0] && point.x > end_before(name));
      if (step && grids[step] && !data.alone.includes(step)) return { step };
      return { row: Math.floor(((point.y - top) / tall) * rows.length) };
    }
    if (grids.key && inside(point.x, from, wide) && inside(point.y, roof - left, left)) {
      return { column: Math.floor(((point.x - from) / wide) * columns.length) };
    }
    return start();
  }
  function hover(event) {
    if (event.pointerType === "mouse") show(at(event));
  }

  // With the arrow keys one walks as the drawing lies: along a row, and from a table to the one above it or below it.
  function walk(event) {
    const [down, right] = arrow(event);
    if (event.key === "Escape") return show(start());
    if (down === undefined) return;
    event.preventDefault();
    show(right ? sideways(right) : upright(down));
  }
  const filled = (names) => names.filter((name) => grids[name]);
  function sideways(by) {
    const upper = place.name in ABOVE;
    const line = upper ? filled(Object.keys(ABOVE)) : filled(IN_A_ROW);
    if (place.row !== undefined || !place.name) {
      return by > 0 && line.length ? { name: line[0], i: place.row ?? 0, j: 0 } : { row: place.row ?? 0 };
    }
    const j = place.j + by;
    if (j >= 0 && j < size_of(place.name)[1]) return { ...place, j };
    const next = line[line.indexOf(place.name) + by];
    if (!next) return by < 0 && !upper ? { row: place.i } : place;
    return { name: next, i: Math.min(place.i, size_of(next)[0] - 1), j: by > 0 ? 0 : size_of(next)[1] - 1 };
  }
  function upright(by) {
    if (!place.name) return { row: Math.max(0, Math.min(rows.length - 1, (place.row ?? -by) + by)) };
    const i = place.i + by;
    const next = by < 0 ? Object.keys(ABOVE).find((name) => ABOVE[name] === place.name) : ABOVE[place.name];
    if (i >= 0 && i < size_of(place.name)[0]) return { ...place, i };
    if (!grids[next]) return place;
    return { name: next, i: by < 0 ? size_of(next)[0] - 1 : 0, j: Math.min(place.j, size_of(next)[1] - 1) };
  }

  // ------------------------------------------------------------ light
  const light = (kind, box) => svg("rect", { ...box, class: `explore-${kind}` });
  // A band from edge to edge, the row of each table, and the arrows from one to the next.
  function lights_of_row(t) {
    const there = filled(IN_A_ROW);
    const [, top, , tall] = boxes.x;
    const y = top + ((t + 0.5) * tall) / rows.length;
    const lit = [light("band", { x: 2, y: top + (t * tall) / rows.length, width: 696, height: tall / rows.length })];
    lit.push(...there.map((name) => light("source", cell(name, t))));
    for (let k = 1; k < there.length; k++) {
      const [left, , wide] = boxes[there[k - 1]];
      const ends = { x1: left + wide + 1, x2: boxes[there[k]][0] - 1, y1: y, y2: y };
      lit.push(svg("line", { ...ends, class: "explore-way", "marker-end": "url(#explore-head)" }));
    }
    return lit;
  }
  // The rows and columns that a number is made of.
  function sources({ name, i, j }) {
    if (name === "query") return [grids.x && cell("x", i)];
    if (name === "key") return [grids.x && own && cell("x", j)];
    if (name === "value") return [grids.x && own && cell("x", i)];
    if (name === "scores") return [grids.query && cell("query", i), grids.key && cell("key", undefined, j)];
    if (name === "weights") return [grids.scores && cell("scores", i), grids.mask && cell("mask", i)];
    if (name === "context") return [grids.weights && cell("weights", i), grids.value && cell("value", undefined, j)];
    if (name === "output") return [grids.context && cell("context", i)];
    return [];
  }
  // The picture has the row of one word lit for ever: where another one is pointed at, it is veiled.
  function veil() {
    if (follow === null) return [];
    const [, top, , tall] = boxes.x;
    const y = top + (follow * tall) / rows.length;
    const ends = IN_A_ROW.map((name) => boxes[name]);
    const gaps = ends.map(([left, , wide], k) => [left + wide + 1, (ends[k + 1]?.[0] ?? 700) - 1]);
    const band = gaps.map(([from, to]) => light("veil", { x: from, y, width: to - from, height: tall / rows.length }));
    return [...band, ...filled(IN_A_ROW).map((name) => light("veiled", cell(name, follow)))];
  }
  function show(next) {
    place = next;
    draw(next);
    if (next.row !== follow) lights.prepend(...veil());
  }
  function draw(next) {
    if (next.name) {
      const boxes_of = sources(next).filter(Boolean);
      const made_of = boxes_of.map((box) => light("source", box));
      if (next.name === "weights" && grids.scores) made_of.push(light("number", cell("scores", next.i, next.j)));
      lights.replaceChildren(...made_of, light("number", cell(next.name, next.i, next.j)));
      say(says.of_number(next.name, next.i, next.j));
    } else if (next.step) {
      const before = IN_A_ROW[IN_A_ROW.indexOf(next.step) - 1];
      lights.replaceChildren(...filled([before, next.step]).map((name) => light("source", cell(name))));
      say(says.steps[next.step]);
    } else if (next.missing) {
      const [x, y, width, tall] = boxes[next.missing];
      lights.replaceChildren(light("source", { x, y, width, height: tall }));
      say(says.missing(next.missing));
    } else if (next.column !== undefined) {
      const columns_of = ["key", ...filled(["scores", "weights"])].map((name) => cell(name, undefined, next.column));
      const says_it = grids.value ? [cell("value", next.column)] : [];
      lights.replaceChildren(...[...columns_of, ...says_it].map((box) => light("source", box)));
      say(says.of_column(next.column));
    } else if (next.row !== undefined) {
      lights.replaceChildren(...lights_of_row(next.row));
      say(says.of_row(next.row));
    } else {
      lights.replaceChildren();
      say("All of it is an outline here: point at a part to hear which notebook builds it.");
    }
  }
  show(start());
  return remove;
}

const CSS = `
.explore-drawing { position: relative; max-width: 1000px; }
img { display: block; width: 100%; height: auto; margin: 0; background: #ffffff; border-radius: 4px; }
.explore-board { position: absolute; inset: 0; width: 100%; height: 100%; cursor: crosshair; touch-action: pan-y pinch-zoom; }
.explore-line { min-height: 4.2em; font-size: 15px; }
.explore-band { fill: #0072b2; opacity: 0.1; }
.explore-veil { fill: #ffffff; opacity: 0.65; }
.explore-veiled { fill: none; stroke: #ffffff; stroke-width: 2.6; opacity: 0.75; }
.explore-source { fill: #0072b2; fill-opacity: 0.12; stroke: #0072b2; stroke-width: 2; }
.explore-number { fill: none; stroke: #b34700; stroke-width: 3.5; }
.explore-way { stroke: #0072b2; stroke-width: 2.5; }
.explore-arrowhead { fill: #0072b2; }
`;
