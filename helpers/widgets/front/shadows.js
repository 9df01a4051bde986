// Notebook 01: drag a query and its keys; each key's shadow on the query's line, and the score that it makes.
import { decimal, frame, html, plane, svg } from "./kit.js";

const SIZE = 340; // of the plane, in its own units
const VIEW = `0 10 ${SIZE} ${SIZE - 20}`;
const COLORS = ["blue", "red", "green"];

const length = ([x, y]) => Math.max(Math.hypot(x, y), 1e-6); // an arrow dragged into the middle points nowhere

// query (2), keys (N, 2) -> scores, cosines, and the foot of each key's shadow: the nearest point of the query's line
export function shadows(query, keys) {
  const scores = keys.map((key) => query[0] * key[0] + query[1] * key[1]);
  const cosines = keys.map((key, i) => scores[i] / (length(query) * length(key)));
  const feet = scores.map((score) => query.map((x) => (score * x) / length(query) ** 2));
  return { scores, cosines, feet };
}

// data: names and keys (N, 2), query (2): where they start
export function mount(element, data) {
  const { names } = data, reach = 1.2 * Math.max(...[data.query, ...data.keys].map(length));
  const largest = (scores) => Math.max(...scores.map(Math.abs)), usual = 1.3 * largest(shadows(data.query, data.keys).scores);
  let query = data.query, keys = data.keys;

  const made = (name, more = {}) => svg("line", { class: `explore-${name}`, ...more });
  const tinted = (name) => keys.map((_, i) => made(name, { style: `stroke: var(--explore-${COLORS[i % 3]})` }));
  const road = made("road"), shaft = made("shaft"), shades = tinted("shade"), drops = tinted("drop"), arrows = tinted("arrow");
  const tags = ["query", ...names].map((name) => svg("text", { class: "explore-tip", "text-anchor": "middle", "dominant-baseline": "middle" }, name));
  const tips = [{ label: "query", r: 10, get: () => query, set: (to) => ((query = to), show()) },
    ...names.map((name, i) => ({ label: `key ${name}`, r: 8, get: () => keys[i], set: (to) => ((keys = keys.with(i, to)), show()) }))];
  // The shadows lie side by side along the query's line, below it: one would hide the others.
  const { root, place, show: showTips } = plane({ size: SIZE, reach, view: VIEW, tips }, road, ...shades, ...drops, shaft, ...arrows, ...tags);

  const rows = names.map((name, i) => html("div", { class: "explore-row" }, html("span", {}, name), html("span", { class: "explore-sum" }),
    html("span", { class: "explore-track" }, html("span", { class: "explore-bar", style: `background: var(--explore-${COLORS[i % 3]})` })), html("span", {})));
  const head = ["key", "lengths × cosine", "", "score"].map((text) => html("span", { class: "explore-caption" }, text));
  const button = (text, click) => html("button", { type: "button", onclick: () => (click(), show()) }, text);
  const { say, remove } = frame(element, { name: "shadows", css: CSS, invitation: "Drag the query or a key: whose shadow reaches furthest along the query's line?" },
    html("div", { class: "explore-parts" }, html("div", { class: "explore-side" }, root),
      html("div", { class: "explore-rows" }, html("div", { class: "explore-row" }, ...head), ...rows)),
    html("div", { class: "explore-tools" }, button("make all keys equally long", () => (keys = keys.map((key) => key.map((x) => (reach * x) / (2 * length(key)))))),
      button("start again", () => ([query, keys] = [data.query, data.keys]))));

  names.forEach((_, i) => (root.querySelectorAll(".explore-handle")[i + 1].style.fill = `var(--explore-${COLORS[i % 3]})`));
  const put = (line, from, to, [right, down] = [0, 0]) => {
    const [x1, y1, x2, y2] = [...place(from), ...place(to)].map((at, i) => at + (i % 2 ? down : right));
    for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(name, value);
  };

  function show() {
    const { scores, cosines, feet } = shadows(query, keys), best = scores.indexOf(Math.max(...scores));
    const most = Math.max(usual, largest(scores)); // that a bar has room for
    const along = query.map((x) => (2 * reach * x) / length(query)), side = query[0] < 0 ? -1 : 1;
    const below = (far) => [(side * far * query[1]) / length(query), (side * far * query[0]) / length(query)]; // in units of the drawing
    showTips();
    put(road, along.map((x) => -x), along), put(shaft, [0, 0], query);
    keys.forEach((key, i) => {
      put(arrows[i], [0, 0], key), put(shades[i], [0, 0], feet[i], below(9 + 10 * i)), put(drops[i], key, feet[i]);
      const [name, sum, track, score] = rows[i].children, wide = Math.min(1, Math.abs(scores[i]) / most) * 50;
      name.className = score.className = i === best ? "explore-best" : "";
      sum.textContent = `${length(query).toFixed(1)} × ${length(key).toFixed(1)} × ${decimal(cosines[i], 2)}`;
      track.firstChild.style.cssText += `; width: ${wide}%; left: ${scores[i] < 0 ? 50 - wide : 50}%`;
      score.textContent = decimal(scores[i], 1);
    });
    const [over, up] = below(-24); // the query's name stands above its line
    [query, ...keys].forEach((point, i) => {
      const [x, y] = place(i ? point.map((x) => x * (1 + (0.11 * reach) / length(point))) : point.map((x) => x / 2));
      tags[i].setAttribute("x", x + (i ? 0 : over)), tags[i].setAttribute("y", y + (i ? 0 : up));
    });
    say(sentence(scores, cosines, best));
  }
  function sentence(scores, cosines, best) {
    const closest = cosines.indexOf(Math.max(...cosines)), square = cosines.findIndex((cosine) => Math.abs(cosine) < 0.02);
    const who = `*${names[best]}*`, more = square < 0 ? "" : ` *${names[square]}* stands at a right angle to the query: no shadow, a score of 0.`;
    const far = length(query), times = Math.abs(far - 1) < 0.05 ? "" : ` The query is ${far.toFixed(1)} long, so each score is ${far.toFixed(1)} times as far as its shadow reaches.`;
    if (largest(scores) < 0.05) return "Every score is nearly 0: the query has hardly any length, or all keys stand at a right angle to it.";
    if (scores[best] <= 0) return "No key points the query's way: all shadows fall on the other side, and no score is above 0.";
    if (best === closest) return `${who} wins: it points the query's way more than the others, and its shadow reaches furthest.${more}${times}`;
    return `${who} wins with ${decimal(scores[best], 1)}, though *${names[closest]}* points more nearly the query's way: ${who} is longer, and its shadow reaches further.${more}${times}`;
  }
  show();
  return remove;
}

const CSS = `
.explore-side { flex: 1 1 260px; max-width: 380px; }
.explore-rows { flex: 1 1 280px; align-self: center; }
.explore-row { grid-template-columns: 2.4em 9.5em 1fr 3em; }
.explore-row > :last-child { text-align: right; }
.explore-bar { position: absolute; height: 100%; }
.explore-track::before { content: ""; position: absolute; left: 50%; height: 100%; border-left: 1px solid var(--explore-soft); }
.explore-road { stroke: var(--explore-line); }
.explore-arrow { stroke-width: 3.5; stroke-linecap: round; }
.explore-drop { stroke-width: 1.5; stroke-dasharray: 2 4; }
.explore-shade { stroke-width: 8; opacity: 0.55; }
.explore-sum { white-space: nowrap; }
@container (max-width: 420px) { .explore-row { grid-template-columns: 1em 9.6em 1fr 2.6em; gap: 6px; font-size: 13px; } }
`;
