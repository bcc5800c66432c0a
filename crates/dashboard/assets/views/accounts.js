// Accounts of the server and what is stored in them, for operators.

import { ApiError, LONG, path } from "../api.js";
import { meter } from "../chart.js";
import { empty, facts, h, panel, set } from "../dom.js";
import { ago, bytes, count, short } from "../format.js";
import { Table } from "../table.js";

// Milliseconds between questions, and how much longer than the server took to answer: it makes one
// page at a time, for whoever asks.
const INTERVAL = 3000;
const REST = 10;

// JetStream of the server, as it stands for these options; nothing where it is refused. Silence is no
// answer.
async function jetstream(api, options) {
  try {
    return await api.ofServer("JSZ", options, { timeout: LONG });
  } catch (error) {
    if (error instanceof ApiError) return {};
    throw error;
  }
}

// What is stored, by account.
async function stored(api) {
  const page = await jetstream(api, { accounts: true, limit: 1024 });
  return new Map((page.account_details ?? []).map((one) => [one.id ?? one.name, one]));
}

export function accounts({ api }) {
  const table = new Table({
    label: "accounts", key: (one) => one.name, link: (one) => path("accounts", one.name), nothing: "There are none.",
    columns: [
      { name: "Account", value: (one) => one.name, wide: true },
      { name: "Connections", value: (one) => one.conns, show: (one) => count(one.conns), number: true },
      { name: "Leafs", value: (one) => one.leafnodes, show: (one) => count(one.leafnodes), number: true, minor: true },
      { name: "Subs", value: (one) => one.subs, show: (one) => count(one.subs), number: true, minor: true },
      { name: "Received", value: (one) => one.received, show: (one) => short(one.received), number: true, minor: true },
      { name: "Sent", value: (one) => one.sent, show: (one) => short(one.sent), number: true, minor: true },
      { name: "Slow", value: (one) => one.slow, show: (one) => count(one.slow), number: true, minor: true },
      { name: "JetStream", value: (one) => one.requests, show: (one) => (one.hasJetStream ? `${short(one.requests)} requests` : "–"), number: true, minor: true },
      { name: "Stored", value: (one) => one.bytes, show: (one) => (one.hasJetStream ? bytes(one.bytes) : "–"), number: true },
    ],
  });

  async function refresh() {
    const [names, stats, streams] = await Promise.all([
      api.ofServer("ACCOUNTZ"),
      api.nats.requestMany("$SYS.REQ.ACCOUNT.PING.STATZ", JSON.stringify({ include_unused: true })).catch(() => []),
      stored(api),
    ]);
    const own = new Map();
    const decode = new TextDecoder();
    for (const message of stats) {
      const answer = JSON.parse(decode.decode(message.data));
      if (answer.server?.id !== api.server) continue;
      for (const one of answer.data?.account_statz ?? []) own.set(one.acc, one);
    }
    table.update((names.accounts ?? []).map((name) => {
      const [traffic, held] = [own.get(name), streams.get(name)];
      return {
        name, conns: traffic?.conns ?? 0, leafnodes: traffic?.leafnodes ?? 0, subs: traffic?.num_subscriptions ?? 0,
        received: traffic?.received?.msgs ?? 0, sent: traffic?.sent?.msgs ?? 0, slow: traffic?.slow_consumers ?? 0,
        hasJetStream: Boolean(held), requests: held?.api?.total ?? 0, bytes: (held?.storage ?? 0) + (held?.memory ?? 0),
      };
    }));
  }
  return { node: table.node, refresh, interval: INTERVAL };
}

export function account({ api }, name) {
  const about = h("div", { class: "columns" });
  let held;
  const table = new Table({
    label: "streams", key: (one) => one.name, nothing: "This account has no streams here.",
    columns: [
      { name: "Stream", value: (one) => one.name, wide: true },
      { name: "Subjects", value: (one) => (one.config?.subjects ?? []).join(", "), wide: true, minor: true, mono: true },
      { name: "Messages", value: (one) => one.state.messages, show: (one) => count(one.state.messages), number: true },
      { name: "Bytes", value: (one) => one.state.bytes, show: (one) => bytes(one.state.bytes), number: true },
      { name: "Consumers", value: (one) => one.state.consumer_count, number: true },
      { name: "Leader", value: (one) => one.cluster?.leader ?? "–", minor: true },
      { name: "Last", value: (one) => Date.parse(one.state.last_ts) || 0, show: (one) => ago(one.state.last_ts), number: true, minor: true },
    ],
  });

  async function refresh() {
    const began = performance.now();
    const info = await api.ofServer("ACCOUNTZ", { account: name });
    const detail = info.account_detail;
    if (!detail) {
      table.node.hidden = true;
      return set(about, empty("There is no such account."));
    }
    table.node.hidden = false;
    show(detail, held);
    // All of its streams at once: with thousands, it takes the server seconds.
    const jsz = await jetstream(api, { account: name, streams: true, config: true });
    view.interval = Math.max(INTERVAL, REST * (performance.now() - began));
    held = jsz.account_details?.[0];
    show(detail, held);
    return table.update(held?.stream_detail ?? []);
  }

  function show(detail, held) {
    const subjects = (list) => ((list ?? []).length > 0 ? list.map((one) => h("div", { class: "mono" }, `${one.subject ?? ""} (${one.type ?? ""}${one.account ? ` of ${one.account}` : ""})`)) : "none");
    set(about,
      panel("Account", facts([
        ["Name", detail.name_tag && detail.name_tag !== name ? `${detail.name_tag} (${name})` : name],
        ["Connections", count(detail.client_connections)], ["Leaf nodes", count(detail.leafnode_connections)], ["Subscriptions", count(detail.subscriptions)],
        detail.jetstream_enabled && ["JetStream", "enabled"], detail.expired && ["Token", "expired"],
        ["Exports", subjects(detail.exports)], ["Imports", subjects(detail.imports)],
      ])),
      held && panel("JetStream", facts([
        ["On disk", meter(held.storage, held.reserved_storage, bytes)], ["In memory", meter(held.memory, held.reserved_memory, bytes)],
        ["API", `${count(held.api?.total)} requests, ${count(held.api?.errors)} errors`],
      ])));
  }
  const view = { title: name, back: { href: "#/accounts", text: "Accounts" }, node: h("div", {}, about, table.node), refresh, interval: INTERVAL };
  return view;
}
