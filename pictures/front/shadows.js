// Notebook 01: drag a query and its keys; each key's shadow on the query's line, and the score that it makes.
import { button, decimal, frame, html, plane, svg } from "./kit.js";

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

// data: names and keys (N, 2), query (2): where they start; waits: are scores kept back until somebody drags?
export function mount(element, data) {
  const { names } = data;
  const start = { query: data.query, keys: data.keys };
  const reach = 1.2 * Math.max(...[data.query, ...data.keys].map(length));
  const state = { ...start, names, reach, change };
  const drawing = arrowsAndShadows(state);
  const table = scoreTable(names, 1.3 * largest(shadows(data.query, data.keys).scores));
  const equal = () => ({ keys: state.keys.map((key) => key.map((x) => (reach * x) / (2 * length(key)))) });
  const invitation = data.waits
    ? "Which key fits the query best? Guess, then drag an arrow, and see the scores."
    : "Drag the query or a key: whose shadow reaches furthest along the query's line?";
  const { say, remove } = frame(
    element,
    { name: "shadows", css: CSS, waits: data.waits, invitation },
    html("div", { class: "explore-parts" }, html("div", { class: "explore-side" }, drawing.node), table.node),
    html(
      "div",
      { class: "explore-tools" },
      button("make all keys equally long", () => change(equal())),
      button("start again", () => change(start)),
    ),
  );

  function change(to) {
    Object.assign(state, to);
    show();
  }
  function show() {
    const seen = shadows(state.query, state.keys);
    const best = seen.scores.indexOf(Math.max(...seen.scores));
    drawing.render(seen);
    table.render(state, seen, best);
    say(sentence(state, seen, best));
  }
  show();
  return remove;
}

const largest = (scores) => Math.max(...scores.map(Math.abs));
const hue = (i) => `var(--explore-${COLORS[i % 3]})`;

// The plane on which the query and the keys are dragged.
function arrowsAndShadows(state) {
  const { names, reach } = state;
  const made = (name, more = {}) => svg("line", { class: `explore-${name}`, ...more });
  const tinted = (name) => names.map((_, i) => made(name, { style: `stroke: ${hue(i)}` }));
  const road = made("road");
  const shaft = made("shaft");
  const shades = tinted("shade");
  const drops = tinted("drop");
  const arrows = tinted("arrow");
  const middle = { "text-anchor": "middle", "dominant-baseline": "middle" };
  const tags = ["query", ...names].map((name) => svg("text", { class: "explore-tip", ...middle }, name));
  const ofKey = (name, i) => ({
    label: `key ${name}`,
    r: 8,
    get: () => state.keys[i],
    set: (to) => state.change({ keys: state.keys.with(i, to) }),
  });
  const ofQuery = { label: "query", r: 10, get: () => state.query, set: (query) => state.change({ query }) };
  const drawn = [road, ...shades, ...drops, shaft, ...arrows, ...tags];
  const { root, place, show } = plane(
    { size: SIZE, reach, view: VIEW, tips: [ofQuery, ...names.map(ofKey)] },
    ...drawn,
  );
  const [, ...handles] = root.querySelectorAll(".explore-handle"); // the first one is the query's
  handles.forEach((handle, i) => {
    handle.style.fill = hue(i);
  });
  const put = (line, from, to, [right, down] = [0, 0]) => {
    const [x1, y1, x2, y2] = [...place(from), ...place(to)].map((at, i) => at + (i % 2 ? down : right));
    for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(name, value);
  };
  const mark = (tag, x, y) => {
    tag.setAttribute("x", x);
    tag.setAttribute("y", y);
  };

  const render = ({ feet }) => {
    const { query, keys } = state;
    const along = query.map((x) => (2 * reach * x) / length(query));
    const side = query[0] < 0 ? -1 : 1;
    // How far right and down one goes from the query's line, in units of the drawing.
    const below = (far) => [query[1], query[0]].map((x) => (side * far * x) / length(query));
    const opposite = along.map((x) => -x);
    show();
    put(road, opposite, along);
    put(shaft, [0, 0], query);
    const [over, up] = below(-24); // the query's name stands above its line
    const [atX, atY] = place(query.map((x) => x / 2));
    mark(tags[0], atX + over, atY + up);
    keys.forEach((key, i) => {
      put(arrows[i], [0, 0], key);
      // The shadows lie side by side along the query's line, below it: one would hide the others.
      put(shades[i], [0, 0], feet[i], below(9 + 10 * i));
      put(drops[i], key, feet[i]);
      mark(tags[i + 1], ...place(key.map((x) => x * (1 + (0.11 * reach) / length(key)))));
    });
  };
  return { node: root, render };
}

