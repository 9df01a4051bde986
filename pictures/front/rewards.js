// Reward: what a GPT gains with its judge, and what it loses of its text, round by round, under a brake that is chosen.
import { decimal, frame, html, percent, slider, svg } from "./kit.js";

const [WIDE, HIGH] = [560, 300];
const EDGE = { left: 52, right: 24, top: 36, bottom: 48 };

// The least and the largest number, and a tenth of their distance beside them.
export function around(numbers) {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const room = (most - least) / 10;
  return [least - room, most + room];
}

// data: trails, each with name, found (R) and losses (R), before the first round and after each, and wrote: a text
export function mount(element, data) {
  const { trails } = data;
  const x = scale(around(trails.flatMap(({ found }) => found)), EDGE.left, WIDE - EDGE.right);
  const y = scale(around(trails.flatMap(({ losses }) => losses)), HIGH - EDGE.bottom, EDGE.top);
  const places = trails.map(({ found, losses }) => found.map((share, i) => [x(share), y(losses[i])]));
  const drawn = places.map((points) =>
    svg(
      "g",
      {},
      svg("polyline", { points: points.join(" ") }),
      ...points.map(([cx, cy]) => svg("circle", { cx, cy, r: 5 })),
    ),
  );
  const label = (text, attributes) => svg("text", attributes, text);
  const plane = svg(
    "svg",
    { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" },
    svg("path", { class: "explore-axes", d: `M${EDGE.left} ${EDGE.top}V${HIGH - EDGE.bottom}H${WIDE - EDGE.right}` }),
    label("words found in the book →", { x: WIDE - EDGE.right, y: HIGH - 8, "text-anchor": "end" }),
    label("↑ loss on Shakespeare", { x: 8, y: 20 }),
    ...ticks(trails[0], x, y),
    ...drawn,
  );
  const wrote = html("p", { class: "explore-wrote" });
  const along = {
    min: 0,
    max: trails.length - 1,
    step: 1,
    value: 0,
    write: (i) => trails[i].name,
    set: show,
  };
  const { say, remove } = frame(
    element,
    { name: "rewards", css: CSS, invitation: "Choose what holds it back: where do the rounds lead now?" },
    html("div", { class: "explore-tools" }, slider("held by", along)[0]),
    plane,
    html("div", { class: "explore-caption" }, "after the last round it goes on like this:"),
    wrote,
  );

  function show(i) {
    const { name, found, losses } = trails[i];
    drawn.forEach((trail, k) => {
      trail.setAttribute("class", k === i ? "explore-lit" : "");
    });
    plane.append(drawn[i]);
    wrote.textContent = trails[i].wrote;
    const from = `words found from ${percent(found[0])} to *${percent(found.at(-1))}*`;
    const to = `the loss from ${decimal(losses[0])} to *${decimal(losses.at(-1))}*`;
    say(`Held by ${name}: ${from}, ${to}.`);
  }
  show(0);
  return remove;
}

const scale =
  ([from, to], start, end) =>
  (value) =>
    start + ((value - from) / (to - from)) * (end - start);

// Where the network began, and where the first trail ends, in numbers on both axes.
function ticks({ found, losses }, x, y) {
  const ends = (numbers) => [numbers[0], numbers.at(-1)];
  return [
    ...ends(found).map((share) =>
      svg("text", { x: x(share), y: HIGH - EDGE.bottom + 16, "text-anchor": "middle" }, percent(share)),
    ),
    ...ends(losses).map((loss) =>
      svg("text", { x: EDGE.left - 6, y: y(loss) + 4, "text-anchor": "end" }, decimal(loss)),
    ),
  ];
}

const CSS = `
svg { max-width: ${WIDE}px; margin-top: 8px; }
.explore-axes { fill: none; stroke: var(--explore-line); }
polyline { fill: none; stroke: var(--explore-line); stroke-width: 2; }
circle { fill: var(--explore-line); }
.explore-lit polyline { stroke: var(--explore-blue); stroke-width: 3; }
.explore-lit circle { fill: var(--explore-blue); }
.explore-wrote { font: 15px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; min-height: 4.5em; }
@container (max-width: 420px) { svg { font-size: 18px; } }
`;
