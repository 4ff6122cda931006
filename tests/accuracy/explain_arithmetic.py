# SPDX-License-Identifier: MIT
"""PyTorch's message with other figures: such as must change the answer, for the arithmetic says something else."""
import collections
import re

GIB, MIB = 1 << 30, 1 << 20
SIZE = r"[\d.]+ (?:bytes|KiB|MiB|GiB)"
NEWER = re.compile(rf"Tried to allocate (?P<request>{SIZE})\. GPU \d+ has a total capaci?ty of (?P<total>{SIZE}) of which (?P<free>{SIZE}) is free\. "
                   rf"(?P<processes>(?:Process \d+ has {SIZE} memory in use\. |Including non-PyTorch memory, this process has {SIZE} memory in use\. )*)"
                   rf"Of the allocated memory (?P<allocated>{SIZE}) is allocated by PyTorch,(?: with {SIZE} allocated in private pools[^,]*,[^,]*,)? "
                   rf"and (?P<idle>{SIZE}) is reserved by PyTorch but unallocated")
OLDER = re.compile(rf"Tried to allocate (?P<request>{SIZE}) \(GPU \d+; (?P<total>{SIZE}) total capacity; (?P<allocated>{SIZE}) already allocated; "
                   rf"(?P<free>{SIZE}) free; (?P<reserved>{SIZE}) reserved in total by Py[Tt]orch\)")
CATEGORIES = ("weights", "gradients", "optimizer_states", "kv_cache", "activations", "runtime_overhead")
Check = collections.namedtuple("Check", "name make wrong")


def bytes_of(words):
    number, unit = words.split(" ")
    return int(float(number) * {"bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB}[unit])


def size(n):
    return f"{n / GIB:.2f} GiB" if n >= GIB else f"{n / MIB:.2f} MiB"


def spot(text):
    """The message in the text; None: none, or of a card that is too small to be told apart."""
    found = NEWER.search(text) or OLDER.search(text)
    return found if found and bytes_of(found["total"]) >= 8 * GIB else None


def reprint(text, values, processes=""):
    """The text with these figures (bytes by name)."""
    found = spot(text)
    values = {**values, "reserved": values["allocated"] + values["idle"]}
    message, at = found.group(0), found.start()
    spans = sorted((found.span(n), n) for n in found.re.groupindex if found.group(n) is not None)
    for (begin, end), name in reversed(spans):
        message = message[:begin - at] + (processes if name == "processes" else size(values[name])) + message[end - at:]
    message = re.sub(r" with [^,]* allocated in private pools[^,]*,[^,]*,", "", message)
    return text[:at] + message + text[found.end():]


def frames(text):
    return 'File "' in text or "vllm" in text.lower()


def says_expandable(words):
    return any("expandable" in w for w in words)


def futile(first):
    return [w["what"] for w in first["will_not_help"]]


def levers(first):
    return [str(w.get("command")) + str(w["change"]) for w in first["levers"]]


def free_above_request(r, text):
    """As much is free as was asked for, and half as much again."""
    total = bytes_of(spot(text)["total"])
    request = r.randrange(total // 50, total // 4)
    free = request * 3 // 2
    return reprint(text, {"request": request, "total": total, "free": free, "idle": 40 * MIB, "allocated": total - free - GIB // 2 - 40 * MIB})


def free_wrong(first, text):
    if first["missing_at_least_bytes"]:
        yield f"{first['missing_at_least_bytes']} bytes said to be missing, with more free than was asked for"
    if first["certainty"] == "certain" and first["cause"] in CATEGORIES and not frames(text):
        yield f"certain: {first['cause']}, though the figures contradict a shortage"


def idle_above_threshold(r, text):
    """A fifth of the card lies idle in the allocator, and with it the request would fit."""
    total = bytes_of(spot(text)["total"])
    request, idle = total // r.randrange(20, 40), total // 5
    free = request // 3
    return reprint(text, {"request": request, "total": total, "free": free, "idle": idle, "allocated": total - free - idle - GIB // 2})


def idle_wrong(first, text):
    if says_expandable(futile(first)):
        yield "expandable_segments said not to help"
    if not frames(text) and not (first["cause"] == "runtime_overhead" and first["sub_cause"] == "fragmentation"):
        yield f"cause {first['cause']}, {first['sub_cause']}, not fragmentation"
    if not says_expandable(levers(first)):
        yield "no lever that packs better"


def request_above_card(r, text):
    """One piece larger than the card."""
    total = bytes_of(spot(text)["total"])
    free, idle = total // r.randrange(2, 20), 60 * MIB
    return reprint(text, {"request": total * 8 // 5, "total": total, "free": free, "idle": idle, "allocated": total - free - idle - GIB // 2})


def request_wrong(first, _):
    if not says_expandable(futile(first)):
        yield "expandable_segments not said to be of no help"
    if first["cause"] in ("other_process", "runtime_overhead", "limit", "not_capacity"):
        yield f"cause {first['cause']}"
    if not first["missing_at_least_bytes"]:
        yield "not said how much is missing"


def another_program(r, text):
    """More than half of the card is held by somebody else."""
    total = bytes_of(spot(text)["total"])
    request = 64 * MIB * r.randrange(1, 8)
    free, idle, theirs = request // 2, 50 * MIB, total * r.randrange(50, 80) // 100
    mine = total - free - theirs
    listed = (f"Process {r.randrange(300, 9999)} has {size(theirs)} memory in use. "
              f"Including non-PyTorch memory, this process has {size(mine)} memory in use. ")
    return reprint(text, {"request": request, "total": total, "free": free, "idle": idle, "allocated": mine - idle - GIB // 2}, listed)


def another_wrong(first, _):
    if first["cause"] != "other_process":
        yield f"cause {first['cause']}"


CHECKS = (Check("free raised above the request", free_above_request, free_wrong),
          Check("idle raised above 8 % of the card", idle_above_threshold, idle_wrong),
          Check("request raised above the card", request_above_card, request_wrong),
          Check("another program with half of the card", another_program, another_wrong))
