# SPDX-License-Identifier: MIT
"""A run of llama.cpp in `vram fit`: words of llama.cpp's own command line to ours, and of the answer the bytes in
each memory."""
import collections
import json
import subprocess

Figure = collections.namedtuple("Figure", "bytes basis")
Answer = collections.namedtuple("Answer", "memories verdict build")
# What llama.cpp calls model, context and compute.
CATEGORIES = {"weights": "weights", "cache": "kv_cache", "compute": "activations"}
QUANTITIES = (*CATEGORIES, "total")
HOST = "host"
MIB = 1 << 20
NOTHING = Figure(None, "not_counted")
ROOM = "4096GiB"


class Refused(Exception):
    """No answer; the sentence says why."""


def whole(parts):
    """The sum, unknown where a part is; its basis is that of the compute buffer, the least certain."""
    if any(p.bytes is None for p in parts):
        return NOTHING
    return Figure(sum(p.bytes for p in parts), parts[-1].basis)


def memory_of(device):
    told = {q: device["ledger"][category] for q, category in CATEGORIES.items()}
    figures = {q: Figure(t["bytes"], t["basis"] + (", verified" if t["verified"] else "")) for q, t in told.items()}
    if device["kind"] == "host":  # whose results are no part of llama.cpp's compute buffer
        figures["compute"] = figures["compute"]._replace(bytes=device["compute_bytes"])
    figures["total"] = whole([figures[q] for q in CATEGORIES])
    return figures


def memories_of(devices):
    """CUDA0, CUDA1, ... in their order, and the host."""
    found, n = {}, 0
    for device in devices:
        if device["kind"] == "host":
            found[HOST] = memory_of(device)
            continue
        for _ in range(device["count"]):
            found[f"CUDA{n}"] = memory_of(device)
            n += 1
    return found, n


def ask(vram, path, options, cards=1, room=ROOM):
    """`options` are ours. 0 cards: none at all."""
    command = [vram, "fit", path, "--engine", "llama.cpp", "--json"]
    command += ["--gpu", room] * cards if cards else ["--gpu", "none"]
    ran = subprocess.run(command + options, capture_output=True, check=False, text=True)
    if ran.returncode not in (0, 1, 3) or not ran.stdout.startswith("{"):
        raise Refused((ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"])[0])
    answer = json.loads(ran.stdout)
    memories, n = memories_of(answer["devices"])
    if n != cards:
        raise Refused(f"{cards} cards were given, {n} answered for")
    return Answer(memories, answer["verdict"], answer["engine"]["version"])
