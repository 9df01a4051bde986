// Today's models: rotary positions as clock faces. A query's hands and a key's turn with their places, and make a score.
import { button, decimal, frame, html, listed, slider, sum, svg } from "./kit.js";

const LAST = 40; // the furthest place
const COUNTED = "no one two three four five six seven eight nine ten eleven twelve".split(" ");
const ORDER = ["first", "second", "third", "fourth"];

// As in helpers/modern.py: numbers i and i + D/2 are a pair, which turns by base ** (-2i / D) radians at each place.
const speeds = (D, base) => Array.from({ length: D / 2 }, (_, i) => base ** ((-2 * i) / D));

// x (D) -> its hands (D/2, 2), turned to their place
export function hands(x, place, base = 10_000) {
  return speeds(x.length, base).map((speed, i) => {
    const [a, b] = [x[i], x[i + x.length / 2]];
    const cos = Math.cos(place * speed);
    const sin = Math.sin(place * speed);
    return [a * cos - b * sin, b * cos + a * sin];
  });
}

// query (D) at place m, key (D) at place n -> what each pair of hands adds to the score (D/2), and the angle from the
// key's hand to the query's (D/2), in radians
export function clock(query, key, m, n, base = 10_000) {
  const asks = hands(query, m, base);
  const offers = hands(key, n, base);
  const parts = asks.map(([a, b], i) => a * offers[i][0] + b * offers[i][1]);
  const angles = asks.map(([a, b], i) => Math.atan2(b * offers[i][0] - a * offers[i][1], parts[i]));
  return { score: sum(parts), parts, angles };
}

const degrees = (radians) => (180 / Math.PI) * radians;

// data: query and key (D), base, places: where the two stand at first
export function mount(element, data) {
  const { query, key, base, places } = data;
  const turns = speeds(query.length, base);
  const start = clock(query, key, ...places, base);
  const faces = facesOf(data, turns);
  let [m, n] = places;

  const dial = (text, value, set) =>
    slider(text, {
      min: 0,
      max: LAST,
      step: 1,
      value,
      write: String,
      set: (to) => {
        set(to);
        show((now) => oneMoved(now, start, turns, m - n - (places[0] - places[1])));
      },
    });
  const [asks, putQuery] = dial("the query's place", m, (place) => {
    m = place;
  });
  const [offers, putKey] = dial("the key's place", n, (place) => {
    n = place;
  });
  const put = (to) => {
    [m, n] = to;
    putQuery(m);
    putKey(n);
  };
  // Both equally far, even where one of them meets the end of its slider.
  function on(step) {
    const by = Math.min(step, LAST - Math.max(m, n));
    put([m + by, n + by]);
    show((now) => bothMoved(now, by, step));
  }
  const { say, remove } = frame(
    element,
    { name: "clock", css: CSS, invitation: "Move both on, then only one of them: when does the score change?" },
    legend(),
    html("div", { class: "explore-faces", style: `--explore-hands: ${turns.length}` }, ...faces.nodes),
    html("div", { class: "explore-tools" }, asks, offers),
    html(
      "div",
      { class: "explore-tools" },
      button("both one place on", () => on(1)),
      button("both ten places on", () => on(10)),
      button("start again", () => {
        put(places);
        show(opened);
      }),
    ),
  );

  function show(sentence) {
    const now = { m, n, ...clock(query, key, m, n, base) };
    faces.render(now);
    say(sentence(now));
  }
  show(opened);
  return remove;
}

// ---------------------------------------------------------------- what is drawn
const drawn = (name, at = {}) => svg("line", { class: `explore-hand explore-${name}`, ...at });

function legend() {
  const sample = (name) => {
    const drawing = svg("svg", { viewBox: "0 0 34 8" }, drawn(name, { x1: 4, x2: 30, y1: 4, y2: 4 }));
    return html("span", { class: "explore-sample" }, drawing, `the ${name}'s hand`);
  };
  const pale = "pale: where they stood at first · they turn against the clock, as angles are counted";
  const attributes = { class: "explore-caption explore-legend" };
  return html("div", attributes, sample("query"), sample("key"), html("span", {}, pale));
}

