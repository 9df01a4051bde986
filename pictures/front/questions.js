// Notebook 06: two questions in one breath. Where do one head or two look, and which word is closest to each answer?
import { button, decimal, frame, html, sum, svg } from "./kit.js";

const ROLES = ["gives", "gets"];
const CLOSE = 0.1; // a lead below this is worth a word
const WHOLE = 22; // pixels of a line with all the weight

// The places of numbers, that of the largest first.
const ranked = (numbers) => numbers.map((_, i) => i).sort((a, b) => numbers[b] - numbers[a]);

// scores (2, N), to the questions what the person gives and gets -> of each, on which card it stands, which of the things
// is right, which is said, which comes next, and by how much that is behind
export function answered({ cards, things }, person, scores) {
  return scores.map((row, q) => {
    const card = cards.findIndex((words) => words[2 * q] === person);
    const right = things.indexOf(cards[card][1]);
    const [said, next] = ranked(row);
    return { card, right, said, next, lead: row[said] - row[next], isRight: said === right };
  });
}

// How many of a network's answers to all people are right.
export const rightOnes = (data, { scores }) =>
  sum(data.people.flatMap((person, a) => answered(data, person, scores[a]).map(({ isRight }) => +isRight)));

// What is seen where person `a` asks a network, with *emphasis* between stars.
export function sentence(data, { weights, scores }, a) {
  const { cards, things } = data;
  const who = data.people[a];
  const answers = answered(data, who, scores[a]);
  const [gives, gets] = answers;
  const role = (card) => ROLES[answers.findIndex((one) => one.card === card)];
  const looks = (shares, card) => {
    const whose = role(card) ? `${who} ${role(card)}` : `${cards[card][0]} gives`;
    return `at the *${cards[card][1]}* (${decimal(shares[card])}), which ${whose}`;
  };
  const tight = gives.lead < gets.lead ? gives : gets;
  const row = scores[a][answers.indexOf(tight)];
  const against = `${decimal(row[tight.said])} against ${decimal(row[tight.next])} for *${things[tight.next]}*`;
  const narrowly = tight.lead < CLOSE ? `, but *${things[tight.said]}* narrowly, with ${against}` : "";
  const swapped = gives.said === gets.right && gets.said === gives.right ? ", for they are swapped" : "";
  const both = (isRight) => (isRight ? `both are right${narrowly}` : `both are wrong${swapped}`);
  const verdict =
    gives.isRight === gets.isRight
      ? both(gives.isRight)
      : `right about what ${who} ${ROLES[+gets.isRight]}, wrong about what ${who} ${ROLES[+gives.isRight]}`;
  const [first, second] = answers.map(({ said }) => `*${things[said]}*`);
  const heads = weights[a];
  const [most, next] = ranked(heads[0]);
  if (heads.length > 1) {
    const [one, two] = heads.map((shares) => looks(shares, ranked(shares)[0]));
    return (
      `*${who}* asks. Head 1 looks most ${one}, and head 2 ${two}. ` +
      `Each makes a mixture of its own, closest to ${first} and to ${second}: ${verdict}.`
    );
  }
  const loud = cards[most][1] === things[gives.said] ? ", the louder of the two" : "";
  const closest =
    first === second
      ? `both halves of what comes out are closest to ${first}${loud}`
      : `what comes out is closest to ${first} in its first half, and to ${second} in its second`;
  return (
    `*${who}* asks. The one head looks most ${looks(heads[0], most)}, and ${looks(heads[0], next)}. ` +
    `It mixes all cards, and ${closest}: ${verdict}.`
  );
}

