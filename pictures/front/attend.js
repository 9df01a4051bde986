// Notebooks 02 and 03: a query among keys; scores, weights and the mixture of the values move with it, or with temperature.
import { decimal, frame, html, percent, plane, putApart, slider, sum, svg } from "./kit.js";
import { softmax } from "./sampling.js";

const SIZE = 300; // of a plane, in its own units
const VIEW = `-60 10 ${SIZE + 120} ${SIZE - 20}`; // and what is seen of it: names need room at both sides
const HOTTEST = 100; // temperatures
const COLDEST = 0.05;

// query (D), keys (N, D), values (N, E) -> scores and weights (N), mixture (E)
export function attend(query, keys, values, divided, temperature = 1) {
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const scores = keys.map((key) => dot(query, key) / (divided ? Math.sqrt(query.length) : 1));
  const weights = softmax(scores.map((score) => score / temperature));
  const column = (i) => values.map((value) => value[i]);
  const mixture = values[0].map((_, i) => dot(weights, column(i)));
  return { scores, weights, mixture };
}

// The points of a plane that a rubber band around all of them touches, in order (gift wrapping, Jarvis 1973).
export function band(points) {
  const around = [points.reduce((a, b) => (b[0] < a[0] || (b[0] === a[0] && b[1] < a[1]) ? b : a))];
  for (;;) {
    const [x, y] = around.at(-1);
    const left = ([a, b], [c, d]) => (a - x) * (d - y) - (b - y) * (c - x);
    const next = points.filter((point) => point !== around.at(-1)).reduce((a, b) => (left(a, b) < 0 ? b : a));
    if (next === around[0] || around.length > points.length) return around;
    around.push(next);
  }
}

const farthest = (points) => Math.max(...points.map(([x, y]) => Math.hypot(x, y)));
const onPlane = ([x, y], far) => [((1 + x / far) * SIZE) / 2, ((1 - y / far) * SIZE) / 2]; // a point, on its plane
const line = (name, [x, y]) => svg("line", { class: name, x1: SIZE / 2, y1: SIZE / 2, x2: x, y2: y });
const label = (text, [x, y], more = {}) =>
  svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "middle", ...more }, text);
// A name outside of its point, growing outwards.
function beside(text, [x, y], far, room) {
  const away = x / Math.hypot(x, y);
  const [left, top] = onPlane([x, y], far);
  const anchor = away > 0.5 ? "start" : away < -0.5 ? "end" : "middle";
  return label(text, [left + room * away, top - room * (y / Math.hypot(x, y))], { "text-anchor": anchor });
}

// data: names of the keys, keys and values as points of a plane, says: what each value stands for, query: where it
// starts, asks: {label: query} for the buttons; with a `temperature` its slider, and the path of the mixture under it
export function mount(element, data) {
  const warm = "temperature" in data;
  const start = { query: data.query, divided: !warm, temperature: data.temperature ?? 1 };
  const [reach, spread] = [data.keys, data.values].map((points) => 1.4 * farthest(points));
  const room = warm ? 26 : 19; // a value's dot may be large
  const state = { ...data, ...start, warm, reach, spread, room, change };
  const keys = keyArrows(state);
  const values = mixing(state);
  const asked = asking(state, warm ? values.nodes : keys.nodes);
  const table = shares(state);
  const keepApart = naming(state, keys.tags, values, asked.tip);

  const part = (name, inside, text) =>
    html("div", { class: name }, inside, html("div", { class: "explore-caption" }, text));
  const told = { viewBox: VIEW, role: "img", "aria-label": "the values, and their mixture" };
  // Where the values are the keys, one plane shows all.
  const parts = warm
    ? [
        part("explore-side explore-wide", asked.node, "the query, the mixture, and its path from hot to cold"),
        table.node,
      ]
    : [
        part("explore-side", asked.node, "the query among the keys"),
        table.node,
        part("explore-side", svg("svg", told, ...values.nodes), "the values, and their mixture"),
      ];
  const invitation = warm
    ? "Turn the temperature, or drag the query: where does the mixture go?"
    : "Drag the thick arrow, the query: who answers?";
  const { say, remove } = frame(
    element,
    { name: "attend", css: CSS, invitation },
    html("div", { class: "explore-parts" }, ...parts),
    html("div", { class: "explore-tools" }, ...tools(state, start)),
  );

  function change(to) {
    Object.assign(state, to);
    show();
  }
  function show() {
    const answer = answers(state);
    for (const { render } of [keys, values, asked, table]) render(answer);
    keepApart(onPlane(state.query, reach), onPlane(answer.mixture, spread));
    say(sentence(state, answer));
  }
  show();
  return remove;
}

