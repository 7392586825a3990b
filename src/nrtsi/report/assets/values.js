// Draws the values of a channel: every row, or a summary of each column of pixels if there are more
// rows than pixels. The summary takes one pass over the visible rows.

const OBSERVED = 0,
  IMPUTED = 1,
  REFUSED = 2;

// Visible rows and one more at each side, so that lines run off the edge.
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
    extend(made, kind, column, value[i], value[i]);
    if (kind === IMPUTED) extend(made, 2, column, lower[i], upper[i]);
  }
  return made;
}

function extend(made, which, column, low, high) {
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

// Runs of columns that have a bit, as [start, stop).
function columnRuns(flags, bit) {
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

// More rows than pixels: from lowest to highest in every column.
function drawColumns(pen, box, made, y) {
  pen.fillStyle = theme.band;
  for (let c = 0; c < made.wide; c++) {
    const top = y(made.high[2][c]);
    if (made.imputed[c]) pen.fillRect(box.left + c, top, 1, y(made.low[2][c]) - top);
  }
  pen.strokeStyle = theme.observed;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let c = 0; c < made.wide; c++) {
    if (!made.observed[c]) continue;
    const at = box.left + c + 0.5;
    if (c && made.observed[c - 1]) pen.lineTo(at, y(made.high[OBSERVED][c]));
    else pen.moveTo(at, y(made.high[OBSERVED][c]) - 0.5);
    pen.lineTo(at, y(made.low[OBSERVED][c]) + 0.5);
  }
  pen.stroke();
  pen.fillStyle = theme.imputed;
  for (let c = 0; c < made.wide; c++) {
    if (!made.imputed[c]) continue;
    // A few imputed cells among many observed ones must not hide them.
    pen.globalAlpha = 0.3 + (0.7 * made.imputed[c]) / (made.imputed[c] + made.observed[c]);
    const top = y(made.high[IMPUTED][c]);
    pen.fillRect(box.left + c, top - 0.75, 1, y(made.low[IMPUTED][c]) - top + 1.5);
  }
  pen.globalAlpha = 1;
}

// Every row: lines, and points if they do not touch.
function drawRows(pen, cells, first, last, x, y, across) {
  const { value, state } = cells;
  const at = (i) => x(series.time[i]);
  const known = (i) => i >= 0 && i < value.length && state[i] <= IMPUTED && !Number.isNaN(value[i]);
  pen.fillStyle = theme.band;
  for (const [start, stop] of runs(state, first, last))
    drawBand(pen, cells, start, stop, at, y, known);
  for (const kind of [OBSERVED, IMPUTED]) {
    pen.strokeStyle = kind ? theme.imputed : theme.observed;
    pen.lineWidth = 1.4;
    pen.setLineDash(kind ? [4, 3] : []);
    pen.beginPath();
    for (let i = Math.max(1, first); i < last; i++) {
      if (!known(i) || !known(i - 1) || (state[i] | state[i - 1]) !== kind) continue;
      // A new line starts only if no segment ends here, so that dashes continue.
      if (i === first + 1 || !known(i - 2) || (state[i - 1] | state[i - 2]) !== kind)
        pen.moveTo(at(i - 1), y(value[i - 1]));
      pen.lineTo(at(i), y(value[i]));
    }
    pen.stroke();
  }
  pen.setLineDash([]);
  const size = Math.min(3, (0.4 * across) / Math.max(1, last - first));
  for (let i = first; i < last; i++)
    if (known(i)) drawPoint(pen, at(i), y(value[i]), state[i], size, isIsolated(i, known));
}

const isIsolated = (i, known) => !known(i - 1) && !known(i + 1);

function drawPoint(pen, x, y, kind, size, alone) {
  if (size < 1 && !alone && !kind) return;
  pen.beginPath();
  pen.arc(x, y, Math.max(kind ? 1.6 : 1.2, size), 0, 7);
  pen.fillStyle = kind ? theme.paper : theme.observed;
  pen.strokeStyle = theme.imputed;
  pen.fill();
  if (kind) pen.stroke();
}

// Runs of imputed rows, as [start, stop).
function runs(state, first, last) {
  const out = [];
  for (let i = first, start = -1; i <= last; i++) {
    const on = i < last && state[i] === IMPUTED;
    if (on && start < 0) start = i;
    if (!on && start >= 0) {
      out.push([start, i]);
      start = -1;
    }
  }
  return out;
}

// The interval of a run; its width is zero at the observed values beside it.
function drawBand(pen, { value, lower, upper }, start, stop, at, y, known) {
  const edge = (ends, i) => (i >= start && i < stop ? ends[i] : value[i]);
  const from = known(start - 1) ? start - 1 : start;
  const to = known(stop) ? stop + 1 : stop;
  if (to - from === 1) {
    pen.fillRect(at(start) - 2, y(upper[start]), 4, y(lower[start]) - y(upper[start]));
    return;
  }
  const has = (i) => !Number.isNaN(edge(lower, i)) && !Number.isNaN(edge(upper, i));
  const rows = [];
  for (let i = from; i < to; i++) if (has(i)) rows.push(i);
  pen.beginPath();
  for (const i of rows) pen.lineTo(at(i), y(edge(lower, i)));
  for (const i of rows.reverse()) pen.lineTo(at(i), y(edge(upper, i)));
  pen.fill();
}