// A clock face for each pair of hands, with the angle between them and what they add to the score.
function facesOf({ query, key, base, places }, turns) {
  const longest = Math.max(...[query, key].flatMap((x) => hands(x, 0, base)).map(([a, b]) => Math.hypot(a, b))) || 1;
  // The rim of a face is 100 from its middle; on paper, up is less.
  const point = (line, hand) => {
    line.setAttribute("x2", (94 * hand[0]) / longest);
    line.setAttribute("y2", (-94 * hand[1]) / longest);
  };
  const faces = turns.map((turn, i) => {
    const before = [drawn("query explore-before"), drawn("key explore-before")];
    [query, key].forEach((x, who) => {
      point(before[who], hands(x, places[who], base)[i]);
    });
    const [queryHand, keyHand] = [drawn("query"), drawn("key")];
    const sector = svg("path", { class: "explore-between" });
    const face = svg("circle", { r: 100, class: "explore-face" });
    const pin = svg("circle", { r: 4, class: "explore-pin" });
    const parts = [face, sector, ...before, queryHand, keyHand, pin];
    const board = svg("svg", { viewBox: "-102 -102 204 204", role: "img" }, ...parts);
    const step = `${degrees(turn) < 0.001 ? "<0.001" : degrees(turn).toPrecision(2)}°`;
    const pace = degrees(LAST * turn) < 5 ? `hardly moves: ${step}` : `${step} a place`;
    const caption = html("div", { class: "explore-caption" }, pace);
    const [between, adds] = [html("div"), html("div", { class: "explore-best" })];
    const node = html("div", {}, board, `${ORDER[i]} hand`, caption, between, adds);
    return { node, board, queryHand, keyHand, sector, between, adds };
  });
  const render = ({ m, n, parts, angles }) => {
    const [queryHands, keyHands] = [hands(query, m, base), hands(key, n, base)];
    faces.forEach((face, i) => {
      const from = Math.atan2(keyHands[i][1], keyHands[i][0]);
      const far = `${Math.round(Math.abs(degrees(angles[i])))}°`;
      const rim = (at) => `${26 * Math.cos(at)} ${-26 * Math.sin(at)}`;
      point(face.queryHand, queryHands[i]);
      point(face.keyHand, keyHands[i]);
      face.sector.setAttribute("d", `M0 0L${rim(from)}A26 26 0 0 ${angles[i] > 0 ? 0 : 1} ${rim(from + angles[i])}Z`);
      face.between.textContent = `${far} between`;
      face.adds.textContent = `adds ${decimal(parts[i])}`;
      face.board.setAttribute("aria-label", `a clock face: ${far} between the query's hand and the key's`);
    });
  };
  return { nodes: faces.map(({ node }) => node), render };
}

// ---------------------------------------------------------------- what it says
const apart = ({ m, n }) =>
  `${COUNTED[Math.abs(m - n)] ?? Math.abs(m - n)} ${Math.abs(m - n) === 1 ? "place" : "places"}`;

function opened(now) {
  const { m, n, score, parts } = now;
  const from = parts.map((part, i) => `${decimal(part)} from the ${ORDER[i]}${i ? "" : " hand"}`);
  const made = parts.length > 1 ? `: ${listed(from)}` : "";
  return `The query stands at ${m}, the key at ${n}: ${apart(now)} apart. The score is *${decimal(score)}*${made}.`;
}

function bothMoved({ m, n, score, parts }, by, step) {
  const end = `the sliders end at place ${LAST}`;
  const where = parts.length > 1 ? "on each face the angle" : "the angle";
  if (!by) return `Neither has moved, for ${end}. The score is still *${decimal(score)}*.`;
  return (
    `Both have turned, to the places ${m} and ${n}, and ${where} between them is what it was: ` +
    `the score is still *${decimal(score)}*.${by < step ? ` (Only ${COUNTED[by]} on: ${end}.)` : ""}`
  );
}

// `further` than at the `start`, by so many places
function oneMoved(now, start, turns, further) {
  const { m, n, score, parts } = now;
  const here = `*${decimal(score)}*`;
  if (!further) {
    return `Again they are ${apart(now)} apart, as at the start, and again the score is ${here}: only the distance counts.`;
  }
  const is =
    n > m
      ? `Now the key stands ${apart(now)} ahead (in a GPT, the mask would hide it), and the score is ${here}.`
      : n < m
        ? `Now they are ${apart(now)} apart, and the score is ${here}.`
        : `Now both stand at ${m}, turned by the same angles: the score is that of the two unturned, ${here}.`;
  const changes = parts.map((part, i) => Math.abs(part - start.parts[i]));
  const most = changes.indexOf(Math.max(...changes));
  const slow = turns.flatMap((turn, i) => (degrees(Math.abs(further) * turn) < 1 ? [`the ${ORDER[i]}`] : []));
  const sentences = [`${is} At the start it was ${decimal(start.score)}.`];
  const [before, after] = [start.parts[most], parts[most]].map((part) => decimal(part));
  if (parts.length > 1 && before !== after) {
    sentences.push(`The ${ORDER[most]} hand's part has changed most, from ${before} to ${after}.`);
  }
  if (slow.length) sentences.push(`On ${listed(slow)} face the angle has hardly changed.`);
  return sentences.join(" ");
}

const CSS = `
.explore-legend { display: flex; flex-wrap: wrap; gap: 2px 16px; margin-bottom: 8px; }
.explore-sample { display: inline-flex; align-items: center; gap: 6px; }
.explore-sample svg { width: 34px; }
.explore-faces {
  display: grid; grid-template-columns: repeat(var(--explore-hands), minmax(0, 240px)); gap: 12px 20px; place-content: center; text-align: center;
}
.explore-faces svg { margin-bottom: 4px; }
.explore-face { fill: none; stroke: var(--explore-line); stroke-width: 1.5; }
.explore-pin { fill: var(--explore-ink); }
.explore-between { fill: var(--explore-green); fill-opacity: 0.3; stroke: var(--explore-green); stroke-width: 1.5; }
.explore-hand { stroke-linecap: round; }
.explore-query { stroke: var(--explore-blue); stroke-width: 6; }
.explore-key { stroke: var(--explore-red); stroke-width: 3.5; stroke-dasharray: 7 6; }
.explore-before { opacity: 0.3; }
.explore-slider { flex-basis: 100%; } /* one below the other: one sees how far apart they stand */
.explore-slider span { min-width: 9em; }
.explore-slider output { min-width: 2em; }
.explore-slider:last-child input { accent-color: var(--explore-red); }
@container (max-width: 480px) { .explore-faces:has(> :nth-child(4)) { grid-template-columns: 1fr 1fr; } }
`;
