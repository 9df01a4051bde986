// Notebook 09: the next letter's probabilities under temperature, top-k and top-p.
import { frame, html, percent, slider } from "./kit.js";
import { draw, probabilities, random, softmax } from "./sampling.js";

export const entropy = (shares) => -shares.reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0); // in nats

const shown = (letter) => ({ "\n": "↵", " ": "␣" })[letter] ?? letter;
const BARS = 24;

// data: characters (V), line: a text, logits (letters of the line, V): what the model says after each of them,
// place: after which letter it starts
export function mount(element, data) {
  const { characters, logits } = data;
  const letters = [...data.line];
  const V = characters.length;
  const state = { place: data.place, temperature: 1, topK: V, topP: 1 };
  const dice = random(1); // every reader gets the same letters

  const doubts = logits.map((row) => entropy(softmax(row)));
  const most = Math.max(...doubts);
  const text = letters.map((letter, i) => {
    const dark = `--explore-doubt: ${Math.round((60 * doubts[i]) / most)}%`;
    return html("span", { "data-place": i, style: dark }, shown(letter));
  });
  const click = (event) => {
    const clicked = event.target.dataset.place;
    if (!clicked) return;
    putPlace(+clicked);
    state.place = +clicked;
    show();
  };
  const line = html("div", { class: "explore-text", "aria-hidden": "true", onclick: click }, ...text);
  const bars = Array.from({ length: Math.min(BARS, V) }, () => {
    const parts = ["explore-ghost", "explore-bar"].map((name) => html("span", { class: name }));
    const stack = html("div", { class: "explore-stack" }, ...parts);
    return html("div", { class: "explore-column" }, stack, html("span", { class: "explore-letter" }));
  });
  const chart = html("div", { class: "explore-chart", role: "img" }, ...bars);
  const drawn = html("output", { class: "explore-drawn" });

  const after = (i) => {
    const last = letters.slice(Math.max(0, i - 9), i + 1);
    return `after “${last.map(shown).join("")}”`;
  };
  const change = (name) => (value) => {
    state[name] = value;
    show();
  };
  const [place, putPlace] = slider("place", {
    min: 0,
    max: letters.length - 1,
    step: 1,
    value: state.place,
    write: after,
    set: change("place"),
  });
  const [heat, putHeat] = slider("temperature", {
    min: 0.1,
    max: 2,
    step: 0.05,
    value: 1,
    write: (x) => x.toFixed(2),
    set: change("temperature"),
  });
  const [top, putTop] = slider("top-k", {
    min: 1,
    max: V,
    step: 1,
    value: V,
    write: (k) => (k === V ? "off" : `${k}`),
    set: change("topK"),
  });
  const [nucleus, putNucleus] = slider("top-p", {
    min: 0.05,
    max: 1,
    step: 0.01,
    value: 1,
    write: (p) => (p === 1 ? "off" : p.toFixed(2)),
    set: change("topP"),
  });
  const reset = () => {
    Object.assign(state, { temperature: 1, topK: V, topP: 1 });
    putHeat(state.temperature);
    putTop(state.topK);
    putNucleus(state.topP);
    show();
  };
  const throwDice = () => {
    const thrown = Array.from({ length: 20 }, () => shown(characters[draw(shares(), dice)]));
    drawn.textContent = thrown.join(" ");
  };
  const button = (words, onclick) => html("button", { type: "button", onclick }, words);
  const hint =
    "click a letter, and see what may follow it · the darker a letter, the less sure the model was of what follows";
  const { say, remove } = frame(
    element,
    { name: "filters", css: CSS, invitation: "Move a slider: which letters may come next?" },
    html("div", { class: "explore-caption" }, hint),
    line,
    html("div", { class: "explore-tools" }, place),
    chart,
    html("div", { class: "explore-tools" }, heat, top, nucleus),
    html("div", { class: "explore-tools" }, button("draw 20 letters", throwDice), button("start again", reset), drawn),
  );

  const shares = () => probabilities(logits[state.place], state);

  function show() {
    const row = logits[state.place];
    const plain = softmax(row);
    const warm = probabilities(row, { temperature: state.temperature });
    const final = shares();
    const order = [...row.keys()].sort((a, b) => row[b] - row[a]);
    const high = Math.max(...final, plain[order[0]]);
    bars.forEach((bar, i) => {
      const letter = order[i];
      const out = final[letter] === 0;
      const [ghost, solid] = bar.firstChild.children;
      bar.className = `explore-column ${out ? "explore-out" : ""}`;
      ghost.style.height = `${(100 * plain[letter]) / high}%`;
      solid.style.height = `${(100 * (out ? warm[letter] : final[letter])) / high}%`;
      bar.lastChild.textContent = shown(characters[letter]);
      bar.title = `${shown(characters[letter])}: ${out ? "cut off" : percent(final[letter])}`;
    });
    text.forEach((span, i) => {
      span.className = i === state.place ? "explore-here" : "";
    });
    drawn.textContent = "";
    const left = final.filter((p) => p > 0).length;
    const doubt = entropy(final);
    const best = percent(final[order[0]]);
    const likeliest = shown(characters[order[0]]);
    let these = `${left} of ${V} letters`;
    if (left === V) these = `All ${V} letters`;
    else if (left === 1) these = `Only one of ${V} letters`;
    const five = order.slice(0, 5).map((i) => `${shown(characters[i])} ${percent(final[i])}`);
    chart.setAttribute("aria-label", `Bars: ${five.join(", ")}; ${V - left} letters are cut off`);
    say(
      `${these} may come; *${likeliest}* is the likeliest (${best}). Entropy: *${doubt.toFixed(2)} nats*, as unsure as ` +
        `a fair die with ${Math.exp(doubt).toFixed(1)} sides (${entropy(plain).toFixed(2)} before).`,
    );
  }
  show();
  return remove;
}

const CSS = `
.explore-text { font: 16px/1.6 ui-monospace, monospace; overflow-wrap: anywhere; margin: 4px 0; }
.explore-text span {
  cursor: pointer; padding: 2px 0; border-radius: 2px;
  background: color-mix(in srgb, var(--explore-red) var(--explore-doubt), transparent);
}
.explore-text .explore-here { outline: 2px solid var(--explore-ink); font-weight: 700; }
.explore-chart { display: flex; gap: 2px; margin-top: 10px; }
.explore-column { flex: 1 1 0; min-width: 0; text-align: center; }
.explore-stack { position: relative; height: 150px; border-bottom: 1px solid var(--explore-ink); }
.explore-stack > * { position: absolute; bottom: 0; border-radius: 2px 2px 0 0; }
.explore-bar { left: 12%; right: 12%; background: var(--explore-blue); }
.explore-ghost { left: 0; right: 0; border: 1px dashed var(--explore-soft); border-bottom: 0; }
.explore-out .explore-bar {
  background: repeating-linear-gradient(45deg, var(--explore-red) 0 2px, transparent 2px 6px); border: 1px solid var(--explore-red);
}
.explore-letter { font: 14px/1.5 ui-monospace, monospace; }
.explore-out .explore-letter { color: var(--explore-red); text-decoration: line-through 2px; }
.explore-drawn { font: 15px ui-monospace, monospace; overflow-wrap: anywhere; }
@container (max-width: 420px) { .explore-column:nth-child(n + 17) { display: none; } }
`;
