// Scenes about streams: their management, publishing, atomic and fast batches, key-value style expectations, and reading
// without a consumer. Each gets a server with JetStream of its own; how they are run is smoke.mjs' matter.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, headers } from "@nats-io/transport-node";
import { JetStreamApiError, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { startFastIngest } from "@nats-io/jetstream/internal";
import { PATIENCE } from "./server.mjs";

const JETSTREAM = "jetstream { store_dir: ROOM }";

export const streams = [
  ["a stream's life", JETSTREAM, onStage(streamLife)],
  ["streams that are refused", JETSTREAM, onStage(streamsRefused)],
  ["pages of streams", JETSTREAM, onStage(streamPages)],
  ["a stream's subjects and holes", JETSTREAM, onStage(streamDetails)],
  ["purge", JETSTREAM, onStage(purge)],
  ["streams after a restart", JETSTREAM, onStage(streamsAfterRestart)],
  ["account info", JETSTREAM, onStage(accountInfo)],
  ["advisories of streams", JETSTREAM, onStage(advisories)],
  ["acknowledged publishing", JETSTREAM, onStage(publishing)],
  ["publishing at once", JETSTREAM, onStage(publishingAtOnce)],
  ["message ids and what is expected", JETSTREAM, onStage(expectations)],
  ["messages with a time to live", JETSTREAM, onStage(timeToLive)],
  ["an atomic batch", JETSTREAM, onStage(atomicBatch)],
  ["atomic batches that are refused", JETSTREAM, onStage(atomicRefused)],
  ["a fast batch", JETSTREAM, onStage(fastBatch)],
  ["fast batches of all widths", JETSTREAM, onStage(fastWidths)],
  ["a fast batch ended and pinged", JETSTREAM, onStage(fastEnds)],
  ["what a fast batch expects", JETSTREAM, onStage(fastExpects)],
  ["fast batches that are refused", JETSTREAM, onStage(fastRefused)],
  ["a gap in a fast batch", JETSTREAM, onStage(fastGaps)],
  ["messages got and deleted", JETSTREAM, onStage(getAndDelete)],
  ["batches of messages", JETSTREAM, onStage(getBatches)],
  ["last messages of many subjects", JETSTREAM, onStage(getLasts)],
];

// Lends a client of JetStream to play: the connection, the manager and the publisher.
function onStage(play) {
  return async (server) => {
    const client = await connect({ servers: server.address, timeout: PATIENCE, reconnectTimeWait: 20, maxReconnectAttempts: -1 });
    try {
      const js = jetstream(client, { timeout: PATIENCE });
      await play({ server, client, js, jsm: await jetstreamManager(client, { timeout: PATIENCE }) });
    } finally {
      await client.close();
    }
  };
}

function makeStream({ jsm }, config = {}) {
  return jsm.streams.add({ name: "S", subjects: ["s.>"], ...config });
}

// Publishes n messages to so many subjects in turn.
async function fill({ js }, n, subjects) {
  for (let i = 0; i < n; i++) await js.publish(`s.${i % subjects}`, `m${i + 1}`);
}

// The promise fails with this code of the API.
async function refused(promise, code, what) {
  const error = await Promise.resolve(promise).then((value) => assert.fail(`${what}: ${JSON.stringify(value)}`), (err) => err);
  const api = error instanceof JetStreamApiError ? error : error.cause;
  assert.equal(api?.code ?? error, code, `${what}: ${error}`);
}

async function holds({ jsm }, messages, first, last, name = "S") {
  const { state } = await jsm.streams.info(name);
  assert.deepEqual([state.messages, state.first_seq, state.last_seq], [messages, first, last]);
}

async function becomes({ jsm }, messages) {
  const deadline = Date.now() + 2 * PATIENCE;
  while ((await jsm.streams.info("S")).state.messages !== messages) {
    assert.ok(Date.now() < deadline, `never ${messages} messages`);
    await sleep(20);
  }
}

// Waits until the client has found the server again.
async function comesBack(client) {
  const deadline = Date.now() + 2 * PATIENCE;
  while (!(await client.flush().then(() => true, () => false))) {
    assert.ok(Date.now() < deadline, "the client does not come back");
    await sleep(20);
  }
}

async function gathered(iterator) {
  const sequences = [];
  for await (const message of await iterator) sequences.push(message.seq);
  return sequences;
}

async function streamLife(stage) {
  const { jsm, js } = stage;
  const made = await makeStream(stage, { description: "first", metadata: { who: "me" }, max_msgs: 10 });
  assert.deepEqual([made.config.description, made.config.metadata.who, made.config.max_bytes], ["first", "me", -1]);
  await fill(stage, 3, 1);
  const updated = await jsm.streams.update("S", { description: "second", subjects: ["s.>", "t"], max_msgs: 2 });
  assert.deepEqual([updated.config.description, updated.created], ["second", made.created]);
  await holds(stage, 2, 2, 3);
  assert.equal((await js.publish("t")).seq, 4);
  assert.equal(await jsm.streams.find("t"), "S");
  const stream = await jsm.streams.get("S");
  assert.equal((await stream.info(true)).config.name, "S");
  assert.equal(await jsm.streams.delete("S"), true);
  await refused(jsm.streams.info("S"), 10059, "info of none");
  await refused(jsm.streams.delete("S"), 10059, "delete of none");
  await refused(jsm.streams.update("S", {}), 10059, "update of none");
}

async function streamsRefused(stage) {
  const { jsm } = stage;
  await makeStream(stage);
  const cases = {
    overlap: [{ name: "T", subjects: ["s.a"] }, 10065],
    "another of the name": [{ name: "S", subjects: ["s.>"], max_msgs: 1 }, 10058],
    "window above the age": [{ name: "T", subjects: ["t"], max_age: 1e9, duplicate_window: 60e9 }, 10052],
    replicas: [{ name: "T", subjects: ["t"], num_replicas: 3 }, 10074],
    "subject not valid": [{ name: "T", subjects: ["t..a"] }, 10052],
    "subject of the API": [{ name: "T", subjects: ["$JS.API.>"] }, 10052],
  };
  for (const [what, [config, code]] of Object.entries(cases)) await refused(jsm.streams.add(config), code, what);
  await refused(jsm.streams.update("S", { storage: "memory" }), 10052, "storage");
  await refused(jsm.streams.update("S", { retention: "workqueue" }), 10052, "retention");
  assert.equal((await jsm.streams.update("S", { sealed: true })).config.sealed, true);
  await refused(jsm.streams.purge("S"), 10109, "purge of a sealed stream");
}

async function streamPages(stage) {
  const { jsm } = stage;
  const names = [];
  for (let i = 0; i < 270; i++) {
    names.push(`P${String(i).padStart(3, "0")}`);
    await jsm.streams.add({ name: names[i], subjects: [`p.${i % 3}.${i}`], storage: "memory" });
  }
  const listed = [];
  for await (const name of jsm.streams.names()) listed.push(name);
  assert.deepEqual(listed, names);
  const infos = [];
  for await (const info of jsm.streams.list()) infos.push(info.config.name);
  assert.deepEqual(infos, names);
  assert.equal((await jsm.streams.list("p.1.*").next()).length, 90);
  assert.equal((await jsm.streams.names("p.*.5").next())[0], "P005");
}

async function streamDetails(stage) {
  await makeStream(stage);
  await fill(stage, 12, 4);
  for (const seq of [3, 4, 9]) await stage.jsm.streams.deleteMessage("S", seq);
  const { state } = await stage.jsm.streams.info("S", { deleted_details: true, subjects_filter: ">" });
  assert.deepEqual(state.deleted, [3, 4, 9]);
  assert.deepEqual(state.subjects, { "s.0": 2, "s.1": 3, "s.2": 2, "s.3": 2 });
  assert.equal(state.num_deleted, 3);
}

async function purge(stage) {
  const { jsm } = stage;
  await makeStream(stage);
  await fill(stage, 20, 4);
  assert.equal((await jsm.streams.purge("S", { filter: "s.1" })).purged, 5);
  assert.equal((await jsm.streams.purge("S", { seq: 9 })).purged, 6);
  assert.equal((await jsm.streams.purge("S", { keep: 3 })).purged, 6);
  await holds(stage, 3, 17, 20);
  assert.equal((await jsm.streams.purge("S")).purged, 3);
  await holds(stage, 0, 21, 20);
}

async function streamsAfterRestart(stage) {
  const { server, client, jsm, js } = stage;
  const { config, created } = await makeStream(stage, { metadata: { who: "me" } });
  await fill(stage, 50, 5);
  server.signal("SIGTERM");
  await server.ended;
  await server.start();
  await comesBack(client);
  const info = await jsm.streams.info("S");
  assert.deepEqual([info.config, info.created], [config, created]);
  await holds(stage, 50, 1, 50);
  assert.equal((await jsm.streams.getMessage("S", { seq: 7 })).string(), "m7");
  assert.equal((await js.publish("s.x")).seq, 51);
}

async function accountInfo(stage) {
  await makeStream(stage);
  await fill(stage, 4, 4);
  const info = await stage.jsm.getAccountInfo();
  assert.deepEqual([info.streams, info.memory, info.storage, info.limits.max_streams], [1, 0, 140, -1]);
}

async function advisories(stage) {
  const seen = [];
  const reading = (async () => {
    for await (const advisory of stage.jsm.advisories()) {
      seen.push(advisory.data.action ?? advisory.data.type);
      if (seen.filter((what) => what === "delete").length === 1) return;
    }
  })();
  await stage.client.flush();
  await makeStream(stage);
  await stage.jsm.streams.update("S", { description: "x" });
  await stage.jsm.streams.delete("S");
  await Promise.race([reading, sleep(PATIENCE)]);
  const actions = seen.filter((what) => ["create", "modify", "delete"].includes(what));
  assert.deepEqual(actions, ["create", "modify", "delete"]);
}

async function publishing(stage) {
  const { client, js, jsm } = stage;
  for (const storage of ["file", "memory"]) {
    await makeStream(stage, { storage });
    for (let seq = 1; seq <= 50; seq++) assert.deepEqual(await js.publish("s.a", `${seq}`), { stream: "S", seq, duplicate: false });
    const raw = await client.request("s.a", "", { timeout: PATIENCE });
    assert.equal(raw.string(), '{"stream":"S","seq":51}');
    await jsm.streams.delete("S");
  }
  await assert.rejects(js.publish("nobody", "", { retries: 0 }), /no responders|jetstream/i);
}

async function publishingAtOnce(stage) {
  await makeStream(stage);
  const acks = await Promise.all(Array.from({ length: 3000 }, (_, i) => stage.js.publish(`s.${i % 9}`, `${i}`)));
  assert.ok(acks.every((ack, i) => ack.seq === i + 1), "in order");
  await holds(stage, 3000, 1, 3000);
}

async function expectations(stage) {
  const { js } = stage;
  await makeStream(stage);
  assert.equal((await js.publish("s.a", "", { msgID: "one" })).duplicate, false);
  assert.deepEqual(await js.publish("s.a", "", { msgID: "one" }), { stream: "S", seq: 1, duplicate: true });
  await js.publish("s.b", "", { expect: { lastMsgID: "one", streamName: "S", lastSequence: 1 } });
  await js.publish("s.a", "", { expect: { lastSubjectSequence: 1 } });
  await js.publish("s.c", "", { expect: { lastSubjectSequence: 2, lastSubjectSequenceSubject: "s.b" } });
  const wrong = { lastMsgID: ["two", 10070], streamName: ["T", 10060], lastSequence: [9, 10071], lastSubjectSequence: [9, 10071] };
  for (const [key, [value, code]] of Object.entries(wrong)) {
    await refused(js.publish("s.a", "", { expect: { [key]: value } }), code, key);
  }
  await holds(stage, 4, 1, 4);
}

async function timeToLive(stage) {
  const { js, jsm } = stage;
  await makeStream(stage, { allow_msg_ttl: true });
  await js.publish("s.short", "", { ttl: "1s" });
  await js.publish("s.long", "", { ttl: "1h" });
  assert.equal((await jsm.streams.getMessage("S", { seq: 1 })).header.get("Nats-TTL"), "1s");
  await becomes(stage, 1);
  await refused(js.publish("s.a", "", { ttl: "soon" }), 10165, "no time");
}

async function atomicBatch(stage) {
  const { js, jsm } = stage;
  await makeStream(stage, { allow_atomic: true });
  const batch = await js.startBatch("s.a", "1");
  batch.add("s.b", "2");
  await batch.add("s.c", "3", { ack: true });
  await holds(stage, 0, 0, 0);
  const ack = await batch.commit("s.d", "4");
  assert.deepEqual([ack.stream, ack.seq, ack.count, ack.batch], ["S", 4, 4, batch.id]);
  await holds(stage, 4, 1, 4);
  assert.equal((await jsm.streams.getMessage("S", { seq: 3 })).string(), "3");
  const large = await js.startBatch("s.a");
  for (let i = 0; i < 998; i++) large.add("s.a", `${i}`);
  assert.equal((await large.commit("s.a")).count, 1000);
  await holds(stage, 1004, 1, 1004);
}

async function atomicRefused(stage) {
  const { js, jsm } = stage;
  await makeStream(stage, { allow_atomic: true });
  await jsm.streams.add({ name: "T", subjects: ["t"] });
  await refused(js.startBatch("t"), 10174, "not enabled");
  const late = await js.startBatch("s.a", "", { expect: { lastSequence: 7 } });
  // The client takes a refused commit for an acknowledgement that lacks a count.
  await assert.rejects(late.commit("s.a"));
  const many = await js.startBatch("s.a");
  for (let i = 0; i < 999; i++) many.add("s.a");
  await assert.rejects(many.commit("s.a"));
  await holds(stage, 0, 0, 0);
}

function fast(stage, options = {}) {
  return startFastIngest(stage.client, "s.0", "0", { allowGaps: false, ...options });
}

async function fastBatch(stage) {
  for (const storage of ["file", "memory"]) {
    await makeStream(stage, { storage, allow_batched: true });
    const batch = await fast(stage, { ackInterval: 100 });
    for (let i = 1; i < 3000; i++) {
      const progress = await batch.add(`s.${i % 5}`, `${i}`);
      assert.ok(progress.batchSeq === i + 1 && progress.ackSeq <= i + 1, JSON.stringify(progress));
    }
    const ack = await batch.last("s.z", "last");
    assert.deepEqual([ack.stream, ack.seq, ack.count, ack.batch], ["S", 3001, 3001, batch.batch]);
    assert.deepEqual(await batch.done(), ack);
    await holds(stage, 3001, 1, 3001);
    assert.equal((await stage.jsm.streams.getMessage("S", { seq: 1234 })).string(), "1233");
    await stage.jsm.streams.delete("S");
  }
}

async function fastWidths(stage) {
  await makeStream(stage, { allow_batched: true });
  let total = 0;
  for (const ackInterval of [1, 10, 1000, 60000]) {
    for (const maxOutstandingAcks of [1, 2, 3]) {
      const batch = await fast(stage, { ackInterval, maxOutstandingAcks });
      for (let i = 1; i < 250; i++) await batch.add("s.a");
      const ack = await batch.end();
      total += 250;
      assert.deepEqual([ack.count, ack.seq], [250, total], `${ackInterval} ${maxOutstandingAcks}`);
    }
  }
  const many = await Promise.all(Array.from({ length: 10 }, () => fast(stage, { allowGaps: true })));
  await Promise.all(many.map(async (batch) => {
    for (let i = 1; i < 100; i++) await batch.add("s.a");
    assert.equal((await batch.end()).count, 100);
  }));
  await holds(stage, total + 1000, 1, total + 1000);
}

async function fastEnds(stage) {
  await makeStream(stage, { allow_batched: true });
  const batch = await fast(stage, { ackInterval: 10, inboxPrefix: "my.own" });
  await batch.add("s.a");
  const pings = await Promise.all([batch.ping(), batch.ping()]);
  assert.deepEqual(pings[1], { batchSeq: 2, ackSeq: 0 });
  assert.equal((await batch.end()).count, 2);
  await assert.rejects(batch.add("s.a"));
  await assert.rejects(batch.ping());
  const one = await fast(stage);
  assert.equal((await one.end()).count, 1);
  await holds(stage, 3, 1, 3);
}

async function fastExpects(stage) {
  await makeStream(stage, { allow_batched: true });
  await fill(stage, 2, 2);
  const good = await fast(stage, { expect: { lastSequence: 2 } });
  assert.equal((await good.end()).seq, 3);
  const bad = await fast(stage);
  await bad.add("s.a", "", { expect: { lastSequence: 99 } });
  await assert.rejects(bad.done(), /wrong last sequence: 4/);
  await holds(stage, 4, 1, 4);
}

async function fastRefused(stage) {
  await makeStream(stage);
  await refused(fast(stage), 10205, "not enabled");
  await stage.jsm.streams.update("S", { allow_batched: true });
  await assert.rejects(fast(stage, { inboxPrefix: "a.*" }));
  const long = stage.client.subscribe("x.>", { max: 1 });
  stage.client.publish("s.a", "", { reply: `x.${"y".repeat(65)}.10.fail.1.0.$FI` });
  const { value } = await long[Symbol.asyncIterator]().next();
  assert.equal(value.json().error.err_code, 10207);
  await holds(stage, 0, 0, 0);
}

async function fastGaps(stage) {
  await makeStream(stage, { allow_batched: true });
  for (const [allowGaps, count] of [[true, 4], [false, 1]]) {
    const batch = await fast(stage, { allowGaps, ackInterval: 10 });
    const gaps = batch.gaps()[Symbol.asyncIterator]();
    // Behind the client's back: a message of its batch that leaves two out.
    const reply = `_INBOX.${batch.batch}.10.${allowGaps ? "ok" : "fail"}.4.1.$FI`;
    stage.client.publish("s.a", "", { reply });
    assert.deepEqual((await gaps.next()).value, { lastSeq: 2, seq: 4 });
    if (!allowGaps) assert.equal((await batch.done()).count, count);
  }
  await holds(stage, 3, 1, 3);
}

async function getAndDelete(stage) {
  const { js, jsm } = stage;
  for (const allow_direct of [false, true]) {
    await makeStream(stage, { allow_direct });
    const hdrs = headers();
    hdrs.append("A", "1");
    hdrs.append("A", "2");
    await js.publish("s.h", "body", { headers: hdrs });
    await fill(stage, 6, 3);
    const get = (query) => (allow_direct ? jsm.direct : jsm.streams).getMessage("S", query);
    const first = await get({ seq: 1 });
    assert.deepEqual([first.subject, first.string(), first.header.values("A")], ["s.h", "body", ["1", "2"]]);
    assert.equal((await get({ last_by_subj: "s.1" })).seq, 6);
    assert.equal((await get({ seq: 4, next_by_subj: "s.1" })).seq, 6);
    assert.equal(await get({ seq: 8 }), null);
    assert.equal(await get({ last_by_subj: "s.none" }), null);
    assert.equal(await jsm.streams.deleteMessage("S", 2), true);
    assert.equal(await jsm.streams.deleteMessage("S", 3, false), true);
    await refused(jsm.streams.deleteMessage("S", 2), 10043, "twice");
    assert.equal(await get({ seq: 2 }), null);
    await jsm.streams.delete("S");
  }
}

async function getBatches(stage) {
  const { jsm } = stage;
  await makeStream(stage, { allow_direct: true });
  await fill(stage, 10, 3);
  await sleep(5);
  const noon = new Date();
  await fill(stage, 10, 3);
  const cases = [
    [{ seq: 1, batch: 4 }, [1, 2, 3, 4]],
    [{ seq: 19, batch: 50 }, [19, 20]],
    [{ seq: 1, batch: 3, next_by_subj: "s.1" }, [2, 5, 8]],
    [{ start_time: noon, batch: 2 }, [11, 12]],
    [{ seq: 1, batch: 50, max_bytes: 15 }, [1, 2, 3]],
  ];
  for (const [query, want] of cases) assert.deepEqual(await gathered(jsm.direct.getBatch("S", query)), want);
  assert.deepEqual(await gathered(jsm.direct.getBatch("S", { seq: 21, batch: 5 })).catch((err) => [err.code ?? err.status]), [404]);
}

async function getLasts(stage) {
  const { jsm } = stage;
  await makeStream(stage, { allow_direct: true });
  await fill(stage, 17, 7);
  const lasts = (query) => gathered(jsm.direct.getLastMessagesFor("S", query));
  assert.deepEqual(await lasts({ multi_last: ["s.1", "s.3"] }), [11, 16]);
  assert.deepEqual(await lasts({ multi_last: ["s.*"] }), [11, 12, 13, 14, 15, 16, 17]);
  assert.deepEqual(await lasts({ multi_last: ["s.*"], up_to_seq: 9 }), [3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(await lasts({ multi_last: ["s.*"], batch: 2 }), [11, 12]);
}
