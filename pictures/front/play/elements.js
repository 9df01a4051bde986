// Elements that several sections have.
import { byHand, html, percent } from "../kit.js";
import { probabilities, softmax } from "../sampling.js";
import { bestFirst } from "./words.js";

export const titled = (title, ...children) => html("section", {}, html("h2", {}, title), ...children);
export const paragraph = (...children) =>
  html("p", { class: "explore-say" }, ...children.map((child) => (typeof child === "string" ? byHand(child) : child)));
export const colored = (color, text) => html("span", { class: `explore-${color}` }, text);
export const frameOfRow = () => html("i", { class: "explore-row" });

// A canvas with a name from the start: sections out of sight are drawn later, and a screen reader may come before.
export const picture = (label, attributes = {}) => html("canvas", { role: "img", "aria-label": label, ...attributes });

// In `into`, a bar for each of the `rows` likeliest letters, wide for the model's own probabilities, narrow for those under
// `settings`. With `choose(token)` the bars are buttons.
export function fillBars(state, into, logits, settings, rows, choose = null) {
  const own = softmax(logits);
  const cut = probabilities(logits, settings);
  const order = bestFirst(own);
  const rest = order.slice(rows).reduce((a, i) => a + cut[i], 0);
  const focused = [...into.children].indexOf(document.activeElement);
  const bar = (i) => {
    const both = [own, cut].map((shares) => html("i", { style: `width: ${100 * shares[i]}%` }));
    const track = html("span", { class: "explore-track" }, ...both);
    const chance = html("span", {}, cut[i] ? percent(cut[i]) : "cut");
    const children = [html("b", {}, state.shown[i]), track, chance];
    const look = { class: `explore-bar ${cut[i] ? "" : "explore-cut"}` };
    if (!choose) return html("div", look, ...children);
    const label = `choose ${state.named(i)}, ${percent(cut[i])}`;
    return html("button", { ...look, onclick: () => choose(i), "aria-label": label }, ...children);
  };
  const others = `the other ${own.length - Math.min(own.length, rows)} characters together: ${percent(rest)}`;
  into.replaceChildren(...order.slice(0, rows).map(bar), html("p", { class: "explore-note" }, others));
  if (focused >= 0) into.children[focused]?.focus();
}
