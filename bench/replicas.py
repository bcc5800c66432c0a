#!/usr/bin/env python3
"""A stream with replicas on three servers while it is written to: one publisher that waits for each acknowledgement, leaders that
hand over, and a replica that comes.

    bench/replicas.py OURS REFERENCE [ROUNDS] [MEGABYTES]

Starts three servers of each program in turn, as assets.py does, ROUNDS times (5), and prints the medians and how many times
better OURS is. MEGABYTES (500) are in the stream that gets one more replica, under 20,000 publishes a second. Publishers send
again what nobody has taken, after a millisecond, or what nobody has answered for a second. A gap is the time between two
acknowledgements of one publisher in which a leader was asked to step down. Needs Python alone.
"""

import json
import os
import select
import statistics
import sys
import time

from assets import MESSAGE, Client, Cluster, first_client, stream

TRANSFERS = 30
SYNCHRONOUS = 5000
LOAD = 20_000


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def leader_of(client, name):
    """The server that leads a stream, by its number."""
    deadline = time.time() + 30
    while time.time() < deadline:
        leader = client.api(f"STREAM.INFO.{name}", {}).get("cluster", {}).get("leader", "")
        if leader:
            return int(leader[1:])
        time.sleep(0.05)
    raise RuntimeError(f"{name} has no leader")


class Waiting:
    """A publisher that waits for each acknowledgement."""

    def __init__(self, port, subject):
        self.port, self.subject, self.sent, self.unanswered = port, subject, 0, 0
        self.connect()

    def connect(self):
        self.client = Client(self.port)
        self.client.socket.settimeout(1)

    def publish(self):
        while True:
            self.sent += 1
            head = f"PUB {self.subject} {self.client.inbox}.{self.sent} {len(MESSAGE)}\r\n".encode()
            self.client.socket.sendall(head + MESSAGE + b"\r\n")
            try:
                while True:
                    subject, _, payload = self.client.message()
                    if int(subject.rsplit(b".", 1)[1]) == self.sent:
                        break
            except TimeoutError:
                # A socket that had no answer in time is not read any more.
                self.unanswered += 1
                self.connect()
                continue
            if b'"seq"' in payload:
                return
            # Nobody has taken it.
            time.sleep(0.001)


