// Lines over time, drawn as they come.

import { h, s, say } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 120;
const POINTS = 150;
// Width in points of a chart that has just begun.
const FEWEST = 30;

// The next round number above a value; of bytes these are powers of two.
function ceiling(value, isBinary) {
  if (value <= 0) return 1;
  if (isBinary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

export class Chart {
  // `series`: names of the lines; `form`: how a value is written; `isBinary`: values are bytes.
  constructor(title, series, form, isBinary) {
    this.form = form;
    this.isBinary = isBinary;
    this.series = series.map((name) => ({ name, values: [] }));
    this.times = [];
    this.max = h("span", { class: "chart-max" });
    this.legend = this.series.map((line, at) => {
      line.shown = h("b", {}, "–");
      line.area = s("path", { class: `area line-${at}` });
      line.path = s("path", { class: `line line-${at}` });
      return h("span", { class: "key" }, h("i", { class: `swatch line-${at}` }), line.name, " ", line.shown);
    });
    this.cursor = s("line", { class: "cursor", y1: 0, y2: HEIGHT, x1: -1, x2: -1 });
    const grid = [0.5, 1].map((part) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part }));
    this.drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
      grid, this.series.map((line) => [line.area, line.path]), this.cursor);
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.point(null));
    this.node = h("figure", { class: "chart" },
      h("figcaption", {}, h("span", { class: "chart-title" }, title), h("span", { class: "legend" }, this.legend)),
      h("div", { class: "plot" }, this.max, this.drawing));
  }

  push(values, at = Date.now()) {
    this.times.push(at);
    this.series.forEach((line, index) => line.values.push(values[index] ?? 0));
    if (this.times.length > POINTS) {
      this.times.shift();
      this.series.forEach((line) => line.values.shift());
    }
    this.draw();
  }

  slots() {
    return Math.max(FEWEST, this.times.length);
  }

  draw() {
    const top = ceiling(Math.max(...this.series.flatMap((line) => line.values)), this.isBinary);
    say(this.max, this.form(top));
    const step = WIDTH / (this.slots() - 1);
    const from = WIDTH - (this.times.length - 1) * step;
    for (const line of this.series) {
      const points = line.values.map((value, at) => `${(from + at * step).toFixed(1)},${(HEIGHT - (value / top) * (HEIGHT - 4)).toFixed(1)}`);
      line.path.setAttribute("d", `M${points.join("L")}`);
      line.area.setAttribute("d", `M${from.toFixed(1)},${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
      if (this.pointed === undefined) say(line.shown, this.form(line.values.at(-1)));
    }
  }

  // Shows the values below the pointer.
  point(event) {
    const box = event && this.drawing.getBoundingClientRect();
    const slot = event ? Math.round(((event.clientX - box.left) / box.width) * (this.slots() - 1)) : -1;
    const at = slot - (this.slots() - this.times.length);
    this.pointed = event && at >= 0 && at < this.times.length ? at : undefined;
    const x = this.pointed === undefined ? -1 : (slot * WIDTH) / (this.slots() - 1);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    for (const line of this.series) say(line.shown, line.values.length ? this.form(line.values.at(this.pointed ?? -1)) : "–");
  }
}

// A bar of what is used of a limit; without a limit only the number.
export function meter(used, most, form) {
  // Where there is no limit, some pages say the largest number there is.
  if (!(most > 0) || most >= 2 ** 60) return h("span", {}, form(used));
  const part = Math.min(1, used / most);
  return h("span", { class: "meter" },
    h("progress", { max: 1, value: part, class: part > 0.9 ? "bad" : part > 0.75 ? "warn" : "" }),
    h("span", {}, `${form(used)} of ${form(most)}`));
}

// Turns counters into rates.
export class Rates {
  constructor() {
    this.last = null;
  }

  // Change in a second of each counter since the last time; nothing the first time.
  of(counters, at = performance.now()) {
    const last = this.last;
    this.last = { counters, at };
    if (!last || at <= last.at) return null;
    return counters.map((value, index) => Math.max(0, ((value - last.counters[index]) * 1000) / (at - last.at)));
  }
}
