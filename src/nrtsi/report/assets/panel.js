// One channel over time.

const panels = [];

function makePanel(index) {
  const name = facts.channels[index];
  const canvas = element("canvas", { tabindex: "0", role: "img" });
  const count = element("small");
  const cursor = element("div", { class: "cursor", hidden: "" });
  const figure = element(
    "figure",
    { class: "panel" },
    element("figcaption", {}, element("span", {}, name), count),
    canvas,
    cursor,
  );
  const panel = { index, name, canvas, count, cursor, figure, inSight: false };
  document.getElementById("panels").append(figure);
  handle(canvas, {
    span: () => [view.from, view.to],
    box: () => boxOf(canvas),
    point: (event, time) => hover(panel, event, time),
    step: (sign) => walk(panel, sign),
  });
  panels.push(panel);
}

const boxOf = (canvas) => ({
  left: 58,
  right: canvas.clientWidth - 10,
  top: 8,
  bottom: canvas.clientHeight - 30,
});

// Counts of the cells by state, beside the name and for screen readers.
function describe(panel) {
  const total = [0, 0, 0, 0];
  for (const kind of series.states[panel.index]) total[kind]++;
  const words = ["observed", "imputed", "refused", "left missing"];
  const many = new Intl.NumberFormat();
  const parts = words
    .map((word, kind) => (total[kind] ? `${many.format(total[kind])} ${word}` : ""))
    .filter(Boolean);
  panel.count.textContent = parts.slice(total[0] ? 1 : 0).join(", ") || "nothing missing";
  panel.canvas.setAttribute("aria-label", `${panel.name} over time: ${parts.join(", ")}`);
}

// Range of the visible values. Intervals extend it by at most its own size at each side, so that one
// very wide interval does not flatten the rest.
function heights({ value, lower, upper }, first, last) {
  let low = Infinity,
    high = -Infinity,
    deep = Infinity,
    top = -Infinity;
  for (let i = first; i < last; i++) {
    if (value[i] < low) low = value[i];
    if (value[i] > high) high = value[i];
    if (lower[i] < deep) deep = lower[i];
    if (upper[i] > top) top = upper[i];
  }
  if (low > high) return deep < top ? [deep, top] : [-1, 1];
  // Constant values get some height, from their intervals if there are any.
  const room = high > low ? high - low : Math.max(top - high, low - deep, 0.05);
  low = Math.max(Math.min(low, deep), low - (room < Infinity ? room : 0.05));
  high = Math.min(Math.max(high, top), high + (room < Infinity ? room : 0.05));
  const margin = high > low ? 0.06 * (high - low) : 0.05;
  return [low - margin, high + margin];
}

function drawPanel(panel) {
  const cells = series.channel(panel.index);
  const { pen } = penFor(panel.canvas);
  const box = boxOf(panel.canvas);
  const [first, last] = rowsInSight(series.time);
  const [low, high] = heights(cells, first, last);
  const across = box.right - box.left;
  const x = (time) => box.left + ((time - view.from) / (view.to - view.from)) * across;
  const y = (number) => box.bottom - ((number - low) / (high - low)) * (box.bottom - box.top);
  const flags = marks(cells.state, series.time, first, last, across);
  drawGaps(pen, box, flags);
  drawAxes(pen, box, cells, low, high, x, y);
  pen.save();
  pen.beginPath();
  pen.rect(box.left, 0, across, box.bottom + 1);
  pen.clip();
  const made =
    last - first > 1.5 * across ? summarise(cells, series.time, first, last, across) : null;
  if (made) drawColumns(pen, box, made, y);
  else drawRows(pen, cells, first, last, x, y, across);
  pen.restore();
  drawStrip(pen, box, flags, made);
  if (!panel.cursor.hidden) placeCursor(panel, cursorRow);
}

function drawGaps(pen, box, flags) {
  pen.fillStyle = theme.gap;
  for (const [start, stop] of columnRuns(flags, 3))
    pen.fillRect(box.left + start, box.top, stop - start, box.bottom - box.top);
  pen.fillStyle = theme.hatch;
  for (const [start, stop] of columnRuns(flags, REFUSED))
    pen.fillRect(box.left + start, box.top, stop - start, box.bottom - box.top);
}

function drawAxes(pen, box, { offset, scale }, low, high, x, y) {
  const real = [low, high].map((number) =>
    Math.max(-1.7e308, Math.min(1.7e308, offset + scale * number)),
  );
  const { ticks, step } = numberTicks(...real, (box.bottom - box.top) / 32);
  const words = valueFormatter(pen, box, ticks, step);
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const tick of ticks) {
    const at = Math.round(y((tick - offset) / scale)) + 0.5;
    line(pen, theme.grid, box.left, at, box.right, at);
    pen.fillStyle = theme.soft;
    pen.fillText(words(tick), box.left - 6, at, box.left - 8);
  }
  drawTimes(pen, box, x);
  line(pen, theme.line, box.left, box.bottom + 0.5, box.right, box.bottom + 0.5);
}

function drawTimes(pen, box, x) {
  pen.textBaseline = "top";
  pen.textAlign = "center";
  for (const { at, text } of timeTicks(view.from, view.to, box.right - box.left)) {
    const place = Math.round(x(at)) + 0.5;
    line(pen, theme.grid, place, box.top, place, box.bottom);
    timeLabel(pen, box, place, text);
  }
}

// Labels that are too long for the margin are differences to the lowest tick, shown in the corner.
function valueFormatter(pen, box, ticks, step) {
  const words = numberFormatter(step, Math.max(...ticks.map(Math.abs), step));
  if (Math.max(...ticks.map((tick) => pen.measureText(words(tick)).width)) <= 1.15 * (box.left - 8))
    return words;
  const [base] = ticks;
  pen.fillStyle = theme.soft;
  pen.textBaseline = "top";
  pen.textAlign = "left";
  pen.fillText(`from ${words(base)}`, box.left + 6, 0);
  const rest = numberFormatter(step, Math.max(ticks[ticks.length - 1] - base, step));
  return (tick) => (tick === base ? "0" : `+${rest(tick - base)}`);
}

function timeLabel(pen, box, place, text) {
  const half = pen.measureText(text).width / 2;
  if (place - half < box.left - 50 || place + half > box.right + 10) return;
  pen.fillStyle = theme.soft;
  pen.fillText(text, place, box.bottom + 13);
}

function line(pen, color, ...ends) {
  pen.strokeStyle = color;
  pen.beginPath();
  pen.moveTo(ends[0], ends[1]);
  pen.lineTo(ends[2], ends[3]);
  pen.stroke();
}

// Below the chart: which times were imputed, refused or left missing.
function drawStrip(pen, box, flags, made) {
  for (const [bit, color] of [
    [IMPUTED, theme.imputed],
    [3, theme.missing],
    [REFUSED, theme.refused],
  ]) {
    pen.fillStyle = color;
    if (made && bit === IMPUTED) drawShares(pen, box, made);
    else
      for (const [start, stop] of columnRuns(flags, bit))
        pen.fillRect(box.left + start, box.bottom + 3, stop - start, 5);
  }
}

// Paler where only some of the rows of a column were imputed.
function drawShares(pen, box, made) {
  for (let c = 0; c < made.wide; c++) {
    if (!made.imputed[c]) continue;
    pen.globalAlpha = 0.15 + (0.85 * made.imputed[c]) / (made.imputed[c] + made.observed[c]);
    pen.fillRect(box.left + c, box.bottom + 3, 1, 5);
  }
  pen.globalAlpha = 1;
}
