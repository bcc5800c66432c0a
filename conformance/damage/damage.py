"""Damages a store from outside, one file at a time, and looks for messages that are missing and that nobody spoke of.

Usage: damage.py SERVER MYELIN [--rounds N] [--minutes N] [--seed N] [--only WORDS] [--jobs N] [--encrypted] [--always] [--large] [--verbose]

SERVER is a myelin-server, MYELIN the command line. A server fills a store with streams of many kinds and ends, once by SIGTERM
once by SIGKILL 150 ms after its last acknowledgement, and once by SIGKILL in the middle of publishing. For each file and
directory that is left, in each way of damaging it, and for pairs of files, a copy is damaged and a server started with it: at
once, a second time, after `myelin store repair --apply`, or after a repair that was killed three times on its way. Then:

- the start is not refused, nothing hangs, the process ends when it is told to;
- a message that was acknowledged (100 ms before a SIGKILL) is there as it was, for a consumer and for a get, or is spoken of: in the log and in
  `state.lost` of its stream, by the first start and by the second one, and `myelin store check`, run on the damaged copy before the start, has
  not said "sound";
- other streams have everything, nothing that was deleted comes back, nothing comes twice;
- a stream that a start leaves alone, and a start that is refused, is said to be, and a repair brings it back;
- the next message gets a sequence above all that were acknowledged, and a durable consumer delivers what it has left.

Prints a table of what was damaged how often and one line for each thing that is wrong; ends with 1 if there is any.
Needs nothing but Python. Everything lies in a temporary folder, in memory if there is room. Cases come in rounds: each has one
of every kind of file in every way of damaging it after every end of the server, of twins and of pairs, some 1,000 cases; the next
one takes another file of the kind, and does another thing with it. With --minutes it ends within a round, and says so.
"""

import argparse
import concurrent.futures
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import kinds
from client import PATIENCE, Client, Server
from streams import NO_LIMITS, STREAMS, create, enlarge, fill, get, publish, read, subject_of, take, truth_of

KEY = "a key for the store"


def copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def build(arguments, folder, key, seed):
    """Three stores, after a stop and after two kills, an older copy of them, and what they have promised."""
    rng, work = random.Random(seed), Path(folder, "work")
    work.mkdir()

    def start():
        running = Server(arguments.server, work, key, arguments.always)
        return running, Client(running.port)

    running, client = start()
    create(client)
    fill(client, 0, rng)
    assert running.end() == 0
    copy(work / "js", folder / "older")
    running, client = start()
    fill(client, 1, rng)
    truth = {"clean": truth_of(client)}
    for name in STREAMS:
        Path(folder, f"{name}.json").write_text(json.dumps(client.api(f"STREAM.INFO.{name}")))
    assert running.end() == 0
    copy(work / "js", folder / "clean")
    running, client = start()
    for name, (_, _, size, _) in STREAMS.items():
        publish(client, name, 1_000_000, 30, size, rng)
    truth["killed"] = truth["at once"] = truth_of(client)
    time.sleep(0.15)
    # What comes now is no promise: it was acknowledged just before.
    running.process.send_signal(signal.SIGSTOP)
    copy(work / "js", folder / "killed")
    running.process.send_signal(signal.SIGCONT)
    for name in NO_LIMITS:
        publish(client, name, 2_000_000, 40, STREAMS[name][2], rng)
    running.end(signal.SIGKILL)
    copy(work / "js", folder / "at once")
    return truth


def told_ranges(words, stream):
    """Sequences of a stream that the log says are lost."""
    found = set()
    for first, last in re.findall(rf"'\$G > {stream}' has lost messages (\d+) to (\d+)", words):
        found.update(range(int(first), min(int(last), int(first) + 100_000) + 1))
    return found


def owner(file, names):
    """The stream whose file it is, or none."""
    parts = Path(file).parts
    return names.get(parts[parts.index("streams") + 1]) if "streams" in parts[:-1] else None


def names_of(myelin, store, key_file):
    """Stream names by directory, from what `store info` prints."""
    command = [myelin, "store", "info", "--json", str(store), *key_file]
    found = {}
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        entry = json.loads(line)
        if entry["type"] == "stream":
            found[entry["stream"]] = entry["name"]
    return found


def checked(myelin, root, key_file):
    """What `myelin store check` exits with, and the sequences that it speaks of, by stream."""
    command = [myelin, "store", "check", "--json", str(root), *key_file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 3)
    spoken = {}
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        if entry["type"] == "finding" and entry["sequences"]:
            first, last = entry["sequences"]
            spoken.setdefault(entry["name"], set()).update(range(first, min(last, first + 100_000) + 1))
    return done.returncode, spoken, done.stdout


