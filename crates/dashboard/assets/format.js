// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function scaled(value, step, units) {
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= step && unit < units.length - 1) {
    rest /= step;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 100 ? 0 : rest >= 10 ? 1 : 2;
  return `${value < 0 ? "-" : ""}${rest.toFixed(digits)}${units[unit]}`;
}

// Every digit, in groups of three.
export function count(value) {
  return value === undefined || value === null ? "–" : whole.format(value);
}

// Three digits and a unit.
export function short(value) {
  if (value === undefined || value === null) return "–";
  if (Math.abs(value) < 10 && !Number.isInteger(value)) return value.toFixed(1);
  return scaled(value, 1000, ["", "k", "M", "G", "T", "P"]);
}

export function bytes(value) {
  return value === undefined || value === null ? "–" : scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}

// A limit, of which -1 (and often 0) is none.
export function limit(value, form = count) {
  return value === undefined || value === null || value <= 0 ? "no limit" : form(value);
}

// Seconds in two units at most.
export function seconds(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value > 0 && value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${Math.max(0, Math.round(value * 1000))} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const at = units.findIndex(([size]) => value >= size);
  const [size, unit] = units[at];
  const first = `${Math.floor(value / size)}${unit}`;
  if (at === units.length - 1) return first;
  const [next, nextUnit] = units[at + 1];
  const rest = Math.floor((value % size) / next);
  return rest > 0 ? `${first} ${rest}${nextUnit}` : first;
}

export function nanoseconds(value) {
  return value === undefined || value === null ? "–" : seconds(value / 1e9);
}

// "1m2s" as Go writes it, in seconds.
export function duration(text) {
  const units = { y: 31536000, d: 86400, h: 3600, m: 60, s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9 };
  return [...(text ?? "").matchAll(/([\d.]+)(ms|µs|ns|[ydhms])/g)].reduce((sum, [, value, unit]) => sum + Number(value) * units[unit], 0);
}

// A moment of the server, of which year 1 is never.
export function moment(text) {
  const at = text ? Date.parse(text) : NaN;
  return Number.isNaN(at) || at <= 0 ? null : at;
}

export function ago(text, now = Date.now()) {
  const at = moment(text);
  return at === null ? "never" : `${seconds(Math.max(0, now - at) / 1000)} ago`;
}

// A moment in the reader's time, to the millisecond.
export function clock(text) {
  const at = moment(text);
  if (at === null) return "never";
  const date = new Date(at);
  const two = (n, width = 2) => String(n).padStart(width, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `
    + `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

// Bytes as text if they are text, else nothing.
export function text(data) {
  try {
    const decoded = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return /[\u0000-\u0008\u000e-\u001f]/.test(decoded) ? null : decoded;
  } catch {
    return null;
  }
}

// A payload to look at: JSON with its structure, text, or bytes with their numbers.
export function payload(data, most = 65536) {
  const cut = data.length > most;
  const shown = cut ? data.subarray(0, most) : data;
  const decoded = text(shown);
  const rest = cut ? `\n… ${count(data.length - most)} more bytes` : "";
  if (decoded === null) return { kind: "binary", text: dump(shown.subarray(0, 4096)) + (data.length > 4096 ? "\n…" : "") };
  if (!cut && /^\s*[[{]/.test(decoded)) {
    try {
      return { kind: "json", text: JSON.stringify(JSON.parse(decoded), null, 2) };
    } catch {
      // It only begins like JSON.
    }
  }
  return { kind: "text", text: decoded + rest };
}

function dump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const chars = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex}  ${chars}`);
  }
  return lines.join("\n");
}

// The beginning of a payload on one line.
export function preview(data, most = 200) {
  const decoded = text(data.subarray(0, most * 4));
  if (decoded === null) return `binary, ${bytes(data.length)}`;
  const line = decoded.replace(/\s+/g, " ");
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
