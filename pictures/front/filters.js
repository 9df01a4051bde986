// Notebook 09: the next letter's probabilities under temperature, top-k and top-p.
import { byHand, frame, html, percent, slider } from "./kit.js";
import { draw, probabilities, random, softmax } from "./sampling.js";

export const entropy = (shares) => -shares.reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0); // in nats

const shown = (letter) => ({ "\n": "↵", " ": "·" })[letter] ?? letter;
const BARS = 24;
// The places of numbers, that of the largest first.
const downwards = (numbers) => [...numbers.keys()].sort((a, b) => numbers[b] - numbers[a]);

// data: characters (V), line: a text, logits (letters of the line, V): what the model says after each of them,
// place: after which letter it starts
export function mount(element, data) {
  const { characters, logits } = data;
  const V = characters.length;
  const wholly = { temperature: 1, topK: V, topP: 1 };
  const state = { ...data, ...wholly, letters: [...data.line], change };
  const where = placing(state);
  const chart = chances(state);
  const knobs = tuning(state);
  const drawn = html("output", { class: "explore-drawn" });
  const dice = random(1); // every reader gets the same letters
  const shares = () => probabilities(logits[state.place], state);
  const reset = () => {
    knobs.put(wholly);
    change(wholly);
  };
  const throwDice = () => {
    const thrown = Array.from({ length: 20 }, () => shown(characters[draw(shares(), dice)]));
    drawn.textContent = thrown.join(" ");
  };
  const button = (words, onclick) => html("button", { type: "button", onclick }, words);
  const hint =
    "click a letter, and see what may follow it · the darker a letter, the less sure the model was of what follows";
  const tools = (...inside) => html("div", { class: "explore-tools" }, ...inside);
  const { say, remove } = frame(
    element,
    { name: "filters", css: CSS, invitation: "Move a slider: which letters may come next?" },
    html("div", { class: "explore-caption" }, byHand(hint)),
    where.line,
    tools(where.slider),
    chart.node,
    tools(...knobs.nodes),
    tools(button("draw 20 letters", throwDice), button("start again", reset), drawn),
  );

  function change(to) {
    Object.assign(state, to);
    const final = shares();
    where.render();
    chart.render(final);
    drawn.textContent = "";
    say(sentence(characters, logits[state.place], final));
  }
  change({});
  return remove;
}

// The line, each letter as dark as the model is unsure of the next one, and a slider along it.
function placing(state) {
  const { letters, logits, place, change } = state;
  const doubts = logits.map((row) => entropy(softmax(row)));
  const most = Math.max(...doubts);
  const text = letters.map((letter, i) => {
    const dark = `--explore-doubt: ${Math.round((60 * doubts[i]) / most)}%`;
    return html("span", { "data-place": i, style: dark }, shown(letter));
  });
  const after = (i) => {
    const last = letters.slice(Math.max(0, i - 9), i + 1);
    return `after “${last.map(shown).join("")}”`;
  };
  const set = (to) => change({ place: to });
  const along = { min: 0, max: letters.length - 1, step: 1, value: place, write: after, set };
  const [node, put] = slider("place", along);
  const onclick = ({ target }) => {
    if (!target.dataset.place) return;
    put(+target.dataset.place);
    set(+target.dataset.place);
  };
  const line = html("div", { class: "explore-text", "aria-hidden": "true", onclick }, ...text);
  const render = () => {
    text.forEach((span, i) => {
      span.className = i === state.place ? "explore-here" : "";
    });
  };
  return { line, slider: node, render };
}

// The likeliest letters as bars: dashed what they were, filled what they are, hatched what is cut off.
function chances(state) {
  const { characters, logits } = state;
  const V = characters.length;
  const bars = Array.from({ length: Math.min(BARS, V) }, () => {
    const parts = ["explore-ghost", "explore-bar"].map((name) => html("span", { class: name }));
    const stack = html("div", { class: "explore-stack" }, ...parts);
    return html("div", { class: "explore-column" }, stack, html("span", { class: "explore-letter" }));
  });
  const node = html("div", { class: "explore-chart", role: "img" }, ...bars);
  const render = (final) => {
    const row = logits[state.place];
    const plain = softmax(row);
    const warm = probabilities(row, { temperature: state.temperature });
    const order = downwards(row);
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
    const five = order.slice(0, 5).map((i) => `${shown(characters[i])} ${percent(final[i])}`);
    const out = final.filter((p) => p === 0).length;
    node.setAttribute("aria-label", `Bars: ${five.join(", ")}; ${out} letters are cut off`);
  };
  return { node, render };
}

// The sliders of temperature, top-k and top-p.
function tuning({ characters, change, ...start }) {
  const V = characters.length;
  const off = (end, write) => (x) => (x === end ? "off" : write(x));
  const sliders = [
    ["temperature", "temperature", { min: 0.1, max: 2, step: 0.05, write: (x) => x.toFixed(2) }],
    ["top-k", "topK", { min: 1, max: V, step: 1, write: off(V, String) }],
    ["top-p", "topP", { min: 0.05, max: 1, step: 0.01, write: off(1, (p) => p.toFixed(2)) }],
  ].map(([label, name, range]) => {
    const set = (value) => change({ [name]: value });
    return [name, ...slider(label, { ...range, value: start[name], set })];
  });
  const put = (to) => {
    for (const [name, , putOne] of sliders) putOne(to[name]);
  };
  return { nodes: sliders.map(([, node]) => node), put };
}

function sentence(characters, row, final) {
  const V = characters.length;
  const [best] = downwards(row);
  const left = final.filter((p) => p > 0).length;
  const doubt = entropy(final);
  let these = `${left} of ${V} letters`;
  if (left === V) these = `All ${V} letters`;
  else if (left === 1) these = `Only one of ${V} letters`;
  return (
    `${these} may come; *${shown(characters[best])}* is the likeliest (${percent(final[best])}). ` +
    `Entropy: *${doubt.toFixed(2)} nats*, as unsure as a fair die with ${Math.exp(doubt).toFixed(1)} sides ` +
    `(${entropy(softmax(row)).toFixed(2)} before).`
  );
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
.explore-line strong:first-of-type { font-family: ui-monospace, monospace; } /* of a letter: I and l differ in it */
.explore-drawn { font: 15px ui-monospace, monospace; overflow-wrap: anywhere; }
@container (max-width: 420px) { .explore-column:nth-child(n + 17) { display: none; } }
`;
