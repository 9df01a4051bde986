// What matters: how much worse without a part? The answer of a few seeds, and how it moves with each seed more.
import { button, frame, html, slider } from "./kit.js";

// Student's t for 1 to 19 degrees of freedom: 95 % of its distribution lie between -T95 and T95.
export const T95 = [
  12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139, 2.200985,
  2.178813, 2.160369, 2.144787, 2.13145, 2.119905, 2.109816, 2.100922, 2.093024,
];

// The verdict on one comparison, by the rules of helpers/rooms/verdicts.py: there is a difference where the interval
// leaves out zero, and it is too small to matter where all of it lies within the margin.
export function judged(numbers, margin) {
  const n = numbers.length;
  const mean = numbers.reduce((a, b) => a + b, 0) / n;
  const spread = Math.sqrt(numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (n - 1));
  const half = (T95[n - 2] * spread) / Math.sqrt(n);
  const [low, high] = [mean - half, mean + half];
  const differs = low > 0 || high < 0;
  const same = -margin <= low && high <= margin;
  const way = mean > 0 ? "worse" : "better";
  const says = differs ? (same ? `slightly ${way}` : way) : same ? "no difference" : "undecided";
  return { mean, low, high, says };
}

// With two decimals, or as many more as it takes to see on which side of zero it lies.
function signed(x) {
  const d = [2, 3, 4, 5].find((d) => +x.toFixed(d));
  return d ? `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(d)}` : "0.00";
}

// all: the differences of a budget, of which the first n count; before: { budget, all }, what was chosen until now
export function sentence(all, n, margin, before) {
  const { mean, low, high, says } = judged(all.slice(0, n), margin);
  const last = judged(all, margin);
  let why = ".";
  if (says.startsWith("slightly")) {
    why = `, for there is a ${mean > 0 ? "damage" : "gain"}, but less than the margin, ${margin}.`;
  } else if (says === "no difference") {
    why = ` that matters: all of the bar lies within the margin, ${margin} either way.`;
  } else if (says === "undecided") {
    why = ", since it could be nothing and could matter.";
  }
  const damage = `With ${n} seeds the damage is *${signed(mean)}*, somewhere between ${signed(low)} and ${signed(high)}`;
  const sentences = [`${damage}: *${says}*${why}`];
  if (before) {
    const seeds = before.all.slice(0, n);
    const then = judged(seeds, margin);
    sentences.push(`After ${before.budget} the same seeds said ${signed(then.mean)}: *${then.says}*.`);
  } else if (says === "undecided" && n < all.length) {
    const wider = last.high - last.low > high - low;
    sentences.push(`With ${all.length} seeds the interval is ${wider ? "even wider" : "narrower"}.`);
  } else if (says === "undecided") {
    sentences.push("That is not the same as *no difference*: it takes more seeds to tell.");
  }
  return sentences.join(" ");
}

// data: parts (P), budgets (B), differences (P, B, seeds: 3 to 20 numbers each), margin
export function mount(element, data) {
  const { parts, budgets, differences } = data;
  const state = { ...data, part: 0, budget: 0, n: 3 };
  const seeds = howMany(state, Math.max(...differences.flat().map((all) => all.length)), () => show());
  const table = board(state, seeds.most);
  const options = parts.map((name, i) => html("option", { value: i }, name));
  const choice = html("select", { onchange: () => choose({ part: +choice.value }) }, ...options);
  const buttons = budgets.map((name, i) => button(name, () => another(i)));
  const invitation = "Move the slider: how many seeds does it take until the verdict stays? Then change the budget.";
  const legend =
    "dots: a seed each, the damage is the loss with the change minus that of the " +
    "whole model · bar: 95 % interval of their mean, its stronger middle: 90 % · grey: the margin · each verdict stands alone";
  const tools = [
    html("label", {}, "part", choice),
    html("span", { role: "group", "aria-label": "budget" }, ...buttons),
    seeds.node,
  ];
  const { say, remove } = frame(
    element,
    { name: "verdict", css: CSS, invitation },
    html("div", { class: "explore-tools" }, ...tools),
    table.node,
    html("div", { class: "explore-caption" }, legend),
  );

  function another(budget) {
    const then = { budget: budgets[state.budget], all: differences[state.part][state.budget] };
    choose({ budget }, budget === state.budget ? null : then);
  }
  function choose(what, before = null) {
    Object.assign(state, what);
    seeds.limit();
    show(before);
  }
  function show(before = null) {
    table.render();
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", i === state.budget);
    });
    say(sentence(differences[state.part][state.budget], state.n, state.margin, before));
  }
  choose({});
  return remove;
}

