# SPDX-License-Identifier: MIT
"""A text given to `vram explain --json`, and its first diagnosis: what is compared with a case."""
import collections
import json
import re
import subprocess

CAUSES = ("weights", "gradients", "optimizer_states", "kv_cache", "activations", "runtime_overhead", "other_process",
          "device_placement", "limit", "host_ram", "driver_or_hardware", "not_capacity", "none", "unknown")
CERTAINTIES = ("certain", "likely", "possible", "unknown")
# Which memory a cause is about. A case says its cause only, so this is also the label of its memory.
MEMORY_OF_CAUSE = {"host_ram": "host", "driver_or_hardware": "none", "not_capacity": "none", "none": "none", "unknown": "unknown"}
# Ours are finer: an engine's own pool lies in GPU memory, /dev/shm in the computer's, and what a chip has for a block of
# threads is no memory that fills up.
MEMORY_LABEL = {"pool": "gpu", "shm": "host", "on_chip": "none"}
# What a case calls a figure, where our name is another one; of several the first that was read.
FIGURE_NAMES = {"request": ("request", "host_request", "buffer", "tensor"), "other": ("other_allocations",)}
DERIVED = ("format", "outside", "defrag_shortfall")  # no figures of the text

Answer = collections.namedtuple("Answer", "status cause memory phase certainty program text facts processes all raw")


class Failed(Exception):
    """No JSON, or an exit status that `vram explain` does not have; the sentence says which."""


def memory_of_cause(cause):
    return MEMORY_OF_CAUSE.get(cause, "gpu")


def answer_of(status, doc):
    list_ = doc["diagnoses"]
    if bool(list_) != (status == 0):
        raise Failed(f"exit status {status} with {len(list_)} diagnoses")
    first = list_[0] if list_ else {}
    facts = first.get("facts", {})
    memory = first.get("memory", "unknown")
    return Answer(status, first.get("cause", "unknown"), MEMORY_LABEL.get(memory, memory), first.get("phase", "unknown"),
                  first.get("certainty", "unknown"), first.get("program", ""), first.get("text"), facts,
                  facts.get("processes", first.get("processes", [])), list_, doc)


def ask(vram, text, options=(), seconds=60):
    """`text`: bytes, or words that become UTF-8; on standard input, and nothing else is given."""
    data = text.encode() if isinstance(text, str) else text
    try:
        ran = subprocess.run([vram, "explain", "--json", *options], input=data, capture_output=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done in {seconds} s") from None
    if ran.returncode not in (0, 1):
        words = ran.stderr.decode(errors="replace").strip().splitlines()
        raise Failed(f"exit status {ran.returncode}: " + (words[0] if words else "no word"))
    try:
        return answer_of(ran.returncode, json.loads(ran.stdout))
    except (ValueError, KeyError) as e:
        raise Failed(f"no JSON of explain: {e!r}") from None


def fact(facts, name):
    for suffix in ("_bytes", "", "_tokens"):
        if name + suffix in facts:
            return facts[name + suffix]
    return None


def figure(answer, name):
    """Bytes or a number that the answer has under a case's name; None: not read. Where a text prints two of allocated,
    reserved and idle, the third is their difference."""
    names = FIGURE_NAMES.get(name, (name,))
    found = next((v for v in (fact(answer.facts, n) for n in names) if v is not None), None)
    if found is None and name in ("idle", "reserved"):
        allocated, other = fact(answer.facts, "allocated"), fact(answer.facts, "reserved" if name == "idle" else "idle")
        if allocated is not None and other is not None:
            found = other - allocated if name == "idle" else other + allocated
    return found


def process_pairs(answer):
    found = {}
    for p in answer.processes:
        pid = p.get("process_id", p.get("pid", p.get("id")))
        found[pid] = p.get("process_bytes", p.get("bytes"))
    if not found and "process_bytes" in answer.facts:
        found[answer.facts.get("process_id")] = answer.facts["process_bytes"]
    return found


def figures_wrong(answer, figures):
    """A line for each figure of a case that the answer does not have so. What a text prints in GiB is cut or rounded to a
    byte: one byte is no difference, of a sum of two figures two."""
    wrong = []
    for name, want in figures.items():
        if name in DERIVED:
            continue
        if name == "processes":
            got = process_pairs(answer)
            wrong += [f"process {p['pid']}: {got.get(p['pid'])} for {p['bytes']}" for p in want
                      if got.get(p["pid"]) is None or abs(got[p["pid"]] - p["bytes"]) > 1]
            continue
        got = figure(answer, name)
        if got is None and want == 0 and name == "this_process":
            continue  # "0 bytes memory in use" stands for not known
        if got is None or abs(got - want) > 2:
            wrong.append(f"{name}: {got} for {want}")
    return wrong


def number_of(case_id, position):
    """A case's number, for its parity."""
    digits = re.findall(r"\d+", case_id)
    return int(digits[-1]) if digits else position
