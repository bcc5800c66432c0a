// Connections: of the account, or of the server for operators; open ones and those that have left.

import { pages, path } from "../api.js";
import { badge, button, confirm, empty, facts, h, panel, set, toast } from "../dom.js";
import { ago, bytes, clock, count, duration, seconds, short } from "../format.js";
import { Table } from "../table.js";

const PAGE = 1024;
// States as requests have them.
const STATES = { open: 0, closed: 1, any: 2 };

// All connections, page by page.
async function load({ api, isOperator }, state) {
  const options = { auth: true, limit: PAGE, state: STATES[state] };
  if (!isOperator) return ofAccount(api, options);
  return pages((offset) => api.ofServer("CONNZ", { ...options, offset }), "connections");
}

// Connections of the account on all servers. Each has pages of its own.
async function ofAccount(api, options) {
  // By id: one that comes meanwhile moves others to the next page.
  const all = new Map();
  for (let offset = 0; ; offset += PAGE) {
    const servers = await api.ofAccount("CONNZ", { ...options, offset });
    let isMore = false;
    for (const { connections = [], total = 0, server } of servers) {
      connections.forEach((conn) => all.set(`${server?.id}#${conn.cid}`, { ...conn, server: server?.name }));
      isMore ||= connections.length > 0 && offset + connections.length < total;
    }
    if (!isMore) return [...all.values()];
  }
}

function kind(conn) {
  return conn.kind === "Client" || !conn.kind ? conn.type || "nats" : conn.kind.toLowerCase();
}

export function connections(context) {
  let state = "open";
  let before = new Map();
  let at = 0;
  const open = [
    { name: "Name", value: (conn) => conn.name || `#${conn.cid}`, wide: true },
    { name: "Id", value: (conn) => conn.cid, number: true, minor: true },
    { name: "User", value: (conn) => conn.authorized_user || "–", minor: true },
    context.isOperator && { name: "Account", value: (conn) => conn.account || "–", minor: true },
    { name: "From", value: (conn) => `${conn.ip}:${conn.port}`, mono: true, minor: true },
    { name: "Kind", value: kind, minor: true },
    { name: "Client", value: (conn) => [conn.lang, conn.version].filter(Boolean).join(" ") || "–", minor: true },
    { name: "Subs", value: (conn) => conn.subscriptions ?? 0, show: (conn) => count(conn.subscriptions ?? 0), number: true, minor: true },
    { name: "Pending", value: (conn) => conn.pending_bytes ?? 0, show: (conn) => (conn.pending_bytes ? h("span", { class: "warn-text" }, bytes(conn.pending_bytes)) : "0"), number: true },
    { name: "In/s", value: (conn) => conn.rateIn ?? 0, show: (conn) => short(conn.rateIn ?? 0), number: true },
    { name: "Out/s", value: (conn) => conn.rateOut ?? 0, show: (conn) => short(conn.rateOut ?? 0), number: true },
    { name: "RTT", value: (conn) => duration(conn.rtt), show: (conn) => (conn.rtt ? seconds(duration(conn.rtt)) : "–"), number: true, minor: true },
    { name: "Up", value: (conn) => duration(conn.uptime), show: (conn) => conn.uptime, number: true, minor: true },
  ].filter(Boolean);
  const closed = [
    ...open.filter((column) => ["Name", "Id", "User", "Account", "From"].includes(column.name)),
    { name: "Reason", value: (conn) => conn.reason, show: (conn) => badge(conn.reason, /client closed/i.test(conn.reason) ? "" : "warn") },
    { name: "Ended", value: (conn) => Date.parse(conn.stop) || 0, show: (conn) => ago(conn.stop), number: true },
  ];
  const key = (conn) => `${conn.server ?? ""}#${conn.cid}`;
  const link = context.isOperator && ((conn) => path("connections", conn.cid));
  const tables = {
    open: new Table({ columns: open, key, link, label: "connections", nothing: "Nobody is connected." }),
    closed: new Table({ columns: closed, key, link, label: "connections that have ended", sort: closed.length - 1, descending: true, nothing: "None has ended lately." }),
  };
  const place = h("div", {}, tables.open.node);
  const choices = h("fieldset", { class: "choices" }, h("legend", { class: "hidden" }, "State"), ["open", "closed"].map((name) => h("label", { class: "choice" },
    h("input", { type: "radio", name: "state", checked: name === state, onchange: () => {
      state = name;
      set(place, tables[state].node);
      view.again();
    } }), name)));

  async function refresh() {
    const wanted = state;
    const found = await load(context, wanted);
    const now = performance.now();
    const span = (now - at) / 1000;
    const last = wanted === "open" ? before : new Map();
    for (const conn of found) {
      const old = last.get(key(conn));
      if (old) {
        conn.rateIn = Math.max(0, conn.in_msgs - old.in_msgs) / span;
        conn.rateOut = Math.max(0, conn.out_msgs - old.out_msgs) / span;
      }
    }
    if (wanted === "open") {
      before = new Map(found.map((conn) => [key(conn), conn]));
      at = now;
      view.interval = found.length > PAGE ? 10000 : 2000;
    }
    tables[wanted].update(found);
  }
  const view = { node: h("div", {}, choices, place), refresh, interval: 2000 };
  return view;
}

