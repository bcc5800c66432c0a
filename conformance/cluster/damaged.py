#!/usr/bin/env python3
"""Three servers with a replicated stream under load, of which one at a time loses something on its disk:

    damaged.py SERVER [--rounds N] [--seed N] [--keep FOLDER]

In each round one server is killed; bits of its files are flipped, sectors are overwritten, or a file is cut or removed; and
it starts again. Ends with an error where it is not healthy within a minute, where a message that was acknowledged is missing or
there twice, or where one of the three replicas has anything else than the others. With nats-server for SERVER it says what
becomes of that.
"""
import base64, json, os, random, time, urllib.error, urllib.request

from superclusters import Publisher, Reader, Server, ask, end, fault, options_of, until

CONFIG = """server_name: {name}
listen: "127.0.0.1:{client}"
http: "127.0.0.1:{page}"
log_file: "{folder}/{name}.log"
jetstream {{ store_dir: "{folder}/{name}" }}
cluster {{ name: C, listen: "127.0.0.1:{route}", routes: [{routes}] }}
"""
STREAM = {"name": "S", "subjects": ["orders.>"], "num_replicas": 3, "storage": "file"}


class Member(Server):
    def configure(self, servers):
        routes = ", ".join(f'"nats://127.0.0.1:{one.route}"' for one in servers)
        with open(f"{self.folder}/{self.name}.conf", "w") as file:
            file.write(CONFIG.format(routes=routes, **vars(self)))

    def health(self):
        """Why it is not healthy; nothing where it is, and has lost nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/healthz", timeout=3) as answer:
                said = json.loads(answer.read())
            return "" if said.get("status") == "ok" and not said.get("lost") else json.dumps(said)
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return str(error)

    def files(self):
        found = (os.path.join(at, name) for at, _, names in os.walk(f"{self.folder}/{self.name}") for name in names)
        return sorted(file for file in found if os.path.getsize(file))


def damage(file, dice):
    size = os.path.getsize(file)
    kind = dice.choice(["flip", "flip", "zeros", "garbage", "cut", "gone"])
    at = dice.randrange(size)
    with open(file, "r+b") as there:
        there.seek(at)
        if kind == "flip":
            byte = there.read(1)[0]
            there.seek(at)
            there.write(bytes([byte ^ 1 << dice.randrange(8)]))
        elif kind in ("zeros", "garbage"):
            count = min(512, size - at)
            there.write(bytes(count) if kind == "zeros" else dice.randbytes(count))
        elif kind == "cut":
            there.truncate(at)
    if kind == "gone":
        os.remove(file)
    return f"{kind} in {os.path.relpath(file, os.path.dirname(os.path.dirname(file)))} at {at} of {size}"


def play(servers, rounds, dice):
    until("a stream", lambda: "config" in ask(servers, "STREAM.CREATE.S", STREAM))
    publisher = Publisher("A", servers)
    publisher.start()
    for number in range(rounds):
        before = publisher.count
        until("it is published", lambda: publisher.count > before + 500)
        victim = dice.choice(servers)
        victim.kill()
        files = victim.files()
        said = [damage(file, dice) for file in dice.sample(files, min(len(files), dice.choice([1, 1, 2, 3])))]
        began = time.monotonic()
        victim.start()
        until("all serve", lambda: len(current(servers)) == 3 and not victim.health())
        print(f"{number + 1:3} {victim.name}: {'; '.join(said)}: whole after {time.monotonic() - began:.1f} s, {publisher.count} acknowledged", flush=True)
    publisher.over = True
    publisher.join()
    # A bit that nobody has read yet is found by then.
    [until(f"{one.name} is well", lambda: not one.health()) for one in servers]
    check(servers, publisher.count)


def current(servers):
    """Servers whose replicas are current."""
    cluster = ask(servers, "STREAM.INFO.S").get("cluster") or {}
    others = [one["name"] for one in cluster.get("replicas") or [] if one["current"]]
    return others + ([cluster["leader"]] if cluster.get("leader") else [])


def check(servers, count):
    """Each number is there once, in its order, whichever server leads."""
    for one in servers:
        def leads():
            if (ask(servers, "STREAM.INFO.S").get("cluster") or {}).get("leader") == one.name:
                return True
            ask(servers, "STREAM.LEADER.STEPDOWN.S", {"placement": {"preferred": one.name}})
        until(f"{one.name} leads", leads)
        state, reader = ask(servers, "STREAM.INFO.S")["state"], Reader(one.client, "S")
        for seq in range(1, state["last_seq"] + 1):
            answer = json.loads(until(f"message {seq}", lambda: reader.get(seq)))
            message = answer.get("message") or fault(f"{one.name} has no {seq}: {answer}")
            if int(base64.b64decode(message["data"])) != seq - 1:
                fault(f"{one.name} has something else as {seq}: {message}")
        print(f"{one.name}: {state['messages']} messages")
        if not count <= state["messages"] <= count + 1:
            fault(f"acknowledged: {count}")


def main():
    options, folder = options_of(__doc__)
    servers = [Member(options.server, folder, "n", number) for number in (1, 2, 3)]
    for one in servers:
        one.configure(servers)
        one.start()
    try:
        play(servers, options.rounds, random.Random(options.seed))
    finally:
        end(servers, options, folder)


if __name__ == "__main__":
    main()
