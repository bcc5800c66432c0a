// Scenes over TLS, for smoke.mjs: every way in to a server with certificates of a lab.
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";

const PATIENCE = 5000;

export function security(lab) {
  const file = (name) => join(lab, name);
  const pair = `cert_file: ${JSON.stringify(file("server.pem"))}, key_file: ${JSON.stringify(file("server.key"))}`;
  const mutual = `${pair}, ca_file: ${JSON.stringify(file("ca.pem"))}, verify: true`;
  const mapped = `${mutual}, verify_and_map: true`;
  const users = `authorization { users: [
    {user: "app@example.com", permissions: {publish: ["ok.>", "_INBOX.>"], subscribe: ["ok.>", "_INBOX.>"]}} ] }`;
  const knows = (authority = "ca") => ({ caFile: file(`${authority}.pem`) });
  const shows = (name) => ({ ...knows(), certFile: file(`${name}.pem`), keyFile: file(`${name}.key`) });
  const first = (tls) => ({ ...tls, handshakeFirst: true });
  const tls = (block) => `tls { ${block} }\n`;

  return [
    ["TLS after INFO", tls(pair), (server) => speaks(server, knows())],
    ["an authority that nobody knows", tls(pair), (server) => refused(server, knows("ca2"))],
    ["no TLS where it is required", tls(pair), (server) => refused(server, null)],
    ["TLS first", tls(`${pair}, handshake_first: true`), (server) => speaks(server, first(knows()))],
    ["TLS first or not: auto", tls(`${pair}, handshake_first: auto`), either],
    ["TLS first or not: 300ms", tls(`${pair}, handshake_first: "300ms"`), either],
    ["TLS or not", `${tls(pair)}allow_non_tls: true`, async (server) => {
      await speaks(server, knows());
      await speaks(server, null);
    }],
    ["mutual TLS", tls(mutual), async (server) => {
      await speaks(server, shows("app"));
      await refused(server, knows());
      await refused(server, shows("stranger"));
    }],
    ["users by certificate", tls(mapped) + users, async (server) => {
      await speaks(server, shows("app"));
      await refused(server, shows("second"));
    }],
    ["TLS 1.2", tls(pair), (server) => speaks(server, { ...knows(), maxVersion: "TLSv1.2" })],
    ["a new certificate", tls(pair), renewed],
    ["a restart under TLS", tls(pair), restarted],
  ];

  async function either(server) {
    // A machine that is busy may take longer than the server waits; not every time.
    for (let tries = 5; ; tries--) {
      try {
        await speaks(server, first(knows()));
        break;
      } catch (late) {
        if (tries === 1) throw late;
      }
    }
    await speaks(server, knows());
  }

  async function renewed(server) {
    await server.stop();
    server.configure((text) => text.replaceAll(`${lab}/`, `${server.room}/`));
    const put = (name) => ["pem", "key"].forEach((end) => copyFileSync(file(`${name}.${end}`), join(server.room, `server.${end}`)));
    put("server");
    await server.start();
    await speaks(server, knows());
    put("server2");
    server.signal("SIGHUP");
    for (const end = Date.now() + PATIENCE; !server.said("Reloaded server configuration"); await sleep(10)) {
      assert.ok(Date.now() < end, "no reload");
    }
    await speaks(server, knows("ca2"));
    await refused(server, knows());
  }

  async function restarted(server) {
    const client = await enter(server, knows(), { reconnect: true, maxReconnectAttempts: -1, reconnectTimeWait: 50 });
    let heard = false;
    client.subscribe("foo", { callback: () => (heard = true) });
    await client.flush();
    await server.stop();
    await server.start();
    // What is said before the client knows that the server has left, is lost.
    for (const end = Date.now() + 2 * PATIENCE; !heard; await sleep(50)) {
      assert.ok(Date.now() < end, "nothing is heard");
      client.publish("foo");
    }
    await client.close();
  }
}

function enter(server, tls, more = {}) {
  return connect({ servers: server.address, tls, reconnect: false, timeout: PATIENCE, ...more });
}

async function speaks(server, tls) {
  const client = await enter(server, tls);
  const messages = client.subscribe("ok.a")[Symbol.asyncIterator]();
  for (const size of [0, 1, 16384, 16385, 1 << 20]) {
    client.publish("ok.a", new Uint8Array(size));
    const { value } = await messages.next();
    assert.equal(value.data.length, size);
  }
  client.subscribe("ok.ask", { callback: (_, message) => message.respond(message.data) });
  assert.equal((await client.request("ok.ask", "why", { timeout: PATIENCE })).string(), "why");
  await client.close();
}

async function refused(server, tls) {
  await assert.rejects(async () => {
    const client = await enter(server, tls, { timeout: 2000 });
    await client.close();
  });
}
