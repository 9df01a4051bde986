// Notebook 07: layers that replace what they read, or add to it. Which of them can be taken out?
import { decimal, frame, html, listed, percent, svg } from "./kit.js";

// scores (N) -> the largest, the next one, and how far it is ahead; best is -1 where all are equal: nothing was said
export function winner(scores) {
  const [best, next] = [...scores.keys()].sort((a, b) => scores[b] - scores[a]);
  const silent = scores.every((score) => score === scores[0]);
  return silent ? { best: -1, next: -1, ahead: 0 } : { best, next, ahead: scores[best] - scores[next] };
}

// says (2^L, N) -> (L + 1, N): what the stream would answer before layer 1, after it, ... after layer L. What comes after
// k layers is what would arrive at the end if all others were out, and that stands in the table as well.
export const heights = (says, on) =>
  Array.from({ length: Math.log2(says.length) + 1 }, (_, k) => says[on & (2 ** k - 1)]);

const often = (share) => (share > 0.995 && share < 1 ? "more than 99%" : percent(share));
const lead = (ahead) => decimal(ahead, ahead < 0.095 ? 3 : 2);

// data as for `mount`; bit i of `on` is 1 where layer i + 1 is on, `quiet` is 1 where cards come a tenth as loud
export function told({ things, asked, towers }, { tower, on, quiet }) {
  const { name, says, right } = towers[tower];
  const rising = heights(says[quiet], on).map(winner);
  const L = rising.length - 1;
  const { best, next, ahead } = rising[L];
  const share = right[quiet][on];
  const few = 1 / things.length;
  const layers = [...Array(L).keys()];
  const is_on = (i) => (on >> i) & 1;
  const out = layers.filter((i) => !is_on(i));
  const kept = layers.filter(is_on);
  const these = (places) => {
    const numbers = listed(places.map((i) => i + 1));
    return places.length > 1 ? `ayers ${numbers} are` : `ayer ${numbers} is`;
  };
  const loud = quiet ? "The cards come a tenth as loud. " : "";
  if (!on) {
    return `${loud}No layer is on, so *nothing was said*: what arrives is the question itself, with an empty box for the thing.`;
  }
  let which = `Only l${these(kept)} on`;
  if (!out.length) which = "All layers are on";
  else if (out.length < L / 2) which = `L${these(out)} out`;
  if (best < 0) return `${loud}${which}. All things score alike: *nothing was said*.`;

  const said =
    best === asked
      ? `The answer is *${things[best]}*: right, and ${lead(ahead)} ahead of ${things[next]}.`
      : `The answer is *${things[best]}*: wrong, ${things[asked]} would be right.`;
  let guess = "";
  if (share < 0.75 * few) guess = ", worse than a blind guess";
  else if (share <= 1.25 * few) guess = ", about as good as a blind guess";
  else if (share < 2 * few) guess = ", hardly better than a blind guess";
  return `${loud}${which}. ${said} The tower is right in *${often(share)}* of 1,000 scenes${guess}. ${why()}`.trim();

  function why() {
    const replaces = name === "each replaces";
    const normed = name.includes("norm");
    if (quiet && !normed && share < 0.5) {
      return (
        "Queries and keys are a tenth as long, scores a hundredth: each card gets nearly the same weight, " +
        "and what comes out is a mixture of all."
      );
    }
    if (quiet && normed && share >= 0.8) return "Before a layer reads them, the norm makes the cards as loud as ever.";
    if (replaces && out.length && share < 0.5) {
      if (!is_on(L - 1)) return `Only layer ${L} has learned to make an answer of what it reads.`;
      const i = layers.find((i) => is_on(i) && !is_on(i - 1) && i > 0);
      return `Layer ${i + 1} has learned to read what layer ${i} makes, and now it gets something else.`;
    }
    if (!replaces && out.length && share >= 0.8) {
      const what = kept.length > 1 ? "the others add still" : "it adds";
      return `What ${what} arrives: the stream goes past a layer that is out.`;
    }
    if (!replaces && out.length && share < 0.5) {
      const back = (i) => right[quiet][on | (1 << i)];
      const most = out.reduce((a, b) => (back(b) > back(a) ? b : a));
      if (back(most) < share + 0.3) return "";
      const needed = out.length === 1 ? ": the others need what it adds" : "";
      return `Put layer ${most + 1} back, and it is right in ${often(back(most))}${needed}.`;
    }
    if (best !== asked) return "";
    const from = rising.findLastIndex((one) => one.best !== asked) + 1; // since when it has been right
    if (from < L) return `From layer ${from} on, it can be read off the stream at each height.`;
    const earlier = rising[L - 1].best;
    return `Before layer ${L} the stream would say ${earlier < 0 ? "nothing" : `*${things[earlier]}*`}.`;
  }
}

