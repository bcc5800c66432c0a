// A NATS client over a WebSocket: as much of the protocol as the page needs.

import { sign } from "./nkeys.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
// Milliseconds for a server to let somebody in.
const PATIENCE = 10000;
const CR = 13;
const LF = 10;

// Nobody listens there, or this user is not meant to know who does.
export class NoResponders extends Error {}

// Somebody listens there, and has not answered in time.
export class TimedOut extends Error {}

// The server does not allow it.
export class NotAllowed extends Error {}

// What stands in a line of the protocol must not end it.
function checkSubject(subject) {
  if (subject === "" || /[\s\u0000]/.test(subject)) throw new Error("A subject has no blanks, and is not empty.");
}

// Headers as they are typed, a line each.
export function parseHeaders(text) {
  return text.split("\n").filter((line) => line.trim() !== "").map((line) => {
    const [, name, value] = /^([!-9;-~]+):[ \t]*([^\r\n\u0000]*)$/.exec(line.trim()) ?? [];
    if (!name) throw new Error(`“${line.trim()}” is no header: write “Name: value”.`);
    return [name, value];
  });
}

function token(length) {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return [...crypto.getRandomValues(new Uint8Array(length))].map((byte) => letters[byte % 62]).join("");
}

function readHeaders(data) {
  const [first, ...lines] = decoder.decode(data).split("\r\n");
  const [status, ...words] = first.slice("NATS/1.0".length).trim().split(" ");
  const fields = lines.filter((line) => line.includes(":")).map((line) => {
    const at = line.indexOf(":");
    return [line.slice(0, at), line.slice(at + 1).trim()];
  });
  return { status: Number(status) || 0, description: words.join(" "), fields };
}

export class Nats {
  // `onlost`: the connection has ended, with these words; not called before it was open.
  constructor({ inbox, onlost }) {
    this.info = {};
    this.inbox = `${inbox || "_INBOX"}.${token(16)}`;
    this.onlost = onlost;
    this.isOpen = false;
    this.rest = new Uint8Array(0);
    this.subs = new Map();
    this.pending = new Map();
    // Subjects that this user may not publish to, with the server's words: asked once.
    this.denied = new Map();
    this.nextSid = 2;
    this.nextReply = 1;
    this.complaint = "";
    this.rtt = null;
  }

  // Opens the socket beside the page and signs in. Fails in the server's words.
  connect(credentials) {
    return new Promise((resolve, reject) => {
      const url = new URL("nats", document.baseURI);
      url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
      url.hash = "";
      this.socket = new WebSocket(url);
      this.socket.binaryType = "arraybuffer";
      const patience = setTimeout(() => {
        this.complaint = "The server has not answered in time.";
        this.socket.close();
        this.ended();
      }, PATIENCE);
      const settle = (end) => (value) => {
        clearTimeout(patience);
        end(value);
      };
      this.opening = { credentials, resolve: settle(resolve), reject: settle(reject) };
      this.socket.onmessage = (event) => this.receive(new Uint8Array(event.data));
      this.socket.onclose = () => this.ended();
    });
  }

  close() {
    this.onlost = null;
    this.socket?.close();
  }

  ended() {
    const text = this.complaint || "The connection to the server has ended.";
    const wasOpen = this.isOpen;
    this.isOpen = false;
    this.opening?.reject(new Error(this.complaint || "The server cannot be reached."));
    this.opening = null;
    for (const request of this.pending.values()) request.fail(new Error(text));
    this.pending.clear();
    if (wasOpen) this.onlost?.(text);
  }

  send(...parts) {
    const chunks = parts.map((part) => (typeof part === "string" ? encoder.encode(part) : part));
    const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
    let at = 0;
    for (const chunk of chunks) {
      whole.set(chunk, at);
      at += chunk.length;
    }
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(whole);
  }

  receive(data) {
    let buffer = data;
    if (this.rest.length > 0) {
      buffer = new Uint8Array(this.rest.length + data.length);
      buffer.set(this.rest);
      buffer.set(data, this.rest.length);
    }
    let at = 0;
    for (;;) {
      const used = this.operation(buffer, at);
      if (used === 0) break;
      at += used;
    }
    this.rest = buffer.slice(at);
  }

  // Takes one operation; answers how many bytes it has, 0 if it is not whole yet.
  operation(buffer, from) {
    let end = from;
    for (;;) {
      end = buffer.indexOf(CR, end);
      if (end < 0 || end + 1 >= buffer.length) return 0;
      if (buffer[end + 1] === LF) break;
      end += 1;
    }
    const line = decoder.decode(buffer.subarray(from, end));
    const verb = line.split(" ", 1)[0].toUpperCase();
    const body = end + 2;
    if (verb !== "MSG" && verb !== "HMSG") {
      this.control(verb, line.slice(verb.length + 1));
      return body - from;
    }
    const words = line.split(" ");
    const length = Number(words.at(-1));
    if (buffer.length < body + length + 2) return 0;
    const head = verb === "HMSG" ? Number(words.at(-2)) : 0;
    const hasReply = words.length > (verb === "HMSG" ? 5 : 4);
    this.message({
      subject: words[1],
      sid: Number(words[2]),
      reply: hasReply ? words[3] : "",
      headers: head > 0 ? readHeaders(buffer.subarray(body, body + head)) : null,
      data: buffer.slice(body + head, body + length),
      at: Date.now(),
    });
    return body + length + 2 - from;
  }

