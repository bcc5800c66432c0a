#!/usr/bin/env python3
"""`myelin bench` beside `nats bench`: the same commands of both against one server, in interleaved rounds.

Prints a table in Markdown: messages per second as each tool prints them, and the CPU time of its process per message,
medians with least and most. Usage: beside.py [--nats PATH] [--myelin PATH] [--server PATH] [--rounds N] [--rows A,B]
[--scale X]
"""
import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

# Name, arguments, messages, and whether somebody else has to publish meanwhile. Rows without `js` use a subject that the
# stream does not store: else they would measure how fast the server stores.
ROWS = [
    ("pub", "pub core", 2_000_000, False),
    ("pub --clients 4", "pub core --clients 4", 4_000_000, False),
    ("pub --multisubject", "pub core --multisubject", 1_000_000, False),
    ("sub", "sub core", 2_000_000, True),
    ("js pub async --storage memory", "js pub async x --purge", 200_000, False),
    ("js pub fast", "js pub fast x --purge", 300_000, False),
    ("js ordered", "js ordered", 200_000, False),
    ("js fetch", "js fetch", 150_000, False),
    ("js get sync", "js get sync", 20_000, False),
    ("service request", "service request s", 20_000, False),
]


def run(tool, line, messages, url):
    """Starts a benchmark."""
    command = [tool, "--server", url, "bench", *line.split(), "--msgs", str(messages), "--no-progress"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def rate(text):
    """Messages per second, of all clients together."""
    return float(re.search(r"stats: ([\d,]+) msgs/sec", text).group(1).replace(",", ""))


def measure(tool, row, url, publisher):
    _, line, messages, needs_publisher = row
    child = run(tool, line, messages, url)
    beside = None
    if needs_publisher:
        time.sleep(0.7)
        beside = run(publisher, "pub core", messages, url)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if beside:
        beside.communicate()
    assert status == 0, (tool, line, status)
    return rate(text), (usage.ru_utime + usage.ru_stime) * 1e6 / messages


def forget_consumer(nats, url):
    """Both tools go on with the durable consumer of the run before, which would have nothing left."""
    command = [nats, "--server", url, "consumer", "rm", "benchstream", "nats-bench", "--force"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def spread(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))}..{form(max(values))})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    home = os.path.expanduser("~/go/bin")
    parser.add_argument("--nats", default=shutil.which("nats") or f"{home}/nats")
    parser.add_argument("--myelin", default="target/release/myelin")
    parser.add_argument("--server", default=shutil.which("nats-server") or f"{home}/nats-server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of messages")
    arguments = parser.parse_args()
    names = arguments.rows.split(",") if arguments.rows else [row[0] for row in ROWS]
    wanted = [(name, line, int(messages * arguments.scale), needs)
              for name, line, messages, needs in ROWS if name in names]
    with socket.socket() as free, tempfile.TemporaryDirectory() as directory:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = subprocess.Popen(
            [arguments.server, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", directory],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        service = None
        try:
            time.sleep(1)
            url = f"nats://127.0.0.1:{port}"
            fill = run(arguments.myelin, "js pub async x --create --storage memory", 300_000, url)
            fill.communicate()
            service = run(arguments.myelin, "service serve s", 1, url)
            found = {}
            print("| workload | `nats bench` msgs/s | CPU us/msg | `myelin bench` msgs/s | CPU us/msg |")
            print("|---|---|---|---|---|", flush=True)
            for row in wanted:
                for number in range(arguments.rounds):
                    tools = [arguments.nats, arguments.myelin]
                    for tool in tools if number % 2 == 0 else tools[::-1]:
                        if row[0] == "js fetch":
                            forget_consumer(arguments.nats, url)
                        found.setdefault((row[0], tool), []).append(measure(tool, row, url, arguments.myelin))
                cells = []
                for tool in (arguments.nats, arguments.myelin):
                    rates, cpu = zip(*found[row[0], tool])
                    cells += [spread(rates, lambda v: f"{v:,.0f}"), spread(cpu, lambda v: f"{v:.3g}")]
                print(f"| `{row[0]}` | " + " | ".join(cells) + " |", flush=True)
        finally:
            if service:
                service.kill()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
