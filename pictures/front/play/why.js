// Why a head looks where it looks: the query, the keys of the two letters that get most and of the one that gets least,
// each above its products with the query, and the scores.
import { html, percent, sum } from "../kit.js";
import { signed } from "./pixels.js";
import { bestFirst, largest } from "./words.js";

export function why(state) {
  const node = html("div", { class: "explore-why" });
  const render = () => {
    const { place } = state;
    const { query, weights } = chosenHead(state, place);
    const order = bestFirst(weights);
    const compared = order.length > 3 ? [...order.slice(0, 2), order.at(-1)] : order;
    const keys = compared.map((i) => chosenHead(state, state.places[i]).key);
    const products = keys.map((key) => key.map((v, d) => v * query[d]));
    const most = Math.max(...products.map(largest));
    const keyRow = (i, n) => {
      const score = sum(products[n]) / Math.sqrt(query.length);
      const strips = [...keys[n].map((v) => v / largest(keys[n])), ...products[n].map((v) => v / most)];
      const least = order.length > 3 && n === 2 ? "least: " : "";
      const label = `${least}${i === state.at ? "its own key" : `key of ${state.where(i)}`}`;
      return row(label, strips, query.length, score.toFixed(1).replace("-", "−"), percent(weights[i]));
    };
    const queryRow = row(`query of ${state.named(place.token)}`, query, query.length, "score", "share");
    node.replaceChildren(...queryRow, ...compared.flatMap(keyRow), explanation(query.length, weights.length));
  };
  return { node, render };
}

// At a place: query and key (D) of the chosen head, and its weights.
function chosenHead(state, { layers }) {
  const [l, k] = state.chosen;
  const D = state.config.n_embd / state.config.n_head;
  const { query, key, weights } = layers[l];
  const part = (vector) => vector.subarray(k * D, (k + 1) * D);
  return { query: part(query), key: part(key), weights: weights[k] };
}

function row(label, values, wide, score, part) {
  const cells = html("canvas", { "aria-hidden": "true", style: `height: ${values.length > wide ? 28 : 14}px` });
  signed(cells, values, wide);
  return [html("span", {}, label), cells, html("span", {}, score), html("b", {}, part)];
}

const explanation = (D, count) =>
  html(
    "p",
    { class: "explore-note" },
    `Under each key: the query times that key, number by number. Blue, they agree; orange, they don't. Add them up and divide by √${D}: that is the score. `,
    `Softmax turns the scores of all ${count} letters into shares. Only differences count, so even a score below zero can win.`,
  );
