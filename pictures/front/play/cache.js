// "What can it reuse?": keys and values in the cache.
import { html } from "../kit.js";
import { colored, paragraph, picture, titled } from "./elements.js";
import { COLORS } from "./pixels.js";
import { many, number } from "./words.js";

const CELL = 9; // pixels

export function cache(state) {
  const cells = picture("The cache", { class: "explore-cells" });
  const note = html("p", { class: "explore-note" });
  const node = titled(
    "What can it reuse?",
    paragraph(
      "Each letter leaves a key (what others find it by) and a value (what it has to offer) in every layer. They stay in a cache, so a new letter costs one column, ",
      colored("orange", "orange"),
      ", and the ",
      colored("blue", "blue"),
      ` ones are reused. When all ${state.config.context_length} places are full, the last half moves to the front, and everything in it is recomputed. Press “One letter” (at the top of the window) and watch.`,
    ),
    html("div", { class: "explore-scroll" }, cells),
    note,
  );
  const render = () => {
    drawCells(state, cells);
    note.textContent = count(state);
  };
  return { node, render };
}

function drawCells({ config, places, fresh }, cells) {
  const { n_layer: L, context_length: CONTEXT } = config;
  const T = places.length;
  const high = 2 * CELL + 4; // a layer: keys, values and a gap
  const context = cells.getContext("2d");
  cells.width = CONTEXT * CELL;
  cells.height = L * high;
  for (let l = 0; l < L; l++) {
    for (let t = 0; t < CONTEXT; t++) {
      for (let kind = 0; kind < 2; kind++) {
        context.fillStyle = t >= T ? "#80808030" : t >= T - fresh ? COLORS[5] : kind ? "#0072B2aa" : COLORS[0];
        context.fillRect(t * CELL, l * high + kind * CELL, CELL - 1, CELL - 1);
      }
    }
  }
  const filled = `for ${CONTEXT} places, of which ${T} are filled and ${fresh} new`;
  cells.setAttribute("aria-label", `The cache: ${many(L, "layer")}, each with keys above and values below, ${filled}`);
}

function count({ places, fresh, computed, uncached, wrapped }) {
  const done = wrapped
    ? `The window was full, and its last letters moved to the front: ${fresh} places recomputed. `
    : `Just now: ${many(fresh, "place")} computed, ${places.length - fresh} taken from the cache. `;
  const inAll = `${number(computed)} in all; without a cache it would have been ${number(uncached)}`;
  return `${done}Since you arrived: ${inAll}.`;
}