// One connection of the server, for operators.
export function connection(context, cid) {
  const { api } = context;
  const body = h("div", { class: "columns" });
  const id = Number(cid);

  async function end() {
    const isSure = await confirm({ title: `Close connection ${id}?`, body: h("p", {}, "Most clients come back at once."), action: "Close it" });
    if (!isSure) return;
    try {
      await api.ofServer("KICK", { cid: id });
      toast("The connection is closed.");
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  async function refresh() {
    const page = await api.ofServer("CONNZ", { cid: id, auth: true, subscriptions_detail: true, state: STATES.any });
    const conn = page.connections?.[0];
    if (!conn) return set(body, empty("This connection is gone.", "The server remembers the last ones that have ended only."));
    const subs = (conn.subscriptions_list_detail ?? []).map((sub) => h("tr", {}, h("td", { class: "mono" }, sub.subject), h("td", { class: "mono" }, sub.qgroup ?? ""), h("td", { class: "number" }, count(sub.msgs))));
    kick.hidden = Boolean(conn.stop);
    return set(body,
      panel("Connection", facts([
        ["Name", conn.name || "none"], ["State", conn.stop ? badge(conn.reason, "warn") : badge("open", "good")],
        ["User", conn.authorized_user || "none"], ["Account", conn.account],
        ["From", h("code", {}, `${conn.ip}:${conn.port}`)], ["Kind", kind(conn)], ["Client", [conn.lang, conn.version].filter(Boolean).join(" ") || "unknown"],
        conn.tls_version && ["TLS", `${conn.tls_version}, ${conn.tls_cipher_suite}`],
        ["Since", clock(conn.start)], ["Last active", ago(conn.last_activity)], conn.stop && ["Ended", clock(conn.stop)],
      ])),
      panel("Traffic", facts([
        ["In", `${count(conn.in_msgs)} messages, ${bytes(conn.in_bytes)}`], ["Out", `${count(conn.out_msgs)} messages, ${bytes(conn.out_bytes)}`],
        ["Waits to be sent", conn.pending_bytes ? h("span", { class: "warn-text" }, bytes(conn.pending_bytes)) : "nothing"],
        ["Publishers held back", `${count(conn.stalls ?? 0)} times`], ["Round trip", conn.rtt ? seconds(duration(conn.rtt)) : "–"], ["Subscriptions", count(conn.subscriptions ?? 0)],
      ])),
      subs.length > 0 && h("section", { class: "panel span" }, h("h2", {}, "Subscriptions"), h("div", { class: "flow" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, [["Subject"], ["Queue group"], ["Messages", "number"]].map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))), h("tbody", {}, subs)))));
  }
  const kick = button("Close connection…", end, "danger");
  return { title: `Connection ${id}`, back: { href: "#/connections", text: "Connections" }, actions: kick, node: body, refresh, interval: 2000 };
}
