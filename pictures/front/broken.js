// Faults of real projects, in a model that has learned without any; play/breaking.js shows them. gpt.js and sampling.js stay
// sound; a fault is what it replaces in them.
import { GPT } from "./gpt.js";
import { Reader } from "./reader.js";
import { draw, probabilities, surpriseOf } from "./sampling.js";

export const VISITOR = "ROMEO:\n";

// What a fault may have: `change`, methods instead of the model's; `cut`, the score of what top-k cuts off; `visitor`,
// what the cache still holds; `ahead`, how many letters on the loss looks; `scrambled`, whether heads are joined wrongly.
export const FAULTS = [
  {
    name: "Letters that were cut come back",
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
    name: "Marked against the wrong letter",
    done: "The data are shifted by one letter, and then the loss shifts them again: each guess is marked against the letter after the next one.",
    whose: "Transformers, issue 47394, 2026",
    ahead: 2,
  },
  {
    name: "Heads joined in the wrong order",
    done: "What the heads found is laid end to end, head after head, so most of it ends up at the wrong letters. (Here the whole window is read again for each new letter: with a cache a letter is read alone, and there is nothing to mix up.)",
    whose: "transformer-from-scratch, pull request 6, 2026",
    scrambled: true,
  },
  {
    name: "Scores that are too large",
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
    const contexts = new Float32Array(T * C);
    streams.forEach((x, t) => {
      const { context } = model.look(i, x, cache, t);
      for (let head = 0; head < H; head++) contexts.set(context.subarray(head * D, (head + 1) * D), (head * T + t) * D);
    });
    streams = streams.map((x, t) => model.work(block, x, contexts.subarray(t * C, (t + 1) * C)).stream);
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

export const nats = (loss) => loss?.toFixed(2) ?? "–";
