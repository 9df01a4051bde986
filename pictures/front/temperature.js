// Notebook 02: a query among values that are keys, too; under another temperature the mixture moves along its path.
import { button, frame, html, percent, slider, svg } from "./kit.js";
import { asking, attend, fits, MIXTURE_CSS, mixing, onPlane, reachOf, shares } from "./mixture.js";

const HOTTEST = 100;
const COLDEST = 0.05;

// The points of a plane that a rubber band around all of them touches, in order (gift wrapping, Jarvis 1973).
export function band(points) {
  const around = [points.reduce((a, b) => (b[0] < a[0] || (b[0] === a[0] && b[1] < a[1]) ? b : a))];
  for (;;) {
    const [x, y] = around.at(-1);
    const left = ([a, b], [c, d]) => (a - x) * (d - y) - (b - y) * (c - x);
    const next = points.filter((point) => point !== around.at(-1)).reduce((a, b) => (left(a, b) < 0 ? b : a));
    if (next === around[0] || around.length > points.length) return around;
    around.push(next);
  }
}

// data: names of the values, values as points of a plane, query: where it starts
export function mount(element, data) {
  const { names, values } = data;
  const start = { query: data.query, temperature: 1 };
  const reach = reachOf(values);
  const state = { ...start, reach, change };
  const path = svg("polyline", { class: "explore-path" });
  const mixed = mixing({ values, says: names, spread: reach, room: 26 }, path); // room for the dot of a large weight
  // Wherever the mixture goes, it stays among its values: in the area that a rubber band around them would enclose.
  const places = values.map((value) => onPlane(value, reach));
  const area = svg("polygon", { class: "explore-area", points: band(places).join(" ") });
  const asked = asking(state, [area, ...mixed.nodes], mixed.words);
  const table = shares(names);
  const caption = html("div", { class: "explore-caption" }, "the query, the mixture, and its path from hot to cold");
  const { say, remove } = frame(
    element,
    {
      name: "temperature",
      css: CSS,
      invitation: "Turn the temperature, or drag the query: where does the mixture go?",
    },
    html("div", { class: "explore-parts" }, html("div", { class: "explore-side" }, asked.node, caption), table.node),
    html("div", { class: "explore-tools" }, ...tools(start, change)),
  );

  function change(to) {
    Object.assign(state, to);
    show();
  }
  const answer = (temperature) => attend(state.query, values, values, false, temperature);
  function show() {
    const now = answer(state.temperature);
    const along = Array.from({ length: 81 }, (_, i) => HOTTEST * (COLDEST / HOTTEST) ** (i / 80));
    path.setAttribute("points", along.map((t) => onPlane(answer(t).mixture, reach)).join(" "));
    for (const { render } of [mixed, asked, table]) render(now);
    mixed.nameMixture([asked.tip]);
    say(sentence(names, now));
  }
  show();
  return remove;
}

// Evenly along the slider, temperatures grow by the same factor; cold is at the left.
function tools(start, change) {
  const [dial, putDial] = slider("temperature", {
    min: Math.log(COLDEST),
    max: Math.log(HOTTEST),
    step: 0.05,
    value: Math.log(start.temperature),
    write: (x) => Math.exp(x).toFixed(x < 2.3 ? 2 : 0),
    set: (x) => change({ temperature: Math.exp(x) }),
  });
  const again = () => {
    putDial(Math.log(start.temperature));
    change(start);
  };
  return [dial, button("start again", again)];
}

function sentence(names, { weights, best }) {
  const who = `*${names[best]}*`;
  const share = percent(weights[best]);
  return {
    nobody: `For this temperature the scores hardly differ: ${who} fits best and gets ${share} of the weight, and the mixture is close to the plain average.`,
    one: `So cold that ${who} takes ${share} of the weight: the mixture lies on ${who}, and the others hardly count.`,
    somebody: `${who} has the highest score and gets ${share} of the weight. It pulls the mixture its way, and the others pull back.`,
  }[fits(weights[best], names.length)];
}

const CSS = `${MIXTURE_CSS}
.explore-side { flex-basis: 300px; max-width: 460px; }
.explore-handle { fill-opacity: 0.25; }
@container (max-width: 400px) { svg { font-size: 16px; } }
.explore-area { fill: var(--explore-blue); opacity: 0.1; }
.explore-path { fill: none; stroke: var(--explore-red); stroke-width: 2; stroke-dasharray: 5 3; }
`;
