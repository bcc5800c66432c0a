// One stream: its state and what holds it back, its messages, consumers and configuration; publish
// and purge.

import { path } from "../api.js";
import { meter, Chart, Rates } from "../chart.js";
import { badge, button, confirm, empty, facts, field, h, panel, problem, say, set, standing, toast } from "../dom.js";
import { ago, bytes, clock, count, limit, nanoseconds, payload, preview, seconds, short } from "../format.js";
import { json, parseHeaders } from "../nats.js";
import { Table } from "../table.js";

const TABS = [["state", "State"], ["messages", "Messages"], ["consumers", "Consumers"], ["publish", "Publish"], ["config", "Configuration"]];
// Messages on a page of the browser, and consumers whose lag is asked for.
const BROWSED = 25;
const LAGS = 25;

export function causes(answer) {
  if (answer.failure) return panel("Why", h("p", { class: "muted" }, answer.failure));
  const all = answer.causes ?? [];
  const kinds = { all: ["holds everything back", "bad"], some: ["holds some back", "warn"], nothing: ["nothing is held back", ""] };
  return panel("Why", all.length === 0
    ? h("p", { class: "good-text" }, "Nothing is held back.")
    : h("ol", { class: "causes" }, all.map((cause) => h("li", {},
      h("div", { class: "cause" }, h("b", { class: "mono" }, cause.cause), " ", badge(...(kinds[cause.holds] ?? [cause.holds, ""]))),
      h("p", {}, cause.says), cause.remedy && h("p", { class: "muted" }, `Remedy: ${cause.remedy}`)))));
}

export function replicas(cluster) {
  if (!cluster?.name && !cluster?.replicas) return null;
  const rows = (cluster.replicas ?? []).map((one) => [one.name, [
    standing(one),
    one.lag ? ` ${count(one.lag)} behind` : "", ` heard ${nanoseconds(one.active)} ago`]]);
  return panel("Replicas", facts([["Leader", cluster.leader || badge("none", "bad")], ["Cluster", cluster.name], ...rows]));
}

export function stream(context, name, kind = "state") {
  const { api } = context;
  const body = h("div", {});
  const nav = h("nav", { class: "tabs", "aria-label": "Parts of the stream" }, TABS.map(([id, title]) => h("a", { href: id === "state" ? path("streams", name) : path("streams", name, id), "aria-current": id === kind ? "page" : null }, title)));
  const part = { state, messages, consumers, publish, config }[kind] ?? state;
  const inner = part(context, name, body);

  async function purge() {
    const filter = h("input", { placeholder: ">", spellcheck: "false", autocapitalize: "off" });
    const keep = h("input", { type: "number", min: 0, placeholder: "0" });
    const isSure = await confirm({
      title: "Purge the stream?", word: name, action: "Purge",
      body: h("div", {}, h("p", {}, "Messages are removed for good, from consumers’ reach as well."), field("Only messages of these subjects", filter), field("Keep the last", keep)),
    });
    if (!isSure) return;
    const request = {};
    if (filter.value.trim()) request.filter = filter.value.trim();
    if (Number(keep.value) > 0) request.keep = Number(keep.value);
    try {
      const answer = await api.js(`STREAM.PURGE.${name}`, request);
      toast(`${count(answer.purged)} messages are gone.`);
      await inner.refresh();
    } catch (error) {
      toast(error.message, "bad");
    }
  }
  return {
    title: name, back: { href: "#/streams", text: "Streams" }, actions: button("Purge…", purge, "danger"),
    node: h("div", {}, nav, body), refresh: inner.refresh, interval: inner.interval,
  };
}

