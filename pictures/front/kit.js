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

export const button = (text, onclick, more = {}) => html("button", { type: "button", onclick, ...more }, text);

// An instruction for a mouse, in the words for a finger where there is no mouse.
export function byHand(text, touched = text.replace(/\bpoint at\b|\bclick\b/gi, tapped)) {
  return matchMedia("(hover: none)").matches ? touched : text;
}
const tapped = (word) => (/^[A-Z]/.test(word) ? "Tap" : "tap");

// A frame inside `element`: what to do, then `children`, then a line that says what is seen. `say(text)` writes it,
// with *emphasis*, and only when it has changed: screen readers read every change. With `waits`, what answers is hidden
// (by the explorer's own rules for .explore-waiting) until somebody takes hold of it.
export function frame(element, { name, invitation: asks, css, waits }, ...children) {
  const invitation = byHand(asks);
  const line = html("p", { class: "explore-line", "aria-live": "polite" });
  const title = html("p", { class: "explore-invitation" }, invitation);
  const attributes = { class: `explore explore-${name}`, role: "group", "aria-label": invitation };
  // Inside both classes its own rules win over those of all explorers, also over a LOOK that comes later on the page.
  const look = html("style", {}, `${LOOK}.explore.explore-${name} {${css}}`);
  const root = html("div", attributes, look, title, ...children, line);
  element.append(root);
  if (waits) wait(root);
  let said = "";
  const say = (text) => {
    if (text === said) return;
    said = text;
    line.replaceChildren(...text.split("*").map((part, i) => (i % 2 ? html("strong", {}, part) : part)));
  };
  return { root, say, remove: () => root.remove() };
}

function wait(root) {
  root.classList.add("explore-waiting");
  const touched = ({ type, key, target }) => {
    if (key === "Tab" || (type === "pointerdown" && target.closest(".explore-line, .explore-invitation"))) return;
    root.classList.remove("explore-waiting");
    for (const kind of ["pointerdown", "keydown"]) root.removeEventListener(kind, touched, true);
  };
  for (const kind of ["pointerdown", "keydown"]) root.addEventListener(kind, touched, true);
}

