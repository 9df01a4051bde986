// A small GPT learns a text: its forward pass, its gradients, and AdamW. What it has learned is packed for gpt.js, which
// computes the same one token at a time.
//
// In the words of helpers/modern.py it is a ModernGPT with rms_norm (whose gains stay 1), mlp="relu2", before=1 and
// zero_start. B windows of T tokens are learned at once, N = B · T places; C channels, L layers, H heads of width D, V
// letters in the alphabet, and U, V rounded up to a multiple of 8. T, C and D must be such multiples.
import { matrix, transposed, workshop } from "./matmul.js";
import { random } from "./sampling.js";

export const SIZES = { L: 2, H: 4, C: 64, T: 64, B: 16 };
const RECIPE = { rate: 0.008, warmup: 50, least: 0.1, decay: 0.1, betas: [0.9, 0.98] };

export class Trainer {
  // `text`: tokens, of which the last tenth is never learned; `alphabet`: the letters behind them.
  constructor(text, alphabet, { seed = 1, simd = true, ...sizes } = {}) {
    const { L, H, C, T, B } = Object.assign(this, SIZES, sizes, { alphabet, V: alphabet.length, steps: 0 });
    if (T % 8 || C % 8 || (C / H) % 8) throw new RangeError(`T = ${T}, C = ${C} and C / H must be multiples of 8`);
    this.dice = random(seed);
    const cut = Math.floor(0.9 * text.length);
    [this.training, this.validation] = [text.subarray(0, cut), text.subarray(cut)];
    const U = 8 * Math.ceil(this.V / 8);
    const shapes = this.parameterShapes(U);
    const [once, each] = this.workShapes(B * T, U);
    const floats = 4 * size(shapes) + size(once) + L * size(each);
    Object.assign(this, workshop(floats, Math.max(4 * C, U, T), simd));
    // The gradients and AdamW's two averages lie as the parameters do.
    [this.parameters, this.gradients, this.mean, this.square] = [1, 2, 3, 4].map(() => this.take(size(shapes)));
    [this.w, this.g] = [carved(this.parameters, shapes), carved(this.gradients, shapes)];
    Object.assign(this, carved(this.take(size(once)), once));
    this.dqkv = matrix(this.wide.array, B * T, 3 * C); // the two are never needed at once
    this.layers = Array.from({ length: L }, () => carved(this.take(size(each)), each));
    for (const layer of this.layers) layer.heads = Array.from({ length: B * H }, (_, i) => this.head(layer, i));
    this.count = size(shapes) - (U - this.V) * C; // of the parameters, without the rows that only fill up
    this.initialize();
  }

  // A row for each output, as in PyTorch.
  parameterShapes(U) {
    const { V, L, C, T } = this;
    const shapes = { token: [U, C], before: [V + 1, C], position: [T, C] };
    for (let l = 0; l < L; l++) {
      const layer = { qkv: [3 * C, C], project: [C, C], expand: [4 * C, C], shrink: [C, 4 * C] };
      for (const name in layer) shapes[name + l] = layer[name];
    }
    return shapes;
  }

  // What is computed on the way: once, and in each layer, where its gradients need it again.
  workShapes(N, U) {
    const { H, C, T } = this;
    const once = { x: [N, C], normed: [N, C], scale: [N, 1], logits: [N, U] };
    Object.assign(once, { dx: [N, C], narrow: [N, C], wide: [N, 4 * C], dweights: [T, T] });
    const attention = { normed1: [N, C], scale1: [N, 1], qkv: [N, 3 * C], weights: [N * H, T], context: [N, C] };
    const mlp = { normed2: [N, C], scale2: [N, 1], hidden: [N, 4 * C], active: [N, 4 * C] };
    return [once, { ...attention, ...mlp }];
  }

  // Head i % H of window i / H, as views: T × D of its queries, keys, values and context, and T × T of its weights. Those
  // with a d are the gradients of what they are named for.
  head({ qkv, weights, context }, i) {
    const { H, C, T } = this;
    const D = C / H;
    const part = ({ array, columns }, third) => {
      return matrix(array, T, D, Math.floor(i / H) * T * columns + third * C + (i % H) * D, columns);
    };
    const [[q, k, v], [dq, dk, dv]] = [qkv, this.dqkv].map((all) => [0, 1, 2].map((third) => part(all, third)));
    const inside = { q, k, v, weights: matrix(weights.array, T, T, i * T * T), context: part(context, 0) };
    return { ...inside, dq, dk, dv, dcontext: part(this.narrow, 0) };
  }

