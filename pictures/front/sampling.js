// What is done with logits, one letter after the other: the parts of helpers/sampling.py that a page needs.
import { softmax } from "./gpt.js";

// The probabilities after temperature, top-k and top-p: helpers/sampling.py's filter_logits, then the softmax.
// `cut` is the score of what top-k cuts off. (One of the faults in broken.js has another.)
export function probabilities(logits, { temperature = 1, topK = Infinity, topP = 1, cut = -Infinity } = {}) {
  let scores = logits.map((logit) => logit / temperature);
  const kth = topK < scores.length ? scores.slice().sort((a, b) => a - b)[scores.length - topK] : -Infinity; // ties with it stay
  scores = scores.map((score) => (score < kth ? cut : score));
  if (topP >= 1) return softmax(scores);
  const before = softmax(scores);
  const order = [...before.keys()].sort((i, j) => before[j] - before[i]);
  let sum = 0;
  for (const i of order) {
    if (sum >= topP) scores[i] = -Infinity;
    sum += before[i];
  }
  return softmax(scores);
}

// One of the tokens, drawn with these probabilities; `random` gives numbers from 0 to 1.
export function draw(chances, random = Math.random) {
  let left = random();
  const drawn = chances.findIndex((p) => {
    left -= p;
    return left < 0;
  });
  return Math.max(drawn, 0);
}

// Numbers from 0 to 1, the same for the same seed (mulberry32).
export function random(seed) {
  return () => {
    seed += 0x6d2b79f5;
    let t = seed;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// How surprising a token is after a place, in nats.
export const surpriseOf = (place, token) => -Math.log(softmax(place.logits)[token]);

// What the model has read, and what it computed for each token that is still in its window: `places`, one trace each.
// `reread` and `write` give the number of tokens that had to be computed; the others were in the cache.
export class Reader {
  constructor(model) {
    Object.assign(this, { model, window: [], cache: model.newCache(), places: [] });
  }

  // Read these tokens, of which the context's last ones count. What the old text began with as well is kept.
  reread(tokens) {
    this.window = tokens.slice(-this.model.config.context_length);
    const changed = this.places.findIndex((place, i) => place.token !== this.window[i]);
    return this.compute(changed < 0 ? this.places.length : changed);
  }

  // Read one token more. If the context is full, its last half moves to the start, where all keys change (see
  // helpers/sampling.py); Python rounds halves to the even number, so we do.
  write(token) {
    const T = this.model.config.context_length;
    this.window.push(token);
    if (this.window.length <= T) return this.compute(this.places.length);
    this.window = this.window.slice(-Math.max(1, T % 4 === 1 ? (T - 1) / 2 : Math.round(T / 2)));
    return this.compute(0);
  }

  compute(kept) {
    this.places.length = this.cache.length = kept;
    for (const token of this.window.slice(kept)) {
      const trace = {};
      this.model.forward(token, this.cache, trace);
      this.places.push(trace);
    }
    return this.window.length - kept;
  }
}
