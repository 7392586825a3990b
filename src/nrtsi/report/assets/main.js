// Builds the page, and redraws the visible charts after a change.

performance.mark("nrtsi:start");
const facts = tree("facts");
let series = null;
let waiting = false;

function redrawAll() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    performance.mark("nrtsi:draw");
    for (const panel of panels) if (panel.inSight) drawPanel(panel);
    frameMap();
    showRange();
    performance.clearMeasures("nrtsi:drawn");
    performance.measure("nrtsi:drawn", "nrtsi:draw");
    performance.clearMarks("nrtsi:draw");
  });
}

function showRange() {
  const range = document.getElementById("range");
  const span = view.most - view.least;
  const { time } = series;
  const [first, last] = [rowAt(time, view.from), rowAt(time, view.to) - 1];
  const words =
    first <= last
      ? `${formatTime(time[first], span)} – ${formatTime(time[last], span)}`
      : "between two rows";
  range.textContent = time.length ? words + (facts.zone ? ` (${facts.zone})` : "") : "no rows";
  Object.assign(range.dataset, { from: view.from, to: view.to });
}

function chooseSeries(number) {
  series = readSeries(number);
  cursorRow = -1;
  panels.forEach(describe);
  resetView(series.time);
  drawMap();
}

function makeSelector() {
  const select = document.getElementById("series");
  facts.series.forEach((id, number) => select.append(element("option", { value: number }, id)));
  select.addEventListener("change", () => chooseSeries(Number(select.value)));
  document.getElementById("series-label").hidden = facts.series.length < 2;
}

// Charts are drawn when they become visible and freed when they no longer are: three hundred of them
// would take a gigabyte.
function watchPanels() {
  const owner = new Map(panels.map((panel) => [panel.figure, panel]));
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const panel = owner.get(target);
        panel.inSight = isIntersecting;
        if (isIntersecting) drawPanel(panel);
        else if (panel.drawn) panel.canvas.width = panel.canvas.height = 1;
        panel.drawn = isIntersecting;
      }
    },
    { rootMargin: "300px 0px" },
  );
  for (const panel of panels) watcher.observe(panel.figure);
}

// Called for every change of size, of which only a change of width matters.
function widthWatcher() {
  let width = map.canvas.clientWidth;
  return () => {
    if (map.canvas.clientWidth === width) return;
    width = map.canvas.clientWidth;
    redrawEverything();
  };
}

function redrawEverything() {
  readTheme();
  drawMap();
  if (chosen >= 0) chooseChannel(chosen);
  redrawAll();
}

// The printed page is light and has every chart, up to a limit.
function prepareForPaper(printing) {
  document.documentElement.classList.toggle("printing", printing);
  readTheme();
  drawMap();
  for (const panel of panels.slice(0, 60)) if (printing || panel.inSight) drawPanel(panel);
}

function start() {
  document.documentElement.classList.add("script");
  readTheme();
  makeErrors();
  if (!facts.series.length || !facts.channels.length) {
    for (const id of ["map-title", "channels-title"])
      document.getElementById(id).parentElement.hidden = true;
    return;
  }
  makeSelector();
  makeMap();
  facts.channels.forEach((_, index) => makePanel(index));
  chooseSeries(0);
  watchPanels();
  for (const button of document.querySelectorAll("[data-act]"))
    button.addEventListener("click", actions[button.dataset.act]);
  new ResizeObserver(widthWatcher()).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawEverything);
  addEventListener("beforeprint", () => prepareForPaper(true));
  addEventListener("afterprint", () => prepareForPaper(false));
}

start();
requestAnimationFrame(() => setTimeout(() => performance.measure("nrtsi:opened", "nrtsi:start")));
