// Times as the page got them, and what is shown of them: chosen, put into columns, summed up.

const UNKNOWN = -(2 ** 31);
const MOST_COLUMNS = 2000; // more than there are pixels; each shows the median of its iterations

function unpacked(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return new Int32Array(bytes.buffer); // little-endian, as every browser's machine
}

// A model as the page wrote it, with its packed numbers as arrays.
function readModel(element) {
  const model = JSON.parse(element.textContent);
  for (const name of ["iterations", "planned", "pace", "lateness", "error"]) {
    model[name] = unpacked(model[name]);
  }
  model.timelines.positions = unpacked(model.timelines.positions);
  model.timelines.times = unpacked(model.timelines.times);
  return model;
}

// For plotly: null where it is not known.
function milliseconds(time) {
  return time === UNKNOWN ? null : time / 1e3;
}

function milliText(time) {
  return time === UNKNOWN ? "unknown" : `${(time / 1e3).toFixed(1)} ms`;
}

function quantile(values, share) {
  const sorted = Float64Array.from(values).sort();
  return sorted.length ? sorted[Math.floor(share * (sorted.length - 1))] : null;
}

// The median of those that are known, of two in the middle the earlier; UNKNOWN of none.
function median(times) {
  const known = times.filter((time) => time !== UNKNOWN).sort((a, b) => a - b);
  return known.length ? known[(known.length - 1) >> 1] : UNKNOWN;
}

// "0-3, 7" as a list of ranks; null where that is no list of ranks below `ranks`.
function ranksOf(text, ranks) {
  if (!text.trim()) return Array.from({ length: ranks }, (_, rank) => rank);
  const chosen = new Set();
  for (const part of text.split(",")) {
    const found = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
    if (!found) return null;
    const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
    if (first > last || last >= ranks) return null;
    for (let rank = first; rank <= last; rank++) chosen.add(rank);
  }
  return [...chosen].sort((a, b) => a - b);
}

// Positions of iterations in columns of equal length: [[begin, end), ...].
function columnsOf(begin, end) {
  const length = Math.max(1, Math.ceil((end - begin) / MOST_COLUMNS));
  const columns = [];
  for (let at = begin; at < end; at += length) columns.push([at, Math.min(at + length, end)]);
  return columns;
}

// Of each chosen rank and column the median of a matrix by iteration, then rank: [rank][column].
function binned(matrix, ranks, chosen, columns) {
  return chosen.map((rank) =>
    columns.map(([begin, end]) => {
      if (end === begin + 1) return matrix[begin * ranks + rank];
      const times = [];
      for (let at = begin; at < end; at++) times.push(matrix[at * ranks + rank]);
      return median(times);
    }),
  );
}

// "iterations 120 to 124, median" for each column.
function columnNames(model, columns) {
  return columns.map(([begin, end]) => {
    const [first, last] = [model.iterations[begin], model.iterations[end - 1]];
    return first === last ? `iteration ${first}` : `iterations ${first} to ${last}, median`;
  });
}

function pooledNote(columns) {
  const [begin, end] = columns[0] ?? [0, 1];
  return end > begin + 1
    ? `Each column is the median of ${end - begin} iterations; of ${MOST_COLUMNS} or fewer each ` +
      "has its own: narrow the filter."
    : "";
}
