// Decodes the arrays of the page (`encoding.py`). A value is offset + scale · number.

const tree = (name) => JSON.parse(document.getElementById(name).textContent);

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

const floats = (text) => new Float32Array(bytes(text).buffer);

function times(packed, rows) {
  if (packed.all !== undefined) return new Float64Array(bytes(packed.all).buffer);
  return Float64Array.from({ length: rows }, (_, i) => packed.start + i * packed.step);
}

// Only cells that were not observed have an interval, and the page carries no others.
function spread(text, state) {
  const some = floats(text);
  const all = new Float32Array(state.length).fill(NaN);
  for (let i = 0, next = 0; i < state.length; i++) if (state[i]) all[i] = some[next++];
  return all;
}

// A series of the page. A channel's arrays are made when they are first asked for.
function readSeries(number) {
  const packed = tree(`series-${number}`);
  const made = [];
  const states = packed.channels.map((channel) => bytes(channel.state));
  return {
    time: times(packed.time, packed.rows),
    states,
    channel(index) {
      const { offset, scale, value, lower, upper } = packed.channels[index];
      const state = states[index];
      made[index] ??= {
        offset,
        scale,
        state,
        value: floats(value),
        lower: spread(lower, state),
        upper: spread(upper, state),
      };
      return made[index];
    },
  };
}
