// Signing in, with whatever the server's users have.

import { field, h, say, set } from "../dom.js";
import { credentials } from "../nkeys.js";

export function signin({ signIn, problem }) {
  const user = h("input", { name: "username", autocomplete: "username", autocapitalize: "off", spellcheck: "false" });
  const pass = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const token = h("input", { type: "password", autocomplete: "off" });
  const key = h("textarea", { rows: 5, spellcheck: "false", autocapitalize: "off", autocomplete: "off", class: "mono" });
  const inbox = h("input", { placeholder: "_INBOX", spellcheck: "false", autocapitalize: "off" });
  const kinds = {
    password: { name: "Password", fields: [field("User", user), field("Password", pass)], read: () => (user.value || pass.value ? { user: user.value, pass: pass.value } : {}) },
    token: { name: "Token", fields: [field("Token", token)], read: () => ({ auth_token: token.value }) },
    key: {
      name: "Key",
      fields: [field("Credentials file, or seed", key, "The content of a .creds file, or a user’s seed (SU…). It signs the server’s challenge here and is not sent.")],
      read: () => ({ key: credentials(key.value) }),
    },
  };
  let kind = "password";
  const told = h("p", { class: "problem", role: "alert", hidden: !problem }, problem);
  const fields = h("div", {}, kinds[kind].fields);
  const submit = h("button", { type: "submit", class: "primary" }, "Sign in");
  const radios = Object.entries(kinds).map(([name, { name: text }]) => h("label", { class: "choice" },
    h("input", { type: "radio", name: "kind", value: name, checked: name === kind, onchange: () => {
      kind = name;
      set(fields, kinds[kind].fields);
    } }), text));

  async function go(event) {
    event.preventDefault();
    told.hidden = true;
    submit.disabled = true;
    say(submit, "Signing in…");
    try {
      const prefix = inbox.value.trim().replace(/\.$/, "");
      if (/[\s*>]/.test(prefix)) throw new Error("A prefix of inboxes has no blanks and no wildcards.");
      await signIn({ ...kinds[kind].read(), inbox: prefix });
    } catch (error) {
      say(told, error.message);
      told.hidden = false;
    } finally {
      submit.disabled = false;
      say(submit, "Sign in");
    }
  }

  return h("main", { class: "signin" },
    h("form", { onsubmit: go },
      h("div", { class: "signin-brand" }, h("img", { src: "icon.svg", alt: "", width: 36, height: 36 }), h("div", {}, h("h1", {}, "Myelin"), h("p", { class: "muted" }, location.host))),
      h("fieldset", { class: "choices" }, h("legend", { class: "hidden" }, "Sign in with"), radios),
      fields,
      h("details", {}, h("summary", {}, "More"), field("Prefix of inboxes", inbox, "For users who may subscribe to their own inboxes only.")),
      told,
      submit,
      h("p", { class: "muted small" }, "A user of the server sees what its account may see; a user of the system account sees the server. Leave the fields empty where the server asks for no password. Nothing is stored in this browser.")));
}
