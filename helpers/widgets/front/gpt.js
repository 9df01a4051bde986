// The GPT of the series in JavaScript: what helpers/gpt.py and helpers/attention.py compute, one token at a time.
//
// B is 1 here, T tokens, C channels, H heads, D head width, V vocabulary, L layers. A matrix is as in PyTorch: row by
// row, one row for each output. Keys and values of earlier tokens wait in a cache, so the newest token can only see its
// past: that is the causal mask. Weights come as the bytes that helpers/packing.py writes.
import { matrices } from "./matvec.js";

export class GPT {
  // `bytes` may be an ArrayBuffer, or a view into one (as Jupyter hands it over).
  constructor(bytes) {
    const view = ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes);
    const data = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    const start = 4 + new DataView(data).getUint32(0, true);
    const { config, alphabet, about, tensors } = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, start - 4)));
    Object.assign(this, { config, about, alphabet: [...alphabet] });
    this.ids = new Map(this.alphabet.map((letter, id) => [letter, id]));
    const read = (name) => tensors[name] && unpack(data, start, tensors[name]);
    const matrix = matrices();
    const biased = (name, layer, bias = read(`${name}.bias`)) => (bias ? (x) => add(layer(x), bias) : layer);
    const linear = (name) => biased(name, matrix(read(`${name}.weight`), tensors[`${name}.weight`].shape[1]));
    const norm = (name) => biased(name, layerNorm(read(`${name}.weight`)));
    this.tokenEmbedding = read("token_embedding.weight"); // V × C, and the head's matrix too
    this.positionEmbedding = read("position_embedding.weight");
    this.norm = norm("norm");
    this.off = new Set(); // heads that are switched off, as layer · H + head: what they read is thrown away
    this.unembed = matrix(this.tokenEmbedding, config.n_embd);
    this.blocks = Array.from({ length: config.n_layer }, (_, i) => ({
      norm1: norm(`blocks.${i}.norm1`),
      query: linear(`blocks.${i}.attention.W_query`),
      key: linear(`blocks.${i}.attention.W_key`),
      value: linear(`blocks.${i}.attention.W_value`),
      project: linear(`blocks.${i}.attention.out_proj`),
      norm2: norm(`blocks.${i}.norm2`),
      expand: linear(`blocks.${i}.mlp.0`),
      shrink: linear(`blocks.${i}.mlp.2`),
    }));
  }

  encode(text) {
    return [...text].map((letter) => this.ids.get(letter)).filter((id) => id !== undefined);
  }

  decode(tokens) {
    return tokens.map((token) => this.alphabet[token]).join("");
  }

  newCache() {
    const { context_length: T, n_embd: C } = this.config;
    return { length: 0, layers: this.blocks.map(() => ({ key: new Float32Array(T * C), value: new Float32Array(T * C) })) };
  }

  // The logits (V) of what follows `token`, which comes after those in `cache` and joins them there.
  // A `trace` object is filled with all that was computed on the way, in the names of microscope.every_tensor.
  forward(token, cache, trace = null) {
    const { n_embd: C, n_head: H, context_length: T } = this.config;
    const t = cache.length++;
    if (t >= T) throw new RangeError(`${t + 1} tokens do not fit into a context of ${T}`);
    const row = (table, i) => table.subarray(i * C, (i + 1) * C);
    let x = add(row(this.tokenEmbedding, token), row(this.positionEmbedding, t));
    const layers = this.blocks.map((block, i) => {
      const entered = x;
      const normed = block.norm1(x);
      const query = block.query(normed);
      const { key, value } = cache.layers[i];
      key.set(block.key(normed), t * C);
      value.set(block.value(normed), t * C);
      const { context, weights } = attention(query, key, value, t + 1, H);
      for (const head of this.off) if (head >= i * H && head < (i + 1) * H) context.fill(0, ((head - i * H) * C) / H, ((head - i * H + 1) * C) / H);
      const read = block.project(context);
      const attended = add(x, read);
      const hidden = gelu(block.expand(block.norm2(attended)));
      const thought = block.shrink(hidden);
      x = add(attended, thought);
      return trace && { entered, query, key: key.slice(t * C, t * C + C), weights, context, read, attended, hidden, thought, stream: x };
    });
    const logits = this.head(x);
    if (trace) Object.assign(trace, { token, layers, stream: [layers[0].entered, ...layers.map((l) => l.stream)], logits });
    return logits;
  }

  // A stream's logits, as if the model ended there: the last one's are the model's own, earlier ones the logit lens.
  head(stream) {
    return this.unembed(this.norm(stream));
  }
}

// softmax(query · key / √D) · value, head by head: the newest token's query against the keys of T tokens.
function attention(query, key, value, T, H) {
  const C = query.length, D = C / H, context = new Float32Array(C);
  const weights = Array.from({ length: H }, (_, h) => {
    const scores = new Float64Array(T);
    for (let s = 0; s < T; s++) {
      let dot = 0;
      for (let d = h * D; d < (h + 1) * D; d++) dot += query[d] * key[s * C + d];
      scores[s] = dot / Math.sqrt(D);
    }
    const weight = softmax(scores);
    for (let s = 0; s < T; s++) for (let d = h * D; d < (h + 1) * D; d++) context[d] += weight[s] * value[s * C + d];
    return weight;
  });
  return { context, weights };
}

export function softmax(scores) {
  const out = new Float64Array(scores.length);
  let highest = -Infinity, sum = 0;
  for (let i = 0; i < out.length; i++) highest = Math.max(highest, scores[i]);
  for (let i = 0; i < out.length; i++) sum += out[i] = Math.exp(scores[i] - highest);
  for (let i = 0; i < out.length; i++) out[i] /= sum;
  return out;
}

const layerNorm = (weight) => (x) => {
  const n = x.length, out = new Float32Array(n);
  let mean = 0, variance = 0;
  for (let i = 0; i < n; i++) mean += x[i] / n;
  for (let i = 0; i < n; i++) variance += (x[i] - mean) ** 2 / n;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  for (let i = 0; i < n; i++) out[i] = (x[i] - mean) * scale * weight[i];
  return out;
};

function add(a, b) {
  const out = new Float32Array(a.length);
  for (let i = 0; i < out.length; i++) out[i] = a[i] + b[i];
  return out;
}

// x · Φ(x), the error function by Abramowitz and Stegun's formula 7.1.26, right to 1.5e-7: as exact as float32 can tell.
function gelu(out) {
  for (let i = 0; i < out.length; i++) {
    const x = out[i], z = Math.abs(x) * Math.SQRT1_2, t = 1 / (1 + 0.3275911 * z);
    const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    const erfc = tail * Math.exp(-z * z); // of |x|/√2
    out[i] = 0.5 * x * (x < 0 ? erfc : 2 - erfc);
  }
  return out;
}

// ---------------------------------------------------------------- the bytes
function unpack(data, start, { dtype, shape, offset, scales }) {
  const out = new Float32Array(shape.reduce((a, b) => a * b, 1));
  if (dtype === "float16") {
    const bits = new Uint16Array(data, start + offset, out.length);
    for (let i = 0; i < out.length; i++) out[i] = HALF[bits[i]];
  } else { // int8: whole numbers, and what one is worth in each row
    const whole = new Int8Array(data, start + offset, out.length), rows = new Float32Array(data, start + scales, shape[0]);
    for (let i = 0; i < out.length; i++) out[i] = whole[i] * rows[Math.floor(i / shape[1])];
  }
  return out;
}

// What each of the 65,536 patterns of a float16 stands for: sign, five bits of exponent, ten of fraction.
const HALF = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = (bits & 1023) / 1024;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
});
