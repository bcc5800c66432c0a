#!/usr/bin/env python3
"""Streams, consumers and buckets with three replicas on three servers: how fast they are made and used, and what they cost at rest.

    bench/assets.py OURS REFERENCE [ROUNDS] [COUNT]

Starts three servers of each program in turn, on free ports of loopback with stores below TMPDIR, ROUNDS times (5), and prints
the medians and how many times better OURS is. COUNT (1000) consumers and streams are made. Needs Python alone. CPU is that of
the three servers together, memory that of one of them.
"""

import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SERVERS = 3
MESSAGE = b"x" * 128
DELIVERY = re.compile(rb"MSG \S+ 1 (\S+) (128)\r\n(x{128})\r\n")


def free_ports(count):
    """Ports that nobody has, each another one."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="assets-")
        ports = free_ports(2 * SERVERS)
        self.clients, links = ports[:SERVERS], ports[SERVERS:]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in links)
        self.processes = []
        for at in range(SERVERS):
            path = f"{self.folder}/{at}.conf"
            with open(path, "w") as conf:
                conf.write(
                    f'server_name: n{at}\nlisten: "127.0.0.1:{self.clients[at]}"\n'
                    f'jetstream {{ store_dir: "{self.folder}/{at}" }}\n'
                    f'cluster {{ name: c, listen: "127.0.0.1:{links[at]}", routes: [ {routes} ] }}\n'
                )
            self.processes.append(subprocess.Popen([program, "-c", path], stderr=subprocess.DEVNULL))

    def cpu(self):
        """Seconds that the servers have used."""
        total = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Bytes of one server, on average."""
        total = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/status") as status:
                total += next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        return total * 1024 / SERVERS

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Client:
    """Requests with so many in flight; each has an inbox of its own below one that is subscribed to."""

    made = 0

    def __init__(self, port):
        Client.made += 1
        self.inbox = f"a{Client.made}"
        deadline = time.time() + 20
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
                break
            except OSError:
                if time.time() > deadline:
                    raise
                time.sleep(0.05)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 18)
        self.file.readline()
        options = json.dumps({"verbose": False, "headers": True, "no_responders": True})
        self.socket.sendall(f"CONNECT {options}\r\nSUB {self.inbox}.* 1\r\n".encode())

    def message(self):
        """The next message: its subject, reply, and what it says, with headers."""
        while True:
            line = self.file.readline().split()
            if not line:
                raise EOFError("the server has ended the connection")
            if line[0] == b"PING":
                self.socket.sendall(b"PONG\r\n")
            elif line[0] in (b"MSG", b"HMSG"):
                payload = self.file.read(int(line[-1]) + 2)[:-2]
                has_reply = len(line) == (5 if line[0] == b"MSG" else 6)
                return line[1], line[3] if has_reply else None, payload

    def ask(self, subject, payload=b""):
        return self.all(1, 1, lambda _: (subject, payload))[0]

    def api(self, subject, body):
        """Until it is not refused for want of a leader."""
        deadline = time.time() + 30
        while True:
            answer = json.loads(self.ask(f"$JS.API.{subject}", json.dumps(body).encode()) or b"{}")
            if "type" in answer and "error" not in answer:
                return answer
            if time.time() > deadline:
                raise RuntimeError(f"{subject}: {answer}")
            time.sleep(0.2)

    def all(self, count, window, request):
        """Makes requests by their numbers, and collects the answers."""
        answers, sent, got = [None] * count, 0, 0
        while got < count:
            out = bytearray()
            while sent < count and sent - got < window:
                subject, payload = request(sent)
                out += f"PUB {subject} {self.inbox}.{sent} {len(payload)}\r\n".encode() + payload + b"\r\n"
                sent += 1
            if out:
                self.socket.sendall(out)
            subject, _, payload = self.message()
            number = int(subject.rsplit(b".", 1)[1])
            if answers[number] is None:
                answers[number] = payload
                got += 1
        return answers


def stream(name, **more):
    return {"name": name, "subjects": [f"{name}.>"], "num_replicas": 3, "storage": "file", **more}


def first_client(port, config):
    """Client of a cluster that has made its first stream: before there is a leader nobody may answer."""
    deadline = time.time() + 30
    while True:
        client = Client(port)
        try:
            client.api(f"STREAM.CREATE.{config['name']}", config)
            client.socket.settimeout(60)
            return client
        except TimeoutError:
            if time.time() > deadline:
                raise


def body(config):
    return json.dumps(config).encode()


def refused(answers):
    return [one for one in answers if b'"error"' in one]