// A row for each key: what its score is made of, and the score as a bar, which has room for those that are `usual`.
function scoreTable(names, usual) {
  const row = (...cells) => html("div", { class: "explore-row" }, ...cells);
  const head = ["key", "lengths × cosine", "", "score"].map((text) => html("span", { class: "explore-caption" }, text));
  const rows = names.map((name, i) =>
    row(
      html("span", {}, name),
      html("span", { class: "explore-sum" }),
      html("span", { class: "explore-track" }, html("span", { class: "explore-bar", style: `background: ${hue(i)}` })),
      html("span", {}),
    ),
  );
  const render = ({ query, keys }, { scores, cosines }, best) => {
    const most = Math.max(usual, largest(scores));
    keys.forEach((key, i) => {
      const [name, sum, track, score] = rows[i].children;
      const wide = Math.min(1, Math.abs(scores[i]) / most) * 50;
      name.className = score.className = i === best ? "explore-best" : "";
      sum.textContent = `${length(query).toFixed(2)} × ${length(key).toFixed(2)} × ${decimal(cosines[i], 2)}`;
      track.firstChild.style.cssText += `; width: ${wide}%; left: ${scores[i] < 0 ? 50 - wide : 50}%`;
      score.textContent = decimal(scores[i], 1);
    });
  };
  return { node: html("div", { class: "explore-rows" }, row(...head), ...rows), render };
}

function sentence({ names, query }, { scores, cosines }, best) {
  const closest = cosines.indexOf(Math.max(...cosines));
  const square = cosines.findIndex((cosine) => Math.abs(cosine) < 0.02);
  const who = `*${names[best]}*`;
  const more = square < 0 ? "" : ` *${names[square]}* stands at a right angle to the query: no shadow, a score of 0.`;
  const far = length(query);
  const long = ` The query is ${far.toFixed(1)} long, so each score is ${far.toFixed(1)} times as far as its shadow reaches.`;
  const times = Math.abs(far - 1) < 0.05 ? "" : long;
  if (largest(scores) < 0.05) {
    return "Every score is nearly 0: the query has hardly any length, or all keys stand at a right angle to it.";
  }
  if (scores[best] <= 0) {
    return "No key points the query's way: all shadows fall on the other side, and no score is above 0.";
  }
  if (best === closest) {
    return `${who} wins: it points the query's way more than the others, and its shadow reaches furthest.${more}${times}`;
  }
  return (
    `${who} wins with ${decimal(scores[best], 1)}, though *${names[closest]}* points more nearly the query's way: ` +
    `${who} is longer, and its shadow reaches further.${more}${times}`
  );
}

const CSS = `
.explore-side { flex: 1 1 260px; max-width: 380px; }
.explore-rows { flex: 1 1 280px; align-self: center; }
.explore-row { grid-template-columns: 2.6em 11em 1fr 3em; }
.explore-row > :last-child { text-align: right; }
.explore-bar { position: absolute; height: 100%; }
.explore-track::before { content: ""; position: absolute; left: 50%; height: 100%; border-left: 1px solid var(--explore-soft); }
.explore-road { stroke: var(--explore-line); }
.explore-arrow { stroke-width: 3.5; stroke-linecap: round; }
.explore-drop { stroke-width: 1.5; stroke-dasharray: 2 4; }
.explore-shade { stroke-width: 8; opacity: 0.55; }
.explore-row > * { white-space: nowrap; }
&.explore-waiting :is(.explore-shade, .explore-drop, .explore-sum, .explore-bar, .explore-row > :last-child) { visibility: hidden; }
&.explore-waiting .explore-row > * { font-weight: 400; }
@container (max-width: 420px) { .explore-row { grid-template-columns: 2.2em 10.4em 1fr 2.4em; gap: 6px; font-size: 13px; } }
`;
