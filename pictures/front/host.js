// Joined behind a front end by pictures/host.py: puts its `mount` where its picture is.

// The explorer instead of the picture inside `place`; the function returned brings it back.
function takePlace(place, data) {
  const picture = [...place.childNodes];
  const back = () => place.replaceChildren(...picture);
  place.replaceChildren();
  try {
    // biome-ignore lint/correctness/noUndeclaredVariables: the front end that stands in front of this.
    const remove = mount(place, data);
    return () => {
      remove();
      back();
    };
  } catch (problem) {
    console.error(problem);
    back();
    return () => {};
  }
}

// JupyterLab. The model lives as long as the kernel knows it, and has no view of its own: what is stored in the notebook
// is the picture. Wherever and whenever JupyterLab renders that, the explorer takes its place.
// biome-ignore lint/correctness/noUnusedVariables: the last line, which pictures/host.py adds, exports it.
function inLab({ model: shared }) {
  const weights = shared.get("weights");
  const taken = new Map();
  const bytes = new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength);
  const data = { ...shared.get("data"), model: bytes };
  const look = () => {
    for (const place of document.querySelectorAll(`[data-mount="${shared.get("place")}"]`)) {
      if (taken.has(place)) continue;
      // Keys and presses here are not the notebook's: "b" would add a cell to it, and a press move the focus.
      for (const type of ["keydown", "mousedown"]) place.addEventListener(type, (event) => event.stopPropagation());
      taken.set(place, takePlace(place, data));
    }
  };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { childList: true, subtree: true });
  look();
  return () => {
    observer.disconnect();
    for (const back of taken.values()) back();
  };
}
