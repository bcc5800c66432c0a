"""Damages a store from outside, one file at a time, and looks for messages that are missing and that nobody spoke of.

Usage: damage.py SERVER MYELIN [--cases N] [--seed N] [--only WORDS] [--jobs N] [--encrypted] [--verbose]

SERVER is a myelin-server, MYELIN the command line. A server fills a store with streams of many kinds and ends, once by SIGTERM
and once by SIGKILL 150 ms after its last acknowledgement. For each file that is left, in each way of damaging it, a copy is
damaged and a server started with it. Then:

- the start is not refused, nothing hangs, the process ends when it is told to;
- a message that was acknowledged is there as it was, for a consumer and for a get, or is spoken of: in the log and in
  `state.lost` of its stream, and `myelin store check`, run on the damaged copy before the start, has not said "sound";
- other streams have everything, nothing that was deleted comes back, nothing comes twice;
- the next message gets a sequence above all that were acknowledged, and a durable consumer delivers what it has left.

Prints a table of what was damaged how often and one line for each thing that is wrong; ends with 1 if there is any.
Needs nothing but Python. Everything lies in a temporary folder; N cases are drawn by chance from all of them.
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

from client import PATIENCE, Client, Server
from streams import STREAMS, create, fill, get, publish, read, subject_of, take, truth_of

KEY = "a key for the store"


def copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def build(server, folder, key, seed):
    """Two stores, after a stop and after a kill, an older copy of them, and what they have promised."""
    rng, work = random.Random(seed), Path(folder, "work")
    work.mkdir()
    running = Server(server, work, key)
    client = Client(running.port)
    create(client)
    fill(client, 0, rng)
    assert running.end() == 0
    copy(work / "js", folder / "older")
    running = Server(server, work, key)
    client = Client(running.port)
    fill(client, 1, rng)
    truth = {"clean": truth_of(client)}
    assert running.end() == 0
    copy(work / "js", folder / "clean")
    running = Server(server, work, key)
    client = Client(running.port)
    for name, (_, _, size, _) in STREAMS.items():
        publish(client, name, 1_000_000, 30, size, rng)
    truth["killed"] = truth_of(client)
    time.sleep(0.15)
    running.end(signal.SIGKILL)
    copy(work / "js", folder / "killed")
    return truth


def used(data):
    """How many bytes are not allocated ahead."""
    return len(data.rstrip(b"\0"))


def flip(data, at):
    if not data:
        return None
    changed = bytearray(data)
    changed[at] ^= 1 << random.Random(at).randrange(8)
    return bytes(changed)


def zeroed(data, _):
    at = used(data) // 2 // 4096 * 4096
    return data[:at] + bytes(min(4096, len(data) - at)) + data[at + 4096:] if used(data) > 8192 else None


# What becomes of a file with some bytes: None leaves the case out, b"" and "removed" are what they say.
DAMAGES = {
    "bit in the head": lambda data, rng: flip(data, min(len(data) - 1, rng.randrange(64))),
    "bit in the middle": lambda data, rng: flip(data, used(data) // 2),
    "bit in the tail": lambda data, rng: flip(data, max(used(data) - 1 - rng.randrange(8), 0)),
    "bit anywhere": lambda data, rng: flip(data, rng.randrange(max(used(data), 1))),
    "bit anywhere, again": lambda data, rng: flip(data, rng.randrange(max(used(data), 1))),
    "cut by a byte": lambda data, rng: data[:max(used(data) - 1, 0)] if data else None,
    "cut by half": lambda data, rng: data[:used(data) // 2] if data else None,
    "emptied": lambda data, rng: b"" if data else None,
    "removed": lambda data, rng: "removed",
    "older": None,
    "another stream's": None,
    "zeros in the middle": zeroed,
    "garbage behind it": lambda data, rng: data[:used(data)] + rng.randbytes(3000),
}


def damaged(case, root, images):
    """Damages one file of a copy. False if that changes nothing."""
    file, how = root / case["file"], case["how"]
    rng, data = random.Random(repr(case)), file.read_bytes()
    if how == "older":
        older = images / "older" / case["file"]
        changed = older.read_bytes() if older.is_file() else None
    elif how == "another stream's":
        other = [f for f in file.parent.parent.glob(f"*/{file.name}") if f.parent != file.parent]
        changed = rng.choice(sorted(other)).read_bytes() if other and "streams" in str(file) else None
    else:
        changed = DAMAGES[how](data, rng)
    if changed is None or changed == data:
        return False
    file.unlink()
    if changed != "removed":
        file.write_bytes(changed)
    return True


def told_ranges(words, stream):
    """Sequences of a stream that the log says are lost."""
    found = set()
    for first, last in re.findall(rf"'\$G > {stream}' has lost messages (\d+) to (\d+)", words):
        found.update(range(int(first), min(int(last), int(first) + 100_000) + 1))
    return found


def owner(store, file, names):
    """The stream whose file it is, or none."""
    parts = Path(file).parts
    return names.get(parts[parts.index("streams") + 1]) if "streams" in parts else None


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


def judge_stream(client, name, truth, is_hurt, check, running):
    """What is wrong with a stream of a running server, and how many messages it has lost."""
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
    back = [seq for seq in seen if seq not in promised]
    if back and not (is_hurt and check[0]):
        wrong.append(f"{name}: there again after its deletion: {spans(back)}")
    listed, unlisted = lost_of(client, name)
    in_log = told_ranges(running.words(), name)
    if silent := missing - listed if not unlisted else ():
        wrong.append(f"{name}: missing and not in state.lost: {spans(silent)}")
    if silent := missing - in_log:
        wrong.append(f"{name}: missing and not in the log: {spans(silent)}")
    if missing and check[0] == 0:
        wrong.append(f"{name}: missing and the check said sound: {spans(missing)}")
    elif silent := missing - check[1].get(name, set()):
        wrong.append(f"{name}: missing and not in the check's ranges: {spans(silent)}")
    if extra := [seq for seq in listed if seq in seen]:
        wrong.append(f"{name}: said to be lost, and there: {spans(extra)}")
    if missing and not is_hurt:
        wrong.append(f"{name}: missing although another file was damaged: {spans(missing)}")
    if truth["ahead"] is not None and not re.search(rf"'\$G > {name}': .* consumers are lost", running.words()):
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


def run(case, arguments, images, truth, names):
    """Answers whether there was anything to damage, what is wrong, how much was lost, and what the server said."""
    with tempfile.TemporaryDirectory(dir=images) as folder:
        shutil.rmtree(folder)
        Path(folder).mkdir()
        copy(images / case["end"], Path(folder, "js"))
        root = Path(folder, "js", "jetstream", "myelin")
        if not damaged(case, root.parent.parent, images):
            return None
        key = KEY if arguments.encrypted else ""
        key_file = ["--key-file", str(images / "key"), "--cipher", "aes"] if key else []
        wrong, lost, running = [], 0, None
        hurt = owner(root, case["file"], names)
        try:
            check = checked(arguments.myelin, root, key_file)
            running = Server(arguments.server, folder, key)
            client = Client(running.port)
            for name, promised in truth[case["end"]].items():
                found, count = judge_stream(client, name, promised, hurt == name, check, running)
                wrong += found
                lost += count
        except Exception as error:  # whatever it is, it is what the damage has led to
            wrong.append(f"{type(error).__name__}: {error}")
        if running:
            if (code := running.process.poll()) is not None:
                wrong.append(f"the process has ended: {code}")
            elif (code := running.end()) != 0:
                wrong.append(f"the process ended with {code}")
            if "panic" in running.words():
                wrong.append("there was a panic")
        words = running.words() if running else Path(folder, "log").read_text(errors="replace")
        return wrong, lost, words, check[2] if "check" in locals() else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("server")
    parser.add_argument("myelin")
    parser.add_argument("--cases", type=int, default=0, help="so many of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with these words in file, stream, damage or end")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--encrypted", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="what the server and the check said in cases that are wrong")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="damage-") as folder:
        sys.exit(sweep(arguments, Path(folder)))


def sweep(arguments, images):
    (images / "key").write_text(KEY)
    key = KEY if arguments.encrypted else ""
    truth = build(arguments.server, images, key, arguments.seed)
    key_file = ["--key-file", str(images / "key"), "--cipher", "aes"] if key else []
    names = names_of(arguments.myelin, images / "clean", key_file)
    cases = [
        {"end": end, "file": file, "how": how}
        for end in ("clean", "killed") for file in sorted(str(f.relative_to(images / end)) for f in (images / end).rglob("*") if f.is_file()) for how in DAMAGES
    ]
    text = lambda case: f"{case['end']} {case['file']} {owner('', case['file'], names)} {case['how']}"
    cases = [case for case in cases if all(word in text(case) for word in arguments.only.split())]
    if arguments.cases:
        cases = random.Random(arguments.seed).sample(cases, min(arguments.cases, len(cases)))
    print(f"{len(cases)} cases; {', '.join(sorted(names.values()))}", flush=True)
    table, bad = Counter(), 0
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(run, case, arguments, images, truth, names): case for case in cases}
        for future in concurrent.futures.as_completed(futures):
            case, outcome = futures[future], future.result()
            row = (re.sub(r"\d+", "N", Path(case["file"]).name), case["how"], case["end"])
            if outcome is None:
                continue
            wrong, lost, words, said = outcome
            table[row, "cases"] += 1
            table[row, "lost"] += lost
            table[row, "wrong"] += bool(wrong)
            if wrong:
                bad += 1
                print(f"WRONG {text(case)}", *wrong, sep="\n    ", flush=True)
                if arguments.verbose:
                    print(words, said, sep="\n---\n", flush=True)
    rows = sorted({row for row, _ in table})
    print(f"{'file':24} {'damage':24} {'end':8} cases  lost wrong")
    for row in rows:
        print(f"{row[0]:24} {row[1]:24} {row[2]:8}", *(f"{table[row, what]:5}" for what in ("cases", "lost", "wrong")))
    print(f"{sum(table[row, 'cases'] for row in rows)} cases, {bad} of them wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    main()