// data: people (A), cards (A) of three words each, things (N), networks with name, weights (A, H, A) and scores (A, 2, N)
export function mount(element, data) {
  const { people, networks } = data;
  let a = 0;
  let k = 0;
  const asker = choice("who asks", people, (i) => {
    a = i;
    show();
  });
  const names = networks.map(({ name }) => name);
  const answerer = choice("who answers", names, (i) => {
    k = i;
    show();
  });
  const score = caption("");
  answerer.node.append(score);
  const looks = looksOf(data);
  const halves = halvesOf(data);
  const legend =
    "lines: the share that a head gives to a card · bars: the dot product of each thing with the answer, which is one half of what comes out";
  const { say, remove } = frame(
    element,
    {
      name: "questions",
      css: CSS,
      waits: data.waits,
      invitation: "Choose who asks, and let one head answer, or two: which one gets both things right?",
    },
    asker.node,
    answerer.node,
    html("div", { class: "explore-parts" }, looks.node, halves.node),
    caption(legend),
  );

  function show() {
    const network = networks[k];
    const question = { who: people[a], shares: network.weights[a], scores: network.scores[a] };
    const answers = answered(data, question.who, question.scores);
    asker.press(a);
    answerer.press(k);
    score.textContent = `all who ask: ${rightOnes(data, network)} of ${2 * people.length} answers are right`;
    for (const { render } of [looks, halves]) render(question, answers);
    say(sentence(data, network, a));
  }
  show();
  return remove;
}

const caption = (text) => html("span", { class: "explore-caption" }, text);

// A row of buttons, of which one is pressed.
function choice(label, names, set) {
  const buttons = names.map((name, i) => button(name, () => set(i)));
  const press = (chosen) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", i === chosen);
    });
  };
  const attributes = { class: "explore-tools", role: "group", "aria-label": label };
  return { node: html("div", attributes, caption(label), ...buttons), press };
}

// Of H heads each has its colour, and one alone none.
const hue = (h, H) => `explore-hue-${H > 1 ? h + 1 : 0}`;
const headTag = (h, H) => html("span", { class: hue(h, H) }, H > 1 ? `head ${h + 1}` : "one head");

