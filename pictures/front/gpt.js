// The GPT of the series in JavaScript: what helpers/gpt.py and modern.py compute, one token at a time.
//
// B is 1 here, T tokens, C channels, H heads, D head width, V vocabulary, L layers. A matrix is as in PyTorch: row by
// row, one row for each output. Keys and values of earlier tokens wait in a cache, so the newest token can only see its
// past: that is the causal mask. Weights come as the bytes that pictures/packing.py writes. The config names
// today's changes (see modern.py); the plain GPT's has none of these fields.
import { matrices } from "./matvec.js";
import { softmax } from "./sampling.js";

export class GPT {
  // `bytes` may be an ArrayBuffer, or a view into one (as Jupyter hands it over).
  constructor(bytes) {
    const view = ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes);
    const data = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    const start = 4 + new DataView(data).getUint32(0, true);
    const header = new TextDecoder().decode(new Uint8Array(data, 4, start - 4));
    const { config, alphabet, about, tensors } = JSON.parse(header);
    Object.assign(this, { config, about, alphabet: [...alphabet] });
    this.ids = new Map(this.alphabet.map((letter, id) => [letter, id]));
    const read = (name) => tensors[name] && unpack(data, start, tensors[name]);
    const matrix = matrices();
    const biased = (name, layer, bias = read(`${name}.bias`)) => (bias ? (x) => add(layer(x), bias) : layer);
    const linear = (name) => biased(name, matrix(read(`${name}.weight`), tensors[`${name}.weight`].shape[1]));
    const norm = (name) => biased(name, (config.rms_norm ? rmsNorm : layerNorm)(read(`${name}.weight`)));
    this.tokenEmbedding = read("token_embedding.weight"); // V × C
    this.positionEmbedding = read("position_embedding.weight"); // undefined in a rotary model
    this.tables = [2, 3, 4].map((n) => ({ n, table: read(`tables.${n}.weight`) })).filter(({ table }) => table);
    this.before = Array.from({ length: config.before ?? 0 }, (_, i) => read(`before.${i}.weight`));
    this.headWidth = config.n_embd / config.n_head;
    this.kvHeads = config.n_kv_head ?? config.n_head;
    this.rotations = config.rotary && rotations(config.context_length, this.headWidth);
    this.activation = { relu2, swiglu }[config.mlp] ?? gelu;
    this.blocks = Array.from({ length: config.n_layer }, (_, i) => ({
      norm1: norm(`blocks.${i}.norm1`),
      query: linear(`blocks.${i}.attention.W_query`),
      key: linear(`blocks.${i}.attention.W_key`),
      value: linear(`blocks.${i}.attention.W_value`),
      project: linear(`blocks.${i}.attention.out_proj`),
      norm2: norm(`blocks.${i}.norm2`),
      expand: linear(`blocks.${i}.mlp.0`),
      shrink: linear(`blocks.${i}.mlp.${config.mlp === "swiglu" ? 1 : 2}`), // its gate stands inside mlp.0
    }));
    this.norm = norm("norm");
    this.unembed = matrix(read("head.weight") ?? this.tokenEmbedding, config.n_embd); // tied: packed once
    this.off = new Set(); // heads that are switched off, as layer · H + head: what they read is thrown away
  }

  encode(text) {
    return [...text].map((letter) => this.ids.get(letter)).filter((id) => id !== undefined);
  }

  decode(tokens) {
    return tokens.map((token) => this.alphabet[token]).join("");
  }

  newCache() {
    const T = this.config.context_length;
    const width = this.kvHeads * this.headWidth;
    const layers = this.blocks.map(() => ({ key: new Float32Array(T * width), value: new Float32Array(T * width) }));
    return { length: 0, tokens: new Uint32Array(T), layers };
  }

  // The logits (V) of what follows `token`, which comes after those in `cache` and joins them there.
  // A `trace` object is filled with all that was computed on the way, in the names of microscope.every_tensor.
  forward(token, cache, trace = null) {
    const { context_length: T } = this.config;
    const t = cache.length++;
    if (t >= T) throw new RangeError(`${t + 1} tokens do not fit into a context of ${T}`);
    cache.tokens[t] = token;
    let x = this.embed(cache.tokens, t);
    const layers = this.blocks.map((block, i) => {
      const looked = this.look(i, x, cache, t);
      const worked = this.work(block, x, looked.context);
      const entered = x;
      x = worked.stream;
      return trace && { entered, ...looked, key: this.shared(looked.key), ...worked };
    });
    const logits = this.head(x);
    if (trace) {
      const stream = [layers[0].entered, ...layers.map((layer) => layer.stream)];
      Object.assign(trace, { token, layers, stream, logits });
    }
    return logits;
  }

  // A layer's first half at place t: what its heads find for the stream x. Key and value stay in the cache.
  look(i, x, cache, t) {
    const { n_head: H } = this.config;
    const D = this.headWidth;
    const block = this.blocks[i];
    const normed = block.norm1(x);
    const query = this.place(block.query(normed), t);
    const key = this.place(block.key(normed), t);
    cache.layers[i].key.set(key, t * key.length);
    cache.layers[i].value.set(block.value(normed), t * key.length);
    const { context, weights } = this.attention(query, cache.layers[i], t);
    for (let head = 0; head < H; head++) if (this.off.has(i * H + head)) context.fill(0, head * D, (head + 1) * D);
    return { query, key, weights, context };
  }

  // Its second half: what was found is projected and added to the stream, then the MLP works on that.
  work(block, x, context) {
    const read = block.project(context);
    const attended = add(x, read);
    const hidden = this.activation(block.expand(block.norm2(attended)));
    const thought = block.shrink(hidden);
    return { read, attended, hidden, thought, stream: add(attended, thought) };
  }

  // The place at which the token number t stands. (One of the faults in broken.js counts otherwise.)
  placeOf(t) {
    return t;
  }

  // What enters the first block at place t: the token's embedding, plus those of n-grams and of its position where there
  // are any. Before the first token stands V.
  embed(tokens, t) {
    const { n_embd: C, vocab_size: V } = this.config;
    const row = (table, i) => table.subarray(i * C, (i + 1) * C);
    const before = (back) => (back > t ? V : tokens[t - back]);
    let x = row(this.tokenEmbedding, tokens[t]);
    for (const { n, table } of this.tables) x = add(x, row(table, ngramRow(before, n, V, table.length / C)));
    this.before.forEach((table, i) => {
      x = add(x, row(table, before(i + 1)));
    });
    return this.positionEmbedding ? add(x, row(this.positionEmbedding, this.placeOf(t))) : x;
  }

  // A query or a key, head by head made equally long and turned to its place t, where the config asks for that.
  place(x, t) {
    const D = this.headWidth;
    for (let start = 0; start < x.length; start += D) {
      const head = x.subarray(start, start + D);
      if (this.config.qk_norm) makeLong(head, Math.sqrt(D));
      if (this.rotations) rotate(head, this.rotations[this.placeOf(t)]);
    }
    return x;
  }

  // softmax(query · key / √D) · value, head by head: the query at place t against the keys up to there. Some heads may
  // share their keys and values; with a window, what lies too far back gets no weight.
  attention(query, { key, value }, t) {
    const { n_head: H, window = null } = this.config;
    const D = this.headWidth;
    const width = this.kvHeads * D;
    const first = window === null ? 0 : Math.max(0, t + 1 - window);
    const context = new Float32Array(H * D);
    const weights = Array.from({ length: H }, (_, h) => {
      const shared = this.sharedBy(h) * D; // where this head's key begins
      const scores = new Float64Array(t + 1).fill(-Infinity);
      for (let s = first; s <= t; s++) {
        let dot = 0;
        for (let d = 0; d < D; d++) dot += query[h * D + d] * key[s * width + shared + d];
        scores[s] = dot / Math.sqrt(D);
      }
      const weight = softmax(scores);
      for (let s = first; s <= t; s++) {
        for (let d = 0; d < D; d++) context[h * D + d] += weight[s] * value[s * width + shared + d];
      }
      return weight;
    });
    return { context, weights };
  }

  // The head of keys and values that query head h uses.
  sharedBy(h) {
    return Math.floor((h * this.kvHeads) / this.config.n_head);
  }

  // A token's keys for every query head: each once for every head that shares it.
  shared(key) {
    const D = this.headWidth;
    const all = new Float32Array(this.config.n_embd);
    for (let i = 0; i < all.length; i++) all[i] = key[this.sharedBy(Math.floor(i / D)) * D + (i % D)];
    return all;
  }

  // A stream's logits, as if the model ended there: the last one's are the model's own, earlier ones the logit lens.
  head(stream) {
    const logits = this.unembed(this.norm(stream));
    const cap = this.config.softcap;
    return cap ? logits.map((logit) => cap * Math.tanh(logit / cap)) : logits;
  }
}

