// Numbers in words, and which of many is the largest.

export const number = (n) => n.toLocaleString("en");
export const many = (n, thing) => `${n} ${thing}${n === 1 ? "" : "s"}`;
export const capital = (text) => text[0].toUpperCase() + text.slice(1);

export const duration = (seconds) =>
  seconds < 2 ? "a second" : seconds < 90 ? `${seconds} seconds` : `${Math.round(seconds / 60)} minutes`;

export const best = (values) => values.indexOf(Math.max(...values));
export const bestFirst = (values) => [...values.keys()].sort((i, j) => values[j] - values[i]);
export const largest = (values) => values.reduce((a, v) => Math.max(a, Math.abs(v)), 1e-9);