def synchronous(cluster, found):
    """One publisher at the leader's server, and one at another."""
    client = first_client(cluster.clients[0], stream("SYNC"))
    leader = leader_of(client, "SYNC")
    for name, server in (("at the leader", leader), ("at another server", (leader + 1) % 3)):
        one = Waiting(cluster.clients[server], "SYNC.x")
        for _ in range(SYNCHRONOUS // 10):
            one.publish()
        times, cpu = [], cluster.cpu()
        for _ in range(SYNCHRONOUS):
            start = time.perf_counter()
            one.publish()
            times.append(time.perf_counter() - start)
        found[f"one by one, {name}: p50, us"] = percentile(times, 0.5) * 1e6
        found[f"one by one, {name}: p99, us"] = percentile(times, 0.99) * 1e6
        found[f"one by one, {name}: CPU, us"] = (cluster.cpu() - cpu) / SYNCHRONOUS * 1e6


def transfers(cluster, found):
    """Leaders hand over while one publishes at a server."""
    client = first_client(cluster.clients[0], stream("MOVED"))
    publisher, gaps = Waiting(cluster.clients[1], "MOVED.x"), []
    for _ in range(2 * TRANSFERS):
        before = leader_of(client, "MOVED")
        begin = time.perf_counter()
        while time.perf_counter() < begin + 0.2:
            publisher.publish()
        last, longest = time.perf_counter(), 0
        client.socket.sendall(f"PUB $JS.API.STREAM.LEADER.STEPDOWN.MOVED {client.inbox}.0 0\r\n\r\n".encode())
        end = last + 1
        while last < end:
            publisher.publish()
            now = time.perf_counter()
            last, longest = now, max(longest, now - last)
        if not json.loads(client.message()[2] or b"{}").get("success"):
            # It has just begun to lead.
            continue
        gaps.append(longest)
        if len(gaps) == TRANSFERS:
            break
        deadline = time.time() + 10
        while leader_of(client, "MOVED") == before and time.time() < deadline:
            time.sleep(0.05)
    found["transfer, publishes without an answer"] = publisher.unanswered
    found["transfer, gap of one publisher: p50, ms"] = percentile(gaps, 0.5) * 1e3
    found["transfer, gap of one publisher: p99, ms"] = percentile(gaps, 0.99) * 1e3


class Load:
    """Publishes a number of messages a second, each counted from when it was due."""

    def __init__(self, port, subject, rate):
        self.client, self.subject, self.rate = Client(port), subject, rate
        self.client.socket.setblocking(False)
        self.buffer, self.due, self.times, self.sent = b"", {}, [], 0

    def run(self, until):
        """Until `until` says that it is enough, which is asked ten times a second."""
        begin = next_look = time.perf_counter()
        first, out, resend = self.sent, b"", []
        while True:
            now = time.perf_counter()
            if now >= next_look:
                next_look = now + 0.1
                if until():
                    return
            while resend and resend[0][0] <= now:
                out += self.message(resend.pop(0)[1])
            due = first + int((now - begin) * self.rate)
            for number in range(self.sent, due):
                self.due[number] = begin + (number - first) / self.rate
                out += self.message(number)
            self.sent = max(self.sent, due)
            reads, writes, _ = select.select([self.client.socket], [self.client.socket] if out else [], [], 0.001)
            if writes:
                out = out[self.client.socket.send(out) :]
            if reads:
                resend += self.take(time.perf_counter())

    def message(self, number):
        inbox = self.client.inbox.encode()
        return b"PUB %s %s.%d %d\r\n%s\r\n" % (self.subject, inbox, number, len(MESSAGE), MESSAGE)

    def take(self, now):
        """Takes what has come, and answers what is to be sent again."""
        refused = []
        data = self.buffer + self.client.socket.recv(1 << 20)
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            words = data[at:end].split()
            if words[0] == b"PING":
                self.client.socket.send(b"PONG\r\n")
                at = end + 2
                continue
            size = int(words[-1])
            if len(data) < end + 4 + size:
                break
            payload, at = data[end + 2 : end + 2 + size], end + 4 + size
            number = int(words[1].rsplit(b".", 1)[1])
            if b'"seq"' not in payload:
                refused.append((now + 0.001, number))
            elif (due := self.due.pop(number, None)) is not None:
                self.times.append(now - due)
        self.buffer = data[at:]
        return refused


def replica(cluster, found, megabytes):
    """A stream of two replicas gets a third one under load."""
    client = first_client(cluster.clients[0], stream("GROWS", num_replicas=2))
    payload = b"y" * 1024
    count = megabytes << 10
    client.all(count, 2000, lambda number: ("GROWS.f", payload))
    info = client.api("STREAM.INFO.GROWS", {})
    names = {info["cluster"]["leader"], *(one["name"] for one in info["cluster"].get("replicas", []))}
    new = next(f"n{at}" for at in range(3) if f"n{at}" not in names)
    load = Load(cluster.clients[leader_of(client, "GROWS")], b"GROWS.l", LOAD)
    quiet_until = time.time() + 3
    load.run(lambda: time.time() > quiet_until)
    found["20,000 a second: p99, ms"] = percentile(load.times, 0.99) * 1e3
    load.times.clear()
    begin = time.perf_counter()
    client.api("STREAM.UPDATE.GROWS", stream("GROWS"))

    def has_come():
        """Asks without waiting for the answer: the load goes on."""
        if time.perf_counter() > begin + 300:
            raise RuntimeError(f"{new} has not come")
        client.socket.sendall(f"PUB $JS.API.STREAM.INFO.GROWS {client.inbox}.0 0\r\n\r\n".encode())
        if not select.select([client.socket], [], [], 0)[0]:
            return False
        cluster = json.loads(client.message()[2] or b"{}").get("cluster", {})
        # What is under way at a moment is no lag: `current` is seldom true under load.
        has_it = lambda one: one["name"] == new and one.get("lag", 0) < LOAD / 10
        return "desired" not in cluster and any(map(has_it, cluster.get("replicas") or []))

    load.run(has_come)
    found[f"one more replica of {megabytes} MB: s"] = time.perf_counter() - begin
    found["publishers meanwhile: p50, ms"] = percentile(load.times, 0.5) * 1e3
    found["publishers meanwhile: p99, ms"] = percentile(load.times, 0.99) * 1e3


def round_of(program, megabytes, rows):
    found = {}
    for row in rows:
        cluster = Cluster(program)
        try:
            if row == "sync":
                synchronous(cluster, found)
            elif row == "transfer":
                transfers(cluster, found)
            else:
                replica(cluster, found, megabytes)
        finally:
            cluster.stop()
    return found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    programs = [os.path.abspath(path) for path in sys.argv[1:3]]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    megabytes = int(sys.argv[4]) if len(sys.argv) > 4 else 500
    rows = sys.argv[5].split(",") if len(sys.argv) > 5 else ["sync", "transfer", "replica"]
    found = [[], []]
    for _ in range(rounds):
        for one, program in zip(found, programs):
            one.append(round_of(program, megabytes, rows))
    print(f"{'':44}{'ours':>10}{'reference':>12}{'times':>8}")
    for name in found[0][0]:
        ours, reference = (statistics.median(one[name] for one in all) for all in found)
        print(f"{name:44}{ours:10.1f}{reference:12.1f}{reference / max(ours, 0.01):8.1f}")


if __name__ == "__main__":
    main()