// The row of a table that belongs to the last n tokens: their number in base V + 1, modulo the number of rows.
function ngramRow(before, n, V, rows) {
  let number = 0;
  let power = 1;
  for (let back = 0; back < n; back++) {
    number += before(back) * power;
    power = (power * (V + 1)) % rows; // modulo, so that nothing overflows
  }
  return number % rows;
}

// For each of T places, the cosine and sine by which pair i of D channels is turned there: of t / 10,000^(2i/D).
function rotations(T, D) {
  const frequency = Float32Array.from({ length: D / 2 }, (_, i) => 10_000 ** ((-2 * i) / D));
  return Array.from({ length: T }, (_, t) => ({
    cos: frequency.map((f) => Math.cos(Math.fround(t * f))),
    sin: frequency.map((f) => Math.sin(Math.fround(t * f))),
  }));
}

// Turn each pair of channels, i and i + D/2.
function rotate(head, { cos, sin }) {
  const half = head.length / 2;
  for (let i = 0; i < half; i++) {
    const one = head[i];
    const other = head[i + half];
    head[i] = one * cos[i] - other * sin[i];
    head[i + half] = other * cos[i] + one * sin[i];
  }
}

function makeLong(head, length) {
  let squares = 0;
  for (const value of head) squares += value * value;
  const scale = length / Math.max(Math.sqrt(squares), 1e-12);
  for (let d = 0; d < head.length; d++) head[d] *= scale;
}

