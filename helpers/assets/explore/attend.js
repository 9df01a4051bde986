// Notebook 03: drag a query among keys, and watch scores, weights and the mixture of the values move.
import { frame, html, percent, softmax, svg } from "./kit.js";

const SIZE = 300; // of a plane, in its own units
const VIEW = `-60 10 ${SIZE + 120} ${SIZE - 20}`; // and what is seen of it: names need room at both sides

// query (D), keys (N, D), values (N, E) -> scores and weights (N), mixture (E)
export function attend(query, keys, values, divided) {
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const scores = keys.map((key) => dot(query, key) / (divided ? Math.sqrt(query.length) : 1));
  const weights = softmax(scores);
  const mixture = values[0].map((_, i) => dot(weights, values.map((value) => value[i])));
  return { scores, weights, mixture };
}

// data: names of the keys, keys and values as points of a plane, says: what each value stands for, query: where it
// starts, asks: {label: query} for the buttons
export function mount(element, data) {
  const { names, keys, values, says } = data;
  const length = ([x, y]) => Math.hypot(x, y);
  const reach = 1.4 * Math.max(...keys.map(length)), spread = 1.35 * Math.max(...values.map(length));
  const place = ([x, y], far) => [(1 + x / far) * SIZE / 2, (1 - y / far) * SIZE / 2]; // a point, on its plane
  const label = (text, [x, y], more = {}) => svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "middle", ...more }, text);
  const beside = (text, [x, y], far) => { // a name outside of its point, growing outwards
    const away = x / Math.hypot(x, y), [left, top] = place([x, y], far);
    return label(text, [left + 20 * away, top - 18 * (y / Math.hypot(x, y))], { "text-anchor": away > 0.5 ? "start" : away < -0.5 ? "end" : "middle" });
  };
  const line = (name, [x, y]) => svg("line", { class: name, x1: SIZE / 2, y1: SIZE / 2, x2: x, y2: y });
  let query = data.query, divided = true;

  const arrows = keys.map((key) => line("explore-key", place(key, reach)));
  const tags = keys.map((key, i) => beside(names[i], key, reach));
  const shaft = line("explore-shaft", [0, 0]);
  const handle = svg("circle", { r: 13, class: "explore-handle", tabindex: 0, role: "slider", onkeydown: turn,
    "aria-label": "query: left and right turn it, up and down change its length", "aria-valuemin": -180, "aria-valuemax": 180 });
  const plane = svg("svg", { viewBox: VIEW, class: "explore-plane", onpointerdown: take,
    onpointermove: drag, onmousedown: (event) => event.preventDefault() /* or the handle would lose the focus */ }, ...arrows, ...tags, shaft, handle, label("query", [0, 0], { class: "explore-tip" }));
  const tip = plane.querySelector(".explore-tip");

  const rows = names.map((name) => {
    const cells = [html("span", {}, name), html("span", { class: "explore-score" }),
      html("span", { class: "explore-track" }, html("span", { class: "explore-bar" })), html("span", {})];
    return html("div", { class: "explore-row" }, ...cells);
  });
  const head = ["key", "score", "weight", ""].map((text) => html("span", { class: "explore-caption" }, text));

  const threads = values.map((value) => line("explore-thread", place(value, spread)));
  const dots = values.map((value) => {
    const [cx, cy] = place(value, spread);
    return svg("circle", { class: "explore-value", cx, cy });
  });
  const words = values.map((value, i) => beside(says[i], value, spread));
  const mixed = svg("rect", { class: "explore-mixed", width: 16, height: 16, x: -8, y: -8 });
  const where = label("mixture", [0, 0], { class: "explore-tip" });
  const answer = svg("svg", { viewBox: VIEW, role: "img", "aria-label": "the values, and their mixture" },
    ...threads, ...dots, ...words, mixed, where);

  const root = html("input", { type: "checkbox", checked: "", onchange: () => ((divided = root.checked), show()) });
  const part = (name, text, ...inside) =>
    html("div", { class: name }, ...inside, html("div", { class: "explore-caption" }, text));
  const asks = Object.entries(data.asks).map(([text, at]) =>
    html("button", { type: "button", onclick: () => ((query = at), show()) }, text));
  const { say, remove } = frame(element, { name: "attend", css: CSS, invitation: "Drag the thick arrow, the query: who answers?" },
    html("div", { class: "explore-parts" },
      part("explore-side", "the query among the keys", plane),
      html("div", { class: "explore-rows" }, html("div", { class: "explore-row" }, ...head), ...rows),
      part("explore-side", "the values, and their mixture", answer)),
    html("div", { class: "explore-tools" }, ...asks, html("label", {}, root, `divide scores by √${query.length}`)));

  function take(event) {
    plane.setPointerCapture(event.pointerId);
    handle.focus({ preventScroll: true });
    drag(event);
  }
  function drag(event) {
    if (!plane.hasPointerCapture(event.pointerId)) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plane.getScreenCTM().inverse());
    move([((2 * at.x) / SIZE - 1) * reach, (1 - (2 * at.y) / SIZE) * reach]);
  }
  function turn(event) {
    const [by, times] = { ArrowLeft: [5, 1], ArrowRight: [-5, 1], ArrowUp: [0, 1.1], ArrowDown: [0, 1 / 1.1] }[event.key] ?? [];
    if (times === undefined) return;
    event.preventDefault();
    const angle = Math.atan2(query[1], query[0]) + (by * Math.PI) / 180, far = Math.max(0.05 * reach, length(query) * times);
    move([far * Math.cos(angle), far * Math.sin(angle)]);
  }
  function move(to) {
    const tooFar = Math.max(1, length(to) / (0.95 * reach)); // it must stay where it can be taken hold of
    query = to.map((x) => x / tooFar);
    show();
  }
  function show() {
    const { scores, weights, mixture } = attend(query, keys, values, divided);
    const best = weights.indexOf(Math.max(...weights)), [x, y] = place(query, reach), [left, top] = place(mixture, spread);
    shaft.setAttribute("x2", x), shaft.setAttribute("y2", y);
    handle.setAttribute("cx", x), handle.setAttribute("cy", y);
    tip.setAttribute("x", x), tip.setAttribute("y", y + (y < 40 ? 26 : -22));
    const angle = Math.round((Math.atan2(query[1], query[0]) * 180) / Math.PI);
    handle.setAttribute("aria-valuenow", angle);
    handle.setAttribute("aria-valuetext", `${angle} degrees, length ${length(query).toFixed(1)}`);
    weights.forEach((weight, i) => {
      arrows[i].style.strokeWidth = 1.5 + 8 * weight;
      dots[i].setAttribute("r", 3 + 13 * Math.sqrt(weight));
      threads[i].setAttribute("x1", left), threads[i].setAttribute("y1", top);
      threads[i].style.strokeWidth = 7 * weight;
      const [name, score, track, share] = rows[i].children;
      name.className = share.className = i === best ? "explore-best" : "";
      score.textContent = (Math.round(10 * scores[i]) / 10 + 0).toFixed(1).replace("-", "−");
      track.firstChild.style.width = `${100 * weight}%`;
      share.textContent = percent(weight);
    });
    mixed.setAttribute("transform", `translate(${left} ${top}) rotate(45)`);
    where.setAttribute("x", left), where.setAttribute("y", top + 24);
    say(sentence(weights[best], best));
  }
  function sentence(share, best) {
    const who = `*${names[best]}*`, what = `*${says[best]}*`;
    if (share < 1.6 / names.length) return "Nobody fits much better than the others: all have nearly equal weights, and the mixture lies in the middle and says little.";
    if (share > 0.9) return `${who} has the highest score and takes ${percent(share)} of the weight: what comes out is ${what}, and hardly anything else. A longer query is a surer one.`;
    return `${who} has the highest score and gets ${percent(share)} of the weight. The mixture moves towards ${what}, and the others pull at it.`;
  }
  show();
  return remove;
}

