// What it writes while it learns, always with the same dice, and where its heads look.
import { html } from "../kit.js";
import { picture } from "../play/elements.js";
import { habitsOf } from "../play/habits.js";
import { drawMap } from "../play/pixels.js";
import { many } from "../play/words.js";
import { Reader } from "../reader.js";
import { draw, probabilities, random } from "../sampling.js";
import { pieces } from "./text.js";

const PASSAGE = 240; // letters
const DICE = 7;
const SHOWN_AS = { "\n": "↵", " ": "·" };

// What a model writes after a new line.
export function written(model) {
  const dice = random(DICE);
  const reader = new Reader(model);
  const tokens = [];
  reader.write(model.ids.get("\n") ?? 0);
  for (let i = 0; i < PASSAGE; i++) {
    tokens.push(draw(probabilities(reader.places.at(-1).logits, { temperature: 0.8 }), dice));
    reader.write(tokens.at(-1));
  }
  return model.decode(tokens);
}

// { node, add(seconds, text, words), clear() }: the samples, of which one is shown: the last, or where the slider stands.
// In it stand out those that are among the `words`.
export function samples() {
  let all = [];
  const paper = html("p", {
    class: "explore-paper explore-verse",
    tabindex: 0,
    role: "region",
    "aria-label": "The sample",
  });
  const note = html("p", { class: "explore-note" });
  const range = { type: "range", min: 0, max: 0, step: 1, value: 0 };
  const slider = html("input", { ...range, "aria-label": "Which sample", oninput: show });
  const node = html("div", {}, html("h3", {}, "What does it write?"), paper, slider, note);

  function show() {
    const { seconds, text, words } = all[slider.value];
    let real = 0;
    let count = 0;
    const shown = pieces(text).map(([piece, isWord]) => {
      const known = isWord && words.has(piece.toLowerCase());
      count += isWord;
      real += known;
      return known ? html("b", {}, piece) : piece;
    });
    paper.replaceChildren(...shown);
    note.textContent = `After ${Math.round(seconds)} s, ${real} of ${many(count, "word")} stand in your text. (Always with the same dice.)`;
    slider.setAttribute("aria-valuetext", `after ${Math.round(seconds)} seconds`);
  }
  function add(seconds, text, words) {
    const follows = +slider.value === all.length - 1 || !all.length;
    all.push({ seconds, text: text.trimStart(), words });
    slider.max = all.length - 1;
    if (follows) slider.value = slider.max;
    show();
  }
  const clear = () => {
    all = [];
    slider.value = slider.max = 0;
  };
  return { node, add, clear };
}

// { node, draw(model, tokens), clear() }: the maps of all heads as they read these tokens, the chosen one large.
export function heads() {
  let chosen = null; // by the reader; until then …
  let shown = [0, 0]; // … it is one with a firm habit
  let seen = null; // what the last model saw
  const title = html("h3", {});
  const large = html("div", { class: "explore-map" }, picture("The map of the chosen head"));
  const axes = ["top", "left"].map((side) =>
    html("div", { class: `explore-axis explore-${side}`, "aria-hidden": "true" }),
  );
  const all = html("div", { class: "explore-heads" });
  const node = html(
    "div",
    {},
    title,
    html("div", { class: "explore-framed" }, ...axes, large),
    all,
    html(
      "p",
      { class: "explore-note" },
      "A row for each letter of a line from your text: the greener, the more this head looks there. Choose another one.",
    ),
  );

  function show() {
    const { places, habits, letters } = seen;
    if (!chosen) shown = firmestOf(habits, shown);
    const [l, k] = chosen ?? shown;
    const { does } = habits[l][k];
    title.textContent = `Where does it look? Layer ${l + 1}, head ${k + 1}: ${does}`;
    node.style.setProperty("--t", letters.length);
    drawMap(large, places, l, k, does);
    for (const axis of axes) axis.replaceChildren(...letters.map((letter) => html("span", {}, letter)));
    for (const [i, button] of [...all.children].entries()) {
      const at = [Math.floor(i / habits[0].length), i % habits[0].length];
      const { does } = habits[at[0]][at[1]];
      drawMap(button, places, ...at, does);
      button.lastChild.textContent = does;
      button.setAttribute("aria-pressed", at.join() === [l, k].join());
    }
  }
  function draw(model, tokens) {
    const { n_layer: L, n_head: H } = model.config;
    if (all.children.length !== L * H) {
      all.style.setProperty("--h", H);
      all.replaceChildren(...Array.from({ length: L * H }, (_, i) => smallMap(Math.floor(i / H), i % H)));
    }
    const reader = new Reader(model);
    reader.reread(tokens);
    const letters = tokens.map((token) => SHOWN_AS[model.alphabet[token]] ?? model.alphabet[token]);
    seen = { places: reader.places, habits: habitsOf(model, tokens), letters };
    show();
  }
  const smallMap = (l, k) => {
    const choose = () => {
      chosen = [l, k];
      show();
    };
    return html(
      "button",
      { type: "button", class: "explore-head", "aria-label": `Layer ${l + 1}, head ${k + 1}`, onclick: choose },
      html("span", { class: "explore-map" }, html("canvas", {})),
      html("span", { class: "explore-habit" }),
    );
  };
  const clear = () => {
    chosen = null;
    shown = [0, 0];
  };
  return { node, draw, clear };
}

// The head that keeps most to its habit, unless the one that is shown keeps half as much to its own.
function firmestOf(habits, [l, k]) {
  const found = habits.flatMap((row, l) => row.map(({ more }, k) => ({ more, place: [l, k] })));
  const firmest = found.reduce((best, one) => (one.more > best.more ? one : best));
  return habits[l][k].more > firmest.more / 2 ? [l, k] : firmest.place;
}
