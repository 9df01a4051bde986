// Notebook 05: throw a coin for each of attention's weights. One draw is wild; the mean of many comes close to the weights.
import { frame, html, named, slider, sum } from "./kit.js";

// Numbers from 0 to 1, the same for the same seed (mulberry32): every reader throws the same coins.
export function coins(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// weights (T, T) -> one draw (T, T): a coin for each weight but those that are 0 anyway; what is kept is divided by 1 - p
export const drop = (weights, p, random) =>
  weights.map((row) => row.map((weight) => (weight === 0 || random() < p ? 0 : weight / (1 - p))));

const alive = (row) => row.filter((weight) => weight !== 0).length;

// Which rows of a draw are empty, and which of the others has the sum farthest from 1 (the last of those that tie; -1: none)
function harm(draw) {
  const sums = draw.map(sum);
  const off = sums.map((whole) => whole && Math.abs(whole - 1));
  const most = Math.max(...off);
  const empty = [...sums.keys()].filter((t) => sums[t] === 0);
  return { sums, empty, worst: most < 0.005 ? -1 : off.findLastIndex((far) => far > most - 0.005) };
}

// The cell of a mean that is farthest from its weight: { t, s, off }
function farthest(weights, mean) {
  const cells = weights.flatMap((row, t) => row.map((weight, s) => ({ t, s, off: Math.abs(mean[t][s] - weight) })));
  return cells.reduce((a, b) => (b.off > a.off ? b : a));
}

// What is most worth saying, with *emphasis* between stars. After one throw: what went wrong in it; after `many`: how
// close the mean is. `first` is how far the farthest cell was off after the first draw.
export function told({ words, weights, p, draw, mean, n, first, many }) {
  const name = named(words);
  const cell = ({ t, s }) => `${name(t)} on ${name(s)}`;
  const size = (x) => (x < 0.005 ? "less than 0.005" : x.toFixed(2));
  const far = farthest(weights, mean);
  const said = [];
  if (many) {
    // one cell to follow: the last word's largest weight, because the farthest is now here, now there
    const t = words.length - 1;
    const s = weights[t].indexOf(Math.max(...weights[t]));
    const weight = weights[t][s];
    const means = `After ${n} draws the mean of ${cell({ t, s })} is ${mean[t][s].toFixed(2)}`;
    said.push(`${means}, its weight ${weight.toFixed(2)}: each draw gave it 0 or ${(weight / (1 - p)).toFixed(2)}.`);
    said.push(far.t === t && far.s === s ? "That cell is the farthest," : `The farthest cell is ${cell(far)},`);
    said.push(`off by ${size(far.off)}; after one draw the farthest was off by ${size(first)}.`);
    return said.join(" ");
  }
  const all = sum(weights.map(alive));
  const left = sum(draw.map(alive));
  const gone = all - left;
  const { sums, empty, worst } = harm(draw);
  const times = +(1 / (1 - p)).toFixed(2);
  const larger = `${times === 2 ? "twice" : `${times} times`} as large`;
  let rest = `, and the ${left > 1 ? "others are" : "last one is"} ${larger}`;
  if (left === 0) rest = "";
  else if (gone === 0) rest = `, and all are ${larger}`;
  said.push(`Draw ${n}: ${gone || "none"} of ${all} weights ${gone > 1 ? "are" : "is"} gone${rest}.`);
  if (empty.length === 1) {
    const had = alive(weights[empty[0]]);
    const lost = had === 1 ? "its only one" : had === 2 ? "both" : `all ${had}`;
    said.push(`${name(empty[0])} has lost ${lost}, and its row is empty.`);
  } else if (empty.length) {
    const more = empty.length === 2 ? name(empty[1]) : `${empty.length - 1} more words`;
    said.push(`${name(empty[0])} and ${more} have lost all they had: their rows are empty.`);
  }
  if (worst >= 0) {
    const whole = alive(draw[worst]) === alive(weights[worst]) ? "has lost nothing and " : "";
    said.push(`The row of ${name(worst)} ${whole}adds up to ${sums[worst].toFixed(2)} instead of 1.`);
  }
  if (n > 1) said.push(`The mean of ${n} draws is off by up to ${size(far.off)}, at ${cell(far)}.`);
  return said.join(" ");
}

// data: words (T), weights (T, T) after the causal mask and softmax, p: with which it starts
export function mount(element, data) {
  const { words, weights } = data;
  const T = words.length;
  const number = (x) => x.toFixed((T > 8 ? 1 : 2) - (x >= 9.95)); // to as many decimals as there is room for
  let p = data.p;
  let random;
  let draw;
  let summed;
  let n;
  let first;

  // With `more` columns than words; `put` fills it in.
  function table(...more) {
    const columns = [...words, ...more];
    const label = 6 + 7 * Math.min(11, Math.max(...words.map((word) => word.length)));
    const span = (role, text = "", more = {}) => html("span", { role, ...more }, text);
    const line = (...cells) => html("div", { role: "row", class: "explore-row" }, ...cells);
    const cells = words.map(() => columns.map(() => span("cell")));
    const heads = columns.map((word) => span("columnheader", word, { class: "explore-head" }));
    const rows = cells.map((row, t) => line(span("rowheader", words[t]), ...row));
    const corner = span("columnheader", "", { "aria-label": "who looks" });
    const grid = html("div", { role: "table", class: "explore-table" }, line(corner, ...heads), ...rows);
    const caption = html("div", { class: "explore-caption" });
    const needs = label + (T > 8 ? 21 : 26) * columns.length;
    const style = `--explore-columns: ${columns.length}; --explore-needs: ${needs}px`;
    // A number that is null is a weight that was dropped; mark(t, s) -> a class more for that cell.
    function put(title, numbers, mark) {
      caption.textContent = title;
      grid.setAttribute("aria-label", title);
      cells.forEach((row, t) => {
        row.forEach((cell, s) => {
          const x = numbers[t][s];
          const kind = s === T ? "sum" : s > t ? "future" : x === null ? "gone" : "share";
          cell.className = `explore-${kind} ${mark(t, s) || ""}`;
          cell.textContent = { future: "", gone: "×" }[kind] ?? number(x);
          cell.setAttribute("aria-label", { future: "hidden by the mask", gone: "dropped" }[kind] ?? number(x));
          cell.style.setProperty("--explore-weight", `${Math.round(45 * Math.sqrt(Math.min(1, x / 2)))}%`);
        });
      });
    }
    return [html("div", { class: "explore-side", style }, caption, grid), put];
  }
  const [left, putWeights] = table();
  const [middle, putDraw] = table("sum");
  const [right, putMean] = table();
  const button = (text, onclick) => html("button", { type: "button", onclick }, text);
  const [chance] = slider("dropped with p =", {
    min: 0.1,
    max: 0.9,
    step: 0.05,
    value: p,
    write: (value) => value.toFixed(2),
    set: (value) => {
      p = value;
      start();
    },
  });
  const invitation = "Throw the coins a few times, then a hundred times: which table comes close to the weights?";
  const { say, remove } = frame(
    element,
    { name: "coins", css: CSS, invitation },
    html("div", { class: "explore-parts" }, left, middle, right),
    html(
      "div",
      { class: "explore-tools" },
      button("throw the coins again", () => toss(1)),
      button("throw 100 times", () => toss(100)),
      button("start again", start),
      chance,
    ),
  );

  function start() {
    random = coins(SEED);
    n = 0;
    summed = weights.map((row) => row.map(() => 0));
    toss(1);
  }
  function toss(times) {
    for (let i = 0; i < times; i++, n++) {
      draw = drop(weights, p, random);
      summed = summed.map((row, t) => row.map((sum, s) => sum + draw[t][s]));
      if (n === 0) first = farthest(weights, draw).off;
    }
    const mean = summed.map((row) => row.map((sum) => sum / n));
    const many = times > 1;
    const far = farthest(weights, mean);
    const { sums, empty, worst } = harm(draw);
    const seen = draw.map((row, t) => [...row.map((x, s) => (weights[t][s] && !x ? null : x)), sums[t]]);
    const off = (t, s) => n > 1 && t === far.t && s === far.s && "explore-far"; // marked is what is spoken of
    putWeights("weights", weights, off);
    const harmed = (t) => (empty.includes(t) ? "explore-empty" : !many && t === worst && "explore-far");
    putDraw(`this draw: number ${n}`, seen, (t, s) => s === T && harmed(t));
    putMean(`mean of ${n} ${n > 1 ? "draws" : "draw"}`, mean, off);
    say(told({ words, weights, p, draw, mean, n, first, many }));
  }
  start();
  return remove;
}

export const SEED = 7; // at every p its first coin takes the only weight of the first word
const CSS = `
.explore-parts { gap: 8px 12px; align-items: flex-end; }
.explore-side { flex: 1 1 var(--explore-needs); min-width: 0; max-width: max(340px, 1.4 * var(--explore-needs)); }
.explore-table { display: grid; gap: 1px; font-size: 11.5px; font-variant-numeric: tabular-nums;
  grid-template-columns: fit-content(84px) repeat(var(--explore-columns), minmax(0, 1fr)); }
.explore-row { display: contents; }
.explore-row > * { line-height: 26px; text-align: center; white-space: nowrap; overflow: hidden; border-radius: 3px; }
[role="rowheader"] { text-align: right; padding-right: 4px; text-overflow: ellipsis; }
.explore-row > .explore-head { writing-mode: vertical-rl; rotate: 180deg; place-self: end center; max-height: 84px;
  text-align: left; line-height: 1.3; text-overflow: ellipsis; padding-top: 3px; }
.explore-share { background: color-mix(in srgb, var(--explore-green) var(--explore-weight), var(--explore-faint)); }
.explore-gone { color: var(--explore-soft); background: var(--explore-paper); box-shadow: inset 0 0 0 1px var(--explore-line); }
.explore-future { background: repeating-linear-gradient(45deg, var(--explore-faint) 0 4px, var(--explore-paper) 4px 8px); }
.explore-sum { color: var(--explore-soft); }
.explore-far { color: var(--explore-ink); box-shadow: inset 0 0 0 2px var(--explore-red); }
.explore-empty { color: var(--explore-paper); background: var(--explore-red); }
@container (max-width: 420px) { [role="rowheader"] { max-width: 60px; } .explore-table { font-size: 11px; } }
`;
