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

// data: names of the keys, keys and values as points of a plane, says: what each value stands for, query: where it
// starts, asks: {label: query} for the buttons; with a `temperature` its slider, and the path of the mixture under it
export function mount(element, data) {
  const { names, keys, values, says } = data;
  const warm = "temperature" in data;
  const length = ([x, y]) => Math.hypot(x, y);
  const reach = 1.4 * Math.max(...keys.map(length));
  const spread = 1.4 * Math.max(...values.map(length));
  const onPlane = ([x, y], far) => [((1 + x / far) * SIZE) / 2, ((1 - y / far) * SIZE) / 2]; // a point, on its plane
  const label = (text, [x, y], more = {}) =>
    svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "middle", ...more }, text);
  // A name outside of its point, growing outwards.
  const beside = (text, [x, y], far) => {
    const away = x / Math.hypot(x, y);
    const [left, top] = onPlane([x, y], far);
    const room = warm ? 26 : 19; // a value's dot may be large
    const anchor = away > 0.5 ? "start" : away < -0.5 ? "end" : "middle";
    return label(text, [left + room * away, top - room * (y / Math.hypot(x, y))], { "text-anchor": anchor });
  };
  const line = (name, [x, y]) => svg("line", { class: name, x1: SIZE / 2, y1: SIZE / 2, x2: x, y2: y });
  const homes = new Map(); // where the labels of points would like to stand
  const at = (coordinate) => coordinate.baseVal[0].value;
  let query = data.query;
  let divided = !warm;
  let temperature = data.temperature ?? 1;

  const arrows = keys.map((key) => line("explore-key", onPlane(key, reach)));
  const tags = keys.map((key, i) => beside(names[i], key, reach));
  const shaft = line("explore-shaft", [0, 0]);
  const tip = label("query", [0, 0], { class: "explore-tip" });

  const rows = names.map((name) => {
    const cells = [
      html("span", {}, name),
      html("span", { class: "explore-score" }),
      html("span", { class: "explore-track" }, html("span", { class: "explore-bar" })),
      html("span", {}),
    ];
    return html("div", { class: "explore-row" }, ...cells);
  });
  const head = ["key", "score", "weight", ""].map((text) => html("span", { class: "explore-caption" }, text));

  const threads = values.map((value) => line("explore-thread", onPlane(value, spread)));
  const dots = values.map((value) => {
    const [cx, cy] = onPlane(value, spread);
    return svg("circle", { class: "explore-value", cx, cy });
  });
  const words = values.map((value, i) => beside(says[i], value, spread));
  const path = svg("polyline", { class: "explore-path" });
  const mixed = svg("rect", { class: "explore-mixed", width: 16, height: 16, x: -8, y: -8 });
  const where = label("mixture", [0, 0], { class: "explore-tip" });
  // Wherever the mixture goes, it stays among its values: in the area that a rubber band around them would enclose.
  const corners = band(values).map((value) => onPlane(value, spread));
  const area = svg("polygon", { class: "explore-area", points: corners.join(" ") });
  const mixing = [...(warm ? [area] : []), ...threads, path, ...dots, ...words, mixed, where];
  const ask = (to) => {
    query = to;
    show();
  };
  const asking = { label: "query", get: () => query, set: ask };
  // Where the values are the keys, one plane shows all.
  const beneath = warm ? mixing : [...arrows, ...tags];
  const asked = plane({ size: SIZE, reach, view: VIEW, tips: [asking] }, ...beneath, shaft, tip);
  const told = { viewBox: VIEW, role: "img", "aria-label": "the values, and their mixture" };
  const answer = svg("svg", told, ...(warm ? [] : mixing));

  const divide = () => {
    divided = root.checked;
    show();
  };
  const root = html("input", { type: "checkbox", checked: "", onchange: divide });
  // Evenly along the slider, temperatures grow by the same factor; cold is at the left.
  const [dial, putDial] = slider("temperature", {
    min: Math.log(COLDEST),
    max: Math.log(HOTTEST),
    step: 0.05,
    value: Math.log(temperature),
    write: (x) => Math.exp(x).toFixed(x < 2.3 ? 2 : 0),
    set: (x) => {
      temperature = Math.exp(x);
      show();
    },
  });
  const part = (name, text, ...inside) =>
    html("div", { class: name }, ...inside, html("div", { class: "explore-caption" }, text));
  const again = () => {
    query = data.query;
    temperature = data.temperature;
    putDial(Math.log(temperature));
    show();
  };
  const button = (text, onclick) => html("button", { type: "button", onclick }, text);
  const asks = Object.entries(data.asks).map(([text, at]) => button(text, () => ask(at)));
  const invitation = warm
    ? "Turn the temperature, or drag the query: where does the mixture go?"
    : "Drag the thick arrow, the query: who answers?";
  const queries = warm
    ? part("explore-side explore-wide", "the query, the mixture, and its path from hot to cold", asked.root)
    : part("explore-side", "the query among the keys", asked.root);
  const table = html("div", { class: "explore-rows" }, html("div", { class: "explore-row" }, ...head), ...rows);
  const answers = warm ? "" : part("explore-side", "the values, and their mixture", answer);
  const tools = warm
    ? [dial, button("start again", again)]
    : [html("label", {}, root, `divide scores by √${query.length}`)];
  const { say, remove } = frame(
    element,
    { name: "attend", css: CSS, invitation },
    html("div", { class: "explore-parts" }, queries, table, answers),
    html("div", { class: "explore-tools" }, ...asks, ...tools),
  );

  function show() {
    const { scores, weights, mixture } = attend(query, keys, values, divided, temperature);
    const best = weights.indexOf(Math.max(...weights));
    const [x, y] = onPlane(query, reach);
    const [over, down] = onPlane(mixture, spread);
    asked.show();
    shaft.setAttribute("x2", x);
    shaft.setAttribute("y2", y);
    weights.forEach((weight, i) => {
      arrows[i].style.strokeWidth = 1.5 + 8 * weight;
      dots[i].setAttribute("r", 3 + 13 * Math.sqrt(weight));
      threads[i].setAttribute("x1", over);
      threads[i].setAttribute("y1", down);
      threads[i].style.strokeWidth = 7 * weight;
      const [name, score, track, share] = rows[i].children;
      name.className = share.className = i === best ? "explore-best" : "";
      score.textContent = decimal(scores[i], 1);
      track.firstChild.style.width = `${100 * weight}%`;
      share.textContent = percent(weight);
    });
    if (warm) {
      const along = Array.from({ length: 81 }, (_, i) => HOTTEST * (COLDEST / HOTTEST) ** (i / 80));
      const points = along.map((t) => onPlane(attend(query, keys, values, divided, t).mixture, spread));
      path.setAttribute("points", points.join(" "));
    }
    mixed.setAttribute("transform", `translate(${over} ${down}) rotate(45)`);
    name(x, y, over, down);
    say(sentence(weights[best], best));
  }
  // Names stand where they touch no other: those of the points first, which stay, then the two that move.
  function name(x, y, over, down) {
    for (const labels of warm ? [words] : [tags, words]) {
      labels.forEach((label, i) => {
        const [left, top] = (homes.has(label) ? homes : homes.set(label, [label.x, label.y].map(at))).get(label);
        const out = 40 * Math.sign(left - sum(labels.map((one) => one.x.baseVal[0].value)) / labels.length) || 40;
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
    const side = over < SIZE / 2 ? -1 : 1; // beside the path, not on it
    const others = warm ? words : tags;
    putApart(
      tip,
      [
        [x, y - 22],
        [x, y + 26],
        [x + 46, y],
        [x - 46, y],
      ],
      others,
    );
    const beside = [
      [over + 50 * side, down],
      [over - 50 * side, down],
    ];
    const beneath = [
      [over, down + 24],
      [over, down - 24],
    ];
    putApart(where, warm ? [...beside, ...beneath] : [...beneath, ...beside], warm ? [...words, tip] : words);
  }
  function sentence(share, best) {
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
  show();
  return remove;
}

const CSS = `
.explore-side { flex: 1.3 1 220px; max-width: 320px; }
.explore-wide { flex-basis: 300px; max-width: 460px; }
.explore-wide .explore-handle { fill-opacity: 0.25; }
.explore-side .explore-caption { text-align: center; }
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
