// What a model has read, and what it computed for each token that is still in its window: `places`, one trace each.
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
