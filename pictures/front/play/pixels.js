// Numbers as pixels, which the style sheet enlarges.
import { largest } from "./words.js";

// Okabe and Ito, as in pictures/plotting.py.
export const COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
const FUTURE = 0x28808080;
const shades = new Map(); // of a colour: the same, ever less transparent, and soon enough for small weights to be seen

// The shades of a weight's colour, which the style sheet chooses: it is brighter in the dark.
function shadesFor(canvas) {
  const { color } = getComputedStyle(canvas);
  if (!shades.has(color)) {
    const [red, green, blue] = color.match(/\d+/g).map(Number);
    const opaque = (i) => Math.round(255 * (i / 255) ** 0.45);
    const shade = (_, i) => opaque(i) * 256 ** 3 + blue * 256 ** 2 + green * 256 + red;
    shades.set(color, Uint32Array.from({ length: 256 }, shade));
  }
  return shades.get(color);
}

// Numbers as cells, `wide` in a row: blue above zero, orange below, transparent at zero, so that it suits any page.
export function signed(canvas, values, wide) {
  const most = largest(values);
  paint(canvas, wide, Math.ceil(values.length / wide), (i) => {
    const color = values[i] < 0 ? [213, 94, 0] : [0, 114, 178];
    return [...color, 255 * Math.min(1, Math.abs(values[i]) / most) ** 0.7];
  });
}

// Weights, a row for each of `rows`, over T columns; `missing` is the colour of what a row lacks.
export function share(canvas, rows, T, missing = 0) {
  Object.assign(canvas, { width: T, height: rows.length });
  const ofWeight = shadesFor(canvas);
  const image = new ImageData(T, rows.length);
  const cells = new Uint32Array(image.data.buffer).fill(missing);
  rows.forEach((row, i) => {
    row.forEach((weight, j) => {
      cells[i * T + j] = ofWeight[Math.round(255 * weight)];
    });
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function paint(canvas, width, height, color) {
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set(color(i), 4 * i);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

export function columns(canvas, values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const context = canvas.getContext("2d");
  Object.assign(canvas, { width: 4 * values.length, height: 60 });
  values.forEach((v, i) => {
    context.fillStyle = v === high ? COLORS[5] : COLORS[0];
    const tall = 4 + (56 * (v - low)) / (high - low || 1);
    context.fillRect(4 * i, 60 - tall, 3, tall);
  });
}

// One head's map in the canvas of `holder`: a pixel for each cell. Row = query, column = key; the future is grey.
export function drawMap(holder, places, l, k, does) {
  const canvas = holder.querySelector("canvas");
  const T = places.length;
  const rows = places.map(({ layers }) => layers[l].weights[k]);
  share(canvas, rows, T, FUTURE);
  if (canvas.getAttribute("role")) {
    canvas.setAttribute("aria-label", `Map of layer ${l + 1}, head ${k + 1}, ${T} by ${T}: ${does}`);
  }
}
