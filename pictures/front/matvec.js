// A matrix times a vector: most of a GPT's time goes there. matvec.wat does it in WebAssembly, four numbers at a time.

// The bytes of matvec.wat; a test holds the two together.
const MATVEC =
  "AGFzbQEAAAABCAFgBH9/f38AAg4BAmpzBm1lbW9yeQIAAAMCAQAHDAEIbXVsdGlwbHkAAAqQAQGNAQEFewNAIAH9CQIAIQggBCAIIAD9AAQA/eYB/eQBIQQgBSAIIAD9AAQQ/eYB/eQBIQUgBiAIIAD9AAQg/eYB/eQBIQYgByAIIAD9AAQw/eYB/eQBIQcgAEHAAGohACABQQRqIQEgASACSQ0ACyADIAT9CwQAIAMgBf0LBBAgAyAG/QsEICADIAf9CwQwCw==";

// null where there is no WebAssembly with SIMD: in browsers from before 2023, and where it is switched off.
export const compiled = (() => {
  try {
    return new WebAssembly.Module(Uint8Array.from(atob(MATVEC), (letter) => letter.charCodeAt(0)));
  } catch {
    return null;
  }
})();

// Memory for a model's matrices: a function of a matrix (row by row, n numbers each), which returns x => matrix · x.
export function matrices() {
  if (!compiled) return plain;
  const memory = new WebAssembly.Memory({ initial: 0 });
  const { multiply } = new WebAssembly.Instance(compiled, { js: { memory } }).exports;
  let floats; // the memory as numbers
  return (matrix, n) => {
    // What lies where, counted in numbers: the matrix in bands of sixteen rows, then x, then the product.
    const rows = matrix.length / n;
    const whole = 16 * Math.ceil(rows / 16);
    const start = memory.buffer.byteLength / 4;
    const x = start + whole * n;
    const product = x + n;
    memory.grow(Math.ceil((product + whole - start) / 16384)); // pages of 64 KiB
    floats = new Float32Array(memory.buffer); // the old view ended when the memory grew
    for (let i = 0; i < rows; i++) {
      const band = start + (i - (i % 16)) * n;
      for (let j = 0; j < n; j++) floats[band + 16 * j + (i % 16)] = matrix[i * n + j];
    }
    return (vector) => {
      floats.set(vector, x);
      for (let i = 0; i < rows; i += 16) multiply(4 * (start + i * n), 4 * x, 4 * product, 4 * (product + i));
      return floats.slice(product, product + rows);
    };
  };
}

// The same in JavaScript, at a fifth of the speed.
const plain = (matrix, n) => (x) =>
  Float32Array.from({ length: matrix.length / n }, (_, i) => {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += matrix[i * n + j] * x[j];
    return sum;
  });