// The slider of the seeds. Budgets may have different numbers of them.
function howMany(state, most, show) {
  const set = (n) => {
    state.n = n;
    show();
  };
  const [node, put] = slider("seeds", { min: 2, max: most, step: 1, value: state.n, write: String, set });
  const limit = () => {
    const has = state.differences[state.part][state.budget].length;
    node.querySelector("input").max = has;
    state.n = Math.min(state.n, has);
    put(state.n);
  };
  return { node, most, limit };
}

// One axis for a part: its budgets can be compared. Two seeds may say next to nothing, so they are cut off.
function axisOf(budgets, margin) {
  const ends = budgets.flatMap((one) => {
    const three = judged(one.slice(0, 3), margin);
    return [...one, three.low, three.high];
  });
  const edges = [Math.min(-1.3 * margin, ...ends), Math.max(1.3 * margin, ...ends)];
  const room = 0.04 * (edges[1] - edges[0]);
  const [least, wide] = [edges[0] - room, edges[1] - edges[0] + 2 * room];
  const at = (x) => (100 * (x - least)) / wide;
  const put = (node, from, to = from) => {
    const [a, b] = [from, to].map((x) => Math.min(100, Math.max(0, at(x))));
    node.style.left = `${a}%`;
    if (to !== from) node.style.width = `${b - a}%`;
    return node;
  };
  const power = 10 ** Math.floor(Math.log10(wide / 4));
  const step = [1, 2, 5, 10].find((times) => wide / (times * power) <= 4) * power;
  const rounds = Array.from({ length: 12 }, (_, i) => (Math.ceil(least / step) + i) * step);
  return { at, put, ticks: rounds.filter((x) => at(x) <= 96 && at(x) >= 4) };
}

// A row for each number of seeds, from 2, and the axis below them.
function board(state, most) {
  const rows = Array.from({ length: most - 1 }, (_, i) => verdictOf(i + 2));
  const axis = html("div", { class: "explore-axis" });
  const last = html("div", { class: "explore-row explore-caption" }, html("span", {}), axis, html("span", {}, "nats"));
  const node = html("div", { class: "explore-board", role: "img" }, ...rows.map((row) => row.node), last);
  const render = () => {
    const { parts, budgets, differences, margin, part, budget, n } = state;
    const { at, put, ticks } = axisOf(differences[part], margin);
    for (const row of rows) row.render(differences[part][budget], n, margin, at, put);
    const drawnTick = (x) => {
      const tick = put(html("span"), x);
      tick.textContent = (+x.toFixed(9)).toString().replace("-", "−");
      return tick;
    };
    axis.replaceChildren(...ticks.map(drawnTick));
    const read = rows.slice(0, n - 1).map(({ seeds, says }) => `with ${seeds} seeds ${says()}`);
    node.setAttribute("aria-label", `${parts[part]}, ${budgets[budget]}: ${read.join(", ")}`);
  };
  return { node, render };
}

