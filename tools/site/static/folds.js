// What a link leads to is unfolded; on paper everything is, but for the code of pictures; printed sentences go on in the
// next line; and what can be scrolled sideways can be reached by the keyboard.
function reveal() {
  let target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const found = target;
  for (; target; target = target.parentElement) if (target.tagName === "DETAILS") target.open = true;
  if (found) found.scrollIntoView();
}

function letTabReachWhatScrolls() {
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article .rows td, article .math")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

// Columns are kept as they are, wherever there are some; sentences need none.
function letSentencesWrap() {
  for (const printed of document.querySelectorAll("article .cell_output pre")) {
    printed.classList.toggle("sentences", !/\S {2,}\S/.test(printed.textContent));
  }
}

let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("article details:not([open], .source_hidden)")];
  for (const details of unfolded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of unfolded) details.open = false;
});
addEventListener("hashchange", reveal);
addEventListener("resize", letTabReachWhatScrolls);
addEventListener("load", () => {
  if (location.hash) reveal();
  letSentencesWrap();
  letTabReachWhatScrolls();
});
document.addEventListener("toggle", letTabReachWhatScrolls, true);
