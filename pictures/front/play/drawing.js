// What is in sight is drawn with the next frame, all else once nothing has happened for a while.
const A_WHILE = 300; // milliseconds

// Draws the sections, { node, render }, after each change of the state. Returns what ends that.
export function drawing(root, state, sections) {
  const ofNode = new Map(sections.map((section) => [section.node, section]));
  const inSight = new Set();
  let stale = new Set();
  let frame = 0;
  let idle = 0;

  function draw(node) {
    if (stale.delete(node)) ofNode.get(node).render();
  }

  function drawSeen() {
    root.style.setProperty("--at", state.at);
    root.style.setProperty("--t", state.places.length);
    root.classList.toggle("explore-pointing", state.at < state.last);
    root.classList.toggle("explore-holding", state.held !== null);
    for (const node of ofNode.keys()) {
      if (inSight.has(node)) draw(node);
    }
  }

  function drawRest() {
    const [node] = stale;
    if (node) {
      draw(node);
      idle = setTimeout(drawRest);
    } else {
      root.dataset.drawn = "wholly";
    }
  }

  state.subscribe("change", () => {
    stale = new Set(ofNode.keys());
    root.dataset.drawn = "partly";
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(drawSeen);
    clearTimeout(idle);
    idle = setTimeout(drawRest, A_WHILE);
  });

  const watch = (entries) => {
    for (const { target, isIntersecting } of entries) {
      inSight[isIntersecting ? "add" : "delete"](target);
      if (isIntersecting) draw(target);
    }
  };
  const observer = new IntersectionObserver(watch, { rootMargin: "300px" });
  for (const node of ofNode.keys()) observer.observe(node);
  return () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
    clearTimeout(idle);
  };
}
