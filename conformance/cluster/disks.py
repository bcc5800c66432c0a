#!/usr/bin/env python3
"""Three servers with a replicated stream under load, of which some have a disk that is full, slow or failing for a while:

    disks.py SERVER [--keep FOLDER] [--cases follower,leader,meta,two,all] [--lasts SECONDS] [--always]

Each server has a small file system in memory of its own, so that root runs this. In each case the disk of a follower of the
stream, of its leader, of the meta leader, of two servers or of all three is filled to the last byte, and a while later what
filled it is removed. Says what clients and operators see meanwhile, and how long it takes until all is well again. Ends
with an error where the stream does not go on with one full disk, where a server does not say what is wrong, where not
all is well within a minute, or where a message that was acknowledged is missing, there twice, or another on one replica.
With nats-server for SERVER it says what becomes of that. A case may be slow:WHO (each sync takes half a second), unsynced:WHO
(syncs fail) or unwritten:WHO (writes fail), by strace; a server that has ended is started when that is over.
"""
import argparse, collections, json, os, re, signal, subprocess, threading, time, urllib.request

import damaged
from damaged import Member, STREAM, current
from superclusters import Publisher, ask, end, fault, options_of, until

DISK = "600m"
SYNCS = "fdatasync,fsync"
HARMS = {"slow": (SYNCS, "delay_exit=500000"), "unsynced": (SYNCS, "error=EIO"), "unwritten": ("pwrite64,pwritev,pwritev2", "error=EIO")}
PATIENCE = 60


class Noting(Publisher):
    """Large enough messages that what streams have allocated is soon used up."""
    size, pause = 16000, 0.005


class SmallDisk(Member):
    always = False

    def configure(self, servers):
        super().configure(servers)
        if SmallDisk.always:
            with open(f"{self.folder}/{self.name}.conf") as file:
                text = file.read().replace("jetstream { ", "jetstream { sync_interval: always, ")
            with open(f"{self.folder}/{self.name}.conf", "w") as file:
                file.write(text)

    def mount(self):
        self.disk = f"{self.folder}/{self.name}"
        os.makedirs(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk], check=True)

    def harm(self, kind):
        self.tracer = None
        if kind == "full":
            return self.fill()
        calls, what = HARMS[kind]
        line = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{what}", "-p", str(self.proc.pid)]
        self.tracer = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def heal(self, kind):
        if kind == "full":
            self.free()
        else:
            self.tracer.send_signal(signal.SIGINT)
            self.tracer.wait()
        if self.proc.poll() is not None:
            say(f"{self.name} had ended with {self.proc.returncode}")
            self.start()

    def fill(self):
        with open(f"{self.disk}/ballast", "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 20)) == 1 << 20:
                    pass
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def free(self):
        os.remove(f"{self.disk}/ballast")

    def log(self, since):
        with open(f"{self.folder}/{self.name}.log", errors="replace") as file:
            return file.read()[since:]

    def log_size(self):
        return len(self.log(0))

    def page_of(self, path):
        return page(self.page, path)

    def last(self):
        """Last sequence of the stream as this replica has it."""
        accounts = self.page_of("jsz?accounts=1&streams=1").get("account_details") or []
        return [stream["state"]["last_seq"] for one in accounts for stream in one.get("stream_detail") or [] if stream["name"] == "S"]


def page(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=3) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError):
        return {}


def add_options(parser):
    parser.add_argument("--cases", default="follower,leader,meta,two,all")
    parser.add_argument("--lasts", type=float, default=15, help="seconds for which a disk is full")
    parser.add_argument("--always", action="store_true", help="with sync_interval: always")
    parser.add_argument("--logs", action="store_true", help="show what servers have logged")
    parser.add_argument("--judge", action=argparse.BooleanOptionalAction, default=True)


def known_meta_leader(servers):
    return next(filter(None, (one.page_of("jsz").get("meta_cluster", {}).get("leader") for one in servers)), None)


def meta_leader(servers):
    return until("a meta leader", lambda: known_meta_leader(servers))


def leader(servers):
    return until("a leader", lambda: (ask(servers, "STREAM.INFO.S").get("cluster") or {}).get("leader"))


def victims_of(case, servers):
    """The servers whose disks are to be full."""
    meta = meta_leader(servers)
    apart = lambda: (lambda now: now != meta and now)(leader(servers)) or ask(servers, "STREAM.LEADER.STEPDOWN.S") and None
    lead = until("another one leads the stream than the cluster", apart)
    named = {"follower": [one for one in servers if one.name not in (meta, lead)], "leader": [one for one in servers if one.name == lead],
             "meta": [one for one in servers if one.name == meta], "two": [one for one in servers if one.name != meta], "all": servers}
    return lead, meta, named[case]


def say(words):
    print(f"  {words}", flush=True)


