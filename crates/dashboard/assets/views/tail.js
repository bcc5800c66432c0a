// Messages of a subject as they come: nothing is stored, nothing is taken from anybody.

import { button, empty, h, problem, say, set } from "../dom.js";
import { clock, count, short } from "../format.js";
import { messageRow } from "./stream.js";

// Messages that are kept, those that are drawn in one go, and bytes of each that are kept.
const KEPT = 500;
const DRAWN = 100;
const CUT = 32768;

export function tail({ nats }) {
  const subject = h("input", { class: "mono search", placeholder: "orders.>", "aria-label": "Subject", spellcheck: "false", autocapitalize: "off", required: true });
  const start = h("button", { type: "submit", class: "primary" }, "Listen");
  const counted = h("span", { class: "muted", role: "status" });
  const list = h("div", { class: "messages" });
  let end = null;
  let waiting = [];
  let seen = 0;
  let isPaused = false;
  let frame = null;
  let last = { seen: 0, at: performance.now() };
  const pause = button("Pause", () => {
    isPaused = !isPaused;
    say(pause, isPaused ? "Go on" : "Pause");
    if (!isPaused) draw();
  }, "quiet");
  const clear = button("Clear", () => { waiting = []; set(list, hint()); }, "quiet");
  pause.disabled = true;

  function hint() {
    return end ? empty("Nothing has come yet.") : empty("Listen to a subject.", "Wildcards: * is one word, > is the rest. What this user may not subscribe to does not come.");
  }

  function draw() {
    frame = null;
    if (isPaused || waiting.length === 0) return;
    const fresh = waiting.slice(-DRAWN);
    waiting = [];
    list.querySelector(".empty")?.remove();
    list.prepend(...fresh.reverse().map(messageRow));
    while (list.children.length > KEPT) list.lastChild.remove();
  }

  function take(message) {
    seen += 1;
    const time = new Date(message.at).toISOString();
    const headers = message.headers && new TextEncoder().encode(`\r\n${message.headers.fields.map(([name, value]) => `${name}: ${value}`).join("\r\n")}`);
    waiting.push({ subject: message.subject, data: message.data.slice(0, CUT), length: message.data.length, time, clock: clock(time).slice(11), headers, reply: message.reply });
    if (waiting.length > KEPT) waiting.splice(0, waiting.length - KEPT);
    frame ??= requestAnimationFrame(draw);
  }

  function stop(words) {
    end?.();
    end = null;
    pause.disabled = true;
    subject.disabled = false;
    say(start, "Listen");
    start.className = "primary";
    if (words) set(list, problem(words));
  }

  function go(event) {
    event.preventDefault();
    if (end) return stop();
    try {
      end = nats.subscribe(subject.value.trim(), take, stop);
    } catch (error) {
      return set(list, problem(error.message));
    }
    seen = 0;
    last = { seen: 0, at: performance.now() };
    pause.disabled = false;
    subject.disabled = true;
    say(start, "Stop");
    start.className = "";
    return set(list, hint());
  }

  function refresh() {
    const now = performance.now();
    const rate = ((seen - last.seen) * 1000) / Math.max(1, now - last.at);
    last = { seen, at: now };
    say(counted, end ? `${count(seen)} messages, ${short(rate)}/s` : "");
  }
  set(list, hint());
  const form = h("form", { class: "line wrap", onsubmit: go }, h("label", { class: "inline grow" }, "Subject ", subject), start, pause, clear, counted);
  return { node: h("section", { class: "panel" }, form, list), refresh, interval: 1000, stop: () => { end?.(); cancelAnimationFrame(frame); } };
}
