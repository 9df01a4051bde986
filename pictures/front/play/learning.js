// "How did it learn?": the same line at several steps of the training.
import { GPT } from "../gpt.js";
import { html } from "../kit.js";
import { Reader } from "../reader.js";
import { draw, probabilities, random } from "../sampling.js";
import { fillBars, frameOfRow, paragraph, picture, titled } from "./elements.js";
import { habitsOf } from "./habits.js";
import { drawMap } from "./pixels.js";
import { number } from "./words.js";

const PACE_OF_FILM = 2500; // milliseconds for each step
const SEEN = 120; // letters of the text that a model goes on from, at most
const WRITTEN = 150;

// null for a model without snapshots.
export function learning(state) {
  const { step, loss } = state.about;
  const stations = [...(state.data.snapshots ?? []).map((one) => ({ ...one })), { step, loss, model: state.model }];
  if (stations.length < 2) return null;
  const slider = stepSlider(stations, () => {
    film.stop();
    learn();
  });
  const wanted = stations.findIndex((station) => String(station.step) === state.wanted.step);
  if (wanted >= 0) slider.value = wanted;
  const film = filming(slider, learn);
  const station = stationView(state);
  let asked = "";

  // The line as the chosen snapshot sees it, and how it goes on; a snapshot is loaded when it is first asked for.
  async function learn() {
    const snapshot = stations[slider.value];
    state.snapshot = slider.value === slider.max ? null : snapshot.step;
    const now = [slider.value, state.chosen, state.typed, state.tokens].join();
    if (now === asked) return; // it stands there already
    asked = now;
    const title = `After ${number(snapshot.step)} of ${number(step)} steps`;
    slider.setAttribute("aria-valuetext", title);
    try {
      snapshot.model ??= new GPT(await snapshot.load());
    } catch (problem) {
      station.title.textContent = `${title}: ${problem.message}`;
      return;
    }
    if (now !== asked) return;
    station.title.textContent = `${title} · loss ${snapshot.loss.toFixed(2)}`;
    await station.show(snapshot, () => now !== asked);
  }

  const stop = () => {
    film.stop();
    asked = "";
  };
  const node = learningSection(stations, film.button, slider, station.nodes);
  return { node, render: () => state.writing || learn(), stop };
}

function learningSection(stations, film, slider, nodes) {
  const steps = stations.map(({ step }) => html("span", {}, number(step)));
  const stops = html("span", { class: "explore-stops", "aria-hidden": "true" }, ...steps);
  return titled(
    "How did it learn?",
    paragraph(
      "At the start all its numbers were random. Move the slider through the training: at each stop the same line and the same dice, but the model as it was then. It goes from noise to nonsense words, and from there to real ones. ",
      `The slider has ${stations.length} stops, because the model was saved ${stations.length} times.`,
    ),
    html("div", { class: "explore-buttons" }, film, html("label", { class: "explore-when" }, slider, stops)),
    ...nodes,
  );
}

function stepSlider(stations, oninput) {
  const max = stations.length - 1;
  const range = { type: "range", min: 0, max, step: 1, value: max };
  return html("input", { ...range, "aria-label": "Step of the training", oninput });
}

// A button that moves the slider from the first step to the last.
function filming(slider, learn) {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Watch it learn";
  };
  const start = () => {
    slider.value = 0;
    button.textContent = "Stop";
    learn();
    const goOn = () => {
      if (slider.value === slider.max) {
        stop();
      } else {
        slider.value++;
        learn();
      }
    };
    timer = setInterval(goOn, PACE_OF_FILM);
  };
  const onclick = () => (timer ? stop() : start());
  const button = html("button", { style: "min-width: 9.5rem", onclick }, "Watch it learn");
  return { button, stop };
}

// What a station of the training shows: how it goes on, what it expects, and the map of the chosen head. `show` writes until
// `outdated()`.
function stationView(state) {
  const title = html("h3", { "aria-live": "polite" });
  const verse = html("p", { class: "explore-paper explore-verse" });
  const bars = html("div", { class: "explore-bars" });
  const map = html("div", { class: "explore-map" }, picture("The map of the chosen head at that time"), frameOfRow());
  const note = html("p", { class: "explore-note" });
  const expects = "What it expects after the line that you typed (its own probabilities, before temperature)";
  const columns = html(
    "div",
    { class: "explore-two explore-learned" },
    verse,
    html("div", {}, html("p", { class: "explore-note" }, expects), bars),
    html("div", {}, map, note),
  );

  async function show(station, outdated) {
    const { model } = station;
    const [l, k] = state.chosen;
    const reader = new Reader(model);
    reader.reread(state.reader.window);
    station.habits ??= habitsOf(model, state.sample);
    const { does } = station.habits[l][k];
    drawMap(map, reader.places, l, k, does);
    note.textContent = `Layer ${l + 1}, head ${k + 1} at that time: ${does}.`;
    const text = state.tokens.slice(Math.max(0, state.typed - SEEN), state.typed);
    reader.reread(text);
    fillBars(state, bars, reader.places.at(-1).logits, {}, 6);
    const more = html("span", { class: "explore-written" });
    verse.replaceChildren(model.decode(text), more);
    await goOn(reader, more, outdated);
  }
  return { nodes: [title, columns], title, show };
}

async function goOn(reader, written, outdated) {
  const dice = random(7);
  for (let i = 0; i < WRITTEN; i++) {
    const token = draw(probabilities(reader.places.at(-1).logits, { temperature: 0.8 }), dice);
    written.textContent += reader.model.alphabet[token];
    reader.write(token);
    if (i % 10 === 9) await new Promise((done) => setTimeout(done));
    if (outdated()) return;
  }
}
