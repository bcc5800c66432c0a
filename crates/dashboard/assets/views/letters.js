// Dead letters: the streams that have some, those of one stream, one of them; replay and removal.

import { path } from "../api.js";
import { badge, button, confirm, facts, field, h, panel, say, set, toast } from "../dom.js";
import { ago, bytes, clock, count, moment, payload } from "../format.js";
import { HOLDER, Unfit, each, find, replay } from "../letter.js";
import { NotAllowed } from "../nats.js";
import { Table } from "../table.js";

// Letters that are shown at first and more with each "More", and streams whose consumers are asked for
// together.
const SHOWN = 250;
const AT_ONCE = 8;

const deaths = { exhausted: "warn", terminated: "bad" };
const counted = (number) => `${count(number)} ${number === 1 ? "letter" : "letters"}`;
const died = (reason) => badge(reason || "unknown", deaths[reason]);

// Streams to which dead letters go, with the consumers that they are of. Others that listen below dlq.
// may have some of consumers that are gone.
async function look(api, told) {
  const rows = await api.streams(() => {});
  const holders = new Map(rows.filter((row) => row.subjects?.some((subject) => subject.startsWith("dlq."))).map((row) => [row.name, []]));
  const asked = rows.filter((row) => row.consumers !== 0);
  for (let at = 0; at < asked.length; at += AT_ONCE) {
    told(`Looks at consumers: ${count(at)} of ${count(asked.length)} streams`);
    const lists = await Promise.all(asked.slice(at, at + AT_ONCE).map((row) => api.consumers(row.name).catch((error) => {
      if (error.code === 404) return [];
      throw error;
    })));
    for (const { stream_name: stream, name, config } of lists.flat()) {
      const holder = config.metadata?.[HOLDER];
      if (holder) holders.set(holder, [...(holders.get(holder) ?? []), `${stream} › ${name}`]);
    }
  }
  return [...holders].map(([name, from]) => ({ name, from }));
}

export function holders({ api, isOperator }) {
  let rows = null;
  const status = h("p", { class: "muted", role: "status", hidden: true });
  const table = new Table({
    label: "streams", key: (row) => row.name, link: (row) => path("letters", row.name),
    nothing: isOperator
      ? "The system account has no streams: sign in as a user of an account."
      : `No consumer gives its dead letters to a stream: name one in its metadata, ${HOLDER}.`,
    columns: [
      { name: "Stream", value: (row) => row.name, wide: true },
      { name: "Letters", value: (row) => row.messages ?? -1, show: (row) => (row.problem ? h("span", { class: "bad-text" }, row.problem) : count(row.messages)), number: true },
      { name: "Bytes", value: (row) => row.bytes ?? -1, show: (row) => bytes(row.bytes), number: true },
      { name: "Of consumers", value: (row) => row.from.join(", ") || "–", wide: true, minor: true },
      { name: "Last", value: (row) => moment(row.last) ?? 0, show: (row) => (row.messages > 0 ? ago(row.last) : "–"), number: true, minor: true },
    ],
  });
  const other = h("input", { class: "mono", "aria-label": "Stream", placeholder: "stream", spellcheck: "false", autocapitalize: "off", required: true });
  const open = h("form", { class: "line", onsubmit: (event) => { event.preventDefault(); location.hash = path("letters", other.value.trim()); } },
    h("label", { class: "inline" }, "Another stream ", other), h("button", { type: "submit" }, "Show"));

  async function refresh() {
    if (!rows) {
      status.hidden = false;
      try {
        rows = await look(api, (text) => say(status, text));
        status.hidden = true;
      } catch (error) {
        rows = [];
        table.nothing = "Open a stream by its name.";
        say(status, error instanceof NotAllowed ? "This user may not ask for consumers, which say where dead letters go." : error.message);
      }
    }
    await Promise.all(rows.map(async (row) => {
      try {
        const { state } = await api.stream(row.name);
        Object.assign(row, { messages: state.messages, bytes: state.bytes, last: state.last_ts, problem: "" });
      } catch (error) {
        row.problem = error.message;
      }
    }));
    table.update(rows);
  }
  const again = button("Look again", () => { rows = null; view.again(); }, "quiet");
  const view = { node: h("div", {}, status, table.node, h("section", { class: "panel" }, open)), actions: again, refresh, interval: 5000 };
  return view;
}

// Fields that choose among letters, and whether one is meant.
function choice() {
  const input = () => h("input", { placeholder: "all", spellcheck: "false", autocapitalize: "off" });
  const [stream, consumer] = [input(), input()];
  const reason = h("select", {}, [["", "any"], ["exhausted", "exhausted"], ["terminated", "terminated"]].map(([value, text]) => h("option", { value }, text)));
  const wanted = () => [["Stream", stream], ["Consumer", consumer], ["Reason", reason]].map(([key, { value }]) => [key, value.trim()]).filter(([, value]) => value);
  return {
    fields: [field("Only from stream", stream), field("Only of consumers named", consumer), field("Only for the reason", reason)],
    covers: (letter) => wanted().every(([key, value]) => letter.fact(key) === value),
  };
}