const layerNorm = (weight) => (x) => {
  const n = x.length;
  const out = new Float32Array(n);
  let mean = 0;
  let variance = 0;
  for (let i = 0; i < n; i++) mean += x[i] / n;
  for (let i = 0; i < n; i++) variance += (x[i] - mean) ** 2 / n;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  for (let i = 0; i < n; i++) out[i] = (x[i] - mean) * scale * weight[i];
  return out;
};

const rmsNorm = (weight) => (x) => {
  let squares = 0;
  for (const value of x) squares += value * value;
  const scale = 1 / Math.sqrt(squares / x.length + 1e-5);
  return x.map((value, i) => value * scale * weight[i]);
};

function add(a, b) {
  const out = new Float32Array(a.length);
  for (let i = 0; i < out.length; i++) out[i] = a[i] + b[i];
  return out;
}

// x · Φ(x), the error function by Abramowitz and Stegun's formula 7.1.26, right to 1.5e-7: as exact as float32 can tell.
function gelu(out) {
  for (let i = 0; i < out.length; i++) {
    const x = out[i];
    const z = Math.abs(x) * Math.SQRT1_2;
    const t = 1 / (1 + 0.3275911 * z);
    const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    const erfc = tail * Math.exp(-z * z); // of |x|/√2
    out[i] = 0.5 * x * (x < 0 ? erfc : 2 - erfc);
  }
  return out;
}

const relu2 = (out) => out.map((x) => Math.max(0, x) ** 2);

// silu(first half) · second half: the first opens and closes the second.
function swiglu(both) {
  const width = both.length / 2;
  return both.subarray(width).map((content, i) => (content * both[i]) / (1 + Math.exp(-both[i])));
}

// ---------------------------------------------------------------- the bytes
function unpack(data, start, { dtype, shape, offset, scales }) {
  const count = shape.reduce((a, b) => a * b, 1);
  if (dtype === "float32") return new Float32Array(data, start + offset, count); // as trainer.js packs it
  const out = new Float32Array(count);
  if (dtype === "float16") {
    const bits = new Uint16Array(data, start + offset, out.length);
    for (let i = 0; i < out.length; i++) out[i] = HALF[bits[i]];
  } else {
    // int8: whole numbers, and what one is worth in each row
    const whole = new Int8Array(data, start + offset, out.length);
    const rows = new Float32Array(data, start + scales, shape[0]);
    for (let i = 0; i < out.length; i++) out[i] = whole[i] * rows[Math.floor(i / shape[1])];
  }
  return out;
}

// What each of the 65,536 patterns of a float16 stands for: sign, five bits of exponent, ten of fraction.
const HALF = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
});
