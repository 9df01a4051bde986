// What the machine says of its words, numbers and steps.
import { decimal, named, sum } from "../kit.js";

const BUILT_IN = {
  x: "01",
  scores: "01",
  weights: "02",
  context: "02",
  query: "03",
  key: "03",
  value: "03",
  mask: "04",
  output: "06",
};
const NEAR = 0.01; // how far what is computed from rounded numbers may lie from what PyTorch computed

const near = (a, b) => Math.abs(a - b) <= NEAR * Math.max(1, Math.abs(b));
// Powers of e may be tiny or huge.
function power(x) {
  if (x >= 0.1 && x < 10_000) return decimal(x);
  return x.toPrecision(3).replace(/e\+?(-?)(\d+)/, (_, sign, n) => ` · 10^${sign && "−"}${n}`);
}

// `data` as pictures/machine.py makes it -> functions of places, whose sentences have *emphasis* between stars
export function answers(data) {
  const known = facts(data);
  const missing = (name) => `*${name}*: an outline, without numbers here. Notebook ${BUILT_IN[name]} builds it.`;
  return { ...words(known), ofNumber: numbers(known), missing, steps: STEPS };
}

const STEPS = {
  query: "*W_query*: each row of x, times this matrix, becomes what the word asks.",
  weights: "*softmax*: each score s becomes e^s, and each row is divided by its sum, so that it adds up to 1.",
};

const argmax = (places, of) => places.reduce((a, b) => (of(b) > of(a) ? b : a));

// What all sentences rest on: names, who may look at whom, and by what dropout has multiplied all that it kept.
function facts({ rows, columns, tables, alone, kept }) {
  const allowed = (t, s) => !tables.mask || tables.mask[t][s] === 1;
  const openTo = (t) => columns.map((_, s) => s).filter((s) => allowed(t, s));
  const shareOf = (t, s) => Math.exp(tables.scores[t][s]) / sum(openTo(t).map((i) => Math.exp(tables.scores[t][i])));
  // Read off where it can be read best.
  const scale = () => {
    const pairs = rows.flatMap((_, t) => openTo(t).map((s) => [t, s])).filter(([t, s]) => kept[t][s]);
    if (!pairs.length) return 1;
    const [t, s] = argmax(pairs, ([t, s]) => tables.weights[t][s]);
    return tables.weights[t][s] / shareOf(t, s);
  };
  return {
    ...{ rows, columns, tables, alone, kept, allowed, openTo, shareOf },
    word: named(rows),
    other: named(columns),
    own: String(rows) === String(columns), // or do rows look at other words?
    dropped: kept && tables.scores ? scale() : 1,
  };
}

// What is said of words: a row's looks, a column's is looked at.
function words({ rows, tables, kept, allowed, openTo, word, other }) {
  const lookedAt = tables.weights ? "weights" : tables.scores ? "scores" : null;

  // What is said of a row: its word looks.
  function ofRow(t) {
    if (!lookedAt) return `${word(t)}: its row would run through every table, from left to right.`;
    const open = openTo(t);
    const here = `${word(t)} looks: follow its row from left to right.`;
    if (!open.length) return `${here} The mask lets it look at nobody.`;
    const s = argmax(open, (s) => tables[lookedAt][t][s]);
    const most = tables[lookedAt][t][s];
    if (lookedAt === "weights" && most === 0) {
      return `${here} It gives nothing to anybody${kept ? ": dropout has dropped its whole row" : ""}.`;
    }
    const rest = tables.context ? " What it takes home is its row of context." : "";
    return lookedAt === "weights"
      ? `${here} It gives its largest share, ${decimal(most)}, to ${other(s)}.${rest}`
      : `${here} It has its highest score, ${decimal(most)}, with ${other(s)}.${rest}`;
  }
  // What is said of a column: its word is looked at.
  function ofColumn(s) {
    if (!lookedAt) return `${other(s)} is looked at: all rows meet its key.`;
    const open = rows.map((_, t) => t).filter((t) => allowed(t, s));
    if (!open.length) return `${other(s)}: the mask lets nobody look at it.`;
    const t = argmax(open, (t) => tables[lookedAt][t][s]);
    const most = decimal(tables[lookedAt][t][s]);
    const what = lookedAt === "weights" ? `gives it the most, ${most}` : `fits it best, with a score of ${most}`;
    return `${other(s)} is looked at: its column meets every row. ${word(t)} ${what}.`;
  }
  return { ofRow, ofColumn };
}

// In words "a × b + c × d", the largest first where there are many.
function products(left, right, names) {
  const terms = left.map((a, i) => ({
    size: Math.abs(a * right[i]),
    text: `${decimal(a)} × ${decimal(right[i])}${names ? ` from ${names[i]}` : ""}`,
  }));
  const joined = (some) => some.map(({ text }) => text).join(" + ");
  if (terms.length <= 4) return joined(terms);
  terms.sort((a, b) => b.size - a.size);
  return `${joined(terms.slice(0, 3))} + ${terms.length - 3} smaller products`;
}

