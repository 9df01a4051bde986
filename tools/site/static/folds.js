// What a link leads to is unfolded; on paper everything is, but for the code of pictures; and what can be scrolled
// sideways can be reached by the keyboard.
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
  letTabReachWhatScrolls();
});
document.addEventListener("toggle", letTabReachWhatScrolls, true);
