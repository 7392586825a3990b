// Error against the gap length, for one channel: a chart and a table.

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

const errorWords = (error) =>
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
      const text = errorWords(at(gap, method)) + (used.get(gap.gap) === method ? " ●" : "");
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