  // What writes into the stream starts at zero, so each layer begins by doing nothing.
  initialize() {
    const { C, w, dice } = this;
    const std = { token: 0.05, before: 0.05, position: 0.02, qkv: C ** -0.5, expand: C ** -0.5, project: 0, shrink: 0 };
    for (const name in w) {
      const spread = std[name.replace(/\d+$/, "")];
      w[name].array.forEach((_, i, array) => {
        array[i] = spread && spread * gaussian(dice);
      });
    }
  }

  // ---------------------------------------------------------------- forward and back
  // The logits of what follows each of `inputs`, which are whole windows of T tokens, B at most. They stay in this.logits.
  forward(inputs) {
    const { C, H, T, w, multiply } = this;
    const N = inputs.length;
    const some = (all) => ({ ...all, rows: N });
    const x = some(this.x);
    for (let n = 0; n < N; n++) {
      const [token, before, position] = this.lookUp(w, inputs, n);
      for (let c = 0; c < C; c++) x.array[n * C + c] = token[c] + before[c] + position[c];
    }
    for (const [l, layer] of this.layers.entries()) {
      norm(x, layer.normed1, layer.scale1);
      multiply(some(layer.normed1), transposed(w[`qkv${l}`]), layer.qkv);
      for (const head of layer.heads.slice(0, (N / T) * H)) this.attend(head);
      multiply(some(layer.context), transposed(w[`project${l}`]), x, true);
      norm(x, layer.normed2, layer.scale2);
      multiply(some(layer.normed2), transposed(w[`expand${l}`]), layer.hidden);
      relu2(some(layer.hidden), layer.active);
      multiply(some(layer.active), transposed(w[`shrink${l}`]), x, true);
    }
    norm(x, this.normed, this.scale);
    multiply(some(this.normed), transposed(w.token), this.logits);
  }

  // Fills this.gradients after `forward`: those of the mean loss, which it returns.
  backward(inputs, targets) {
    const { B, T, C, w, g, multiply, dx, wide, narrow, dqkv } = this;
    if (inputs.length !== B * T) throw new RangeError(`gradients need all ${B} windows`); // or old rows would count
    // y = x · wᵀ went forward. So the gradient of w is dyᵀ · x, and that of x is dy · w.
    const back = (dy, name, x, into) => {
      multiply(transposed(dy), x, g[name]);
      multiply(dy, w[name], into);
    };
    const loss = this.loss(targets, true);
    back(this.logits, "token", this.normed, narrow);
    dx.array.fill(0);
    normBack(narrow, this.normed, this.scale, dx);
    for (const [l, layer] of [...this.layers.entries()].reverse()) {
      back(dx, `shrink${l}`, layer.active, wide);
      relu2Back(wide, layer.hidden);
      back(wide, `expand${l}`, layer.normed2, narrow);
      normBack(narrow, layer.normed2, layer.scale2, dx);
      back(dx, `project${l}`, layer.context, narrow);
      for (const head of layer.heads) this.attendBack(head);
      back(dqkv, `qkv${l}`, layer.normed1, narrow);
      normBack(narrow, layer.normed1, layer.scale1, dx);
    }
    for (const name of ["before", "position"]) g[name].array.fill(0); // the token's has the head's gradient already
    for (let n = 0; n < inputs.length; n++) {
      for (const row of this.lookUp(g, inputs, n)) for (let c = 0; c < C; c++) row[c] += dx.array[n * C + c];
    }
    return loss;
  }

  // The rows that place n of `inputs` looks up: of its token, of the one before it (V in front of a window, as in modern.py),
  // and of its place.
  lookUp({ token, before, position }, inputs, n) {
    const t = n % this.T;
    return [rowOf(token, inputs[n]), rowOf(before, t ? inputs[n - 1] : this.V), rowOf(position, t)];
  }

  attend({ q, k, v, weights, context }) {
    this.multiply(q, transposed(k), weights);
    causalSoftmax(weights, 1 / Math.sqrt(q.columns));
    this.multiply(weights, v, context);
  }

  attendBack({ q, k, v, weights, dq, dk, dv, dcontext }) {
    const { multiply, dweights } = this;
    multiply(transposed(weights), dcontext, dv);
    multiply(dcontext, transposed(v), dweights);
    causalSoftmaxBack(dweights, weights, 1 / Math.sqrt(q.columns)); // now they are those of the scores
    multiply(dweights, k, dq);
    multiply(transposed(dweights), q, dk);
  }

