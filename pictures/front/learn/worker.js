// What the page's worker does: it trains, tells the page every two seconds how far it is, and listens in between.
import { SIZES, Trainer } from "../trainer.js";

const PIECE = 0.2; // seconds of training before it listens
const ASLEEP = 1; // in a longer piece the phone was asleep, and the time doesn't count
const REPORT = 2; // seconds from one report to the next
const PIECES = 64; // of the validation text in a report, …
const ALL_PIECES = 1000; // … and at the end
const TRIES = 6; // steps: the first ones are slow, until they are compiled, …
const HOPELESS = 1.2; // … but not that slow
const SLOW = 0.3; // seconds a step: with slower ones, a smaller GPT learns more in a minute
const SMALLER = [{}, { C: 32 }, { C: 32, T: 32, B: 8 }, { C: 16, H: 2, T: 32, B: 8 }];
const TOO_MUCH = 0.1; // nats: where the validation loss is so far above its lowest, the text is being learned by heart

let goOn = null; // ends the pause, if there is one
let pause = Promise.resolve();

addEventListener("message", ({ data }) => {
  if (data.tokens) learn(trainerFor(data), data).catch(reportError);
  else if (data.pause && !goOn) {
    pause = new Promise((resolve) => {
      goOn = resolve;
    });
  } else if (!data.pause) {
    goOn?.();
    goOn = null;
  }
});

const now = () => performance.now() / 1000;

// The largest trainer whose steps this machine makes in time.
function trainerFor({ tokens, alphabet, seed, simd }) {
  const begin = (sizes) => new Trainer(tokens, alphabet, { ...SIZES, ...sizes, seed, simd });
  return begin(SMALLER.slice(0, -1).find((sizes) => isQuick(begin(sizes))) ?? SMALLER.at(-1));
}

function isQuick(trial) {
  let took = 0;
  for (let i = 0; i < TRIES && took < HOPELESS; i++) {
    const start = now();
    trial.step(0);
    took = now() - start;
    if (took < SLOW) return true;
  }
  return false;
}

// Trains for so many `seconds`, pauses not counted, or until it learns by heart, and ends with the weights that were best on
// the validation text. `about` is packed with them.
async function learn(trainer, { seconds, about }) {
  const { L, H, C, T, count, simd, parameters } = trainer;
  const best = { validation: Infinity };
  let losses = [];
  let spent = 0;
  let due = 0;
  const report = (validation, steps, ended) => {
    const bytes = trainer.pack({
      ...about,
      parameters: count,
      step: steps,
      seconds: Math.round(spent),
      loss: validation,
    });
    const loss = losses.length ? losses.reduce((a, b) => a + b) / losses.length : null;
    postMessage({ spent, steps, loss, validation, bytes, ended }, [bytes.buffer]);
    losses = [];
  };
  // Whether it learns by heart.
  const judge = () => {
    const validation = trainer.validate(PIECES);
    if (validation < best.validation) {
      Object.assign(best, { validation, steps: trainer.steps, parameters: parameters.slice() });
    }
    report(validation, trainer.steps);
    return validation > best.validation + TOO_MUCH;
  };
  postMessage({ begun: { L, H, C, T, parameters: count, simd } });
  let byHeart = false;
  while (spent < seconds && !byHeart) {
    await new Promise((done) => setTimeout(done));
    await pause;
    const start = now();
    if (spent >= due) {
      due += REPORT;
      byHeart = judge();
    }
    while (now() - start < PIECE && !byHeart) losses.push(trainer.step(spent / seconds));
    spent += Math.min(now() - start, ASLEEP);
  }
  byHeart ||= judge();
  parameters.set(best.parameters);
  report(trainer.validate(ALL_PIECES), best.steps, byHeart ? "by heart" : "in time");
}
