#!/usr/bin/env python3
"""Plays the JetStream API to two clusters of three servers and prints what they answer differently.

    differences.py SERVER REFERENCE [--only WORDS] [--keep FOLDER]

SERVER and REFERENCE are programs of Myelin or nats-server. Needs nats-py (python.sh installs it). Each request is
made at one server after the other; what only reads at all three. Ids, times, names of servers are not compared.
"""
import argparse
import asyncio
import base64
import difflib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import nats
from nats.aio.msg import Msg

DROPPED = {"created", "ts", "time", "timestamp", "leader_since", "active", "last_active", "peer", "first_ts", "last_ts",
           "pause_remaining", "inflight", "traffic_account", "lag"}
SECOND = 1_000_000_000


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def normal(value, key=""):
    """Without what differs from run to run."""
    if isinstance(value, dict):
        out = {k: normal(v, k) for k, v in value.items() if k not in DROPPED}
        if "replicas" in out and isinstance(out["replicas"], list):
            out["replicas"] = sorted(out["replicas"], key=lambda one: json.dumps(one, sort_keys=True))
        return out
    if isinstance(value, list):
        return [normal(v, key) for v in value]
    if isinstance(value, str):
        value = re.sub(r"\bn[1-6]\b", "N", value)
        value = re.sub(r"([SC]-R\d[FM])-\w{8}", r"\1-*", value)
        value = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", value)
        value = re.sub(r"\$JS\.ACK\.([^ ]*?)\.\d{18,}\.(\d+)", r"$JS.ACK.\1.TIME.\2", value)
        value = re.sub(r"_INBOX\.[\w.]+", "INBOX", value)
        value = re.sub(r"\$JS\.SNAPSHOT\.ACK\.[\w.-]+", "SNAPACK", value)
        value = re.sub(r"\$JS\.API\.STREAM\.RESTORE\.(\w+)\.\w+", r"RESTORE \1", value)
        if key == "hdrs":
            # The identity of an origin.
            value = re.sub(r"( \w{8})(?=\r\n)", "", base64.b64decode(value).decode(errors="replace"))
        if key == "Nats-Time-Stamp":
            value = "TIME"
        if key == "Nats-Pin-Id" or key == "pinned_client_id":
            value = "PIN"
    return value


def shown(msg, with_reply=True):
    body = msg.data.decode(errors="replace")
    try:
        body = normal(json.loads(body))
    except ValueError:
        body = normal(body)
    out = {"body": body}
    if msg.headers:
        out["headers"] = {k: normal(v, k) for k, v in sorted(msg.headers.items())}
    if with_reply and msg.reply:
        out["reply"] = normal(msg.reply)
    return out


class Cluster:
    size = 3

    def tags(self, at):
        return f'"az:{at}", ssd'

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.log = []
        self.procs = [None] * self.size
        self.clients = []
        self.turn = 0
        ports = [[free_port() for _ in range(self.size)] for _ in range(3)]
        self.ports, self.http = ports[0], ports[2]
        routes = ", ".join(f'"nats://127.0.0.1:{p}"' for p in ports[1])
        for at in range(self.size):
            with open(f"{folder}/n{at + 1}.conf", "w") as f:
                f.write(f"""server_name: n{at + 1}
listen: "127.0.0.1:{ports[0][at]}"
http: "127.0.0.1:{ports[2][at]}"
jetstream {{ store_dir: "{folder}/n{at + 1}", max_mem: 1GB, max_file: 4GB }}
cluster {{ name: C1, listen: "127.0.0.1:{ports[1][at]}", routes: [{routes}] }}
server_tags: [{self.tags(at)}]
accounts {{
  A {{ users: [{{user: a, password: a}}], jetstream: enabled }}
  L {{ users: [{{user: l, password: l}}], jetstream {{ max_mem: 1MB, max_file: 1MB, max_streams: 3, max_consumers: 4 }} }}
  $SYS {{ users: [{{user: admin, password: admin}}] }}
}}
no_auth_user: a
""")

    def start(self, at):
        out = open(f"{self.folder}/n{at + 1}.log", "a")
        self.procs[at] = subprocess.Popen([self.program, "-c", f"{self.folder}/n{at + 1}.conf"], stdout=out, stderr=out)

    async def begin(self):
        for at in range(self.size):
            self.start(at)
        async def ignore(*_): pass
        for at in range(self.size):
            for _ in range(100):
                try:
                    nc = await nats.connect(f"nats://127.0.0.1:{self.ports[at]}", error_cb=ignore, max_reconnect_attempts=-1)
                    break
                except Exception:
                    await asyncio.sleep(0.1)
            self.clients.append(nc)
        self.limited = await nats.connect(f"nats://l:l@127.0.0.1:{self.ports[1]}", error_cb=ignore)
        self.system = [await nats.connect(f"nats://admin:admin@127.0.0.1:{p}", error_cb=ignore) for p in self.ports]
        for nc in self.clients:
            for _ in range(100):
                answer = await self.ask(nc, "$JS.API.INFO", b"")
                if isinstance(answer, Msg) and b'"error"' not in answer.data:
                    break
                await asyncio.sleep(0.1)

    async def end(self):
        for nc in self.clients + self.system + [self.limited]:
            try:
                await asyncio.wait_for(nc.close(), 2)
            except Exception:
                pass
        for p in self.procs:
            if p:
                p.send_signal(signal.SIGTERM)
        for p in self.procs:
            if p:
                try:
                    p.wait(20)
                except subprocess.TimeoutExpired:
                    p.kill()

    async def ask(self, nc, subject, body, headers=None, wait=3.0):
        try:
            return await nc.request(subject, body, timeout=wait, headers=headers)
        except nats.errors.NoRespondersError:
            return "NO RESPONDERS"
        except Exception as error:
            return "TIMEOUT" if "imeout" in repr(error) or "imeout" in str(error) else repr(error)

    def note(self, label, what):
        self.log.append((label, what))

    @staticmethod
    def encode(body):
        if body is None:
            return b""
        return body if isinstance(body, bytes) else json.dumps(body).encode()

    async def req(self, label, subject, body=None, headers=None, wait=3.0, nc=None, keep=True, drop=()):
        """One request, at the next server."""
        self.turn += 1
        nc = nc or self.clients[self.turn % self.size]
        if not subject.startswith("$"):
            subject = f"$JS.API.{subject}"
        answer = await self.ask(nc, subject, self.encode(body), headers, wait)
        out = shown(answer, False) if isinstance(answer, Msg) else answer
        if isinstance(out, dict) and isinstance(out["body"], dict):
            for key in drop:
                out["body"].pop(key, None)
        if keep:
            self.note(label, out)
        return out

    async def every(self, label, subject, body=None, headers=None, drop=()):
        """One request at each server."""
        for at, nc in enumerate(self.clients):
            await self.req(f"{label} @{at}", subject, body, headers, nc=nc, drop=drop)

    async def pub(self, label, subject, body=b"x", headers=None, nc=None):
        self.turn += 1
        answer = await self.ask(nc or self.clients[self.turn % self.size], subject, self.encode(body), headers)
        self.note(label, shown(answer, False) if isinstance(answer, Msg) else answer)

    async def fetch(self, label, stream, consumer, body, most=10, wait=2.0, ack=None, at=None):
        """A pull and all that comes of it, until a status or until nothing comes."""
        self.turn += 1
        nc = self.clients[self.turn % self.size if at is None else at]
        inbox = nc.new_inbox()
        sub = await nc.subscribe(inbox)
        await nc.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", self.encode(body), reply=inbox)
        got = []
        while len(got) < most:
            try:
                msg = await sub.next_msg(timeout=wait)
            except Exception:
                break
            if msg.subject != inbox or msg.reply:
                got.append({"subject": normal(msg.subject), **shown(msg)})
                if ack and msg.reply.startswith("$JS.ACK"):
                    answer = await self.ask(nc, msg.reply, ack if isinstance(ack, bytes) else b"+ACK")
                    if not isinstance(answer, Msg):
                        got.append(answer)
            else:
                got.append(shown(msg))
                if not (msg.headers or {}).get("Status") == "100":
                    break
        await sub.unsubscribe()
        self.note(label, got)
        return got

    async def collect(self, label, subject, count, act, wait=2.0, nc=None, ack=False, queue=""):
        nc = nc or self.clients[0]
        sub = await nc.subscribe(subject, queue=queue)
        await nc.flush()
        await act()
        got = []
        while len(got) < count:
            try:
                msg = await sub.next_msg(timeout=wait)
            except Exception:
                break
            got.append({"subject": normal(msg.subject), **shown(msg)})
            if ack and msg.reply:
                await nc.publish(msg.reply, b"")
        await sub.unsubscribe()
        self.note(label, got)

    async def until(self, subject, check, body=None, wait=10.0):
        for _ in range(int(wait / 0.05)):
            answer = await self.ask(self.clients[self.turn % self.size], f"$JS.API.{subject}", self.encode(body), wait=1)
            self.turn += 1
            if isinstance(answer, Msg):
                try:
                    if check(json.loads(answer.data)):
                        return
                except (KeyError, TypeError):
                    pass
            await asyncio.sleep(0.05)
        self.note(f"waited in vain for {subject}", "")

    async def settled(self, stream, others=2):
        """Waits until all replicas have all there is."""
        def check(info):
            replicas = info["cluster"].get("replicas") or []
            return info["cluster"].get("leader") and len(replicas) == others and all(r["current"] for r in replicas)
        await self.until(f"STREAM.INFO.{stream}", check)


