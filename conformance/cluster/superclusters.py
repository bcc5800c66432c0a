#!/usr/bin/env python3
"""JetStream over two clusters of three servers that gateways join, under load and trouble:

    superclusters.py SERVER [--rounds N] [--seed N] [--keep FOLDER]

A client of each cluster publishes to one stream, each message until it is acknowledged. In each round the stream moves to
the other cluster while one server is killed and comes back, or all servers of one cluster stand still or are killed, or
the move is called off. A mirror stays in the second cluster. Ends with an error where a move does not come to its end,
where a publisher waits for longer than it should, or where a message that was acknowledged is missing or there twice.
"""
import argparse, base64, json, os, random, shutil, signal, socket, subprocess, tempfile, threading, time

PATIENCE = 90
CLUSTERS = "AB"
CONFIG = """server_name: {name}
listen: "127.0.0.1:{client}"
http: "127.0.0.1:{page}"
log_file: "{folder}/{name}.log"
jetstream {{ store_dir: "{folder}/{name}" }}
accounts {{ SYS {{ users: [{{user: admin, password: admin}}] }}, APP {{ jetstream: enabled, users: [{{user: app, password: app}}] }} }}
system_account: SYS
no_auth_user: app
cluster {{ name: {cluster}, listen: "127.0.0.1:{route}", routes: [{routes}] }}
gateway {{ name: {cluster}, listen: "127.0.0.1:{gateway}", gateways: [{gateways}] }}
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    [one.close() for one in sockets]
    return ports


class Server:
    def __init__(self, program, folder, cluster, number):
        self.program, self.folder, self.cluster, self.name = program, folder, cluster, f"{cluster}{number}"
        self.client, self.page, self.route, self.gateway = free_ports(4)
        self.proc = None

    def configure(self, servers):
        routes = ", ".join(f'"nats://127.0.0.1:{one.route}"' for one in servers if one.cluster == self.cluster)
        urls = lambda name: ", ".join(f'"nats://127.0.0.1:{one.gateway}"' for one in servers if one.cluster == name)
        gateways = ", ".join(f"{{ name: {name}, urls: [{urls(name)}] }}" for name in CLUSTERS)
        with open(f"{self.folder}/{self.name}.conf", "w") as file:
            file.write(CONFIG.format(routes=routes, gateways=gateways, **vars(self)))

    def start(self):
        null = subprocess.DEVNULL
        self.proc = subprocess.Popen([self.program, "-c", f"{self.folder}/{self.name}.conf"], stdout=null, stderr=null)

    def kill(self):
        self.proc.kill()
        self.proc.wait()


class Client:
    """The least of a client: requests, one after the other."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=3)
        self.file = self.socket.makefile("rb")
        self.asked = 0
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB in.%d.* 1\r\n' % id(self))

    def request(self, subject, payload, headers=b""):
        """The answer; nothing where nobody is there."""
        self.asked += 1
        reply, head = b"in.%d.%d" % (id(self), self.asked), b"NATS/1.0\r\n" + headers + b"\r\n"
        line = b"HPUB %s %s %d %d\r\n" % (subject.encode(), reply, len(head), len(head) + len(payload))
        self.socket.sendall(line + head + payload + b"\r\n")
        while True:
            line = self.file.readline()
            if not line:
                raise OSError("closed")
            words = line.split()
            if words[0] == b"PING":
                self.socket.sendall(b"PONG\r\n")
            if words[0] not in (b"MSG", b"HMSG"):
                continue
            body = self.file.read(int(words[-1]) + 2)[:-2]
            if words[1] == reply:
                return body[int(words[-2]):] if words[0] == b"HMSG" else body