function state({ api }, name, body) {
  const rates = new Rates();
  const chart = new Chart("Messages stored", ["in"], (value) => `${short(value)}/s`);
  const above = h("div", { class: "columns" });
  const found = h("div", {});
  const filter = h("input", { value: ">", class: "mono", "aria-label": "Subjects", spellcheck: "false", autocapitalize: "off" });
  const subjects = h("section", { class: "panel" }, h("h2", {}, "Subjects"), h("form", { class: "line", onsubmit: (event) => { event.preventDefault(); list(); } }, filter, h("button", { type: "submit" }, "Count")), found);
  set(body, above, chart.node, subjects);

  async function list() {
    try {
      const info = await api.stream(name, { subjects_filter: filter.value.trim() || ">" });
      const all = Object.entries(info.state.subjects ?? {}).sort((a, b) => b[1] - a[1]);
      set(found, all.length === 0 ? empty("No message has such a subject.") : h("div", { class: "flow" }, h("table", { class: "plain" }, h("tbody", {}, all.slice(0, 200).map(([subject, messages]) => h("tr", {}, h("td", { class: "mono break" }, subject), h("td", { class: "number" }, count(messages))))))),
        all.length > 200 && h("p", { class: "muted" }, `and ${count(all.length - 200)} more`));
    } catch (error) {
      set(found, problem(error.message));
    }
  }

  async function refresh() {
    const [info, why] = await Promise.all([api.stream(name), api.why("STREAM", name)]);
    const { config: wanted, state: now } = info;
    const rate = rates.of([now.last_seq]);
    if (rate) chart.push(rate);
    const sourced = [info.mirror, ...(info.sources ?? [])].filter(Boolean);
    set(above,
      panel("State", facts([
        ["Messages", meter(now.messages, wanted.max_msgs, count)], ["Bytes", meter(now.bytes, wanted.max_bytes, bytes)],
        ["Sequences", `${count(now.first_seq)} to ${count(now.last_seq)}`], now.num_deleted > 0 && ["Removed in between", count(now.num_deleted)],
        now.lost && ["Lost", h("span", { class: "bad-text" }, `${count(now.lost.msgs?.length ?? 0)} messages, ${bytes(now.lost.bytes)}`)],
        ["Subjects", count(now.num_subjects ?? 0)], ["Consumers", count(now.consumer_count)],
        ["First", now.messages > 0 ? `${clock(now.first_ts)}, ${ago(now.first_ts)}` : "–"], ["Last", now.last_seq > 0 ? `${clock(now.last_ts)}, ${ago(now.last_ts)}` : "–"],
        ["Made", clock(info.created)], wanted.description && ["Description", wanted.description],
      ])),
      causes(why),
      replicas(info.cluster),
      sourced.length > 0 && panel(info.mirror ? "Mirror of" : "Sources", facts(sourced.map((one) => [one.name, [
        one.error ? badge(one.error.description, "bad") : badge(one.lag > 0 ? `${count(one.lag)} behind` : "up to date", one.lag > 0 ? "warn" : "good"),
        one.active >= 0 ? ` heard ${nanoseconds(one.active)} ago` : " never heard"]]))));
  }
  return { refresh, interval: 2000 };
}

function messages({ api }, name, body) {
  const from = h("input", { type: "number", min: 1, "aria-label": "From sequence", placeholder: "sequence" });
  const filter = h("input", { class: "mono", placeholder: ">", "aria-label": "Subjects", spellcheck: "false", autocapitalize: "off" });
  const list = h("div", { class: "messages" });
  let shown = [];
  let at = null;
  const run = (get) => async () => {
    try {
      await go(await get());
    } catch (error) {
      set(list, problem(error.message));
    }
  };
  const latest = run(async () => (await api.stream(name)).state.last_seq - BROWSED + 1);
  const step = h("form", { class: "line wrap", onsubmit: (event) => { event.preventDefault(); run(async () => Number(from.value) || 1)(); } },
    h("label", { class: "inline" }, "From ", from), h("label", { class: "inline" }, "Subjects ", filter), h("button", { type: "submit" }, "Show"),
    h("span", { class: "group" }, button("Oldest", run(async () => 1)), button("Previous", run(async () => Math.max(1, (at ?? 1) - BROWSED))),
      button("Next", run(async () => (shown.at(-1)?.seq ?? at ?? 0) + 1)), button("Latest", latest)));
  set(body, h("section", { class: "panel" }, step, list));

  async function go(first) {
    at = Math.max(1, first);
    const found = [];
    let next = at;
    while (found.length < BROWSED) {
      const message = await api.message(name, next, filter.value.trim() || ">");
      if (!message) break;
      found.push(message);
      next = message.seq + 1;
    }
    shown = found;
    from.value = at;
    set(list, found.length === 0 ? empty("No messages from here on.", filter.value ? "None of these subjects, that is." : null) : found.map(messageRow));
  }

  let isFirst = true;
  async function refresh() {
    if (isFirst) await latest();
    isFirst = false;
  }
  return { refresh };
}

// A message that can be opened; `message` has `subject`, `data` and what else is known of it.
export function messageRow(message) {
  const details = h("details", { class: "message", ontoggle: () => {
    if (details.open && details.children.length === 1) details.append(...messageBody(message));
  } },
  h("summary", {}, message.seq && h("span", { class: "seq mono" }, count(message.seq)), h("span", { class: "subject mono" }, message.subject),
    h("span", { class: "muted when", title: clock(message.time) }, message.clock ?? ago(message.time)), h("span", { class: "muted size" }, bytes(message.length ?? message.data.length)), h("span", { class: "preview mono" }, preview(message.data))));
  return details;
}

function messageBody({ data, length, headers, time, reply }) {
  const shown = payload(data);
  const lines = headers?.length ? new TextDecoder().decode(headers).split("\r\n").slice(1).filter(Boolean) : [];
  return [
    time && h("p", { class: "muted small" }, clock(time)), reply && h("p", { class: "muted small mono" }, `answer to ${reply}`),
    lines.length > 0 && h("pre", { class: "headers" }, lines.join("\n")),
    h("pre", { class: `payload ${shown.kind}` }, shown.text || "(empty)"),
    length > data.length && h("p", { class: "muted small" }, `and ${count(length - data.length)} more bytes, which are not kept here`),
  ].filter(Boolean);
}

