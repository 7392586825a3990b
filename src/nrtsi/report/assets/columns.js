// What a channel looks like when there are more rows than pixels: one summary for each column of
// pixels. The cost is one pass over the rows in sight, whatever their number.

const OBSERVED = 0,
  IMPUTED = 1,
  REFUSED = 2;

// Rows in sight and one more at each side, so that lines run off the edge.
function rowsInSight(time) {
  return [Math.max(0, rowAt(time, view.from) - 1), Math.min(time.length, rowAt(time, view.to) + 1)];
}

function summarise(cells, time, first, last, width) {
  const wide = Math.max(1, Math.ceil(width));
  const made = {
    wide,
    observed: new Uint32Array(wide),
    imputed: new Uint32Array(wide),
    low: [0, 1, 2].map(() => new Float32Array(wide).fill(Infinity)),
    high: [0, 1, 2].map(() => new Float32Array(wide).fill(-Infinity)),
  };
  const { value, state, lower, upper } = cells;
  const scale = width / (view.to - view.from);
  for (let i = first; i < last; i++) {
    const column = Math.floor((time[i] - view.from) * scale);
    const kind = state[i];
    if (column < 0 || column >= wide || kind > IMPUTED) continue;
    made[kind ? "imputed" : "observed"][column]++;
    stretch(made, kind, column, value[i], value[i]);
    if (kind === IMPUTED) stretch(made, 2, column, lower[i], upper[i]);
  }
  return made;
}

function stretch(made, which, column, low, high) {
  // False for NaN, which then changes nothing.
  if (low < made.low[which][column]) made.low[which][column] = low;
  if (high > made.high[which][column]) made.high[which][column] = high;
}

// One byte for each column of pixels: bit k is set where a cell of state k is. Each row stands for
// the time half-way to its neighbours.
function marks(state, time, first, last, width) {
  const wide = Math.max(1, Math.ceil(width));
  const out = new Uint8Array(wide);
  const scale = width / (view.to - view.from);
  for (let i = first; i < last; i++) {
    if (!state[i]) continue;
    const before = i ? (time[i - 1] + time[i]) / 2 : time[i];
    const after = i + 1 < time.length ? (time[i] + time[i + 1]) / 2 : time[i];
    const start = Math.max(0, Math.floor((before - view.from) * scale));
    const stop = Math.min(wide, Math.max(start + 1, Math.round((after - view.from) * scale)));
    for (let column = start; column < stop; column++) out[column] |= 1 << state[i];
  }
  return out;
}

// Stretches of columns that have a bit, as [start, stop).
function stretches(flags, bit) {
  const out = [];
  for (let i = 0, start = -1; i <= flags.length; i++) {
    const on = i < flags.length && flags[i] & (1 << bit);
    if (on && start < 0) start = i;
    if (!on && start >= 0) {
      out.push([start, i]);
      start = -1;
    }
  }
  return out;
}
