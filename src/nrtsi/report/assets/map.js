// The map of missing cells: a line per channel over all times, and a frame around the range of the charts.

const map = {
  canvas: document.getElementById("map"),
  frame: element("div", { class: "window", hidden: "" }),
};

const rowHeight = () => Math.max(2, Math.min(18, 640 / facts.channels.length));
const mapBox = () => ({
  left: rowHeight() >= 11 ? Math.min(150, map.canvas.clientWidth * 0.28) : 10,
  right: map.canvas.clientWidth - 10,
  top: 2,
  bottom: 2 + rowHeight() * facts.channels.length,
});

function makeMap() {
  map.canvas.parentElement.append(map.frame);
  handle(map.canvas, {
    overview: true,
    span: () => [view.least, view.most],
    box: mapBox,
    point: (event, time) =>
      event ? showTip(describeMapCell(event, time), event.clientX, event.clientY) : hideTip(),
  });
}

function describeMapCell(event, time) {
  const y = event.clientY - map.canvas.getBoundingClientRect().top - mapBox().top;
  const channel = Math.min(Math.max(0, Math.floor(y / rowHeight())), facts.channels.length - 1);
  if (!series.time.length) return facts.channels[channel];
  const row = nearestRow(series.time, time);
  return `${facts.channels[channel]}\n${formatTime(series.time[row], view.most - view.least)}: ${STATES[series.states[channel][row]]}`;
}

function drawMap() {
  map.canvas.style.height = `${Math.ceil(mapBox().bottom + 24)}px`;
  const { pen } = penFor(map.canvas);
  const box = mapBox();
  const across = box.right - box.left;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(mapPicture(Math.ceil(across)), box.left, box.top, across, box.bottom - box.top);
  if (rowHeight() > 5) separate(pen, box);
  if (rowHeight() >= 11) nameLines(pen, box);
  pen.textBaseline = "top";
  pen.textAlign = "center";
  for (const { at, text } of timeTicks(view.least, view.most, across)) {
    const place = box.left + ((at - view.least) / (view.most - view.least)) * across;
    line(pen, theme.line, place, box.bottom, place, box.bottom + 4);
    timeLabel(pen, { ...box, bottom: box.bottom - 6 }, place, text);
  }
}

// One pixel for each channel and column, to be stretched: rectangles would be half a million.
function mapPicture(wide) {
  const picture = element("canvas", { width: wide, height: facts.channels.length });
  const pen = picture.getContext("2d");
  const image = pen.createImageData(wide, facts.channels.length);
  series.states.forEach((state, channel) => {
    const count = columnCounts(state, series.time, wide);
    for (let c = 0; c < wide; c++)
      paint(image.data, 4 * (channel * wide + c), count, c, theme.parts);
  });
  pen.putImageData(image, 0, 0);
  return picture;
}

// The colour of observed, mixed with that of each other state by its share of the cells here.
function paint(data, place, count, column, colors) {
  const total = count[0][column] + count[1][column] + count[2][column] + count[3][column];
  if (!total) return;
  data.set(colors[0], place);
  for (const kind of [1, 3, 2]) {
    if (!count[kind][column]) continue;
    // A single missing cell among a thousand rows must still be seen.
    const share = 0.06 + 0.94 * (count[kind][column] / total) ** 0.6;
    for (let part = 0; part < 3; part++)
      data[place + part] += share * (colors[kind][part] - data[place + part]);
  }
}

// How many cells of each state fall into each column. Where rows are rarer than pixels, a row
// stands for the time around it.
function columnCounts(state, time, wide) {
  const count = [0, 1, 2, 3].map(() => new Uint32Array(wide));
  const scale = wide / (view.most - view.least);
  const half =
    time.length > 1
      ? (((time[time.length - 1] - time[0]) / (time.length - 1)) * scale) / 2
      : wide / 2;
  for (let i = 0; i < state.length; i++) {
    const at = (time[i] - view.least) * scale;
    const start = Math.max(
      0,
      Math.min(wide - 1, half < 0.5 ? Math.floor(at) : Math.round(at - half)),
    );
    const stop =
      half < 0.5 ? start + 1 : Math.min(wide, Math.max(start + 1, Math.round(at + half)));
    for (let column = start; column < stop; column++) count[state[i]][column]++;
  }
  return count;
}

function separate(pen, box) {
  pen.fillStyle = theme.paper;
  for (let at = box.top + rowHeight(); at < box.bottom + 1; at += rowHeight())
    pen.fillRect(box.left, at - 2, box.right - box.left, 2);
}

function nameLines(pen, box) {
  pen.fillStyle = theme.ink;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  facts.channels.forEach((name, channel) => {
    pen.fillText(
      shorten(pen, name, box.left - 12),
      box.left - 8,
      box.top + (channel + 0.5) * rowHeight() - 0.5,
    );
  });
}

function shorten(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let kept = text.slice(0, 60);
  while (kept && pen.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}

// The frame shows where the charts below are, unless they show everything.
function frameMap() {
  const box = mapBox();
  const pixel = (time) =>
    box.left + ((time - view.least) / (view.most - view.least)) * (box.right - box.left);
  map.frame.hidden = view.to - view.from >= 0.999 * (view.most - view.least);
  map.frame.style.left = `${pixel(view.from) - 2}px`;
  map.frame.style.width = `${Math.max(6, pixel(view.to) - pixel(view.from) + 4)}px`;
  map.frame.style.height = `${box.bottom + 1}px`;
}
