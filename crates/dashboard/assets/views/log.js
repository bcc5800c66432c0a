// The last lines of the server's log, for operators.

import { h, say, set } from "../dom.js";
import { clock, count } from "../format.js";

const KEPT = 2000;
const LEVELS = { TRC: 0, DBG: 1, INF: 2, WRN: 3, ERR: 4, FTL: 5 };

export function log({ api }) {
  let lines = [];
  let last = 0;
  const level = h("select", { "aria-label": "Level", onchange: draw }, [["TRC", "everything"], ["INF", "from info on"], ["WRN", "from warnings on"], ["ERR", "errors"]].map(([value, text]) => h("option", { value }, text)));
  const search = h("input", { type: "search", class: "search", placeholder: "Search the log  ( / )", "aria-label": "Search the log", oninput: draw, spellcheck: "false", autocapitalize: "off" });
  const counted = h("span", { class: "muted counted", role: "status" });
  const list = h("ol", { class: "log", tabindex: 0, "aria-label": "Lines of the log" });

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const found = lines.filter((line) => LEVELS[line.level] >= LEVELS[level.value] && line.text.toLowerCase().includes(wanted));
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    set(list, found.map((line) => h("li", { class: line.level.toLowerCase() }, h("time", { title: line.at }, clock(line.at).slice(11)), h("b", {}, line.level), h("span", {}, line.text))));
    if (found.length === 0) set(list, h("li", {}, h("span", { class: "muted" }, "No lines.")));
    if (isAtEnd) list.scrollTop = list.scrollHeight;
    say(counted, `${count(found.length)} lines`);
  }

  async function refresh() {
    const answer = await api.ofServer("MYELIN.LOG", { after: last });
    const fresh = answer.lines ?? [];
    if (fresh.length === 0 && last > 0) return;
    last = fresh.at(-1)?.seq ?? last;
    lines = [...lines, ...fresh].slice(-KEPT);
    draw();
  }
  return { node: h("div", {}, h("div", { class: "tools" }, search, level, counted), list), refresh, interval: 2000 };
}