def lost_of(client, stream):
    lost = client.api(f"STREAM.INFO.{stream}")["state"].get("lost") or {}
    return set(lost.get("msgs") or []), lost.get("unlisted", 0)


# The start says it in three ways. A log that ends early has its statement, "1 of 1 consumers are lost". But where an older block of the
# journal was written behind the place at which a consumers' file was cut, which a replay does after a SIGKILL, the log is long enough
# and has a hole, in which the consumer's creation was: it is mentioned behind the hole, and nobody knows its name any more. Such a
# consumer has no position, and delivers nothing.
GONE = r"'\$G > {}': .*consumers (are|whose names and configurations are|that .* began with are) lost"


def judge_stream(client, name, truth, is_hurt, check, words, then):
    """What is wrong with a stream of a running server, and how many messages it has lost."""
    # A later start tells what an earlier one has told; what a repair has told is told.
    is_first, is_told = not then, then in ("", "again")
    promised, wrong = truth["messages"], []
    try:
        seen, wrong = read(client, name)
    except (RuntimeError, TimeoutError) as error:
        return [f"{name}: {error}"], len(promised)
    if seen is None:
        seen = {seq: found for seq in promised if (found := get(client, name, seq)) is not None}
    missing = {seq for seq in promised if seq not in seen}
    wrong = [f"{name}: {what}" for what in wrong]
    for seq in sorted(missing)[:50]:
        if get(client, name, seq) is not None:
            wrong.append(f"{name}: a get has {seq}, the consumer passed over it")
    other = [seq for seq, found in seen.items() if seq in promised and promised[seq] != found]
    if other:
        wrong.append(f"{name}: other content: {spans(other)}")
    # That a message was deleted is written down like a message, and is lost like one.
    back = [seq for seq in seen if seq not in promised and seq <= truth["last"]]
    if back and not (is_hurt and check[0]):
        wrong.append(f"{name}: there again after its deletion: {spans(back)}")
    listed, unlisted = lost_of(client, name)
    in_log = told_ranges(words(), name)
    if f"$G > {name}' has more damaged messages than are told here" in words():
        in_log |= listed
    if silent := missing - listed if not unlisted and is_told else ():
        wrong.append(f"{name}: missing and not in state.lost: {spans(silent)}")
    if silent := missing - in_log if is_told else ():
        wrong.append(f"{name}: missing and not in the log: {spans(silent)}")
    if missing and check[0] == 0:
        wrong.append(f"{name}: missing and the check said sound: {spans(missing)}")
    elif silent := missing - check[1].get(name, set()):
        wrong.append(f"{name}: missing and not in the check's ranges: {spans(silent)}")
    if extra := [seq for seq in listed if seq in seen]:
        wrong.append(f"{name}: said to be lost, and there: {spans(extra)}")
    if missing and not is_hurt:
        wrong.append(f"{name}: missing although another file was damaged: {spans(missing)}")
    if truth["ahead"] is not None and is_first and not re.search(GONE.format(name), words()):
        wrong += judge_consumer(client, name, truth, seen)
    subject = subject_of(name, 1)
    answer = json.loads(client.request(subject, b"after")[3])
    if answer.get("seq", 0) <= truth["last"]:
        wrong.append(f"{name}: the next message got {answer}, acknowledged were {truth['last']}")
    return wrong, len(missing)


def judge_consumer(client, name, truth, seen):
    try:
        came = []
        while some := take(client, name, 5000, lambda seq: False):
            came += some
    except (RuntimeError, TimeoutError) as error:
        return [f"{name}: its consumer: {error}"]
    behind = [seq for seq in truth["ahead"] if seq in seen and seq not in came]
    return [f"{name}: its consumer does not deliver {spans(behind)}"] if behind else []


def spans(seqs):
    """Sequences in few words."""
    ranges = []
    for seq in sorted(seqs):
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:6]]
    return ", ".join(words) + (f" and {len(ranges) - 6} ranges more" if len(ranges) > 6 else "")


