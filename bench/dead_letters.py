#!/usr/bin/env python3
"""Dead letters: how fast messages move that die at once.

    bench/dead_letters.py SERVER [MESSAGES]

Starts SERVER (a myelin-server) with a store of its own, publishes MESSAGES (500,000) of 128 B, delivers each of them once without
an acknowledgement, and prints how long they take to move from the first that has moved, and what the server spends on each.
Needs Python alone.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

PORT = 4733
BLOCK = 1000


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT))
        self.lines = self.socket.makefile("rb")
        self.asked = 0
        self.lines.readline()
        self.say('CONNECT {"verbose":false,"headers":true,"no_responders":true}', "SUB _INBOX.x.> 1")

    def say(self, *lines):
        self.socket.sendall("".join(line + "\r\n" for line in lines).encode())

    def publish(self, subject, reply, body):
        self.say(f"PUB {subject} {reply} {len(body)}", body)

    def next(self):
        """Subject and payload of the next message."""
        while True:
            words = self.lines.readline().split()
            if not words:
                raise ConnectionError("the server has ended the connection")
            if words[0] == b"PING":
                self.say("PONG")
            elif words[0] in (b"MSG", b"HMSG"):
                return words[1].decode(), self.lines.read(int(words[-1]) + 2)[:-2]

    def ask(self, request, body):
        self.asked += 1
        reply = f"_INBOX.x.{self.asked}"
        self.publish(f"$JS.API.{request}", reply, json.dumps(body))
        while True:
            subject, payload = self.next()
            if subject == reply:
                answer = json.loads(payload)
                if "error" in answer:
                    raise RuntimeError(f"{request}: {answer['error']}")
                return answer

    def messages(self, stream):
        return self.ask(f"STREAM.INFO.{stream}", {})["state"]["messages"]


def spent(process):
    """Seconds of the processor."""
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(process, count):
    client = Client()
    for name, subject in (("ORDERS", "o.>"), ("DEAD", "dlq.>")):
        client.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "storage": "file"})
    block = "".join(f"PUB o.{n} 128\r\n{'x' * 128}\r\n" for n in range(BLOCK)).encode()
    for _ in range(count // BLOCK):
        client.socket.sendall(block)
    while client.messages("ORDERS") < count:
        time.sleep(0.1)
    config = {
        "durable_name": "c", "ack_policy": "explicit", "max_deliver": 1, "ack_wait": 4_000_000_000,
        "max_ack_pending": 2 * count, "metadata": {"myelin.dlq.stream": "DEAD"},
    }
    client.ask("CONSUMER.CREATE.ORDERS.c", {"stream_name": "ORDERS", "config": config})
    client.say("SUB delivered 2")
    request = json.dumps({"batch": count, "expires": 60_000_000_000})
    client.publish("$JS.API.CONSUMER.MSG.NEXT.ORDERS.c", "delivered", request)
    for _ in range(count):
        client.next()
    began, before, moved = None, 0, 0
    while moved < count:
        moved = client.messages("DEAD")
        if moved and began is None:
            began, before, cpu = time.time(), moved, spent(process)
        time.sleep(0.02)
    rest = count - before
    if began is None or rest == 0:
        sys.exit("too few messages to measure")
    seconds, cpu = time.time() - began, spent(process) - cpu
    print(f"{rest} moved in {seconds:.2f} s: {rest / seconds:,.0f} a second, {1e6 * cpu / rest:.2f} us of the processor each")


def main():
    server, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500_000
    with tempfile.TemporaryDirectory() as store:
        process = subprocess.Popen([server, "-a", "127.0.0.1", "-p", str(PORT), "-js", "-sd", store, "-l", f"{store}/log"])
        try:
            deadline = time.time() + 10
            while True:
                try:
                    socket.create_connection(("127.0.0.1", PORT)).close()
                    break
                except OSError:
                    if time.time() > deadline or process.poll() is not None:
                        sys.exit("the server does not start")
                    time.sleep(0.05)
            measure(process, count - count % BLOCK)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
