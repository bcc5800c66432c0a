// A server process on a loopback port that stays its own over restarts. It owns the process and
// its files; it speaks no protocol beyond waiting for the greeting.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export const PATIENCE = 5000;

export class Server {
  static async start(binary, config = "") {
    const server = new Server(binary, config, await freePort());
    try {
      await server.start();
    } catch (err) {
      await server.close();
      throw err;
    }
    return server;
  }

  constructor(binary, config, port) {
    this.binary = binary;
    this.port = port;
    this.room = mkdtempSync(join(tmpdir(), "conformance"));
    this.config = join(this.room, "server.conf");
    this.greets = !config.includes("handshake_first");
    // ROOM in a configuration stands for the folder.
    writeFileSync(this.config, config.replaceAll("ROOM", JSON.stringify(this.room)));
  }

  // Changes the configuration for the next start.
  configure(change) {
    writeFileSync(this.config, change(readFileSync(this.config, "utf8")));
  }

  get address() {
    return `127.0.0.1:${this.port}`;
  }

  async start() {
    const flags = ["-a", "127.0.0.1", "-p", this.port, "-c", this.config, "-l", join(this.room, "log")];
    this.child = spawn(this.binary, flags.map(String), { stdio: "ignore" });
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    const deadline = Date.now() + PATIENCE;
    // Where the handshake comes first, nobody is greeted.
    while (this.greets ? !(await this.greeting()).startsWith("INFO ") : !this.said("Server is ready")) {
      if (Date.now() > deadline) throw new Error("the server does not greet");
      await sleep(10);
    }
  }

  // Whether the log has it.
  said(text) {
    const log = join(this.room, "log");
    return existsSync(log) && readFileSync(log, "utf8").includes(text);
  }

  // The first bytes that a new connection gets, or "" when there is no server.
  greeting() {
    return new Promise((resolve) => {
      const socket = net.connect(this.port, "127.0.0.1");
      socket.once("data", (bytes) => {
        socket.destroy();
        resolve(bytes.toString());
      });
      socket.once("error", () => resolve(""));
      socket.once("close", () => resolve(""));
    });
  }

  // Says text on a connection of its own and returns all that comes until the server hangs up.
  say(text) {
    return new Promise((resolve, reject) => {
      const socket = net.connect(this.port, "127.0.0.1", () => socket.write(text));
      let heard = "";
      socket.setTimeout(PATIENCE, () => {
        socket.destroy();
        reject(new Error(`still connected after ${JSON.stringify(heard.slice(-80))}`));
      });
      socket.on("data", (bytes) => (heard += bytes));
      socket.once("error", reject);
      socket.once("close", () => resolve(heard));
    });
  }

  signal(name) {
    this.child.kill(name);
  }

  async stop() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  async close() {
    await this.stop();
    rmSync(this.room, { recursive: true, force: true });
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const listener = net.createServer().once("error", reject);
    listener.listen(0, "127.0.0.1", () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}
