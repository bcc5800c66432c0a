// The page: signs in, knows which view is shown, asks again while somebody looks.

import { Api, LONG } from "./api.js";
import { button, dismiss, h, put, say, set, toast } from "./dom.js";
import { Nats } from "./nats.js";
import { accounts, account } from "./views/accounts.js";
import { connection, connections } from "./views/connections.js";
import { consumer } from "./views/consumer.js";
import { holders, letter, letters } from "./views/letters.js";
import { log } from "./views/log.js";
import { overview } from "./views/overview.js";
import { server } from "./views/server.js";
import { signin } from "./views/signin.js";
import { stream } from "./views/stream.js";
import { streams } from "./views/streams.js";
import { tail } from "./views/tail.js";

// Views by the first word of their path; `operator` views are those of the whole server.
const VIEWS = [
  { name: "overview", title: "Overview", view: overview },
  { name: "connections", title: "Connections", view: connections, below: connection },
  { name: "streams", title: "Streams", view: streams, below: (context, name, kind, inner) => (kind === "consumers" && inner ? consumer(context, name, inner) : stream(context, name, kind)) },
  { name: "letters", title: "Dead letters", view: holders, below: (context, name, seq) => (seq ? letter(context, name, seq) : letters(context, name)) },
  { name: "tail", title: "Tail", view: tail },
  { name: "accounts", title: "Accounts", view: accounts, below: account, operator: true },
  { name: "server", title: "Server", view: server, operator: true },
  { name: "log", title: "Log", view: log, operator: true },
];
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;
// How often a server that does not answer is asked who the user is.
const MOST_QUESTIONS = 5;

const root = document.getElementById("app");
let context = null;
let current = null;
let timer = null;
let credentials = null;
let pause = FIRST_PAUSE;
// The view whose answers are awaited.
let asking = null;
const shell = {};

function route() {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

// `isWanted`: whether it is still to be done once the server has let us in.
async function signIn(given, isWanted = () => true) {
  const nats = new Nats({ inbox: given.inbox, onlost: lost });
  await nats.connect(given);
  if (!isWanted()) return nats.close();
  credentials = given;
  pause = FIRST_PAUSE;
  const api = new Api(nats);
  const [user, isOperator] = await Promise.all([api.user(), api.isOperator()]);
  context = { nats, api, user, isOperator, info: nats.info };
  build();
  show();
  if (isOperator === null) learn(context);
}

// Asks again whether the user belongs to the system account: a server that is slow has not said no.
async function learn(mine) {
  for (let asked = 0; mine.isOperator === null && asked < MOST_QUESTIONS && mine === context; asked += 1) {
    mine.isOperator = await mine.api.isOperator(LONG);
  }
  if (mine !== context) return;
  mine.isOperator ??= false;
  if (mine.isOperator) build();
  // Others are told so where they look at a view that is not for them.
  if (mine.isOperator || !current) show();
}

function signOut() {
  context?.nats.close();
  credentials = null;
  context = null;
  history.replaceState(null, "", "#/");
  ask();
}

function ask(problem) {
  leave();
  dismiss();
  document.title = "Sign in – Myelin";
  set(root, signin({ signIn, problem }));
  // Not where that would raise a keyboard over the page.
  if (!matchMedia("(pointer: coarse)").matches) root.querySelector("input[name=username]").focus();
}

// The connection has ended: comes back with the same credentials, as long as they are good.
function lost(words) {
  leave();
  // They are about a connection that is no more.
  dismiss();
  const given = credentials;
  if (!given) return;
  say(shell.banner, `${words} Connecting again…`);
  shell.banner.hidden = false;
  setTimeout(async () => {
    const isWanted = () => credentials === given;
    if (!isWanted()) return;
    try {
      await signIn(given, isWanted);
      if (isWanted()) toast("Connected again.");
    } catch (error) {
      if (!isWanted()) return;
      if (/authoriz|authent|credential|permission/i.test(error.message)) {
        credentials = null;
        ask(error.message);
      } else {
        lost(error.message);
      }
    }
  }, pause);
  pause = Math.min(LONGEST_PAUSE, pause * 2);
}

function build() {
  const { info, user, isOperator } = context;
  const allowed = VIEWS.filter((view) => !view.operator || isOperator);
  shell.links = allowed.map((view) => h("a", { href: `#/${view.name}` }, view.title));
  shell.banner = h("div", { class: "banner", role: "alert", hidden: true });
  shell.main = h("main", { id: "main", tabindex: "-1" });
  const who = user?.user_name || user?.user || "no user";
  const account = user?.account_name || user?.account;
  set(root,
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); shell.main.focus(); } }, "Skip to content"),
    h("header", { class: "top" },
      h("a", { class: "brand", href: "#/overview" }, h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }), h("span", {}, info.server_name || info.server_id)),
      h("nav", { "aria-label": "Views" }, shell.links),
      h("div", { class: "who" },
        h("span", { class: "who-name", title: `user ${who}, account ${account ?? "unknown"}` }, h("b", {}, who), account && ` in ${account}`),
        button("Sign out", signOut, "quiet"))),
    shell.banner, shell.main);
}

