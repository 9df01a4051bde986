// "Copy a link to this": the line, the head, the step of the training and the fault that one looks at, in an address.
import { html } from "../kit.js";

// What an address asks for; null for what it doesn't, or what this model doesn't have.
export function wanted(search, { n_layer, n_head }) {
  const query = new URLSearchParams(search);
  const [l, k] = (query.get("head") ?? "").split(".").map((number) => number - 1);
  return {
    text: query.get("text"),
    head: l in Array(n_layer).fill(0) && k in Array(n_head).fill(0) ? [l, k] : null,
    step: query.get("step"),
    fault: query.get("fault"),
  };
}

export function addressOf({ model, tokens, typed, chosen: [l, k], snapshot, fault }, page) {
  const query = new URLSearchParams({ text: model.decode(tokens.slice(0, typed)), head: `${l + 1}.${k + 1}` });
  if (snapshot !== null) query.set("step", snapshot);
  if (fault !== null) query.set("fault", fault);
  return `${page}?${query}`;
}

// null for a page that lies on somebody's disk, for nobody else could open the link.
export function link(state) {
  if (!state.data.page || !location.protocol.startsWith("http")) return null;
  const status = html("span", { class: "explore-note", role: "status" });
  const field = html("input", { type: "text", readonly: "", hidden: "", "aria-label": "link to this" });
  async function copy() {
    field.value = addressOf(state, location.origin + location.pathname);
    try {
      await navigator.clipboard.writeText(field.value);
      status.textContent = "Copied: your line, the head, the step and the fault that you look at.";
    } catch {
      field.hidden = false;
      field.select();
      status.textContent = "Copy it from here:";
    }
  }
  const node = html(
    "p",
    { class: "explore-buttons" },
    html("button", { onclick: copy }, "Copy a link to this"),
    status,
    field,
  );
  const render = () => {
    status.textContent = "";
    field.hidden = true;
  };
  return { node, render };
}
