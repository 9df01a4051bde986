// A training: its worker, and what that has told so far.
import { lossOfPairs, prepared, wordsOf } from "./text.js";

const SAMPLED = 64; // letters from where it is only tested: heads are named by what they do there, …
const BEGUN = 28; // … and the playground begins with these

export class Course {
  // `code`: the source of worker.js, joined. Its reports go to `told(report)`, what went wrong to `failed(message)`. Throws
  // an Error that says in a sentence why a text can't be learned.
  constructor(code, { text, name }, seconds, { told, failed }) {
    const { tokens, alphabet, notes } = prepared(text);
    this.excerpt = excerptOf(tokens, alphabet);
    const sample = this.excerpt.map((id) => alphabet[id]).join("");
    const line = [...sample]
      .slice(0, BEGUN)
      .join("")
      .replace(/\s+\S*$/, "");
    const marks = [
      { loss: Math.log(alphabet.length), label: "guessing blindly" },
      { loss: lossOfPairs(tokens, alphabet.length), label: "knowing pairs of letters" },
    ];
    Object.assign(this, { seconds, notes, marks, words: wordsOf(text), reports: [], snapshots: [], state: "learning" });
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    this.worker = new Worker(address); // a classic one: from the disk, a module may not start
    this.worker.onerror = ({ message }) => failed(message);
    this.worker.onmessage = ({ data }) => {
      if (data.begun) this.sizes = data.begun;
      else told(this.heard(data));
    };
    this.worker.postMessage({ tokens, alphabet, seconds, about: { corpus: name, line, sample }, seed: 1 });
  }

  // Of the weights, those of the last report are kept, and of those numbered 0, 1, 2, 4, 8, … The one at the end judges by
  // more pieces of the text, so it is no point of the curve.
  heard({ bytes, ...report }) {
    const { steps: step, validation: loss, ended } = report;
    Object.assign(this, { bytes, step });
    if (ended) {
      this.state = "ended";
      this.worker.terminate();
    } else {
      const number = this.reports.push(report) - 1;
      if ((number & (number - 1)) === 0) this.snapshots.push({ step, loss, load: async () => bytes });
    }
    return report;
  }

  pauseOrGoOn() {
    this.state = this.state === "paused" ? "learning" : "paused";
    this.worker.postMessage({ pause: this.state === "paused" });
  }

  end() {
    this.worker.terminate();
  }
}

// Tokens from the tenth that it is only tested on, from the beginning of a word on where there are words.
function excerptOf(tokens, alphabet) {
  const tested = tokens.subarray(0.9 * tokens.length);
  const isSpace = (id) => /\s/.test(alphabet[id]);
  const start = tested.subarray(0, 2 * SAMPLED).findIndex((id, i) => i && isSpace(tested[i - 1]) && !isSpace(id));
  return [...tested.slice(Math.max(0, start), Math.max(0, start) + SAMPLED)];
}
