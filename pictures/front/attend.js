// Notebook 03: a query among keys; scores, weights and the mixture of the values move with it.
import { button, frame, html, percent, svg } from "./kit.js";
import {
  asking,
  attend,
  beside,
  fits,
  keepingApart,
  line,
  MIXTURE_CSS,
  mixing,
  onPlane,
  reachOf,
  shares,
  VIEW,
} from "./mixture.js";

// data: names of the keys, keys and values as points of a plane, says: what each value stands for, query: where it
// starts, asks: {label: query} for the buttons
export function mount(element, data) {
  const [reach, spread] = [data.keys, data.values].map(reachOf);
  const state = { ...data, divided: true, reach, spread, room: 19, change };
  const keys = keyArrows(state);
  const values = mixing(state);
  const asked = asking(state, keys.nodes, keys.names);
  const table = shares(data.names);
  const side = (inside, text) =>
    html("div", { class: "explore-side" }, inside, html("div", { class: "explore-caption" }, text));
  const mixture = { viewBox: VIEW, role: "img", "aria-label": "the values, and their mixture" };
  const { say, remove } = frame(
    element,
    { name: "attend", css: CSS, invitation: "Drag the thick arrow, the query: who answers?" },
    html(
      "div",
      { class: "explore-parts" },
      side(asked.node, "the query among the keys"),
      table.node,
      side(svg("svg", mixture, ...values.nodes), "the values, and their mixture"),
    ),
    html("div", { class: "explore-tools" }, ...tools(state)),
  );

  function change(to) {
    Object.assign(state, to);
    show();
  }
  function show() {
    const answer = attend(state.query, state.keys, state.values, state.divided);
    for (const { render } of [keys, values, asked, table]) render(answer);
    values.nameMixture();
    say(sentence(state, answer));
  }
  show();
  return remove;
}

// The keys and their names: the more weight, the thicker.
function keyArrows({ names, keys, reach, room }) {
  const arrows = keys.map((key) => line("explore-key", onPlane(key, reach)));
  const tags = keys.map((key, i) => beside(names[i], key, reach, room));
  const apart = keepingApart(tags);
  const render = ({ weights }) => {
    weights.forEach((weight, i) => {
      arrows[i].style.strokeWidth = 1.5 + 8 * weight;
    });
    apart();
  };
  return { nodes: [...arrows, ...tags], names: tags, render };
}

function tools({ asks, query, change }) {
  const buttons = Object.entries(asks).map(([text, at]) => button(text, () => change({ query: at })));
  const root = html("input", { type: "checkbox", checked: "", onchange: () => change({ divided: root.checked }) });
  return [...buttons, html("label", {}, root, `divide scores by √${query.length}`)];
}

function sentence({ names, says }, { weights, best }) {
  const who = `*${names[best]}*`;
  const what = `*${says[best]}*`;
  const share = percent(weights[best]);
  return {
    nobody:
      "Nobody fits much better than the others: all have nearly equal weights, and the mixture lies in the middle and says little.",
    one: `${who} has the highest score and takes ${share} of the weight: what comes out is ${what}, and hardly anything else. A longer query is a surer one.`,
    somebody: `${who} has the highest score and gets ${share} of the weight. The mixture moves towards ${what}, and the others pull at it.`,
  }[fits(weights[best], names.length)];
}

const CSS = `${MIXTURE_CSS}
@container (min-width: 480px) { svg { font-size: 19px; } }
.explore-key { stroke: var(--explore-blue); stroke-linecap: round; }
`;