  // The mean of −log p(target). With `gradient`, the logits turn into their gradients: (p − 1 at the target) / N.
  loss(targets, gradient = false) {
    const { V, logits } = this;
    const N = targets.length;
    let sum = 0;
    for (let n = 0; n < N; n++) {
      const row = rowOf(logits, n);
      let highest = -Infinity;
      for (let i = 0; i < V; i++) highest = Math.max(highest, row[i]);
      const own = row[targets[n]] - highest;
      let total = 0;
      for (let i = 0; i < V; i++) total += row[i] = exp(row[i] - highest);
      sum += Math.log(total) - own;
      if (!gradient) continue;
      for (let i = 0; i < V; i++) row[i] /= total * N;
      row.fill(0, V); // the columns that only fill up the eight
      row[targets[n]] -= 1 / N;
    }
    return sum / N;
  }

  // ---------------------------------------------------------------- learning
  // B windows from random places, and the same one token later.
  batch() {
    const { B, T, training } = this;
    const both = [new Uint16Array(B * T), new Uint16Array(B * T)];
    for (let row = 0; row < B; row++) {
      const at = Math.floor(this.dice() * (training.length - T));
      both.forEach((into, later) => {
        into.set(training.subarray(at + later, at + later + T), row * T);
      });
    }
    return both;
  }

  // One step; returns its loss. The rate falls as `progress` goes from 0 to 1: a share of the time, which ends when it ends.
  step(progress) {
    const [inputs, targets] = this.batch();
    this.forward(inputs);
    const loss = this.backward(inputs, targets);
    const { rate, warmup, least } = RECIPE;
    this.steps++;
    this.adamW(rate * Math.min(1, this.steps / warmup) * (1 - (1 - least) * Math.min(1, progress)));
    return loss;
  }

  adamW(rate) {
    const { parameters, gradients, mean, square } = this;
    const [b1, b2] = RECIPE.betas;
    const [c1, c2] = [1 - b1 ** this.steps, 1 - b2 ** this.steps];
    for (let i = 0; i < parameters.length; i++) {
      mean[i] += (1 - b1) * (gradients[i] - mean[i]);
      square[i] += (1 - b2) * (gradients[i] * gradients[i] - square[i]);
      parameters[i] -= rate * (mean[i] / c1 / (Math.sqrt(square[i] / c2) + 1e-8) + RECIPE.decay * parameters[i]);
    }
  }

  // The mean loss on pieces of T tokens of the text that isn't learned: `most` of them, spread evenly, or as many as it has.
  validate(most = Infinity) {
    const { B, T, validation } = this;
    const pieces = Math.min(most, Math.floor((validation.length - 1) / T));
    const from = Array.from({ length: pieces }, (_, i) => Math.floor((i * (validation.length - 1)) / pieces));
    let sum = 0;
    for (let i = 0; i < pieces; i += B) {
      const some = from.slice(i, i + B);
      const [inputs, targets] = [0, 1].map((later) =>
        Uint16Array.from(some.flatMap((at) => [...validation.subarray(at + later, at + later + T)])),
      );
      this.forward(inputs);
      sum += this.loss(targets) * some.length;
    }
    return sum / pieces;
  }

  // What gpt.js and pictures/packing.py read: the parameters, or an array like theirs, as bytes.
  pack(about = {}, array = this.parameters) {
    const { alphabet, V, L, H, C, T, w } = this;
    const tensors = {};
    const put = (name, { array, rows, columns }, from = 0, count = rows) => {
      const offset = array.byteOffset - this.parameters.byteOffset + 4 * from * columns;
      tensors[name] = { dtype: "float32", shape: [count, columns], offset };
    };
    put("token_embedding.weight", w.token, 0, V);
    put("before.0.weight", w.before);
    put("position_embedding.weight", w.position);
    const gains = { dtype: "float32", shape: [C], offset: 4 * array.length };
    for (let l = 0; l < L; l++) {
      const [block, attention] = [`blocks.${l}`, `blocks.${l}.attention`];
      ["W_query", "W_key", "W_value"].forEach((name, i) => {
        put(`${attention}.${name}.weight`, w[`qkv${l}`], i * C, C);
      });
      put(`${attention}.out_proj.weight`, w[`project${l}`]);
      put(`${block}.mlp.0.weight`, w[`expand${l}`]);
      put(`${block}.mlp.2.weight`, w[`shrink${l}`]);
      for (const name of ["norm1", "norm2"]) tensors[`${block}.${name}.weight`] = gains;
    }
    tensors["norm.weight"] = gains;
    const sizes = { vocab_size: V, context_length: T, n_layer: L, n_head: H, n_embd: C };
    const config = { ...sizes, rms_norm: true, mlp: "relu2", before: 1, zero_start: true };
    const facts = JSON.stringify({ config, alphabet: alphabet.join(""), about, tensors });
    let header = new TextEncoder().encode(facts);
    header = new TextEncoder().encode(facts + " ".repeat(-header.length & 3));
    const bytes = new Uint8Array(4 + header.length + 4 * (array.length + C));
    new DataView(bytes.buffer).setUint32(0, header.length, true);
    bytes.set(header, 4);
    const floats = new Float32Array(bytes.buffer, 4 + header.length).fill(1);
    floats.set(array);
    return bytes;
  }
}

