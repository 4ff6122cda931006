#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GGUF files of known models, made by tools/make_gguf.py of the folder VRAM_DATA (otherwise ../shared beside the source),
in `vram fit`: weights, caches and compute buffers of each card and of the host against what llama.cpp b10470 asked of
virtual CUDA devices (data/llamacpp/virtual_device_cases.jsonl), to the byte. The recorded runs only measured, as
--tool fit-params does: over several cards that places some copies otherwise than a run that loads.

    llamacpp_cases.py VRAM SOURCE-ROOT [-v]
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from data_folder import data_file, make_gguf  # noqa: E402

VRAM, ROOT = sys.argv[1], sys.argv[2]
SAME = {"-fa", "-b", "-ub", "-ctk", "-ctv", "-ngl", "-ts", "--n-cpu-moe"}
SAME_FLAGS = {"--no-kv-offload", "--cpu-moe"}


def arguments(case):
    """Ours for llama.cpp's. Its -c is that of all sequences; -c 0 is the trained length. What was recorded had logits
    of a whole batch unless it says otherwise: then of one, as a server has."""
    words, out, sequences = case["options"].split(), [], "1"
    while words:
        word = words.pop(0)
        if word == "-c":
            out += ["--n-ctx", str(int(words.pop(0)) or case["shape"]["ctx"])]
        elif word == "-np":
            sequences = words.pop(0)
        elif word in SAME:
            out += [word, words.pop(0)]
        else:
            assert word in SAME_FLAGS, word
            out.append(word)
    outputs = case["env"].get("N_OUTPUTS_MAX")
    assert outputs is None or outputs == sequences, case
    out += ["-np", sequences, "--tool", "server" if outputs else "fit-params"]
    out += ["--kv-unified"] if "KVU" in case["env"] else []
    return out


def fit(path, cards, options):
    ran = subprocess.run([VRAM, "fit", path, "--gpu", f"{cards}x4096GiB", "--json", *options], capture_output=True,
                         check=False)
    assert ran.returncode == 0, (path, options, ran.stderr, ran.stdout[-400:])
    answer = json.loads(ran.stdout)
    assert answer["engine"] == {"name": "llama.cpp", "version": "b10470"}
    out = {}
    for memory in answer["devices"]:
        ledger, host = memory["ledger"], memory["kind"] == "host"
        name = "host" if host else f"CUDA{memory['rank']}"
        compute = memory["compute_bytes"] if host else ledger["activations"]["bytes"]
        out[name] = {"model": ledger["weights"]["bytes"], "context": ledger["kv_cache"]["bytes"], "compute": compute}
    return out


def told(case):
    out = {}
    for name, kinds in case["bytes"].items():
        to = out.setdefault("host" if name in ("CPU", "CUDA_Host") else name, {"model": 0, "context": 0, "compute": 0})
        for kind, size in kinds.items():
            to[kind] += size
    return out


def read_cases():
    found = {}
    with open(data_file(ROOT, "data/llamacpp/virtual_device_cases.jsonl"), encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            if case["error"] or not case["bytes"] or case["device"] != "virtual-cuda":
                continue
            found.setdefault((case["model"], case["file_type"]), []).append(case)
    return found


def main():
    gguf = make_gguf(ROOT)
    checked, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for (model, file_type), list_ in sorted(read_cases().items()):
            gguf.make(model, file_type, path, "none")
            for case in list_:
                cards = int(case["env"].get("FAKE_NDEV", "1"))
                ours, theirs = fit(path, cards, arguments(case)), told(case)
                checked += 1
                if ours != theirs:
                    wrong.append((case["case"], case["options"], ours, theirs))
    print(f"{checked} cases, {len(wrong)} different")
    for line in wrong if "-v" in sys.argv else wrong[:5]:
        print(*line)
    return 1 if wrong or checked < 600 else 0


sys.exit(main())