def consumer(stream, name, **config):
    return {"stream_name": stream, "config": {"name": name, **config}}


async def streams(c):
    for r in (1, 3):
        s = f"S{r}"
        base = {"name": s, "subjects": [f"{s}.>"], "num_replicas": r, "allow_direct": True}
        await c.req(f"create {s}", f"STREAM.CREATE.{s}", base)
        await c.settled(s, r - 1)
        await c.req(f"create {s} again", f"STREAM.CREATE.{s}", base)
        await c.req(f"create {s} other", f"STREAM.CREATE.{s}", {**base, "max_msgs": 7})
        await c.req(f"create {s} overlap", f"STREAM.CREATE.X", {**base, "name": "X"})
        await c.req(f"create wrong name", f"STREAM.CREATE.Y", base)
        await c.req(f"create even", f"STREAM.CREATE.E", {"name": "E", "subjects": ["e"], "num_replicas": 2})
        await c.req(f"delete even", f"STREAM.DELETE.E")
        await c.req(f"create four", f"STREAM.CREATE.E", {"name": "E", "subjects": ["e"], "num_replicas": 4})
        await c.req(f"create seven", f"STREAM.CREATE.E", {"name": "E", "subjects": ["e"], "num_replicas": 7})
        await c.req(f"create tags", f"STREAM.CREATE.E", {"name": "E", "subjects": ["e"], "placement": {"tags": ["nope"]}})
        await c.req(f"create cluster", f"STREAM.CREATE.E", {"name": "E", "subjects": ["e"], "placement": {"cluster": "C9"}})
        await c.every(f"info {s}", f"STREAM.INFO.{s}")
        for i in range(6):
            await c.pub(f"pub {s} {i}", f"{s}.{i % 3}", f"m{i}".encode())
        await c.settled(s, r - 1)
        await c.every(f"info {s} full", f"STREAM.INFO.{s}", {"deleted_details": True, "subjects_filter": ">"})
        await c.req(f"update {s}", f"STREAM.UPDATE.{s}", {**base, "max_msgs": 100, "description": "text"})
        await c.req(f"update nothing", f"STREAM.UPDATE.NOPE", {**base, "name": "NOPE"})
        await c.req(f"update storage", f"STREAM.UPDATE.{s}", {**base, "storage": "memory"})
        await c.every(f"get {s}", f"STREAM.MSG.GET.{s}", {"seq": 2})
        await c.every(f"get last {s}", f"STREAM.MSG.GET.{s}", {"last_by_subj": f"{s}.1"})
        await c.every(f"get none {s}", f"STREAM.MSG.GET.{s}", {"seq": 99})
        await c.req(f"delmsg {s}", f"STREAM.MSG.DELETE.{s}", {"seq": 2})
        await c.req(f"delmsg {s} again", f"STREAM.MSG.DELETE.{s}", {"seq": 2})
        await c.req(f"delmsg {s} none", f"STREAM.MSG.DELETE.{s}", {"seq": 77})
        await c.settled(s, r - 1)
        await c.every(f"info {s} deleted", f"STREAM.INFO.{s}", {"deleted_details": True})
        await c.every(f"direct {s}", f"$JS.API.DIRECT.GET.{s}", {"seq": 3})
        await c.every(f"direct last {s}", f"$JS.API.DIRECT.GET.{s}.{s}.1")
        await c.every(f"direct next {s}", f"$JS.API.DIRECT.GET.{s}", {"seq": 1, "next_by_subj": f"{s}.1"})
        await c.every(f"direct none {s}", f"$JS.API.DIRECT.GET.{s}", {"seq": 99})
        await c.every(f"direct bad {s}", f"$JS.API.DIRECT.GET.{s}", b"{")
        for at in range(3):
            nc = c.clients[at]
            inbox = nc.new_inbox()
            await c.collect(f"direct batch {s} @{at}", inbox, 6, lambda: nc.publish(
                f"$JS.API.DIRECT.GET.{s}", b'{"seq":1,"batch":5}', reply=inbox), wait=1, nc=nc)
            inbox2 = nc.new_inbox()
            await c.collect(f"direct multi {s} @{at}", inbox2, 6, lambda: nc.publish(
                f"$JS.API.DIRECT.GET.{s}", json.dumps({"multi_last": [f"{s}.>"], "batch": 9}).encode(), reply=inbox2), wait=1, nc=nc)
        await c.req(f"purge {s} subject", f"STREAM.PURGE.{s}", {"filter": f"{s}.0"})
        await c.req(f"purge {s} keep", f"STREAM.PURGE.{s}", {"keep": 1})
        await c.req(f"purge {s} both", f"STREAM.PURGE.{s}", {"keep": 1, "seq": 2})
        await c.req(f"purge {s}", f"STREAM.PURGE.{s}")
        await c.settled(s, r - 1)
        await c.every(f"info {s} purged", f"STREAM.INFO.{s}")
        await c.req(f"seal {s}", f"STREAM.UPDATE.{s}", {**base, "max_msgs": 100, "sealed": True})
        await c.pub(f"pub sealed {s}", f"{s}.1")
        await c.req(f"step down {s}", f"STREAM.LEADER.STEPDOWN.{s}")
        await c.settled(s, r - 1)
        await c.req(f"step down {s} nobody", f"STREAM.LEADER.STEPDOWN.{s}", {"placement": {"preferred": "n9"}})
        await c.req(f"step down nothing", f"STREAM.LEADER.STEPDOWN.NOPE")
        await c.req(f"peer remove nobody", f"STREAM.PEER.REMOVE.{s}", {"peer": "n9"})
        await c.req(f"peer remove {s}", f"STREAM.PEER.REMOVE.{s}", b"")
        await c.req(f"delete with body {s}", f"STREAM.DELETE.{s}", {"a": 1})
        await c.req(f"delete {s}", f"STREAM.DELETE.{s}")
        await c.req(f"delete {s} again", f"STREAM.DELETE.{s}")
        await c.every(f"info gone {s}", f"STREAM.INFO.{s}")
        await c.every(f"direct gone {s}", f"$JS.API.DIRECT.GET.{s}", {"seq": 1})
        await c.every(f"get gone {s}", f"STREAM.MSG.GET.{s}", {"seq": 1})
        await c.every(f"purge gone {s}", f"STREAM.PURGE.{s}")
        await c.every(f"delmsg gone", f"STREAM.MSG.DELETE.{s}", {"seq": 1})
        await c.every(f"consumer gone", f"CONSUMER.INFO.{s}.c")
        await c.every(f"consumers gone", f"CONSUMER.LIST.{s}")
        await c.every(f"snapshot gone", f"STREAM.SNAPSHOT.{s}", {"deliver_subject": "x"})


