// Notebook 06: one big table of queries is cut into heads, by view with transpose or without it; see where each number lands.
import { arrow, button, frame, html, named } from "./kit.js";

const WAYS = { view: "view(H, T, D) alone", transpose: "view(T, H, D).transpose(0, 1)" };

// Number k of a table (T, H·D), counted as it lies in memory -> where it stands in the tables (H, T, D). Both ways cut
// the memory into T·H pieces of D numbers and tear none apart; they differ in the place that they give to a piece.
export function landing(k, T, H, D, way) {
  const piece = Math.floor(k / D);
  const column = k % D;
  if (way === "transpose") return { head: piece % H, row: Math.floor(piece / H), column };
  return { head: Math.floor(piece / T), row: piece % T, column };
}

// In words: where number k lands, or, for k = null, how many numbers stand where they shouldn't; *emphasis* between stars.
export function sentence(words, H, D, way, k = null) {
  const T = words.length;
  const N = T * H * D;
  const name = named(words);
  const lands = (number) => [landing(number, T, H, D, way), landing(number, T, H, D, "transpose")]; // and where it should
  if (k !== null) {
    const [is, should] = lands(k);
    const owner = name(should.row);
    const number = `*${k}*, number ${(k % (H * D)) + 1} of ${owner}`;
    const here = `${number}, lands in head ${is.head + 1}, in the row of ${name(is.row)}`;
    if (way === "transpose") return `${here}.`;
    if (is.row !== should.row) return `${here}: from now on ${name(is.row)} asks with a number of ${owner}.`;
    if (is.head !== should.head) return `${here}: the right row, but it was made for head ${should.head + 1}.`;
    return `${here}: the right place, by luck.`;
  }
  if (way === "transpose") {
    return `*view and transpose*: all ${N} numbers stand in their own word's row, and each head has ${D} numbers of every word.`;
  }
  const all = [...Array(N).keys()].map(lands);
  const strange = all.filter(([is, should]) => is.row !== should.row).length;
  const astray = all.filter(([is, should]) => is.row === should.row && is.head !== should.head).length;
  const more = astray ? `, ${astray} more in the wrong head` : "";
  return `*view alone*: ${strange} of ${N} numbers stand in another word's row${more}, and no error warns you. Head 1 has simply taken the first ${T * D} in memory.`;
}

// data: words (T), heads (H), width (D)
export function mount(element, data) {
  const { words, heads: H, width: D } = data;
  const T = words.length;
  let way = "view";
  let chosen = null; // by a click, a tap or a key: it stays when the way changes
  let hovered = null;

  const whole = wholeTable(data, choose);
  const pieces = headTables(data);
  const choice = ([name, text]) => button(text, () => cut(name), { "data-way": name });
  const buttons = Object.entries(WAYS).map(choice);
  const part = (basis, text, ...inside) => {
    const caption = html("div", { class: "explore-caption" }, text);
    return html("div", { class: "explore-side", style: `flex: 1 1 ${basis}px` }, ...inside, caption);
  };
  const shape = (text) => text.replaceAll(" ", "\u00a0"); // which is not broken over two lines
  const before = `queries for all heads, numbered as they lie in memory: ${shape(`(T, H·D) = (${T}, ${H * D})`)}`;
  const after = `cut: ${shape(`(H, T, D) = (${H}, ${T}, ${D})`)} · ≠ marks a row with the wrong numbers`;
  const { root, say, remove } = frame(
    element,
    { name: "cut", css: CSS, invitation: "Point at a number, or walk with the arrow keys: in whose row does it land?" },
    html("div", { class: "explore-tools", role: "group", "aria-label": "how to cut" }, ...buttons),
    html(
      "div",
      { class: "explore-parts" },
      part(70 + 30 * H * D, before, whole.node),
      part(H * (roomOf(D) + 12), after, html("div", { class: "explore-parts" }, ...pieces.nodes)),
    ),
  );
  root.addEventListener("pointerover", (event) => event.pointerType === "mouse" && hover(numberAt(event)));
  root.addEventListener("pointerleave", () => hover(null));
  // A click beside all numbers chooses none.
  root.addEventListener("click", (event) => event.target.closest("[data-way]") || choose(numberAt(event)));
  root.addEventListener("keydown", (event) => event.key === "Escape" && choose(null));

  function cut(to) {
    way = to;
    show();
  }
  function hover(k) {
    if (k === hovered) return;
    hovered = k;
    show();
  }
  function choose(k) {
    [chosen, hovered] = [k, null];
    show();
  }
  function show() {
    const lit = hovered ?? chosen;
    for (const each of buttons) each.setAttribute("aria-pressed", each.dataset.way === way);
    whole.render(lit, chosen);
    pieces.render(way, lit);
    say(sentence(words, H, D, way, lit));
  }
  show();
  return remove;
}

// The number that is meant.
function numberAt(event) {
  const met = event.target.closest("[data-k]");
  return met ? +met.dataset.k : null;
}

// ---------------------------------------------------------------- its tables
const upTo = (n) => [...Array(n).keys()];
const roomOf = (D) => 70 + 24 * D; // for the table of a head, in pixels
const tint = (t) => `explore-tint${t}`;
const row = (...cells) => html("div", { role: "row", class: "explore-row" }, ...cells);
const columns = (n, sign = "") => `grid-template-columns: fit-content(5.5em) ${sign} repeat(${n}, minmax(0, 1fr))`;
const label = (word, t) =>
  html("span", { role: "rowheader", class: `explore-word ${tint(t)}` }, html("span", {}, word));