class Publisher(threading.Thread):
    """Publishes each number until it is acknowledged, by whichever server of its cluster there is."""
    size, pause = 0, 0

    def __init__(self, name, servers):
        super().__init__(daemon=True)
        self.name, self.servers, self.count, self.over, self.longest = name, servers, 0, False, 0
        self.since, self.refusals = time.monotonic(), {}

    def run(self):
        at, client = 0, None
        while not self.over:
            try:
                client = client or Client(self.servers[at].client)
                number = b"%d" % self.count
                header = b"Nats-Msg-Id: %s-%s\r\n" % (self.name.encode(), number)
                answer = client.request(f"orders.{self.name}", number.ljust(self.size), header)
                if b'"seq"' in answer and b'"error"' not in answer:
                    self.count += 1
                    now = time.monotonic()
                    self.longest, self.since = max(self.longest, now - self.since), now
                    time.sleep(self.pause)
                else:
                    said = json.loads(answer)["error"]["description"] if answer else "nobody"
                    self.refusals[said] = self.refusals.get(said, 0) + 1
                    time.sleep(0.02)
            except OSError:
                client, at = None, (at + 1) % len(self.servers)
                time.sleep(0.02)


class Reader:
    """Gets messages of a stream. Nothing goes on any more, so that each request has to be answered."""

    def __init__(self, port, stream):
        self.port, self.stream, self.client = port, stream, Client(port)

    def get(self, seq):
        try:
            return self.client.request(f"$JS.API.STREAM.MSG.GET.{self.stream}", b'{"seq":%d}' % seq)
        except OSError as error:
            print(f"{time.strftime('%H:%M:%S')} {self.stream} {seq}: {error}", flush=True)
            self.client = Client(self.port)
            return None


def ask(servers, subject, body=None):
    """The answer of whoever is there."""
    for one in random.sample(servers, len(servers)):
        try:
            answer = Client(one.client).request(f"$JS.API.{subject}", json.dumps(body).encode() if body else b"")
            if answer:
                return json.loads(answer)
        except (OSError, ValueError):
            pass
    return {}


class Site:
    def __init__(self, program, folder):
        self.servers = [Server(program, folder, cluster, number) for cluster in CLUSTERS for number in (1, 2, 3)]
        for one in self.servers:
            one.configure(self.servers)
            one.start()

    def of(self, cluster):
        return [one for one in self.servers if one.cluster == cluster]

    def ask(self, subject, body=None):
        return ask(self.servers, subject, body)

    def info(self, stream):
        return self.ask(f"STREAM.INFO.{stream}")

    def place(self, stream):
        """Cluster and servers of a stream, when nothing is under way and all of them have all of it."""
        cluster = self.info(stream).get("cluster") or {}
        replicas = cluster.get("replicas") or []
        if not cluster.get("leader") or cluster.get("desired") or not all(one["current"] for one in replicas):
            return None
        return cluster["name"], sorted([cluster["leader"], *(one["name"] for one in replicas)])


def until(words, look):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    raise SystemExit(f"not within {PATIENCE} s: {words}")


def create(site, config):
    def attempt():
        answer = site.ask(f"STREAM.CREATE.{config['name']}", config)
        return "config" in answer or answer.get("error", {}).get("err_code") == 10058
    until(f"stream {config['name']}", attempt)


def config_of(cluster):
    return {"name": "ORDERS", "subjects": ["orders.>"], "num_replicas": 3, "placement": {"cluster": cluster},
            "retention": "limits", "storage": "file"}


def move(site, cluster):
    def attempt():
        answer = site.ask("STREAM.UPDATE.ORDERS", config_of(cluster))
        return "config" in answer or answer.get("error", {}).get("err_code") == 10124
    until(f"a move to {cluster} is accepted", attempt)


