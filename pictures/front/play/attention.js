// "Where does it look?": the maps of all heads, the chosen one large.
import { byHand, html } from "../kit.js";
import { frameOfRow, paragraph, picture, titled } from "./elements.js";
import { attentionTo } from "./habits.js";
import { drawMap } from "./pixels.js";
import { switching } from "./switching.js";
import { why } from "./why.js";
import { many } from "./words.js";

const MOST_TICKS = 45; // letters that there is room for beside a map

export function attention(state) {
  const { n_layer: L, n_head: H } = state.config;
  const large = largeMap(state);
  const reasons = why(state);
  const switched = switching(state);
  const choose = (l, k) => {
    state.choose(l, k);
    // On a phone the large map stands above the screen, where the strip of letters stays.
    const strip = node.parentNode.querySelector(".explore-strip");
    if (large.bottom() < strip.offsetHeight) large.title.scrollIntoView({ block: "center" });
  };
  const all = allHeads(state, choose);
  const chosen = html("div", {}, ...large.nodes, reasons.node, ...switched.nodes);
  const node = titled(
    "Where does it look?",
    paragraph(
      "Attention is looking back. Each row of a map is one letter. It has a question, its query; every letter up to itself has a label, its key. Where the two match, it looks: the greener, the more. It takes in each letter's value in the same proportion. The grey corner is the future, which nobody may see. ",
      byHand("(Point at a row, or click it to hold its letter.) ", "(Tap a row to hold its letter.) "),
      `A head is one such way of looking, with queries and keys of its own. This model has ${many(L, "layer")} with ${many(H, "head")} each.`,
    ),
    html("div", { class: "explore-two explore-maps" }, chosen, all.node),
  );
  const render = () => {
    for (const part of [all, large, reasons, switched]) part.render();
  };
  return { node, render };
}

// The map of the chosen head, with letters at two sides, and what it looks at in words.
function largeMap(state) {
  const rowAt = (event) => Math.floor((event.offsetY / map.clientHeight) * state.places.length);
  const map = html(
    "div",
    {
      class: "explore-map",
      onpointermove: (event) => state.point(rowAt(event)),
      onclick: (event) => state.hold(rowAt(event)),
    },
    picture("The map of the chosen head"),
    frameOfRow(),
  );
  const [top, left] = ["top", "left"].map((side) =>
    html("div", { class: `explore-axis explore-${side}`, "aria-hidden": "true" }),
  );
  const title = html("h3", {});
  const looks = html("p", { class: "explore-looks" });
  const render = () => {
    const { at, place, places } = state;
    const [l, k] = state.chosen;
    const { does } = state.habits[l][k];
    title.textContent = `Layer ${l + 1}, head ${k + 1}: ${does}`;
    drawMap(map, places, l, k, does);
    const tick = ({ token }, i) => {
      const shown = i === at || places.length <= MOST_TICKS; // of many, the one that one points at
      return html("span", { class: i === at ? "explore-here" : "" }, shown ? state.shown[token] : "");
    };
    for (const axis of [left, top]) axis.replaceChildren(...places.map(tick));
    const seen = state.three(place.layers[l].weights[k]);
    looks.textContent = `From ${state.named(place.token)} at place ${at + 1}, this head looks at ${seen}.`;
  };
  const nodes = [title, html("div", { class: "explore-framed" }, top, left, map), looks];
  return { nodes, title, bottom: () => map.getBoundingClientRect().bottom, render };
}

function allHeads(state, choose) {
  const { n_layer: L, n_head: H } = state.config;
  const headButton = (l, k) =>
    html(
      "button",
      { class: "explore-head", "aria-label": `Layer ${l + 1}, head ${k + 1}`, onclick: () => choose(l, k) },
      html("span", { class: "explore-map" }, html("canvas", {}), frameOfRow()),
      html("span", { class: "explore-habit" }),
    );
  const heads = Array.from({ length: L }, (_, l) => Array.from({ length: H }, (_, k) => headButton(l, k)));
  const floors = heads.flatMap((row, l) => [html("span", { class: "explore-floor" }, `layer ${l + 1}`), ...row]);
  const node = html(
    "div",
    {},
    html("h3", {}, `All ${many(L * H, "head")}`),
    html("div", { class: "explore-heads", style: `--h: ${H}` }, ...floors),
    paragraph(
      `Nobody told a head what to look for. Under each is its habit (on ${state.about.sample ? "lines that it was tested on" : "two lines of Shakespeare"}), and the share of its attention that goes there in your text. Choose one to see it large, or to switch it off.`,
    ),
  );
  const render = () => {
    const targets = state.targets();
    heads.forEach((row, l) => {
      row.forEach((button, k) => {
        showHead(state, button, l, k, targets);
      });
    });
  };
  return { node, render };
}

function showHead(state, button, l, k, targets) {
  const { does } = state.habits[l][k];
  const [layer, head] = state.chosen;
  const off = state.isOff(l, k);
  drawMap(button, state.places, l, k, does);
  const what = `Layer ${l + 1}, head ${k + 1}: ${does}${off ? ", switched off" : ""}`;
  button.lastChild.textContent = off ? "switched off" : does + attentionTo(targets, does, state.places, l, k);
  button.classList.toggle("explore-off", off);
  button.setAttribute("aria-label", what);
  button.setAttribute("aria-pressed", l === layer && k === head);
}
