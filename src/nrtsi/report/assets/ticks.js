// Positions and labels of ticks, in the language of the viewer.

const SECOND = 1000,
  MINUTE = 60 * SECOND,
  HOUR = 60 * MINUTE,
  DAY = 24 * HOUR;
const MONTH = 30.4375 * DAY,
  YEAR = 365.25 * DAY;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 4, 7, 14].map((n) => n * DAY),
  ...[1, 2, 3, 6].map((n) => n * MONTH),
];

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((n) => n * power >= rough * 0.999);
}

function numberTicks(low, high, count) {
  const step = niceStep(Math.max(high / count - low / count, 1e-310)); // each alone: no overflow
  const first = Math.ceil(low / step - 1e-9);
  const ticks = [];
  for (let k = first; k * step <= high + step * 1e-9 && ticks.length < 50; k++)
    ticks.push(k * step);
  return { ticks, step };
}

// Formats numbers up to `largest` with a resolution of `step`.
function numberFormatter(step, largest) {
  const far = largest >= 1e15 || (largest >= 1e7 && step >= 1e3) || (largest < 1e-3 && step < 1e-5);
  const places = Math.min(20, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  const digits = Math.min(8, Math.max(0, Math.ceil(Math.log10(largest / step) - 1e-9))) || 0;
  const format = new Intl.NumberFormat(
    undefined,
    far
      ? { notation: "scientific", maximumFractionDigits: digits }
      : { maximumFractionDigits: places },
  );
  return (value) => (value === 0 ? "0" : format.format(value)); // not -0 or 0E0
}

const dateFormatter = (options) => {
  const format = new Intl.DateTimeFormat(undefined, { timeZone: "UTC", ...options });
  return (time) => (Math.abs(time) <= 8.64e15 ? format.format(time) : String(time));
};
const wholeDate = dateFormatter({ year: "numeric", month: "short", day: "numeric" });
const dayMonth = dateFormatter({ month: "short", day: "numeric" });
const monthOnly = dateFormatter({ month: "short" });
const yearOnly = dateFormatter({ year: "numeric" });
const hourMinute = dateFormatter({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const toSecond = dateFormatter({
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const toMilli = dateFormatter({ minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

// Months and years have no fixed length: they are counted, not added up.
function calendarTicks(low, high, months) {
  const start = new Date(low);
  const ticks = [];
  let month = Math.floor((start.getUTCFullYear() * 12 + start.getUTCMonth()) / months) * months;
  for (; ticks.length < 100; month += months) {
    const date = new Date(0);
    date.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
    if (date > high) return ticks;
    if (date >= low) ticks.push(+date);
  }
  return ticks;
}

function dateTicks(low, high, count) {
  const rough = (high - low) / count;
  const step = STEPS.find((each) => each >= rough) ?? niceStep(rough / YEAR) * YEAR;
  if (step >= MONTH) {
    return { ticks: calendarTicks(low, high, Math.max(1, Math.round(step / MONTH))), step };
  }
  // 1970 began on a Thursday; weeks begin on Mondays.
  const shift = step >= 7 * DAY ? 4 * DAY : 0;
  const first = Math.ceil((low - shift) / step);
  const ticks = [];
  for (let k = first; k * step + shift <= high && ticks.length < 100; k++)
    ticks.push(k * step + shift);
  return { ticks, step };
}

// A label names what changes at the tick: the day at midnight, the year in January.
function dateLabel(time, step) {
  const date = new Date(time);
  if (step >= 12 * MONTH * 0.99) return yearOnly(time);
  const newYear = date.getUTCMonth() === 0 && date.getUTCDate() === 1 && time % DAY === 0;
  if (step >= MONTH) return newYear ? yearOnly(time) : monthOnly(time);
  if (time % DAY === 0) return newYear ? wholeDate(time) : dayMonth(time);
  if (step >= MINUTE) return hourMinute(time);
  return step >= SECOND ? toSecond(time) : toMilli(time);
}

function timeTicks(low, high, width) {
  if (!facts.datetime) {
    const { ticks, step } = numberTicks(low, high, Math.max(2, width / 90));
    const words = numberFormatter(step, Math.max(Math.abs(low), Math.abs(high)));
    return ticks.map((at) => ({ at, text: words(at) }));
  }
  const { ticks, step } = dateTicks(low, high, Math.max(2, width / 80));
  return ticks.map((at) => ({ at, text: dateLabel(at, step) }));
}

// A time in full, as precise as the time range requires.
function formatTime(time, span) {
  if (!facts.datetime)
    return numberFormatter(Math.max(span, 1e-300) * 1e-4, Math.max(Math.abs(time), span))(time);
  const day = wholeDate(time);
  if (time % MINUTE === 0)
    return time % DAY === 0 && span > 40 * DAY ? day : `${day}, ${hourMinute(time)}`;
  return time % SECOND === 0
    ? `${day}, ${toSecond(time)}`
    : `${day}, ${hourMinute(time)}:${((((time % MINUTE) + MINUTE) % MINUTE) / SECOND).toFixed(3).padStart(6, "0")}`;
}

// A value of a channel, with six digits of its range if observed (32 bits resolve them)
// and four if imputed.
function formatValue({ offset, scale }, number, measured) {
  if (!Number.isFinite(number)) return "–";
  const step = Math.max(10 ** (Math.floor(Math.log10(scale)) - (measured ? 5 : 3)), 1e-320);
  const value = offset + scale * number;
  const words = numberFormatter(step, Math.max(Math.abs(value), scale));
  return words(Math.abs(value) < step / 2 ? 0 : value);
}
