// Today's models: rotary positions as clock faces. A query's hands and a key's turn with their places, and make a score.
import { decimal, frame, html, listed, slider, sum, svg } from "./kit.js";

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
  const longest = Math.max(...[query, key].flatMap((x) => hands(x, 0, base)).map(([a, b]) => Math.hypot(a, b))) || 1;
  let [m, n] = places;

  // The rim of a face is 100 from its middle; on paper, up is less.
  const point = (line, hand) => {
    line.setAttribute("x2", (94 * hand[0]) / longest);
    line.setAttribute("y2", (-94 * hand[1]) / longest);
  };
  const drawn = (name) => svg("line", { class: `explore-hand explore-${name}` });
  const faces = turns.map((turn, i) => {
    const before = [drawn("query explore-before"), drawn("key explore-before")];
    const asked = drawn("query");
    const offered = drawn("key");
    [query, key].forEach((x, who) => {
      point(before[who], hands(x, places[who], base)[i]);
    });
    const sector = svg("path", { class: "explore-between" });
    const between = html("div");
    const adds = html("div", { class: "explore-best" });
    const face = svg("circle", { r: 100, class: "explore-face" });
    const pin = svg("circle", { r: 4, class: "explore-pin" });
    const parts = [face, sector, ...before, asked, offered, pin];
    const board = svg("svg", { viewBox: "-102 -102 204 204", role: "img" }, ...parts);
    const step = `${degrees(turn) < 0.001 ? "<0.001" : degrees(turn).toPrecision(2)}°`;
    const pace = degrees(LAST * turn) < 5 ? `hardly moves: ${step}` : `${step} a place`;
    const caption = html("div", { class: "explore-caption" }, pace);
    const root = html("div", {}, board, `${ORDER[i]} hand`, caption, between, adds);
    return { root, board, asked, offered, sector, between, adds };
  });

  const alone = (text, value, set) =>
    slider(text, {
      min: 0,
      max: LAST,
      step: 1,
      value,
      write: String,
      set: (to) => {
        set(to);
        show(oneMoved);
      },
    });
  const [asks, putQuery] = alone("the query's place", m, (place) => {
    m = place;
  });
  const [offers, putKey] = alone("the key's place", n, (place) => {
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
  const button = (text, onclick) => html("button", { type: "button", onclick }, text);
  const sample = (name) => {
    const hand = svg("line", { class: `explore-hand explore-${name}`, x1: 4, x2: 30, y1: 4, y2: 4 });
    const drawing = svg("svg", { viewBox: "0 0 34 8" }, hand);
    return html("span", { class: "explore-sample" }, drawing, `the ${name}'s hand`);
  };
  const pale = "pale: where they stood at first · they turn against the clock, as angles are counted";
  const boards = faces.map(({ root }) => root);
  const { say, remove } = frame(
    element,
    { name: "clock", css: CSS, invitation: "Move both on, then only one of them: when does the score change?" },
    html("div", { class: "explore-caption explore-legend" }, sample("query"), sample("key"), html("span", {}, pale)),
    html("div", { class: "explore-faces", style: `--explore-hands: ${faces.length}` }, ...boards),
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

  // ------------------------------------------------------------ what it says
  const apart = () => `${COUNTED[Math.abs(m - n)] ?? Math.abs(m - n)} ${Math.abs(m - n) === 1 ? "place" : "places"}`;
  function opened({ score, parts }) {
    const from = parts.map((part, i) => `${decimal(part)} from the ${ORDER[i]}${i ? "" : " hand"}`);
    const made = parts.length > 1 ? `: ${listed(from)}` : "";
    return `The query stands at ${m}, the key at ${n}: ${apart()} apart. The score is *${decimal(score)}*${made}.`;
  }
  function bothMoved({ score }, by, step) {
    const end = `the sliders end at place ${LAST}`;
    const where = faces.length > 1 ? "on each face the angle" : "the angle";
    if (!by) return `Neither has moved, for ${end}. The score is still *${decimal(score)}*.`;
    return (
      `Both have turned, to the places ${m} and ${n}, and ${where} between them is what it was: ` +
      `the score is still *${decimal(score)}*.${by < step ? ` (Only ${COUNTED[by]} on: ${end}.)` : ""}`
    );
  }
  function oneMoved({ score, parts }) {
    const here = `*${decimal(score)}*`;
    const further = Math.abs(m - n - (places[0] - places[1])); // than at the start
    if (!further) {
      return `Again they are ${apart()} apart, as at the start, and again the score is ${here}: only the distance counts.`;
    }
    const now =
      n > m
        ? `Now the key stands ${apart()} ahead (in a GPT, the mask would hide it), and the score is ${here}.`
        : n < m
          ? `Now they are ${apart()} apart, and the score is ${here}.`
          : `Now both stand at ${m}, turned by the same angles: the score is that of the two unturned, ${here}.`;
    const changes = parts.map((part, i) => Math.abs(part - start.parts[i]));
    const most = changes.indexOf(Math.max(...changes));
    const slow = turns.flatMap((turn, i) => (degrees(further * turn) < 1 ? [`the ${ORDER[i]}`] : []));
    const said = [`${now} At the start it was ${decimal(start.score)}.`];
    const [was, is] = [start.parts[most], parts[most]].map((part) => decimal(part));
    if (faces.length > 1 && was !== is) {
      said.push(`The ${ORDER[most]} hand's part has changed most, from ${was} to ${is}.`);
    }
    if (slow.length) said.push(`On ${listed(slow)} face the angle has hardly changed.`);
    return said.join(" ");
  }

  function show(said) {
    const now = clock(query, key, m, n, base);
    const asked = hands(query, m, base);
    const offered = hands(key, n, base);
    faces.forEach((face, i) => {
      const from = Math.atan2(offered[i][1], offered[i][0]);
      const angle = now.angles[i];
      const far = `${Math.round(Math.abs(degrees(angle)))}°`;
      const rim = (at) => `${26 * Math.cos(at)} ${-26 * Math.sin(at)}`;
      point(face.asked, asked[i]);
      point(face.offered, offered[i]);
      face.sector.setAttribute("d", `M0 0L${rim(from)}A26 26 0 0 ${angle > 0 ? 0 : 1} ${rim(from + angle)}Z`);
      face.between.textContent = `${far} between`;
      face.adds.textContent = `adds ${decimal(now.parts[i])}`;
      face.board.setAttribute("aria-label", `a clock face: ${far} between the query's hand and the key's`);
    });
    say(said(now));
  }
  show(opened);
  return remove;
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
