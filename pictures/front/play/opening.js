// The head of the site's start page: the model writes, and one button takes a habit away from it.
import { html } from "../kit.js";
import { Reader } from "../reader.js";
import { best } from "./words.js";

const HABIT = "the letter before";
const AFTER = 90; // letters that it writes without the habit

export function opening(state) {
  const all = state.habits.flatMap((row, l) => row.map(({ does, more }, k) => ({ does, more, place: [l, k] })));
  const [{ place }] = all.filter(({ does }) => does === HABIT).sort((a, b) => b.more - a.more);
  const withHabit = foreseen(state);
  let marks = []; // where the habit was taken away and given back, in turns
  const paper = html("p", { class: "explore-paper", role: "region", "aria-label": "The text", tabindex: 0 });
  const effect = html("p", { class: "explore-note", role: "status" });
  const turn = html("button", { class: "explore-main", onclick: change }, "");
  const go = html("button", { onclick: () => state.writeOrPause() }, "Let it write");
  const again = html("button", { onclick: restart }, "Start again");
  state.subscribe("offer", (text) => {
    go.textContent = text;
  });

  function change() {
    state.choose(...place);
    state.switchHead();
    marks.push(state.tokens.length);
    state.write(AFTER, "");
    say();
  }
  function restart() {
    if (state.isOff(...place)) {
      state.choose(...place);
      state.switchHead();
    }
    marks = [];
    state.type(state.line);
    state.write(AFTER, "");
    say();
  }
  function say() {
    const off = state.isOff(...place);
    turn.textContent = off ? "Switch that part on again" : "Switch that part off";
    effect.textContent = off
      ? `Of ${state.sample.length - 1} letters of Shakespeare, it now foresees ${foreseen(state)}; with that part it foresaw ${withHabit}. The part is called a head, and there are ${all.length} of them.`
      : "A small GPT is writing this, here in your browser. One part of it nearly always looks one letter back (green). What will it write without that part? Guess, then press.";
  }
  function render() {
    const { tokens, typed } = state;
    const cuts = [0, typed, ...marks, tokens.length];
    const names = ["", "explore-written", "explore-written explore-without"];
    const seen = looksAt();
    const pieces = cuts.slice(1).map((end, i) => {
      const name = names[i && 2 - (i % 2)];
      return html("span", { class: name }, ...withMark(cuts[i], end, seen));
    });
    paper.replaceChildren(...pieces, html("i", { class: "explore-caret" }));
    paper.scrollTop = paper.scrollHeight;
  }
  // Where the habit looks from the letter that was written last; nowhere while it is switched off.
  function looksAt() {
    const [l, k] = place;
    const { tokens, places } = state;
    return state.isOff(l, k) ? -1 : tokens.length - places.length + best(places.at(-1).layers[l].weights[k]);
  }
  function withMark(start, end, seen) {
    const text = (a, b) => state.model.decode(state.tokens.slice(a, b));
    if (seen < start || seen >= end) return [text(start, end)];
    return [text(start, seen), html("span", { class: "explore-seen" }, text(seen, seen + 1)), text(seen + 1, end)];
  }
  say();
  const buttons = html("div", { class: "explore-buttons" }, turn, go, again);
  const node = html("section", { class: "explore-stage explore-opening" }, paper, effect, buttons);
  return { node, render };
}

// For how many letters of the text by which heads are named its first guess is right.
function foreseen({ model, sample }) {
  const reader = new Reader(model);
  reader.reread(sample);
  return reader.places.slice(0, -1).filter(({ logits }, i) => best(logits) === reader.window[i + 1]).length;
}