function verdictOf(seeds) {
  const mark = (kind) => html("span", { class: `explore-${kind}` });
  const track = html("div", { class: "explore-ground" });
  const count = html("span", {});
  const word = html("span", {});
  const node = html("div", { class: "explore-row" }, count, track, word);
  const render = (all, n, margin, at, put) => {
    const drawn = [put(mark("margin"), -margin, margin), put(mark("zero"), 0)];
    const now = seeds <= n && judged(all.slice(0, seeds), margin);
    const kind = now ? `explore-${now.says.split(" ").pop()}` : "";
    node.className = `explore-row ${seeds === n ? "explore-now" : ""} ${kind}`;
    if (now) {
      const bar = put(mark("bar"), now.low, now.high);
      bar.classList.toggle("explore-left", at(now.low) < 0);
      bar.classList.toggle("explore-right", at(now.high) > 100);
      drawn.push(bar, put(mark("mean"), now.mean));
    }
    if (seeds === n) drawn.push(...all.slice(0, n).map((x) => put(mark("dot"), x)));
    track.replaceChildren(...drawn);
    count.textContent = now ? `${seeds} seeds` : "";
    word.textContent = now ? now.says : "";
    node.hidden = seeds > all.length;
  };
  return { node, seeds, says: () => word.textContent, render };
}

const CSS = `
.explore-tools { margin: 0 0 8px; }
select { font: inherit; color: inherit; background: var(--explore-faint); border: 1px solid var(--explore-line);
  border-radius: 6px; min-height: 28px; padding: 2px 6px; max-width: 100%; }
[aria-pressed="true"] { border-color: var(--explore-ink); box-shadow: inset 0 0 0 1px var(--explore-ink); font-weight: 600; }
[role="group"] { display: flex; flex-wrap: wrap; gap: 6px; }
.explore-slider output { min-width: 2em; }
.explore-board { margin-bottom: 6px; }
.explore-row { grid-template-columns: 4.4em minmax(0, 1fr) 8.2em; gap: 6px; line-height: 22px; font-size: 13px; white-space: nowrap; color: var(--explore-soft); }
.explore-row[hidden] { display: none; }
.explore-row.explore-now { color: var(--explore-ink); font-weight: 700; }
.explore-row { --explore-hue: var(--explore-soft); }
.explore-worse { --explore-hue: var(--explore-red); }
.explore-better { --explore-hue: var(--explore-green); }
.explore-difference { --explore-hue: var(--explore-blue); }
.explore-now > :last-child { color: var(--explore-hue); }
.explore-ground, .explore-axis { position: relative; height: 22px; }
.explore-ground { overflow: hidden; }
.explore-ground > * { position: absolute; top: 0; bottom: 0; }
.explore-ground > .explore-margin { background: var(--explore-line); opacity: 0.45; }
.explore-ground > .explore-zero { width: 1px; margin-left: -0.5px; background: var(--explore-soft); }
.explore-ground > .explore-bar {
  top: 8px; bottom: 8px; min-width: 2px; background: var(--explore-hue); opacity: 0.3; }
.explore-now .explore-bar { top: 4px; bottom: 4px; opacity: 0.4; }
.explore-left { clip-path: polygon(0 50%, 7px 0, 100% 0, 100% 100%, 7px 100%); }
.explore-right { clip-path: polygon(0 0, calc(100% - 7px) 0, 100% 50%, calc(100% - 7px) 100%, 0 100%); }
.explore-left.explore-right {
  clip-path: polygon(0 50%, 7px 0, calc(100% - 7px) 0, 100% 50%, calc(100% - 7px) 100%, 7px 100%); }
.explore-ground > .explore-mean { width: 2px; margin-left: -1px; top: 5px; bottom: 5px; background: var(--explore-hue); }
.explore-now .explore-mean { width: 3px; margin-left: -1.5px; top: 1px; bottom: 1px; }
.explore-ground > .explore-dot { width: 9px; height: 9px; margin-left: -4.5px; top: 6.5px; border-radius: 50%;
  background: var(--explore-ink); border: 1px solid var(--explore-paper); }
.explore-axis > * { position: absolute; translate: -50%; font-size: 12px; }
`;