export function letters(context, name) {
  const { api } = context;
  let rows = [];
  let seen = null;
  let most = SHOWN;
  let running = null;
  let isLeft = false;
  const status = h("p", { role: "status" });
  const stop = button("Stop", () => { if (running) running.isStopped = true; });
  const progress = h("div", { class: "line", hidden: true }, status, stop);
  const more = button("More", () => { most += SHOWN; seen = null; view.again(); }, "quiet");
  more.hidden = true;
  const table = new Table({
    label: "dead letters", key: (row) => row.seq, link: (row) => path("letters", name, row.seq), nothing: "This stream has no dead letters.",
    columns: [
      { name: "Letter", value: (row) => row.seq, show: (row) => count(row.seq) },
      { name: "From", value: (row) => `${row.stream} ${row.sequence}`, wide: true },
      { name: "Consumer", value: (row) => row.consumer },
      { name: "Reason", value: (row) => [row.reason, row.text].filter(Boolean).join(": "), show: (row) => h("span", { title: row.text }, died(row.reason), row.text) },
      { name: "Deliveries", value: (row) => row.deliveries, show: (row) => count(row.deliveries), number: true, minor: true },
      { name: "Subject", value: (row) => row.subject, mono: true, minor: true, wide: true },
      { name: "Bytes", value: (row) => row.bytes, show: (row) => bytes(row.bytes), number: true, minor: true },
      { name: "Died", value: (row) => moment(row.time) ?? 0, show: (row) => ago(row.time), number: true, minor: true },
    ],
  });

  async function refresh() {
    const { state } = await api.stream(name);
    const now = [state.first_seq, state.last_seq, state.messages].join();
    if (now !== seen) {
      const found = [];
      await each(api, name, state, (all) => {
        found.push(...all.map(summary));
        if (rows.length === 0) table.update(found, state.messages);
        return found.length < most;
      });
      rows = found;
      seen = now;
      more.hidden = found.length < most;
    }
    table.update(rows, more.hidden ? rows.length : state.messages);
    actions.hidden = Boolean(running) || rows.length === 0;
  }

  // All letters that are meant, in the order in which their messages were in their streams, and
  // whether the stream had nothing else.
  async function chosen(covers, mine) {
    const { state } = await api.stream(name);
    const all = [];
    await each(api, name, state, (found) => {
      all.push(...found.filter(covers).map(summary));
      return !mine.isStopped;
    });
    all.sort((a, b) => (a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : a.sequence - b.sequence || a.seq - b.seq));
    return { seqs: all.map((row) => row.seq), isAll: all.length > 0 && all.length === state.messages };
  }

  // Does something with one letter after the other, until it fails, or somebody stops it or leaves the
  // page; or with all up to the last of them at once (`together`), where the stream had nothing else.
  // Those that cannot be published again, whoever tries, are passed over.
  async function through(covers, rate, done, step, together) {
    if (isLeft) toast(`No letters ${done}: their page was left.`, "bad");
    if (isLeft || running) return;
    const mine = running = { isStopped: false };
    actions.hidden = true;
    progress.hidden = false;
    say(status, "Reads the letters");
    let seqs = [];
    let [did, passed] = [0, 0];
    const reasons = new Set();
    try {
      const found = await chosen(covers, mine);
      const isTogether = together && found.isAll && !mine.isStopped;
      seqs = found.seqs;
      if (isTogether) did = await together(seqs.reduce((last, seq) => Math.max(last, seq)));
      const began = performance.now();
      for (const seq of isTogether ? [] : seqs) {
        say(status, `${count(did)} of ${count(seqs.length)} ${done}`);
        const early = rate > 0 ? began + (did * 1000) / rate - performance.now() : 0;
        if (early > 0) await new Promise((resolve) => { setTimeout(resolve, early); });
        if (mine.isStopped) break;
        try {
          await step(seq);
          did += 1;
        } catch (error) {
          if (!(error instanceof Unfit)) throw error;
          passed += 1;
          // A few say enough.
          if (reasons.size < 3) reasons.add(error.message);
        }
      }
      toast(`${counted(did)} ${done}.${passed > 0 ? ` ${count(passed)} passed over: ${[...reasons].join(" ")}` : ""}`, passed > 0 ? "bad" : "");
    } catch (error) {
      toast(`${error.message} ${counted(did)} ${done}, ${count(seqs.length - did)} left.`, "bad");
    } finally {
      progress.hidden = true;
      running = null;
      seen = null;
      view.again();
    }
  }

  async function replayAll() {
    const among = choice();
    const rate = h("input", { type: "number", min: 1, placeholder: "as fast as they are taken" });
    const body = h("div", {}, h("p", {}, "Messages are published again on their own subjects, in their order: all consumers of their streams get them. A letter goes when its stream says that it has the message."), among.fields, field("Messages in a second", rate));
    if (!await confirm({ title: "Replay the dead letters?", action: "Replay", body })) return;
    await through(among.covers, Number(rate.value), "published again", (seq) => replay(context, name, seq));
  }

  async function purge() {
    const among = choice();
    const body = h("div", {}, h("p", {}, "Letters are removed for good. Nobody gets their messages any more."), among.fields);
    if (!await confirm({ title: "Purge the dead letters?", word: name, action: "Purge", body })) return;
    await through(among.covers, 0, "removed", (seq) => api.remove(name, seq), async (last) => (await api.js(`STREAM.PURGE.${name}`, { seq: last + 1 })).purged);
  }
  const actions = h("span", { class: "line", hidden: true }, button("Replay all…", replayAll), button("Purge…", purge, "danger"));
  const view = {
    title: name, back: { href: path("letters"), text: "Dead letters" }, actions, node: h("div", {}, progress, table.node, more), refresh, interval: 3000,
    // A replay ends with the page that shows it: begun anew it goes on with what is left.
    stop: () => {
      isLeft = true;
      if (running) running.isStopped = true;
    },
  };
  return view;
}

