// One consumer: how far behind it is, in messages and in seconds, and why.

import { path } from "../api.js";
import { Chart, Rates } from "../chart.js";
import { badge, facts, h, panel, set, tile } from "../dom.js";
import { ago, clock, count, limit, moment, nanoseconds, seconds, short } from "../format.js";
import { HOLDER } from "../letter.js";
import { causes, replicas } from "./stream.js";

// Where a consumer stands, and since when, where that is known: a server that was started anew does not.
const since = ({ stream_seq: seq, last_active: last }) => (moment(last) ? `${count(seq)}, ${ago(last)}` : count(seq));

export function consumer({ api }, stream, name) {
  const rates = new Rates();
  const chart = new Chart("Messages", ["delivered", "acknowledged"], (value) => `${short(value)}/s`);
  const behind = new Chart("Pending", ["messages"], short);
  const tiles = h("div", { class: "tiles" });
  const body = h("div", { class: "columns" });
  const raw = h("pre", { class: "payload json" });
  const open = h("details", { class: "panel" }, h("summary", {}, "Configuration as JSON"), raw);

  async function refresh() {
    const [info, why] = await Promise.all([api.consumer(stream, name), api.why("CONSUMER", `${stream}.${name}`)]);
    const lag = await api.lag(info).catch(() => null);
    const { config } = info;
    const rate = rates.of([info.delivered.consumer_seq, info.ack_floor.consumer_seq]);
    if (rate) chart.push(rate);
    behind.push([info.num_pending]);
    const isFull = config.max_ack_pending > 0 && info.num_ack_pending >= config.max_ack_pending;
    set(tiles,
      tile("Lag", lag === null ? "–" : seconds(lag), lag === null ? "messages may not be read" : "age of the next message", lag > 60 ? "warn" : ""),
      tile("Pending", count(info.num_pending), "not delivered yet"),
      tile("Unacknowledged", count(info.num_ack_pending), config.max_ack_pending > 0 && `of ${count(config.max_ack_pending)}`, isFull ? "bad" : ""),
      tile("Delivered again", count(info.num_redelivered), "", info.num_redelivered > 0 ? "warn" : ""),
      !config.deliver_subject && tile("Pull requests", count(info.num_waiting ?? 0), "wait for messages"),
      info.paused && tile("Paused", nanoseconds(info.pause_remaining), "left", "warn"));
    const filters = config.filter_subjects ?? (config.filter_subject ? [config.filter_subject] : []);
    set(body,
      causes(why),
      panel("Consumer", facts([
        config.description && ["Description", config.description],
        ["Kind", config.deliver_subject ? [`push to `, h("code", {}, config.deliver_subject), info.push_bound ? badge("bound", "good") : badge("nobody listens", "warn")] : "pull"],
        ["Filter", filters.length > 0 ? filters.map((filter) => badge(filter, "mono")) : "everything"],
        ["Acknowledgement", `${config.ack_policy}, within ${nanoseconds(config.ack_wait)}`], ["Deliveries of a message", limit(config.max_deliver)],
        ["Delivered", since(info.delivered)], ["Acknowledged up to", since(info.ack_floor)],
        config.metadata?.[HOLDER] && ["Dead letters", ["go to ", h("a", { href: path("letters", config.metadata[HOLDER]) }, config.metadata[HOLDER])]],
        ["Made", clock(info.created)], moment(config.pause_until) && ["Paused until", clock(config.pause_until)],
      ])),
      replicas(info.cluster));
    raw.textContent = JSON.stringify(config, null, 2);
  }
  return { title: name, back: { href: path("streams", stream, "consumers"), text: stream }, node: h("div", {}, tiles, body, h("div", { class: "charts" }, chart.node, behind.node), open), refresh, interval: 2000 };
}