// All numbers as they lie in memory, a row for each word; arrow keys walk along them, and `choose` gets the one in focus.
function wholeTable({ words, heads: H, width: D }, choose) {
  const [T, C] = [words.length, H * D];
  const starts = (c) => (c && c % D === 0 ? "explore-starts" : "");
  const cells = upTo(T * C).map((k) => {
    const [t, c] = [Math.floor(k / C), k % C];
    const attributes = {
      type: "button",
      role: "gridcell",
      tabindex: k ? -1 : 0,
      "data-k": k,
      class: `explore-number ${tint(t)} ${starts(c)}`,
      "aria-label": `${k}, number ${c + 1} of ${words[t]}`,
    };
    return html("button", attributes, k);
  });
  const heading = (h) => {
    const attributes = {
      role: "columnheader",
      "aria-colspan": D,
      class: `explore-head ${starts(h * D)}`,
      style: `grid-column: span ${D}`,
    };
    return html("span", attributes, `for head ${h + 1}`);
  };
  const corner = html("span", { role: "columnheader", "aria-label": "word", class: "explore-head" });
  const lines = words.map((word, t) => row(label(word, t), ...cells.slice(t * C, (t + 1) * C)));
  const attributes = {
    role: "grid",
    "aria-label": "the big table",
    class: "explore-table",
    style: columns(C),
    onkeydown: walk,
    onfocusin: (event) => choose(numberAt(event)),
  };

  function walk(event) {
    const [down, right] = arrow(event);
    const k = numberAt(event);
    const t = Math.floor(k / C) + down;
    const c = (k % C) + right;
    if (down === undefined) return;
    event.preventDefault();
    if (t >= 0 && t < T && c >= 0 && c < C) cells[t * C + c].focus();
  }
  const render = (lit, chosen) => {
    cells.forEach((each, k) => {
      each.classList.toggle("explore-lit", k === lit);
      each.setAttribute("tabindex", k === (chosen ?? 0) ? 0 : -1);
    });
  };
  return { node: html("div", attributes, row(corner, ...upTo(H).map(heading)), ...lines), render };
}

// A table for each head, with the numbers where a way to cut puts them.
function headTables({ words, heads: H, width: D }) {
  const T = words.length;
  const slots = upTo(H).map(() => upTo(T).map(() => upTo(D).map(() => html("span", { role: "cell" }))));
  const signs = upTo(H).map(() => upTo(T).map(() => html("span", { role: "cell", class: "explore-sign" })));
  const nodes = slots.map((rows, h) => {
    const title = html("div", { class: "explore-title" }, `head ${h + 1}`);
    const attributes = {
      role: "table",
      "aria-label": `head ${h + 1}`,
      class: "explore-table",
      style: columns(D, "1em"),
    };
    const table = html("div", attributes, ...rows.map((slot, t) => row(label(words[t], t), signs[h][t], ...slot)));
    return html("div", { class: "explore-one", style: `flex-basis: ${roomOf(D)}px` }, title, table);
  });
  const render = (way, lit) => {
    for (const k of upTo(T * H * D)) {
      const { head, row: t, column } = landing(k, T, H, D, way);
      const should = landing(k, T, H, D, "transpose");
      const slot = slots[head][t][column];
      slot.textContent = slot.dataset.k = k;
      slot.className = `explore-number ${tint(should.row)} ${k === lit ? "explore-lit" : ""}`;
      signs[head][t].textContent = head === should.head && t === should.row ? "" : "≠";
    }
  };
  return { nodes, render };
}

// The palette of the pictures, as pale as there.
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const TINTS = COLORS.map(
  (color, t) => `.explore-tint${t} { background: color-mix(in srgb, ${color} 36%, var(--explore-paper)); }`,
);
const CSS = `
.explore-tools { margin: 0 0 10px; }
.explore-tools button { font-family: ui-monospace, monospace; font-size: 13px; }
button[aria-pressed="true"] { background: var(--explore-ink); color: var(--explore-paper); border-color: var(--explore-ink); }
.explore-side { min-width: 0; }
.explore-side .explore-parts { gap: 8px 12px; }
.explore-one { flex: 1 1; min-width: 0; max-width: 260px; }
.explore-title { font-weight: 600; text-align: center; min-height: 25px; }
.explore-table {
  --explore-gap: 4px; display: grid; gap: 3px var(--explore-gap); font-size: 13px; font-variant-numeric: tabular-nums; margin-bottom: 4px;
}
.explore-row { display: contents; }
.explore-row > * {
  display: grid; place-items: center; position: relative; min-width: 0; min-height: 30px; border-radius: 3px; border: 1px solid transparent;
}
.explore-row > .explore-head { font-size: 12px; line-height: 20px; min-height: 22px; color: var(--explore-soft); }
.explore-row > .explore-word { place-items: center start; padding: 0 4px; }
.explore-word span { max-width: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.explore-sign { color: var(--explore-red); font-weight: 700; }
.explore-number { padding: 0; font-size: inherit; cursor: crosshair; touch-action: manipulation; }
.explore-starts { --explore-edge: 1px; } /* between two heads a line, in the middle of the gap */
.explore-starts::before {
  content: ""; position: absolute; width: 2px; top: calc(-2px - var(--explore-edge)); bottom: calc(-2px - var(--explore-edge));
  left: calc(-1px - var(--explore-edge) - var(--explore-gap) / 2); background: var(--explore-soft);
}
.explore-row > .explore-lit { --explore-edge: 3px; border: 3px solid var(--explore-ink); font-weight: 700; }
@container (max-width: 420px) {
  .explore-table { --explore-gap: 2px; font-size: 12px; }
  .explore-line { position: sticky; bottom: 0; background: var(--explore-paper); } /* the tables may be taller than a phone */
}
${TINTS.join("\n")}
`;
