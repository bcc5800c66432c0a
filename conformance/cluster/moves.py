#!/usr/bin/env python3
"""Plays moves, scales and removals of replicas to two clusters of six servers and prints what they answer differently.

    moves.py SERVER REFERENCE [--only WORDS] [--keep FOLDER]

As differences.py, with servers n1 to n3 tagged cloud:a and n4 to n6 tagged cloud:b. Servers are paused (SIGSTOP) to hold
a change under way.
"""
import asyncio
import json
import os
import re
import signal

import differences
from differences import Msg, consumer

SIZE = 6


class Cluster(differences.Cluster):
    size = SIZE

    def tags(self, at):
        return f'"cloud:{"a" if at < 3 else "b"}", "node:{at + 1}"'

    def signal(self, which, *numbers):
        """Pauses servers or has them go on; those that are paused are not asked."""
        self.paused = set(numbers) if which == signal.SIGSTOP else set()
        for number in numbers:
            os.kill(self.procs[number - 1].pid, which)

    paused = set()

    async def ask(self, nc, *args, **kwargs):
        if nc in [self.clients[number - 1] for number in self.paused]:
            nc = self.clients[0]
        return await super().ask(nc, *args, **kwargs)

    async def info(self, stream):
        self.turn += 1
        answer = await self.ask(self.clients[self.turn % self.size], f"$JS.API.STREAM.INFO.{stream}", b"", wait=1)
        return json.loads(answer.data) if isinstance(answer, Msg) else {}

    async def quiet(self, stream, others, among=None):
        """Waits until no change is under way and all replicas have all there is; notes where it is."""
        cluster = {}
        for _ in range(400):
            cluster = (await self.info(stream)).get("cluster") or {}
            replicas = cluster.get("replicas") or []
            names = {one["name"] for one in replicas} | {cluster.get("leader")}
            if cluster.get("leader") and len(replicas) == others and all(r["current"] for r in replicas) \
                    and "desired" not in cluster and (among is None or names <= set(among)):
                return cluster
            await asyncio.sleep(0.05)
        self.note(f"waited in vain for {stream}", cluster)
        return cluster

    async def meta_at(self, name):
        """Has a server lead the meta group."""
        for _ in range(20):
            answer = await self.ask(self.system[0], "$JS.API.META.LEADER.STEPDOWN",
                                    json.dumps({"placement": {"preferred": name}}).encode(), wait=2)
            if isinstance(answer, Msg) and b"already leader" in answer.data:
                return
            await asyncio.sleep(0.5)

    async def published(self, subject, count):
        for at in range(count):
            await self.pub(f"published {at}", subject, b"x")


A, B = ["n1", "n2", "n3"], ["n4", "n5", "n6"]


def placed(name, replicas, tags, **config):
    return {"name": name, "subjects": [f"{name}.>"], "num_replicas": replicas, "placement": {"tags": tags}, **config}


async def moves(c):
    """From one cloud to another by an update."""
    for r in (1, 3):
        s = f"M{r}"
        await c.req(f"create {s}", f"STREAM.CREATE.{s}", placed(s, r, ["cloud:a"]))
        await c.quiet(s, r - 1, A)
        await c.req(f"consumer {s}", f"CONSUMER.CREATE.{s}.c", consumer(s, "c", ack_policy="explicit", durable_name="c"))
        await c.published(f"{s}.a", 5)
        await c.req(f"move {s}", f"STREAM.UPDATE.{s}", placed(s, r, ["cloud:b"]), keep=False)
        await c.quiet(s, r - 1, B)
        await c.req(f"info {s}", f"STREAM.INFO.{s}")
        await c.published(f"{s}.a", 2)
        await c.fetch(f"fetch {s}", s, "c", {"batch": 7, "expires": 2 * 10 ** 9})
        await c.req(f"moved to a place that is not there {s}", f"STREAM.UPDATE.{s}", placed(s, r, ["cloud:c"]))
        await c.req(f"moved and scaled {s}", f"STREAM.UPDATE.{s}", placed(s, 5 if r == 3 else 3, ["cloud:a"]))
        await c.req(f"moved and retained {s}", f"STREAM.UPDATE.{s}", placed(s, r, ["cloud:a"], retention="interest"))
        other = placed(s, r, ["cloud:b"])
        other["placement"]["cluster"] = "C9"
        await c.req(f"moved to another cluster {s}", f"STREAM.UPDATE.{s}", other)
        other["placement"] = {"tags": ["cloud:a"], "preferred": "n2"}
        await c.req(f"moved with somebody preferred {s}", f"STREAM.UPDATE.{s}", other, keep=r == 1)
        await c.req(f"placement taken away {s}", f"STREAM.UPDATE.{s}", {k: v for k, v in placed(s, r, []).items() if k != "placement"},
                    keep=False)
        await c.req(f"nothing to cancel {s}", f"STREAM.CANCEL_MOVE.{s}", wait=12)
    await c.req("cancel of none", "STREAM.CANCEL_MOVE.NONE")
    await c.req("cancel with a body", "STREAM.CANCEL_MOVE.M3", {"a": 1}, keep=False)


