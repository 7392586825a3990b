// Errors of one channel by gap length: a chart with a line per method, and a table.

// A range of lengths on a logarithmic axis; an open one ends at four times its start.
function ends({ start, stop }) {
  const end = (stop ?? 4 * start) || 1;
  return [start > 0 ? start : end / 4, end];
}

// Scales of the chart, in its own units.
function chartScales({ methods, gaps, at }) {
  const [wide, tall, left, bottom] = [innerWidth < 600 ? 380 : 760, 270, 54, 235];
  const low = Math.log(Math.min(...gaps.map((gap) => ends(gap)[0])));
  const high = Math.log(Math.max(...gaps.map((gap) => ends(gap)[1])));
  const part = (length) => (high > low ? (Math.log(length) - low) / (high - low) : 0.5);
  const x = (length) => left + 20 + part(length) * (wide - left - 50);
  const middle = (gap) => x(Math.sqrt(ends(gap)[0] * ends(gap)[1]));
  const errors = gaps.flatMap((gap) => methods.map((method) => at(gap, method) || 0));
  const most = 1.05 * Math.max(...errors) || 1;
  const y = (error) => bottom - (error / most) * (bottom - 12);
  return { wide, tall, left, bottom, most, x, y, middle };
}

function errorChart(data) {
  const scales = chartScales(data);
  const svg = drawing("svg", {
    class: "errors",
    viewBox: `0 0 ${scales.wide} ${scales.tall}`,
    role: "img",
    "aria-label": `${data.name}: error by gap length; the table below has the figures`,
  });
  svg.append(...errorAxis(scales), ...gapAxis(data.gaps, scales));
  data.methods.forEach((method, number) => svg.append(...methodLine(data, scales, method, number)));
  return svg;
}

function errorAxis({ wide, left, most, y }) {
  const { ticks, step } = numberTicks(0, most, 5);
  const words = numberFormatter(step, most);
  return ticks.flatMap((tick) => [
    drawing("line", { class: "grid", x1: left, x2: wide, y1: y(tick), y2: y(tick) }),
    drawing("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, words(tick)),
  ]);
}

// The ends of the ranges, without those that would overlap.
function gapAxis(gaps, { wide, left, bottom, x }) {
  const parts = [drawing("line", { class: "axis", x1: left, x2: wide, y1: bottom, y2: bottom })];
  const ticks = gaps.flatMap((gap) => [
    [x(ends(gap)[0]), gap.labels[0]],
    [x(ends(gap)[1]), gap.stop === null ? "∞" : gap.labels[1]],
  ]);
  let last = -Infinity;
  for (const [place, text] of ticks.sort((a, b) => a[0] - b[0])) {
    if (place - last < 44) continue;
    last = place;
    parts.push(
      drawing("line", { class: "axis", x1: place, x2: place, y1: bottom, y2: bottom + 5 }),
    );
    parts.push(drawing("text", { x: place, y: bottom + 21, "text-anchor": "middle" }, text));
  }
  return parts;
}

function methodLine({ gaps, used, at }, { y, middle }, method, number) {
  const known = gaps.filter((gap) => Number.isFinite(at(gap, method)));
  const corners = known.map((gap) => `${middle(gap).toFixed(1)} ${y(at(gap, method)).toFixed(1)}`);
  const path = drawing("path", {
    class: `method ${look(number)}`,
    d: `M${corners.join("L") || "0 0"}`,
  });
  const dots = known.map((gap) => {
    const chosen = used.get(gap.gap) === method;
    const place = { cx: middle(gap), cy: y(at(gap, method)), r: chosen ? 5 : 3.5 };
    const dot = drawing("circle", {
      class: `dot m${number % 9}${chosen ? " used" : ""}`,
      ...place,
    });
    const words = `${method}, ${gap.gap}: ${formatError(at(gap, method))} (${gap.n} cells)`;
    dot.append(drawing("title", {}, words));
    return dot;
  });
  return [path, ...dots];
}

const measure = document.getElementById("measure");
let chosen = -1;

function drawing(tag, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function makeErrors() {
  const buttons = document.querySelectorAll("#scores button[data-channel]");
  for (const button of buttons)
    button.addEventListener("click", () => chooseChannel(Number(button.dataset.channel)));
  measure.addEventListener("change", () => {
    document.getElementById("scores").className = `show-${measure.value}`;
    chooseChannel(chosen);
  });
  if (buttons.length) chooseChannel(Number(buttons[0].dataset.channel));
  else measure.parentElement.hidden = true;
}

function chooseChannel(channel) {
  chosen = channel;
  for (const button of document.querySelectorAll("#scores button[data-channel]")) {
    const mine = Number(button.dataset.channel) === channel;
    button.closest("tr").classList.toggle("chosen", mine);
    button.setAttribute("aria-pressed", mine);
  }
  const scores = facts.scores.filter((score) => score.channel === channel && score.n > 0);
  const methods = [...new Set(facts.scores.map((score) => score.method))];
  const gaps = [...new Map(scores.map((score) => [score.gap, score])).values()].sort(
    (a, b) => a.start - b.start,
  );
  const found = new Map(scores.map((score) => [`${score.gap}\n${score.method}`, score]));
  const used = new Map(
    facts.methods.filter((c) => c.channel === channel).map((c) => [c.gap, c.method]),
  );
  const data = {
    name: facts.channels[channel],
    methods,
    gaps,
    used,
    at: (gap, method) => found.get(`${gap.gap}\n${method}`)?.[measure.value] ?? NaN,
  };
  document
    .getElementById("by-gap")
    .replaceChildren(
      element("h3", {}, `${data.name}, by gap length`),
      errorChart(data),
      errorKey(data),
      errorTable(data),
    );
}

const look = (number) =>
  `m${number % 9} d${(Math.floor(number / 3) + Math.floor(number / 9)) % 3}`;

function errorKey({ methods, used }) {
  const items = methods.map((method, number) => {
    const sample = drawing("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" });
    sample.append(drawing("path", { class: `method ${look(number)}`, d: "M0 6h34", fill: "none" }));
    return element("li", {}, sample, method);
  });
  const note = used.size ? [element("li", {}, "● method used")] : [];
  return element("ul", { class: "key" }, ...items, ...note);
}

const formatError = (error) =>
  Number.isFinite(error)
    ? new Intl.NumberFormat(undefined, {
        maximumSignificantDigits: 3,
        notation: error && (error < 1e-4 || error >= 1e7) ? "scientific" : "standard",
      }).format(error)
    : "–";

function errorTable({ name, methods, gaps, used, at }) {
  const heads = ["Gap", ...methods, "Cells"].map((text, i) =>
    element("th", { scope: "col", class: i ? "number" : "" }, text),
  );
  const lines = gaps.map((gap) => {
    const best = Math.min(...methods.map((method) => at(gap, method)).filter(Number.isFinite));
    const cells = methods.map((method) => {
      const text = formatError(at(gap, method)) + (used.get(gap.gap) === method ? " ●" : "");
      return numberCell(at(gap, method) === best ? element("strong", {}, text) : text);
    });
    const length = element("th", { scope: "row" }, gap.gap);
    return element("tr", {}, length, ...cells, numberCell(new Intl.NumberFormat().format(gap.n)));
  });
  const head = element("thead", {}, element("tr", {}, ...heads));
  const table = element("table", {}, head, element("tbody", {}, ...lines));
  const label = `${name}: error by gap length`;
  return element(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": label },
    table,
  );
}

const numberCell = (content) => element("td", { class: "number" }, content);