// What the list needs of a letter: its payload is not kept.
function summary(letter) {
  return {
    seq: letter.seq, stream: letter.fact("Stream"), sequence: Number(letter.fact("Sequence")) || 0, consumer: letter.fact("Consumer"), reason: letter.fact("Reason"),
    text: letter.fact("Reason-Text"), deliveries: Number(letter.fact("Deliveries")) || 0, subject: letter.fact("Subject"), bytes: letter.data.length, time: letter.fact("Time"),
  };
}

// Does something, and tells why it was not done.
async function attempt(what) {
  try {
    await what();
  } catch (error) {
    toast(error.message, "bad");
  }
}

export function letter(context, name, number) {
  const { api } = context;
  const seq = Number(number);
  const body = h("div", {});
  let subject = "";
  let isLeft = false;

  async function leave(told, what) {
    await attempt(async () => {
      await what();
      toast(told);
      // Unless somebody has gone elsewhere meanwhile.
      if (!isLeft) location.hash = path("letters", name);
    });
  }

  async function giveBack() {
    const text = h("p", {}, "It is published on ", h("code", {}, subject), ": all consumers of its stream get it. The letter goes when the stream says that it has the message.");
    if (await confirm({ title: `Replay letter ${seq}?`, action: "Replay", body: text })) await leave("Published again.", () => replay(context, name, seq));
  }

  async function remove() {
    const text = h("p", {}, "Nobody gets its message any more.");
    if (await confirm({ title: `Remove letter ${seq}?`, action: "Remove", body: text })) await leave("The letter is removed.", () => api.remove(name, seq));
  }
  const actions = h("span", { class: "line", hidden: true }, button("Replay…", giveBack), button("Remove…", remove, "danger"));

  // Letters do not change: it is read once.
  async function refresh() {
    const found = await find(api, name, seq);
    const fact = (key) => found.fact(key);
    const time = (key) => (moment(fact(key)) ? `${clock(fact(key))}, ${ago(fact(key))}` : "unknown");
    const shown = payload(found.data);
    subject = fact("Subject");
    actions.hidden = !found.isLetter;
    set(body, h("div", { class: "columns" },
      panel("Death", found.isLetter ? facts([
        ["Reason", [died(fact("Reason")), fact("Reason-Text")]], ["Consumer", h("a", { href: path("streams", fact("Stream"), "consumers", fact("Consumer")) }, fact("Consumer"))],
        ["Deliveries", count(Number(fact("Deliveries")))], ["Last delivered", time("Last-Delivered")], ["Died", time("Time")],
      ]) : h("p", { class: "warn-text" }, "This message is no dead letter: nothing says where it is from.")),
      panel("Message", facts([
        ["Stream", fact("Stream") && h("a", { href: path("streams", fact("Stream")) }, fact("Stream"))], ["Sequence", fact("Sequence") || "–"], ["Subject", h("code", {}, subject || "–")],
        ["Stored", time("Stored")], ["Letter’s subject", h("code", {}, found.subject)], ["Bytes", bytes(found.data.length)],
      ])),
      found.own.length > 0 && h("section", { class: "panel span" }, h("h2", {}, "Headers"), h("pre", { class: "headers" }, found.own.map(([key, value]) => `${key}: ${value}`).join("\n"))),
      h("section", { class: "panel span" }, h("h2", {}, "Payload"), h("pre", { class: `payload ${shown.kind}` }, shown.text || "(empty)"))));
  }
  return { title: `Letter ${seq}`, back: { href: path("letters", name), text: name }, actions, node: body, refresh, stop: () => { isLeft = true; } };
}
