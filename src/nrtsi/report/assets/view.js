// The time range that all charts show, and the functions that change it.

const view = { from: 0, to: 1, least: 0, most: 1 };

function resetView(time) {
  const first = time.length ? time[0] : 0;
  const last = time.length ? time[time.length - 1] : 1;
  // A margin of half a row at both ends, so that the first and the last point are not cut off.
  const margin =
    last > first
      ? (last - first) / Math.max(1, time.length - 1) / 2
      : 0.5 * (facts.datetime ? HOUR : 1);
  view.least = first - margin;
  view.most = last + margin;
  show(view.least, view.most);
}

// Nothing beyond the data, and no less than a few rows.
function show(from, to) {
  const whole = view.most - view.least;
  const span = Math.min(whole, Math.max(to - from, (3 * whole) / Math.max(3, series.time.length)));
  const middle = (from + to) / 2;
  view.from = Math.min(
    Math.max(to - from === span ? from : middle - span / 2, view.least),
    view.most - span,
  );
  view.to = view.from + span;
  redrawAll();
}

function zoom(factor, at = (view.from + view.to) / 2) {
  show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

const pan = (share) =>
  show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
const showAll = () => show(view.least, view.most);
const actions = {
  earlier: () => pan(-0.5),
  later: () => pan(0.5),
  closer: () => zoom(0.5),
  farther: () => zoom(2),
  all: showAll,
};

// First row at or after a time.
function rowAt(time, at) {
  let low = 0,
    high = time.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearestRow(time, at) {
  const after = Math.min(rowAt(time, at), time.length - 1);
  return after > 0 && at - time[after - 1] < time[after] - at ? after - 1 : after;
}
