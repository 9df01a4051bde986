// Tokens: a text of the reader's own, cut by the first few merges of byte pair encoding, or by more and more of them.
import { frame, html, slider } from "./kit.js";

// ["a", "b"], a pair -> the tokens, in which each such pair, from the left, has become one
export function merge(tokens, [left, right]) {
  const merged = [];
  for (const token of tokens) {
    if (merged.length && merged.at(-1) === left && token === right) merged[merged.length - 1] += token;
    else merged.push(token);
  }
  return merged;
}

// What a text is cut into by the first `count` merges; no token reaches from one word into the next.
export function cut(text, merges, count) {
  const chunks = text.match(/ ?[\p{L}\p{N}_]+| ?[^\p{L}\p{N}_\s]+|\s/gu) ?? [];
  return chunks.map((chunk) => merges.slice(0, count).reduce(merge, [...chunk]));
}

const shown = (token) => token.replaceAll(" ", "·").replaceAll("\n", "↵");

// data: text: where it begins, merges: [left, right] each, stops: how many of them the slider offers, places: at which
export function mount(element, data) {
  const { text, merges, stops, place } = data;
  const state = { text, place };
  const input = html("input", {
    type: "text",
    value: text,
    maxlength: 60,
    "aria-label": "a text of your own",
    oninput: () => change({ text: input.value }),
  });
  const write = (i) => `${stops[i].toLocaleString("en")} merges`;
  const along = { min: 0, max: stops.length - 1, step: 1, value: place, write, set: (i) => change({ place: i }) };
  const row = html("div", { class: "explore-pieces", "aria-hidden": "true" });
  const { say, remove } = frame(
    element,
    { name: "tokens", css: CSS, invitation: "Type a word, and let more and more pairs stick together." },
    html("div", { class: "explore-tools" }, input, slider("first", along)[0]),
    row,
  );

  function change(to) {
    Object.assign(state, to);
    const tokens = cut(state.text, merges, stops[state.place]).flat();
    row.replaceChildren(...tokens.map((token, i) => html("span", { class: `explore-token-${i % 2}` }, shown(token))));
    const letters = [...state.text].length;
    const many = (n, thing) => `${n} ${thing}${n === 1 ? "" : "s"}`;
    say(
      letters ? `${many(letters, "letter")}, *${many(tokens.length, "token")}*: ${tokens.map(shown).join(" | ")}` : "",
    );
  }
  change({});
  return remove;
}

const CSS = `
input[type="text"] { font: 18px/1.6 ui-monospace, monospace; padding: 2px 8px; flex: 1 1 14em; min-width: 0; }
.explore-pieces { font: 18px/2 ui-monospace, monospace; margin-top: 12px; min-height: 2em; overflow-wrap: anywhere; }
.explore-pieces span { padding: 3px 2px; border-radius: 4px; margin-right: 3px; }
.explore-token-0 { background: color-mix(in srgb, var(--explore-blue) 28%, transparent); }
.explore-token-1 { background: color-mix(in srgb, var(--explore-red) 22%, transparent); }
`;
