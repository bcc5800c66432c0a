// Drives a server binary with the official JavaScript client and says in how many cases the client
// met what it expects of a server. It owns the list of cases; what it knows comes through the client.
//
//   node smoke.mjs SERVER_BINARY LAB     LAB is a folder that lab.sh has made
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, createInbox, errors, headers } from "@nats-io/transport-node";
import { PATIENCE, Server } from "./server.mjs";
import { security } from "./security.mjs";
import { streams } from "./streams.mjs";

const USERS = `authorization { users: [
  {user: all, password: a}
  {user: few, password: b, permissions: {
    publish: {allow: ["ok.>", "_INBOX.>"], deny: "ok.not"}, subscribe: ["ok.>", "_INBOX.>", "work q"]}}
] }`;

const few = { user: "few", pass: "b" };
const DENIED = "AuthorizationError";

const scenes = [
  ["publish and subscribe", "", publishAndSubscribe],
  ["payloads of many sizes", "", payloads],
  ["wildcards", "", wildcards],
  ["queue group", "", queueGroup],
  ["request and reply", "", (server) => requestAndReply(server, {})],
  ["request without a multiplexer", "", (server) => requestAndReply(server, { noMux: true })],
  ["many answers to one request", "", requestMany],
  ["headers", "", withHeaders],
  ["no responders", "", noResponders],
  ["no echo", "", noEcho],
  ["verbose and pedantic", "", (server) => requestAndReply(server, {}, { verbose: true, pedantic: true })],
  ["auto-unsubscribe", "", autoUnsubscribe],
  ["drain", "", drain],
  ["flush and round trip", "", roundTrip],
  ["what the server says of itself", "server_name: called-so\nmax_payload: 54321", selfDescription],
  ["reconnect after a restart", "", reconnect],
  ["lame duck", "", lameDuck],
  ["stale connection", 'ping_interval: "300ms"\nping_max: 1', staleConnection],
  ["user and password", "authorization { user: derek, password: s3cret }", userAndPassword],
  ["token", "authorization { token: t0ken }", token],
  ["no_auth_user", `no_auth_user: all\n${USERS}`, noAuthUser],
  ["permission to publish", USERS, permissionToPublish],
  ["permission to subscribe", USERS, permissionToSubscribe],
  ["permission for a queue", USERS, permissionForQueue],
  ["payload above the limit", "max_payload: 1024", payloadLimit],
  ["slow subscription", "", slowSubscription],
  ["too many subscriptions", "max_subscriptions: 2", tooManySubscriptions],
  ...security(process.argv[3]),
  ...streams,
];

await main();

