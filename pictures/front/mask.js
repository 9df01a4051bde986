// Notebook 04: paint a mask on a table of scores, and see the weights, who cheats and which rows break.
import { arrow, button, decimal, frame, html, percent } from "./kit.js";
import { softmax } from "./sampling.js";

// scores (T, S), allowed (T, S) of booleans -> weights (T, S); a row in which nothing is allowed is NaN, as in PyTorch
export const masked = (scores, allowed) =>
  scores.map((row, t) => {
    if (!allowed[t].includes(true)) return row.map(() => NaN);
    return softmax(row.map((score, s) => (allowed[t][s] ? score : -Infinity)));
  });

// What is wrong with a mask, in words; *emphasis* between stars.
export function verdict(words, allowed) {
  const pairs = allowed.flatMap((row, t) => row.map((sees, s) => ({ t, s, sees })));
  const peeks = pairs.filter(({ t, s, sees }) => s > t && sees);
  const blind = pairs.filter(({ t, s, sees }) => s <= t && !sees);
  const broken = allowed.flatMap((row, t) => (row.includes(true) ? [] : [t]));
  const who = (t) => `*${words[t]}* (word ${t + 1})`;
  const sentences = [];
  if (broken.length) {
    sentences.push(
      `${broken.map(who).join(" and ")} may look at nobody: every score is −∞, softmax divides 0 by 0, and the row is ` +
        "NaN, not a number. It spoils all that is made from it.",
    );
  }
  if (peeks.length) {
    const { t, s } = peeks[0];
    const more = peeks.length - 1;
    sentences.push(`${who(t)} sees ${who(s)}, which comes later: it cheats.`);
    if (more) sentences.push(`And so in ${more} more ${more > 1 ? "cells" : "cell"} with a thick border.`);
  } else if (!broken.length && blind.length) {
    const { t, s } = blind[0];
    sentences.push(`Nobody cheats. But ${who(t)} doesn't see ${t === s ? "itself" : who(s)}, though it might.`);
  } else if (!broken.length) {
    sentences.push("Everybody sees the past and itself, and nobody the future: this is the *causal mask*.");
  }
  return sentences.join(" ");
}

// data: words (T), scores (T, T)
export function mount(element, data) {
  const { words, scores } = data;
  const all = [...words.keys()];
  let allowed = all.map(() => all.map(() => true));

  const painted = paintable(words, (t, s) => allowed[t][s], put);
  const shares = all.map(() => all.map(() => html("span", { role: "gridcell", class: "explore-share" })));
  const choice = (text, rule) =>
    button(text, () => {
      allowed = all.map((t) => all.map((s) => rule(t, s)));
      show();
    });
  const { root, say, remove } = frame(
    element,
    { name: "mask", css: CSS, invitation: "Click a cell, or drag across several, to hide words from each other." },
    html("div", { class: "explore-parts" }, painted.node, table(words, "weights after softmax", shares)),
    html(
      "div",
      { class: "explore-tools" },
      choice("causal mask", (t, s) => s <= t),
      choice("everybody sees everybody", () => true),
      choice("the mask the wrong way round", (t, s) => s > t),
    ),
  );
  for (const type of ["pointerup", "pointercancel", "pointerleave"]) root.addEventListener(type, painted.release);

  function put(t, s, sees) {
    allowed[t][s] = sees;
    show();
  }
  function show() {
    const weights = masked(scores, allowed);
    for (const t of all) {
      for (const s of all) {
        const [button, share] = [painted.buttons[t][s], shares[t][s]];
        const sees = allowed[t][s];
        const weight = weights[t][s];
        const cheats = sees && s > t;
        const broken = Number.isNaN(weight);
        const how = `${sees ? "sees" : "does not see"} ${words[s]}${cheats ? ", which comes later" : ""}`;
        button.className = `explore-cell ${sees ? (cheats ? "explore-cheat" : "") : "explore-hidden"}`;
        button.textContent = sees ? decimal(scores[t][s], 1) : "−∞";
        button.setAttribute("aria-label", `${words[t]} ${how}`);
        const kind = broken ? "explore-broken" : cheats && weight >= 0.005 ? "explore-cheat" : "";
        share.className = `explore-share ${kind}`;
        share.textContent = broken ? "NaN" : weight === 0 ? "0" : percent(weight);
        share.style.setProperty("--explore-weight", broken ? "0%" : `${Math.round(45 * weight)}%`);
      }
    }
    say(verdict(words, allowed));
  }
  show();
  return remove;
}