function consumers({ api }, name, body) {
  const lags = new Map();
  const table = new Table({
    label: "consumers", key: (row) => row.name, link: (row) => path("streams", name, "consumers", row.name), nothing: "This stream has no consumers.",
    columns: [
      { name: "Consumer", value: (row) => row.name, wide: true },
      { name: "Filter", value: (row) => (row.config.filter_subjects ?? [row.config.filter_subject ?? ">"]).join(", ") || ">", mono: true, minor: true },
      { name: "Kind", value: (row) => (row.config.deliver_subject ? "push" : "pull"), minor: true },
      { name: "Pending", value: (row) => row.num_pending, show: (row) => count(row.num_pending), number: true },
      { name: "Lag", value: (row) => lags.get(row.name) ?? -1, show: (row) => (lags.has(row.name) ? seconds(lags.get(row.name)) : "–"), number: true },
      { name: "Unacknowledged", value: (row) => row.num_ack_pending, show: (row) => count(row.num_ack_pending), number: true, minor: true },
      { name: "Again", value: (row) => row.num_redelivered, show: (row) => count(row.num_redelivered), number: true, minor: true },
      { name: "Requests", value: (row) => row.num_waiting ?? 0, show: (row) => count(row.num_waiting ?? 0), number: true, minor: true },
      { name: "Delivered", value: (row) => Date.parse(row.delivered.last_active) || 0, show: (row) => ago(row.delivered.last_active), number: true, minor: true },
    ],
  });
  set(body, table.node);

  async function refresh() {
    const all = await api.consumers(name);
    table.update(all);
    await Promise.all(table.visible.slice(0, LAGS).map(async (row) => {
      const age = await api.lag(row).catch(() => null);
      if (age !== null) lags.set(row.name, age);
    }));
    table.update(all);
  }
  return { refresh, interval: 3000 };
}

const isWildcard = (subject) => /(^|\.)[*>](\.|$)/.test(subject);

function publish({ api, nats }, name, body) {
  const subject = h("input", { class: "mono", spellcheck: "false", autocapitalize: "off", required: true });
  const headers = h("textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: "Name: value" });
  const data = h("textarea", { rows: 8, class: "mono", spellcheck: "false" });
  const told = h("p", { role: "status" });
  const hint = h("small", {});
  async function go(event) {
    event.preventDefault();
    told.className = "";
    say(told, "Waits for the acknowledgement…");
    try {
      if (isWildcard(subject.value.trim())) throw new Error("A message has one subject: no wildcards.");
      const answer = json(await nats.request(subject.value.trim(), data.value, { headers: parseHeaders(headers.value) }));
      if (answer.error) throw new Error(answer.error.description);
      told.className = answer.stream === name ? "good-text" : "warn-text";
      say(told, answer.stream ? `Stored in ${answer.stream} as ${count(answer.seq)}${answer.duplicate ? ", a duplicate" : ""}.` : "Answered, but not by a stream.");
    } catch (error) {
      told.className = "bad-text";
      say(told, error.message);
    }
  }
  set(body, h("form", { class: "panel form", onsubmit: go }, field("Subject", subject), hint, field("Headers", headers), field("Payload", data), h("div", { class: "actions" }, told, h("button", { type: "submit", class: "primary" }, "Publish"))));
  async function refresh() {
    const { config: wanted } = await api.stream(name);
    const subjects = wanted.subjects ?? [];
    if (!subject.value && subjects.length > 0 && !isWildcard(subjects[0])) subject.value = subjects[0];
    subject.placeholder = subjects[0] ?? "";
    say(hint, subjects.length > 0 ? `The stream takes ${subjects.join(", ")}` : "The stream takes no messages but its origin’s.");
  }
  return { refresh };
}

function config({ api }, name, body) {
  const shown = h("pre", { class: "payload json" });
  set(body, h("section", { class: "panel" }, shown));
  async function refresh() {
    const { config: wanted } = await api.stream(name);
    const rows = h("div", {}, facts([
      ["Retention", wanted.retention], ["Storage", wanted.storage], ["Replicas", wanted.num_replicas], ["Discard", wanted.discard],
      ["Largest age", wanted.max_age > 0 ? nanoseconds(wanted.max_age) : "no limit"], ["Most messages", limit(wanted.max_msgs)], ["Most bytes", limit(wanted.max_bytes, bytes)],
      ["Most for each subject", limit(wanted.max_msgs_per_subject)], ["Largest message", limit(wanted.max_msg_size, bytes)], ["Duplicates", `within ${nanoseconds(wanted.duplicate_window)}`],
      ["Subjects", (wanted.subjects ?? []).map((subject) => badge(subject, "mono"))],
    ]));
    say(shown, JSON.stringify(wanted, null, 2));
    set(body, h("div", { class: "columns" }, panel("Settings", rows), panel("As JSON", shown)));
  }
  return { refresh };
}
