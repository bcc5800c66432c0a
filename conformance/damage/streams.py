"""Streams of many kinds: how they are made and filled, and what a client finds in them."""

import base64
import json
import zlib

from client import framed

IDLE = 3
SOON = 0.1


def payload(rng, size, is_text=False):
    return (rng.choice([b"some ", b"text ", b"that "]) * (size // 5 + 1))[:size] if is_text else rng.randbytes(size)


# Name: configuration, messages, bytes of each, and a consumer's configuration or none.
FILE = {"storage": "file", "retention": "limits"}
DURABLE = {"ack_policy": "explicit", "ack_wait": 60_000_000_000, "max_ack_pending": 100_000}
# A segment is an eighth of `max_bytes`, 1 MiB here: some of each are sealed, one is not, and a copy is made in no time.
SHORT = {**FILE, "max_bytes": 8 << 20}
STREAMS = {
    "LARGE": (SHORT, 260, 10_000, DURABLE),
    "PACKED": ({**SHORT, "compression": "s2"}, 200, 15_000, None),
    "SMALL": ({**SHORT, "max_msg_size": 2048}, 1700, 1500, DURABLE),
    "SMALLPACKED": ({**SHORT, "compression": "s2"}, 1700, 1500, None),
    "ACTIVE": (FILE, 300, 200, DURABLE),
    "WORK": ({**FILE, "retention": "workqueue"}, 120, 300, DURABLE),
    "INTEREST": ({**FILE, "retention": "interest"}, 160, 300, DURABLE),
    "KV_BUCKET": ({**FILE, "max_msgs_per_subject": 3, "allow_rollup_hdrs": True, "deny_delete": True,
                   "allow_direct": True, "discard": "new"}, 400, 100, None),
    "DIRECT": ({**FILE, "allow_direct": True}, 100, 100, None),
}

# Streams that remove nothing by themselves when more comes: none comes near to `max_bytes`.
NO_LIMITS = [name for name, (config, _, _, _) in STREAMS.items() if "max_msgs_per_subject" not in config]


def enlarge():
    """Gives two streams segments of 16 MiB, as they are without a limit."""
    for name, factor in ("LARGE", 14), ("PACKED", 13):
        config, count, size, consumer = STREAMS[name]
        STREAMS[name] = {key: config[key] for key in config if key != "max_bytes"}, count * factor, size, consumer


def subject_of(stream, n):
    return f"$KV.BUCKET.k{n % 97}" if stream == "KV_BUCKET" else f"{stream.lower()}.{n % 7}"


def publish(client, stream, first, count, size, rng):
    is_text = "PACKED" in stream
    for start in range(first, first + count, 100):
        some = range(start, min(start + 100, first + count))
        for n in some:
            body = b"%d " % n + payload(rng, size, is_text)
            client.send(framed(subject_of(stream, n), "inbox.p", body))
        for _ in some:
            answer = json.loads(client.message()[3])
            assert "seq" in answer, answer


def create(client):
    for name, (config, _, _, consumer) in STREAMS.items():
        subjects = ["$KV.BUCKET.>"] if name == "KV_BUCKET" else [f"{name.lower()}.>"]
        client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, **config})
        if consumer:
            config = {"durable_name": "D", **consumer}
            client.api(f"CONSUMER.DURABLE.CREATE.{name}.D", {"stream_name": name, "config": config})


