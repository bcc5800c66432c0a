#!/usr/bin/env python3
"""Does to a cluster of servers what docs/clustering.md says of adding, replacing and retiring them, by the nats CLI.

    procedures.py SERVER NATS [--keep FOLDER]

SERVER is myelin-server, NATS the command line tool. A client publishes all the while, each message until it is
acknowledged. Ends with an error where a step does not do what the page says, or where something acknowledged is missing.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SERVER, NATS = sys.argv[1], sys.argv[2]
FOLDER = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else tempfile.mkdtemp(prefix="procedures")
PATIENCE = 60
CONFIG = """server_name: {name}
listen: 127.0.0.1:{client}
http: 127.0.0.1:{page}
log_file: "{log}"
jetstream {{ store_dir: "{store}" }}
accounts {{ SYS {{ users: [{{user: admin, password: admin}}] }}, APP {{ jetstream: enabled, users: [{{user: app, password: app}}] }} }}
system_account: SYS
no_auth_user: app
cluster {{ name: C1, listen: "127.0.0.1:{routes}", routes: [{others}] }}
"""


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Server:
    def __init__(self, name, others):
        self.name, self.client, self.page, self.routes = name, free_port(), free_port(), free_port()
        self.store = os.path.join(FOLDER, name)
        known = [f'"nats://127.0.0.1:{port}"' for port in [one.routes for one in others] + [self.routes]]
        self.known, self.proc = known, None

    def start(self, others=()):
        known = ", ".join([*self.known, *(f'"nats://127.0.0.1:{one.routes}"' for one in others)])
        path = os.path.join(FOLDER, f"{self.name}.conf")
        with open(path, "w") as file:
            file.write(CONFIG.format(name=self.name, client=self.client, page=self.page, routes=self.routes, others=known,
                                     store=self.store, log=os.path.join(FOLDER, f"{self.name}.log")))
        self.proc = subprocess.Popen([SERVER, "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self, how=signal.SIGTERM):
        self.proc.send_signal(how)
        self.proc.wait()
        self.proc = None


def nats(server, *args, user="app", fails=False):
    line = [NATS, "--no-context", "-s", f"nats://{user}:{user}@127.0.0.1:{server.client}", *args]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0 and not fails:
        raise SystemExit(f"{' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def until(words, look):
    deadline = time.monotonic() + PATIENCE
    found = None
    while time.monotonic() < deadline:
        found = look()
        if found and found is not True:
            return found
        if found is True:
            return True
        time.sleep(0.2)
    raise SystemExit(f"not within {PATIENCE} s: {words}")


def info(server, stream):
    text = nats(server, "stream", "info", stream, "--json", fails=True)
    try:
        return json.loads(text)
    except ValueError:
        return {}


def place(server, stream):
    """Servers that have a stream, when nothing is under way and all of them have all of it."""
    cluster = info(server, stream).get("cluster") or {}
    replicas = cluster.get("replicas") or []
    if not cluster.get("leader") or cluster.get("desired") or not all(one["current"] for one in replicas):
        return None
    return sorted([cluster["leader"], *(one["name"] for one in replicas)])


def wait_for(server, stream, *names):
    until(f"{stream} on {', '.join(names)}", lambda: place(server, stream) == sorted(names))


def report(server):
    """Streams that servers have, by name, and names of the members of the meta group, as the CLI shows them."""
    text = nats(server, "server", "report", "jetstream", user="admin", fails=True)
    servers, members, table = {}, [], 0
    for line in text.splitlines():
        if "JetStream Summary" in line or "RAFT Meta" in line:
            table += 1
        cells = [cell.strip() for cell in line.replace("│", "|").split("|")][1:-1]
        if len(cells) < 4 or not cells[0].rstrip("*").startswith("n"):
            continue
        if table < 2:
            servers[cells[0].rstrip("*")] = int(cells[2].replace(",", ""))
        else:
            members.append(cells[0])
    return servers, members


def streams_on(server, name):
    return report(server)[0].get(name)


def members(server, count):
    until(f"{count} members", lambda: len(report(server)[1]) == count)


def edit(server, stream, replicas):
    """A new server gets no replica before others have heard of it, for which a second is enough."""
    def attempt():
        said = nats(server, "stream", "edit", stream, "--replicas", str(replicas), "-f", fails=True)
        return info(server, stream).get("config", {}).get("num_replicas") == replicas or print(said.splitlines()[-1])
    until(f"{stream} with {replicas} replicas", attempt)


def is_healthy(server):
    """Whether a server has everything that it is to have, as it says itself."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.page}/healthz", timeout=2) as page:
            return json.load(page)["status"] == "ok"
    except OSError:
        return False


