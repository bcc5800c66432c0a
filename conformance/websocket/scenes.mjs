// What an application does over WebSocket, the same on Node and in a browser. Owns the list of scenes; knows no process.
import { headers, wsconnect } from "@nats-io/nats-core";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";

const PATIENCE = 10000;

const scenes = [
  ["publish and subscribe", publishAndSubscribe],
  ["payloads of many sizes", payloads],
  ["thousands of messages", many],
  ["request and reply", requestAndReply],
  ["headers", withHeaders],
  ["no responders", noResponders],
  ["streams", streams],
  ["wrong password", wrongPassword],
  ["round trip", roundTrip],
];

// Plays all scenes against each of the urls; says what passed and what did not.
export async function play(urls) {
  const report = { passed: 0, failed: [] };
  for (const url of urls) {
    for (const [name, scene] of scenes) {
      try {
        await within(scene(url), name);
        report.passed += 1;
      } catch (err) {
        report.failed.push(`${name} over ${url}: ${err?.stack ?? err}`);
      }
    }
  }
  return report;
}

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${PATIENCE} ms: ${what}`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function check(holds, what) {
  if (!holds) throw new Error(what);
}

const join = (url, more = {}) =>
  wsconnect({ servers: url, user: "app", pass: "s3cret", reconnect: false, ...more });

async function next(sub) {
  for await (const message of sub) return message;
  throw new Error("the subscription is over");
}

async function publishAndSubscribe(url) {
  const [one, other] = [await join(url), await join(url)];
  const sub = one.subscribe("a.*");
  await one.flush();
  other.publish("a.b", "hello");
  const message = await next(sub);
  check(message.subject === "a.b" && message.string() === "hello", message.string());
  await Promise.all([one.close(), other.close()]);
}

async function payloads(url) {
  const nc = await join(url);
  for (const size of [0, 1, 63, 64, 65, 125, 126, 4095, 4096, 4097, 65535, 65536, 300000, 900000]) {
    const body = new Uint8Array(size).map((_, i) => (i * i) >> 7);
    const sub = nc.subscribe(`size.${size}`, { max: 1 });
    nc.publish(`size.${size}`, body);
    const { data } = await next(sub);
    check(data.length === size && data.every((byte, i) => byte === body[i]), `${size} bytes`);
  }
  await nc.close();
}

async function many(url) {
  const [one, other] = [await join(url), await join(url)];
  const sub = one.subscribe("many");
  await one.flush();
  for (let i = 0; i < 20000; i++) other.publish("many", `${i}`);
  let count = 0;
  for await (const message of sub) {
    check(message.string() === `${count}`, `${message.string()} instead of ${count}`);
    if (++count === 20000) break;
  }
  await Promise.all([one.close(), other.close()]);
}

async function requestAndReply(url) {
  const nc = await join(url);
  nc.subscribe("ask", { callback: (_, message) => message.respond(message.string().toUpperCase()) });
  const answers = await Promise.all([..."abcdef"].map((letter) => nc.request("ask", letter, { timeout: PATIENCE })));
  check(answers.map((answer) => answer.string()).join("") === "ABCDEF", "answers");
  await nc.drain();
}

async function withHeaders(url) {
  const nc = await join(url);
  const sub = nc.subscribe("h");
  const set = headers();
  set.append("A", "b");
  set.append("A", "ü");
  nc.publish("h", "body", { headers: set });
  const message = await next(sub);
  check(message.headers.values("A").join() === "b,ü" && message.string() === "body", "headers");
  await nc.close();
}

async function noResponders(url) {
  const nc = await join(url);
  const error = await nc.request("nobody", "", { timeout: PATIENCE }).catch((err) => err);
  check(/no responders/i.test(`${error.message} ${error.cause?.message}`), error.message);
  await nc.close();
}

async function streams(url) {
  const nc = await join(url);
  const name = `S${Math.floor(Math.random() * 1e9)}`;
  const jsm = await jetstreamManager(nc);
  await jsm.streams.add({ name, subjects: [`${name}.>`], storage: "memory" });
  const js = jetstream(nc);
  for (let i = 0; i < 100; i++) await js.publish(`${name}.x`, `${i}`);
  const consumer = await js.consumers.get(name);
  let count = 0;
  for await (const message of await consumer.consume()) {
    check(message.string() === `${count}`, message.string());
    if (++count === 100) break;
  }
  await jsm.streams.delete(name);
  await nc.close();
}

async function wrongPassword(url) {
  const error = await join(url, { pass: "wrong" }).then(() => undefined, (err) => err);
  check(/authorization/i.test(`${error?.name} ${error?.message}`), `${error}`);
}

async function roundTrip(url) {
  const nc = await join(url);
  check((await nc.rtt()) >= 0, "a time");
  check(nc.info.port === Number(new URL(url).port), "INFO is about this listener");
  await nc.close();
}

// Only a browser has these: the cookies of the page are the credentials.
export async function cookies(url) {
  document.cookie = "user=app; path=/";
  document.cookie = "pass=s3cret; path=/";
  const nc = await wsconnect({ servers: url, reconnect: false });
  await nc.flush();
  await nc.close();
  document.cookie = "pass=wrong; path=/";
  const error = await wsconnect({ servers: url, reconnect: false }).then(() => undefined, (err) => err);
  check(error !== undefined, "a wrong cookie is let in");
}