async def lists(c):
    for i in range(12):
        await c.req("create", f"STREAM.CREATE.L{i:02}", {"name": f"L{i:02}", "subjects": [f"l.{i}"], "num_replicas": 3 if i % 2 else 1})
    for i in range(12):
        await c.settled(f"L{i:02}", 2 if i % 2 else 0)
    await c.every("names", "STREAM.NAMES")
    await c.every("names offset", "STREAM.NAMES", {"offset": 5})
    await c.every("names beyond", "STREAM.NAMES", {"offset": 50})
    await c.every("names subject", "STREAM.NAMES", {"subject": "l.3"})
    await c.every("list", "STREAM.LIST")
    await c.every("list offset", "STREAM.LIST", {"offset": 9})
    await c.every("list subject", "STREAM.LIST", {"subject": "l.1*"})
    await c.every("list subject", "STREAM.LIST", {"subject": "l.>"})
    for i in range(30):
        await c.req("consumer", f"CONSUMER.CREATE.L01.c{i:02}", consumer("L01", f"c{i:02}", durable_name=f"c{i:02}", ack_policy="explicit"), keep=False)
    for what in ("NAMES", "LIST"):
        await c.every(f"consumer {what}", f"CONSUMER.{what}.L01")
        await c.every(f"consumer {what} offset", f"CONSUMER.{what}.L01", {"offset": 25})
        await c.every(f"consumer {what} R1", f"CONSUMER.{what}.L02")
    await asyncio.sleep(0.5)
    await c.every("account", "INFO", drop=("api", "storage", "memory"))
    for i in range(12):
        await c.req("delete", f"STREAM.DELETE.L{i:02}")
    await c.every("names none", "STREAM.NAMES")
    await c.every("list none", "STREAM.LIST")


