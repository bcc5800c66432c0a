"""What is done to a store from outside: to the bytes of one file, to its place, and to whole directories."""

import itertools
import os
import random
import re
import shutil
from pathlib import Path

PAGE = 4096


def used(data):
    """How many bytes are not allocated ahead."""
    return len(data.rstrip(b"\0"))


def flip(data, at):
    if not data:
        return None
    changed = bytearray(data)
    changed[at] ^= 1 << random.Random(at).randrange(8)
    return bytes(changed)


def replace(data, at, part):
    return data[:at] + part + data[at + len(part):]


def page(data, rng, least=1):
    """Where a page begins that has bytes, and how long it is. None if there are less than `least`."""
    pages = -(-used(data) // PAGE)
    if pages < least:
        return None, 0
    at = rng.randrange(least - 1, pages) * PAGE
    return at, min(PAGE, len(data) - at)


def zeroed(data, rng):
    at, size = page(data, rng)
    return None if at is None else replace(data, at, bytes(size))


def zeroed_in_the_middle(data, _):
    at = used(data) // 2 // PAGE * PAGE
    return replace(data, at, bytes(min(PAGE, len(data) - at))) if used(data) > 2 * PAGE else None


def doubled(data, rng):
    at, size = page(data, rng, 2)
    return None if at is None else replace(data, at, data[at - PAGE:at - PAGE + size])


def inserted(data, rng):
    at, _ = page(data, rng, 2)
    return None if at is None else data[:at] + data[at - PAGE:]


def scribbled(data, rng):
    at, size = page(data, rng)
    return None if at is None else replace(data, at, rng.randbytes(size))


# What becomes of a file with some bytes: None leaves the case out, b"" and "removed" are what they say.
DAMAGES = {
    "bit in the head": lambda data, rng: flip(data, min(len(data) - 1, rng.randrange(64))),
    "bit in the middle": lambda data, rng: flip(data, used(data) // 2),
    "bit in the tail": lambda data, rng: flip(data, max(used(data) - 1 - rng.randrange(8), 0)),
    "bit anywhere": lambda data, rng: flip(data, rng.randrange(max(used(data), 1))),
    "bit anywhere, again": lambda data, rng: flip(data, rng.randrange(max(used(data), 1))),
    "cut by a byte": lambda data, rng: data[:max(used(data) - 1, 0)] if data else None,
    "cut by half": lambda data, rng: data[:used(data) // 2] if data else None,
    "cut anywhere": lambda data, rng: data[:rng.randrange(used(data) + 1)] if data else None,
    "emptied": lambda data, rng: b"" if data else None,
    "removed": lambda data, rng: "removed",
    "older": None,
    "another stream's": None,
    "zeros in the middle": zeroed_in_the_middle,
    "a page of zeros": zeroed,
    "a page twice": doubled,
    "a page put in": inserted,
    "a page of garbage": scribbled,
    "garbage behind it": lambda data, rng: data[:used(data)] + rng.randbytes(3000),
    "a directory in its place": lambda data, rng: "directory",
    "not to be read": lambda data, rng: "closed",
}

# What becomes of a directory.
OF_DIRECTORIES = ["directory removed", "directory emptied", "a file in place of the directory"]

# Small files that are there twice: only both together cost something.
TWINS = {"meta": "meta.copy", "manifest.a": "manifest.b", "store": "store.copy", "watermarks": "watermarks.copy"}


def files(root):
    return sorted(str(f.relative_to(root)) for f in root.rglob("*") if f.is_file())


def directories(root):
    """Directories that a store makes, without those above it and the quarantine, of which nothing is read."""
    found = (str(f.relative_to(root)) for f in root.rglob("*") if f.is_dir())
    return sorted(f for f in found if re.search(r"myelin/(journal|streams/.*)$", f))


THENS = ("", "again", "repair", "repair, killed")


def role(file, here, packed):
    """What a file is, without its number; of segments and journal files, whether it is the newest of its folder, and compressed."""
    path = Path(file)
    if path.suffix not in (".seg", ".jnl"):
        return re.sub(r"^[0-9a-f]{16}$", "a stream", re.sub(r"\d{4,}", "N", path.name) if "." in file else path.name)
    is_newest = file == max(other for other in here if Path(other).parent == path.parent and other.endswith(path.suffix))
    return f"N{path.suffix}, {'newest' if is_newest else 'older'}" + (", packed" if path.parent.name in packed else "")


def cases(images, seed, packed):
    """All that can be done, by what is alike: one file or directory for itself, twins, and two files drawn by chance.

    Alike is what damages a file of the same kind in the same way after the same end of the server. `packed` are the
    directories of streams that are compressed.
    """
    rng, alike = random.Random(seed), {}

    def add(kind, end, damages, thens):
        for then in thens:
            alike.setdefault((*kind, end), []).append({"kind": kind, "end": end, "damages": damages, "then": then})

    for end in ("clean", "killed", "at once"):
        here = files(images / end)
        single = [{"file": file, "how": how} for file in here for how in DAMAGES]
        single = [damage for damage in single if changed(damage, end, images / end, images) is not None]
        single += [{"file": d, "how": how} for d in directories(images / end) for how in OF_DIRECTORIES]
        for damage in single:
            add((role(damage["file"], here, packed), damage["how"]), end, [damage], THENS)
        for damage in single:
            name = Path(damage["file"]).name
            if name in TWINS:
                twin = {"file": str(Path(damage["file"]).with_name(TWINS[name])), "how": rng.choice(list(DAMAGES))}
                add((f"{name} and its twin", damage["how"]), end, [damage, twin], THENS[2:])
        for _ in range(len(single) * 2):
            one, other = rng.choice(single), rng.choice(single)
            if one["file"] != other["file"]:
                add((f"two files, {role(one['file'], here, packed)}", ""), end, [one, other], [rng.choice(THENS)])
    return alike


def rounds(alike, seed):
    """All cases in rounds: each round has one of everything that is alike, and each time another one follows its damage."""
    rng, rows = random.Random(seed), []
    for some in alike.values():
        by_then = [[case for case in some if case["then"] == then] for then in rng.sample(THENS, len(THENS))]
        for cases in by_then:
            rng.shuffle(cases)
        rows.append([case for row in itertools.zip_longest(*by_then) for case in row if case])
    found = [[case for case in cases if case] for cases in itertools.zip_longest(*rows)]
    for cases in found:
        rng.shuffle(cases)
    return found


def changed(damage, end, root, images):
    """What a damage makes of a file: its bytes, or a word for what is in its place. None if it stays as it is."""
    place, how = root / damage["file"], damage["how"]
    rng, data = random.Random(repr((damage, end))), place.read_bytes()
    if how == "older":
        older = images / "older" / damage["file"]
        found = older.read_bytes() if older.is_file() else None
    elif how == "another stream's":
        other = [f for f in place.parent.parent.glob(f"*/{place.name}") if f.parent != place.parent]
        found = rng.choice(sorted(other)).read_bytes() if other and "streams" in str(place) else None
    else:
        found = DAMAGES[how](data, rng)
    return None if found == data else found


def apply(damage, end, root, images):
    """Damages one file or directory of a copy. False if that changes nothing."""
    place, how = root / damage["file"], damage["how"]
    if not place.exists():
        return False
    if how in OF_DIRECTORIES:
        shutil.rmtree(place)
        if how == "directory emptied":
            place.mkdir()
        elif how != "directory removed":
            place.write_bytes(b"a file")
        return True
    found = changed(damage, end, root, images)
    if found is None:
        return False
    if found == "closed":
        os.chmod(place, 0)
        return True
    place.unlink()
    if found == "directory":
        place.mkdir()
    elif found != "removed":
        place.write_bytes(found)
    return True
