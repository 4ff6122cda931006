#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GGUF files of known models, made by tools/make_gguf.py of the folder VRAM_DATA (otherwise ../shared beside the source),
in `vram fit`: weights on the card and caches against what llama.cpp b10470 asked of a virtual CUDA device
(data/llamacpp/virtual_device_cases.jsonl), to the byte.

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
HAS_VALUE = {"-c", "-fa", "-b", "-ub", "-ctk", "-ctv", "-np", "-ngl", "-ts", "--n-cpu-moe", "-sm", "-fitt"}
LEFT_OUT = {"-ts": "two cards", "--cpu-moe": "experts in host memory", "--n-cpu-moe": "experts in host memory"}


def arguments(case):
    """Ours for llama.cpp's, and why the case is left out. Its -c is that of all sequences, ours of one; -c 0 is the
    trained length; of a batch (-b) shorter than -ub only that much is computed at once."""
    words, given, out = case["options"].split(), {}, []
    while words:
        word = words.pop(0)
        given[word] = words.pop(0) if word in HAS_VALUE else ""
    for word, why in LEFT_OUT.items():
        if word in given:
            return None, why
    if int(case["env"].get("FAKE_NDEV", "1")) != 1:
        return None, "two cards"
    sequences = int(given.get("-np", "1"))
    context = int(given.get("-c", "0")) or case["shape"]["ctx"]
    if context % sequences:
        return None, "a context that its sequences do not share evenly"
    out += ["-c", str(context // sequences), "-np", str(sequences)]
    for word in ("-ctk", "-ctv", "-ngl"):
        if word in given:
            out += [word, given[word]]
    out += ["-ub", str(min(int(given.get("-ub", "512")), int(given.get("-b", "2048"))))]
    out += ["--no-kv-offload"] if "--no-kv-offload" in given else []
    out += ["--kv-unified"] if "KVU" in case["env"] else []
    return out, None


def fit(path, options):
    ran = subprocess.run([VRAM, "fit", path, "--gpu", "4096GiB", "--json", *options], capture_output=True, check=False)
    assert ran.returncode == 3, (path, options, ran.stderr)
    answer = json.loads(ran.stdout)
    assert answer["engine"] == {"name": "llama.cpp", "version": "b10470"}
    ledger = answer["devices"][0]["ledger"]
    return ledger["weights"]["bytes"], ledger["kv_cache"]["bytes"]


def read_cases():
    found, left = {}, {}
    with open(data_file(ROOT, "data/llamacpp/virtual_device_cases.jsonl"), encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            if case["error"] or not case["bytes"] or case["device"] != "virtual-cuda":
                continue
            options, why = arguments(case)
            if why is not None:
                left[why] = left.get(why, 0) + 1
                continue
            found.setdefault((case["model"], case["file_type"]), []).append((case, options))
    return found, left


def main():
    gguf = make_gguf(ROOT)
    cases, left = read_cases()
    checked, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for (model, file_type), list_ in sorted(cases.items()):
            gguf.make(model, file_type, path, "none")
            for case, options in list_:
                told = case["bytes"]["CUDA0"]
                ours = fit(path, options)
                checked += 1
                if ours != (told["model"], told["context"]):
                    wrong.append((case["case"], case["options"], ours, told["model"], told["context"]))
    print(f"{checked} cases, {len(wrong)} different; left out:", ", ".join(f"{n} with {why}" for why, n in left.items()))
    for line in wrong if "-v" in sys.argv else wrong[:5]:
        print(*line)
    return 1 if wrong or checked < 500 else 0


sys.exit(main())
