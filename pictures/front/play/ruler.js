// The letters that the model sees: one of them is pointed at, and everything below describes it.
import { byHand, html } from "../kit.js";
import { colored, paragraph } from "./elements.js";
import { many } from "./words.js";

export function ruler(state) {
  const letters = html("div", {
    class: "explore-ruler",
    role: "slider",
    tabindex: 0,
    "aria-label": "The letter to look at",
    "aria-valuemin": 1,
    onkeydown: (event) => walk(state, event),
    onpointermove: (event) => event.target.dataset.at && state.point(+event.target.dataset.at),
    onclick: (event) => event.target.dataset.at && state.hold(+event.target.dataset.at),
  });
  const node = html("div", { class: "explore-strip" }, letters, writes(state));
  return { node, render: () => showLetters(state, letters) };
}

function walk(state, event) {
  const { at, last } = state;
  const ways = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: last };
  const to = ways[event.key];
  if (to === undefined) return;
  event.preventDefault();
  state.hold(null);
  state.point(to);
}

// Above the strip, which stays in sight: on a phone there is room for the letters alone.
export function hint({ config: { n_layer: L, n_head: H } }) {
  const node = paragraph(
    byHand(
      "Point at a letter, or click it to hold it: everything below describes it. ",
      "Tap a letter: everything below describes it. ",
    ),
    colored("key", "Green"),
    ` is what one of its ${many(L * H, "head")} looks back at.`,
  );
  return { node, render: () => {} };
}

function writes(state) {
  const again = html("button", { onclick: () => state.writeOrPause() }, "Let it write");
  state.subscribe("offer", (text) => {
    again.textContent = text;
  });
  const one = html("button", { onclick: () => state.writeOne() }, "One letter");
  return html("div", { class: "explore-hint" }, again, one);
}

function showLetters(state, letters) {
  const { at, place, places } = state;
  const [l, k] = state.chosen;
  const seen = place.layers[l].weights[k];
  const letter = ({ token }, i) => {
    const kind = i === at ? "explore-here" : i > at ? "explore-later" : "";
    const style = i <= at ? `--w: ${seen[i].toFixed(3)}` : "";
    return html("span", { "data-at": i, class: kind, style }, state.shown[token]);
  };
  letters.replaceChildren(...places.map(letter));
  // On a phone it is one line, and the chosen letter stays in sight.
  const { offsetLeft, offsetWidth } = letters.children[at];
  if (offsetLeft < letters.scrollLeft || offsetLeft + offsetWidth > letters.scrollLeft + letters.clientWidth) {
    letters.scrollLeft = offsetLeft - letters.clientWidth / 2;
  }
  letters.setAttribute("aria-valuemax", places.length);
  letters.setAttribute("aria-valuenow", at + 1);
  const here = `${state.named(place.token)}, place ${at + 1} of ${places.length}`;
  letters.setAttribute("aria-valuetext", `${here}; the chosen head looks at ${state.most(seen)}`);
}
