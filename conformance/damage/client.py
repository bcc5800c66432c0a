"""A server process, and a client in a few lines: it sees bytes as they come, and needs nothing but Python."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

PATIENCE = 20


def framed(subject, reply, payload):
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"


class Client:
    """The client's protocol, as far as it is needed: publish, request, and messages in the order in which they come."""

    def __init__(self, port):
        self.socket, self.patience = socket.create_connection(("127.0.0.1", port), PATIENCE), PATIENCE
        self.buffer, self.at, self.replies = b"", 0, 0
        self.line()
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB inbox.> 1\r\nPING\r\n')
        while self.line() != b"PONG":
            pass

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self.buffer, self.at = self.buffer[self.at:] + data, 0

    def line(self):
        while (end := self.buffer.find(b"\r\n", self.at)) < 0:
            self.more()
        line, self.at = self.buffer[self.at:end], end + 2
        return line

    def message(self, patience=PATIENCE):
        """The next one: subject, reply, headers, payload. None if nothing comes."""
        self.wait(patience)
        try:
            while True:
                line = self.line()
                words = line.split(b" ")
                if words[0] in (b"MSG", b"HMSG"):
                    break
                if line == b"PING":
                    self.send(b"PONG\r\n")
        except TimeoutError:
            return None
        has_headers = words[0] == b"HMSG"
        size, head = int(words[-1]), int(words[-2]) if has_headers else 0
        reply = words[3].decode() if len(words) == (6 if has_headers else 5) else ""
        while len(self.buffer) - self.at < size + 2:
            self.wait(PATIENCE)
            self.more()
        body, self.at = self.buffer[self.at:self.at + size], self.at + size + 2
        return words[1].decode(), reply, body[:head], body[head:]

    def wait(self, patience):
        if patience != self.patience:
            self.socket.settimeout(patience)
            self.patience = patience

    def ask(self, subject, payload=b""):
        """The subject on which the answer comes."""
        self.replies += 1
        inbox = f"inbox.{self.replies}"
        self.send(framed(subject, inbox, payload))
        return inbox

    def request(self, subject, payload=b""):
        inbox = self.ask(subject, payload)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and (message := self.message()):
            if message[0] == inbox:
                return message
        raise TimeoutError(f"no answer to {subject}")

    def api(self, subject, payload=b""):
        answer = json.loads(self.request("$JS.API." + subject, payload)[3])
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']['description']}")
        return answer


class Server:
    """A process with a store."""

    def __init__(self, program, folder, key="", always=False, prefix=()):
        self.log = Path(folder, "log")
        self.store = Path(folder, "js", "jetstream", "myelin")
        config = Path(folder, "server.conf")
        secret = f'encryption_key: "{key}", cipher: aes' if key else ""
        secret += ', sync_interval: always' if always else ""
        config.write_text(f'jetstream {{ store_dir: "{folder}/js", {secret.lstrip(", ")} }}\nmax_payload: 2MB\n')
        with open(self.log, "wb") as log:
            command = [*prefix, program, "-a", "127.0.0.1", "-p", "-1", "-c", str(config)]
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        self.port = self.ready()

    def words(self):
        return self.log.read_text(errors="replace")

    def ready(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            words = self.words()
            if "Server is ready" in words:
                return int(re.search(r"Listening for client connections on .*:(\d+)", words)[1])
            if self.process.poll() is not None:
                raise RuntimeError(f"the start was refused: {words.strip().splitlines()[-1:]}")
            time.sleep(0.002)
        self.process.kill()
        raise RuntimeError("the server was not ready in time")

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is not None:
            return self.process.returncode
        # Its descriptor tells at once that it has ended; Python's own wait looks every 50 ms.
        descriptor = os.pidfd_open(self.process.pid)
        try:
            self.process.send_signal(how)
            ends = select.poll()
            ends.register(descriptor, select.POLLIN)
            if not ends.poll(PATIENCE * 1000):
                self.process.kill()
                return "a hang at the end"
            return self.process.wait()
        finally:
            os.close(descriptor)
