// What all explorers share: elements made in one line, and one look, in light and in dark.

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const html = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A frame inside `element`: what to do, then `children`, then a line that says what is seen. `say(text)` writes it,
// with *emphasis*, and only when it has changed: screen readers read every change.
export function frame(element, { name, invitation, css }, ...children) {
  const line = html("p", { class: "explore-line", "aria-live": "polite" });
  const title = html("p", { class: "explore-invitation" }, invitation);
  const attributes = { class: `explore explore-${name}`, role: "group", "aria-label": invitation };
  const root = html("div", attributes, html("style", {}, LOOK + css), title, ...children, line);
  element.append(root);
  let said = "";
  const say = (text) => {
    if (text === said) return;
    said = text;
    line.replaceChildren(...text.split("*").map((part, i) => (i % 2 ? html("strong", {}, part) : part)));
  };
  return { root, say, remove: () => root.remove() };
}

// A labelled slider; `write(value)` is what stands behind it. Returns [the label's element, value => set it].
export function slider(label, { min, max, step, value, write, set }) {
  const output = html("output", {}, write(value));
  const show = () => {
    output.textContent = write(+input.value);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const moved = () => (show(), set(+input.value));
  const input = html("input", { type: "range", min, max, step, value, oninput: moved });
  input.setAttribute("aria-valuetext", write(value));
  const put = (number) => ((input.value = number), show());
  return [html("label", { class: "explore-slider" }, html("span", {}, label), input, output), put];
}

export const softmax = (scores) => {
  const top = Math.max(...scores), powers = scores.map((score) => Math.exp(score - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
};

export const percent = (share) => (share > 0 && share < 0.005 ? "<1%" : `${Math.round(100 * share)}%`);

const LOOK = `
.explore {
  color-scheme: light dark;
  --explore-ink: light-dark(#1b1b1b, #ececec); --explore-soft: light-dark(#5c5c5c, #b0b0b0);
  --explore-paper: light-dark(#ffffff, #17191b); --explore-line: light-dark(#c9c9c9, #4a4d50);
  --explore-blue: light-dark(#0072b2, #56b4e9); --explore-green: light-dark(#00805c, #2fc79a);
  --explore-red: light-dark(#b34700, #ff9d5c); --explore-faint: light-dark(#ececec, #2b2e31);
  box-sizing: border-box; max-width: 900px; margin: 0.5em 0; padding: 12px 16px; border-radius: 10px;
  border: 1px solid var(--explore-line); background: var(--explore-paper); color: var(--explore-ink);
  font: 14px/1.4 system-ui, sans-serif; container-type: inline-size; text-align: left;
}
[data-jp-theme-light="true"] .explore, [data-theme="light"] .explore { color-scheme: light; }
[data-jp-theme-light="false"] .explore, [data-theme="dark"] .explore { color-scheme: dark; }
.explore *, .explore *::before { box-sizing: border-box; }
.explore p { margin: 0; color: inherit; font-size: inherit; }
.explore .explore-invitation { font-size: 16px; font-weight: 600; margin-bottom: 8px; }
.explore .explore-line { margin-top: 8px; min-height: 2.8em; }
.explore .explore-parts { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: flex-start; }
.explore .explore-caption { color: var(--explore-soft); font-size: 12px; }
.explore .explore-tools { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; margin-top: 8px; }
.explore button {
  font: inherit; color: inherit; background: var(--explore-faint); border: 1px solid var(--explore-line);
  border-radius: 6px; padding: 4px 10px; min-height: 28px; cursor: pointer; margin: 0;
}
.explore button:hover { border-color: var(--explore-ink); }
.explore :focus-visible { outline: 3px solid var(--explore-blue); outline-offset: 1px; }
.explore label { display: inline-flex; gap: 6px; align-items: center; margin: 0; cursor: pointer; }
.explore input { accent-color: var(--explore-blue); margin: 0; }
.explore .explore-slider { flex: 1 1 200px; }
.explore .explore-slider input { flex: 1; min-width: 60px; height: 24px; }
.explore .explore-slider output { min-width: 4.6em; font-variant-numeric: tabular-nums; }
.explore svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; }
.explore svg text { fill: var(--explore-ink); }
`;
