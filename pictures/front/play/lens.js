// "When does it know?": the logit lens.
import { html, percent } from "../kit.js";
import { softmax } from "../sampling.js";
import { paragraph, titled } from "./elements.js";
import { COLORS } from "./pixels.js";
import { bestFirst } from "./words.js";

export function lens(state) {
  const opinions = html("div", { class: "explore-lens" });
  const node = titled(
    "When does it know?",
    paragraph(
      "What if the model had to answer early? Here its stream is turned into chances after each layer, for the letter you point at. Watch an opinion form.",
      state.looksBack ? "" : " Before the first layer it has seen that letter alone.",
    ),
    opinions,
  );
  const render = () => {
    const { place } = state;
    const favourites = bestFirst(softmax(place.logits)).slice(0, COLORS.length);
    opinions.replaceChildren(...place.stream.map((stream, l) => opinion(state, stream, l, favourites)));
  };
  return { node, render };
}

// What the model would say after l layers; each favourite has its color.
function opinion(state, stream, l, favourites) {
  const chances = softmax(state.model.head(stream));
  const order = bestFirst(chances);
  const others = order.filter((i) => !favourites.includes(i)).slice(0, 6);
  const seen = [...favourites, ...others].filter((i) => chances[i] > 0.004);
  const label = l ? `after layer ${l}` : "before layer 1";
  const three = order.slice(0, 3).map((i) => `${state.named(i)} ${percent(chances[i])}`);
  const attributes = { class: "explore-stack", role: "img", "aria-label": `${label}: ${three.join(", ")}` };
  const bands = seen.map((i) => {
    const rank = favourites.indexOf(i);
    const ink = rank < 0 ? "inherit" : rank ? "#000" : "#fff"; // white on the first color, blue
    const style = `width: ${100 * chances[i]}%; --c: ${COLORS[rank] ?? "var(--quiet)"}; --i: ${ink}`;
    return html("span", { style }, chances[i] > 0.035 ? state.shown[i] : "");
  });
  return html("div", { class: "explore-opinion" }, html("span", {}, label), html("div", attributes, ...bands));
}