# Nobody's user and group: whoever is root may read everything.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Case:
    """A copy that is damaged, and the programs that work on it."""

    def __init__(self, case, arguments, images, names, folder):
        self.case, self.arguments, self.images, self.folder = case, arguments, images, Path(folder)
        self.root, self.wrong, self.words, self.said = Path(folder, "js", "jetstream", "myelin"), [], "", ""
        self.key_file = ["--key-file", str(images / "key"), "--cipher", "aes"] if arguments.encrypted else []
        self.hurt = {owner(damage["file"], names) for damage in case["damages"]}
        # What was done before what is judged.
        self.names, self.then = names, case["then"]
        self.prefix = NOBODY if any(damage["how"] == "not to be read" for damage in case["damages"]) else []

    def damage(self):
        copy(self.images / self.case["end"], self.folder / "js")
        changed = [kinds.apply(damage, self.case["end"], self.folder / "js", self.images) for damage in self.case["damages"]]
        if self.prefix:
            self.folder.chmod(0o755)
            subprocess.run(["chown", "-R", "65534:65534", self.folder], check=True)
        return any(changed)

    def start(self):
        key = KEY if self.arguments.encrypted else ""
        return Server(self.arguments.server, self.folder, key, self.arguments.always, self.prefix)

    def stop(self, running):
        """Ends a server, which must be alive, and keeps its words."""
        if (code := running.process.poll()) is not None:
            self.wrong.append(f"the process has ended: {code}")
        elif (code := running.end()) != 0:
            self.wrong.append(f"the process ended with {code}")
        self.words += running.words()
        if "panic" in running.words():
            self.wrong.append("there was a panic")

    def repair(self, killed):
        """Repairs, as often from the beginning as it is to be killed on its way."""
        given = [f"--config={directory}={self.images}/{name}.json" for directory, name in self.names.items() if name in self.hurt]
        command = [*self.prefix, self.arguments.myelin, "store", "repair", str(self.root), "--apply", *given, *self.key_file]
        rng = random.Random(repr(self.case))
        for _ in range(3 if killed else 0):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            time.sleep(rng.random() * 0.1)
            process.kill()
            self.said += process.communicate()[0]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 3)
        self.said += done.stdout + done.stderr
        # What nobody can do without, and may not be read, it names, and does nothing.
        is_refused = self.prefix and done.returncode == 2 and re.search(r"\w: .*[Pp]ermission denied", done.stderr.split("error: ")[-1])
        if done.returncode not in (0, 1) and not is_refused or "panic" in done.stderr:
            self.wrong.append(f"the repair ended with {done.returncode}: {done.stderr.strip()[-300:]}")

    def open_again(self):
        """Gives back what was closed."""
        subprocess.run(["chmod", "-R", "u+rwX", self.folder], check=True)

    def away(self, running):
        """Streams that a server does not have, each with whether anybody says so."""
        client = Client(running.port)
        have = client.api("STREAM.NAMES")["streams"] or []
        said = [line for line in running.words().splitlines() if "[ERR]" in line or "[WRN]" in line]
        # What an earlier start or a repair has told is told once.
        said += self.words.splitlines() + [line for line in self.said.splitlines() if line.startswith("lost: ")]
        directory = {name: directory for directory, name in self.names.items()}
        is_told = lambda name: any(directory[name] in line or f"$G > {name}'" in line for line in said)
        return {name: is_told(name) for name in STREAMS if name not in have}

    def started(self):
        """A server that has everything that a repair can give; None if there is none."""
        try:
            running = self.start()
            away = self.away(running)
            if not away and not self.prefix:
                return running
            self.stop(running)
            self.wrong += [f"{name} is not there, and nobody says so" for name, is_told in away.items() if not is_told]
            if not self.is_hard() and not self.prefix:
                self.wrong += [f"{name} is left alone" for name in away]
        except RuntimeError as error:
            self.words += Path(self.folder, "log").read_text(errors="replace")
            if not self.is_hard() and not self.prefix:
                self.wrong.append(str(error))
        if self.prefix:
            self.then = self.then or "again"
            self.open_again()
        else:
            self.then = "repair"
            self.repair(False)
        running = self.start()
        self.wrong += [f"{name} cannot be brought back" for name in self.away(running) if not self.is_gone(name)]
        return running

    def is_hard(self):
        """Whether both of two copies were damaged, or a directory."""
        damages = self.case["damages"]
        return len(damages) > 1 or damages[0]["how"] in kinds.OF_DIRECTORIES

    def is_gone(self, name):
        """Whether all of a stream's bytes are."""
        directory = next(directory for directory, other in self.names.items() if other == name)
        damages = self.case["damages"]
        # Nobody else has an encrypted stream's key, and the repair says so.
        told = re.search(rf"(left|lost): streams/{directory}.*(key|encrypted)", self.said)
        is_locked = self.arguments.encrypted and told and len(damages) > 1
        return is_locked or any(damage["file"].endswith(directory) for damage in damages)

    def judge(self, truth):
        """How many messages are lost."""
        lost, check = 0, checked(self.arguments.myelin, self.root, self.key_file)
        self.said += check[2]
        then = self.case["then"]
        if then == "again":
            try:
                self.stop(self.start())
            except RuntimeError as error:
                self.words += f"{error}\n"
        elif then:
            self.repair("killed" in then)
        running = self.started()
        try:
            client = Client(running.port)
            for name, promised in truth.items():
                if not self.is_gone(name):
                    found, count = judge_stream(client, name, promised, name in self.hurt, check, lambda: self.words + running.words(), self.then)
                    self.wrong += found
                    lost += count
        finally:
            self.stop(running)
        return lost