const CSS = `
.explore-attend .explore-side { flex: 1 1 220px; max-width: 320px; }
.explore-attend .explore-side .explore-caption { text-align: center; }
@container (min-width: 480px) and (max-width: 820px) { .explore-attend svg { font-size: 20px; } }
.explore-attend .explore-rows { flex: 1 1 230px; align-self: center; }
.explore-attend .explore-row { display: grid; grid-template-columns: 5em 2.6em 1fr 2.8em; gap: 8px; align-items: center; line-height: 24px; }
.explore-attend .explore-score, .explore-attend .explore-row > :last-child { text-align: right; font-variant-numeric: tabular-nums; }
.explore-attend .explore-track { height: 12px; background: var(--explore-faint); border-radius: 3px; overflow: hidden; }
.explore-attend .explore-bar { display: block; height: 100%; background: var(--explore-green); }
.explore-attend .explore-best, .explore-attend .explore-tip { font-weight: 700; }
.explore-attend .explore-plane { touch-action: none; cursor: grab; user-select: none; }
.explore-attend .explore-plane:active { cursor: grabbing; }
.explore-attend .explore-key { stroke: var(--explore-blue); stroke-linecap: round; }
.explore-attend .explore-shaft { stroke: var(--explore-ink); stroke-width: 5; stroke-linecap: round; }
.explore-attend .explore-handle { fill: var(--explore-ink); stroke: var(--explore-paper); stroke-width: 3; }
.explore-attend .explore-thread { stroke: var(--explore-green); }
.explore-attend .explore-value { fill: var(--explore-green); }
.explore-attend .explore-mixed { fill: var(--explore-ink); stroke: var(--explore-paper); stroke-width: 2; }
.explore-attend .explore-tip { paint-order: stroke; stroke: var(--explore-paper); stroke-width: 4px; }
`;