// The cards, and from each head a line to each of them, as thick as its share.
function looksOf({ cards }) {
  const T = cards.length;
  const heads = html("div", { class: "explore-heads" });
  const fan = svg("svg", {
    class: "explore-fan",
    viewBox: `0 0 1 ${T}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  const rows = cards.map(([giver, thing, receiver]) => {
    const shares = html("div", { class: "explore-shares" });
    const mark = html("strong");
    return { shares, mark, card: html("div", {}, `${giver} gives the ${thing} to ${receiver}`, mark) };
  });
  const attributes = { class: "explore-looks", style: `grid-template-rows: repeat(${T}, 1fr)` };
  const node = html("div", attributes, heads, fan, ...rows.flatMap(({ shares, card }) => [shares, card]));

  const render = ({ who, shares }, answers) => {
    const H = shares.length;
    const line = (h, t) => {
      const from = ((h + 0.5) * T) / H;
      const to = t + 0.5;
      const d = `M0 ${from}C0.5 ${from} 0.5 ${to} 1 ${to}`;
      return svg("path", { class: hue(h, H), d, style: `stroke-width: ${WHOLE * shares[h][t]}px` });
    };
    heads.replaceChildren(...shares.map((_, h) => headTag(h, H)));
    fan.replaceChildren(...shares.flatMap((row, h) => row.map((_, t) => line(h, t))));
    rows.forEach((row, t) => {
      const roles = ROLES.filter((_, q) => answers[q].card === t);
      row.card.className = `explore-card ${roles.length ? "explore-asked" : ""}`;
      row.mark.textContent = roles.map((role) => `${who} ${role}`).join(", ");
      row.shares.replaceChildren(...shares.map((all, h) => html("span", { class: hue(h, H) }, decimal(all[t]))));
    });
  };
  return { node, render };
}

// For each of the two questions how close each thing is to the answer, and whether the closest is right.
function halvesOf({ things, networks }) {
  const reach = Math.max(...networks.flatMap(({ scores }) => scores.flat(2)).map(Math.abs));
  const halves = ROLES.map(() => {
    const title = html("div");
    const from = html("div", { class: "explore-caption" });
    const verdict = html("div");
    const bars = things.map((thing) => {
      const bar = html("span", { class: "explore-bar" });
      const number = html("span", { class: "explore-number" });
      const track = html("div", { class: "explore-track" }, bar);
      return { bar, number, row: html("div", {}, html("span", {}, thing), track, number) };
    });
    const node = html("div", { class: "explore-half" }, title, from, ...bars.map(({ row }) => row), verdict);
    return { title, from, verdict, bars, node };
  });
  const render = ({ who, shares, scores }, answers) => {
    halves.forEach(({ title, from, verdict, bars }, q) => {
      const { said, right, isRight } = answers[q];
      const how = isRight ? "explore-right" : "explore-wrong";
      title.replaceChildren("What ", html("strong", {}, who), ` ${ROLES[q]}`);
      from.replaceChildren(`${["first", "second"][q]} half · `, headTag(Math.min(q, shares.length - 1), shares.length));
      bars.forEach(({ bar, number, row }, n) => {
        const close = scores[q][n];
        const long = (50 * Math.abs(close)) / reach;
        row.className = `explore-row ${n === said ? `explore-best ${how}` : ""}`;
        bar.style.cssText = `left: ${close < 0 ? 50 - long : 50}%; width: ${long}%`;
        number.textContent = decimal(close);
      });
      verdict.className = `explore-best ${how}`;
      verdict.textContent = `says ${things[said]}: ${isRight ? "right" : `wrong, it is the ${things[right]}`}`;
    });
  };
  return { node: html("div", { class: "explore-halves" }, ...halves.map(({ node }) => node)), render };
}

const CSS = `
& { --explore-violet: light-dark(#8a3a86, #dc9fd3); }
.explore-tools { gap: 6px; margin: 0 0 8px; }
.explore-tools > :first-child { min-width: 7em; }
[aria-pressed="true"] { border-color: var(--explore-ink); box-shadow: inset 0 0 0 2px var(--explore-ink); } /* bold would move the others */
.explore-hue-0 { --explore-hue: var(--explore-ink); }
.explore-hue-1 { --explore-hue: var(--explore-blue); }
.explore-hue-2 { --explore-hue: var(--explore-violet); }
span[class^="explore-hue"] { color: var(--explore-hue); font-weight: 600; }
.explore-looks { flex: 1.3 1 300px; display: grid; gap: 4px 6px;
  grid-template-columns: max-content minmax(36px, 1fr) max-content minmax(0, max-content); }
.explore-heads, .explore-shares { display: flex; flex-direction: column; justify-content: space-around; }
.explore-heads { grid-row: 1 / -1; }
.explore-fan { grid-row: 1 / -1; grid-column: 2; height: 0; min-height: 100%; }
path { fill: none; stroke: var(--explore-hue); opacity: 0.75; vector-effect: non-scaling-stroke; }
.explore-shares { grid-column: 3; justify-content: center; font-size: 12px; line-height: 16px; font-variant-numeric: tabular-nums; }
.explore-card { grid-column: 4; align-content: center; padding: 3px 8px; min-height: 42px; border-radius: 6px;
  border: 1px solid var(--explore-line); font-size: 13px; line-height: 17px; }
.explore-asked { border-color: var(--explore-ink); background: var(--explore-faint); }
.explore-halves { flex: 1 1 290px; display: flex; gap: 16px; }
.explore-half { flex: 1 1 0; min-width: 0; }
.explore-row { grid-template-columns: 4.2em minmax(0, 1fr) 3.2em; gap: 4px; font-size: 13px; }
.explore-number { text-align: right; }
.explore-track { background: linear-gradient(to right, var(--explore-faint) 50%, var(--explore-soft) 0 calc(50% + 1px),
  var(--explore-faint) 0); }
.explore-bar { position: absolute; top: 0; bottom: 0; background: var(--explore-soft); }
.explore-right { --explore-answer: var(--explore-green); }
.explore-wrong { --explore-answer: var(--explore-red); }
.explore-best .explore-bar { background: var(--explore-answer); }
.explore-half > .explore-best:last-child { color: var(--explore-answer); }
.explore-line { font-size: 15px; min-height: 4.2em; }
.explore-card strong { display: block; }
&.explore-waiting :is(.explore-fan, .explore-shares, .explore-bar, .explore-number, .explore-half > :last-child) { visibility: hidden; }
&.explore-waiting .explore-tools > .explore-caption:last-child { visibility: hidden; }
&.explore-waiting .explore-row > * { font-weight: 400; }
@container (max-width: 420px) {
  .explore-card, .explore-row { font-size: 12px; line-height: 16px; }
  .explore-heads { max-width: 3.2em; }
  .explore-row { line-height: 22px; }
}
`;
