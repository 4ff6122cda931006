# SPDX-License-Identifier: MIT
"""Model buffers and caches that llama.cpp and its kin printed on real cards (data/llamacpp/gpu_log_cases.jsonl), beside
`vram fit` on files built from what each log says of its model (logged_model.py).

Of several cards the sum is compared unless the command says how they share. exceptions.tsv lists what is not
compared or is off, with the reason; a line there that nothing needs fails too."""
import csv
import json
import os
import re
import shlex
import tempfile

import figures
import logged_model
from asking import HOST, MIB, Refused, ask
from figures import CARDS, Row

HERE = os.path.dirname(os.path.abspath(__file__))
PER_CENT = 0.02
KINDS = ("weights", "cache", "host weights", "host cache")
# Builds of logs that say when only: by release dates.
DATED = {"lg172": "b9030", "lg173": "b6900", "lg174": "b10470", "lg175": "b10470", "lg177": "b4000", "lg191": "b5700",
         "lg192": "b9950", "lg196": "b9000"}


def is_card(name):
    return re.fullmatch(r"(CUDA|ROCm|Vulkan|SYCL|Metal)\d+|CUDA_Split", name) is not None


def once(buffers):
    """A log of several loads of the same has its buffers as many times."""
    for n in (3, 2):
        part = len(buffers) // n
        if len(buffers) % n == 0 and part and buffers == buffers[:part] * n:
            return buffers[:part]
    return buffers


def printed(log):
    """Bytes by (quantity, on cards): value and how much two decimals of each buffer may hide."""
    told, found = log["printed_MiB"], {}
    for quantity, key in (("weights", "model_buffers"), ("cache", "kv_buffers"), ("cache", "rs_buffers")):
        for name, size in once(told.get(key) or []):
            at = (quantity, is_card(name))
            value, within = found.get(at, (0, 0))
            found[at] = (value + size * MIB, within + 0.0051 * MIB)
    for name, memory in (told.get("breakdown") or {}).items():
        for quantity, key in (("weights", "model"), ("cache", "context")):
            if key in memory:
                found[(quantity, is_card(name))] = ((memory[key] + 0.5) * MIB, 0.51 * MIB)
    return found


def cache_types(log):
    """What keys and values are kept as: "K (q8_0): ..., V (f16): ...", "c^KV (q8_0): ..."."""
    line = " ".join(log["printed_MiB"].get("kv_line") or [])
    keys, values = re.search(r"(?:K|c\^KV) \((\w+)\)", line), re.search(r"V \((\w+)\): +\d+", line.replace("c^KV", "c"))
    key = keys.group(1) if keys else "f16"
    return key, values.group(1) if values and "c^KV" not in line else key


def overrides(log):
    """Pairs of -ot, and whether the command is whole."""
    command = log["options"].get("command") or ""
    try:
        words, whole = shlex.split(command.replace("\\", "\\\\").replace(">", " ")), True
    except ValueError:
        words, whole = [], False
    found = []
    for word, value in zip(words, words[1:]):
        if word in ("-ot", "--override-tensor"):
            found += [tuple(pair.rsplit("=", 1)) for pair in value.split(",") if "=" in pair]
    return found, whole and "-ot" in command or not command or "-ot" not in command


def before_output_counted(log):
    return log["engine"] == "ik_llama.cpp" or str(log["build"]).startswith(("2024", "2025-0"))


def build_of(log):
    """Of llama.cpp itself; ik_llama.cpp counts apart."""
    if log["engine"] == "ik_llama.cpp":
        return None
    found = re.match(r"(?:b(\d+)$|(\d+) \()", str(log["build"]))
    return "b" + (found.group(1) or found.group(2)) if found else DATED.get(log["id"])


def compute_printed(log):
    """Of the only card, and of the host, where llama.cpp itself printed them and its build and settings are known."""
    if any(log["options"].get(k) is None for k in ("n_ctx", "n_batch", "n_ubatch", "flash_attn")):
        return {}
    buffers = log["printed_MiB"].get("compute_buffers") or []
    cards = [size for name, size in buffers if is_card(name)]
    host = [size for name, size in buffers if not is_card(name)]
    if build_of(log) is None or len(cards) != 1:
        return {}
    return {card: sizes[0] * MIB for card, sizes in ((True, cards), (False, host)) if len(sizes) == 1}


def options_of(log, pairs):
    told = log["options"]
    words = ["--n-ctx", str(told.get("n_ctx") or 4096), "-np", str(told.get("n_seq_max") or 1), "-ub", str(told.get("n_ubatch") or 512)]
    key, value = cache_types(log)
    words += ["-ctk", key, "-ctv", value, "-b", str(told.get("n_batch") or 2048)]
    if told.get("flash_attn") is not None:
        words += ["-fa", "off" if told["flash_attn"] == 0 or "forced off" in str(told["flash_attn"]) else "on"]
    words += ["--tool", "server" if "llama-server" in (told.get("command") or "") + (told.get("note") or "") else "cli"]
    words += ["--engine-version", build_of(log)] if build_of(log) else []
    if told.get("offloaded"):
        layers, of = map(int, told["offloaded"].split("/"))
        # Until then -ngl did not count the output layer, unless everything was on the cards.
        words += ["-ngl", str(layers + (0 < layers < of and before_output_counted(log)))]
    elif any(is_card(name) for key in ("model_buffers", "kv_buffers") for name, _ in log["printed_MiB"].get(key) or []):
        words += ["-ngl", "999"]
    if "-nkvo" in (told.get("command") or "") or "--no-kv-offload" in (told.get("command") or ""):
        words += ["--no-kv-offload"]
    if log["engine"] == "ik_llama.cpp":
        words += ["--swa-full"]  # its sliding layers keep every token
    for pattern, where in pairs:  # which card is of no matter for the sum
        words += ["-ot", f"{pattern}={'CPU' if where == 'CPU' else 'CUDA0'}"]
    return words


