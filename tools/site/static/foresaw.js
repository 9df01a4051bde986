// What comes after a prediction gives its answer away: it waits until a choice is opened, or until the reader would
// rather not guess. A figure that can be touched is in view all the same, if its start doesn't hold the answer. Of each
// prediction, the choice that was opened first counts, and behind the lesson stands how many were foreseen. It is kept
// in this browser alone, and never sent.
const LEAD = "Predict before you run.";
const KEPT = `foresaw ${location.pathname}`;

function predictions() {
  const found = [];
  for (const lead of document.querySelectorAll("article p > strong:first-child")) {
    if (lead.textContent !== LEAD) continue;
    lead.textContent = "Predict."; // here, nothing is run
    const choices = [];
    let next = lead.parentElement.nextElementSibling;
    while (next && next.tagName !== "DETAILS") next = next.nextElementSibling;
    for (; next?.tagName === "DETAILS"; next = next.nextElementSibling) choices.push(next);
    if (choices.length > 1) found.push(choices);
  }
  return found;
}

function isRight(choice) {
  const summary = choice.querySelector("summary").textContent;
  return choice.textContent.trim().slice(summary.length).trim().startsWith("Yes");
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

function keep(first) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(first));
  } catch {} // a browser that keeps nothing: it counts until the page is left
}

function hide(part, waits) {
  const isFigure = part.querySelector("[data-explorer]") && !part.querySelector("details [data-explorer]");
  if (isFigure && !part.classList.contains("answers")) part.classList.toggle("figure-only", waits);
  else part.hidden = waits;
}

// Hides, in each section, what follows the first prediction that is still open; and shows all else.
function veil(questions, first) {
  for (const old of document.querySelectorAll("article .veil")) old.remove();
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const waiting = new Set();
  questions.forEach((choices, i) => {
    const rest = [];
    for (let next = choices.at(-1).nextElementSibling; next; next = next.nextElementSibling) rest.push(next);
    const guessed = i in first || choices.some((choice) => choice.open);
    const led = rest.some((part) => part.contains(wanted)); // a link leads there
    const behind = waiting.has(choices[0]); // it waits itself, behind an earlier one
    for (const part of rest) {
      if (!guessed && !led) waiting.add(part);
      hide(part, waiting.has(part));
    }
    if (guessed || led || behind || !rest.length) return;
    const skip = document.createElement("button");
    skip.textContent = "I’d rather not guess";
    skip.addEventListener("click", () => {
      first[i] = -1;
      keep(first);
      veil(questions, first);
      answer(choices);
      choices.at(-1).querySelector("summary").focus();
    });
    const note = document.createElement("p");
    note.className = "veil";
    note.append("Open the choice that you would bet on, and read on.", skip);
    choices.at(-1).after(note);
  });
}

// Whoever has guessed sees which choice is right, and the answer's output, which follows the choices.
function answer(choices) {
  for (const choice of choices) choice.classList.toggle("right", isRight(choice));
  for (let next = choices.at(-1).nextElementSibling; next; next = next.nextElementSibling) {
    const fold = next.querySelector("details.covered");
    if (fold) fold.open = true;
    if (fold || next.querySelector("strong:first-child")?.textContent === "Predict.") return;
  }
}

function tell(place, questions, first) {
  const asked = questions.length;
  const answered = questions.filter((_, i) => questions[i][first[i]]);
  const right = questions.filter((choices, i) => choices[first[i]] && isRight(choices[first[i]])).length;
  const soFar = answered.length < asked ? `, with ${asked - answered.length} still to open` : "";
  place.replaceChildren(answered.length ? `You foresaw ${right} of ${asked}${soFar}. ` : "");
  if (!answered.length) return;
  const again = document.createElement("button");
  again.textContent = "Start again";
  again.addEventListener("click", () => {
    for (const i of Object.keys(first)) delete first[i];
    for (const choice of questions.flat()) {
      choice.open = false;
      choice.classList.remove("right");
    }
    keep(first);
    tell(place, questions, first);
    veil(questions, first);
  });
  place.append(again);
}

addEventListener("load", () => {
  const questions = predictions();
  const end = document.querySelector("article section[id^='in-'][id$='-sentences']");
  if (!questions.length || !end) return;
  const place = document.createElement("p");
  const first = kept();
  place.className = "foresaw";
  place.setAttribute("role", "status");
  end.append(place);
  questions.forEach((choices, i) => {
    choices.forEach((choice, j) => {
      choice.querySelector("summary").addEventListener("click", () => {
        first[i] ??= j;
        keep(first);
        tell(place, questions, first);
      });
      choice.addEventListener("toggle", () => {
        if (!choice.open) return;
        veil(questions, first);
        answer(choices);
      });
    });
  });
  tell(place, questions, first);
  veil(questions, first);
  const toWanted = () => document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  if (location.hash) toWanted();
  addEventListener("hashchange", () => {
    veil(questions, first);
    toWanted();
  });
});
