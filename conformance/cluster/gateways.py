#!/usr/bin/env python3
"""Three clusters of one server each, joined by gateways, with both servers in every place, and the official command line:

    gateways.py SERVER REFERENCE [--only MIXES] [--msgs N] [--requests N] [--cuts N]

`nats bench` publishes from each cluster to the two others and asks services of another one; then gateways are cut and come
back, one pair after the other, while each cluster serves itself and one asks the two others; then all of it again. A letter
of MIXES (`smm,mss`) is a server: m for SERVER, s for REFERENCE. It prints what `nats bench` measured, and ends with
`N passed, N failed`."""
import argparse, json, os, re, shutil, socket, subprocess, sys, tempfile, threading, time, urllib.request

NAMES = "ABC"
DEADLINE = 60


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Door:
    """The way to one server's port for other clusters. It reads who dials, for clusters tell each other the addresses that
    they know: what is between two clusters can be cut, and nothing else."""

    def __init__(self, name, target):
        self.name, self.target, self.cut, self.open = name, target, set(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.carry, args=(far, near, False), daemon=True).start()

    def carry(self, one, other, is_dialler):
        head = b""
        try:
            while data := one.recv(1 << 16):
                if is_dialler and head is not None:
                    head += data
                    if found := re.search(rb'"gateway":"(\w+)"', head):
                        head, dialler = None, found[1].decode()
                        self.open.append((dialler, one, other))
                        if dialler in self.cut:
                            break
                other.sendall(data)
        except OSError:
            pass
        self.close(one, other)

    @staticmethod
    def close(*ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def set(self, dialler, is_cut):
        (self.cut.add if is_cut else self.cut.discard)(dialler)
        if is_cut:
            for _, one, other in [link for link in self.open if link[0] == dialler]:
                self.close(one, other)
            self.open = [link for link in self.open if link[0] != dialler]


class SuperCluster:
    def __init__(self, programs):
        self.folder = tempfile.mkdtemp(prefix="gateways")
        self.clients, self.pages, gateways = ([free_port() for _ in NAMES] for _ in range(3))
        self.doors = [Door(name, port) for name, port in zip(NAMES, gateways)]
        self.children = []
        for at, program in enumerate(programs):
            remotes = ", ".join(
                f'{{ name: {door.name}, url: "nats://127.0.0.1:{door.port}" }}' for door in self.doors if door.name != NAMES[at]
            )
            text = f"""server_name: {NAMES[at]}1
listen: "127.0.0.1:{self.clients[at]}"
http: "127.0.0.1:{self.pages[at]}"
accounts {{ $SYS {{ users: [ {{ user: sys, password: sys }} ] }} }}
gateway {{ name: {NAMES[at]}, listen: "127.0.0.1:{gateways[at]}", advertise: "127.0.0.1:{self.doors[at].port}", gateways: [ {remotes} ] }}
"""
            path = os.path.join(self.folder, f"{NAMES[at]}.conf")
            with open(path, "w") as file:
                file.write(text)
            log = open(os.path.join(self.folder, f"{NAMES[at]}.log"), "w")
            self.children.append(subprocess.Popen([program, "-c", path], stdout=log, stderr=log))

    def page(self, at, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.pages[at]}{path}", timeout=5) as answer:
            return json.load(answer)

    def is_joined(self):
        for at in range(3):
            page = self.page(at, "/gatewayz")
            others = sorted(set(NAMES) - {NAMES[at]})
            if [sorted(page[way] or {}) for way in ("outbound_gateways", "inbound_gateways")] != [others, others]:
                return False
        return True

    def hears(self, at, of, subject):
        page = self.page(at, "/gatewayz?acc_name=$G&subs=1")
        accounts = page["outbound_gateways"].get(NAMES[of], {}).get("accounts") or [{}]
        return subject in accounts[0].get("subscriptions_list", [])

    def cut(self, a, b, is_cut):
        self.doors[a].set(NAMES[b], is_cut)
        self.doors[b].set(NAMES[a], is_cut)

    def nats(self, at, *words):
        words = ["nats", "--no-context", "-s", f"nats://127.0.0.1:{self.clients[at]}", *words]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
        for door in self.doors:
            door.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def eventually(what, check):
    end = time.time() + DEADLINE
    while time.time() < end:
        try:
            if check():
                return
        except (OSError, KeyError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"not in time: {what}")


def finish(child, what):
    """The rate of a benchmark that has to come to its end without an error."""
    try:
        said, _ = child.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        child.kill()
        raise AssertionError(f"{what} does not end: {child.communicate()[0][-500:]}") from None
    found = re.findall(r"([\d,]+) msgs/sec", said)
    assert child.returncode == 0 and found, f"{what}: {said[-500:]}"
    return found[0]


def publish(these, at, msgs):
    """From one cluster to the two others: everything comes."""
    subject = f"bench.{at}"
    others = [to for to in range(3) if to != at]
    subs = [these.nats(to, "bench", "sub", subject, f"--msgs={msgs}", "--no-progress") for to in others]
    for to in others:
        eventually("interest", lambda to=to: these.hears(at, to, subject))
    rate = finish(these.nats(at, "bench", "pub", subject, f"--msgs={msgs}", "--no-progress"), "bench pub")
    return f"pub {rate}/s, sub " + " and ".join(finish(sub, "bench sub") for sub in subs) + "/s"


def ask(these, at, of, requests):
    """A service of another cluster answers."""
    serves = [these.nats(to, "bench", "service", "serve", "svc.bench", "--no-progress") for to in of]
    try:
        for to in of:
            eventually("the service", lambda to=to: these.hears(at, to, "svc.bench"))
        asks = these.nats(at, "bench", "service", "request", "svc.bench", f"--msgs={requests}", "--no-progress")
        return f"{finish(asks, 'bench service request')}/s"
    finally:
        for one in serves:
            one.terminate()
            one.wait()


class Asker(threading.Thread):
    """Asks in one cluster what the two others serve, one request after the other."""

    def __init__(self, port, subject):
        super().__init__(daemon=True)
        self.socket, self.subject = socket.create_connection(("127.0.0.1", port)), subject
        self.counts, self.stops, self.headers = {"answered": 0, "refused": 0, "lost": 0, "doubled": 0}, False, b""
        self.answers = {}

    def run(self):
        lines = self.socket.makefile("rb")
        self.socket.settimeout(0.5)
        say = lambda text: self.socket.sendall(text.encode())
        say('CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB inbox.* 1\r\n')
        turn = 0
        while not self.stops:
            turn += 1
            say(f"PUB {self.subject} inbox.{turn} 1\r\n?\r\n")
            outcome = "lost"
            end = time.time() + 1
            while outcome == "lost" and time.time() < end:
                try:
                    line = lines.readline().decode()
                except OSError:
                    lines = self.socket.makefile("rb")
                    continue
                if line.startswith("PING"):
                    say("PONG\r\n")
                if f" inbox.{turn} " in line or line.startswith(("MSG", "HMSG")):
                    body = lines.read(int(line.split()[-1]) + 2)
                    subject = line.split()[1]
                    self.answers[subject] = self.answers.get(subject, 0) + 1
                    self.counts["doubled"] += self.answers[subject] == 2
                    if subject == f"inbox.{turn}":
                        outcome = "refused" if body.startswith(b"NATS/1.0 503") else "answered"
                        if line.startswith("HMSG"):
                            self.headers = body
            self.counts[outcome] += 1


def trouble(these, options):
    """Gateways are cut and come back, while each cluster serves itself and one asks the others."""
    home = [these.nats(at, "bench", "service", "serve", f"home.{at}", "--no-progress") for at in range(3)]
    there = [these.nats(to, "bench", "service", "serve", "there", "--no-progress") for to in (1, 2)]
    for to in (1, 2):
        eventually("the services", lambda to=to: these.hears(0, to, "there") and these.hears(0, to, f"home.{to}"))
    asker = Asker(these.clients[0], "there")
    asker.start()
    def bench(at):
        return these.nats(at, "bench", "service", "request", f"home.{at}", f"--msgs={options.requests}", "--no-progress")

    over, rates = threading.Event(), [[], [], []]

    def serve_home(at):
        """Asks at home, again and again, until the cuts are over."""
        while not over.is_set() or not rates[at]:
            try:
                rates[at].append(finish(bench(at), "bench service request at home"))
            except AssertionError as why:
                rates[at].append(why)
                return

    askers = [threading.Thread(target=serve_home, args=(at,), daemon=True) for at in range(3)]
    for one in askers:
        one.start()
    try:
        for turn in range(options.cuts):
            a, b = [(0, 1), (1, 2), (0, 2)][turn % 3]
            these.cut(a, b, True)
            time.sleep(0.7)
            these.cut(a, b, False)
            eventually("gateways come back", these.is_joined)
        over.set()
        for one in askers:
            one.join()
        for rate in sum(rates, []):
            assert not isinstance(rate, AssertionError), rate
        asker.stops = True
        asker.join()
        before = dict(asker.counts)
        again = Asker(these.clients[0], "there")
        again.start()
        time.sleep(1)
        again.stops = True
        again.join()
        assert again.counts["answered"] > 0 and sum(again.counts.values()) == again.counts["answered"], again.counts
        # One request is under way at a time: a cut and its end may lose it, and no others.
        assert before["answered"] > 0 and before["lost"] + before["refused"] <= 2 * options.cuts, (before, asker.headers)
        assert before["doubled"] == 0, before
        return f"{options.cuts} cuts; at home {', '.join(one[0] for one in rates)}/s; to the others {before}, afterwards {again.counts}"
    finally:
        over.set()
        asker.stops = True
        for one in home + there:
            one.terminate()
            one.wait()


def report(these):
    """`nats server report gateways` shows each way between two clusters, in and out."""
    asks = these.nats(0, "--user", "sys", "--password", "sys", "server", "report", "gateways", "3")
    said, _ = asks.communicate(timeout=DEADLINE)
    rows = [line for line in said.splitlines() if re.search(r"gid:\d+", line)]
    assert asks.returncode == 0 and len(rows) == 12, said
    return f"{len(rows)} rows"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("server")
    options.add_argument("reference")
    options.add_argument("--only", default="mmm,smm,msm,mms,ssm,sms,mss")
    options.add_argument("--msgs", type=int, default=200_000)
    options.add_argument("--requests", type=int, default=10_000)
    options.add_argument("--cuts", type=int, default=6)
    options = options.parse_args()
    passed = failed = 0
    for mix in options.only.split(","):
        these = SuperCluster([options.server if letter == "m" else options.reference for letter in mix])
        steps = [("joined", lambda: eventually("all clusters are joined", these.is_joined))]
        for when in ("", " again"):
            steps += [
                (f"publish from {NAMES[at]}{when}", lambda at=at: publish(these, at, options.msgs)) for at in range(3)
            ]
            steps += [
                (f"ask from {NAMES[at]}{when}", lambda at=at: ask(these, at, [(at + 1) % 3], options.requests))
                for at in range(3)
            ]
            if not when:
                steps.append(("cut and come back", lambda: trouble(these, options)))
        steps.append(("report", lambda: report(these)))
        try:
            for name, step in steps:
                try:
                    print(f"{mix} {name}: {step() or 'yes'}", flush=True)
                    passed += 1
                except AssertionError as why:
                    print(f"{mix} {name}: FAILED {why}", flush=True)
                    failed += 1
                    if name == "joined":
                        break
        finally:
            these.end()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
