// Drives a server binary over WebSocket with the official JavaScript client, on Node and in headless Chromium:
//
//   node main.mjs SERVER_BINARY CERT KEY [CHROMIUM]
//
// Owns the processes and the page's web server; what is played is in scenes.mjs.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync } from "esbuild";
import WebSocket from "ws";
import { Server } from "./server.mjs";

const PAGE_PATIENCE = 180000;

const [binary, cert, key, chromium] = process.argv.slice(2);
if (key === undefined) {
  console.error("usage: node main.mjs SERVER_BINARY CERT KEY [CHROMIUM]");
  process.exit(2);
}
globalThis.WebSocket = WebSocket;
const { play } = await import("./scenes.mjs");

let [passed, failed] = [0, 0];
for (const compression of [false, true]) {
  for (const secure of [false, true]) {
    const port = await freePort();
    const server = await Server.start(binary, config(port, secure, compression, ""));
    const url = `${secure ? "wss" : "ws"}://127.0.0.1:${port}`;
    count(`Node, ${url}${compression ? ", compressed" : ""}`, await play([url]));
    await server.close();
  }
}
if (chromium) count("Chromium", await browse());
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

function count(where, report) {
  console.log(`${where}: ${report.passed} passed, ${report.failed.length} failed`);
  report.failed.forEach((line) => console.log(`  ${line}`));
  passed += report.passed;
  failed += report.failed.length;
}

function config(port, secure, compression, more) {
  const tls = secure ? `tls { cert_file: ${JSON.stringify(cert)}, key_file: ${JSON.stringify(key)} }` : "no_tls: true";
  return `
    jetstream { store_dir: ROOM }
    authorization { user: app, password: s3cret }
    websocket { host: "127.0.0.1", port: ${port}, ${tls}, compression: ${compression}
      user_cookie: user, pass_cookie: pass, ${more} }`;
}

async function browse() {
  const [plain, secure, foreign] = [await freePort(), await freePort(), await freePort()];
  const servers = [
    await Server.start(binary, config(plain, false, true, "")),
    await Server.start(binary, config(secure, true, false, "")),
    await Server.start(binary, config(foreign, false, false, 'allowed_origins: ["http://elsewhere.example"]')),
  ];
  const bundled = buildSync({ entryPoints: ["page.mjs"], bundle: true, format: "esm", write: false });
  const script = bundled.outputFiles[0].text;
  const task = {
    urls: [`ws://127.0.0.1:${plain}`, `wss://127.0.0.1:${secure}`],
    foreign: `ws://127.0.0.1:${foreign}`,
  };
  const room = mkdtempSync(join(tmpdir(), "chromium"));
  let site, browser, timer;
  try {
    return await new Promise((resolve) => {
      site = http.createServer((request, response) => {
        if (request.url === "/report") {
          let body = "";
          request.on("data", (bytes) => (body += bytes));
          request.on("end", () => resolve(JSON.parse(body)));
          return response.end();
        }
        const [type, content] = {
          "/task": ["application/json", JSON.stringify(task)],
          "/page.js": ["text/javascript", script],
        }[request.url] ?? ["text/html", '<!doctype html><script type="module" src="/page.js"></script>'];
        response.setHeader("Content-Type", type);
        response.end(content);
      });
      site.listen(0, "127.0.0.1", () => {
        const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        flags.push("--ignore-certificate-errors", "--no-first-run", `--user-data-dir=${room}`);
        browser = spawn(chromium, [...flags, `http://127.0.0.1:${site.address().port}/`], { stdio: "ignore" });
        browser.once("error", (err) => resolve({ passed: 0, failed: [`${err}`] }));
      });
      timer = setTimeout(() => resolve({ passed: 0, failed: ["the page did not report"] }), PAGE_PATIENCE);
    });
  } finally {
    clearTimeout(timer);
    browser?.kill("SIGKILL");
    site?.close();
    for (const server of servers) await server.close();
    try {
      rmSync(room, { recursive: true, force: true, maxRetries: 10 });
    } catch {
      // Chromium may still be writing there; the folder is a temporary one.
    }
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = net.createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
