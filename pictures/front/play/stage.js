// The title, the line that one types, the buttons, and the text.
import { html } from "../kit.js";
import { duration, number } from "./words.js";

export function stage(state) {
  const line = html("textarea", {
    rows: 2,
    spellcheck: "false",
    autocomplete: "off",
    oninput: () => state.type(line.value),
    onkeydown: (event) => entered(state, event),
  });
  line.value = state.line;
  const note = html("p", { class: "explore-note", role: "status" });
  const allOn = html("button", { onclick: () => state.switchAllOn() }, "Switch all heads on");
  const which = html("span", {});
  const off = html("p", { class: "explore-note", hidden: "" }, which, " ", allOn);
  const spoken = html("p", { class: "explore-unseen", role: "status" });
  const paper = html("p", { class: "explore-paper", tabindex: 0, role: "region", "aria-label": "The text" });
  const node = html(
    "section",
    { class: "explore-stage" },
    ...(state.data.page ? heading(state.about) : []),
    html("label", { class: "explore-line" }, html("span", {}, "Start a line, then press Enter …"), line),
    note,
    buttons(state, () => state.type(line.value)),
    off,
    paper,
    spoken,
  );
  state.subscribe("note", (text) => {
    note.textContent = text;
  });
  state.subscribe("spoken", (text) => {
    spoken.textContent = text;
  });
  const render = () => {
    off.hidden = !state.model.off.size;
    which.textContent = `It writes without ${state.headsOff()}.`;
    showText(state, paper);
  };
  return { node, render };
}

function heading(about) {
  const corpus = about.corpus === "tiny Shakespeare" ? "Shakespeare" : about.corpus || "its text";
  const lead = html(
    "p",
    { class: "explore-lead" },
    `${number(about.parameters)} numbers, tuned for ${duration(about.seconds)} until they were good at guessing the next letter of ${corpus}. All of them are in this page: give them a line, and watch what happens inside.`,
  );
  return [html("h1", {}, "A small GPT with its lid off"), lead];
}

function buttons(state, again) {
  const go = html("button", { class: "explore-main", onclick: () => state.writeOrPause() }, "Let it write");
  state.subscribe("offer", (text) => {
    go.textContent = text;
  });
  const changePace = () => {
    state.pace = +pace.value;
    if (!state.writing) return;
    state.pause();
    state.write();
  };
  const range = { type: "range", "aria-label": "pace", min: 2, max: 60, value: state.pace };
  const pace = html("input", { ...range, oninput: changePace });
  return html(
    "div",
    { class: "explore-buttons" },
    go,
    html("button", { onclick: () => state.writeOne() }, "One letter"),
    html("button", { onclick: again }, "Back to your line"),
    html("label", { class: "explore-pace" }, "slow", pace, "fast"),
  );
}

// Enter lets it write; with the shift key it is a new line.
function entered(state, event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!state.writing) state.write();
}

function showText({ model, tokens, typed }, paper) {
  const atEnd = paper.scrollHeight - paper.scrollTop - paper.clientHeight < 60;
  paper.replaceChildren(
    model.decode(tokens.slice(0, typed)),
    html("span", { class: "explore-written" }, model.decode(tokens.slice(typed))),
    html("i", { class: "explore-caret" }),
  );
  if (atEnd) paper.scrollTop = paper.scrollHeight;
}