async def held(c):
    """What is refused, shown and cancelled while a move is under way: to servers that are paused."""
    s, plain = "H", {"name": "H", "subjects": ["H.>"], "num_replicas": 3}
    await c.meta_at("n1")
    await c.req("create", f"STREAM.CREATE.{s}", placed(s, 3, ["cloud:a"]), keep=False)
    await c.quiet(s, 2, A)
    await c.req("consumer", f"CONSUMER.CREATE.{s}.c", consumer(s, "c", ack_policy="explicit", durable_name="c"))
    await c.req("placement taken away", f"STREAM.UPDATE.{s}", plain)
    await c.published(f"{s}.a", 3)
    # The move is to the one of cloud:b that runs, and then to one that does not.
    c.signal(signal.SIGSTOP, 5, 6)
    try:
        for at in range(2):
            await c.req("moved", f"ACCOUNT.STREAM.MOVE.A.{s}", {"server": A[at]}, nc=c.system[0], keep=at == 9)
            await asyncio.sleep(3 if at == 0 else 0.5)
        await c.req("info", f"STREAM.INFO.{s}", drop=("cluster",))
        await c.req("moved again", f"STREAM.UPDATE.{s}", placed(s, 3, ["cloud:a"]), keep=False)
        await c.pub("published meanwhile", f"{s}.a")
    finally:
        c.signal(signal.SIGCONT, 5, 6)
    await c.quiet(s, 2)
    await c.req("info afterwards", f"STREAM.INFO.{s}", drop=("config",))
    await c.req("cancel afterwards", f"STREAM.CANCEL_MOVE.{s}")
    await c.pub("published afterwards", f"{s}.a")


async def refused(c):
    """What is refused, shown and cancelled while a move is under way: all servers that it could go to are paused."""
    s, plain = "I", {"name": "I", "subjects": ["I.>"], "num_replicas": 4}
    await c.meta_at("n1")
    await c.req("create", f"STREAM.CREATE.{s}", {**plain, "placement": {"tags": ["!node:5", "!node:6"]}}, keep=False)
    await c.quiet(s, 3)
    await c.req("placement taken away", f"STREAM.UPDATE.{s}", plain, keep=False)
    await c.published(f"{s}.a", 3)
    c.signal(signal.SIGSTOP, 5, 6)
    try:
        await c.req("moved", f"ACCOUNT.STREAM.MOVE.A.{s}", {"server": "n4"}, nc=c.system[0], drop=("cluster",))
        away = ["!node:1"]
        await c.req("moved again", f"STREAM.UPDATE.{s}", {**plain, "placement": {"tags": away}})
        await c.req("scaled", f"STREAM.UPDATE.{s}", {**plain, "num_replicas": 1})
        await c.req("moved and scaled", f"STREAM.UPDATE.{s}", {**plain, "num_replicas": 1, "placement": {"tags": away}})
        await c.req("retained", f"STREAM.UPDATE.{s}", {**plain, "retention": "interest"})
        await c.req("other update", f"STREAM.UPDATE.{s}", {**plain, "max_msgs": 1000}, drop=("cluster",))
        await c.pub("published meanwhile", f"{s}.a")
        out = await c.req("cancel", f"STREAM.CANCEL_MOVE.{s}", keep=False)
        if isinstance(out, dict):
            # How far it has come is each its own.
            (out["body"].get("cluster") or {}).pop("replicas", None)
            ((out["body"].get("cluster") or {}).get("desired") or {}).pop("status", None)
        c.note("cancel", out)
    finally:
        c.signal(signal.SIGCONT, 5, 6)
    await c.quiet(s, 3, A + ["n4"])
    await c.req("info afterwards", f"STREAM.INFO.{s}")
    await c.req("cancel afterwards", f"STREAM.CANCEL_MOVE.{s}")
    await c.pub("published afterwards", f"{s}.a")


async def scales(c):
    """Scales that follow each other before the first is through."""
    s = "K"
    config = {"name": s, "subjects": [f"{s}.>"]}
    await c.req("create", f"STREAM.CREATE.{s}", {**config, "num_replicas": 1})
    await c.published(f"{s}.a", 3)
    for replicas in (3, 5, 1):
        await c.req(f"scale to {replicas}", f"STREAM.UPDATE.{s}", {**config, "num_replicas": replicas}, drop=("cluster",))
    await c.quiet(s, 0)
    await c.req("info afterwards", f"STREAM.INFO.{s}")
    await c.pub("published afterwards", f"{s}.a")
    await c.req("too many", f"STREAM.UPDATE.{s}", {**config, "num_replicas": 6})
    for replicas in (5, 3):
        await c.req(f"scale to {replicas}", f"STREAM.UPDATE.{s}", {**config, "num_replicas": replicas}, drop=("cluster",))
        await c.quiet(s, replicas - 1)
    await c.req("info of three", f"STREAM.INFO.{s}")


