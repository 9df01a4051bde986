// The parts of the model, as "How does it get there?" shows them: { label, kind, shows, draw(place), tell(place) }. `shows`
// are elements, which `draw` fills; `tell` says what happens there.
import { html, percent } from "../kit.js";
import { softmax } from "../sampling.js";
import { columns, share, signed } from "./pixels.js";
import { best, capital, many } from "./words.js";

const canvas = (height) => html("canvas", { style: `height: ${height}px`, "aria-hidden": "true" });
const labelled = (text, small) => html("span", {}, text, html("small", {}, small));
const size = (vector) => Math.hypot(...vector);

export function letterPart(state) {
  const letter = html("b", { class: "explore-big" });
  return {
    label: "the letter",
    kind: "ends",
    shows: [letter],
    draw: ({ token }) => {
      letter.textContent = state.shown[token];
    },
    tell: ({ token }) =>
      `The letter is ${state.named(token)}, number ${token} of the ${state.config.vocab_size} that the model knows. A computer can't calculate with a letter, so …`,
  };
}

export function numbersPart(state) {
  const { n_embd: C, rotary } = state.config;
  const added = [state.looksBack && "which letters stand before it", !rotary && "where it stands"].filter(Boolean);
  const vectors = added.length ? [canvas(12), canvas(12)] : [canvas(12)];
  const below = added.length
    ? ` (above), and ${C} that say ${added.join(" and ")} (below). Their sum is the stream.`
    : ". They are the stream.";
  const turned = rotary ? " Where it stands is for attention to say: it turns queries and keys by their places." : "";
  return {
    label: labelled("its numbers", ["what it is", ...added].join(" + ")),
    kind: "stream",
    shows: vectors,
    draw: ({ token, stream }) => {
      const own = state.model.tokenEmbedding.subarray(token * C, (token + 1) * C);
      signed(vectors[0], own, C);
      if (!added.length) return;
      const others = stream[0].map((v, i) => v - own[i]);
      signed(vectors[1], others, C);
    },
    tell: ({ token }) =>
      `… ${state.named(token)} at place ${state.at + 1} gets ${C} numbers that say what it is${below}${turned}`,
  };
}

export const layerParts = (state, l) => [readingPart(state, l), thinkingPart(state, l), streamPart(state, l)];

function readingPart(state, l) {
  const { n_head: H, n_embd: C } = state.config;
  const weights = canvas(8 * H);
  const read = canvas(10);
  return {
    label: labelled("attention reads", `${many(H, "head")}, each a row over the text`),
    kind: "reads",
    shows: [weights, read],
    draw: ({ layers }) => {
      const rows = layers[l].weights.map((row, k) => (state.isOff(l, k) ? [] : row));
      share(weights, rows, state.places.length);
      signed(read, layers[l].read, C);
    },
    tell: ({ layers, stream }) => {
      const looks = layers[l].weights.map((w, k) =>
        state.isOff(l, k) ? `head ${k + 1} is switched off` : `head ${k + 1} looks most at ${state.most(w)}`,
      );
      const large = percent(size(layers[l].read) / size(stream[l]));
      return `Attention in layer ${l + 1}: ${looks.join("; ")}. What they find (the strip below) is added to the stream; it is ${large} of the size of what was there.`;
    },
  };
}

function thinkingPart({ config }, l) {
  const C = config.n_embd;
  const neurons = config.mlp_width ?? 4 * C; // Python's None arrives as null
  const hidden = canvas(20);
  const thought = canvas(10);
  return {
    label: labelled("the MLP works", `${neurons} neurons`),
    kind: "thinks",
    shows: [hidden, thought],
    draw: ({ layers }) => {
      signed(hidden, layers[l].hidden, C);
      signed(thought, layers[l].thought, C);
    },
    tell: ({ layers }) => {
      const firing = layers[l].hidden.filter((v) => v > 0.1).length;
      return `The MLP of layer ${l + 1} works on this letter alone: ${firing} of its ${neurons} neurons fire (above 0.1). Their output is added to the stream as well.`;
    },
  };
}

function streamPart(state, l) {
  const stream = canvas(14);
  const answer = (x) => {
    const chances = softmax(state.model.head(x));
    return `${state.named(best(chances))} (${percent(Math.max(...chances))})`;
  };
  return {
    label: "the stream now",
    kind: "stream",
    shows: [stream],
    draw: ({ layers }) => signed(stream, layers[l].stream, state.config.n_embd),
    tell: (place) =>
      `${l ? "" : "Nothing in the stream is overwritten: every part only adds. "}If it ended here, after layer ${l + 1}, the model would say ${answer(place.stream[l + 1])}.`,
  };
}

export function scoresPart(state) {
  const bars = canvas(26);
  const winner = html("b", { class: "explore-big" });
  return {
    label: labelled("the scores", `one for each of ${state.config.vocab_size} letters`),
    kind: "ends",
    shows: [bars, winner],
    draw: ({ logits }) => {
      columns(bars, logits);
      winner.textContent = state.plainly(best(logits));
    },
    tell: ({ logits }) => {
      const name = capital(state.named(best(logits)));
      const chance = percent(Math.max(...softmax(logits)));
      return `The stream is compared with the numbers of every letter: the better they match, the higher the score. ${name} wins, and the softmax turns the scores into chances: ${chance} for it, before the temperature.`;
    },
  };
}
