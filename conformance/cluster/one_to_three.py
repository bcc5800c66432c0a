#!/usr/bin/env python3
"""One server with a store becomes three, under load, as docs/migration.md says: one_to_three.py SERVER.

Needs nats-py (python.sh installs it). Prints what it sees; every "True" has to be one, and the numbers equal.
"""
import asyncio
import json
import subprocess
import sys
import tempfile
import time

import nats

B = sys.argv[1]
D = tempfile.mkdtemp()
P = {1: 24221, 2: 24222, 3: 24223}
def conf(n, cluster):
    routes = ", ".join(f'"nats://127.0.0.1:{26220+i}"' for i in (1, 2, 3))
    c = f'cluster {{ name: C1, listen: "127.0.0.1:{26220+n}", routes: [{routes}] }}' if cluster else ""
    open(f"{D}/n{n}.conf", "w").write(f'server_name: n{n}\nlisten: "127.0.0.1:{P[n]}"\nhttp: "127.0.0.1:{28220+n}"\njetstream {{ store_dir: "{D}/n{n}" }}\n{c}\naccounts {{ A {{ users: [{{user: a, password: a}}], jetstream: enabled }}\n $SYS {{ users: [{{user: admin, password: admin}}] }} }}\nno_auth_user: a\n')
procs = {}
def up(n):
    procs[n] = subprocess.Popen([B, "-c", f"{D}/n{n}.conf"], stderr=open(f"{D}/n{n}.log", "a"))
def down(n, sig=15):
    procs[n].send_signal(sig); procs[n].wait(30)
async def nop(*a): pass
async def con(n):
    for _ in range(200):
        try: return await nats.connect(f"nats://127.0.0.1:{P[n]}", error_cb=nop, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        except Exception: await asyncio.sleep(0.1)
async def ask(nc, s, b=None, t=2):
    end = time.time() + 30
    while time.time() < end:
        try:
            r = json.loads((await nc.request("$JS.API." + s, json.dumps(b).encode() if b else b"", timeout=t)).data)
            if r.get("error", {}).get("err_code") != 10008: return r
        except Exception: pass
        await asyncio.sleep(0.1)
    return None
def short(r, *ks): return {k: r.get(k) for k in ks} if r else r
async def main():
    conf(1, False); up(1)
    nc = await con(1); js = nc.jetstream()
    print("single", short(await ask(nc, "INFO"), "streams"))
    r = await ask(nc, "STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
    await ask(nc, "STREAM.CREATE.MEM", {"name": "MEM", "subjects": ["mem.>"], "storage": "memory"})
    await ask(nc, "STREAM.CREATE.COPY", {"name": "COPY", "mirror": {"name": "ORDERS"}})
    kv = await js.create_key_value(bucket="kv", history=3); 
    for i in range(50): await kv.put(f"k{i%5}", str(i).encode())
    ob = await js.create_object_store(bucket="ob"); await ob.put("x", b"z" * 300000)
    await ask(nc, "CONSUMER.CREATE.ORDERS.c", {"stream_name": "ORDERS", "config": {"durable_name": "c", "name": "c", "ack_policy": "explicit", "ack_wait": 5 * 10**9}})
    acked = []; stop = False; errors = []
    async def pub():
        i = 0
        pc = await con(1); pj = pc.jetstream()
        while not stop:
            for attempt in range(200):
                try:
                    a = await pj.publish("orders.x", str(i).encode(), headers={"Nats-Msg-Id": str(i)}, timeout=1); acked.append((i, a.seq)); break
                except Exception as e:
                    errors.append(repr(e)); await asyncio.sleep(0.1)
            i += 1
            await asyncio.sleep(0.005)
    task = asyncio.create_task(pub())
    await asyncio.sleep(2)
    sub = await js.pull_subscribe("", durable="c", stream="ORDERS")
    got = await sub.fetch(40, timeout=2)
    for m in got: await m.ack_sync()
    before = {n: await ask(nc, f"STREAM.INFO.{n}") for n in ("ORDERS", "COPY", "KV_kv", "OBJ_ob")}
    cb = await ask(nc, "CONSUMER.INFO.ORDERS.c")
    # restart with a cluster block
    down(1); conf(1, True); up(1)
    for n in (2, 3): conf(n, True); up(n)
    nc2 = await con(2)
    t = time.time(); await ask(nc2, "INFO"); print("cluster answers after", round(time.time() - t, 1))
    t = time.time()
    for _ in range(100):
        r = await ask(nc2, "STREAM.NAMES")
        if r and len(r.get("streams") or []) >= 4: break
        await asyncio.sleep(0.1)
    print("names", r.get("streams"), round(time.time() - t, 1))
    for n, b in before.items():
        a = await ask(nc2, f"STREAM.INFO.{n}")
        same = a["created"] == b["created"] and a["state"]["first_seq"] == b["state"]["first_seq"] and a["config"] == b["config"]
        print(n, same, a["state"]["messages"] - b["state"]["messages"], a.get("cluster"), a.get("mirror"))
        if a["config"] != b["config"]: print({k: (a["config"].get(k), b["config"].get(k)) for k in {*a["config"], *b["config"]} if a["config"].get(k) != b["config"].get(k)})
    ca = await ask(nc2, "CONSUMER.INFO.ORDERS.c")
    print("consumer", ca["created"] == cb["created"], ca["ack_floor"], cb["ack_floor"], ca.get("cluster"))
    for n in before:
        c = (await ask(nc2, f"STREAM.INFO.{n}"))["config"]
        r = await ask(nc2, f"STREAM.UPDATE.{n}", {**c, "num_replicas": 3})
        print("scaled", n, r.get("error"))
    for n in before:
        for _ in range(300):
            i = await ask(nc2, f"STREAM.INFO.{n}")
            reps = i["cluster"].get("replicas") or []
            if len(reps) == 2 and all(x["current"] and not x.get("pending") for x in reps): break
            await asyncio.sleep(0.1)
        print(n, "replicas", len(reps), all(x["current"] for x in reps))
    await asyncio.sleep(1); stop = True; await task
    i = await ask(nc2, "STREAM.INFO.ORDERS")
    seqs = [s for _, s in acked]
    print("acked", len(acked), "in order", seqs == sorted(seqs), "messages", i["state"]["messages"], "errors", len(errors), set(errors))
    sub2 = await nc2.jetstream().pull_subscribe("", durable="c", stream="ORDERS")
    m = (await sub2.fetch(1, timeout=3))[0]; print("next of consumer", m.metadata.sequence.stream, "expected", 41)
    down(1, 9)
    i = await ask(nc2, "STREAM.INFO.ORDERS"); print("without n1:", i["state"]["messages"], i["cluster"]["leader"])
    g = await (await nc2.jetstream().key_value("kv")).get("k4"); print("kv", g.value)
    o = await (await nc2.jetstream().object_store("ob")).get("x"); print("object", len(o.data))
    # taken names: a single server with a stream of the same name joins anew
    for n in (2, 3):
        down(n)
asyncio.run(main())
for n in procs:
    if procs[n].poll() is None: procs[n].kill()
