// Error against the gap length as a picture: one line for each method.

// A range of lengths on a logarithmic axis; an open one ends at four times its start.
function ends({ start, stop }) {
  const end = (stop ?? 4 * start) || 1;
  return [start > 0 ? start : end / 4, end];
}

// Where things are in the picture, in its own units.
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
    "aria-label": `${data.name}: error against gap length; the table below has the figures`,
  });
  svg.append(...errorAxis(scales), ...gapAxis(data.gaps, scales));
  data.methods.forEach((method, number) => svg.append(...methodLine(data, scales, method, number)));
  return svg;
}

function errorAxis({ wide, left, most, y }) {
  const { ticks, step } = numberTicks(0, most, 5);
  const words = numberWords(step, most);
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
    const words = `${method}, ${gap.gap}: ${errorWords(at(gap, method))} (${gap.n} cells)`;
    dot.append(drawing("title", {}, words));
    return dot;
  });
  return [path, ...dots];
}