// data: things (N), asked: which of them is right, towers: [{ name, says (2, 2^L, N), right (2, 2^L) }]
export function mount(element, data) {
  const { things, asked, towers } = data;
  const L = Math.log2(towers[0].right[0].length);
  const all = 2 ** L - 1;
  const adding = towers.findIndex(({ name }) => name === "each adds");
  let at = { tower: Math.max(0, adding), on: all & ~2, quiet: 0 };
  const change = (by) => {
    at = { ...at, ...by };
    show();
  };

  const shares = towers.map(({ name }, tower) => {
    const bar = html("span", { class: "explore-bar" });
    const share = html("span", { class: "explore-share" });
    const guess = html("span", { class: "explore-mark", style: `left: ${100 / things.length}%` });
    const track = html("span", { class: "explore-track" }, bar, guess);
    const button = html("button", { type: "button", onclick: () => change({ tower }) }, name);
    return { bar, button, share, row: html("div", { class: "explore-row" }, button, track, share) };
  });
  const quiet = html("input", { type: "checkbox", onchange: () => change({ quiet: +quiet.checked }) });
  const drawing = () => svg("svg", { viewBox: "0 0 136 44", class: "explore-way", "aria-hidden": "true" });
  // What the stream would answer after k layers.
  const rows = [...Array(L + 1).keys()].map((k) => {
    const way = drawing();
    const said = html("span", { class: "explore-said" });
    const flip = () => change({ on: at.on ^ (1 << (k - 1)) });
    const button = html("button", { type: "button", role: "switch", onclick: flip }, `layer ${k}`);
    const bars = things.map((thing, i) => {
      const bar = k ? html("span", {}, "") : html("span", { class: "explore-name" }, thing);
      return html("span", { class: i === asked ? "explore-asked" : "" }, bar);
    });
    const place = html("div", { class: "explore-place" }, way, ...(k ? [button] : []));
    const table = html("div", { class: "explore-bars" }, ...bars);
    const row = html("div", { class: `explore-layer ${k ? "" : "explore-top"}` }, place, table, said);
    return { way, said, button, bars, row };
  });
  const end = drawing();
  const answer = html("span", { class: "explore-answer" });
  const caption = (text) => html("div", { class: "explore-caption" }, text);
  const { say, remove } = frame(
    element,
    {
      name: "stream",
      css: CSS,
      invitation: "Take out a layer, or put it back: does the tower still answer? Then try the other towers.",
    },
    html("div", { class: "explore-shares" }, ...shares.map(({ row }) => row)),
    caption(`right in 1,000 scenes, with the same layers on · line: a blind guess, 1 of ${things.length}`),
    html(
      "div",
      { class: "explore-tools" },
      html("label", {}, quiet, "cards a tenth as loud"),
      html("button", { type: "button", onclick: () => change({ on: all }) }, "all on"),
    ),
    html(
      "div",
      { class: "explore-tower" },
      ...rows.map(({ row }) => row),
      html("div", { class: "explore-layer" }, end, answer),
    ),
    caption("bars: the score of each thing in one scene, read off the stream at each height · tinted: the right one"),
  );

  const path = (d, kind) => svg("path", { d, class: `explore-${kind}` });
  const word = (x, y, text, more) => svg("text", { x, y, "dominant-baseline": "middle", ...more }, text);
  // The line goes through it, or past it.
  function layer(k, name) {
    const [before, on, after] = [k - 2, k - 1, k].map((i) => i < 0 || i >= L || (at.on >> i) & 1);
    if (name === "each replaces") {
      const around = `${before ? "M105 0H68Q58 0 58 10" : "M58 0"}${after ? "V34Q58 44 68 44H105" : "V44"}`;
      return [path(on ? "M105 0V44" : around, "flow")];
    }
    const line = path("M16 0V44", "flow");
    if (!on) return [line];
    const norm = [
      svg("rect", { x: 24, y: 4, width: 40, height: 18, rx: 3, class: "explore-norm" }),
      word(44, 13.5, "norm", { "text-anchor": "middle", "font-size": 12 }),
    ];
    return [
      line,
      path("M16 13H68M74 32H16", "branch"),
      path("M74 13l-7 -4v8z", "head"),
      ...(name.includes("norm") ? norm : []),
      svg("circle", { cx: 16, cy: 32, r: 8, class: "explore-plus" }),
      path("M11 32h10M16 27v10", "branch"),
    ];
  }
  function name_of({ best, ahead }) {
    if (best < 0) return [html("span", { class: "explore-caption" }, "nothing")];
    const kind = `explore-best ${best === asked ? "explore-right" : "explore-wrong"}`;
    return [
      html("span", { class: kind }, `${things[best]} ${best === asked ? "✓" : "✗"}`),
      html("span", { class: "explore-caption" }, `${lead(ahead)} ahead`),
    ];
  }
  function show() {
    const { name, says } = towers[at.tower];
    const replaces = name === "each replaces";
    const x = replaces ? 105 : 16;
    const found = heights(says[at.quiet], at.on);
    const drawn = [found, heights(says[at.quiet], all)].flat(2); // one scale for these and for what all layers say
    const low = Math.min(0, ...drawn);
    const span = 1.15 * (Math.max(0, ...drawn) - low) || 1;
    const zero = `${(-100 * low) / span}%`;
    shares.forEach(({ bar, button, share }, tower) => {
      const part = towers[tower].right[at.quiet][at.on];
      bar.style.width = `${100 * part}%`;
      share.textContent = often(part).replace("more than ", ">");
      button.setAttribute("aria-pressed", tower === at.tower);
      share.parentElement.classList.toggle("explore-best", tower === at.tower);
    });
    rows.forEach(({ way, said, button, bars, row }, k) => {
      const scores = found[k];
      const one = winner(scores);
      const is_on = (at.on >> (k - 1)) & 1;
      if (!k) {
        const cards = word(x + (replaces ? -11 : 12), 31, "the cards", { "text-anchor": replaces ? "end" : "start" });
        way.replaceChildren(cards, path(`M${x} 20V44`, "flow"));
        return;
      }
      way.replaceChildren(...layer(k, name));
      row.style.setProperty("--explore-zero", zero);
      button.setAttribute("aria-checked", !!is_on);
      said.replaceChildren(...name_of(one));
      bars.forEach(({ firstChild: bar }, i) => {
        const judged = i === asked ? "explore-right" : "explore-wrong";
        bar.className = `explore-score ${i === one.best ? judged : ""}`;
        bar.style.bottom = `${(100 * (Math.min(0, scores[i]) - low)) / span}%`;
        bar.style.height = `${(100 * Math.abs(scores[i])) / span}%`;
      });
    });
    end.replaceChildren(path(`M${x} 0V22`, "flow"), path(`M${x - 11} 20h22l-11 16z`, "end"));
    answer.replaceChildren("answer: ", name_of(winner(found[L]))[0]);
    say(told(data, at));
  }
  show();
  return remove;
}