// To the query as it is now, or at another temperature.
function answers({ query, keys, values, divided, temperature }, at = temperature) {
  const answer = attend(query, keys, values, divided, at);
  return { ...answer, best: answer.weights.indexOf(Math.max(...answer.weights)) };
}

// The keys and their names: the more weight, the thicker.
function keyArrows({ names, keys, reach, room }) {
  const arrows = keys.map((key) => line("explore-key", onPlane(key, reach)));
  const tags = keys.map((key, i) => beside(names[i], key, reach, room));
  const render = ({ weights }) => {
    weights.forEach((weight, i) => {
      arrows[i].style.strokeWidth = 1.5 + 8 * weight;
    });
  };
  return { nodes: [...arrows, ...tags], tags, render };
}

// The values, the larger the more weight they have, and the mixture that they pull at.
function mixing(state) {
  const { values, says, spread, room, warm } = state;
  const places = values.map((value) => onPlane(value, spread));
  const threads = places.map((place) => line("explore-thread", place));
  const dots = places.map(([cx, cy]) => svg("circle", { class: "explore-value", cx, cy }));
  const words = values.map((value, i) => beside(says[i], value, spread, room));
  const path = svg("polyline", { class: "explore-path" });
  const mixed = svg("rect", { class: "explore-mixed", width: 16, height: 16, x: -8, y: -8 });
  const where = label("mixture", [0, 0], { class: "explore-tip" });
  // Wherever the mixture goes, it stays among its values: in the area that a rubber band around them would enclose.
  const area = svg("polygon", { class: "explore-area", points: band(places).join(" ") });
  const render = ({ weights, mixture }) => {
    const [over, down] = onPlane(mixture, spread);
    weights.forEach((weight, i) => {
      dots[i].setAttribute("r", 3 + 13 * Math.sqrt(weight));
      threads[i].setAttribute("x1", over);
      threads[i].setAttribute("y1", down);
      threads[i].style.strokeWidth = 7 * weight;
    });
    mixed.setAttribute("transform", `translate(${over} ${down}) rotate(45)`);
    if (!warm) return;
    const along = Array.from({ length: 81 }, (_, i) => HOTTEST * (COLDEST / HOTTEST) ** (i / 80));
    path.setAttribute("points", along.map((t) => onPlane(answers(state, t).mixture, spread)).join(" "));
  };
  return {
    nodes: [...(warm ? [area] : []), ...threads, path, ...dots, ...words, mixed, where],
    words,
    dots,
    where,
    render,
  };
}

// The plane on which the query is dragged, above what is drawn `beneath` it.
function asking(state, beneath) {
  const shaft = line("explore-shaft", [0, 0]);
  const tip = label("query", [0, 0], { class: "explore-tip" });
  const held = { label: "query", get: () => state.query, set: (query) => state.change({ query }) };
  const { root, show } = plane({ size: SIZE, reach: state.reach, view: VIEW, tips: [held] }, ...beneath, shaft, tip);
  const render = () => {
    const [x, y] = onPlane(state.query, state.reach);
    show();
    shaft.setAttribute("x2", x);
    shaft.setAttribute("y2", y);
  };
  return { node: root, tip, render };
}