def take(client, stream, count, ack):
    """Fetches from the durable consumer; `ack` says whether a sequence is acknowledged. Answers what came."""
    client.replies += 1
    inbox, seqs = f"inbox.{client.replies}", []
    client.send(framed(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.D", inbox, {"batch": count, "no_wait": True}))
    while len(seqs) < count and (message := client.message(IDLE)):
        if message[0] == inbox and not message[1]:
            break
        if not message[1].startswith("$JS.ACK"):
            continue
        seq = int(message[1].split(".")[5])
        seqs.append(seq)
        if ack(seq):
            client.send(f"PUB {message[1]} 4\r\n+ACK\r\n".encode())
    client.request(f"$JS.API.CONSUMER.INFO.{stream}.D")
    return seqs


def fill(client, part, rng):
    for name, (_, count, size, consumer) in STREAMS.items():
        half = count // 2
        publish(client, name, part * half, half, size, rng)
        if consumer:
            take(client, name, half // 2, lambda seq: seq % 10 != 0)
    for seq in (3, 4, 5, 40):
        client.api("STREAM.MSG.DELETE.SMALL", {"seq": seq + part * 500, "no_erase": seq != 3})
    client.api("STREAM.PURGE.ACTIVE", {"filter": "active.6"})


def read(client, stream):
    """All messages through a consumer, by sequence: a checksum of each; and what was out of order."""
    client.replies += 1
    inbox, seen, wrong = f"deliver.{client.replies}", {}, []
    config = {"deliver_subject": inbox, "ack_policy": "none", "deliver_policy": "all", "mem_storage": True}
    if STREAMS[stream][0]["retention"] == "workqueue":
        return None, []
    answer = None
    # A wildcard is no interest in a delivery subject.
    client.send(f"SUB {inbox} 1{client.replies}\r\nSUB {inbox}.made 2{client.replies}\r\n".encode())
    client.send(framed(f"$JS.API.CONSUMER.CREATE.{stream}", f"{inbox}.made", {"stream_name": stream, "config": config}))
    left, last, through = 1, 0, None
    # The first messages may come before the answer.
    while left or not answer:
        message = client.message(SOON if answer and not through else IDLE)
        if not message:
            if through or not answer:
                break
            # What comes before the answer is all that has been sent before.
            through = client.ask(f"$JS.API.CONSUMER.INFO.{stream}.{answer['name']}")
        elif message[0] == through:
            info = json.loads(message[3])
            if info.get("num_pending") == 0 and info["delivered"]["consumer_seq"] <= len(seen):
                break
        elif message[0] == f"{inbox}.made":
            answer = json.loads(message[3])
            if "error" in answer:
                return {}, [answer["error"]["description"]]
            left = left and (answer["num_pending"] or answer["delivered"]["consumer_seq"])
        elif message[1].startswith("$JS.ACK"):
            words = message[1].split(".")
            seq, left = int(words[5]), int(words[8])
            if seq <= last:
                wrong.append(f"{seq} after {last}")
            seen[seq], last = zlib.crc32(message[0].encode() + message[2] + message[3]), seq
    if not answer:
        raise TimeoutError("no consumer was made")
    client.api(f"CONSUMER.DELETE.{stream}.{answer['name']}")
    return seen, wrong


def get(client, stream, seq):
    answer = json.loads(client.request(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": seq})[3])
    if "message" not in answer:
        return None
    found = answer["message"]
    parts = [base64.b64decode(found.get(part, "")) for part in ("hdrs", "data")]
    return zlib.crc32(found["subject"].encode() + b"".join(parts))


def truth_of(client):
    """What a client has been promised: messages, the last sequence, and what consumers still have to deliver."""
    truth = {}
    for name, (_, _, _, consumer) in STREAMS.items():
        info = client.api(f"STREAM.INFO.{name}")
        last = info["state"]["last_seq"]
        if name == "WORK":
            messages = {}
            for seq in range(info["state"]["first_seq"], last + 1):
                if (found := get(client, name, seq)) is not None:
                    messages[seq] = found
        else:
            messages, wrong = read(client, name)
            assert not wrong and len(messages) == info["state"]["messages"], (name, wrong, len(messages), info["state"])
        ahead = None
        if consumer:
            state = client.api(f"CONSUMER.INFO.{name}.D")
            ahead = [seq for seq in messages if seq > state["delivered"]["stream_seq"]]
        truth[name] = {"last": last, "messages": messages, "ahead": ahead}
    return truth
