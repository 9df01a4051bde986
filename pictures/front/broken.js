// The room "Break it" of the play page: faults of real projects, in a model that has learned without any. gpt.js and
// sampling.js stay sound; a fault is what it replaces in them.
import { GPT } from "./gpt.js";
import { Reader } from "./reader.js";
import { draw, probabilities, random, surpriseOf } from "./sampling.js";

const LETTERS = 240; // fewer, and the dice would decide which text is judged worse
const VISITOR = "ROMEO:\n";

// What a fault may have: `change`, methods instead of the model's; `cut`, the score of what top-k cuts off; `visitor`,
// what the cache still holds; `ahead`, how many letters on the loss looks; `scrambled`, whether heads are joined wrongly.
export const FAULTS = [
  {
    name: "1e-10 instead of −1e10",
    done: "Letters that top-k cuts off should get the score −1e10, far below all others; they get 1e-10, almost zero.",
    whose: "minGPT, issue 10, 2020",
    cut: 1e-10,
  },
  {
    name: "The place jumps ahead",
    done: "After the first letter that it writes, the place moves on by the prompt's length, not by one. (Here it stops at the last place.)",
    whose: "tiny-llm, pull request 46, 2025",
    change: {
      placeOf(t) {
        return t > this.prompt ? Math.min(t + this.prompt - 1, this.config.context_length - 1) : t;
      },
    },
  },
  {
    name: "The last visitor's cache",
    done: "The keys and values of somebody else's prompt, “ROMEO:”, are still in the cache, in front of yours.",
    whose: "AutoAWQ, issue 170, 2023",
    visitor: VISITOR,
  },
  {
    name: "Targets shifted twice",
    done: "The data are shifted by one letter, and then the loss shifts them again: each guess is marked against the letter after the next one.",
    whose: "Transformers, issue 47394, 2026",
    ahead: 2,
  },
  {
    name: "Heads joined without a transpose",
    done: "What the heads found is laid end to end, head after head, so most of it ends up at the wrong letters. (Here the whole window is read again for each new letter: with a cache a letter is read alone, and there is nothing to mix up.)",
    whose: "transformer-from-scratch, pull request 6, 2026",
    scrambled: true,
  },
  {
    name: "Scores not divided by √D",
    done: "The scores go into the softmax without being divided by the root of a head's width, so a few letters get nearly all the weight.",
    whose: "mlc-llm, pull request 3426, 2026",
    change: {
      attention(query, kept, t) {
        const longer = query.map((q) => q * Math.sqrt(this.headWidth));
        return GPT.prototype.attention.call(this, longer, kept, t);
      },
    },
  },
];

// Reads and writes with a fault, or without one as the model does with all its heads. The model itself is not changed.
export class BrokenReader extends Reader {
  constructor(model, fault = {}) {
    super(Object.assign(Object.create(model), { off: new Set(), ...fault.change }));
    this.fault = fault;
  }

  reread(tokens) {
    return super.reread([...this.model.encode(this.fault.visitor ?? ""), ...tokens]);
  }

  compute(kept) {
    if (!kept) this.model.prompt = this.window.length; // all that is read at once, also when a full window has moved
    if (!this.fault.scrambled) return super.compute(kept);
    this.places = scrambled(this.model, this.window);
    return this.window.length;
  }

  // As minGPT's demo draws: temperature 1, and the ten likeliest.
  draw(dice) {
    return draw(probabilities(this.places.at(-1).logits, { topK: 10, cut: this.fault.cut }), dice);
  }

  // The mean surprise at these tokens, in nats; undefined where there are too few.
  loss(tokens) {
    const { ahead = 1 } = this.fault;
    this.reread(tokens);
    const own = this.places.slice(-tokens.length, -ahead);
    const sum = own.reduce((sum, place, i) => sum + surpriseOf(place, tokens[i + ahead]), 0);
    return own.length ? sum / own.length : undefined;
  }
}

// A window layer by layer: what was found, H × T × D, is cut into T rows as it lies there.
function scrambled(model, tokens) {
  const { n_head: H, n_embd: C } = model.config;
  const D = C / H;
  const T = tokens.length;
  const cache = model.newCache();
  cache.tokens.set(tokens);
  let streams = tokens.map((_, t) => model.embed(cache.tokens, t));
  model.blocks.forEach((block, i) => {
    const found = new Float32Array(T * C);
    streams.forEach((x, t) => {
      const { context } = model.look(i, x, cache, t);
      for (let head = 0; head < H; head++) found.set(context.subarray(head * D, (head + 1) * D), (head * T + t) * D);
    });
    streams = streams.map((x, t) => model.work(block, x, found.subarray(t * C, (t + 1) * C)).stream);
  });
  return streams.map((x, t) => ({ token: tokens[t], logits: model.head(x) }));
}

