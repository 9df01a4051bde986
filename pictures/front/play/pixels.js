// Numbers as pixels, which the style sheet enlarges.
import { largest } from "./words.js";

// Okabe and Ito, as in pictures/plotting.py.
export const COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
// The same green, ever less transparent.
const GREENS = Uint32Array.from({ length: 256 }, (_, i) => Math.round(255 * (i / 255) ** 0.6) * 256 ** 3 + 0x739e00);

// Numbers as cells, `wide` in a row: blue above zero, orange below, transparent at zero, so that it suits any page.
export function signed(canvas, values, wide) {
  const most = largest(values);
  paint(canvas, wide, Math.ceil(values.length / wide), (i) => {
    const color = values[i] < 0 ? [213, 94, 0] : [0, 114, 178];
    return [...color, 255 * Math.min(1, Math.abs(values[i]) / most) ** 0.7];
  });
}

// Weights, a row for each head, over T columns.
export function share(canvas, rows, T) {
  paint(canvas, T, rows.length, (i) => [0, 158, 115, 255 * (rows[Math.floor(i / T)][i % T] ?? 0) ** 0.6]);
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
  canvas.width = canvas.height = T;
  const image = new ImageData(T, T);
  const cells = new Uint32Array(image.data.buffer).fill(0x40808080);
  places.forEach(({ layers }, i) => {
    layers[l].weights[k].forEach((w, j) => {
      cells[i * T + j] = GREENS[Math.round(255 * w)];
    });
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  if (canvas.getAttribute("role")) {
    canvas.setAttribute("aria-label", `Map of layer ${l + 1}, head ${k + 1}, ${T} by ${T}: ${does}`);
  }
}
