// The GPT of the series in plain JavaScript: what helpers/gpt.py and helpers/attention.py compute, one token at a time.
//
// B is 1 here, T tokens, C channels, H heads, D head width, V vocabulary, L layers. A matrix lies as in PyTorch: row by
// row, one row for each output. Keys and values of earlier tokens wait in a cache, so the newest token can only see its
// past: that is the causal mask. Weights come as the bytes that helpers/packing.py writes.

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
    const layer = (name) => ({ weight: read(`${name}.weight`), bias: read(`${name}.bias`) });
    this.tokenEmbedding = read("token_embedding.weight"); // V × C, and the head's matrix too
    this.positionEmbedding = read("position_embedding.weight");
    this.norm = layer("norm");
    this.blocks = Array.from({ length: config.n_layer }, (_, i) => ({
      norm1: layer(`blocks.${i}.norm1`),
      query: layer(`blocks.${i}.attention.W_query`),
      key: layer(`blocks.${i}.attention.W_key`),
      value: layer(`blocks.${i}.attention.W_value`),
      project: layer(`blocks.${i}.attention.out_proj`),
      norm2: layer(`blocks.${i}.norm2`),
      expand: layer(`blocks.${i}.mlp.0`),
      shrink: layer(`blocks.${i}.mlp.2`),
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
    return { length: 0, layers: this.blocks.map(() => ({ key: new Float64Array(T * C), value: new Float64Array(T * C) })) };
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
      const normed = layerNorm(block.norm1, x);
      const query = linear(block.query, normed);
      const { key, value } = cache.layers[i];
      key.set(linear(block.key, normed), t * C);
      value.set(linear(block.value, normed), t * C);
      const { context, weights } = attention(query, key, value, t + 1, H);
      const read = linear(block.project, context);
      const attended = add(x, read);
      const hidden = gelu(linear(block.expand, layerNorm(block.norm2, attended)));
      const thought = linear(block.shrink, hidden);
      x = add(attended, thought);
      return trace && { entered, query, weights, context, read, attended, hidden, thought, stream: x };
    });
    const logits = this.head(x);
    if (trace) Object.assign(trace, { token, layers, stream: [layers[0].entered, ...layers.map((l) => l.stream)], logits });
    return logits;
  }

  // A stream's logits, as if the model ended there: the last one's are the model's own, earlier ones the logit lens.
  head(stream) {
    return linear({ weight: this.tokenEmbedding }, layerNorm(this.norm, stream));
  }
}

// softmax(query · key / √D) · value, head by head: the newest token's query against the keys of T tokens.
function attention(query, key, value, T, H) {
  const C = query.length, D = C / H, context = new Float64Array(C);
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

// weight (rows × n) times x (n), plus bias. Four rows at a time: each number of x is fetched once for all four.
function linear({ weight, bias }, x) {
  const n = x.length, rows = weight.length / n, out = new Float64Array(rows);
  let i = 0;
  for (; i + 3 < rows; i += 4) {
    let a = 0, b = 0, c = 0, d = 0;
    const first = i * n, second = first + n, third = second + n, fourth = third + n;
    for (let j = 0; j < n; j++) {
      a += weight[first + j] * x[j];
      b += weight[second + j] * x[j];
      c += weight[third + j] * x[j];
      d += weight[fourth + j] * x[j];
    }
    out[i] = a, out[i + 1] = b, out[i + 2] = c, out[i + 3] = d;
  }
  for (; i < rows; i++) for (let j = 0; j < n; j++) out[i] += weight[i * n + j] * x[j];
  return bias ? add(out, bias) : out;
}

function layerNorm({ weight, bias }, x) {
  const n = x.length, out = new Float64Array(n);
  let mean = 0, variance = 0;
  for (let i = 0; i < n; i++) mean += x[i] / n;
  for (let i = 0; i < n; i++) variance += (x[i] - mean) ** 2 / n;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  for (let i = 0; i < n; i++) out[i] = (x[i] - mean) * scale * weight[i];
  return bias ? add(out, bias) : out;
}

function add(a, b) {
  const out = new Float64Array(a.length);
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

// The probabilities after temperature, top-k and top-p: helpers/sampling.py's filter_logits, then the softmax.
export function probabilities(logits, { temperature = 1, topK = Infinity, topP = 1 } = {}) {
  let scores = logits.map((logit) => logit / temperature);
  const kth = topK < scores.length ? scores.slice().sort()[scores.length - topK] : -Infinity; // ties with it stay
  scores = scores.map((score) => (score < kth ? -Infinity : score));
  if (topP >= 1) return softmax(scores);
  const before = softmax(scores), order = [...before.keys()].sort((i, j) => before[j] - before[i]);
  let sum = 0;
  for (const i of order) {
    if (sum >= topP) scores[i] = -Infinity;
    sum += before[i];
  }
  return softmax(scores);
}

// One of the tokens, drawn with these probabilities; `random` gives numbers from 0 to 1.
export function draw(chances, random = Math.random) {
  let left = random();
  return Math.max(chances.findIndex((p) => (left -= p) < 0), 0);
}

// What the model has read, and what it computed for each token that is still in its window: `places`, one trace each.
// `reread` and `write` give the number of tokens that had to be computed; the others were in the cache.
export class Reader {
  constructor(model) {
    Object.assign(this, { model, window: [], cache: model.newCache(), places: [] });
  }

  // Read these tokens, of which the context's last ones count. What the old text began with as well is kept.
  reread(tokens) {
    this.window = tokens.slice(-this.model.config.context_length);
    const changed = this.places.findIndex((place, i) => place.token !== this.window[i]);
    return this.compute(changed < 0 ? this.places.length : changed);
  }

  // Read one token more. If the context is full, its last half moves to the start, where all keys change (see
  // helpers/sampling.py); Python rounds halves to the even number, so we do.
  write(token) {
    const T = this.model.config.context_length;
    this.window.push(token);
    if (this.window.length <= T) return this.compute(this.places.length);
    this.window = this.window.slice(-Math.max(1, T % 4 === 1 ? (T - 1) / 2 : Math.round(T / 2)));
    return this.compute(0);
  }

  compute(kept) {
    this.places.length = this.cache.length = kept;
    for (const token of this.window.slice(kept)) {
      const trace = {};
      this.model.forward(token, this.cache, trace);
      this.places.push(trace);
    }
    return this.window.length - kept;
  }
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
