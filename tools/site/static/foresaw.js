// Of each prediction, the choice that was opened first counts. Behind the lesson stands how many were foreseen. It is
// kept in this browser alone, and never sent.
const KEPT = "foresaw " + location.pathname;

function predictions() {
  const found = [];
  for (const lead of document.querySelectorAll("article p > strong:first-child")) {
    if (lead.textContent !== "Predict before you run.") continue;
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

function tell(place, questions, first) {
  const asked = questions.length, answered = questions.filter((_, i) => questions[i][first[i]]);
  const right = questions.filter((choices, i) => choices[first[i]] && isRight(choices[first[i]])).length;
  const soFar = answered.length < asked ? `, with ${asked - answered.length} still to open` : "";
  place.replaceChildren(answered.length ? `You foresaw ${right} of ${asked}${soFar}. ` : "");
  if (!answered.length) return;
  const again = document.createElement("button");
  again.textContent = "Forget it";
  again.addEventListener("click", () => {
    for (const i of Object.keys(first)) delete first[i];
    for (const choice of questions.flat()) choice.open = false;
    keep(first);
    tell(place, questions, first);
  });
  place.append(again);
}

addEventListener("load", () => {
  const questions = predictions(), end = document.getElementById("in-five-sentences");
  if (!questions.length || !end) return;
  const place = document.createElement("p"), first = kept();
  place.className = "foresaw";
  place.setAttribute("role", "status");
  end.append(place);
  questions.forEach((choices, i) => choices.forEach((choice, j) => {
    choice.querySelector("summary").addEventListener("click", () => {
      first[i] ??= j;
      keep(first);
      tell(place, questions, first);
    });
  }));
  tell(place, questions, first);
});
