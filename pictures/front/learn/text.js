// A text of the reader's own: read from a file, turned into tokens, cut into words.
import { percent } from "../kit.js";
import { number } from "../play/words.js";

const SHORTEST = 2000; // letters: the last tenth must hold a few pieces to judge by
const SHORT = 20_000;
const LONGEST = 4_000_000; // more than is read in ten minutes
const LARGEST = 500; // letters of an alphabet
const MOST_WORDS = 300_000; // letters in which words are looked for where no spaces part them

// A file's text: UTF-8, or what Windows wrote before that. An Error says in a sentence why it is none.
export async function textOf(file) {
  const bytes = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    text = new TextDecoder("windows-1252").decode(bytes);
  }
  if (text.includes("\0")) throw new Error(`${file.name} isn't plain text. Save it as “plain text” first, in UTF-8.`);
  return text;
}

// { tokens, alphabet, notes } for the trainer; `notes` are sentences on what was left out. An Error says in a sentence why
// there is nothing to learn.
export function prepared(whole) {
  const text = whole.slice(0, LONGEST).replace(/\r\n?/g, "\n");
  const counts = new Map();
  for (const letter of text) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  const byCount = [...counts].sort((a, b) => b[1] - a[1]).slice(0, LARGEST);
  const alphabet = byCount.map(([letter]) => letter).sort();
  const ids = new Map(alphabet.map((letter, id) => [letter, id]));
  const kept = [...text].filter((letter) => ids.has(letter));
  const left = 1 - kept.length / [...counts.values()].reduce((a, b) => a + b, 0);
  if (kept.length < SHORTEST) {
    throw new Error(
      `That is ${number(kept.length)} letters, and a GPT needs ${number(SHORTEST)} at the very least. Half a million would be splendid.`,
    );
  }
  if (alphabet.length < 2) throw new Error("One letter, over and over: there is nothing to guess in that.");
  const notes = [
    whole.length > LONGEST && `It learns the first ${number(LONGEST)} letters.`,
    counts.size > LARGEST &&
      `Your text has ${number(counts.size)} different characters. It learns the ${LARGEST} most frequent; the others, ${percent(left)} of the text, are left out.`,
    kept.length < SHORT && "The text is short: before long, the GPT would know it by heart, so it may stop early.",
  ];
  return { tokens: Uint16Array.from(kept, (letter) => ids.get(letter)), alphabet, notes: notes.filter(Boolean) };
}

// The text in pieces: [piece, is it a word?].
export function pieces(text) {
  const spaceless = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Thai}]/u.test(text) && Intl.Segmenter;
  if (!spaceless) return text.split(/([\p{L}\p{M}'’]+)/u).map((piece, i) => [piece, i % 2 === 1]);
  const words = new Intl.Segmenter(undefined, { granularity: "word" }).segment(text.slice(0, MOST_WORDS));
  return [...words].map(({ segment, isWordLike }) => [segment, isWordLike]);
}

export const wordsOf = (text) =>
  new Set(pieces(text).flatMap(([piece, isWord]) => (isWord ? [piece.toLowerCase()] : [])));

// What a table of pairs would reach: the mean of −ln p(token | the one before it), counted in the text itself.
export function lossOfPairs(tokens, V) {
  const [pairs, firsts] = [new Float64Array(V * V), new Float64Array(V)];
  for (let i = 1; i < tokens.length; i++) {
    pairs[tokens[i - 1] * V + tokens[i]]++;
    firsts[tokens[i - 1]]++;
  }
  const surprise = (seen, i) => (seen ? seen * Math.log(firsts[Math.floor(i / V)] / seen) : 0);
  return pairs.reduce((sum, seen, i) => sum + surprise(seen, i), 0) / (tokens.length - 1);
}
