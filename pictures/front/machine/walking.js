// With the arrow keys one walks as the drawing lies: along a row, and from a table to the one above it or below it.
export const IN_A_ROW = ["x", "query", "scores", "weights", "context", "output"];
const ABOVE = { key: "scores", mask: "weights", value: "context" }; // what stands above what

// grids: the tables as they are drawn; rows: how many words look -> (place, by) => the next place
export function walking(grids, rows) {
  const sizeOf = (name) => [grids[name]?.length ?? 0, grids[name]?.[0].length ?? 0];
  const filled = (names) => names.filter((name) => grids[name]);

  function sideways(place, by) {
    const upper = place.name in ABOVE;
    const line = upper ? filled(Object.keys(ABOVE)) : filled(IN_A_ROW);
    if (place.row !== undefined || !place.name) {
      return by > 0 && line.length ? { name: line[0], i: place.row ?? 0, j: 0 } : { row: place.row ?? 0 };
    }
    const j = place.j + by;
    if (j >= 0 && j < sizeOf(place.name)[1]) return { ...place, j };
    const next = line[line.indexOf(place.name) + by];
    if (!next) return by < 0 && !upper ? { row: place.i } : place;
    return { name: next, i: Math.min(place.i, sizeOf(next)[0] - 1), j: by > 0 ? 0 : sizeOf(next)[1] - 1 };
  }
  function upright(place, by) {
    if (!place.name) return { row: Math.max(0, Math.min(rows - 1, (place.row ?? -by) + by)) };
    const i = place.i + by;
    const next = by < 0 ? Object.keys(ABOVE).find((name) => ABOVE[name] === place.name) : ABOVE[place.name];
    if (i >= 0 && i < sizeOf(place.name)[0]) return { ...place, i };
    if (!grids[next]) return place;
    return { name: next, i: by < 0 ? sizeOf(next)[0] - 1 : 0, j: Math.min(place.j, sizeOf(next)[1] - 1) };
  }
  return { sideways, upright };
}
