// Mouse, touch and keyboard of a canvas. `span` returns its time range and `box` its pixels; `point`
// is called with the position of the pointer, or null; `step` moves to the next row; `overview` is
// true if the canvas always shows the whole time range.
function handle(canvas, handlers) {
  canvas.addEventListener("blur", () => handlers.point(null));
  canvas.addEventListener("dblclick", showAll);
  canvas.addEventListener("wheel", (event) => turnWheel(canvas, handlers, event), { passive: false });
  canvas.addEventListener("keydown", (event) => pressKey(handlers, event));
  handleDrags(canvas, handlers);
}

function timeUnder(canvas, { box, span }, event) {
  const { left, right } = box();
  const [from, to] = span();
  const x = event.clientX - canvas.getBoundingClientRect().left;
  return from + ((Math.min(Math.max(x, left), right) - left) / (right - left)) * (to - from);
}

function turnWheel(canvas, handlers, event) {
  // Otherwise the wheel scrolls the page, which would be impossible over a column of charts.
  if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
  event.preventDefault();
  const turned = event.deltaY * (event.deltaMode ? 30 : 1); // by lines or by pixels
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / 1000);
  else zoom(1.0015 ** Math.max(-400, Math.min(400, turned)), timeUnder(canvas, handlers, event));
}

function pressKey({ point, step }, event) {
  const sign = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const keys = { "+": "closer", "=": "closer", "-": "farther", 0: "all" };
  if (event.key === "Escape") point(null);
  if (event.ctrlKey || event.metaKey || event.altKey || !(sign || event.key in keys)) return;
  event.preventDefault();
  if (!sign) actions[keys[event.key]]();
  else if (event.shiftKey || !step) pan(sign / 4);
  else step(sign);
}

// A drag selects a time range to zoom to; with Shift or one finger it pans; two fingers zoom.
function handleDrags(canvas, handlers) {
  const pick = element("div", { class: "pick", hidden: "" });
  canvas.parentElement.append(pick);
  const timeAt = (event) => timeUnder(canvas, handlers, event);
  const fingers = new Map();
  let start = null;

  const pinch = () => {
    const [a, b] = [...fingers.values()];
    const spacing = Math.max(10, Math.abs(a.clientX - b.clientX));
    if (start.spacing) zoom(start.spacing / spacing, timeAt(a));
    start.spacing = spacing;
  };
  const end = (event) => {
    fingers.delete(event.pointerId);
    const [was, picked] = [start, !pick.hidden];
    pick.hidden = true;
    if (!fingers.size) start = null;
    if (!was || event.type !== "pointerup") return;
    if (picked) show(...[was.time, timeAt(event)].sort((a, b) => a - b));
    else if (Math.abs(event.clientX - was.x) < 4) handlers.point(event, timeAt(event)); // a finger's hover
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    const moves = event.shiftKey || (event.pointerType === "touch" && !handlers.overview);
    start = { time: timeAt(event), x: event.clientX, from: view.from, to: view.to, moves };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (!start) return handlers.point(event, timeAt(event));
    handlers.point(null);
    if (fingers.size === 2) return pinch();
    return start.moves
      ? move(handlers, start, event)
      : placePick(pick, canvas, handlers, start, timeAt(event));
  });
  canvas.addEventListener(
    "pointerleave",
    (event) => event.pointerType === "touch" || handlers.point(null),
  );
  for (const type of ["pointerup", "pointercancel"]) canvas.addEventListener(type, end);
}

// On a chart the data follow the pointer; on the map the frame does.
function move({ box, span, overview }, start, event) {
  const { left, right } = box();
  const [from, to] = overview ? span() : [start.to, start.from];
  const shift = ((event.clientX - start.x) / (right - left)) * (to - from);
  show(start.from + shift, start.to + shift);
}

function placePick(pick, canvas, { box, span }, start, time) {
  const { left, right } = box();
  const [from, to] = span();
  const pixel = (at) => left + ((at - from) / (to - from)) * (right - left);
  const [low, high] = [pixel(start.time), pixel(time)].sort((a, b) => a - b);
  pick.hidden = high - low < 4;
  pick.style.left = `${low}px`;
  pick.style.width = `${high - low}px`;
  pick.style.top = `${canvas.offsetTop}px`;
}