async def consumers(c):
    for r in (1, 3):
        s = f"C{r}"
        await c.req("create", f"STREAM.CREATE.{s}", {"name": s, "subjects": [f"{s}.>"], "num_replicas": r})
        await c.settled(s, r - 1)
        for i in range(20):
            await c.pub("pub", f"{s}.{i % 4}", f"m{i}".encode())
        pull = dict(durable_name="p", ack_policy="explicit", ack_wait=2 * SECOND, max_deliver=3)
        await c.req("create p", f"CONSUMER.CREATE.{s}.p", consumer(s, "p", **pull))
        await c.req("create p again", f"CONSUMER.CREATE.{s}.p", consumer(s, "p", **pull))
        await c.req("create p action", f"CONSUMER.CREATE.{s}.p", {**consumer(s, "p", **{**pull, "max_deliver": 4}), "action": "create"})
        await c.req("update q", f"CONSUMER.CREATE.{s}.q", {**consumer(s, "q", **{**pull, "durable_name": "q"}), "action": "update"})
        await c.req("old create", f"CONSUMER.DURABLE.CREATE.{s}.o", {"stream_name": s, "config": {"durable_name": "o", "ack_policy": "explicit"}})
        await c.req("ephemeral", f"CONSUMER.CREATE.{s}.e.{s}.1", consumer(s, "e", filter_subject=f"{s}.1", ack_policy="none", inactive_threshold=3600 * SECOND))
        await c.req("R1 of", f"CONSUMER.CREATE.{s}.r1", consumer(s, "r1", durable_name="r1", ack_policy="explicit", num_replicas=1))
        await c.req("R1 memory", f"CONSUMER.CREATE.{s}.r1m", consumer(s, "r1m", durable_name="r1m", ack_policy="explicit", num_replicas=1, mem_storage=True))
        await c.req("R5 of", f"CONSUMER.CREATE.{s}.r5", consumer(s, "r5", durable_name="r5", ack_policy="explicit", num_replicas=5))
        await c.req("bad filter", f"CONSUMER.CREATE.{s}.bf.{s}.1", consumer(s, "bf", filter_subject=f"{s}.2"))
        await c.req("filters", f"CONSUMER.CREATE.{s}.fs", consumer(s, "fs", filter_subjects=[f"{s}.1", f"{s}.2"], ack_policy="explicit", durable_name="fs"))
        await c.req("overlapping filters", f"CONSUMER.CREATE.{s}.fo", consumer(s, "fo", filter_subjects=[f"{s}.*", f"{s}.2"]))
        await c.req("no stream", f"CONSUMER.CREATE.NOPE.c", consumer("NOPE", "c"))
        await c.req("wrong stream", f"CONSUMER.CREATE.{s}.c", consumer("NOPE", "c"))
        await asyncio.sleep(0.3)
        for name in ("p", "o", "e", "r1", "r1m", "fs"):
            await c.every(f"info {name}", f"CONSUMER.INFO.{s}.{name}")
        await c.every("info none", f"CONSUMER.INFO.{s}.none")
        for at in range(3):
            await c.fetch(f"fetch 2 @{at}", s, "p", {"batch": 2, "expires": SECOND}, 2, at=at, ack=True)
        await c.fetch("fetch no wait", s, "p", {"batch": 30, "no_wait": True}, 30)
        await c.fetch("fetch none left", s, "p", {"batch": 3, "no_wait": True}, 3)
        await c.fetch("fetch expires", s, "p", {"batch": 30, "expires": SECOND // 2}, 30)
        await c.fetch("fetch heartbeat", s, "fs", {"batch": 30, "expires": SECOND, "idle_heartbeat": SECOND // 4}, 30)
        await c.fetch("fetch bad heartbeat", s, "fs", {"batch": 30, "expires": SECOND, "idle_heartbeat": SECOND}, 30)
        await c.fetch("fetch max bytes", s, "o", {"batch": 30, "expires": SECOND, "max_bytes": 300}, 30)
        await c.fetch("fetch max bytes small", s, "o", {"batch": 30, "expires": SECOND, "max_bytes": 2}, 30)
        await c.fetch("fetch bad", s, "o", b"{", 3)
        await c.fetch("fetch nak", s, "r1", {"batch": 1, "expires": SECOND}, 2, ack=b"-NAK")
        await c.fetch("fetch again", s, "r1", {"batch": 1, "expires": SECOND}, 1, ack=b"+TERM")
        await c.fetch("fetch progress", s, "r1", {"batch": 1, "expires": SECOND}, 1, ack=b"+WPI")
        await c.fetch("fetch next", s, "r1m", {"batch": 1, "expires": SECOND}, 1, ack=b"+ACK")
        for at in range(3):
            await c.fetch(f"fetch of nobody @{at}", s, "nobody", {"batch": 1, "expires": SECOND}, 1, at=at)
        await asyncio.sleep(0.3)
        for name in ("p", "o", "r1", "r1m", "fs"):
            await c.every(f"info {name} after", f"CONSUMER.INFO.{s}.{name}")
        await c.req("pause", f"CONSUMER.PAUSE.{s}.p", {"pause_until": "2099-01-01T00:00:00Z"})
        await c.every("info paused", f"CONSUMER.INFO.{s}.p")
        await c.req("resume", f"CONSUMER.PAUSE.{s}.p", b"")
        await c.req("pause none", f"CONSUMER.PAUSE.{s}.none", b"")
        await c.req("reset", f"CONSUMER.RESET.{s}.p", b"")
        await c.req("reset to", f"CONSUMER.RESET.{s}.p", {"seq": 5})
        await c.req("reset none", f"CONSUMER.RESET.{s}.none")
        await c.fetch("fetch behind reset", s, "p", {"batch": 2, "expires": SECOND}, 2)
        await c.req("unpin", f"CONSUMER.UNPIN.{s}.p", {"group": "g"})
        await c.req("unpin none", f"CONSUMER.UNPIN.{s}.none", {"group": "g"})
        await c.req("step down", f"CONSUMER.LEADER.STEPDOWN.{s}.p")
        await c.until(f"CONSUMER.INFO.{s}.p", lambda i: i["cluster"]["leader"])
        await c.req("step down none", f"CONSUMER.LEADER.STEPDOWN.{s}.none")
        await c.req("delete p", f"CONSUMER.DELETE.{s}.p")
        await c.req("delete p again", f"CONSUMER.DELETE.{s}.p")
        await c.req("delete stream", f"STREAM.DELETE.{s}")


async def push(c):
    for r in (1, 3):
        s = f"P{r}"
        await c.req("create", f"STREAM.CREATE.{s}", {"name": s, "subjects": [f"{s}.>"], "num_replicas": r})
        await c.settled(s, r - 1)
        for i in range(10):
            await c.pub("pub", f"{s}.{i % 2}", f"m{i}".encode())
        for at in range(3):
            nc = c.clients[at]
            for kind, config in {
                "plain": dict(ack_policy="explicit"),
                "none": dict(ack_policy="none"),
                "all": dict(ack_policy="all", max_ack_pending=4),
                "flow": dict(ack_policy="none", flow_control=True, idle_heartbeat=SECOND),
                "new": dict(ack_policy="none", deliver_policy="new"),
                "last": dict(ack_policy="none", deliver_policy="last"),
                "last per": dict(ack_policy="none", deliver_policy="last_per_subject", filter_subject=f"{s}.>"),
                "from": dict(ack_policy="none", deliver_policy="by_start_sequence", opt_start_seq=7),
                "headers": dict(ack_policy="none", headers_only=True),
                "limited": dict(ack_policy="none", rate_limit_bps=800000),
            }.items():
                name = f"{kind.replace(' ', '')}{at}"
                async def make():
                    await c.req(f"push {kind} create @{at}", f"CONSUMER.CREATE.{s}.{name}" + (f".{s}.>" if "filter_subject" in config else ""),
                                consumer(s, name, deliver_subject=f"d.{name}", **config))
                await c.collect(f"push {kind} @{at}", f"d.{name}", 10, make, wait=1.3 if kind == "flow" else 0.4, nc=nc, ack="ack" in kind or kind == "plain")
                await c.req(f"push {kind} info", f"CONSUMER.INFO.{s}.{name}", drop=("push_bound",))
                await c.req(f"push {kind} delete", f"CONSUMER.DELETE.{s}.{name}")
            async def make():
                await c.req("group create", f"CONSUMER.CREATE.{s}.g{at}", consumer(s, f"g{at}", deliver_subject=f"d.g{at}", deliver_group="g", ack_policy="explicit", durable_name=f"g{at}"))
            await c.collect(f"group @{at}", f"d.g{at}", 10, make, wait=0.5, nc=nc, ack=True, queue="g")
            await c.req(f"push bound", f"CONSUMER.INFO.{s}.g{at}")
            await c.req("pull of push", f"CONSUMER.MSG.NEXT.{s}.g{at}", {"batch": 1, "expires": SECOND}, wait=1)
        await c.req("delete", f"STREAM.DELETE.{s}")


async def groups(c):
    for r in (1, 3):
        s = f"G{r}"
        await c.req("create", f"STREAM.CREATE.{s}", {"name": s, "subjects": [f"{s}.>"], "num_replicas": r})
        await c.settled(s, r - 1)
        for i in range(10):
            await c.pub("pub", f"{s}.x", f"m{i}".encode())
        for policy, more in (("pinned_client", {"priority_timeout": 3 * SECOND}), ("overflow", {}), ("prioritized", {})):
            name = policy[:3]
            await c.req(f"create {policy}", f"CONSUMER.CREATE.{s}.{name}", consumer(s, name, durable_name=name, ack_policy="explicit", priority_groups=["g"], priority_policy=policy, **more))
            await c.req(f"info {policy}", f"CONSUMER.INFO.{s}.{name}")
            await c.fetch(f"{policy} no group", s, name, {"batch": 1, "expires": SECOND}, 1)
            await c.fetch(f"{policy} other group", s, name, {"batch": 1, "expires": SECOND, "group": "h"}, 1)
            await c.fetch(f"{policy} group", s, name, {"batch": 2, "expires": SECOND, "group": "g", "priority": 3}, 2, ack=True)
            await c.fetch(f"{policy} min pending", s, name, {"batch": 2, "expires": SECOND // 2, "group": "g", "min_pending": 3}, 2, ack=True)
            await c.fetch(f"{policy} min pending high", s, name, {"batch": 2, "expires": SECOND // 2, "group": "g", "min_pending": 300}, 2, ack=True)
            await c.fetch(f"{policy} wrong pin", s, name, {"batch": 2, "expires": SECOND // 2, "group": "g", "id": "nope"}, 2, ack=True)
            await c.req(f"unpin {policy}", f"CONSUMER.UNPIN.{s}.{name}", {"group": "g"})
            await c.req(f"unpin {policy} other", f"CONSUMER.UNPIN.{s}.{name}", {"group": "h"})
            await c.req(f"info {policy}", f"CONSUMER.INFO.{s}.{name}")
        await c.req("delete", f"STREAM.DELETE.{s}")


async def publishes(c):
    for r in (1, 3):
        s = f"B{r}"
        base = {"name": s, "subjects": [f"{s}.>"], "num_replicas": r, "allow_msg_ttl": True, "allow_rollup_hdrs": True,
                "allow_atomic": True, "allow_direct": True, "duplicate_window": 60 * SECOND}
        await c.req("create", f"STREAM.CREATE.{s}", base)
        await c.settled(s, r - 1)
        h = lambda **k: {n.replace("_", "-"): str(v) for n, v in k.items()}
        await c.pub("id", f"{s}.a", b"1", h(Nats_Msg_Id="a"))
        await c.pub("id again", f"{s}.a", b"1", h(Nats_Msg_Id="a"))
        await c.pub("id and expected", f"{s}.a", b"2", {"Nats-Msg-Id": "b", "Nats-Expected-Last-Subject-Sequence": "1"})
        await c.pub("id and expected again", f"{s}.a", b"2", {"Nats-Msg-Id": "b", "Nats-Expected-Last-Subject-Sequence": "1"})
        await c.pub("id and last again", f"{s}.a", b"2", {"Nats-Msg-Id": "b", "Nats-Expected-Last-Sequence": "1"})
        await c.pub("id and last id again", f"{s}.a", b"2", {"Nats-Msg-Id": "b", "Nats-Expected-Last-Msg-Id": "a"})
        await c.pub("id and stream again", f"{s}.a", b"2", {"Nats-Msg-Id": "b", "Nats-Expected-Stream": "zz"})
        await c.pub("last wrong", f"{s}.a", b"3", {"Nats-Expected-Last-Sequence": "9"})
        await c.pub("last subject wrong", f"{s}.a", b"3", {"Nats-Expected-Last-Subject-Sequence": "9"})
        await c.pub("last subject zero", f"{s}.new", b"3", {"Nats-Expected-Last-Subject-Sequence": "0"})
        await c.pub("last subject filter", f"{s}.new", b"3", {"Nats-Expected-Last-Subject-Sequence": "3", "Nats-Expected-Last-Subject-Sequence-Subject": f"{s}.>"})
        await c.pub("stream wrong", f"{s}.a", b"3", {"Nats-Expected-Stream": "zz"})
        await c.pub("ttl", f"{s}.t", b"t", {"Nats-TTL": "1s"})
        await c.pub("ttl bad", f"{s}.t", b"t", {"Nats-TTL": "x"})
        await c.pub("ttl short", f"{s}.t", b"t", {"Nats-TTL": "1ms"})
        await c.pub("rollup", f"{s}.a", b"r", {"Nats-Rollup": "sub"})
        await c.pub("rollup bad", f"{s}.a", b"r", {"Nats-Rollup": "x"})
        await c.pub("level", f"{s}.a", b"r", {"Nats-Required-Api-Level": "99"})
        await asyncio.sleep(2.2)
        await c.settled(s, r - 1)
        await c.every("info", f"STREAM.INFO.{s}", {"subjects_filter": ">", "deleted_details": True})
        nc = c.clients[0]
        for i, (kind, headers) in enumerate([
            ("batch 1", {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": "1"}),
            ("batch 2", {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": "2"}),
            ("batch end", {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "1"}),
            ("batch gap 1", {"Nats-Batch-Id": "v", "Nats-Batch-Sequence": "1"}),
            ("batch gap 3", {"Nats-Batch-Id": "v", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "1"}),
            ("batch unknown", {"Nats-Batch-Id": "w", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "1"}),
            ("batch id", {"Nats-Batch-Id": "y", "Nats-Batch-Sequence": "1", "Nats-Msg-Id": "a", "Nats-Batch-Commit": "1"}),
            ("batch eob", {"Nats-Batch-Id": "z", "Nats-Batch-Sequence": "1"}),
            ("batch eob end", {"Nats-Batch-Id": "z", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "eob"}),
        ]):
            await c.pub(kind, f"{s}.batch.{i}", b"b", headers, nc=nc)
        await c.settled(s, r - 1)
        await c.every("info batches", f"STREAM.INFO.{s}")
        for seq in range(1, 14):
            await c.req(f"get {seq}", f"STREAM.MSG.GET.{s}", {"seq": seq})
        # A replicated stream of nats-server 2.15.2 has no leader any more after this one.
        await c.pub("last id wrong", f"{s}.a", b"3", {"Nats-Expected-Last-Msg-Id": "zz"})
        await c.req("delete", f"STREAM.DELETE.{s}")
        t = f"T{r}"
        await c.req("create counter", f"STREAM.CREATE.{t}", {"name": t, "subjects": [f"{t}.>"], "num_replicas": r, "allow_msg_counter": True, "allow_direct": True})
        await c.settled(t, r - 1)
        for value in ("+1", "5", "-2", "x", ""):
            await c.pub(f"counter {value}", f"{t}.a", b"", {"Nats-Incr": value} if value else None)
        await c.settled(t, r - 1)
        await c.every("counter", f"$JS.API.DIRECT.GET.{t}.{t}.a")
        await c.req("delete", f"STREAM.DELETE.{t}")
        d = f"D{r}"
        await c.req("create schedules", f"STREAM.CREATE.{d}", {"name": d, "subjects": [f"{d}.>"], "num_replicas": r, "allow_msg_schedules": True, "allow_msg_ttl": True})
        await c.settled(d, r - 1)
        await c.pub("schedule bad", f"{d}.s.1", b"s", {"Nats-Schedule": "nope", "Nats-Schedule-Target": f"{d}.t"})
        await c.pub("schedule no target", f"{d}.s.1", b"s", {"Nats-Schedule": "@at 2020-01-01T00:00:00Z"})
        await c.pub("schedule", f"{d}.s.1", b"s", {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": f"{d}.t"})
        await c.pub("schedule every", f"{d}.s.2", b"s", {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": f"{d}.u"})
        await asyncio.sleep(1.6)
        await c.req("schedules", f"STREAM.MSG.GET.{d}", {"last_by_subj": f"{d}.t"})
        await c.req("delete", f"STREAM.DELETE.{d}")
        for retention in ("workqueue", "interest"):
            w = f"W{r}{retention[0]}"
            await c.req(f"create {retention}", f"STREAM.CREATE.{w}", {"name": w, "subjects": [f"{w}.>"], "num_replicas": r, "retention": retention, "discard": "new", "max_msgs": 5})
            await c.settled(w, r - 1)
            await c.req("consumer", f"CONSUMER.CREATE.{w}.c", consumer(w, "c", durable_name="c", ack_policy="explicit"))
            await c.req("second consumer", f"CONSUMER.CREATE.{w}.d", consumer(w, "d", durable_name="d", ack_policy="explicit"))
            for i in range(7):
                await c.pub(f"{retention} {i}", f"{w}.a")
            await c.fetch("take", w, "c", {"batch": 3, "expires": SECOND}, 3, ack=True)
            await asyncio.sleep(0.3)
            await c.settled(w, r - 1)
            await c.every("info", f"STREAM.INFO.{w}")
            await c.req("delete", f"STREAM.DELETE.{w}")


async def copies(c):
    for r in (1, 3):
        o, m, x = f"O{r}", f"M{r}", f"X{r}"
        await c.req("origin", f"STREAM.CREATE.{o}", {"name": o, "subjects": [f"{o}.>"], "num_replicas": r, "allow_direct": True})
        await c.settled(o, r - 1)
        for i in range(8):
            await c.pub("pub", f"{o}.{i % 2}", f"m{i}".encode())
        await c.req("mirror", f"STREAM.CREATE.{m}", {"name": m, "mirror": {"name": o}, "num_replicas": r, "mirror_direct": True, "allow_direct": True})
        await c.req("sources", f"STREAM.CREATE.{x}", {"name": x, "subjects": [f"{x}.>"], "num_replicas": r, "sources": [
            {"name": o, "subject_transforms": [{"src": f"{o}.0", "dest": f"{x}.zero"}]}]})
        await c.req("mirror and subjects", f"STREAM.CREATE.MM{r}", {"name": f"MM{r}", "subjects": ["zz"], "mirror": {"name": o}})
        await c.until(f"STREAM.INFO.{m}", lambda i: i["state"]["messages"] == 8)
        await c.until(f"STREAM.INFO.{x}", lambda i: i["state"]["messages"] == 4)
        await c.settled(m, r - 1)
        await c.settled(x, r - 1)
        await asyncio.sleep(1)
        await c.every("mirror info", f"STREAM.INFO.{m}")
        await c.every("source info", f"STREAM.INFO.{x}")
        await c.every("origin info", f"STREAM.INFO.{o}")
        await c.every("source msg", f"STREAM.MSG.GET.{x}", {"seq": 1})
        for at in range(3):
            nc = c.clients[at]
            inbox = nc.new_inbox()
            await c.collect(f"direct of mirrored @{at}", inbox, 3, lambda: nc.publish(f"$JS.API.DIRECT.GET.{o}.{o}.1", b"", reply=inbox), wait=0.5, nc=nc)
        await c.pub("pub to mirror", f"{m}.a")
        await c.req("consumers of origin", f"CONSUMER.NAMES.{o}")
        await c.req("promote", f"STREAM.UPDATE.{m}", {"name": m, "subjects": [f"{m}.>"], "num_replicas": r, "mirror_direct": False, "allow_direct": True})
        await c.pub("pub to promoted", f"{m}.a")
        for name in (m, x, o):
            await c.req("delete", f"STREAM.DELETE.{name}")
        p = f"R{r}"
        await c.req("republish", f"STREAM.CREATE.{p}", {"name": p, "subjects": [f"{p}.>"], "num_replicas": r, "republish": {"src": f"{p}.*", "dest": f"re{p}.{{{{wildcard(1)}}}}"},
                                                        "subject_transform": {"src": f"{p}.in.*", "dest": f"{p}.{{{{wildcard(1)}}}}"}})
        await c.settled(p, r - 1)
        for at in range(3):
            async def act():
                await c.pub("pub", f"{p}.a", b"1")
                await c.pub("pub", f"{p}.in.b", b"1")
            await c.collect(f"republished @{at}", f"re{p}.>", 3, act, wait=0.5, nc=c.clients[at])
        await c.req("delete", f"STREAM.DELETE.{p}")


async def buckets(c):
    for at in range(3):
        nc = c.clients[at]
        js = nc.jetstream()
        name = f"kv{at}"
        try:
            kv = await js.create_key_value(bucket=name, history=3, replicas=3)
            log = [await kv.put("a", b"1"), await kv.update("a", b"2", 1), await kv.create("b", b"3")]
            for bad in (lambda: kv.update("a", b"2", 1), lambda: kv.create("b", b"3"), lambda: kv.get("none")):
                try:
                    log.append(await bad())
                except Exception as error:
                    log.append(type(error).__name__ + " " + normal(str(error)))
            await c.settled(f"KV_{name}")
            log.append((await kv.get("a")).value.decode())
            log.append(await kv.delete("a"))
            await kv.purge("b")
            log.append(sorted(e.operation or "PUT" for e in await kv.history("a")))
            status = await kv.status()
            log.append([status.values, status.history, status.ttl])
            watcher = await kv.watchall()
            seen = []
            async for entry in watcher:
                if entry is None:
                    break
                seen.append([entry.key, entry.operation])
            await watcher.stop()
            log.append(seen)
        except Exception as error:
            log = [repr(error)]
        c.note(f"kv @{at}", log)
        await c.req("kv stream", f"STREAM.INFO.KV_{name}")
        try:
            store = await js.create_object_store(bucket=f"ob{at}", config=nats.js.api.ObjectStoreConfig(replicas=3))
            info = await store.put("big", b"y" * 300_000)
            got = await store.get("big")
            log = [info.size, info.chunks, hashlib.sha256(got.data).hexdigest(), [e.name for e in await store.list()]]
            await store.delete("big")
        except Exception as error:
            log = [repr(error)]
        c.note(f"objects @{at}", log)
        await c.req("object stream", f"STREAM.INFO.OBJ_ob{at}", drop=("state",))
        await c.req("delete", f"STREAM.DELETE.KV_{name}")
        await c.req("delete", f"STREAM.DELETE.OBJ_ob{at}")


async def backups(c):
    for r in (1, 3):
        s = f"K{r}"
        config = {"name": s, "subjects": [f"{s}.>"], "num_replicas": r}
        await c.req("create", f"STREAM.CREATE.{s}", config)
        await c.settled(s, r - 1)
        for i in range(10):
            await c.pub("pub", f"{s}.a", f"m{i}".encode())
        await c.req("consumer", f"CONSUMER.CREATE.{s}.c", consumer(s, "c", durable_name="c", ack_policy="explicit"))
        await c.fetch("take", s, "c", {"batch": 3, "expires": SECOND}, 3, ack=True)
        await c.req("no subject", f"STREAM.SNAPSHOT.{s}", {})
        await c.req("cycle", f"STREAM.SNAPSHOT.{s}", {"deliver_subject": f"{s}.x"})
        for at in range(3):
            nc = c.clients[at]
            inbox = nc.new_inbox()
            sub = await nc.subscribe(inbox)
            await nc.flush()
            answer = await c.req(f"snapshot @{at}", f"STREAM.SNAPSHOT.{s}", {"deliver_subject": inbox, "chunk_size": 4096}, nc=nc, drop=("state",))
            chunks = []
            while True:
                try:
                    msg = await sub.next_msg(timeout=2)
                except Exception:
                    chunks.append(None)
                    break
                if msg.reply:
                    await nc.publish(msg.reply, b"")
                if not msg.data:
                    c.note(f"snapshot end @{at}", {k: normal(v, k) for k, v in (msg.headers or {}).items()})
                    break
                chunks.append(msg.data)
            await sub.unsubscribe()
            c.note(f"snapshot whole @{at}", None not in chunks and len(chunks) > 0)
        await c.req("restore taken", f"STREAM.RESTORE.{s}", {"config": config, "state": {}})
        await c.req("delete", f"STREAM.DELETE.{s}")
        await asyncio.sleep(0.3)
        nc = c.clients[r - 1]
        answer = await c.ask(nc, f"$JS.API.STREAM.RESTORE.{s}", json.dumps({"config": config, "state": {"messages": 10, "bytes": 0, "first_seq": 1, "last_seq": 10}}).encode())
        if not isinstance(answer, Msg):
            c.note("restore", answer)
            continue
        first = json.loads(answer.data)
        c.note("restore", normal({k: v for k, v in first.items() if k != "deliver_subject"}))
        if "deliver_subject" in first and None not in chunks:
            for chunk in chunks:
                await c.ask(nc, first["deliver_subject"], chunk)
            end = await c.ask(nc, first["deliver_subject"], b"", wait=10)
            out = shown(end, False) if isinstance(end, Msg) else end
            if isinstance(out, dict) and isinstance(out["body"], dict):
                out["body"].pop("cluster", None)
                (out["body"].get("config") or {}).pop("num_replicas", None)
            c.note("restored", out)
            await c.settled(s, r - 1)
            await c.every("restored info", f"STREAM.INFO.{s}")
            await c.every("restored consumer", f"CONSUMER.INFO.{s}.c")
            await c.fetch("restored fetch", s, "c", {"batch": 2, "expires": SECOND}, 2, ack=True)
        await c.req("delete", f"STREAM.DELETE.{s}")


async def limits(c):
    nc = c.limited
    await c.req("info", "INFO", nc=nc)
    for i, r in ((1, 1), (2, 3)):
        await c.req(f"create R{r}", f"STREAM.CREATE.Q{i}", {"name": f"Q{i}", "subjects": [f"q{i}.>"], "num_replicas": r}, nc=nc)
    await c.req("create reserved", "STREAM.CREATE.Q3", {"name": "Q3", "subjects": ["q3.>"], "num_replicas": 3, "max_bytes": 500_000}, nc=nc)
    await c.req("create reserved", "STREAM.CREATE.Q3", {"name": "Q3", "subjects": ["q3.>"], "num_replicas": 3, "max_bytes": 200_000}, nc=nc)
    await c.req("one too many", "STREAM.CREATE.Q4", {"name": "Q4", "subjects": ["q4.>"]}, nc=nc)
    for i in range(5):
        await c.req(f"consumer {i}", f"CONSUMER.CREATE.Q2.c{i}", consumer("Q2", f"c{i}", durable_name=f"c{i}", ack_policy="explicit"), nc=nc)
    for i in range(12):
        await c.pub(f"pub big {i}", "q2.a", b"z" * 40_000, nc=nc)
    await asyncio.sleep(2.5)
    await c.req("info", "INFO", nc=nc, drop=("api",))
    await c.req("delete", "STREAM.DELETE.Q3", nc=nc)
    await c.req("peer evacuate", "STREAM.PEER.EVACUATE.Q2", {"peer": "n9"}, nc=nc)
    for i in (1, 2):
        await c.req("delete", f"STREAM.DELETE.Q{i}", nc=nc)
    await asyncio.sleep(1)
    await c.req("info after", "INFO", nc=nc, drop=("api",))


async def system(c):
    for at, nc in enumerate(c.system):
        for subject in ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.A9", "ACCOUNT.STREAM.MOVE.A.NOPE", "ACCOUNT.STREAM.CANCEL_MOVE.A.NOPE", "INFO", "STREAM.NAMES"):
            if subject == "META.LEADER.STEPDOWN":
                await c.req(f"sys {subject} preferred nobody @{at}", subject, {"placement": {"preferred": "n9"}}, nc=nc, wait=1.5)
            body = {"server": "n9"} if "MOVE" in subject else None
            if subject == "SERVER.REMOVE":
                body = {"peer": "n9"}
            await c.req(f"sys {subject} @{at}", subject, body, nc=nc, wait=1.5)
            if subject == "META.LEADER.STEPDOWN":
                await asyncio.sleep(2.5)
                await c.until("INFO", lambda i: "error" not in i)
    for subject in ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.A", "STREAM.NONSENSE", "NONSENSE", "STREAM.INFO", "CONSUMER.INFO.S"):
        await c.req(f"account {subject}", subject, None, wait=1.5)


async def faults(c):
    """A server of three is away, then two are."""
    await c.req("create", "STREAM.CREATE.F3", {"name": "F3", "subjects": ["F3.>"], "num_replicas": 3, "allow_direct": True})
    await c.settled("F3")
    await c.pub("pub", "F3.a", b"1")
    await c.req("consumer", "CONSUMER.CREATE.F3.c", consumer("F3", "c", durable_name="c", ack_policy="explicit"))
    for at in range(3):
        await c.req("R1", f"STREAM.CREATE.F1{at}", {"name": f"F1{at}", "subjects": [f"F1{at}"], "placement": {"tags": [f"az:{at}"]}})
    await asyncio.sleep(1)
    c.procs[2].kill()
    c.procs[2].wait()
    c.clients, away = c.clients[:2], c.clients[2]
    c.turn = 0
    original = c.req
    async def at_two(*args, **kwargs):
        return await original(*args, **{"nc": c.clients[c.turn % 2], **kwargs})
    c.req = at_two
    await asyncio.sleep(6)
    await c.every("R1 offline", "STREAM.INFO.F12")
    await c.every("R3", "STREAM.INFO.F3")
    await c.every("names", "STREAM.NAMES")
    await c.every("list", "STREAM.LIST")
    await c.req("create R3", "STREAM.CREATE.FN", {"name": "FN", "subjects": ["FN"], "num_replicas": 3})
    await c.req("create R1", "STREAM.CREATE.FM", {"name": "FM", "subjects": ["FM"]})
    await c.req("delete R1 offline", "STREAM.DELETE.F12")
    for at, nc in enumerate(c.clients):
        await c.pub(f"pub @{at}", "F3.a", b"2", nc=nc)
    c.procs[1].kill()
    c.procs[1].wait()
    c.clients = c.clients[:1]
    async def at_one(*args, **kwargs):
        return await original(*args, **{**kwargs, "nc": c.clients[0], "wait": 2})
    c.req = at_one
    await asyncio.sleep(13)
    for what in ("INFO", "STREAM.INFO.F3", "STREAM.NAMES", "STREAM.LIST", "CONSUMER.INFO.F3.c", "CONSUMER.NAMES.F3", "STREAM.CREATE.F9", "STREAM.PURGE.F3", "STREAM.DELETE.F3", "STREAM.INFO.F10", "STREAM.INFO.NOPE"):
        body = {"name": "F9", "subjects": ["F9"]} if "CREATE" in what else None
        await c.req(f"alone {what}", what, body)
    await c.pub("alone pub R3", "F3.a", nc=c.clients[0])
    await c.pub("alone pub R1", "F10", nc=c.clients[0])
    await c.req("alone direct", "$JS.API.DIRECT.GET.F3.F3.a")
    await c.fetch("alone fetch", "F3", "c", {"batch": 1, "expires": SECOND}, 1, at=0)
    c.clients.append(away)


SCENES = [streams, lists, consumers, push, groups, publishes, copies, buckets, backups, limits, system, faults]


async def play(program, folder, only):
    c = Cluster(program, folder)
    logs = {}
    try:
        await c.begin()
        for scene in SCENES:
            if only and scene.__name__ not in only:
                continue
            c.log = []
            try:
                await scene(c)
            except Exception as error:
                import traceback
                c.note("the scene ended", traceback.format_exc()[-600:])
            logs[scene.__name__] = c.log
    finally:
        await c.end()
    return logs


def differences(ours, theirs, path=""):
    """Where two values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}, key=str):
            here, there = ours.get(key, "absent"), theirs.get(key, "absent")
            yield from differences(here, there, f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (one, other) in enumerate(zip(ours, theirs)):
            yield from differences(one, other, f"{path}[{at}]")
    elif ours != theirs:
        yield path, ours, theirs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("reference")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", default="")
    args = parser.parse_args()
    only = args.only.split(",") if args.only else []
    folder = args.keep or tempfile.mkdtemp()
    played = []
    for which, program in (("ours", args.server), ("theirs", args.reference)):
        place = f"{folder}/{which}"
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        copy = shutil.copy(program, f"{place}/server")
        played.append(asyncio.run(play(copy, place, only)))
        with open(f"{folder}/{which}.json", "w") as f:
            json.dump(played[-1], f, indent=1, default=str)
    compared = differing = 0
    for scene in played[0]:
        ours, theirs = played[0][scene], played[1][scene]
        labels = [[label for label, _ in log] for log in (ours, theirs)]
        blocks = difflib.SequenceMatcher(None, *labels, autojunk=False).get_matching_blocks()
        pairs = [(ours[a + i], theirs[b + i]) for a, b, size in blocks for i in range(size)]
        for side, log, kept in (("ours", ours, [one for one, _ in pairs]), ("theirs", theirs, [one for _, one in pairs])):
            for step in log:
                if not any(step is one for one in kept):
                    differing += 1
                    print(f"{scene}: only {side}: {step[0]}: {json.dumps(step[1], default=str)[:200]}")
        for (label, one), (_, other) in pairs:
            compared += 1
            found = list(differences(one, other))
            differing += bool(found)
            for path, here, there in found[:4]:
                print(f"{scene}: {label}: {path}: {json.dumps(here, default=str)[:300]} | {json.dumps(there, default=str)[:300]}")
    print(f"{compared} answers compared, {differing} differ")
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
