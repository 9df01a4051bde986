// A page on which a GPT learns a text of the reader's own, in a worker, while one watches. What it has learned can be played
// with below, and taken home.
import { GPT } from "./gpt.js";
import { button, html } from "./kit.js";
import { Course } from "./learn/course.js";
import { curve } from "./learn/curve.js";
import { source } from "./learn/source.js";
import { heads, samples, written } from "./learn/watching.js";
import { paragraph } from "./play/elements.js";
import { STYLE } from "./play/style.js";
import { duration, number } from "./play/words.js";
import { mount } from "./play.js";

const LENGTHS = [30, 60, 120, 300, 600]; // seconds
const USUAL = 60;
const LINE = 40; // letters that the maps have room for

// `data.code`: the source of learn/worker.js, joined. `data.home`: a page in which {{MODEL}} stands for a model's bytes.
// `data.corpus`: see learn/source.js.
export function learn(element, data) {
  let course = null;
  const from = source(data.corpus);
  const controls = controlling(begin, () => {
    course.pauseOrGoOn();
    controls.offer(course.state);
  });
  const views = { curve: curve(), samples: samples(), heads: heads() };
  const results = leaving(data.home);
  const room = html(
    "section",
    { class: "explore-learning", hidden: "" },
    html("div", {}, views.samples.node, views.curve.node),
    views.heads.node,
  );
  const root = html("div", { class: "explore-play" }, html("style", {}, STYLE + CSS), ...lead());
  root.append(from.node, controls.node, room, results.node);
  element.append(root, results.place);

  function begin() {
    const before = course;
    try {
      course = new Course(data.code, from.text(), controls.seconds(), { told, failed });
    } catch (problem) {
      controls.say(problem.message);
      return;
    }
    before?.end();
    for (const view of Object.values(views)) view.clear?.();
    controls.say(["It gets ready …", ...course.notes].join(" "));
    controls.offer(course.state);
  }
  function told({ spent, steps, validation, ended }) {
    const model = new GPT(course.bytes);
    if (course.reports.length === 1) controls.say([...describe(course), ...course.notes].join(" "));
    room.hidden = results.node.hidden = false;
    controls.count(spent, course.seconds, steps, validation);
    views.curve.draw(course);
    views.samples.add(spent, written(model), course.words);
    views.heads.draw(model, course.excerpt.slice(0, LINE));
    results.has(course);
    if (!ended) return;
    controls.say(ENDS[ended]);
    controls.offer(course.state);
  }
  function failed(message) {
    course.end();
    controls.offer("ended");
    controls.say(`It stopped, and the browser says: ${message}. Please try again, or load the page anew.`);
  }
}

const lead = () => [
  html("h1", {}, "Teach a GPT to write like you"),
  html(
    "p",
    { class: "explore-lead" },
    "Give it a text, and in a minute or two a small GPT learns to write in its manner, here, in this tab. Nothing that you paste leaves your computer.",
  ),
];

const ENDS = {
  "in time": "Time is up, and this is what it has become.",
  "by heart":
    "It stopped early: any longer, and it would only have learned your text by heart. You have it as it was at its best.",
};

function describe({ sizes: { parameters, L, H, C, simd } }) {
  const slow = simd ? "This machine takes its time" : "Without WebAssembly this browser takes its time";
  return [
    `It has ${number(parameters)} numbers to tune, in ${L} layers of ${H} heads. At first they are random. You may look at another tab meanwhile; only a phone must stay awake.`,
    ...(C < 64 ? [`${slow}, so the GPT is a smaller one.`] : []),
  ];
}

// The buttons and what is said beside them.
function controlling(begin, goOn) {
  const option = (seconds) => {
    const attributes = { value: seconds, selected: seconds === USUAL ? "" : false };
    return html("option", attributes, duration(seconds));
  };
  const length = html("select", {}, ...LENGTHS.map(option));
  const main = button("Start", () => (begun ? goOn() : begin()), { class: "explore-main" });
  const again = button("Start again", begin, { hidden: "" });
  let begun = false;
  const said = html("p", { class: "explore-say", role: "status" });
  const counted = html("p", { class: "explore-note explore-counted" });
  const node = html(
    "section",
    { class: "explore-stage" },
    html("div", { class: "explore-buttons" }, main, html("label", {}, "for ", length), again),
    said,
    counted,
  );
  const NEXT = { learning: "Pause", paused: "Go on", ended: "Start again" };
  function offer(state) {
    begun = state !== "ended";
    main.textContent = NEXT[state];
    again.hidden = !begun;
  }
  const say = (text) => {
    said.textContent = text;
  };
  const count = (spent, seconds, steps, loss) => {
    const pace = spent ? `, ${Math.round(steps / spent)} a second` : "";
    counted.textContent = `${Math.round(spent)} of ${seconds} seconds · ${number(steps)} steps${pace} · surprise ${loss.toFixed(2)} nats a letter`;
  };
  return { node, offer, say, count, seconds: () => +length.value };
}

// What one does with it: { node, place, has(course) }. In `place` is the playground.
function leaving(home) {
  let course = null;
  let remove = null;
  const place = html("div", {});
  const play = () => {
    remove?.();
    const { bytes, snapshots } = course;
    const earlier = snapshots.filter(({ step }) => step < course.step);
    remove = mount(place, { model: bytes, snapshots: earlier });
    place.scrollIntoView({ behavior: "smooth" });
  };
  const take = () => {
    const letters = Array.from(course.bytes, (byte) => String.fromCharCode(byte)).join("");
    const page = home.replace("{{MODEL}}", btoa(letters));
    const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    html("a", { href: address, download: "my_gpt.html" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  const node = html(
    "section",
    { hidden: "" },
    html("h2", {}, "It is yours"),
    paragraph(
      "See all that it computes, in the same microscope as the GPT of the lessons. Or take it home: one file, which works without a network, and which you can send to a friend. It remembers some of what it has read, so think twice before you send one that has read your diary.",
    ),
    html(
      "div",
      { class: "explore-buttons" },
      button("Play with it", play, { class: "explore-main" }),
      button("Take it home", take),
    ),
  );
  const has = (now) => {
    course = now;
  };
  return { node, place, has };
}

const CSS = `
.explore-learning { display: grid; gap: 1.5rem 2.5rem; grid-template-columns: minmax(0, 1fr); }
.explore-learning > div > * + h3, .explore-learning > div > div + div { margin-top: 1.5rem; }
.explore-learning[hidden] { display: none; }
.explore-learning .explore-verse { color: var(--soft); white-space: pre-wrap; }
.explore-learning .explore-verse b { color: var(--ink); }
.explore-curve { width: 100%; font-size: 12px; }
.explore-curve text { fill: var(--soft); }
.explore-curve line { stroke: var(--soft); stroke-dasharray: 4 4; }
.explore-curve polyline { fill: none; stroke: currentColor; stroke-width: 2.5; stroke-linejoin: round; }
.explore-play select { font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 0.4rem 0.6rem; min-height: 2.75rem; }
@container explore-play (max-width: 570px) {
  .explore-curve { font-size: 18px; }
}
@container explore-play (min-width: 700px) {
  .explore-learning { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); }
}
`;
