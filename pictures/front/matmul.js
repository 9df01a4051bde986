// A matrix times a matrix: most of a training's time goes there. matmul.wat does it in WebAssembly, four numbers at a time.

// The bytes of matmul.wat; a test holds the two together.
const MATMUL =
  "AGFzbQEAAAABGgJgBn9/f39/fwBgDX9/f39/f39/f39/f38AAg4BAmpzBm1lbW9yeQIAAAMDAgABBwwBCG11bHRpcGx5AAEKvgUCggEAIAJBBEYEQANAIAMgAP0ABAD9CwQAIAAgAWohACADIARqIQMgBUEBayIFDQALBQNAIAMgACoCADgCACADIAAgAmoqAgA4AgQgAyAAIAJBAmxqKgIAOAIIIAMgACACQQNsaioCADgCDCAAIAFqIQAgAyAEaiEDIAVBAWsiBQ0ACwsLtwQCCX8LeyAMIREgCSEPA0AgAyAEIAUgEUEgIAoQACADIAVBBGxqIAQgBSARQRBqQSAgChAAIAMgBUEIbGohAyARIApBIGxqIREgD0EIayIPDQALIBEhDSANIApBEGxqIQ4DQCAAIAIgASANQRAgChAAIAwhESAGIRIgCSEPA0AgEiAHaiETIBMgB2ohFCAUIAdqIRUgCwRAIBL9AAQAIRkgEv0ABBAhGiAT/QAEACEbIBP9AAQQIRwgFP0ABAAhHSAU/QAEECEeIBX9AAQAIR8gFf0ABBAhIAX9DAAAAAAAAAAAAAAAAAAAAAAhFiAWIRkgFiEaIBYhGyAWIRwgFiEdIBYhHiAWIR8gFiEgCyANIRADQCAR/QAEACEWIBH9AAQQIRcgEP0JAgAhGCAZIBggFv3mAf3kASEZIBogGCAX/eYB/eQBIRogEP0JAgQhGCAbIBggFv3mAf3kASEbIBwgGCAX/eYB/eQBIRwgEP0JAgghGCAdIBggFv3mAf3kASEdIB4gGCAX/eYB/eQBIR4gEP0JAgwhGCAfIBggFv3mAf3kASEfICAgGCAX/eYB/eQBISAgEUEgaiERIBBBEGoiECAOSQ0ACyASIBn9CwQAIBIgGv0LBBAgEyAb/QsEACATIBz9CwQQIBQgHf0LBAAgFCAe/QsEECAVIB/9CwQAIBUgIP0LBBAgEkEgaiESIA9BCGsiDw0ACyAAIAFBBGxqIQAgBiAHQQRsaiEGIAhBBGsiCA0ACws=";
const DEPTH = 256; // so many terms of each sum at a time: their copies stay in the processor's cache

// A matrix is a view of an array: entry (i, j) stands at start + i · down + j · right. So transposing copies nothing.
export const matrix = (array, rows, columns, start = 0, down = columns) => ({
  ...{ array, rows, columns, start, down },
  right: 1,
});
export const transposed = (m) => ({ ...m, rows: m.columns, columns: m.rows, down: m.right, right: m.down });

// Memory for `floats` numbers: take(count) hands out the next ones, and multiply(a, b, c, keep) works on matrices of what it
// handed out: c = a · b, or c += a · b with `keep`. Rows of c must come in fours, columns in eights, and the numbers of a row
// side by side; no b may have more than `widest` columns. With `simd` false, or in a browser without it, JavaScript does the
// same at a twentieth of the speed.
export function workshop(floats, widest, simd = true) {
  const compiled = simd && compiledMatmul();
  let used = DEPTH * (widest + 4); // the first numbers are room for copies
  const all = used + floats;
  const memory = compiled && new WebAssembly.Memory({ initial: Math.ceil(all / 16384) }); // pages of 64 KiB
  const buffer = compiled ? memory.buffer : new ArrayBuffer(4 * all);
  const take = (count) => {
    used += count;
    return new Float32Array(buffer, 4 * (used - count), count);
  };
  return { simd: !!compiled, take, multiply: compiled ? inSlices(compiled, memory) : plainMultiply };
}

function inSlices(compiled, memory) {
  const { multiply } = new WebAssembly.Instance(compiled, { js: { memory } }).exports;
  const from = (m, i, j) => m.array.byteOffset + 4 * (m.start + i * m.down + j * m.right);
  return (a, b, c, keep = false) => {
    const [m, n] = [a.rows, b.columns];
    for (let k = 0; k < a.columns; k += DEPTH) {
      const left = [from(a, 0, k), 4 * a.down, 4 * a.right];
      const right = [from(b, k, 0), 4 * b.down, 4 * b.right];
      const deep = Math.min(DEPTH, a.columns - k);
      multiply(...left, ...right, from(c, 0, 0), 4 * c.down, m, n, deep, keep || k > 0, 0);
    }
  };
}

function compiledMatmul() {
  try {
    return new WebAssembly.Module(Uint8Array.from(atob(MATMUL), (letter) => letter.charCodeAt(0)));
  } catch {
    return null; // browsers from before 2023, and where it is switched off
  }
}

// A row of c is a sum of rows of b, which are copied to where their numbers stand side by side.
function plainMultiply(a, b, c, keep = false) {
  const row = new Float32Array(b.columns * b.rows);
  for (let k = 0; k < b.rows; k++) {
    for (let j = 0; j < b.columns; j++) row[k * b.columns + j] = b.array[b.start + k * b.down + j * b.right];
  }
  for (let i = 0; i < a.rows; i++) {
    const out = c.array.subarray(c.start + i * c.down, c.start + i * c.down + b.columns);
    if (!keep) out.fill(0);
    for (let k = 0; k < a.columns; k++) {
      const factor = a.array[a.start + i * a.down + k * a.right];
      for (let j = 0, at = k * b.columns; j < out.length; j++) out[j] += factor * row[at++];
    }
  }
}
