// A table of any length: sorted by its heads, searched, and only as many rows in the page as are
// seen.

import { h, say, set } from "./dom.js";
import { count } from "./format.js";

const ROW = 33;
const SPARE = 12;

function compare(a, b) {
  if (typeof a === "string" || typeof b === "string") {
    return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
  }
  return (a ?? 0) - (b ?? 0);
}

export class Table {
  // Columns are `{ name, value(row), show(row)?, number?, wide?, minor? }`: `value` is what is sorted
  // and searched by, `show` what is seen, `minor` is left out on narrow screens. `link(row)` is
  // where a row leads, `key(row)` what it is called.
  constructor({ columns, key, link, open, label, nothing, sort = 0, descending = false, onvisible }) {
    Object.assign(this, { columns, key, link, open, nothing, sort, descending, onvisible });
    this.rows = [];
    this.found = [];
    // Whether the rows are those that there are: before they have come, nobody knows that there are none.
    this.isKnown = false;
    this.search = h("input", {
      type: "search", placeholder: `Search ${label}  ( / )`, "aria-label": `Search ${label}`, class: "search",
      onkeydown: (event) => {
        if (event.key !== "ArrowDown") return;
        event.preventDefault();
        this.body.querySelector("tr[data-key] .open")?.focus();
      },
      oninput: () => { this.arrange(); this.scroller.scrollTop = 0; this.draw(); }, spellcheck: "false", autocapitalize: "off",
    });
    this.counted = h("span", { class: "muted counted", role: "status" });
    this.heads = columns.map((column, at) => h("th", { scope: "col", class: this.classes(column) },
      h("button", { type: "button", onclick: () => this.by(at) }, column.name)));
    this.above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.body = h("tbody");
    this.table = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.message = h("div", { class: "table-empty" });
    this.scroller = h("div", { class: "scroller", onscroll: () => this.draw(), onkeydown: (event) => this.moved(event) }, this.table, this.message);
    this.tools = h("div", { class: "tools" }, this.search, this.counted);
    this.node = h("div", { class: "table" }, this.tools, this.scroller);
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.mark();
  }

  classes(column) {
    return [column.number && "number", column.wide && "wide", column.minor && "minor", column.mono && "mono"].filter(Boolean).join(" ");
  }

  by(at) {
    this.descending = this.sort === at ? !this.descending : Boolean(this.columns[at].number);
    this.sort = at;
    this.mark();
    this.arrange();
    this.draw();
  }

  mark() {
    this.heads.forEach((head, at) => {
      if (at === this.sort) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  // Shows these rows; `total` is how many there are, if not all have come.
  update(rows, total = rows.length) {
    this.isKnown = true;
    this.rows = rows;
    this.total = total;
    this.arrange();
    this.draw();
  }

  arrange() {
    const wanted = this.search.value.trim().toLowerCase();
    const texts = (row) => this.columns.map((column) => String(column.value(row) ?? "").toLowerCase());
    this.found = wanted === "" ? [...this.rows] : this.rows.filter((row) => texts(row).some((text) => text.includes(wanted)));
    const { value } = this.columns[this.sort];
    const sign = this.descending ? -1 : 1;
    this.found.sort((a, b) => sign * compare(value(a), value(b)) || compare(this.key(a), this.key(b)));
    const all = this.total > this.rows.length ? `${count(this.rows.length)} of ${count(this.total)} loaded` : count(this.rows.length);
    say(this.counted, wanted === "" ? all : `${count(this.found.length)} of ${all}`);
  }

  draw() {
    const top = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const seen = Math.ceil((this.scroller.clientHeight || 600) / ROW) + 2 * SPARE;
    const visible = this.found.slice(top, top + seen);
    const focused = document.activeElement?.closest?.("tr")?.dataset.key;
    this.above.firstChild.style.height = `${top * ROW}px`;
    this.below.firstChild.style.height = `${Math.max(0, this.found.length - top - visible.length) * ROW}px`;
    set(this.body, top > 0 && this.above, visible.map((row) => this.line(row)), this.below);
    this.table.setAttribute("aria-rowcount", this.found.length + 1);
    if (focused) this.body.querySelector(`tr[data-key="${CSS.escape(focused)}"] .open`)?.focus({ preventScroll: true });
    this.visible = visible;
    this.onvisible?.(visible);
    const isEmpty = this.isKnown && this.found.length === 0;
    this.message.hidden = !isEmpty;
    if (isEmpty) set(this.message, this.rows.length > 0 ? "Nothing matches this search." : this.nothing ?? "Nothing here.");
  }

  line(row) {
    const cells = this.columns.map((column, at) => {
      const shown = column.show ? column.show(row) : column.value(row);
      const content = shown instanceof Node ? shown : String(shown ?? "–");
      const title = typeof content === "string" ? content : undefined;
      const inner = at > 0 ? content
        : this.link ? h("a", { href: this.link(row), class: "open" }, content)
        : this.open ? h("button", { type: "button", class: "open link", onclick: () => this.open(row) }, content) : content;
      return h("td", { class: this.classes(column), title }, inner);
    });
    return h("tr", { "data-key": this.key(row) }, cells);
  }

  // Arrows move from row to row.
  moved(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
    const line = event.target.closest("tr[data-key]");
    if (!step || !line) return;
    event.preventDefault();
    const at = this.found.findIndex((row) => String(this.key(row)) === line.dataset.key);
    const next = Math.min(this.found.length - 1, Math.max(0, at + step));
    const head = ROW;
    const from = next * ROW;
    if (from < this.scroller.scrollTop) this.scroller.scrollTop = from;
    const bottom = this.scroller.scrollTop + this.scroller.clientHeight - head - ROW;
    if (from > bottom) this.scroller.scrollTop += from - bottom;
    this.draw();
    this.body.querySelector(`tr[data-key="${CSS.escape(String(this.key(this.found[next])))}"] .open`)?.focus({ preventScroll: true });
  }
}