def watch(case, servers, victims, publisher, seconds):
    """What is seen while disks are full."""
    began, told, before, api = time.monotonic(), {}, publisher.count, None
    publisher.longest, publisher.refusals = 0, {}
    threading.Thread(target=call_api, args=(case, servers, api := []), daemon=True).start()
    counts = []
    while (passed := time.monotonic() - began) < seconds:
        for one in victims:
            said = one.health()
            if said and one.name not in told:
                told[one.name] = (passed, said.replace("\n", " ")[:300])
        counts.append(publisher.count)
        time.sleep(0.2)
    late = publisher.count - counts[len(counts) // 2]
    pause = max(publisher.longest, time.monotonic() - publisher.since)
    say(f"acknowledged meanwhile: {publisher.count - before}, {late} of them in the second half; longest pause {pause:.1f} s; refusals {publisher.refusals}")
    for one in victims:
        say(f"/healthz of {one.name}: " + ("ok all the time" if one.name not in told else "not ok after %.1f s: %s" % told[one.name]))
    say(f"API: {'; '.join(api)}")
    say(f"leaders: of the stream {(ask(servers, 'STREAM.INFO.S').get('cluster') or {}).get('leader')}, of the cluster {known_meta_leader(servers)}")
    return late, told


def call_api(case, servers, said):
    for what, subject, body in [("stream", f"STREAM.CREATE.T-{case}", dict(STREAM, name=f"T-{case}", subjects=[f"t.{case}"])),
                                ("consumer", "CONSUMER.DURABLE.CREATE.S." + case, {"stream_name": "S", "config": {"durable_name": case, "ack_policy": "explicit"}})]:
        began, first = time.monotonic(), None
        while time.monotonic() - began < PATIENCE:
            answer = ask(servers, subject, body)
            first = first or answer.get("error")
            if "config" in answer:
                break
            time.sleep(0.2)
        said.append(f"a {what} after {time.monotonic() - began:.1f} s" + (f", first {first}" if first else ""))


def is_well(servers):
    lasts = [one.last() for one in servers]
    return len(current(servers)) == 3 and not any(one.health() for one in servers) and lasts[0] and max(lasts)[0] - min(lasts)[0] < 500


def play(servers, options, publisher):
    for case in options.cases.split(","):
        kind, who = case.split(":") if ":" in case else ("full", case)
        case = f"{kind}-{who}"
        lead, meta, victims = victims_of(who, servers)
        print(f"{case}: {', '.join(one.name for one in victims)}; {lead} leads the stream, {meta} the cluster", flush=True)
        logs = {one.name: one.log_size() for one in servers}
        before = publisher.count
        until("it is published", lambda: publisher.count > before + 200)
        [one.harm(kind) for one in victims]
        late, told = watch(case, servers, victims, publisher, options.lasts)
        began, before = time.monotonic(), publisher.count
        [one.heal(kind) for one in victims]
        publishes = takes(lambda: publisher.count > before)
        well = takes(lambda: is_well(servers))
        same = takes(lambda: publisher.count > before + 100 and is_well(servers))
        say(f"over: published after {publishes}, all well after {well}, and still when it has gone on ({same})")
        if options.logs:
            for one in servers:
                lines = [line.split("] ", 1)[-1] for line in one.log(logs[one.name]).splitlines() if "[INF]" not in line and "[DBG]" not in line]
                for line, count in collections.Counter(re.sub(r"^\S+ \S+ ", "", line) for line in lines).most_common(12):
                    say(f"{one.name} x{count}: {line[:230]}")
        if options.judge:
            if len(victims) == 1 and kind == "full" and not late:
                fault("the stream does not go on")
            if kind == "full" and set(told) != {one.name for one in victims}:
                fault(f"not all say that they are not well: {told}")
            if well is None:
                fault("not all is well within a minute")
    publisher.over = True
    publisher.join()
    damaged.check(servers, publisher.count)


def takes(look):
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if look():
            return f"{time.monotonic() - began:.1f} s"
        time.sleep(0.1)
    return None


def main():
    options, folder = options_of(__doc__, add_options)
    SmallDisk.always = options.always
    servers = [SmallDisk(options.server, folder, "n", number) for number in (1, 2, 3)]
    for one in servers:
        one.mount()
        one.configure(servers)
        one.start()
    try:
        until("a stream", lambda: "config" in ask(servers, "STREAM.CREATE.S", STREAM))
        publisher = Noting("A", servers)
        publisher.start()
        play(servers, options, publisher)
    except SystemExit:
        print(f"refusals {publisher.refusals}, {ask(servers, 'STREAM.INFO.S')}", [one.page_of("raftz?acc=$G") for one in servers])
        raise
    finally:
        for one in servers:
            one.kill()
            subprocess.run(["umount", "-l", one.disk])
        end(servers, options, folder)


if __name__ == "__main__":
    main()