class Publisher(threading.Thread):
    """Publishes by the CLI's request, each number until it is acknowledged."""

    def __init__(self, servers):
        super().__init__(daemon=True)
        self.servers, self.count, self.over = servers, 0, False

    def run(self):
        while not self.over:
            for server in [one for one in self.servers if one.proc]:
                said = nats(server, "req", "orders.new", str(self.count), "-H", f"Nats-Msg-Id:{self.count}", "--timeout", "2s",
                            "--raw", fails=True)
                if '"seq"' in said:
                    self.count += 1
                    break


def step(words):
    print(f"{time.strftime('%H:%M:%S')} {words}", flush=True)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    n1 = Server("n1", [])
    n2 = Server("n2", [n1])
    n3 = Server("n3", [n1, n2])
    n4, n5 = Server("n4", [n1]), Server("n5", [n1])
    all_servers = [n1, n2, n3, n4, n5]
    try:
        play(n1, n2, n3, n4, n5, all_servers)
    finally:
        for server in all_servers:
            if server.proc:
                server.stop(signal.SIGKILL)
        if "--keep" not in sys.argv:
            shutil.rmtree(FOLDER, ignore_errors=True)


def play(n1, n2, n3, n4, n5, all_servers):
    n1.start([n2, n3])
    n2.start([n3])
    n3.start()
    step("three servers found a cluster")
    until("a stream", lambda: "ORDERS" in nats(n1, "stream", "add", "ORDERS", "--subjects", "orders.>", "--replicas", "3",
                                               "--defaults", fails=True))
    nats(n1, "stream", "add", "ALONE", "--subjects", "alone.>", "--replicas", "1", "--defaults")
    nats(n1, "pub", "alone.a", "kept", "-J")
    wait_for(n1, "ORDERS", "n1", "n2", "n3")
    publisher = Publisher(all_servers)
    publisher.start()
    step("one is added")
    n4.start()
    members(n1, 4)
    edit(n1, "ORDERS", 4)
    wait_for(n1, "ORDERS", "n1", "n2", "n3", "n4")
    edit(n1, "ORDERS", 3)
    where = until("three replicas", lambda: (lambda names: names if names and len(names) == 3 else None)(place(n1, "ORDERS")))
    step(f"replicas: {where}; a replica is moved by peer-remove")
    free = next(name for name in ("n1", "n2", "n3", "n4") if name not in where)
    gone = next(name for name in where if name != "n1")
    nats(n1, "stream", "cluster", "peer-remove", "ORDERS", gone, "-f")
    wait_for(n1, "ORDERS", free, *(name for name in where if name != gone))
    nats(n1, "stream", "cluster", "step-down", "ORDERS")
    step("n2 is replaced by n5")
    n5.start()
    members(n1, 5)
    nats(n1, "server", "cluster", "evacuate", "n2", "-f", user="admin")
    until("no stream on n2", lambda: streams_on(n1, "n2") == 0)
    n2.stop()
    nats(n1, "server", "cluster", "peer-remove", "n2", "-f", user="admin")
    members(n1, 4)
    if (names := until("ORDERS on others", lambda: place(n1, "ORDERS"))) and "n2" in names:
        raise SystemExit(f"n2 has ORDERS: {names}")
    step("n3 is retired without another one, by one replica less where there is no place")
    nats(n1, "server", "cluster", "evacuate", "n3", "-f", user="admin")
    until("no stream on n3", lambda: streams_on(n1, "n3") == 0)
    n3.stop()
    nats(n1, "server", "cluster", "peer-remove", "n3", "-f", user="admin")
    members(n1, 3)
    step("n5 loses its disk")
    n5.stop(signal.SIGKILL)
    shutil.rmtree(n5.store)
    n5.start()
    until("n5 has everything", lambda: is_healthy(n5) and place(n1, "ORDERS") == ["n1", "n4", "n5"])
    has, stored = info(n5, "ORDERS")["state"]["messages"], publisher.count
    if has < stored - 1 or not os.path.isdir(n5.store):
        raise SystemExit(f"n5 has {has} of {stored}")
    step("n4 is retired: what is on it is scaled down first")
    edit(n1, "ORDERS", 1)
    until("one replica", lambda: len(place(n1, "ORDERS") or []) == 1)
    nats(n1, "server", "cluster", "evacuate", "n4", "-f", user="admin")
    until("no stream on n4", lambda: streams_on(n1, "n4") == 0)
    n4.stop()
    nats(n1, "server", "cluster", "peer-remove", "n4", "-f", user="admin")
    members(n1, 2)
    publisher.over = True
    publisher.join()
    stored = info(n1, "ORDERS")["state"]["messages"]
    alone = info(n1, "ALONE")["state"]["messages"]
    step(f"{publisher.count} acknowledged, {stored} stored; {alone} in ALONE")
    if stored != publisher.count or alone != 1 or not stored:
        raise SystemExit("something is missing")


main()
