// What heads look at, in words.
import { percent } from "../kit.js";
import { Reader } from "../reader.js";

const LETTER = /\p{L}/u;

// For each habit, and for each letter from the fourth on: the places at which a head with this habit looks.
export function targetsIn(letters) {
  const begins = [];
  const is = letters.map((c) => LETTER.test(c));
  const vowel = letters.map((c) => /[aeiou]/i.test(c));
  letters.forEach((_, t) => {
    begins.push(t && is[t - 1] ? begins[t - 1] : t);
  });
  const habits = {
    itself: (t, s) => s === t,
    "the letter before": (t, s) => s === t - 1,
    "two letters back": (t, s) => s === t - 2,
    "three letters back": (t, s) => s === t - 3,
    "the first letter": (_, s) => s === 0,
    "starts of words": (_, s) => is[s] && begins[s] === s,
    "the start of the word": (t, s) => s === begins[t] && s < t - 1,
    "the same letter, earlier": (t, s) => s < t && letters[s] === letters[t],
    vowels: (_, s) => vowel[s],
    consonants: (_, s) => is[s] && !vowel[s],
    "ends of lines": (_, s) => letters[s] === "\n",
    "spaces and marks": (_, s) => !is[s],
    "the last few letters": (t, s) => s > t - 4,
    "the last dozen letters": (t, s) => s > t - 12,
  };
  const upTo = (t) => Array.from({ length: t + 1 }, (_, s) => s);
  return Object.entries(habits).map(([does, looks]) => ({
    does,
    at: letters.map((_, t) => (t < 3 ? [] : upTo(t).filter((s) => looks(t, s)))),
  }));
}

// What a head looks at, in words: the habit on which it spends most more of its attention than a head that looks evenly at
// the last eight letters, if that is a sixth at least; and how much more.
function habit(targets, places, l, k) {
  const rows = places.map(({ layers }) => layers[l].weights[k]);
  let best = { does: "", more: 0 };
  for (const { does, at } of targets) {
    let sum = 0;
    let n = 0;
    at.forEach((seen, t) => {
      for (const s of seen) sum += rows[t][s] - (s > t - 8 ? 1 / Math.min(8, t + 1) : 0);
      n += seen.length > 0;
    });
    if (n > 2 && sum / n > best.more) best = { does, more: sum / n };
  }
  if (best.more > 1 / 6) return best;
  // Otherwise, how far it looks: whether it is as spread as an even look at three quarters of the letters (2 ** its entropy
  // is how many those are), and whether the nearest dozen gets more than half.
  const mean = (of) => rows.slice(3).reduce((sum, row) => sum + of(row), 0) / (rows.length - 3);
  const spread = mean((row) => 2 ** row.reduce((sum, w) => sum - (w > 0 ? w * Math.log2(w) : 0), 0) / row.length);
  if (spread > 0.75) return { does: "all letters about equally", more: 0 };
  const nearest = mean((row) => row.slice(-12).reduce((a, b) => a + b));
  return { does: nearest > 0.5 ? "the last dozen letters" : "letters near and far", more: best.more };
}

// What each head of a model does, in one text for all: a head keeps its name, whatever is typed.
export function habitsOf(model, sample) {
  const reader = new Reader(model);
  reader.reread(sample);
  const targets = targetsIn(lettersOf(model, reader.places));
  const heads = Array.from({ length: model.config.n_head });
  return model.blocks.map((_, l) => heads.map((_, k) => habit(targets, reader.places, l, k)));
}

// The head to begin with: one with a firm habit, which the last letter shows, too; best one that looks at the starts of
// words, and not one that does the same for every letter.
export function firmest(habits, targets, { layers }) {
  const all = habits.flatMap((row, l) => row.map((found, k) => ({ place: [l, k], ...found })));
  const shows = ({ does, place: [l, k] }) => {
    const seen = targets.find((target) => target.does === does)?.at.at(-1) ?? [];
    const weights = layers[l].weights[k];
    return seen.reduce((sum, i) => sum + weights[i], 0);
  };
  const rank = ({ does, more, ...head }) =>
    more + shows({ does, ...head }) + 0.3 * (does === "the start of the word") - 0.7 * /before|back/.test(does);
  return all.sort((a, b) => rank(b) - rank(a))[0].place;
}

// In words, how much of its attention a head spends on its habit in these places, on average.
export function attentionTo(targets, does, places, l, k) {
  const at = targets.find((target) => target.does === does)?.at.slice(3) ?? [];
  if (!at.length) return "";
  if (!at.some((seen) => seen.length)) return " (none in your text)";
  const spent = (seen, t) => seen.reduce((sum, s) => sum + places[t + 3].layers[l].weights[k][s], 0);
  return ` ${percent(at.reduce((sum, seen, t) => sum + spent(seen, t), 0) / at.length)}`;
}

export const lettersOf = (model, places) => places.map(({ token }) => model.alphabet[token]);
