// What is going on, in figures that move: of the server for operators, of the account for others.

import { meter, Chart, Rates } from "../chart.js";
import { badge, empty, facts, h, panel, set, tile } from "../dom.js";
import { ago, bytes, count, limit, nanoseconds, seconds, short } from "../format.js";

const perSecond = (value) => `${short(value)}/s`;
const bytesPerSecond = (value) => `${bytes(value)}/s`;

export function overview(context) {
  return context.isOperator ? ofServer(context) : ofAccount(context);
}

function charts(more) {
  const messages = new Chart("Messages", ["in", "out"], perSecond);
  const volume = new Chart("Bytes", ["in", "out"], bytesPerSecond, true);
  const nodes = [messages, volume, ...more].map((chart) => chart.node);
  // Rates of messages in and out, and of bytes; nothing the first time.
  const push = (rates) => {
    if (!rates) return;
    messages.push(rates.slice(0, 2));
    volume.push(rates.slice(2));
  };
  return { push, node: h("div", { class: "charts" }, nodes) };
}

function ofServer({ api }) {
  const rates = new Rates();
  const cpu = new Chart("CPU", ["% of a core"], (value) => `${value.toFixed(value < 10 ? 1 : 0)}%`);
  const memory = new Chart("Memory", ["resident"], bytes, true);
  const lines = charts([cpu, memory]);
  const tiles = h("div", { class: "tiles" });
  const about = h("div", { class: "columns" });

  async function refresh() {
    const [varz, health, jsz] = await Promise.all([
      api.ofServer("VARZ"), api.ofServer("HEALTHZ"), api.ofServer("JSZ").catch(() => null),
    ]);
    const now = rates.of([varz.in_msgs, varz.out_msgs, varz.in_bytes, varz.out_bytes]);
    lines.push(now);
    cpu.push([varz.cpu]);
    memory.push([varz.mem]);
    const isWell = health.status === "ok";
    set(tiles,
      tile("Health", isWell ? "healthy" : "not healthy", isWell ? `up ${varz.uptime}` : health.error || health.status, isWell ? "good" : "bad"),
      tile("Connections", count(varz.connections), `of ${count(varz.max_connections)}`),
      tile("Subscriptions", count(varz.subscriptions)),
      tile("Messages in", now ? perSecond(now[0]) : "–", `${short(varz.in_msgs)} in all`),
      tile("Messages out", now ? perSecond(now[1]) : "–", `${short(varz.out_msgs)} in all`),
      tile("Slow consumers", count(varz.slow_consumers), "since the start", varz.slow_consumers > 0 ? "warn" : ""),
      tile("Routes, leafs", `${count(varz.routes)}, ${count(varz.leafnodes)}`));
    set(about, serverFacts(varz), jsz && !jsz.disabled ? jetstream(jsz) : panel("JetStream", empty("JetStream is switched off.", "Streams need a jetstream block in the configuration.")));
  }
  return { node: h("div", {}, tiles, lines.node, about), refresh, interval: 2000 };
}

function serverFacts(varz) {
  return panel("Server", facts([
    ["Name", varz.server_name], ["Id", h("code", {}, varz.server_id)], ["Version", varz.version],
    ["Address", `${varz.host}:${varz.port}`], varz.cluster?.name && ["Cluster", varz.cluster.name],
    ["Memory, CPU", `${bytes(varz.mem)}, ${varz.cpu}% of ${varz.cores} cores`],
    ["Largest message", bytes(varz.max_payload)], ["Configuration", `loaded ${ago(varz.config_load_time)}`],
  ]));
}

function jetstream(jsz) {
  return panel("JetStream", facts([
    ["Streams, consumers", `${count(jsz.streams)}, ${count(jsz.consumers)}`],
    ["Messages", `${count(jsz.messages)}, ${bytes(jsz.bytes)}`],
    ["On disk", meter(jsz.storage, jsz.config?.max_storage, bytes)],
    ["In memory", meter(jsz.memory, jsz.config?.max_memory, bytes)],
    ["API", [`${count(jsz.api?.total)} requests, `, h("span", { class: jsz.api?.errors ? "warn-text" : "" }, `${count(jsz.api?.errors)} errors`)]],
    jsz.meta_cluster && ["Leader of the cluster", jsz.meta_cluster.leader || "none"],
  ]));
}

function ofAccount({ api, user, info, nats }) {
  const rates = new Rates();
  const lines = charts([]);
  const tiles = h("div", { class: "tiles" });
  const about = h("div", { class: "columns" });

  async function refresh() {
    const [servers, account] = await Promise.all([api.ofAccount("STATZ").catch(() => null), api.account()]);
    const own = (servers ?? []).flatMap((one) => one.account_statz ?? []);
    const sum = (pick) => own.reduce((all, one) => all + (pick(one) ?? 0), 0);
    const now = servers && rates.of([sum((one) => one.received?.msgs), sum((one) => one.sent?.msgs), sum((one) => one.received?.bytes), sum((one) => one.sent?.bytes)]);
    lines.push(now);
    lines.node.hidden = !servers;
    nats.ping();
    set(tiles,
      servers && [
        tile("Connections", count(sum((one) => one.conns))), tile("Subscriptions", count(sum((one) => one.num_subscriptions))),
        tile("Messages in", now ? perSecond(now[0]) : "–", `${short(sum((one) => one.received?.msgs))} in all`),
        tile("Messages out", now ? perSecond(now[1]) : "–", `${short(sum((one) => one.sent?.msgs))} in all`),
        tile("Slow consumers", count(sum((one) => one.slow_consumers)), "", sum((one) => one.slow_consumers) > 0 ? "warn" : ""),
      ],
      account && [tile("Streams", count(account.streams), account.limits?.max_streams > 0 && `of ${count(account.limits.max_streams)}`), tile("Consumers", count(account.consumers))]);
    set(about, userFacts(user, info, nats), account ? accountFacts(account) : panel("JetStream", empty("No JetStream here.", "The account has none, or this user may not ask ($JS.API.INFO).")));
  }
  return { node: h("div", {}, tiles, lines.node, about), refresh, interval: 2000 };
}

function rules(list) {
  const all = [...(list?.allow ?? []).map((subject) => [subject, "good"]), ...(list?.deny ?? []).map((subject) => [`not ${subject}`, "bad"])];
  return all.length > 0 ? all.map(([subject, kind]) => badge(subject, `mono ${kind}`)) : "everything";
}

function userFacts(user, info, nats) {
  return panel("You", facts([
    ["User", user ? user.user_name || user.user || "nobody in particular" : "unknown: the server does not say"],
    user && ["Account", user.account_name || user.account],
    user && ["May publish", rules(user.permissions?.publish)], user && ["May subscribe", rules(user.permissions?.subscribe)],
    user?.expires && ["Expires in", nanoseconds(user.expires)],
    ["Server", `${info.server_name}, ${info.version}`], info.cluster && ["Cluster", info.cluster],
    ["Round trip", nats.rtt === null ? "–" : seconds(nats.rtt / 1000)], ["Largest message", bytes(info.max_payload)],
  ]));
}

function accountFacts({ memory, storage, limits, api, domain }) {
  return panel("JetStream", facts([
    ["On disk", meter(storage, limits?.max_storage, bytes)], ["In memory", meter(memory, limits?.max_memory, bytes)],
    ["Most streams", limit(limits?.max_streams)], ["Most consumers", limit(limits?.max_consumers)],
    domain && ["Domain", domain],
    ["API", [`${count(api?.total)} requests, `, h("span", { class: api?.errors ? "warn-text" : "" }, `${count(api?.errors)} errors`)]],
  ]));
}
