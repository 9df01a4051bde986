// The curve: the loss on what it learns from, and on what it doesn't, against the time.
import { html, svg } from "../kit.js";
import { colored } from "../play/elements.js";

const [WIDE, HIGH] = [600, 270];
const [LEFT, RIGHT, TOP, BOTTOM] = [30, 590, 10, 240]; // where the curves are

// { node, draw(course) }: of its `reports` so far. Its `marks`, { loss, label }, are dashed lines.
export function curve() {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", class: "explore-curve" });
  const node = html(
    "div",
    {},
    html("h3", {}, "How surprised is it?"),
    drawing,
    html(
      "p",
      { class: "explore-note" },
      "Average surprise at the next letter, in nats: ",
      colored("blue", "in what it learns from"),
      ", and ",
      colored("orange", "in the last tenth of the text, which it is only tested on"),
      ".",
    ),
  );

  function draw({ reports, seconds, marks }) {
    const losses = reports.flatMap(({ loss, validation }) => [loss ?? validation, validation]);
    const all = [...losses, ...marks.map(({ loss }) => loss)];
    const low = Math.floor(2 * Math.min(...all) - 0.3) / 2;
    const high = Math.max(...all) + 0.15;
    const x = (time) => LEFT + ((RIGHT - LEFT) * time) / seconds;
    const y = (loss) => BOTTOM - ((BOTTOM - TOP) * (loss - low)) / (high - low);
    const text = (at, content, anchor = "middle") => svg("text", { ...at, "text-anchor": anchor }, content);
    const heights = Array.from({ length: Math.floor(2 * (high - low)) + 1 }, (_, i) => low + i / 2);
    const times = Array.from({ length: 7 }, (_, i) => (i * seconds) / 6);
    const line = (color, field) => {
      const points = reports
        .filter((report) => report[field] !== null)
        .map((report) => [x(report.spent), y(report[field])]);
      return svg("polyline", { class: color, points: points.join(" ") });
    };
    drawing.replaceChildren(
      ...heights.map((loss) => text({ x: LEFT - 6, y: y(loss) + 4 }, loss.toFixed(1), "end")),
      ...times.map((time) => text({ x: x(time), y: HIGH - 8 }, Math.round(time), time === seconds ? "end" : "middle")),
      ...marks.flatMap(({ loss, label }) => [
        svg("line", { x1: LEFT, x2: RIGHT, y1: y(loss), y2: y(loss) }),
        text({ x: RIGHT, y: y(loss) - 5 }, label, "end"),
      ]),
      line("explore-blue", "loss"),
      line("explore-orange", "validation"),
    );
    const { spent, validation } = reports.at(-1);
    const told = `The loss over ${Math.round(spent)} of ${seconds} seconds: from ${losses[1].toFixed(2)} to ${validation.toFixed(2)}`;
    drawing.setAttribute("aria-label", told);
  }
  return { node, draw };
}