// What loss and text say, in a sentence: { loss, judged, text } of the healthy model and of the broken one.
export function verdict(healthy, broken) {
  const [before, after] = [healthy.loss, broken.loss].map(nats);
  const more = broken.loss - healthy.loss;
  const rises = more > 0.25;
  const moves = `The loss ${more > 0 ? "rises" : "falls"} from ${before} to ${after}`;
  const stays = broken.loss === undefined ? "The line is too short for a loss" : `The loss stays at ${after}`;
  const loss = before === after || broken.loss === undefined ? stays : moves;
  if (healthy.text === broken.text) {
    const then = rises ? "What is broken is the exam, not the model." : "On this line the fault does no harm.";
    return `${loss}, and not a letter of the text has changed. ${then}`;
  }
  if (broken.judged - healthy.judged > 0.25) {
    const little =
      before === after ? "Watch only the loss, and you will never know." : "On a single line, you might not notice.";
    return `${loss}, and the text goes wrong. ${rises ? "Here the loss would have told you." : little}`;
  }
  const then = rises ? "The loss alone would have told you." : "Only the healthy text beside it gives it away.";
  return `${loss}, and the text is different, and hardly more surprising to the healthy model. ${then}`;
}

const nats = (loss) => loss?.toFixed(2) ?? "–";

// The room for a model, made with play.js's `h`: { contents, show(tokens) after a line has changed, stop() }.
export function breaking(model, h) {
  const room = Math.max(1, model.config.context_length - VISITOR.length); // the visitor must fit in front
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let chosen = null;
  let line = [];
  let asked = "";

  const choose = (fault) => {
    chosen = chosen === fault ? null : fault;
    show(line);
  };
  const buttons = FAULTS.map((fault) =>
    h("button", { onclick: () => choose(fault), "aria-pressed": false }, fault.name),
  );
  const done = h("p", { class: "explore-say", role: "status" });
  const texts = ["The healthy model's text", "The broken model's text"].map((label) =>
    h("p", { class: "explore-paper", role: "group", "aria-label": label }),
  );
  const cells = Array.from({ length: 4 }, () => h("td", {}));
  const row = (label, ...rest) => h("tr", {}, h("th", { scope: "row" }, label), rest);
  const columns = ["healthy", "broken"].map((label) => h("th", { scope: "col" }, label));
  const table = h(
    "table",
    {},
    row("Nats a letter", columns),
    row("Surprise at your line: the loss", cells.slice(0, 2)),
    row("The healthy model's surprise at the new text", cells.slice(2)),
  );
  const result = h("p", { class: "explore-result", role: "status" });
  const pair = texts.map((text, i) => h("div", {}, h("h3", {}, i ? "Broken" : "Healthy"), text));
  const shown = h("div", { hidden: "" }, h("div", { class: "explore-both" }, pair), table);
  const contents = [
    h("style", {}, `.explore-play .explore-broken {${BROKEN}}`),
    h(
      "p",
      { class: "explore-say" },
      "This model was trained without a fault. Switch one on: each was a real bug in a real project. The model then continues your line twice, once with the fault and once without, with the same dice (temperature 1, only the ten likeliest letters). Which ruins the text, which the loss, which both, and which neither? Guess first, then press.",
    ),
    h("div", { class: "explore-buttons", role: "group", "aria-label": "Faults" }, buttons),
    done,
    shown,
    result,
  ];

  async function show(tokens) {
    line = tokens;
    const now = [chosen && FAULTS.indexOf(chosen), ...tokens].join();
    if (now === asked) return;
    asked = now;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", FAULTS[i] === chosen);
    });
    shown.hidden = !chosen;
    done.textContent = result.textContent = "";
    if (!chosen) return;
    done.replaceChildren(chosen.done, " ", h("small", {}, `(${chosen.whose})`));
    result.textContent = "Both are writing …";
    const start = tokens.slice(-room);
    const judge = new BrokenReader(model);
    const voices = [{}, chosen].map((fault, i) => {
      const reader = new BrokenReader(model, fault);
      const loss = reader.loss(start);
      const written = h("span", { class: "explore-written" });
      texts[i].replaceChildren(model.decode(start), written);
      cells[i].textContent = nats(loss);
      cells[i + 2].textContent = "…";
      return { reader, judge: i ? judge : reader, loss, judged: 0, text: "", written, dice: random(7) };
    });
    judge.reread(start);
    let rested = performance.now();
    for (let n = 0; n < LETTERS; n++) {
      for (const voice of voices) {
        const token = voice.reader.draw(voice.dice);
        voice.judged += surpriseOf(voice.judge.places.at(-1), token) / LETTERS;
        voice.text += model.alphabet[token];
        for (const reader of new Set([voice.reader, voice.judge])) reader.write(token);
        if (!calm || n === LETTERS - 1) voice.written.textContent = voice.text;
      }
      if (performance.now() - rested < 12) continue;
      await new Promise((rest) => setTimeout(rest));
      if (now !== asked) return;
      rested = performance.now();
    }
    voices.forEach(({ judged }, i) => {
      cells[i + 2].textContent = nats(judged);
    });
    result.textContent = verdict(...voices);
  }

  const stop = () => {
    asked = "";
  };
  return { contents, show, stop };
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
