// Colours come from the style sheet, so that light, dark and paper are decided in one place.

const theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "paper",
    "ink",
    "soft",
    "line",
    "grid",
    "observed",
    "imputed",
    "band",
    "refused",
    "missing",
    "gap",
    "map-observed",
  ];
  for (const name of names) theme[name] = style.getPropertyValue(`--${name}`).trim();
  theme.hatch = hatch(theme.refused);
  theme.parts = colorParts([theme["map-observed"], theme.imputed, theme.refused, theme.missing]);
}

// Red, green, blue and opacity of colours, however the style sheet writes them.
function colorParts(colors) {
  const tile = element("canvas", { width: colors.length, height: 1 });
  const pen = tile.getContext("2d", { willReadFrequently: true });
  colors.forEach((color, i) => {
    pen.fillStyle = color;
    pen.fillRect(i, 0, 1, 1);
  });
  const { data } = pen.getImageData(0, 0, colors.length, 1);
  return colors.map((_, i) => data.slice(4 * i, 4 * i + 4));
}

function hatch(color) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1.2;
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}

// A pen for a canvas of the size it has on the screen, in CSS pixels.
function penFor(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, 'Liberation Sans', sans-serif";
  return { pen, width, height };
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
