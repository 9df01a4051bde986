// What lights up in the machine: a row from end to end, a column, or what a number is made of.
import { svg } from "../kit.js";
import { IN_A_ROW } from "./walking.js";

// place => the lights, for a drawing and the tables as they are drawn
export function lighting({ boxes, lines, width, marks }, grids, { rows, columns }) {
  const own = String(rows) === String(columns); // or do rows look at other words?
  const filled = (names) => names.filter((name) => grids[name] && boxes[name]);
  const light = (kind, box) => svg("rect", { ...box, class: `explore-${kind}` });
  // Of row i and column j; without i or j, of a whole column or row.
  const cell = (name, i, j) => {
    const [left, top, wide, tall] = boxes[name];
    const [n, m] = [grids[name].length, grids[name][0].length];
    const x = j === undefined ? left : left + (j * wide) / m;
    const y = i === undefined ? top : top + (i * tall) / n;
    return { x, y, width: j === undefined ? wide : wide / m, height: i === undefined ? tall : tall / n };
  };

  // A band from edge to edge, the row of each table, and the arrows from one to the next.
  function ofRow(t) {
    const bands = lines.map(([name]) => {
      const [, top, , tall] = boxes[name];
      return { x: 2, y: top + (t * tall) / rows.length, width: width - 4, height: tall / rows.length };
    });
    const there = filled(IN_A_ROW);
    const pairs = there.slice(1).map((name, k) => [there[k], name]);
    const beside = pairs.filter(([a, b]) => boxes[a][1] === boxes[b][1] && !crosses(a, b, t));
    const ways = beside.map(([a, b]) => way(a, b, t));
    const rest = there.map((name) => light("source", cell(name, t)));
    return [...bands.map((box) => light("band", box)), ...ways, ...rest];
  }
  // Would it run through a word? Steps have their names between the tables, and arrows of their own.
  function crosses(before, after, t) {
    const [a, b] = [cell(before, t), cell(after, t)].sort((one, other) => one.x - other.x);
    const y = a.y + a.height / 2;
    return marks.some(({ kind, at, text, va }) => {
      if (kind !== "write" || !text || at[0] < a.x + a.width || at[0] > b.x) return false;
      const top = at[1] - (va === "top" ? 0 : 6);
      return y > top - 2 && y < top + 12 * text.split("\n").length + 2;
    });
  }
  // From a table's row to that of the next table in line.
  function way(before, after, t) {
    const [a, b] = [cell(before, t), cell(after, t)];
    const y = a.y + a.height / 2;
    const ends = b.x > a.x ? { x1: a.x + a.width + 1, x2: b.x - 1 } : { x1: a.x - 1, x2: b.x + b.width + 1 };
    return svg("line", { ...ends, y1: y, y2: y, class: "explore-way", "marker-end": "url(#explore-tip-light)" });
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
  function ofNumber({ name, i, j }) {
    const lit = sources({ name, i, j })
      .filter(Boolean)
      .map((box) => light("source", box));
    if (name === "weights" && grids.scores) lit.push(light("number", cell("scores", i, j)));
    return [...lit, light("number", cell(name, i, j))];
  }
  function ofColumn(j) {
    const lit = ["key", ...filled(["scores", "weights"])].map((name) => cell(name, undefined, j));
    return [...lit, ...filled(["value"]).map((name) => cell(name, j))].map((box) => light("source", box));
  }
  return (place) => {
    if (place.name) return ofNumber(place);
    if (place.step) {
      const before = IN_A_ROW[IN_A_ROW.indexOf(place.step) - 1];
      return filled([before, place.step]).map((name) => light("source", cell(name)));
    }
    if (place.missing) {
      const [x, y, wide, height] = boxes[place.missing] ?? [0, 0, 0, 0];
      return [light("source", { x, y, width: wide, height })];
    }
    if (place.column !== undefined) return ofColumn(place.column);
    return place.row === undefined ? [] : ofRow(place.row);
  };
}