const CSS = `
.explore-shares .explore-row { grid-template-columns: 16.5em minmax(0, 1fr) 3em; margin-bottom: 4px; }
.explore-shares button { text-align: left; line-height: 1.25; padding: 4px 8px; }
[aria-pressed="true"] { border-color: var(--explore-ink); box-shadow: inset 0 0 0 1px var(--explore-ink); font-weight: 600; }
.explore-track { height: 16px; }
.explore-bar { display: block; height: 100%; background: var(--explore-blue); opacity: 0.55; }
.explore-row.explore-best .explore-bar { opacity: 1; }
.explore-mark { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--explore-ink); }
.explore-share { text-align: right; }
.explore-tower { margin: 10px 0 4px; max-width: 760px; }
.explore-layer { display: grid; grid-template-columns: 136px minmax(0, 1fr) 80px; column-gap: 8px; height: 44px; align-items: center; }
.explore-place { position: relative; height: 44px; }
svg.explore-way { width: 136px; height: 44px; overflow: visible; }
.explore-place button { position: absolute; left: 74px; top: 6px; width: 62px; height: 32px; padding: 0; border: 2px solid var(--explore-blue); }
.explore-place button[aria-checked="false"] {
  border: 2px dashed var(--explore-line); background: var(--explore-paper); color: var(--explore-soft); text-decoration: line-through; }
.explore-flow { fill: none; stroke: var(--explore-line); stroke-width: 8; }
.explore-end { fill: var(--explore-line); }
.explore-branch { fill: none; stroke: var(--explore-ink); stroke-width: 2; }
.explore-head { fill: var(--explore-ink); }
.explore-plus, .explore-norm { fill: var(--explore-paper); stroke: var(--explore-ink); stroke-width: 1.5; }
.explore-bars { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); height: 44px; position: relative; }
.explore-bars::after { content: ""; position: absolute; inset: auto 0 var(--explore-zero); border-bottom: 1px solid var(--explore-soft); }
.explore-bars > span { position: relative; }
.explore-bars .explore-name { position: absolute; left: 50%; bottom: 4px; translate: -50%; font-size: 12px; }
.explore-asked { background: color-mix(in srgb, var(--explore-green) 16%, transparent); font-weight: 700; }
.explore-score { position: absolute; left: 50%; width: 60%; max-width: 22px; translate: -50%; background: var(--explore-soft); opacity: 0.6; }
.explore-score.explore-right { background: var(--explore-green); opacity: 1; }
.explore-score.explore-wrong { background: var(--explore-red); opacity: 1; }
.explore-top .explore-bars::after { display: none; }
.explore-said { display: grid; line-height: 1.25; white-space: nowrap; font-size: 13px; }
.explore-best.explore-right { color: var(--explore-green); }
.explore-best.explore-wrong { color: var(--explore-red); }
.explore-line { min-height: 4.2em; }
.explore-answer { grid-column: 2 / -1; font-size: 16px; }
@container (max-width: 480px) {
  .explore-shares .explore-row { grid-template-columns: 9.6em minmax(0, 1fr) 2.8em; font-size: 13px; }
  .explore-layer { column-gap: 4px; grid-template-columns: 136px minmax(0, 1fr) 74px; }
  .explore-bars .explore-name { writing-mode: vertical-rl; }
  .explore-top { height: 54px; align-items: end; }
  .explore-line { min-height: 7em; }
}
`;
