// What is done with logits, one letter after the other: the parts of helpers/sampling.py that a page needs.

// A plain array, of whichever kind the scores are: a typed one could not be mapped to texts.
export function softmax(scores) {
  const powers = [];
  let highest = -Infinity;
  let sum = 0;
  for (const score of scores) highest = Math.max(highest, score);
  for (const score of scores) {
    const power = Math.exp(score - highest);
    powers.push(power);
    sum += power;
  }
  return powers.map((power) => power / sum);
}

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

// One of the tokens, drawn with these probabilities; `random` gives numbers from 0 to 1. Rounded, the probabilities may add
// up to less than the number: then it is the last token that is not cut off.
export function draw(chances, random = Math.random) {
  let left = random();
  const drawn = chances.findIndex((p) => {
    left -= p;
    return left < 0;
  });
  return drawn < 0 ? chances.findLastIndex((p) => p > 0) : drawn;
}

// Numbers from 0 to 1, the same for the same seed (mulberry32).
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// How surprising a token is after a place, in nats.
export const surpriseOf = (place, token) => -Math.log(softmax(place.logits)[token]);
