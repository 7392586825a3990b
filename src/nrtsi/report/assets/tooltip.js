// The tooltip: state, value and interval of the cell next to the pointer.
const STATES = ["observed", "imputed", "refused", "left missing"];
let cursorRow = -1;

function hover(panel, event, time) {
  if (!event || !series.time.length) return hideTip();
  return point(panel, nearestRow(series.time, time), event.clientX, event.clientY);
}

function walk(panel, sign) {
  const time = series.time;
  const inSight = cursorRow >= 0 && time[cursorRow] >= view.from && time[cursorRow] <= view.to;
  const row = inSight ? cursorRow + sign : nearestRow(time, (view.from + view.to) / 2);
  const next = Math.min(Math.max(row, 0), time.length - 1);
  if (time[next] < view.from || time[next] > view.to) pan(sign / 2);
  const frame = panel.canvas.getBoundingClientRect();
  point(panel, next, frame.left + pixelOf(panel.canvas, time[next]), frame.top + 20);
}

function pixelOf(canvas, time) {
  const { left, right } = boxOf(canvas);
  return left + ((time - view.from) / (view.to - view.from)) * (right - left);
}

function point(panel, row, clientX, clientY) {
  cursorRow = row;
  for (const each of panels) if (each.inSight) placeCursor(each, row);
  showTip(describeCell(panel, row), clientX, clientY);
}

function placeCursor(panel, row) {
  panel.cursor.hidden = false;
  panel.cursor.style.left = `${pixelOf(panel.canvas, series.time[row])}px`;
  panel.cursor.style.top = `${panel.canvas.offsetTop}px`;
}

function describeCell(panel, row) {
  const cells = series.channel(panel.index);
  const kind = cells.state[row];
  const lines = [formatTime(series.time[row], view.most - view.least)];
  lines.push(
    kind <= IMPUTED
      ? `${panel.name}: ${formatValue(cells, cells.value[row], kind === OBSERVED)} (${STATES[kind]})`
      : `${panel.name}: ${STATES[kind]}`,
  );
  const { [row]: low } = cells.lower,
    { [row]: high } = cells.upper;
  if (low <= high) {
    const level = new Intl.NumberFormat(undefined, {
      style: "percent",
      maximumFractionDigits: 1,
    }).format(facts.level);
    lines.push(`${level} interval: ${formatValue(cells, low)} to ${formatValue(cells, high)}`);
  }
  return lines.join("\n");
}

const tip = document.getElementById("tip");

function showTip(text, clientX, clientY) {
  tip.textContent = text;
  tip.hidden = false;
  const left =
    clientX + 14 + tip.offsetWidth > innerWidth ? clientX - 14 - tip.offsetWidth : clientX + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.min(Math.max(4, clientY + 14), innerHeight - tip.offsetHeight - 4)}px`;
}

function hideTip() {
  tip.hidden = true;
  for (const panel of panels) panel.cursor.hidden = true;
}