// Cells in rows, with the words at the left and above.
function table(words, label, cells, more = {}) {
  const line = (...cells) => html("div", { role: "row", class: "explore-row" }, ...cells);
  const heading = (word) => html("span", { role: "columnheader", class: "explore-head" }, word);
  const corner = html("span", { role: "columnheader", "aria-label": "who looks" });
  const rows = cells.map((row, t) => line(html("span", { role: "rowheader" }, words[t]), ...row));
  const caption = html("div", { class: "explore-caption" }, label);
  const style = `grid-template-columns: max-content repeat(${words.length}, minmax(0, 1fr))`;
  const attributes = { role: "grid", "aria-label": label, class: "explore-table", style, ...more };
  const grid = html("div", attributes, line(corner, ...words.map(heading)), ...rows);
  return html("div", { class: "explore-side" }, caption, grid);
}

// A table of buttons: press one, or draw a line across several, and `put(t, s, sees)` gives them the opposite of what
// `seen(t, s)` says of the first; arrow keys walk along them. `release` ends a line.
function paintable(words, seen, put) {
  let paint = null;
  const cell = (t, s) =>
    html("button", { type: "button", role: "gridcell", tabindex: t + s ? -1 : 0, "data-t": t, "data-s": s });
  const buttons = words.map((_, t) => words.map((_, s) => cell(t, s)));
  const node = table(words, "scores, as you allow them · row: who looks", buttons, {
    onpointerdown: press,
    onpointermove: drag,
    onkeydown: walk,
    onclick: key,
  });

  // The cell under the pointer, wherever the pointer was pressed.
  function at(event) {
    const cell = node.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest("[data-t]");
    return cell && node.contains(cell) ? [+cell.dataset.t, +cell.dataset.s] : null;
  }
  function press(event) {
    const cell = at(event);
    if (!cell || event.button) return;
    event.target.releasePointerCapture(event.pointerId); // a finger would keep the first cell
    paint = !seen(...cell);
    drag(event);
  }
  function drag(event) {
    const cell = paint === null ? null : at(event);
    if (cell && seen(...cell) !== paint) put(...cell, paint);
  }
  // By keyboard: a click of which no pointer knows.
  function key(event) {
    const { t, s } = event.target.dataset;
    if (event.detail === 0 && t !== undefined) put(+t, +s, !seen(t, s));
  }
  function walk(event) {
    const [down, right] = arrow(event);
    const { t, s } = event.target.dataset;
    const to = buttons[+t + down]?.[+s + right];
    if (down === undefined) return;
    event.preventDefault();
    if (!to) return;
    event.target.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  const release = () => {
    paint = null;
  };
  return { node, buttons, release };
}

const CSS = `
.explore-side { flex: 1 1 300px; min-width: 0; }
.explore-table { display: grid; gap: 2px; font-size: 13px; font-variant-numeric: tabular-nums; user-select: none; }
.explore-row { display: contents; }
.explore-row > * { display: grid; place-items: center; min-height: 32px; min-width: 0; overflow: hidden; }
[role="rowheader"] { place-items: center end; padding-right: 6px; }
.explore-head { font-size: 12px; }
button.explore-cell {
  padding: 0; border-radius: 3px; border: 1px solid var(--explore-line); background: var(--explore-paper);
  touch-action: none; cursor: crosshair; font-size: 13px;
}
button.explore-hidden {
  color: var(--explore-soft); background: repeating-linear-gradient(45deg, var(--explore-faint) 0 4px, var(--explore-paper) 4px 8px);
}
.explore-cell.explore-cheat, .explore-share.explore-cheat {
  border: 2px solid var(--explore-red);
}
.explore-share {
  border: 1px solid transparent; border-radius: 3px;
  background: color-mix(in srgb, var(--explore-green) var(--explore-weight), var(--explore-faint));
}
.explore-broken { background: var(--explore-red); color: var(--explore-paper); font-weight: 700; }
@container (max-width: 420px) { .explore-head { writing-mode: vertical-rl; min-height: 4.5em; } }
`;
