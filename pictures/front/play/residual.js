// "How does it get there?": one letter on its way through the model.
import { byHand, html } from "../kit.js";
import { colored, paragraph, titled } from "./elements.js";
import { layerParts, letterPart, numbersPart, scoresPart } from "./parts.js";

const PACE = 2200; // milliseconds for each part

export function residual(state) {
  const { n_embd: C, n_layer: L } = state.config;
  const told = html("p", { class: "explore-told" });
  const line = partsInLine(state, told);
  const follow = html("button", { style: "min-width: 10rem" }, "Follow the letter");
  const stop = following(follow, line);
  const node = titled(
    "How does it get there?",
    paragraph(
      `A letter becomes ${C} numbers, its stream. Then, in every layer (this model has ${L}), attention adds what it read from earlier letters, and a small network (MLP) adds what it makes of that. In the end the stream is compared with every letter. No single number means much; see how the strip changes from part to part. These are the real ones: `,
      colored("blue", "blue"),
      " above zero, ",
      colored("orange", "orange"),
      " below.",
    ),
    html("div", { class: "explore-buttons" }, follow),
    html("div", {}, html("div", { class: "explore-machine" }, ...line.nodes), told),
  );
  const render = () => {
    for (const { draw } of line.parts) draw(state.place);
    told.setAttribute("aria-live", state.writing ? "off" : "polite");
    told.textContent =
      line.lit?.tell(state.place) ?? byHand("Point at a part of the machine, or press “Follow the letter” and watch.");
  };
  // Whoever scrolls away from the machine is not pulled back.
  state.subscribe("scroll", () => line.followed && stop());
  return { node, render, stop };
}

// All parts in the order in which one follows the letter: { parts, nodes, light(part), lit, followed }. `light` says in
// `told` what happens there.
function partsInLine(state, told) {
  const layers = Array.from({ length: state.config.n_layer }, (_, l) => layerParts(state, l));
  const first = [letterPart(state), numbersPart(state)];
  const last = scoresPart(state);
  const parts = [...first, ...layers.flat(), last];
  const line = { parts, light, lit: null, followed: false };

  function light(part) {
    line.lit = part;
    for (const { element } of parts) element.classList.toggle("explore-lit", element === part.element);
    if (line.followed) part.element.scrollIntoView({ block: "nearest" });
    told.textContent = part.tell(state.place);
  }
  for (const part of parts) part.element = partElement(part, () => light(part));

  const elements = (several) => several.map(({ element }) => element);
  const inLayer = (several, l) =>
    html("div", { class: "explore-layer" }, html("h3", {}, `layer ${l + 1}`), ...elements(several));
  line.nodes = [...elements(first), ...layers.map(inLayer), last.element];
  return line;
}

function partElement({ label, kind, shows }, light) {
  const attributes = {
    class: `explore-part explore-${kind}`,
    onpointermove: (event) => {
      // Not when the page moves below a pointer that rests.
      if (event.movementX || event.movementY) light();
    },
    onfocus: light,
    onclick: light,
  };
  const numbers = html("span", { class: "explore-numbers" }, ...shows);
  return html("button", attributes, html("span", { class: "explore-label" }, label), numbers);
}

// The button lets one follow the letter from part to part. Returns what stops it.
function following(button, line) {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    line.followed = false;
    button.textContent = "Follow the letter";
  };
  const start = () => {
    let index = 0;
    line.followed = true;
    button.textContent = "Stop";
    line.light(line.parts[0]);
    const goOn = () => {
      index += 1;
      if (index < line.parts.length) line.light(line.parts[index]);
      else stop();
    };
    timer = setInterval(goOn, PACE);
  };
  button.addEventListener("click", () => (line.followed ? stop() : start()));
  return stop;
}