async def peers(c):
    """Peers are removed and evacuated, of streams and consumers."""
    s = "P"
    await c.req("create", f"STREAM.CREATE.{s}", placed(s, 2, ["cloud:a"]))
    await c.quiet(s, 1, A)
    await c.req("consumer", f"CONSUMER.CREATE.{s}.c", consumer(s, "c", ack_policy="explicit", durable_name="c"))
    await c.req("single consumer", f"CONSUMER.CREATE.{s}.d", consumer(s, "d", ack_policy="explicit", durable_name="d", num_replicas=1))
    for kind in ("STREAM.PEER.REMOVE.P", "STREAM.PEER.EVACUATE.P", "CONSUMER.PEER.REMOVE.P.c", "CONSUMER.PEER.EVACUATE.P.c"):
        await c.req(f"{kind} without a body", f"{kind}")
        await c.req(f"{kind} no JSON", f"{kind}", b"{")
        await c.req(f"{kind} empty", f"{kind}", {"peer": ""})
        await c.req(f"{kind} strange", f"{kind}", {"peer": "n9"})
        await c.req(f"{kind} of nothing", kind.replace(".P.c", ".NONE.c").removesuffix(".P") + ("" if kind.startswith("C") else ".NONE"), {"peer": "n1"})
    await c.req("consumer that is none", "CONSUMER.PEER.REMOVE.P.x", {"peer": "n1"})
    for kind in ("REMOVE", "EVACUATE"):
        cluster = await c.quiet(s, 1, A)
        await c.req(f"{kind} of the leader", f"STREAM.PEER.{kind}.P", {"peer": cluster["leader"]})
        await c.quiet(s, 1, A)
        await c.req(f"info behind {kind}", f"STREAM.INFO.{s}")
    # All of cloud:a have one: nobody else suits.
    t = "Q"
    await c.req("create three", f"STREAM.CREATE.{t}", placed(t, 3, ["cloud:a"]))
    await c.quiet(t, 2, A)
    await c.req("consumer of three", f"CONSUMER.CREATE.{t}.c", consumer(t, "c", ack_policy="explicit", durable_name="c"))
    for kind in ("REMOVE", "EVACUATE"):
        await c.req(f"{kind} without another", f"STREAM.PEER.{kind}.Q", {"peer": "n1"})
        await c.req(f"{kind} of a consumer without another", f"CONSUMER.PEER.{kind}.Q.c", {"peer": "n1"})
    await c.req("info of three", f"STREAM.INFO.{t}")


async def system(c):
    """What the system account asks."""
    s, nc = "Y", c.system[1]
    await c.req("create", f"STREAM.CREATE.{s}", placed(s, 1, ["cloud:a"]))
    await c.quiet(s, 0, A)
    await c.published(f"{s}.a", 3)
    move, cancel = "ACCOUNT.STREAM.MOVE", "ACCOUNT.STREAM.CANCEL_MOVE"
    await c.req("move of no account", f"{move}.NONE.{s}", {}, nc=nc)
    await c.req("move of no stream", f"{move}.A.NONE", {}, nc=nc)
    await c.req("move from no server", f"{move}.A.{s}", {"server": "n9"}, nc=nc)
    await c.req("move from another server", f"{move}.A.{s}", {"server": "n6"}, nc=nc)
    await c.req("move to tags that are not there", f"{move}.A.{s}", {"tags": ["cloud:z"]}, nc=nc)
    await c.req("move no JSON", f"{move}.A.{s}", b"{", nc=nc)
    await c.req("cancel of no account", f"{cancel}.NONE.{s}", nc=nc)
    await c.req("cancel of no stream", f"{cancel}.A.NONE", nc=nc)
    await c.req("cancel of nothing", f"{cancel}.A.{s}", nc=nc)
    before = await c.quiet(s, 0, A)
    leader = before["leader"]
    await c.req("move", f"{move}.A.{s}", {"server": leader}, nc=nc, keep=False)
    after = await c.quiet(s, 0, [n for n in A if n != leader])
    c.note("moved", after.get("leader") != leader)
    await c.req("as another account", f"{move}.A.{s}", {}, nc=c.limited, wait=1)
    await c.req("as the account", f"{move}.A.{s}", {}, wait=1, drop=("cluster",))
    await c.quiet(s, 0, A)
    await c.req("cancel as the account", f"{cancel}.A.{s}", {}, wait=1)
    await c.req("info", f"STREAM.INFO.{s}")
    for body in (None, b"{", {}, {"quorum_needed": 0}, {"quorum_needed": 5}, {"quorum_needed": 1}):
        inbox = nc.new_inbox()
        sub = await nc.subscribe(inbox)
        await nc.publish("$JS.API.META.RESCUE", c.encode(body), reply=inbox)
        got = []
        while len(got) < SIZE:
            try:
                got.append(re.sub(r'"N\w{55}"|"n[1-6]"', '"N"', (await sub.next_msg(timeout=1.5)).data.decode()))
            except Exception:
                break
        await sub.unsubscribe()
        c.note(f"rescue {body}", sorted(got))


differences.Cluster = Cluster
differences.SCENES = [moves, held, refused, scales, peers, system]

if __name__ == "__main__":
    differences.main()