def trouble(site, target, dice):
    """Does something to servers while the stream moves; answers where it is to be in the end, and what was done."""
    kind = dice.choice(["kill", "kill", "kill", "stop", "cancel", "blackout", "nothing"])
    if kind == "kill":
        one = dice.choice(site.servers)
        time.sleep(dice.random())
        one.kill()
        time.sleep(dice.random() * 3)
        one.start()
        kind += " " + one.name
    elif kind in ("stop", "blackout"):
        cluster = dice.choice(CLUSTERS)
        time.sleep(dice.random())
        for one in site.of(cluster):
            one.kill() if kind == "blackout" else one.proc.send_signal(signal.SIGSTOP)
        time.sleep(dice.random() * 6)
        for one in site.of(cluster):
            one.start() if kind == "blackout" else one.proc.send_signal(signal.SIGCONT)
        kind += " of " + cluster
    elif kind == "cancel":
        time.sleep(dice.random() / 2)
        if "error" not in site.ask("STREAM.CANCEL_MOVE.ORDERS"):
            target = None
    return target, kind


def play(site, rounds, dice):
    create(site, config_of("A"))
    create(site, {"name": "COPY", "mirror": {"name": "ORDERS"}, "num_replicas": 3, "placement": {"cluster": "B"}})
    until("the stream is in A", lambda: (site.place("ORDERS") or ("",))[0] == "A")
    publishers = [Publisher(name, site.of(name)) for name in CLUSTERS]
    [one.start() for one in publishers]
    for number in range(rounds):
        here = until("the stream is somewhere", lambda: site.place("ORDERS"))[0]
        target = "B" if here == "A" else "A"
        began = time.monotonic()
        move(site, target)
        target, what = trouble(site, target, dice)
        is_there = lambda: (lambda found: found and len(found[1]) == 3 and (not target or found[0] == target))(site.place("ORDERS"))
        until(f"the stream has moved from {here} to {target}", is_there)
        counts = [one.count for one in publishers]
        until("both publish", lambda: all(one.count > before for one, before in zip(publishers, counts)))
        longest, took = [round(one.longest, 1) for one in publishers], time.monotonic() - began
        for one in publishers:
            one.longest = 0
        said = f"{what}: {here} to {target}" if target else f"{what}: stays or moves"
        print(f"{number + 1:3} {said}, {took:.1f} s; longest pause {longest[0]} s, {longest[1]} s; {sum(counts)} acknowledged", flush=True)
    for one in publishers:
        one.over = True
        one.join()
    sent = sum(one.count for one in publishers)
    ask = lambda stream: site.info(stream).get("state", {})
    # The last one of each may have been stored, and its acknowledgement not awaited.
    until("the mirror has all", lambda: sent <= ask("COPY").get("messages", 0) == ask("ORDERS").get("messages", -1))
    check(site, publishers)


def check(site, publishers):
    """Each number is there once, in its order, in the stream and in its mirror."""
    for stream in ("ORDERS", "COPY"):
        state = site.info(stream)["state"]
        next_of = {one.name: 0 for one in publishers}
        reader = Reader(site.servers[0].client, stream)
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            answer = json.loads(until(f"message {seq} of {stream}", lambda: reader.get(seq)))
            message = answer.get("message") or fault(f"{stream} {seq}: {answer}")
            name, number = message["subject"][-1], int(base64.b64decode(message["data"]))
            if number != next_of[name]:
                fault(f"{stream} {seq}: {name} {number}, and {next_of[name]} is expected")
            next_of[name] += 1
        print(f"{stream}: {next_of}")
        if any(not one.count <= next_of[one.name] <= one.count + 1 for one in publishers):
            fault(f"acknowledged: {[one.count for one in publishers]}")


def fault(words):
    raise SystemExit(words)


def options_of(words, more=lambda parser: None):
    """What the command line says, and the folder for what servers keep."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep")
    more(parser)
    options = parser.parse_args()
    folder = options.keep or tempfile.mkdtemp(prefix="cluster")
    os.makedirs(folder, exist_ok=True)
    print(f"seed {options.seed}")
    return options, folder


def end(servers, options, folder):
    for one in servers:
        one.proc.send_signal(signal.SIGCONT)
        one.kill()
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    options, folder = options_of(__doc__)
    site = Site(options.server, folder)
    try:
        play(site, options.rounds, random.Random(options.seed))
    finally:
        end(site.servers, options, folder)


if __name__ == "__main__":
    main()
