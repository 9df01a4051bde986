// What the sections of the page share: the text, what the model has read of it, the settings, and what is chosen. A section
// reads all this and calls the methods; it subscribes to what it shows at once. All else is drawn after a "change".
import { GPT } from "../gpt.js";
import { percent } from "../kit.js";
import { Reader } from "../reader.js";
import { draw, probabilities, surpriseOf } from "../sampling.js";
import { firmest, habitsOf, lettersOf, targetsIn } from "./habits.js";
import { wanted } from "./link.js";
import { best, bestFirst } from "./words.js";

const SPECIAL = { "\n": "↵", " ": "·" };
const NAMES = { "\n": "a new line", " ": "a space" };
const START = "O Romeo, Romeo! wherefore";
// Heads are named by what they do in this text.
const SAMPLE = "But, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun.";

export class State {
  constructor(data) {
    const model = new GPT(data.model);
    const { config, about, alphabet } = model;
    Object.assign(this, { data, model, config, about, reader: new Reader(model) });
    this.wanted = wanted(data.page && !data.head ? location.search : "", config); // by a link to what somebody saw
    this.line = this.wanted.text ?? data.text ?? about.line ?? START; // to begin with
    this.sample = model.encode(about.sample ?? SAMPLE + this.line).slice(0, config.context_length);
    this.habits = habitsOf(model, this.sample);
    this.shown = alphabet.map((letter) => SPECIAL[letter] ?? letter);
    this.looksBack = model.tables.length + model.before.length > 0; // its embeddings say which letters stand before
    this.settings = { temperature: 0.8, topK: config.vocab_size, topP: 1 };
    this.tokens = []; // the whole text
    this.typed = 0; // how much of it was typed
    this.nats = []; // how surprising each letter was
    this.at = 0; // the place that one points at
    this.held = null; // the place of a letter that was clicked
    this.chosen = [0, 0]; // layer and head
    this.snapshot = null; // the step of the training that one looks at, and …
    this.fault = null; // … the name of a fault, if one has been chosen
    this.fresh = 0; // places that the last step computed, …
    this.computed = 0; // … all steps, …
    this.uncached = 0; // … and how many these would have been without a cache
    this.wrapped = false; // did the last step move a full window?
    this.pace = 14; // letters a second
    this.dice = Math.random;
    this.timer = 0;
    this.said = 0; // how much of the text those who listen have heard
    this.listeners = { change: [], note: [], spoken: [], offer: [], scroll: [] };
  }

  // ---------------------------------------------------------------- who listens
  subscribe(event, listener) {
    this.listeners[event].push(listener);
  }

  tell(event, text) {
    for (const listener of this.listeners[event]) listener(text);
  }

  render() {
    this.tell("change");
  }

  // ---------------------------------------------------------------- what is read
  get places() {
    return this.reader.places;
  }

  get place() {
    return this.places[this.at];
  }

  get last() {
    return this.places.length - 1;
  }

  // The first line, and the head to begin with.
  begin() {
    this.type(this.line);
    this.chosen = this.wanted.head ?? firmest(this.habits, this.targets(), this.places.at(-1));
  }

  type(text) {
    this.pause();
    const { model } = this;
    const { context_length: T } = this.config;
    const unknown = [...new Set([...text].filter((letter) => !model.ids.has(letter)))];
    this.tokens = model.encode(text);
    const notes = [
      !this.tokens.length && "Nothing to go on: it begins after a new line (↵).",
      unknown.length && `The model has never seen ${unknown.map((c) => `“${c}”`).join(", ")}: left out.`,
      this.tokens.length > T && `It sees only the last ${T} of ${this.tokens.length} characters.`,
    ];
    this.tell("note", notes.filter(Boolean).join(" "));
    if (!this.tokens.length) this.tokens = [model.ids.get("\n") ?? 0];
    this.typed = this.tokens.length;
    this.count(this.reader.reread(this.tokens), false);
    this.nats = this.tokens.map(() => null);
    this.judge();
    this.said = this.typed;
    this.changed();
  }

  // How surprising each letter of the window was, but for its first.
  judge() {
    const start = this.tokens.length - this.places.length;
    this.places.slice(0, -1).forEach((place, i) => {
      this.nats[start + i + 1] = surpriseOf(place, this.reader.window[i + 1]);
    });
  }