// What is said of numbers.
function numbers(known) {
  const { tables, allowed, word, other } = known;
  const ofProjection = projection(known);
  const ofWeight = weighing(known);

  function ofScore(t, s) {
    const score = tables.scores[t][s];
    const { query, key } = tables;
    const asks = `${decimal(score)}: how well ${word(t)} and ${other(s)} fit.`;
    if (!query || !key) return asks;
    const dot = sum(query[t].map((q, d) => q * key[s][d]));
    const D = query[t].length;
    const divided = dot / D ** 0.5;
    const isDivided = Math.abs(divided - score) < Math.abs(dot - score);
    if (!near(isDivided ? divided : dot, score)) return asks;
    const rowTimesColumn = `${asks} Row times column: ${products(query[t], key[s])} = `;
    return isDivided
      ? `${rowTimesColumn}${decimal(dot)}, and divided by √${D} that is ${decimal(score)}.`
      : `${rowTimesColumn}${decimal(score)}.`;
  }
  function ofContext(t, d) {
    const { weights, value } = tables;
    const context = tables.context[t][d];
    const what = `${decimal(context)}: number ${d + 1} of what ${word(t)} takes home`;
    if (!weights || !value) return `${what}.`;
    const from = known.columns.map((_, s) => s).filter((s) => weights[t][s] !== 0);
    if (!from.length) return `${what}, and nothing is left to mix.`;
    if (!near(sum(from.map((s) => weights[t][s] * value[s][d])), context)) return `${what}.`;
    const shares = from.map((s) => weights[t][s]);
    const values = from.map((s) => value[s][d]);
    return `${what}, a mixture: ${products(shares, values, from.map(other))}.`;
  }
  // Row i and column j of a table as it is DRAWN: the key stands on its side.
  function ofNumber(name, i, j) {
    if (name === "query" || name === "value") return ofProjection(name, i, j);
    if (name === "key") return ofProjection("key", j, i);
    if (name === "scores") return ofScore(i, j);
    if (name === "weights") return ofWeight(i, j);
    if (name === "context") return ofContext(i, j);
    if (name === "mask") {
      return allowed(i, j)
        ? `${word(i)} may look at ${other(j)}.`
        : `${word(i)} may not look at ${other(j)}: it must guess without it.`;
    }
    const here = decimal(tables[name][i][j]);
    if (name === "x") return `${here}: number ${j + 1} of the ${tables.x[i].length} that stand for ${word(i)}.`;
    const leaves = `number ${j + 1} of what leaves the layer at ${word(i)}`;
    return `${here}: ${leaves}, after all heads are put side by side and multiplied by W_out.`;
  }
  return ofNumber;
}

function projection({ tables, alone, own, word, other }) {
  return (name, t, d) => {
    const who = name === "query" ? word(t) : other(t);
    const does = { query: "asks", key: "offers", value: "says" }[name];
    const here = decimal(tables[name][t][d]);
    const n = tables[name][t].length;
    if (alone.includes(name)) {
      return `${here}: nothing is projected yet, so ${who} ${does} its own vector, x. This is its number ${d + 1}.`;
    }
    const what = `${here}: what ${who} ${does}, number ${d + 1} of ${n}.`;
    if (tables.x && (own || name === "query")) {
      return `${what} It is the row of ${who} in x, times column ${d + 1} of the matrix W_${name}.`;
    }
    return `${what} Column ${d + 1} of the matrix W_${name} made it.`;
  };
}

function weighing({ tables, kept, allowed, shareOf, dropped, own, word, other }) {
  return (t, s) => {
    const weight = tables.weights[t][s];
    const share = `${decimal(weight)}: the share that ${word(t)} gives to ${other(s)}.`;
    if (!allowed(t, s)) {
      return `0: the mask forbids ${word(t)} to look at ${other(s)}${s > t && own ? ", which comes later" : ""}.`;
    }
    if (kept && !kept[t][s]) {
      return `0: ${word(t)} would look at ${other(s)}, but the coin said no: dropout has dropped this weight.`;
    }
    if (!tables.scores || !near(shareOf(t, s) * dropped, weight)) return share;
    const e = Math.exp(tables.scores[t][s]);
    const whole = e / shareOf(t, s);
    const which = tables.mask ? "that the mask allows in its row" : "in its row";
    const raised = `e^${decimal(tables.scores[t][s], 3)} = ${power(e)}`;
    const made = `${share} ${raised}, divided by the sum of all such powers ${which}, ${power(whole)}`;
    if (near(dropped, 1)) return `${made}.`;
    return (
      `${made}, is ${decimal(shareOf(t, s))}; ` +
      `dropout has kept it and multiplied it by ${decimal(dropped)}, to make up for what it drops.`
    );
  };
}