// ---------------------------------------------------------------- arrays
const size = (shapes) => Object.values(shapes).reduce((sum, [rows, columns]) => sum + rows * columns, 0);
const rowOf = ({ array, columns }, i) => array.subarray(i * columns, (i + 1) * columns);

// `all` cut into matrices of these shapes.
function carved(all, shapes) {
  let at = 0;
  const cut = ([name, [rows, columns]]) => {
    at += rows * columns;
    return [name, matrix(all.subarray(at - rows * columns, at), rows, columns)];
  };
  return Object.fromEntries(Object.entries(shapes).map(cut));
}

const gaussian = (dice) => Math.sqrt(-2 * Math.log(1 - dice())) * Math.cos(2 * Math.PI * dice());

// ---------------------------------------------------------------- the smaller parts, and their gradients
// y = x · scale, where scale = 1 / √(mean of x² + ε), for each row.
function norm({ array: x, rows, columns: C }, { array: y }, { array: scale }) {
  for (let n = 0; n < rows; n++) {
    let squares = 0;
    for (let i = n * C; i < (n + 1) * C; i++) squares += x[i] * x[i];
    scale[n] = 1 / Math.sqrt(squares / C + 1e-5);
    for (let i = n * C; i < (n + 1) * C; i++) y[i] = x[i] * scale[n];
  }
}

// dx += scale · (dy − y · mean of dy · y)
function normBack({ array: dy, rows, columns: C }, { array: y }, { array: scale }, { array: dx }) {
  for (let n = 0; n < rows; n++) {
    let mean = 0;
    for (let i = n * C; i < (n + 1) * C; i++) mean += (dy[i] * y[i]) / C;
    for (let i = n * C; i < (n + 1) * C; i++) dx[i] += scale[n] * (dy[i] - y[i] * mean);
  }
}

// max(0, x)². x + |x| is twice max(0, x) without a branch, which a processor would guess wrongly half of the time.
function relu2({ array: x, rows, columns }, { array: out }) {
  for (let i = 0; i < rows * columns; i++) out[i] = 0.25 * (x[i] + Math.abs(x[i])) ** 2;
}

function relu2Back({ array: d }, { array: x }) {
  for (let i = 0; i < d.length; i++) d[i] *= x[i] + Math.abs(x[i]);
}

// Scores become weights: row t's softmax over its first t + 1 columns, and 0 in the others.
function causalSoftmax({ array, start, rows: T }, factor) {
  for (let t = 0; t < T; t++) {
    const from = start + t * T;
    const to = from + t + 1;
    let highest = -Infinity;
    for (let i = from; i < to; i++) highest = Math.max(highest, array[i]);
    let sum = 0;
    for (let i = from; i < to; i++) sum += array[i] = exp(factor * (array[i] - highest));
    for (let i = from; i < to; i++) array[i] /= sum;
    array.fill(0, to, from + T);
  }
}

// The gradients of the weights p become those of the scores: factor · p · (d − Σ p · d), and 0 where p is 0.
function causalSoftmaxBack({ array: d }, { array: p, start, rows: T }, factor) {
  for (let t = 0; t < T; t++) {
    const row = start + t * T;
    let sum = 0;
    for (let i = 0; i <= t; i++) sum += p[row + i] * d[t * T + i];
    for (let i = 0; i < T; i++) d[t * T + i] = factor * p[row + i] * (d[t * T + i] - sum);
  }
}

// eˣ for x ≤ 0, right to seven digits and twice as fast as Math.exp: 2⁻ⁿ, and a polynomial on what is left, [−½, ½] · ln 2.
const POWERS = Float64Array.from({ length: 128 }, (_, n) => 2 ** -n);
function exp(x) {
  const y = Math.max(x * Math.LOG2E, -126);
  const n = (0.5 - y) | 0;
  const f = (y + n) * Math.LN2;
  return POWERS[n] * (1 + f * (1 + f * (1 / 2 + f * (1 / 6 + f * (1 / 24 + f * (1 / 120 + f * (1 / 720)))))));
}