  step(token = draw(probabilities(this.places.at(-1).logits, this.settings), this.dice)) {
    this.nats.push(surpriseOf(this.places.at(-1), token));
    this.tokens.push(token);
    const full = this.reader.window.length === this.config.context_length;
    this.count(this.reader.write(token), full);
    if (!this.writing || this.model.alphabet[token] === "\n") this.speak();
    this.changed();
  }

  count(fresh, wrapped) {
    this.fresh = fresh;
    this.computed += fresh;
    this.uncached += this.reader.window.length;
    this.wrapped = wrapped;
  }

  changed() {
    this.at = this.last;
    this.held = null;
    if (!this.writing) this.offer();
    this.render();
  }

  // ---------------------------------------------------------------- what is written
  get writing() {
    return this.timer !== 0;
  }

  // It would go on for ever: after this many letters it stops, with a note.
  write(left = 600, after = "600 letters: “Continue” writes more.") {
    const tick = () => {
      if (left-- > 0) {
        this.step();
      } else {
        this.pause();
        this.tell("note", after);
      }
    };
    this.timer = setInterval(tick, 1000 / this.pace);
    this.offer("Pause");
    this.step();
  }

  stop() {
    this.dice = Math.random;
    clearInterval(this.timer);
    this.timer = 0;
  }

  pause() {
    this.stop();
    this.offer();
    if (!this.places.length) return;
    this.speak();
    this.render();
  }

  writeOrPause() {
    if (this.writing) this.pause();
    else this.write();
  }

  // One letter: this one, or one that is drawn.
  writeOne(token) {
    this.pause();
    this.step(token);
  }

  // What the button offers that lets it write.
  offer(what = this.tokens.length > this.typed ? "Continue" : "Let it write") {
    this.tell("offer", what);
  }

  // For those who listen: line by line while it writes, and what is left when it stops.
  speak() {
    const tail = this.model.decode(this.tokens.slice(this.said));
    if (!tail.trim()) return;
    this.tell("spoken", tail);
    this.said = this.tokens.length;
  }

  // ---------------------------------------------------------------- what is chosen
  // Pointing at a letter shows it, unless one is held; a click holds it, and a second one, Escape or a click on the last
  // letter lets it go.
  point(place) {
    if (this.held !== null || this.inText(place) === this.at) return;
    this.at = this.inText(place);
    this.render();
  }

  hold(place) {
    const { last } = this;
    this.held = place === null || place === this.held || place === last ? null : this.inText(place);
    this.at = place === last ? last : (this.held ?? this.at);
    this.render();
  }

  inText(place) {
    return Math.max(0, Math.min(place, this.last));
  }

  choose(l, k) {
    this.chosen = [l, k];
    this.render();
  }

  isOff(l, k) {
    return this.model.off.has(l * this.config.n_head + k);
  }

  // The heads that are switched off, in words.
  headsOff() {
    const H = this.config.n_head;
    return [...this.model.off]
      .map((head) => `head ${(head % H) + 1} of layer ${Math.floor(head / H) + 1}`)
      .join(" and ");
  }

  // Without the chosen head: what it reads is thrown away, and all is computed anew.
  switchHead() {
    const { off } = this.model;
    const [l, k] = this.chosen;
    const head = l * this.config.n_head + k;
    if (!off.delete(head)) off.add(head);
    this.computeAnew();
  }

  switchAllOn() {
    this.model.off.clear();
    this.computeAnew();
  }

  computeAnew() {
    this.pause();
    this.reader.compute(0);
    this.judge();
    this.render();
  }

  // ---------------------------------------------------------------- in words
  targets() {
    return targetsIn(lettersOf(this.model, this.places));
  }

  named(token) {
    const letter = this.model.alphabet[token];
    return NAMES[letter] ?? `“${letter}”`;
  }

  // The same without quotation marks.
  plainly(token) {
    return NAMES[this.model.alphabet[token]] ?? this.shown[token];
  }

  // The letter at place i, as seen from the one that is pointed at.
  where(i) {
    const back = this.at - i;
    if (!back) return "itself";
    return `${this.named(this.reader.window[i])} ${back === 1 ? "just before" : `${back} back`}`;
  }

  most(weights) {
    return this.where(best(weights));
  }

  three(weights) {
    const order = bestFirst(weights).slice(0, 3);
    return order.map((i) => `${this.where(i)} (${percent(weights[i])})`).join(", ");
  }
}
