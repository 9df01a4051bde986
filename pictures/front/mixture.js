// What attend.js and temperature.js share: a query on its plane, a table of weights, and the mixture that they make.
import { decimal, html, percent, plane, putApart, sum, svg } from "./kit.js";
import { softmax } from "./sampling.js";

const SIZE = 300; // of a plane, in its own units
export const VIEW = `-60 10 ${SIZE + 120} ${SIZE - 20}`; // and what is seen of it: names need room at both sides

// query (D), keys (N, D), values (N, E) -> scores and weights (N), mixture (E), and which of the keys has the most weight
export function attend(query, keys, values, divided, temperature = 1) {
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const scores = keys.map((key) => dot(query, key) / (divided ? Math.sqrt(query.length) : 1));
  const weights = softmax(scores.map((score) => score / temperature));
  const column = (i) => values.map((value) => value[i]);
  const mixture = values[0].map((_, i) => dot(weights, column(i)));
  return { scores, weights, mixture, best: weights.indexOf(Math.max(...weights)) };
}

// Does nobody fit better than the others, somebody a bit, or one key alone?
export const fits = (share, N) => (share < 1.6 / N ? "nobody" : share > 0.9 ? "one" : "somebody");

// ---------------------------------------------------------------- on a plane
export const reachOf = (points) => 1.4 * Math.max(...points.map(([x, y]) => Math.hypot(x, y)));
export const onPlane = ([x, y], far) => [((1 + x / far) * SIZE) / 2, ((1 - y / far) * SIZE) / 2]; // a point, on its plane
export const line = (name, [x, y]) => svg("line", { class: name, x1: SIZE / 2, y1: SIZE / 2, x2: x, y2: y });
const label = (text, [x, y], more = {}) =>
  svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "middle", ...more }, text);
// A name outside of its point, growing outwards.
export function beside(text, [x, y], far, room) {
  const away = x / Math.hypot(x, y);
  const [left, top] = onPlane([x, y], far);
  const anchor = away > 0.5 ? "start" : away < -0.5 ? "end" : "middle";
  return label(text, [left + room * away, top - room * (y / Math.hypot(x, y))], { "text-anchor": anchor });
}

// The names of points where they touch no other, each as near as can be to where it stood at first.
export function keepingApart(labels, dots = []) {
  const at = (coordinate) => coordinate.baseVal[0].value;
  const homes = labels.map((label) => [at(label.x), at(label.y)]);
  return () => {
    labels.forEach((label, i) => {
      const [left, top] = homes[i];
      const out = 40 * Math.sign(left - sum(labels.map((one) => at(one.x))) / labels.length) || 40;
      const around = [
        [0, 0],
        [out, 0],
        [0, 18],
        [0, -18],
        [-out, 0],
      ].map(([x, y]) => [left + x, top + y]);
      putApart(label, around, [...labels.slice(0, i), ...dots]);
    });
  };
}

// The plane on which the query is dragged, above what is drawn `beneath` it; its name touches none of the `names`.
export function asking(state, beneath, names) {
  const shaft = line("explore-shaft", [0, 0]);
  const tip = label("query", [0, 0], { class: "explore-tip" });
  const held = { label: "query", get: () => state.query, set: (query) => state.change({ query }) };
  const { root, show } = plane({ size: SIZE, reach: state.reach, view: VIEW, tips: [held] }, ...beneath, shaft, tip);
  const render = () => {
    const [x, y] = onPlane(state.query, state.reach);
    show();
    shaft.setAttribute("x2", x);
    shaft.setAttribute("y2", y);
    const around = [
      [x, y - 22],
      [x, y + 26],
      [x + 46, y],
      [x - 46, y],
    ];
    putApart(tip, around, names);
  };
  return { node: root, tip, render };
}

// The values, the larger the more weight they have, and the mixture that they pull at; its `path` lies between them.
export function mixing({ values, says, spread, room }, ...path) {
  const places = values.map((value) => onPlane(value, spread));
  const threads = places.map((place) => line("explore-thread", place));
  const dots = places.map(([cx, cy]) => svg("circle", { class: "explore-value", cx, cy }));
  const words = values.map((value, i) => beside(says[i], value, spread, room));
  const mixed = svg("rect", { class: "explore-mixed", width: 16, height: 16, x: -8, y: -8 });
  const tip = label("mixture", [0, 0], { class: "explore-tip" });
  const apart = keepingApart(words, dots);
  let [over, down] = [0, 0];
  const render = ({ weights, mixture }) => {
    [over, down] = onPlane(mixture, spread);
    weights.forEach((weight, i) => {
      dots[i].setAttribute("r", 3 + 13 * Math.sqrt(weight));
      threads[i].setAttribute("x1", over);
      threads[i].setAttribute("y1", down);
      threads[i].style.strokeWidth = 7 * weight;
    });
    mixed.setAttribute("transform", `translate(${over} ${down}) rotate(45)`);
    apart();
  };
  const nameMixture = (others = []) => {
    const out = over < SIZE / 2 ? -50 : 50;
    const sideways = [
      [over + out, down],
      [over - out, down],
    ];
    const beneath = [
      [over, down + 24],
      [over, down - 24],
    ];
    const around = path.length ? [...sideways, ...beneath] : [...beneath, ...sideways]; // not on the path
    putApart(tip, around, [...words, ...others]);
  };
  return { nodes: [...threads, ...path, ...dots, ...words, mixed, tip], words, render, nameMixture };
}

// ---------------------------------------------------------------- the table
// A row for each key: its score, and its weight as a bar.
export function shares(names) {
  const row = (...cells) => html("div", { class: "explore-row" }, ...cells);
  const head = row(...["key", "score", "weight", ""].map((text) => html("span", { class: "explore-caption" }, text)));
  const rows = names.map((name) =>
    row(
      html("span", {}, name),
      html("span", { class: "explore-score" }),
      html("span", { class: "explore-track" }, html("span", { class: "explore-bar" })),
      html("span", {}),
    ),
  );
  const render = ({ scores, weights, best }) => {
    weights.forEach((weight, i) => {
      const [name, score, track, share] = rows[i].children;
      name.className = share.className = i === best ? "explore-best" : "";
      score.textContent = decimal(scores[i], 1);
      track.firstChild.style.width = `${100 * weight}%`;
      share.textContent = percent(weight);
    });
  };
  return { node: html("div", { class: "explore-rows" }, head, ...rows), render };
}

export const MIXTURE_CSS = `
.explore-side { flex: 1.3 1 220px; max-width: 320px; }
.explore-side .explore-caption { text-align: center; }
.explore-rows { flex: 1 1 220px; align-self: center; }
.explore-row { grid-template-columns: 5.2em 2.6em 1fr 2.8em; }
.explore-row > * { white-space: nowrap; }
.explore-score, .explore-row > :last-child { text-align: right; }
.explore-bar { display: block; height: 100%; background: var(--explore-green); }
.explore-thread { stroke: var(--explore-green); }
.explore-value { fill: var(--explore-green); }
.explore-mixed { fill: var(--explore-ink); stroke: var(--explore-paper); stroke-width: 2; }
`;