  control(verb, rest) {
    if (verb === "PING") this.send("PONG\r\n");
    else if (verb === "INFO") this.greeted(JSON.parse(rest));
    else if (verb === "PONG") this.ponged();
    else if (verb === "-ERR") this.refused(rest.replace(/^'|'$/g, ""));
  }

  greeted(info) {
    const isFirst = !this.info.server_id;
    this.info = { ...this.info, ...info };
    if (isFirst && this.opening) {
      this.introduce(this.opening.credentials).catch((error) => {
        this.complaint = error.message;
        this.socket.close();
      });
    }
  }

  async introduce({ user, pass, auth_token, key }) {
    const proof = key ? await sign(key, this.info.nonce) : { user, pass, auth_token };
    const hello = {
      verbose: false, pedantic: false, protocol: 1, headers: true, no_responders: true, echo: true,
      lang: "javascript", version: "1", name: "Myelin dashboard", ...proof,
    };
    this.pinged = performance.now();
    this.send(`CONNECT ${JSON.stringify(hello)}\r\nSUB ${this.inbox}.* 1\r\nPING\r\n`);
  }

  ping() {
    this.pinged = performance.now();
    this.send("PING\r\n");
  }

  ponged() {
    if (this.pinged) this.rtt = performance.now() - this.pinged;
    this.pinged = null;
    if (!this.opening) return;
    this.isOpen = true;
    this.opening.resolve(this);
    this.opening = null;
  }

  // An error of the protocol: of one publish or subscription, or of the whole connection.
  refused(text) {
    const [, what, subject] = /^Permissions Violation for (Publish|Subscription) to "([^"]*)"/i.exec(text) ?? [];
    if (what?.toLowerCase() === "publish") {
      this.denied.set(subject, text);
      for (const request of this.pending.values()) {
        if (request.subject === subject) request.fail(new NotAllowed(text));
      }
      return;
    }
    if (what) {
      if (subject === `${this.inbox}.*`) this.complaint = `This user may not subscribe to ${subject}, where answers come.`;
      for (const sub of this.subs.values()) if (sub.subject === subject) sub.onrefused?.(text);
      if (this.complaint && this.opening) this.socket.close();
      return;
    }
    this.complaint = text;
  }

  message(message) {
    if (message.sid !== 1) {
      this.subs.get(message.sid)?.onmessage(message);
      return;
    }
    const request = this.pending.get(message.subject);
    if (!request) return;
    if (message.headers?.status === 503 && message.data.length === 0) {
      request.fail(new NoResponders("Nobody answers this request."));
    } else {
      request.take(message);
    }
  }

  // `isBinary`: a letter of the headers is a byte, whatever it means, and values begin right behind
  // the colon.
  publish(subject, data = "", { reply = "", headers = [], isBinary = false } = {}) {
    checkSubject(subject);
    const body = typeof data === "string" ? encoder.encode(data) : data;
    if (headers.length === 0) {
      this.send(`PUB ${subject} ${reply ? `${reply} ` : ""}${body.length}\r\n`, body, "\r\n");
      return;
    }
    const lines = headers.map(([name, value]) => `${name}:${isBinary ? "" : " "}${value}\r\n`).join("");
    const block = `NATS/1.0\r\n${lines}\r\n`;
    const head = isBinary ? Uint8Array.from(block, (letter) => letter.charCodeAt(0)) : encoder.encode(block);
    const sizes = `${head.length} ${head.length + body.length}`;
    this.send(`HPUB ${subject} ${reply ? `${reply} ` : ""}${sizes}\r\n`, head, body, "\r\n");
  }

  subscribe(subject, onmessage, onrefused) {
    checkSubject(subject);
    const sid = this.nextSid++;
    this.subs.set(sid, { subject, onmessage, onrefused });
    this.send(`SUB ${subject} ${sid}\r\n`);
    return () => {
      if (this.subs.delete(sid)) this.send(`UNSUB ${sid}\r\n`);
    };
  }

  // One answer, within `timeout` milliseconds.
  request(subject, data, { timeout = 8000, headers, isBinary } = {}) {
    return this.ask(subject, data, { headers, isBinary }, timeout, (message, { done }) => done(message));
  }

  // Answers of all who have some: until none has come for `quiet` milliseconds.
  requestMany(subject, data, { quiet = 300, timeout = 4000 } = {}) {
    const all = [];
    let timer;
    return this.ask(subject, data, {}, timeout, (message, { done }) => {
      all.push(message);
      clearTimeout(timer);
      timer = setTimeout(() => done(all), quiet);
    }, () => all);
  }

  ask(subject, data, more, timeout, take, late) {
    if (!this.isOpen) return Promise.reject(new Error("There is no connection to the server."));
    if (this.denied.has(subject)) return Promise.reject(new NotAllowed(this.denied.get(subject)));
    const reply = `${this.inbox}.${this.nextReply++}`;
    return new Promise((resolve, reject) => {
      const end = (settle, value) => {
        clearTimeout(timer);
        this.pending.delete(reply);
        settle(value);
      };
      const timer = setTimeout(() => {
        const answers = late?.() ?? [];
        if (answers.length > 0) end(resolve, answers);
        else end(reject, new TimedOut("The server has not answered in time."));
      }, timeout);
      this.pending.set(reply, {
        subject,
        take: (message) => take(message, { done: (value) => end(resolve, value) }),
        fail: (error) => end(reject, error),
      });
      this.publish(subject, data, { reply, ...more });
    });
  }
}

// The JSON of a message.
export function json(message) {
  return JSON.parse(decoder.decode(message.data));
}
