// What the page asks the server: requests that any client may make. Answers are those of the user
// who is signed in.

import { NoResponders, NotAllowed, TimedOut, json } from "./nats.js";

export class ApiError extends Error {
  constructor({ code, err_code, description }) {
    super(description || "The server has refused.");
    this.code = code;
    this.number = err_code;
  }
}

// Milliseconds for requests that need not have an answer: where somebody listens to everything,
// nobody says that there is none.
const SHORT = 2500;
// For a page that may take the server long: it makes one at a time, and goes on with one that nobody
// waits for any more.
export const LONG = 60000;
// For the first server to answer a question to all: a page of a thousand connections takes a while.
const PATIENT = 20000;
// Error of an account without JetStream, and how long nobody asks it again.
const WITHOUT = 10039;
const PAUSE = 60000;

export class Api {
  constructor(nats) {
    this.nats = nats;
    this.server = nats.info.server_id;
    // Until when the account counts as one without JetStream: each request would be an error there.
    this.without = 0;
  }

  // Who is signed in; nothing where the user may not even ask that.
  async user() {
    try {
      const answer = json(await this.nats.request("$SYS.REQ.USER.INFO", "", { timeout: SHORT }));
      return answer.data ?? null;
    } catch {
      return null;
    }
  }

  // Whether this user belongs to the system account, and so may ask about the whole server; null where
  // the server has not said so in time, which is no answer.
  async isOperator(timeout = SHORT) {
    try {
      const answer = json(await this.nats.request(`$SYS.REQ.SERVER.${this.server}.VARZ`, "", { timeout }));
      return answer.data?.server_id === this.server;
    } catch (error) {
      return error instanceof TimedOut ? null : false;
    }
  }

  // A page of monitoring of this server.
  async ofServer(topic, options = {}, { server = this.server, timeout } = {}) {
    const message = await this.nats.request(`$SYS.REQ.SERVER.${server}.${topic}`, JSON.stringify(options), { timeout });
    const answer = json(message);
    if (answer.error) throw new ApiError(answer.error);
    return answer.data ?? answer.statsz ?? answer;
  }

  // All servers that can be reached, each with its summary.
  async servers() {
    const all = (await this.nats.requestMany("$SYS.REQ.SERVER.PING", "")).map(json);
    return all.filter((one) => one.statsz).sort((a, b) => a.server.name.localeCompare(b.server.name));
  }

  // A page of monitoring of one's own account, of each server that has something to say.
  async ofAccount(topic, options = {}) {
    const messages = await this.nats.requestMany(`$SYS.REQ.ACCOUNT.PING.${topic}`, JSON.stringify(options), { timeout: PATIENT });
    const answers = messages.map(json);
    const failed = answers.find((answer) => answer.error);
    if (failed) throw new ApiError(failed.error);
    return answers.filter((answer) => answer.data).map((answer) => ({ ...answer.data, server: answer.server }));
  }

  async js(operation, body, options) {
    const message = await this.nats.request(`$JS.API.${operation}`, body ? JSON.stringify(body) : "", options);
    const answer = json(message);
    if (answer.error) throw new ApiError(answer.error);
    return answer;
  }

  // JetStream's account; nothing where it has none, or this user may not ask.
  async account() {
    if (this.isWithout()) return null;
    try {
      return await this.js("INFO", undefined, { timeout: SHORT });
    } catch (error) {
      this.noteWithout(error);
      if ([NoResponders, NotAllowed, TimedOut, ApiError].some((kind) => error instanceof kind)) return null;
      throw error;
    }
  }

  isWithout() {
    return performance.now() < this.without;
  }

  // Whether the error says that the account has no JetStream.
  noteWithout(error) {
    if (error.number !== WITHOUT) return false;
    this.without = performance.now() + PAUSE;
    return true;
  }

  // All streams, page by page: `onpage` gets what has come so far, and how many there are.
  async streams(onpage) {
    if (this.isWithout()) return [];
    // By name: a stream that is made meanwhile moves others to the next page.
    const all = new Map();
    try {
      for (let offset = 0; ;) {
        const page = await this.js("STREAM.LIST", { offset });
        const streams = page.streams ?? [];
        offset += streams.length;
        streams.map(streamRow).forEach((row) => all.set(row.name, row));
        onpage([...all.values()], page.total);
        if (streams.length === 0 || offset >= page.total) return [...all.values()];
      }
    } catch (error) {
      if (error instanceof NoResponders || this.noteWithout(error)) return [];
      if (!(error instanceof NotAllowed)) throw error;
    }
    // Names only, for who may not see more.
    const names = await this.names();
    const rows = names.map((name) => ({ name }));
    onpage(rows, rows.length);
    return rows;
  }

  names() {
    return pages((offset) => this.js("STREAM.NAMES", { offset }), "streams");
  }

  async stream(name, options) {
    return this.js(`STREAM.INFO.${name}`, options);
  }

  consumers(stream) {
    return pages((offset) => this.js(`CONSUMER.LIST.${stream}`, { offset }), "consumers");
  }

  async consumer(stream, name) {
    return this.js(`CONSUMER.INFO.${stream}.${name}`);
  }

  // Causes of `kind` ("STREAM" or "CONSUMER"), or why they cannot be told.
  async why(kind, name) {
    try {
      return await this.js(`MYELIN.WHY.${kind}.${name}`);
    } catch (error) {
      return { failure: error instanceof NotAllowed ? "This user may not ask why." : error.message };
    }
  }

  // The first message from a sequence on, of subjects that match; nothing where there is none.
  async message(stream, from, subject = ">") {
    try {
      const { message } = await this.js(`STREAM.MSG.GET.${stream}`, { seq: Math.max(1, from), next_by_subj: subject });
      return { ...message, data: fromBase64(message.data), headers: fromBase64(message.hdrs) };
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) return null;
      throw error;
    }
  }

  // Removes one message, as if it had been purged.
  async remove(stream, seq) {
    return this.js(`STREAM.MSG.DELETE.${stream}`, { seq, no_erase: true });
  }

  // Age in seconds of the oldest message that a consumer has not delivered; 0 where there is none.
  async lag(info) {
    if (info.num_pending === 0) return 0;
    const filters = info.config.filter_subjects ?? [info.config.filter_subject || ">"];
    const next = info.delivered.stream_seq + 1;
    const first = await Promise.all(filters.slice(0, 8).map((filter) => this.message(info.stream_name, next, filter)));
    const times = first.filter(Boolean).map((message) => Date.parse(message.time));
    return times.length > 0 ? Math.max(0, (Date.parse(info.ts) - Math.min(...times)) / 1000) : 0;
  }
}

// Rows under this key of all pages of an answer; `ask` gets the number of those before.
export async function pages(ask, key) {
  const all = [];
  for (;;) {
    const page = await ask(all.length);
    const rows = page[key] ?? [];
    all.push(...rows);
    if (rows.length === 0 || all.length >= page.total) return all;
  }
}

export function streamRow({ config, state, created, mirror, sources }) {
  return {
    name: config.name,
    subjects: config.subjects ?? [],
    storage: config.storage,
    retention: config.retention,
    replicas: config.num_replicas,
    messages: state.messages,
    bytes: state.bytes,
    consumers: state.consumer_count,
    last: state.last_ts,
    origin: mirror ? "mirror" : sources?.length > 0 ? "sources" : "",
    created,
  };
}

function fromBase64(text) {
  const binary = atob(text ?? "");
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

// Names of a subject's place in a path of the page, and back.
export const path = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
