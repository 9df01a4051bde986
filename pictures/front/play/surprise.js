// "What surprised it?": the text, each letter with its surprise.
import { html, percent } from "../kit.js";
import { paragraph, titled } from "./elements.js";

export function surprise(state) {
  const text = html("p", { class: "explore-surprise" });
  const summary = html("p", { class: "explore-note" });
  const node = titled(
    "What surprised it?",
    paragraph(
      "The thicker the line under a letter, the less the model expected it. Beginnings of words are mostly hard, and their ends easy. Type nonsense, or a rare name, and see.",
    ),
    text,
    summary,
  );
  const render = () => {
    const letter = (token, i) => {
      const nat = state.nats[i];
      const title = nat == null ? "not judged" : `${nat.toFixed(2)} nats`;
      return html("span", { style: `--s: ${nat ?? 0}`, title }, state.model.alphabet[token]);
    };
    text.replaceChildren(...state.tokens.map(letter));
    summary.textContent = summarize(state);
  };
  return { node, render };
}

function summarize(state) {
  const judged = state.nats.map((nat, i) => [nat, i]).filter(([nat]) => nat != null);
  if (!judged.length) return "";
  const V = state.config.vocab_size;
  const mean = judged.reduce((a, [nat]) => a + nat, 0) / judged.length;
  const die =
    mean < Math.log(V)
      ? `as if each were one throw of a die with ${Math.exp(mean).toFixed(1)} sides (blind guessing: ${V})`
      : `worse than guessing blindly (${Math.log(V).toFixed(2)}): it was sure of other letters`;
  const reason = ([nat, i]) => {
    const before = state.model.decode(state.tokens.slice(Math.max(0, i - 8), i)).replaceAll("\n", "↵");
    return `${state.named(state.tokens[i])} after “${before}” (${percent(Math.exp(-nat))})`;
  };
  judged.sort((a, b) => b[0] - a[0]);
  const worst = judged.slice(0, 3).map(reason);
  return `On average ${mean.toFixed(2)} nats a letter (−ln of its probability), ${die}. It least expected ${worst.join("; ")}.`;
}