// A labelled slider; `write(value)` is what stands behind it. Returns [the label's element, value => set it].
export function slider(label, { min, max, step, value, write, set }) {
  const output = html("output", {}, write(value));
  const show = () => {
    output.textContent = write(+input.value);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const moved = () => {
    show();
    set(+input.value);
  };
  const input = html("input", { type: "range", min, max, step, value, oninput: moved });
  input.setAttribute("aria-valuetext", write(value));
  const put = (number) => {
    input.value = number;
    show();
  };
  return [html("label", { class: "explore-slider" }, html("span", {}, label), input, output), put];
}

// A square plane, `size` units wide, for points up to `reach` from its middle. Its `tips`, { label, get() -> point,
// set(point) }, are taken hold of by pointer, where the nearest one comes along, and by keys; a finger must come near
// one, for elsewhere it scrolls. `show` puts them in place.
const GRIP = 34; // how near a finger must come to a tip, in units

export function plane({ size, reach, view, tips }, ...children) {
  const place = ([x, y]) => [((1 + x / reach) * size) / 2, ((1 - y / reach) * size) / 2];
  const handles = tips.map((tip) =>
    svg("circle", {
      r: tip.r ?? 13,
      class: "explore-handle",
      tabindex: 0,
      role: "slider",
      "aria-label": `${tip.label}: left and right turn it, up and down change its length`,
      "aria-valuemin": -180,
      "aria-valuemax": 180,
      onkeydown: (event) => turn(event, tip),
    }),
  );
  const attributes = {
    viewBox: view,
    class: "explore-plane",
    onpointerdown: take,
    onpointermove: drag,
    onmousedown: (event) => event.preventDefault(), // or the handle would lose the focus
  };
  const grips = tips.map(() => svg("circle", { r: GRIP, class: "explore-grip" }));
  const root = svg("svg", attributes, ...children, ...grips, ...handles);
  let held = 0;

  function point(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
    return [((2 * at.x) / size - 1) * reach, (1 - (2 * at.y) / size) * reach];
  }
  function take(event) {
    const [x, y] = point(event);
    const far = tips.map((tip) => Math.hypot(tip.get()[0] - x, tip.get()[1] - y));
    const nearest = Math.min(...far);
    if (event.pointerType === "touch" && (nearest * size) / (2 * reach) > GRIP) return;
    held = far.indexOf(nearest);
    root.setPointerCapture(event.pointerId);
    handles[held].focus({ preventScroll: true });
    drag(event);
  }
  function drag(event) {
    if (root.hasPointerCapture(event.pointerId)) move(tips[held], point(event));
  }
  function turn(event, tip) {
    const turns = { ArrowLeft: [5, 1], ArrowRight: [-5, 1], ArrowUp: [0, 1.1], ArrowDown: [0, 1 / 1.1] };
    const [by, times] = turns[event.key] ?? [];
    if (times === undefined) return;
    event.preventDefault();
    const [x, y] = tip.get();
    const angle = Math.atan2(y, x) + (by * Math.PI) / 180;
    const far = Math.max(0.05 * reach, Math.hypot(x, y) * times);
    move(tip, [far * Math.cos(angle), far * Math.sin(angle)]);
  }
  function move(tip, to) {
    const tooFar = Math.max(1, Math.hypot(...to) / (0.95 * reach)); // it must stay where it can be taken hold of
    tip.set(to.map((x) => x / tooFar));
  }
  function show() {
    tips.forEach((tip, i) => {
      const [x, y] = tip.get();
      const [cx, cy] = place([x, y]);
      const angle = Math.round((Math.atan2(y, x) * 180) / Math.PI);
      const text = `${angle} degrees, length ${Math.hypot(x, y).toFixed(1)}`;
      const attributes = { cx, cy, "aria-valuenow": angle, "aria-valuetext": text };
      for (const [name, value] of Object.entries(attributes)) handles[i].setAttribute(name, value);
      grips[i].setAttribute("cx", cx);
      grips[i].setAttribute("cy", cy);
    });
  }
  return { root, place, show };
}

// Puts a text at the first of `places` where it touches none of the `others`, or where it touches them least; and in any
// case where all of it can be seen.
export function putApart(text, places, others) {
  const view = text.ownerSVGElement.viewBox.baseVal;
  const common = (a, b) => {
    const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
    const tall = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
    return Math.max(0, wide) * Math.max(0, tall);
  };
  const move = ([x, y]) => {
    text.setAttribute("x", x);
    text.setAttribute("y", y);
  };
  const tries = places.map(([x, y]) => {
    move([x, y]);
    const box = text.getBBox();
    const right = Math.max(0, view.x + 2 - box.x) - Math.max(0, box.x + box.width - view.x - view.width + 2);
    const down = Math.max(0, view.y + 2 - box.y) - Math.max(0, box.y + box.height - view.y - view.height + 2);
    move([x + right, y + down]);
    const shown = text.getBBox();
    return { at: [x + right, y + down], touched: sum(others.map((other) => common(shown, other.getBBox()))) };
  });
  move(tries.reduce((best, one) => (one.touched < best.touched ? one : best)).at);
}

export const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// A number with a true minus and no -0. Two that differ in the last bit look alike: 0.125 is not 0.13 here and 0.12 there.
export const decimal = (x, digits = 2) => {
  const rounded = (+x.toFixed(9)).toFixed(digits);
  return rounded.replace(/^-(?=[0.]*$)/, "").replace("-", "−");
};

export const listed = (parts) =>
  parts.length > 2 ? `${parts.slice(0, -1).join(", ")}, and ${parts.at(-1)}` : parts.join(" and ");

// How to call word t: a comma alone would look like ours, and of two that are alike, one must know which.
export const named = (words) => (t) => {
  const name = /^[\p{L}\p{N}…]+$/u.test(words[t]) ? `*${words[t]}*` : `“*${words[t].replaceAll("*", "∗")}*”`;
  const kind = words.every((word) => [...word].length === 1) ? "place" : "word";
  return words.indexOf(words[t]) === words.lastIndexOf(words[t]) ? name : `${name} (${kind} ${t + 1})`;
};

// Where an arrow key goes: [rows down, columns to the right]; nowhere for other keys.
export const arrow = ({ key }) => {
  const ways = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  return ways[key] ?? [];
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
.explore.explore-waiting .explore-line { visibility: hidden; height: 0; min-height: 0; margin: 0; }
/* Under a drawing that is higher than a phone, what answers stays in sight. */
@container (max-width: 520px) {
  .explore-board ~ .explore-line {
    position: sticky; bottom: 0; z-index: 1; padding: 6px 0; background: var(--explore-paper);
    border-top: 1px solid var(--explore-line);
  }
}
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
.explore .explore-plane { touch-action: pan-y pinch-zoom; cursor: grab; user-select: none; }
.explore .explore-grip { fill: transparent; }
.explore :is(.explore-grip, .explore-handle) { touch-action: none; }
@media (pointer: coarse) { .explore button { min-height: 40px; } }
.explore .explore-plane:active { cursor: grabbing; }
.explore .explore-handle { fill: var(--explore-ink); stroke: var(--explore-paper); stroke-width: 3; }
.explore .explore-shaft { stroke: var(--explore-ink); stroke-width: 5; stroke-linecap: round; }
.explore .explore-tip { font-weight: 700; paint-order: stroke; stroke: var(--explore-paper); stroke-width: 4px; }
.explore .explore-row { display: grid; gap: 8px; align-items: center; line-height: 24px; font-variant-numeric: tabular-nums; }
.explore .explore-track { position: relative; height: 12px; background: var(--explore-faint); border-radius: 3px; overflow: hidden; }
.explore .explore-best { font-weight: 700; }
`;
