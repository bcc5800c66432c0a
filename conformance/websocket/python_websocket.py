"""The official Python client over WebSocket: what an application does, in one small program.

Usage: python_websocket.py PROGRAM CERT KEY

Starts PROGRAM (a nats-server or a myelin-server), drives it with nats-py through aiohttp, plain and encrypted, and ends
with a line that says how many scenes passed. Waits for conditions, never for time.
"""

import asyncio
import re
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

import nats
from nats.errors import NoRespondersError

PATIENCE = 20


class Server:
    """A server process with a WebSocket listener."""

    def __init__(self, program: str, block: str):
        self.folder = tempfile.TemporaryDirectory()
        config = Path(self.folder.name, "server.conf")
        config.write_text(
            f'jetstream {{ store_dir: "{self.folder.name}" }}\n'
            "authorization { user: app, password: s3cret }\n"
            f'websocket {{ host: "127.0.0.1", port: -1, {block} }}\n'
        )
        command = [program, "-a", "127.0.0.1", "-p", "-1", "-c", str(config)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"Listening for websocket clients on (wss?://\S+)", line):
                self.url = found.group(1)
            if "Server is ready" in line:
                return
        raise RuntimeError("the server does not start")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


async def publish_and_subscribe(nc):
    sub = await nc.subscribe("a.*")
    for size in [0, 1, 125, 126, 4096, 65535, 65536, 900_000]:
        await nc.publish("a.b", b"x" * size)
        message = await sub.next_msg(timeout=PATIENCE)
        assert len(message.data) == size, size


async def many(nc):
    sub = await nc.subscribe("many")
    for i in range(5000):
        await nc.publish("many", str(i).encode())
    for i in range(5000):
        assert (await sub.next_msg(timeout=PATIENCE)).data == str(i).encode()


async def request_and_reply(nc):
    async def answer(message):
        await message.respond(message.data.upper())

    await nc.subscribe("ask", cb=answer)
    assert (await nc.request("ask", b"why", timeout=PATIENCE)).data == b"WHY"


async def with_headers(nc):
    sub = await nc.subscribe("h")
    await nc.publish("h", b"body", headers={"A": "b"})
    message = await sub.next_msg(timeout=PATIENCE)
    assert (message.headers, message.data) == ({"A": "b"}, b"body")


async def no_responders(nc):
    try:
        await nc.request("nobody", b"", timeout=PATIENCE)
    except NoRespondersError:
        return
    raise AssertionError("somebody answers")


async def streams(nc):
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s.>"])
    for i in range(50):
        await js.publish("s.x", str(i).encode())
    sub = await js.pull_subscribe("s.>", durable="d")
    messages = await sub.fetch(50, timeout=PATIENCE)
    assert [message.data for message in messages] == [str(i).encode() for i in range(50)]
    for message in messages:
        await message.ack_sync(timeout=PATIENCE)


SCENES = [publish_and_subscribe, many, request_and_reply, with_headers, no_responders, streams]


async def play(server: Server, tls) -> tuple[int, int]:
    passed = failed = 0
    for scene in SCENES:
        nc = await nats.connect(server.url, user="app", password="s3cret", tls=tls, allow_reconnect=False)
        try:
            await asyncio.wait_for(scene(nc), PATIENCE * 3)
            passed += 1
        except Exception as error:  # whatever it is, it is a failure of this scene
            print(f"  {scene.__name__} over {server.url}: {error!r}")
            failed += 1
        await nc.close()
    return passed, failed


async def main(program: str, cert: str, key: str) -> int:
    trusting = ssl.create_default_context(cafile=cert)
    secure = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}'
    passed = failed = 0
    for block, tls in [
        ("no_tls: true", None),
        ("no_tls: true, compression: true", None),
        (f"compression: true, {secure}", trusting),
    ]:
        server = Server(program, block)
        try:
            one, other = await play(server, tls)
            passed, failed = passed + one, failed + other
        finally:
            server.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(asyncio.run(main(*sys.argv[1:])))
