"""The official Python client against a server: what an application does, in one small program.

Usage: python_smoke.py PROGRAM LAB

Starts PROGRAM (a nats-server or a myelin-server) on a free port, drives it with nats-py, prints one line per
subject and ends with 1 at the first that does not hold. LAB is a folder that lab.sh has made. Waits for conditions,
never for time.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import nats
import python_tls
from nats.errors import NoRespondersError

PATIENCE = 20


class Server:
    """A server process; `restart` brings it back on the same port."""

    def __init__(self, program: str, config: str = ""):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        self.config = Path(self.folder.name, "server.conf")
        self.config.write_text(config)
        self.port = self._start("-1")

    def _start(self, port: str) -> int:
        command = [self.program, "-a", "127.0.0.1", "-p", port, "-c", str(self.config)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        found = None
        for line in self.process.stderr:
            listening = re.search(r"Listening for client connections on .*:(\d+)", line)
            found = int(listening.group(1)) if listening else found
            if "Server is ready" in line:
                return found
        raise SystemExit(f"{self.program} did not start")

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Whatever happened before: no process stays behind."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def restart(self) -> None:
        self.kill()
        self._start(str(self.port))


async def soon(awaitable):
    return await asyncio.wait_for(awaitable, PATIENCE)


async def settle(client):
    """Waits until the server has done what the client said so far. flush does not: its PING may go out before a SUB."""
    try:
        await client.request("nobody.is.there", b"", PATIENCE)
    except NoRespondersError:
        return
    raise AssertionError("somebody answered")


async def publish_and_subscribe(server):
    one, other = await nats.connect(server.url), await nats.connect(server.url)
    sub = await other.subscribe("greet.*")
    await settle(other)
    for i in range(1000):
        await one.publish(f"greet.{i % 3}", str(i).encode())
    for i in range(1000):
        message = await soon(sub.next_msg(PATIENCE))
        assert (message.subject, message.data) == (f"greet.{i % 3}", str(i).encode()), (i, message)
    await one.close()
    await other.close()


async def queue_groups(server):
    clients = [await nats.connect(server.url) for _ in range(4)]
    shares, done = Counter(), asyncio.Event()

    def member(name):
        async def take(message):
            shares[name] += 1
            if shares.total() == 1000:
                done.set()

        return take

    for name, client in enumerate(clients):
        await client.subscribe("work", queue="workers", cb=member(name))
        await settle(client)
    for _ in range(1000):
        await clients[0].publish("work", b"")
    await soon(done.wait())
    await settle(clients[0])
    assert shares.total() == 1000 and len(shares) == 4, shares
    for client in clients:
        await client.close()


async def requests(server):
    service, client = await nats.connect(server.url), await nats.connect(server.url)

    async def echo(message):
        await message.respond(message.data[::-1])

    await service.subscribe("reverse", cb=echo)
    await settle(service)
    answers = await asyncio.gather(*(client.request("reverse", f"{i:05}".encode(), PATIENCE) for i in range(200)))
    assert [a.data for a in answers] == [f"{i:05}"[::-1].encode() for i in range(200)]
    old = await client.request("reverse", b"ab", PATIENCE, old_style=True)
    assert old.data == b"ba"
    await service.close()
    await client.close()


async def headers(server):
    client = await nats.connect(server.url)
    sub = await client.subscribe("headers")
    await client.publish("headers", b"body", headers={"Trace": "abc", "Other": "1, 2"})
    message = await soon(sub.next_msg(PATIENCE))
    assert message.data == b"body" and message.headers["Trace"] == "abc" and message.headers["Other"] == "1, 2"
    await client.close()


async def no_responders(server):
    client = await nats.connect(server.url)
    await settle(client)
    await client.close()


async def drain(server):
    closed = asyncio.Event()

    async def on_close():
        closed.set()

    publisher = await nats.connect(server.url)
    client = await nats.connect(server.url, closed_cb=on_close)
    taken = []

    async def take(message):
        taken.append(message.data)

    await client.subscribe("drained", cb=take)
    await settle(client)
    for i in range(500):
        await publisher.publish("drained", str(i).encode())
    await settle(publisher)
    await soon(client.drain())
    await soon(closed.wait())
    assert taken == [str(i).encode() for i in range(500)], len(taken)
    await publisher.close()


async def reconnect(server):
    back = asyncio.Event()

    async def on_reconnect():
        back.set()

    client = await nats.connect(
        server.url, reconnected_cb=on_reconnect, reconnect_time_wait=0.05, max_reconnect_attempts=-1
    )
    sub = await client.subscribe("news")
    await settle(client)
    server.restart()
    await soon(back.wait())
    await client.publish("news", b"after")
    assert (await soon(sub.next_msg(PATIENCE))).data == b"after"
    await client.close()


async def permissions(server):
    errors = asyncio.Queue()

    async def on_error(error):
        await errors.put(str(error).lower())

    client = await nats.connect(server.url, user="a", password="b", error_cb=on_error)
    await client.publish("forbidden", b"")
    assert 'permissions violation for publish to "forbidden"' in await soon(errors.get())
    await client.close()


USERS = 'authorization { users: [ { user: a, password: b, permissions: { publish: "out.>", subscribe: "in.>" } } ] }'


async def main(program: str, lab: str) -> None:
    open_to_all = [publish_and_subscribe, queue_groups, requests, headers, no_responders, drain, reconnect]
    over_tls = [(config, [part]) for config, part in python_tls.subjects(lab)]
    for config, parts in [("", open_to_all), (USERS, [permissions]), *over_tls]:
        with Server(program, config) as server:
            for part in parts:
                await asyncio.wait_for(part(server), 3 * PATIENCE)
                print("ok  ", part.__name__)
            code = server.stop()
            assert code == 0, f"exit code {code}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2]))
