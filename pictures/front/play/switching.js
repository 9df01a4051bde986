// The chosen head is switched off, and what the model has lost is said.
import { GPT } from "../gpt.js";
import { html, percent, sum } from "../kit.js";
import { Reader } from "../reader.js";
import { softmax, surpriseOf } from "../sampling.js";
import { best } from "./words.js";

export function switching(state) {
  let whole = null; // a second model, which keeps all its heads
  const turn = html("button", { onclick: () => state.switchHead() }, "Switch this head off");
  const effect = html("p", { class: "explore-note", role: "status" });
  const render = () => {
    turn.textContent = state.isOff(...state.chosen) ? "Switch this head on again" : "Switch this head off";
    if (state.model.off.size) {
      whole ??= new Reader(new GPT(state.data.model));
      whole.reread(state.reader.window);
      effect.textContent = loss(state, whole);
    } else {
      effect.textContent = "Would the model miss it? Guess, then switch it off.";
    }
  };
  return { nodes: [html("div", { class: "explore-buttons" }, turn), effect], render };
}

// What a model with heads switched off has lost, beside the whole one on the same letters.
function loss(state, whole) {
  const { at, place, places } = state;
  const now = softmax(place.logits);
  const then = softmax(whole.places[at].logits);
  const letter = best(then.map((p, i) => Math.abs(now[i] - p)));
  const chances = `${state.named(letter)} gets ${percent(now[letter])} instead of ${percent(then[letter])}`;
  const lost = `Without ${state.headsOff()}: after ${state.named(place.token)}, ${chances}.`;
  if (places.length < 2) return lost;
  const surprise = (read, i) => surpriseOf(read[i], state.reader.window[i + 1]);
  const mean = (read) => sum(read.slice(0, -1).map((_, i) => surprise(read, i))) / (read.length - 1);
  const [without, withThem] = [places, whole.places].map((read) => mean(read).toFixed(2));
  const them = state.model.off.size > 1 ? "them" : "it";
  return `${lost} Average surprise over these letters: ${without} nats, ${withThem} with ${them}.`;
}
