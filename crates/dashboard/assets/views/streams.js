// All streams of the account. There may be ten thousand: they come page by page, and afterwards
// only those that are seen are asked about again.

import { path, streamRow } from "../api.js";
import { badge, button, h } from "../dom.js";
import { ago, bytes, count, moment } from "../format.js";
import { NotAllowed } from "../nats.js";
import { Table } from "../table.js";

// Rows that are asked about again in one round.
const AGAIN = 60;

export function streams({ api, isOperator }) {
  let rows = null;
  let loading = null;
  // Streams that the account said it has when they were loaded: another number, another load.
  let known;
  // Whether this user may ask about single streams.
  let mayAsk = true;
  const nothing = isOperator
    ? "The system account has no streams. Those of all accounts are below Accounts; sign in as a user of an account to work with them."
    : "This account has no streams yet.";
  const table = new Table({
    label: "streams", key: (row) => row.name, link: (row) => path("streams", row.name), nothing,
    columns: [
      { name: "Stream", value: (row) => row.name, wide: true },
      { name: "Subjects", value: (row) => (row.subjects ?? []).join(", "), show: (row) => (row.origin ? badge(row.origin) : (row.subjects ?? []).join(", ")), wide: true, minor: true, mono: true },
      { name: "Storage", value: (row) => row.storage ?? "", minor: true },
      { name: "R", value: (row) => row.replicas, number: true, minor: true },
      { name: "Messages", value: (row) => row.messages, show: (row) => count(row.messages), number: true },
      { name: "Bytes", value: (row) => row.bytes, show: (row) => bytes(row.bytes), number: true },
      { name: "Consumers", value: (row) => row.consumers, show: (row) => count(row.consumers), number: true, minor: true },
      { name: "Last message", value: (row) => moment(row.last) ?? 0, show: (row) => ago(row.last), number: true, minor: true },
    ],
  });

  async function load() {
    loading ??= api.streams((all, total) => table.update(all, total)).finally(() => { loading = null; });
    rows = await loading;
    const account = await api.account();
    known = account?.streams;
    if (!account && rows.length === 0 && !isOperator) table.nothing = "The account has no JetStream, or this user may not ask for its streams.";
    table.update(rows);
  }

  async function refresh() {
    if (!rows) return load();
    if (!mayAsk) return undefined;
    const names = new Set(table.visible.slice(0, AGAIN).map((row) => row.name));
    const account = await api.account();
    if (account && account.streams !== known) return load();
    const infos = await Promise.all([...names].map((name) => api.stream(name).catch((error) => ({ error, name }))));
    mayAsk = !infos.some((info) => info.error instanceof NotAllowed);
    const now = new Map(infos.filter((info) => info.config).map((info) => [info.config.name, streamRow(info)]));
    const gone = new Set(infos.filter((info) => info.error?.code === 404).map((info) => info.name));
    rows = rows.filter((row) => !gone.has(row.name)).map((row) => now.get(row.name) ?? row);
    return table.update(rows);
  }
  const again = button("Load again", () => { rows = null; view.again(); }, "quiet");
  const view = { node: h("div", {}, table.node), actions: again, refresh, interval: 3000 };
  return view;
}