// A row for each key: its score, and its weight as a bar.
function shares({ names }) {
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

function tools({ asks, query, temperature, warm, change }, start) {
  const button = (text, onclick) => html("button", { type: "button", onclick }, text);
  const queries = Object.entries(asks).map(([text, at]) => button(text, () => change({ query: at })));
  if (!warm) {
    const root = html("input", { type: "checkbox", checked: "", onchange: () => change({ divided: root.checked }) });
    return [...queries, html("label", {}, root, `divide scores by √${query.length}`)];
  }
  // Evenly along the slider, temperatures grow by the same factor; cold is at the left.
  const [dial, putDial] = slider("temperature", {
    min: Math.log(COLDEST),
    max: Math.log(HOTTEST),
    step: 0.05,
    value: Math.log(temperature),
    write: (x) => Math.exp(x).toFixed(x < 2.3 ? 2 : 0),
    set: (x) => change({ temperature: Math.exp(x) }),
  });
  const again = () => {
    putDial(Math.log(start.temperature));
    change(start);
  };
  return [...queries, dial, button("start again", again)];
}

// Names stand where they touch no other: those of the points first, which stay, then the two that move.
function naming({ warm }, tags, { words, dots, where }, tip) {
  const homes = new Map(); // where the labels of points would like to stand
  const at = (coordinate) => coordinate.baseVal[0].value;

  function nameAll(labels) {
    labels.forEach((label, i) => {
      const [left, top] = (homes.has(label) ? homes : homes.set(label, [label.x, label.y].map(at))).get(label);
      const out = 40 * Math.sign(left - sum(labels.map((one) => at(one.x))) / labels.length) || 40;
      const around = [
        [0, 0],
        [out, 0],
        [0, 18],
        [0, -18],
        [-out, 0],
      ].map(([x, y]) => [left + x, top + y]);
      putApart(label, around, [...labels.slice(0, i), ...(labels === words ? dots : [])]);
    });
  }
  return ([x, y], [over, down]) => {
    for (const labels of warm ? [words] : [tags, words]) nameAll(labels);
    const around = [
      [x, y - 22],
      [x, y + 26],
      [x + 46, y],
      [x - 46, y],
    ];
    putApart(tip, around, warm ? words : tags);
    const side = over < SIZE / 2 ? -1 : 1; // beside the path, not on it
    const beside = [
      [over + 50 * side, down],
      [over - 50 * side, down],
    ];
    const beneath = [
      [over, down + 24],
      [over, down - 24],
    ];
    putApart(where, warm ? [...beside, ...beneath] : [...beneath, ...beside], warm ? [...words, tip] : words);
  };
}

function sentence({ names, says, warm }, { weights, best }) {
  const share = weights[best];
  const who = `*${names[best]}*`;
  const what = `*${says[best]}*`;
  const nobody = share < 1.6 / names.length;
  const alone = share > 0.9;
  if (warm) {
    if (nobody) {
      return `For this temperature the scores hardly differ: ${who} fits best and gets ${percent(share)} of the weight, and the mixture is close to the plain average.`;
    }
    if (alone) {
      return `So cold that ${who} takes ${percent(share)} of the weight: the mixture lies on ${who}, and the others hardly count.`;
    }
    return `${who} has the highest score and gets ${percent(share)} of the weight. It pulls the mixture its way, and the others pull back.`;
  }
  if (nobody) {
    return "Nobody fits much better than the others: all have nearly equal weights, and the mixture lies in the middle and says little.";
  }
  if (alone) {
    return `${who} has the highest score and takes ${percent(share)} of the weight: what comes out is ${what}, and hardly anything else. A longer query is a surer one.`;
  }
  return `${who} has the highest score and gets ${percent(share)} of the weight. The mixture moves towards ${what}, and the others pull at it.`;
}

const CSS = `
.explore-side { flex: 1.3 1 220px; max-width: 320px; }
.explore-wide { flex-basis: 300px; max-width: 460px; }
.explore-wide .explore-handle { fill-opacity: 0.25; }
.explore-side .explore-caption { text-align: center; }
@container (max-width: 400px) { .explore-wide svg { font-size: 16px; } }
@container (min-width: 480px) { :not(.explore-wide) > svg { font-size: 19px; } }
.explore-rows { flex: 1 1 220px; align-self: center; }
.explore-row { grid-template-columns: 5.2em 2.6em 1fr 2.8em; }
.explore-score, .explore-row > :last-child { text-align: right; }
.explore-bar { display: block; height: 100%; background: var(--explore-green); }
.explore-area { fill: var(--explore-blue); opacity: 0.1; }
.explore-row > * { white-space: nowrap; }
.explore-key { stroke: var(--explore-blue); stroke-linecap: round; }
.explore-thread { stroke: var(--explore-green); }
.explore-path { fill: none; stroke: var(--explore-red); stroke-width: 2; stroke-dasharray: 5 3; }
.explore-value { fill: var(--explore-green); }
.explore-mixed { fill: var(--explore-ink); stroke: var(--explore-paper); stroke-width: 2; }
`;
