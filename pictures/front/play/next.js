// "What comes next?": the probabilities of the next letter, and the settings that change them.
import { html } from "../kit.js";
import { fillBars, paragraph, titled } from "./elements.js";

export function next(state) {
  const bars = html("div", { class: "explore-bars" });
  const title = html("span", {});
  const legend = paragraph(
    "Wide, pale bars: the model's own probabilities. Narrow bars: after temperature and cuts, as the dice see them.",
  );
  const node = titled(
    "What comes next?",
    paragraph(
      "The model doesn't choose the next letter. It gives each of the ",
      `${state.config.vocab_size} characters it knows (· is a space, ↵ a new line) a probability, and dice do the rest. `,
      "Lower the temperature and it plays safe; raise it and it gets bold. Click a letter to choose it yourself.",
      state.data.page && state.about.preset ? " (What the page wrote when you arrived is the best of a hundred.)" : "",
    ),
    html(
      "div",
      { class: "explore-two" },
      html("div", {}, html("p", { class: "explore-note" }, title), bars),
      html("div", { class: "explore-sliders" }, ...sliders(state), legend),
    ),
  );
  const render = () => {
    const { at, last, place } = state;
    const here = state.named(place.token);
    title.textContent =
      at === last
        ? `After your text, after ${here}`
        : `After ${here} at place ${at + 1}, where ${state.named(state.reader.window[at + 1])} came (to choose the next letter, click the last one)`;
    const pick = at === last ? (token) => state.writeOne(token) : null;
    fillBars(state, bars, place.logits, state.settings, 12, pick);
  };
  return { node, render };
}

function sliders(state) {
  const V = state.config.vocab_size;
  const percentage = (part) => (part >= 1 ? "all" : `${Math.round(100 * part)}%`);
  const range = (name, label, min, max, step, read) => {
    const output = html("output", {}, read(state.settings[name]));
    const moved = () => {
      state.settings[name] = +input.value;
      output.textContent = read(state.settings[name]);
      state.render();
    };
    const attributes = { type: "range", min, max, step, value: state.settings[name], "data-setting": name };
    const input = html("input", { ...attributes, oninput: moved });
    return html("label", {}, html("span", {}, label), output, input);
  };
  return [
    range("temperature", "temperature", 0.1, 2, 0.05, (v) => v.toFixed(2)),
    range("topK", "top-k: only the k likeliest", 1, V, 1, (v) => (v >= V ? "all" : v)),
    range("topP", "top-p: only the likeliest, until together they reach this share", 0.05, 1, 0.01, percentage),
  ];
}