async function main() {
  const binary = process.argv[2];
  if (process.argv.length !== 4) {
    console.error("usage: node smoke.mjs SERVER_BINARY LAB");
    process.exit(2);
  }
  let failed = 0;
  for (const [name, config, play] of scenes) {
    try {
      await perform(binary, config, play);
    } catch (err) {
      failed += 1;
      console.log(`FAIL ${name}: ${err.message}`);
    }
  }
  console.log(`${scenes.length - failed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}

// Every scene has a server of its own, so that none sees another's traces.
async function perform(binary, config, play) {
  const server = await Server.start(binary, config);
  try {
    await within(play(server), "end of the scene", 4 * PATIENCE);
  } finally {
    await server.close();
  }
}

// Lends a connection to body and closes it afterwards.
async function withClient(server, body, options = {}) {
  const client = await connect({ servers: server.address, ...options });
  try {
    return await body(client);
  } finally {
    await client.close();
  }
}

async function within(promise, what, limit = PATIENCE) {
  const late = new AbortController();
  const alarm = sleep(limit, undefined, { signal: late.signal }).then(() => {
    throw new Error(`no ${what} within ${limit} ms`);
  });
  try {
    return await Promise.race([promise, alarm]);
  } finally {
    late.abort();
    alarm.catch(() => {});
  }
}

// Waits for the next event of this type on the connection.
function status(client, type) {
  const found = (async () => {
    for await (const event of client.status()) {
      if (event.type === type) return event;
    }
    throw new Error(`closed before ${type}`);
  })();
  return within(found, type);
}

function next(sub) {
  return within(sub[Symbol.asyncIterator]().next().then((step) => step.value), "message");
}

// Counts what a subscription gets; after a flush that is all that was sent before.
function counter(client, subject, options = {}) {
  const seen = { count: 0 };
  seen.sub = client.subscribe(subject, { ...options, callback: (err) => void (err ? (seen.err = err) : seen.count++) });
  return seen;
}

async function publishAndSubscribe(server) {
  await withClient(server, async (client) => {
    const sub = client.subscribe("foo");
    client.publish("foo", "hello", { reply: "back" });
    const message = await next(sub);
    assert.deepEqual([message.subject, message.reply, message.string()], ["foo", "back", "hello"]);
  });
}

async function payloads(server) {
  await withClient(server, async (client) => {
    for (const size of [0, 1, 511, 4096, 65535, 65537, 1 << 20]) {
      const sub = client.subscribe("size", { max: 1 });
      const payload = new Uint8Array(size).map((_, i) => i * 7);
      client.publish("size", payload);
      assert.ok(Buffer.from(payload).equals((await next(sub)).data), `${size} bytes`);
    }
  });
}

async function wildcards(server) {
  await withClient(server, async (client) => {
    const wants = { "a.*": 2, "a.>": 3, "*.b": 2, ">": 5, "a.b": 1, "*": 1, "*.*.c": 1 };
    const counters = Object.keys(wants).map((filter) => [filter, counter(client, filter)]);
    for (const subject of ["a", "a.b", "a.c", "a.b.c", "x.b"]) client.publish(subject);
    await client.flush();
    assert.deepEqual(Object.fromEntries(counters.map(([filter, seen]) => [filter, seen.count])), wants);
  });
}

async function queueGroup(server) {
  await withClient(server, async (client) => {
    const members = [1, 2, 3, 4].map(() => counter(client, "work", { queue: "q" }));
    const plain = counter(client, "work");
    for (let i = 0; i < 400; i++) client.publish("work");
    await client.flush();
    assert.equal(members.reduce((sum, member) => sum + member.count, 0), 400);
    assert.ok(members.every((member) => member.count > 0), "every member works");
    assert.equal(plain.count, 400);
  });
}

async function requestAndReply(server, how, options = {}) {
  await withClient(server, async (client) => {
    client.subscribe("double", { callback: (_, m) => m.respond(m.string() + m.string()) });
    for (const question of ["ab", "xyz"]) {
      const reply = how.noMux ? { reply: createInbox() } : {};
      const answer = await client.request("double", question, { timeout: PATIENCE, ...how, ...reply });
      assert.equal(answer.string(), question + question);
    }
  }, options);
}

async function requestMany(server) {
  await withClient(server, async (client) => {
    for (let i = 0; i < 3; i++) client.subscribe("all", { callback: (_, m) => m.respond(`${i}`) });
    const answers = [];
    const many = await client.requestMany("all", "", { strategy: "count", maxMessages: 3, maxWait: PATIENCE });
    for await (const answer of many) answers.push(answer.string());
    assert.deepEqual(answers.sort(), ["0", "1", "2"]);
  });
}

async function withHeaders(server) {
  await withClient(server, async (client) => {
    const sub = client.subscribe("h");
    const sent = headers();
    sent.append("Colour", "red");
    sent.append("Colour", "blue");
    client.publish("h", "body", { headers: sent });
    const message = await next(sub);
    assert.deepEqual([message.headers.values("Colour"), message.string()], [["red", "blue"], "body"]);
  });
}

async function noResponders(server) {
  await withClient(server, async (client) => {
    const err = await client.request("nobody", "", { timeout: PATIENCE }).then(() => undefined, (e) => e);
    assert.ok(err instanceof errors.NoRespondersError || err?.cause instanceof errors.NoRespondersError, `${err}`);
  });
}

async function noEcho(server) {
  await withClient(server, async (client) => {
    const own = counter(client, "echo");
    client.publish("echo");
    await client.flush();
    assert.equal(own.count, 0);
  }, { noEcho: true });
}

async function autoUnsubscribe(server) {
  await withClient(server, async (client) => {
    const some = counter(client, "some", { max: 10 });
    for (let i = 0; i < 25; i++) client.publish("some");
    await client.flush();
    assert.equal(some.count, 10);
    // The server has to have forgotten it too: only then nobody answers.
    await assert.rejects(client.request("some", "", { timeout: PATIENCE }), /no responders/i);
  });
}

async function drain(server) {
  await withClient(server, async (sender) => {
    const client = await connect({ servers: server.address });
    const seen = counter(client, "slow");
    await client.flush();
    for (let i = 0; i < 200; i++) sender.publish("slow");
    await sender.flush();
    await within(client.drain(), "end of the drain");
    assert.equal(seen.count, 200);
    assert.ok(client.isClosed());
  });
}

async function roundTrip(server) {
  await withClient(server, async (client) => {
    for (let i = 0; i < 100; i++) await within(client.flush(), "PONG");
    assert.ok((await client.rtt()) < 1000);
  });
}

async function selfDescription(server) {
  await withClient(server, async (client) => {
    const info = client.info;
    assert.match(info.server_id, /^N[A-Z2-7]{55}$/);
    assert.match(info.version, /^2\.\d+\.\d+/);
    assert.deepEqual([info.server_name, info.max_payload, info.headers, info.proto, info.client_ip, info.port],
      ["called-so", 54321, true, 1, "127.0.0.1", server.port]);
    assert.ok(info.client_id > 0);
  });
}

async function reconnect(server) {
  await withClient(server, async (client) => {
    const plain = counter(client, "again.*");
    const queue = counter(client, "again.*", { queue: "q" });
    await client.flush();
    const before = client.info.server_id;
    const [lost, found] = [status(client, "disconnect"), status(client, "reconnect")];
    await server.stop();
    await lost;
    await server.start();
    await found;
    client.publish("again.x");
    await client.flush();
    assert.deepEqual([plain.count, queue.count], [1, 1]);
    assert.notEqual(client.info.server_id, before);
  }, { reconnectTimeWait: 50, reconnectJitter: 0, maxReconnectAttempts: -1 });
}

async function lameDuck(server) {
  await withClient(server, async (client) => {
    const leaving = status(client, "ldm");
    server.signal("SIGUSR2");
    await leaving;
    await client.flush();
  });
}

async function staleConnection(server) {
  await withClient(server, async (healthy) => {
    const heard = await server.say("CONNECT {}\r\nPING\r\n");
    assert.match(heard, /-ERR 'Stale Connection'/);
    await healthy.flush();
  });
}

// Connects and closes, or returns the reason why not.
async function refusal(server, options) {
  try {
    await withClient(server, () => undefined, { reconnect: false, ...options });
    return "none";
  } catch (err) {
    return err.name;
  }
}

async function refusals(server, cases) {
  for (const [options, want] of cases) {
    assert.equal(await refusal(server, options), want, JSON.stringify(options));
  }
}

async function userAndPassword(server) {
  await refusals(server, [
    [{ user: "derek", pass: "s3cret" }, "none"],
    [{ user: "derek", pass: "guess" }, DENIED],
    [{ user: "other", pass: "s3cret" }, DENIED],
    [{}, DENIED],
  ]);
}

async function token(server) {
  await refusals(server, [[{ token: "t0ken" }, "none"], [{ token: "other" }, DENIED], [{}, DENIED]]);
}

async function noAuthUser(server) {
  await refusals(server, [[{}, "none"], [few, "none"], [{ user: "few", pass: "wrong" }, DENIED]]);
}

async function permissionToPublish(server) {
  await withClient(server, async (client) => {
    const told = status(client, "error");
    client.publish("ok.not", "");
    const { error } = await told;
    assert.ok(error instanceof errors.PermissionViolationError, `${error}`);
    assert.deepEqual([error.operation, error.subject], ["publish", "ok.not"]);
    await client.flush();
  }, few);
}

async function permissionToSubscribe(server) {
  await withClient(server, async (client) => {
    const secret = counter(client, "secret");
    const allowed = counter(client, "ok.*");
    client.publish("ok.yes");
    await client.flush();
    assert.ok(secret.err instanceof errors.PermissionViolationError, `${secret.err}`);
    assert.deepEqual([secret.err.operation, secret.err.subject], ["subscription", "secret"]);
    assert.equal(allowed.count, 1);
  }, few);
}

async function permissionForQueue(server) {
  await withClient(server, async (client) => {
    const mine = counter(client, "work", { queue: "q" });
    const other = counter(client, "work", { queue: "other" });
    await client.flush();
    assert.equal(mine.err, undefined);
    assert.deepEqual([other.err?.operation, other.err?.queue], ["subscription", "other"]);
  }, few);
}

async function payloadLimit(server) {
  await withClient(server, async (client) => {
    assert.throws(() => client.publish("big", new Uint8Array(1025)), /max_payload/);
    client.publish("big", new Uint8Array(1024));
    await client.flush();
  });
  const heard = await server.say("CONNECT {}\r\nPUB big 1025\r\n");
  assert.match(heard, /-ERR 'Maximum Payload Violation'/);
}

async function slowSubscription(server) {
  await withClient(server, async (client) => {
    const sub = client.subscribe("flood", { slow: 10 });
    const told = status(client, "slowConsumer");
    for (let i = 0; i < 50; i++) client.publish("flood");
    await client.flush();
    const first = await next(sub);
    assert.equal(first.subject, "flood");
    assert.ok((await told).pending > 10);
  });
}

async function tooManySubscriptions(server) {
  await withClient(server, async (client) => {
    const told = status(client, "error");
    for (let i = 0; i < 3; i++) client.subscribe("many");
    assert.match(String((await told).error), /maximum subscriptions exceeded/i);
    await client.flush();
  });
}