def run(case, arguments, images, truth, names):
    """Answers what is wrong, how much was lost, and what was said; None if there was nothing to damage."""
    with tempfile.TemporaryDirectory(dir=images) as folder:
        this, lost = Case(case, arguments, images, names, folder), 0
        if not this.damage():
            return None
        try:
            lost = this.judge(truth[case["end"]])
        except Exception as error:  # whatever it is, it is what the damage has led to
            this.wrong.append(f"{type(error).__name__}: {error}")
        return this.wrong, lost, this.words, this.said


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("server")
    parser.add_argument("myelin")
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds of all")
    parser.add_argument("--minutes", type=float, default=0, help="as many rounds as can be done in this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with these words in file, stream, damage or end")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--encrypted", action="store_true")
    parser.add_argument("--always", action="store_true", help="with `sync_interval: always`")
    parser.add_argument("--large", action="store_true", help="with streams of segments of 16 MiB")
    parser.add_argument("--verbose", action="store_true", help="what the server and the check said in cases that are wrong")
    arguments = parser.parse_args()
    if arguments.large:
        enlarge()
    # Every program's every sync costs a disk, and is worth nothing here: nothing loses power.
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else None
    with tempfile.TemporaryDirectory(prefix="damage-", dir=place) as folder:
        sys.exit(sweep(arguments, Path(folder)))


def text(case, names):
    damages = " and ".join(f"{damage['file']} ({owner(damage['file'], names) or '-'}) {damage['how']}" for damage in case["damages"])
    return f"{case['end']}: {damages}; {case['then'] or 'start'}"


def done(pool, cases, deadline, of_case):
    """Cases with what they have led to, as long as there is time; never many more at once than can be worked on."""
    cases, running = iter(cases), {}
    while True:
        while len(running) < 32 and time.monotonic() < deadline and (case := next(cases, None)):
            running[pool.submit(run, case, *of_case)] = case
        if not running:
            return
        for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


def sweep(arguments, images):
    (images / "key").write_text(KEY)
    key = KEY if arguments.encrypted else ""
    truth = build(arguments, images, key, arguments.seed)
    images.chmod(0o755)
    key_file = ["--key-file", str(images / "key"), "--cipher", "aes"] if key else []
    names = names_of(arguments.myelin, images / "clean", key_file)
    packed = {directory for directory, name in names.items() if "PACKED" in name}
    rounds = kinds.rounds(kinds.cases(images, arguments.seed, packed), arguments.seed)
    of_all = sum(map(len, rounds))
    rounds = [[case for case in cases if all(word in text(case, names) for word in arguments.only.split())] for cases in rounds]
    rounds = rounds[:arguments.rounds or len(rounds)]
    cases = [case for cases in rounds for case in cases]
    print(f"{len(cases)} cases of {of_all}, {len(rounds[0])} in the first round; {', '.join(sorted(names.values()))}", flush=True)
    table, bad, began = Counter(), 0, time.monotonic()
    deadline = began + arguments.minutes * 60 if arguments.minutes else float("inf")
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        for case, outcome in done(pool, cases, deadline, (arguments, images, truth, names)):
            row = (*case["kind"], case["end"])
            table["tried"] += 1
            if outcome is None:
                continue
            wrong, lost, words, said = outcome
            table["cases"] += 1
            table[row, "cases"] += 1
            table[row, "lost"] += lost
            table[row, "wrong"] += bool(wrong)
            if wrong:
                bad += 1
                print(f"WRONG {text(case, names)}", *wrong, sep="\n    ", flush=True)
                if arguments.verbose:
                    print(words, said, sep="\n---\n", flush=True)
            if table["cases"] % 500 == 0:
                print(f"{table['cases']} cases in {time.monotonic() - began:.0f} s, {bad} of them wrong", flush=True)
    rows = sorted({row for row, what in (key for key in table if isinstance(key, tuple))})
    print(f"{'file':28} {'damage':36} {'end':8} cases  lost wrong")
    for row in rows:
        print(f"{row[0]:28} {row[1]:36} {row[2]:8}", *(f"{table[row, what]:5}" for what in ("cases", "lost", "wrong")))
    whole = sum(1 for n in range(len(rounds)) if sum(map(len, rounds[:n + 1])) <= table["tried"])
    print(f"{table['cases']} cases in {time.monotonic() - began:.0f} s, {whole} whole rounds, {bad} of them wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    main()
