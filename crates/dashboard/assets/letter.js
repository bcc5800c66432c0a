// A dead letter as its stream has it: headers that say where it comes from, and the message's own.
// The rules are those of the command: docs/dead-letters.md.

import { NoResponders, json } from "./nats.js";

// Key of a consumer's metadata that names the stream for its dead letters.
export const HOLDER = "myelin.dlq.stream";
// Beginning of the keys of headers that say where a letter comes from, and of those under which
// headers are kept that would do something to the stream that has the letter.
const ABOUT = "Myelin-DLQ-";
const KEPT = `${ABOUT}Kept-`;
// Keys that a replay does not give back: they are about another time, and a rollup would remove what
// came since.
const PAST = /^nats-(msg-id|expected-|batch-|rollup)/i;
// Subjects that ask the server for something: whoever may write to the stream with the letters must
// not have it asked by whoever replays them.
const REQUEST = /^\$(SYS\.REQ|JS\.(ACK|DLQ|FC|SNAPSHOT|([^.]+\.)?API))(\.|$)/;
// Requests for messages that are under way together.
const AT_ONCE = 16;

// Headers as letters of which each is a byte, so that they come back as they were.
const letters = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
const words = (text) => new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));

// Of letters which are bytes: blanks of other alphabets are none.
const trimmed = (text) => text.replace(/^[ \t\r\n\f]+|[ \t\r\n\f]+$/g, "");

// A letter that cannot be published again, whoever tries: of a subject that is not that of a message, or
// larger than is taken now. It would stop each replay at the same place.
export class Unfit extends Error {}
// Error of a stream whose messages may not be as large.
const TOO_LARGE = 10054;

export class Letter {
  constructor({ seq, subject, headers, data }) {
    Object.assign(this, { seq, subject, data });
    // A line that begins with a blank continues the one before. Values keep the blanks around them.
    const lines = letters(headers).split(/\r\n(?![ \t])/).slice(1).filter((line) => line.split("\r\n", 1)[0].includes(":"));
    this.headers = lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]);
  }

  // A header that begins with Myelin-DLQ-; empty where it is missing.
  fact(key) {
    return words(trimmed(this.headers.findLast(([name]) => name === ABOUT + key)?.[1] ?? ""));
  }

  // Whether it is one: other messages of the stream have no subject to go back to.
  get isLetter() {
    return this.fact("Subject") !== "";
  }

  // Headers that are not about its death, as people read them.
  get own() {
    return this.headers.filter(([name]) => !name.startsWith(ABOUT) || name.startsWith(KEPT)).map(([name, value]) => [words(name), words(trimmed(value))]);
  }

  // Headers with which it is published again, as the message that it was. `hasId`: with an id behind
  // them, where there is room for it.
  original(hasId) {
    const named = this.headers.map(([name, value]) => [name.startsWith(KEPT) ? name.slice(KEPT.length) : name, value]);
    const own = named.filter(([name]) => !name.startsWith(ABOUT) && !PAST.test(name));
    if (!hasId) return own;
    // A replay that is begun anew because its answer was lost is none.
    return [...own, ["Nats-Msg-Id", letters(new TextEncoder().encode(` replay:${this.subject}`))]];
  }
}

// The letter with this sequence.
export async function find(api, stream, seq) {
  const message = await api.message(stream, seq);
  if (message?.seq !== seq) throw new Error(`Stream ${stream} has no message ${seq} any more.`);
  return new Letter(message);
}

// Visits the letters of a stream from its beginning, until `visit` says that it is enough.
export async function each(api, stream, { first_seq: first, last_seq: last }, visit) {
  for (let next = Math.max(1, first); next <= last;) {
    // Whatever is missing in between: each request finds the next one, and some find the same.
    const asked = Array.from({ length: Math.min(AT_ONCE, last - next + 1) }, (_, at) => api.message(stream, next + at));
    const found = new Map((await Promise.all(asked)).filter(Boolean).map((message) => [message.seq, message]));
    if (found.size === 0) return;
    const messages = [...found.values()].sort((a, b) => a.seq - b.seq).filter((message) => message.seq <= last);
    const all = messages.map((message) => new Letter(message)).filter((letter) => letter.isLetter);
    if (visit(all) === false) return;
    next = Math.max(...found.keys()) + 1;
  }
}

// Whether the server takes a message of this size: it ends the connection of whoever sends more. Letters
// of headers are bytes.
function fits(nats, headers, data) {
  const lines = headers.reduce((sum, [name, value]) => sum + name.length + value.length + ":\r\n".length, 0);
  const around = headers.length > 0 ? "NATS/1.0\r\n\r\n".length : 0;
  return around + lines + data.length <= (nats.info.max_payload ?? Infinity);
}

// Asks a stream to take the message: without the id of the replay where it is too large with it, which
// the original had not.
async function publish(nats, subject, letter) {
  for (const hasId of [true, false]) {
    const headers = letter.original(hasId);
    if (!fits(nats, headers, letter.data)) continue;
    const answer = json(await nats.request(subject, letter.data, { headers, isBinary: true }));
    if (answer.error?.err_code !== TOO_LARGE) return answer;
  }
  throw new Unfit(`The message of letter ${letter.seq} is larger than is taken now.`);
}

// Publishes the message again on its own subject, and removes the letter when a stream says that it
// has the message.
export async function replay({ api, nats }, stream, seq) {
  const letter = await find(api, stream, seq);
  const subject = letter.fact("Subject");
  if (!letter.isLetter) throw new Error(`Message ${seq} is no dead letter: it has no ${ABOUT}Subject.`);
  if (REQUEST.test(subject)) throw new Unfit(`Letter ${seq} would ask the server for something: ${subject}.`);
  if (/[\s\p{Cc}]/u.test(subject)) throw new Unfit(`The subject of letter ${seq} has blanks.`);
  let answer;
  try {
    answer = await publish(nats, subject, letter);
  } catch (error) {
    if (error instanceof NoResponders) throw new Error(`No stream takes ${subject}.`);
    if (!(error instanceof SyntaxError)) throw error;
  }
  if (answer?.error) throw new Error(answer.error.description);
  if (!(answer?.seq > 0)) throw new Error(`Who answers on ${subject} is no stream.`);
  await api.remove(stream, seq);
}
