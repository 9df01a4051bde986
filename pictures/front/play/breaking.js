// "Break it": a text and its loss, with a fault and without.
import { BrokenReader, FAULTS, nats, VISITOR, verdict } from "../broken.js";
import { html } from "../kit.js";
import { random, surpriseOf } from "../sampling.js";
import { paragraph, titled } from "./elements.js";

const LETTERS = 240; // fewer, and the dice would decide which text is judged worse
const REST = 12; // milliseconds after which the page may do something else

export function breaking(state) {
  const { model } = state;
  const room = Math.max(1, model.config.context_length - VISITOR.length); // the visitor must fit in front
  const pair = comparison();
  const done = html("p", { class: "explore-say", role: "status" });
  const result = html("p", { class: "explore-result", role: "status" });
  const go = html("button", { onclick: both, hidden: "" }, "Let both write");
  let chosen = FAULTS.find(({ name }) => name === state.wanted.fault) ?? null;
  let writes = false; // both write, once somebody has had time to guess
  let asked = "";
  const yours = () => state.tokens.slice(0, state.typed);

  async function show(tokens) {
    const now = [chosen && FAULTS.indexOf(chosen), writes, ...tokens].join();
    if (now === asked) return;
    asked = now;
    state.fault = chosen?.name ?? null;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", FAULTS[i] === chosen);
    });
    pair.node.hidden = !writes;
    go.hidden = !chosen || writes;
    done.textContent = result.textContent = "";
    if (!chosen) return;
    done.replaceChildren(chosen.done, " ", html("small", {}, `(${chosen.whose})`));
    if (!writes) return;
    result.textContent = "Both are writing …";
    const voices = begin(model, chosen, tokens.slice(-room), pair);
    if (await goOnTogether(model, voices, () => now !== asked)) result.textContent = conclude(voices, pair);
  }

  const choose = (fault) => {
    chosen = chosen === fault ? null : fault;
    begun(false);
  };
  function begun(whether) {
    writes = whether;
    show(yours());
  }
  function both() {
    begun(true);
    buttons[FAULTS.indexOf(chosen)].focus({ preventScroll: true }); // for its own button is gone now
  }
  const buttons = FAULTS.map((fault) =>
    html("button", { onclick: () => choose(fault), "aria-pressed": "false" }, fault.name),
  );
  const node = titled(
    "Break it",
    html("style", {}, `.explore-play .explore-broken {${BROKEN}}`),
    paragraph(
      "This model was trained without a fault. Switch one on, and read what it does: each was a real bug in a real project. Does it ruin the text, the loss, both, or neither? Guess. Then the model continues your line twice, once with the fault and once without, with the same dice (temperature 1, only the ten likeliest letters).",
    ),
    html("div", { class: "explore-buttons", role: "group", "aria-label": "Faults" }, ...buttons),
    done,
    go,
    pair.node,
    result,
  );
  node.classList.add("explore-broken");
  const stop = () => {
    asked = "";
  };
  return { node, render: () => state.writing || show(yours()), stop };
}

// Two texts side by side, and below them a table: `cells` has the two losses, then how surprising the texts are.
function comparison() {
  const texts = ["The healthy model's text", "The broken model's text"].map((label) =>
    html("p", { class: "explore-paper", role: "group", "aria-label": label }),
  );
  const cells = Array.from({ length: 4 }, () => html("td", {}));
  const row = (label, ...rest) => html("tr", {}, html("th", { scope: "row" }, label), ...rest);
  const columns = ["healthy", "broken"].map((label) => html("th", { scope: "col" }, label));
  const table = html(
    "table",
    {},
    row("Nats a letter", ...columns),
    row("Surprise at your line: the loss", ...cells.slice(0, 2)),
    row("The healthy model's surprise at the new text", ...cells.slice(2)),
  );
  const both = texts.map((text, i) => html("div", {}, html("h3", {}, i ? "Broken" : "Healthy"), text));
  const node = html("div", { hidden: "" }, html("div", { class: "explore-both" }, ...both), table);
  return { node, texts, cells };
}

// Two models that have read `tokens`, the healthy one and the broken one, each with the healthy one that judges it.
function begin(model, fault, tokens, { texts, cells }) {
  const judge = new BrokenReader(model);
  judge.reread(tokens);
  return [{}, fault].map((one, i) => {
    const reader = new BrokenReader(model, one);
    const loss = reader.loss(tokens);
    const written = html("span", { class: "explore-written" });
    texts[i].replaceChildren(model.decode(tokens), written);
    cells[i].textContent = nats(loss);
    cells[i + 2].textContent = "…";
    return { reader, judge: i ? judge : reader, loss, judged: 0, text: "", written, dice: random(7) };
  });
}

// Both write, a letter each in turn. Resolves to whether they came to an end before they were `outdated()`.
async function goOnTogether(model, voices, outdated) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let rested = performance.now();
  for (let n = 0; n < LETTERS; n++) {
    for (const voice of voices) {
      const token = voice.reader.draw(voice.dice);
      voice.judged += surpriseOf(voice.judge.places.at(-1), token) / LETTERS;
      voice.text += model.alphabet[token];
      for (const reader of new Set([voice.reader, voice.judge])) reader.write(token);
      if (!calm || n === LETTERS - 1) voice.written.textContent = voice.text;
    }
    if (performance.now() - rested < REST) continue;
    await new Promise((rest) => setTimeout(rest));
    if (outdated()) return false;
    rested = performance.now();
  }
  return true;
}

function conclude(voices, { cells }) {
  voices.forEach(({ judged }, i) => {
    cells[i + 2].textContent = nats(judged);
  });
  return verdict(...voices);
}

const BROKEN = `
  button { scroll-margin: 7rem 0; }
  button[aria-pressed="true"] { border-color: var(--orange); box-shadow: 0 0 0 2px var(--orange); }
  small { color: var(--soft); font-size: 0.875rem; }
  .explore-both { display: grid; gap: 1rem 2.5rem; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); }
  .explore-paper { height: auto; min-height: 15rem; margin: 0; font-size: 1.1rem; }
  table { border-collapse: collapse; margin: 1rem 0 0; font-variant-numeric: tabular-nums; }
  th, td { padding: 0.3rem 0.8rem 0.3rem 0; text-align: left; font-weight: 400; border-bottom: 1px solid var(--edge); }
  th ~ td, th ~ th { text-align: right; font-weight: 600; }
  .explore-result { max-width: 44rem; min-height: 3.1em; font-weight: 600; }
`;