class Outcome:
    def __init__(self):
        self.ids, self.rows, self.why, self.silent, self.compute = set(), [], {}, [], []

    def miss(self, log, kind, why):
        self.why[(log["id"], kind)] = why


def kind_name(quantity, card):
    return quantity if card else "host " + quantity


def compare(vram, G, log, path, outcome):
    told = printed(log)
    if not told:
        outcome.silent.append(log["id"])
        return
    try:
        pairs, _ = overrides(log)
        made = logged_model.make(G, log, path, pairs)
        answer = ask(vram, path, options_of(log, pairs))
    except (Refused, logged_model.Unbuildable) as failed:
        for quantity, card in told:
            outcome.miss(log, kind_name(quantity, card), str(failed))
        return
    for card, size in compute_printed(log).items():
        figure = answer.memories.get("CUDA0" if card else HOST, {}).get("compute")
        if figure is not None:
            outcome.compute.append(Row(log["id"], build_of(log), log["engine"], CARDS if card else HOST, "compute", figure.bytes,
                                       round(size), figure.basis, 0.0051 * MIB))
    for (quantity, card), (size, within) in told.items():
        compare_one(log, made, answer, quantity, card, size, within, outcome)


def compare_one(log, made, answer, quantity, card, size, within, outcome):
    memory, kind = "CUDA0" if card else HOST, kind_name(quantity, card)
    figure = answer.memories[memory][quantity] if memory in answer.memories else None
    why = made.why[card] if quantity == "weights" else None if log["options"].get("n_ctx") else "its context is not logged"
    if why is None and (figure is None or figure.bytes is None):
        why = "not counted"
    if why is not None:
        outcome.miss(log, kind, why)
        return
    if quantity == "weights" and card:
        size -= made.left_out
    outcome.rows.append(Row(log["id"], log["model"].get("arch") or "-", log["engine"], CARDS if card else HOST, quantity, figure.bytes,
                            round(size), figure.basis, within))


def run(vram, lines, G):
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for log in map(json.loads, lines):
            outcome.ids.add(log["id"])
            compare(vram, G, log, path, outcome)
    return outcome


def exceptions():
    with open(os.path.join(HERE, "exceptions.tsv"), encoding="utf-8") as f:
        rows = csv.DictReader((line for line in f if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
        return {(row["id"], row["quantity"]): row["reason"] for row in rows}


def holds(row):
    return figures.exact(row) or abs(figures.off(row)) <= PER_CENT


def name_of(row):
    return row.case, kind_name(row.quantity, row.memory == CARDS)


def misses(outcome):
    listed = exceptions()
    bad = {name_of(r): f"{figures.off(r):+.3f} %" for r in outcome.rows if not holds(r)}
    bad.update(outcome.why)
    found = [f"{log} {kind}: {why}" for (log, kind), why in bad.items() if (log, kind) not in listed]
    found += [f"{r.case} compute: called verified, {figures.off(r):+.3f} %" for r in outcome.compute if r.basis.endswith("verified") and not holds(r)]
    return found + [f"{log} {kind}: agrees or is not printed, and exceptions.tsv has it" for log, kind in listed
                    if log in outcome.ids and (log, kind) not in bad]


def tables(outcome):
    lines = []
    for kind in KINDS:
        rows = [r for r in outcome.rows if name_of(r)[1] == kind]
        good = sum(map(holds, rows))
        excepted = [k for k in exceptions() if k[1] == kind]
        lines.append([kind, str(len(rows) + len([k for k in outcome.why if k[1] == kind])), str(good), str(len(excepted))])
    return ["Each line that was printed; an exception is what the log says too little of, or ik_llama.cpp does otherwise, each with its reason in "
            "`tests/accuracy/exceptions.tsv`.", "", *figures.table(("printed", "logs", "within 0.02 % or as printed", "exceptions"), lines), "",
            *reasons(), "", "Compute buffers that llama.cpp printed in runs on one card whose build and settings are logged:", "", *of_compute(outcome)]


def reasons():
    by_reason = {}
    for (log, kind), reason in exceptions().items():
        by_reason.setdefault(reason, []).append((log, kind))
    lines = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return figures.table(("exceptions", "logs", "why"), [[str(len(which)), str(len({log for log, _ in which})), why] for why, which in lines])


def of_compute(outcome):
    told = [row for row in outcome.compute if row.predicted is not None]
    lines = [[row.case, row.arch, "card" if row.memory == CARDS else "host", f"{row.actual / MIB:.2f}", f"{row.predicted / MIB:.2f}",
              "0" if holds(row) else f"{figures.off(row):+.2f} %", row.basis] for row in told]
    untold = len(outcome.compute) - len(told)
    return (figures.table(("log", "build", "memory", "printed MiB", "here", "off by", "basis"), lines) if lines else []) + [
        f"{untold} of {len(outcome.compute)} are not counted: graphs of those builds are not known here."]
