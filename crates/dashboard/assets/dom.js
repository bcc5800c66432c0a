// Elements, dialogs and notices. Everything that is shown goes through here as text: there is no
// way from data to markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

// Appends nodes and texts; lists are taken apart, nothing is left out.
export function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// An element: `h("a", { class: "x", href: "#/" }, "text")`. A name that begins with `on` is an
// event.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// The same for drawings.
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// Replaces everything below an element.
export function set(element, ...children) {
  element.replaceChildren();
  return put(element, children);
}

// Replaces a text only if it is another, so that a selection in it survives.
export function say(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

let fields = 0;

// A label with its field below it; `input` is the element to fill in.
export function field(label, input, hint) {
  input.id ||= `field-${++fields}`;
  const below = hint && h("small", { id: `${input.id}-hint` }, hint);
  if (below) input.setAttribute("aria-describedby", below.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, below);
}

export function button(text, onclick, kind) {
  return h("button", { type: "button", class: kind, onclick }, text);
}

// A list of names and what they are.
export function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value, title]) => [
    h("dt", {}, name),
    h("dd", { title }, value instanceof Node || Array.isArray(value) ? value : String(value ?? "–")),
  ]));
}

export function panel(title, ...children) {
  return h("section", { class: "panel" }, title && h("h2", {}, title), ...children);
}

export function badge(text, kind) {
  return h("span", { class: `badge ${kind ?? ""}` }, text);
}

// One figure, with a word about it below.
export function tile(name, value, note, kind) {
  return h("div", { class: `tile ${kind ?? ""}` }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), note && h("span", { class: "tile-note" }, note));
}

// How a replica stands to its leader.
export function standing(replica) {
  if (replica.offline) return badge("offline", "bad");
  return replica.current ? badge("current", "good") : badge("behind", "warn");
}

// Words for where there is nothing, with what to do about it.
export function empty(title, text) {
  return h("div", { class: "empty" }, h("p", {}, title), text && h("p", { class: "muted" }, text));
}

export function problem(text) {
  return h("p", { class: "problem", role: "alert" }, text);
}

// Tells something for a moment, in a place that screen readers follow.
export function toast(text, kind) {
  const note = h("div", { class: `toast ${kind ?? ""}` }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 8000 : 4000);
}

// Closes all dialogs, as if somebody had cancelled them.
export function dismiss() {
  document.querySelectorAll("dialog").forEach((dialog) => dialog.dispatchEvent(new Event("cancel", { cancelable: true })));
}

// Asks before something that cannot be taken back: `word` has to be typed. Resolves to whether it
// is to be done; `body` may hold fields that the caller reads then.
export function confirm({ title, body, word, action }) {
  return new Promise((resolve) => {
    const typed = h("input", { autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
    const go = h("button", { type: "submit", class: "danger", disabled: Boolean(word) }, action);
    if (word) typed.addEventListener("input", () => { go.disabled = typed.value !== word; });
    const dialog = h("dialog", { "aria-label": title },
      h("form", { method: "dialog", onsubmit: (event) => {
        event.preventDefault();
        if (!go.disabled) close(true);
      } },
      h("h2", {}, title),
      body,
      word && field(["Type ", h("code", {}, word), " to confirm"], typed),
      h("div", { class: "actions" }, button("Cancel", () => close(false)), go)));
    function close(answer) {
      dialog.close();
      dialog.remove();
      resolve(answer);
    }
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(false);
    });
    document.body.append(dialog);
    dialog.showModal();
    (word ? typed : go).focus();
  });
}
