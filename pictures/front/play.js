// A GPT with its lid off: write with it, and see all that it computes. Everything on the page follows from play/state.js,
// which knows what the model has read, and which letter the reader points at. Each section is `section(state) -> { node,
// render }`: its element, and what draws it anew; and perhaps `stop`, which ends what it does by itself.
import { html } from "./kit.js";
import { attention } from "./play/attention.js";
import { breaking } from "./play/breaking.js";
import { cache } from "./play/cache.js";
import { drawing } from "./play/drawing.js";
import { learning } from "./play/learning.js";
import { lens } from "./play/lens.js";
import { link } from "./play/link.js";
import { next } from "./play/next.js";
import { opening } from "./play/opening.js";
import { residual } from "./play/residual.js";
import { hint, ruler } from "./play/ruler.js";
import { stage } from "./play/stage.js";
import { State } from "./play/state.js";
import { STYLE } from "./play/style.js";
import { surprise } from "./play/surprise.js";
import { many, number } from "./play/words.js";
import { random } from "./sampling.js";

const SECTIONS = [stage, link, hint, ruler, next, learning, attention, residual, lens, surprise, cache, breaking];
// What the page writes unasked: this many letters, with these dice, chosen from a hundred as what makes one read on.
// It stops inside a word, where it is not sure of the next letter.
const UNASKED = { letters: 57, dice: 15 };
const PAUSES = "It pauses inside a word, where it isn't sure of the next letter. ";

const SCROLLING = new Set(["Home", "End", "PageUp", "PageDown"]); // keys with which one leaves a place

// `data.model`: what pictures/packing.py wrote. Optional: `data.snapshots`, a list of { step, loss, load() ->
// promise of such bytes }; `data.text` to begin with; `data.page`, true where this is a page of its own, with a title;
// `data.head`, true for the head of a start page, where it only writes.
// Returns a function that removes it all.
export function mount(element, data) {
  const state = new State(data);
  const sections = (data.head ? [opening] : SECTIONS).map((section) => section(state)).filter(Boolean);
  const nodes = sections.map(({ node }) => node);
  if (data.page && !data.head) nodes.splice(1, 0, contents(nodes));
  const footer = data.head ? "" : html("footer", {}, origin(state.about, state.config));
  const root = html("div", { class: "explore-play" }, html("style", {}, STYLE), ...nodes, footer);
  for (const moved of ["wheel", "touchmove"]) {
    root.addEventListener(moved, () => state.tell("scroll"), { passive: true });
  }
  const leave = ({ key, target }) => {
    if (SCROLLING.has(key) || target.closest?.("a")) state.tell("scroll");
  };
  for (const type of ["keydown", "click"]) document.addEventListener(type, leave);
  root.addEventListener("keydown", (event) => event.key === "Escape" && state.held !== null && state.hold(null));
  element.append(root);
  const stopDrawing = drawing(root, state, sections);
  state.begin();
  if (data.page && state.wanted.text === null && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    state.dice = random(UNASKED.dice);
    state.write(
      UNASKED.letters,
      data.head ? "" : `${state.about.preset ? PAUSES : ""}Let it go on, or start a line of your own.`,
    );
  }
  return () => {
    state.stop();
    for (const { stop } of sections) stop?.();
    stopDrawing();
    for (const type of ["keydown", "click"]) document.removeEventListener(type, leave);
    root.remove();
  };
}

// Links to the sections, by their titles.
function contents(nodes) {
  const titles = nodes.map((node) => node.querySelector("h2")).filter(Boolean);
  const links = titles.map((title, i) => {
    title.id = `section-${i + 1}`;
    return html("a", { href: `#${title.id}` }, title.textContent);
  });
  return html("nav", { class: "explore-contents", "aria-label": "what is on this page" }, ...links);
}

function origin(about, { n_layer, n_head, n_embd, context_length }) {
  const sizes = `${many(n_layer, "layer")}, ${many(n_head, "head")}, ${n_embd} channels`;
  const facts = [`${sizes}, a window of ${context_length} letters`];
  if (about.preset) {
    const run = `trained with preset ${about.preset} and seed ${about.seed} on ${about.corpus}`;
    facts.push(`${run}, ${number(about.step)} steps, validation loss ${about.loss}`);
  }
  if (about.commit) facts.push(`PyTorch ${about.torch}, commit ${about.commit}`);
  return facts.join(" · ");
}
