// The server among others, for operators: health, routes, leaf nodes, gateways, its cluster.

import { badge, facts, h, panel, set, standing } from "../dom.js";
import { ago, bytes, count, duration, seconds } from "../format.js";

function rows(heads, lines) {
  return h("div", { class: "flow" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, heads.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))),
    h("tbody", {}, lines.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", { class: heads[at][1] }, cell ?? "–")))))));
}

const traffic = [["In", "number"], ["Out", "number"], ["Pending", "number"], ["RTT", "number"], ["Up", "number"]];
const moved = (one) => [`${count(one.in_msgs)}`, `${count(one.out_msgs)}`, one.pending_size ? bytes(one.pending_size) : "0", one.rtt && seconds(duration(one.rtt)), one.uptime];

export function server({ api }) {
  const body = h("div", { class: "columns" });
  const maybe = (topic, options) => api.ofServer(topic, options).catch(() => null);

  async function refresh() {
    const [servers, varz, health, routez, leafz, gatewayz, jsz] = await Promise.all([
      api.servers(),
      api.ofServer("VARZ"), maybe("HEALTHZ", { details: true }), maybe("ROUTEZ"), maybe("LEAFZ"), maybe("GATEWAYZ"), maybe("JSZ"),
    ]);
    const meta = jsz?.meta_cluster;
    const gateways = [...Object.entries(gatewayz?.outbound_gateways ?? {}).map(([name, one]) => [name, "out", one]),
      ...Object.entries(gatewayz?.inbound_gateways ?? {}).flatMap(([name, all]) => all.map((one) => [name, "in", one]))];
    const isWell = health?.status === "ok";
    const requests = Object.entries(varz.http_req_stats ?? {}).sort((a, b) => b[1] - a[1]);
    set(body,
      panel("Health", h("p", {}, badge(isWell ? "healthy" : "not healthy", isWell ? "good" : "bad"), " ", !isWell && (health?.error || health?.status || "unknown")),
        (health?.errors ?? []).map((one) => h("p", { class: "bad-text" }, [one.account, one.stream, one.consumer, one.error].filter(Boolean).join(" › ")))),
      panel("Trouble so far", facts([
        ["Slow consumers", count(varz.slow_consumers)], ["Stale connections", count(varz.stale_connections ?? 0)], ["Publishers held back", count(varz.stalled_clients ?? 0)],
      ])),
      meta && panel("Cluster of JetStream", facts([
        ["Leader", meta.leader || badge("none", "bad")], ["Servers", count(meta.cluster_size)],
        ...(meta.replicas ?? []).map((one) => [one.name, standing(one)]),
      ])),
      panel("Monitoring", requests.length > 0 ? facts(requests.slice(0, 8).map(([page, times]) => [h("code", {}, page), `asked ${count(times)} times`])) : h("p", { class: "muted" }, "No page was asked for.")),
      servers.length > 1 && wide("Servers", servers, [["Name", ""], ["Cluster", ""], ["Version", ""], ["Connections", "number"], ["Messages in", "number"], ["CPU", "number"], ["Memory", "number"], ["Slow", "number"], ["Up", "number"]],
        ({ server: one, statsz }) => [one.name, one.cluster, one.ver, count(statsz.connections), count(statsz.received?.msgs), `${statsz.cpu}%`, bytes(statsz.mem), count(statsz.slow_consumers), seconds((Date.parse(one.time) - Date.parse(statsz.start)) / 1000)]),
      wide("Routes", routez?.routes, [["To", ""], ["Address", "mono"], ...traffic], (one) => [one.remote_name || one.remote_id, `${one.ip}:${one.port}`, ...moved(one)], "No routes: this server is alone, or its cluster is away."),
      wide("Leaf nodes", leafz?.leafs, [["Name", ""], ["Account", ""], ["Address", "mono"], ["In", "number"], ["Out", "number"], ["RTT", "number"]], (one) => [one.name, one.account, `${one.ip}:${one.port}`, count(one.in_msgs), count(one.out_msgs), one.rtt && seconds(duration(one.rtt))], "No leaf nodes."),
      gateways.length > 0 && wide("Gateways", gateways, [["Cluster", ""], ["Way", ""], ["Address", "mono"], ...traffic], ([name, way, one]) => [name, way, `${one.connection?.ip}:${one.connection?.port}`, ...moved(one.connection ?? {})]),
      h("p", { class: "muted small span" }, `Started ${ago(varz.start)}; configuration loaded ${ago(varz.config_load_time)}.`));
  }
  return { node: body, refresh, interval: 3000 };
}

function wide(title, list, heads, cells, nothing) {
  return h("section", { class: "panel span" }, h("h2", {}, title), list?.length > 0 ? rows(heads, list.map(cells)) : h("p", { class: "muted" }, nothing));
}
