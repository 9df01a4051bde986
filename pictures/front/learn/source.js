// Where the text comes from: pasted or typed, a file that is chosen or dropped, or a play that lies beside the page.
import { button, byHand, html } from "../kit.js";
import { number } from "../play/words.js";
import { textOf } from "./text.js";

const SHOWN = 1500; // letters: a whole novel would freeze the box, so it shows how a long text begins

// { node, text() -> { text, name } }. `corpus` is { label, name, load() -> promise of a text }, or null.
export function source(corpus) {
  let given = { text: "", name: "" };
  const box = html("textarea", {
    rows: 6,
    spellcheck: "false",
    placeholder: "A novel, your diary, ten years of letters to your sister …",
    oninput: () => know(box.value),
    onpaste: (event) => put(event, event.clipboardData),
  });
  const note = html("p", { class: "explore-note", role: "status" });
  const picker = html("input", {
    type: "file",
    "aria-label": "A file",
    hidden: "",
    onchange: () => open(picker.files[0]),
  });
  const clear = button("Clear", () => show("", ""), { hidden: "" });
  const buttons = [
    button("Open a file", () => picker.click()),
    ...(corpus ? [button(corpus.label, () => read(corpus.load, corpus.name))] : []),
    clear,
  ];
  const node = html(
    "section",
    {
      class: "explore-stage",
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => put(event, event.dataTransfer),
    },
    html(
      "label",
      { class: "explore-line" },
      html("span", {}, byHand("Paste a text, or drop a file here", "Paste a text, or open a file")),
      box,
    ),
    html("div", { class: "explore-buttons" }, ...buttons, picker),
    note,
  );

  function know(text, name = "") {
    given = { text, name };
    clear.hidden = !text;
    const letters = text && `${number(text.length)} letters`;
    const begins = text.length > box.value.length ? " The box shows how it begins." : "";
    note.textContent = letters && `${letters}${name && ` of ${name}`}.${begins}`;
  }
  function show(text, name) {
    const long = text.length > SHOWN;
    box.value = long ? `${text.slice(0, SHOWN)} …` : text;
    box.readOnly = long; // or a change to the beginning would seem to be one to the whole
    know(text, name);
  }
  async function read(load, name) {
    note.textContent = "Reading …";
    try {
      show(await load(), name);
    } catch (problem) {
      note.textContent = problem.message;
    }
  }
  const open = (file) => read(() => textOf(file), file.name.replace(/\.\w+$/, ""));
  // What is pasted or dropped: a file, or a long text that takes the place of all else; a short one is the box's own affair.
  function put(event, data) {
    const [file] = data.files;
    const text = data.getData("text/plain");
    if (!file && text.length <= SHOWN && !box.readOnly) return;
    event.preventDefault();
    if (file) open(file);
    else show(text, "");
  }
  return { node, text: () => given };
}