def pull(client, count):
    """Fetches of 500, each message acknowledged; acknowledgements of what has come together leave together."""
    got, buffer = 0, b""
    while got < count:
        request = body({"batch": 500, "expires": 5_000_000_000})
        head = f"PUB $JS.API.CONSUMER.MSG.NEXT.PULLED.c {client.inbox}.0 {len(request)}\r\n".encode()
        client.socket.sendall(head + request + b"\r\n")
        left = min(500, count - got)
        while left > 0:
            buffer += client.socket.recv(1 << 18)
            # Neither subjects nor what was stored begin a line in this way.
            heads = DELIVERY.findall(buffer)
            acks = [b"PUB %s 4\r\n+ACK\r\n" % reply for reply, size, payload in heads]
            client.socket.sendall(b"".join(acks))
            left -= len(acks)
            buffer = DELIVERY.sub(b"", buffer)
            if b"PING\r\n" in buffer:
                client.socket.sendall(b"PONG\r\n")
                buffer = buffer.replace(b"PING\r\n", b"")
        got += min(500, count - got)


def round_of(program, count):
    """All rows once: by name what each is per second, or costs."""
    cluster = Cluster(program)
    found = {}
    try:
        client = first_client(cluster.clients[0], stream("W", max_consumers=2 * count + 10))

        def timed(name, number, act):
            cpu, start = cluster.cpu(), time.perf_counter()
            act()
            elapsed = time.perf_counter() - start
            found[name] = number / elapsed
            found[f"{name}, CPU"] = (cluster.cpu() - cpu) / number * 1e6

        def made(answers):
            wrong = refused(answers)
            if wrong:
                raise RuntimeError(f"{len(wrong)} refused: {wrong[0]!r}")

        def consumer(kind):
            def request(number):
                name = f"{kind}{number}"
                config = {"durable_name": name, "ack_policy": "explicit"}
                return f"$JS.API.CONSUMER.DURABLE.CREATE.W.{name}", body({"stream_name": "W", "config": config})

            return request

        few = max(count // 10, 1)
        timed("consumers, one by one", few, lambda: made(client.all(few, 1, consumer("one"))))
        memory = cluster.memory()
        timed("consumers, 64 at once", count, lambda: made(client.all(count, 64, consumer("many"))))
        found["memory of an idle consumer"] = max(cluster.memory() - memory, 1) / count
        time.sleep(2)
        cpu = cluster.cpu()
        time.sleep(5)
        found["CPU of idle consumers"] = max((cluster.cpu() - cpu) / 5 * 1e3, 0.1)
        create = lambda number: (f"$JS.API.STREAM.CREATE.s{number}", body(stream(f"s{number}")))
        timed("streams, 16 at once", count, lambda: made(client.all(count, 16, create)))
        each = lambda number: (f"s{number % count}.x", MESSAGE)
        timed("a message to each stream", count, lambda: made(client.all(count, 256, each)))
        again = 10 * count
        timed("ten more to each in turn", again, lambda: made(client.all(again, 256, each)))
        client.api("STREAM.CREATE.PULLED", stream("PULLED"))
        stored = 20 * count
        made(client.all(stored, 1000, lambda number: ("PULLED.x", MESSAGE)))
        config = {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": 5000}
        client.api("CONSUMER.DURABLE.CREATE.PULLED.c", {"stream_name": "PULLED", "config": config})
        timed("fetch 500, explicit acks", stored, lambda: pull(client, stored))
        bucket = {
            "name": "KV_B",
            "subjects": ["$KV.B.>"],
            "num_replicas": 3,
            "max_msgs_per_subject": 1,
            "allow_direct": True,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
        }
        client.api("STREAM.CREATE.KV_B", bucket)
        put = lambda number: (f"$KV.B.k{number * 7919 % count}", MESSAGE)
        timed("KV put, 16 at once", 10 * count, lambda: made(client.all(10 * count, 16, put)))
        get = lambda number: (f"$JS.API.DIRECT.GET.KV_B.$KV.B.k{number * 7919 % count}", b"")
        timed("KV get, 16 at once", 10 * count, lambda: client.all(10 * count, 16, get))
    finally:
        cluster.stop()
    return found


def main():
    programs = [os.path.abspath(path) for path in sys.argv[1:3]]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    if len(programs) != 2:
        sys.exit(__doc__)
    found = [[], []]
    for _ in range(rounds):
        for one, program in zip(found, programs):
            one.append(round_of(program, count))
    print(f"{'':32}{'ours':>12}{'reference':>12}{'times':>8}")
    for name in found[0][0]:
        ours, reference = (statistics.median(one[name] for one in all) for all in found)
        is_cost = "CPU" in name or "memory" in name
        times = reference / ours if is_cost else ours / reference
        print(f"{name:32}{ours:12.1f}{reference:12.1f}{times:8.1f}")
    print("a second; CPU in microseconds each, of idle consumers in milliseconds a second; memory in bytes a server")


if __name__ == "__main__":
    main()
