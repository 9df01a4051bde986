// Notebook 05: six cards vote for an answer, in networks that have learned differently. Take cards away, and see.
import { button, decimal, frame, html, sum } from "./kit.js";
import { softmax } from "./sampling.js";

// scores (K), says (K, N), kept (K) of booleans -> what each card adds to the score of each thing (K, N)
export function votes(scores, says, kept) {
  const weights = softmax(scores.map((score, i) => (kept[i] ? score : -Infinity)));
  return says.map((row, i) => row.map((vote) => (kept[i] ? weights[i] * vote : 0)));
}

// The thing that gets most, and what each card adds to the right one's lead over its best rival.
export function leads(cast, right) {
  const totals = cast[0].map((_, n) => sum(cast.map((row) => row[n])));
  const rival = totals.indexOf(Math.max(...totals.filter((_, n) => n !== right)));
  const cards = cast.map((row) => row[right] - row[rival]);
  return { thing: totals[right] > totals[rival] ? right : rival, cards };
}

// data: cards (6), needed: which of them says the answer, things (N), right: which of them it is, students: [{ name,
// scores (6), says (6, N) }]
export function mount(element, data) {
  const { cards, needed, things, right, students } = data;
  let kept = cards.map(() => true);
  const reach = Math.max(
    ...students.flatMap(({ scores, says }) => leads(votes(scores, says, kept), right).cards.map(Math.abs)),
  );
  const span = (role, text = "", more = {}) => html("span", { role, ...more }, text);
  const buttons = cards.map((card, i) => button(card, () => keep(kept.with(i, !kept[i])), { "aria-pressed": true }));
  const bars = cards.map(() => students.map(() => html("i")));
  const numbers = cards.map(() => students.map(() => html("b")));
  const line = (...cells) => html("div", { role: "row", class: "explore-row" }, ...cells);
  const heads = students.map(({ name }) => span("columnheader", name, { class: "explore-head" }));
  const rows = cards.map((_, i) => {
    const cells = students.map((_, k) => html("span", { role: "cell" }, bars[i][k], numbers[i][k]));
    return line(html("span", { role: "rowheader" }, buttons[i]), ...cells);
  });
  const style = `--explore-students: ${students.length}`;
  const caption = `what each card adds to the lead of ${things[right]}, the right answer, over its best rival`;
  const table = html(
    "div",
    { role: "table", "aria-label": caption, class: "explore-table", style },
    line(span("columnheader", "", { "aria-label": "card" }), ...heads),
    ...rows,
  );
  const { say, remove } = frame(
    element,
    { name: "votes", css: CSS, invitation: "Click a card to take it away: which answers hang on which card?" },
    html("div", { class: "explore-caption" }, caption),
    table,
    html(
      "div",
      { class: "explore-tools" },
      button("without the card with the answer", () => keep(cards.map((_, i) => i !== needed))),
      button("all cards", () => keep(cards.map(() => true))),
    ),
  );

  function keep(to) {
    kept = to;
    show();
  }
  function show() {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", kept[i]);
    });
    const left = kept.filter(Boolean).length;
    if (!left) {
      for (const bar of bars.flat()) bar.style.width = 0;
      for (const number of numbers.flat()) number.textContent = "";
      say("No card is left, and nobody has anything to say.");
      return;
    }
    const sentences = students.map(({ name, scores, says }, k) => {
      const cast = votes(scores, says, kept);
      const { thing, cards: added } = leads(cast, right);
      added.forEach((vote, i) => {
        bars[i][k].style.width = `${Math.min(50, (50 * Math.abs(vote)) / reach)}%`;
        bars[i][k].className = vote < 0 ? "explore-against" : "explore-for";
        numbers[i][k].textContent = kept[i] ? decimal(vote, 1) : "";
      });
      return `${name}: *${things[thing]}*, ${thing === right ? "right" : "wrong"}, by ${decimal(Math.abs(sum(added)), 1)}.`;
    });
    say(`With ${left} ${left > 1 ? "cards" : "card"}. ${sentences.join(" ")}`);
  }
  show();
  return remove;
}

const CSS = `
.explore-table { display: grid; gap: 4px 12px; align-items: center; font-variant-numeric: tabular-nums;
  grid-template-columns: max-content repeat(var(--explore-students), minmax(0, 1fr)); }
.explore-row { display: contents; }
.explore-head { color: var(--explore-soft); text-align: center; }
[role="rowheader"] button { width: 100%; text-align: left; }
[aria-pressed="false"] { opacity: 0.6; text-decoration: line-through; }
[role="cell"] { position: relative; height: 28px; background: linear-gradient(var(--explore-line), var(--explore-line))
  center / 1px 100% no-repeat; }
[role="cell"] i { position: absolute; top: 6px; height: 16px; border-radius: 2px; }
.explore-for { left: 50%; background: var(--explore-blue); }
.explore-against { right: 50%; background: var(--explore-red); }
[role="cell"] b { position: absolute; left: 0; top: 4px; font-weight: 400; font-size: 12px; color: var(--explore-soft); }
@container (max-width: 520px) { .explore-table { font-size: 12px; gap: 4px 6px;
  grid-template-columns: minmax(0, 1.2fr) repeat(var(--explore-students), minmax(0, 1fr)); }
  [role="rowheader"] button { padding: 2px 4px; } }
`;