function leave() {
  clearTimeout(timer);
  timer = null;
  current?.stop?.();
  current = null;
}

function show() {
  if (!context) return;
  leave();
  const [name = "overview", ...rest] = route();
  const found = VIEWS.find((view) => view.name === name && (!view.operator || context.isOperator));
  shell.links.forEach((link) => {
    const isCurrent = link.getAttribute("href") === `#/${name}`;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    // On a phone there is not room for all.
    if (isCurrent) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const make = rest.length > 0 ? found?.below : found?.view;
  if (!make) {
    document.title = "Myelin";
    set(shell.main, h("div", { class: "empty" }, h("p", {}, missing(name)), h("a", { href: "#/overview" }, "To the overview")));
    return;
  }
  const view = make(context, ...rest);
  current = view;
  shell.main.classList.remove("failed");
  const title = view.title ?? found.title;
  document.title = `${title} – ${context.info.server_name || "Myelin"}`;
  view.problem = h("p", { class: "problem", role: "alert", hidden: true });
  view.again = () => refresh(view);
  set(shell.main, h("div", { class: "heading" }, view.back && h("a", { class: "back", href: view.back.href }, `← ${view.back.text}`), put(h("h1", {}, title), [view.mark]), view.actions), view.problem, view.node);
  window.scrollTo(0, 0);
  // What led here may be gone with its view: the keyboard goes on at the new one.
  if (document.activeElement === document.body) shell.main.focus({ preventScroll: true });
  refresh(view);
}

// Why there is no view of this name.
function missing(name) {
  if (!VIEWS.some((view) => view.name === name && view.operator) || context.isOperator) return "There is no such view.";
  if (context.isOperator === null) return "This view is for users of the system account. The server has not said yet whether you are one.";
  return "This view is for users of the system account.";
}

// Asks for what a view shows, now and at intervals. There is one such chain: who wants it anew while
// answers are awaited has it asked again behind them.
async function refresh(view) {
  if (view !== current) return;
  view.isOutdated = true;
  if (asking === view) return;
  clearTimeout(timer);
  timer = null;
  asking = view;
  while (view.isOutdated && view === current) {
    view.isOutdated = false;
    try {
      await view.refresh?.();
      view.problem.hidden = true;
      if (view === current) shell.main.classList.remove("failed");
    } catch (error) {
      // Where nobody could look, nothing says that there is nothing.
      if (view === current) shell.main.classList.add("failed");
      say(view.problem, error.message);
      view.problem.hidden = false;
    }
  }
  if (asking === view) asking = null;
  if (view !== current || !view.interval) return;
  timer = setTimeout(() => {
    timer = null;
    // Nobody looks: nothing is asked until somebody does.
    if (!document.hidden) refresh(view);
  }, view.interval);
}

window.addEventListener("hashchange", show);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && current && timer === null && asking !== current) refresh(current);
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, dialog");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    const search = document.querySelector("main .search");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (event.key === "Escape" && event.target.matches("input.search")) {
    event.target.value = "";
    event.target.dispatchEvent(new Event("input"));
  }
});

ask();
