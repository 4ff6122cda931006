#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights and caches in every memory of GGUF files of known models (tools/make_gguf.py of the folder VRAM_DATA,
otherwise ../shared beside the source) against what llama.cpp b10470 asked of virtual CUDA devices and of the host
(data/llamacpp/virtual_device_cases.jsonl), to the byte.

    placed_cases.py MEASURED SOURCE-ROOT [-v]
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from data_folder import data_file, make_gguf  # noqa: E402
from placed_words import settings  # noqa: E402

MEASURED, ROOT = sys.argv[1], sys.argv[2]


def figures(told, what):
    """By memory; without a GPU what is laid out anew for the CPU is no memory of its own."""
    out = {}
    for name, kinds in told.items():
        name = "CPU" if name == "CPU_REPACK" else name
        out[name] = out.get(name, 0) + kinds[what]
    return {name: n for name, n in out.items() if n}


def ours_of(answer):
    out = {}
    for name, figures_ in answer.items():
        if isinstance(figures_, list):
            out[name] = dict(zip(("model", "context", "compute"), figures_))
    return out


def main():
    gguf = make_gguf(ROOT)
    with open(data_file(ROOT, "data/llamacpp/virtual_device_cases.jsonl"), encoding="utf-8") as lines:
        cases = [case for case in map(json.loads, lines) if not case["error"] and case["bytes"]]
    wrong, exact_compute = [], 0
    with tempfile.TemporaryDirectory() as folder:
        paths, asked = {}, []
        for case in cases:
            key = (case["model"], case["file_type"])
            if key not in paths:
                paths[key] = os.path.join(folder, f"{len(paths)}.gguf")
                gguf.make(*key, paths[key], "none")
            asked.append("\t".join([paths[key], *settings(case)]))
        ran = subprocess.run([MEASURED], input="\n".join(asked) + "\n", capture_output=True, check=True, text=True)
    for case, line in zip(cases, ran.stdout.splitlines()):
        answer = json.loads(line)
        ours = ours_of(answer)
        for what in ("model", "context"):
            if "error" in answer or figures(ours, what) != figures(case["bytes"], what):
                wrong.append((case["case"], what, figures(ours, what) if ours else answer, figures(case["bytes"], what)))
        for name, value in case["effective"].items() if case["effective"] else ():
            if name in answer and answer[name] != value:
                wrong.append((case["case"], name, answer[name], value))
        exact_compute += ours != {} and figures(ours, "compute") == figures(case["bytes"], "compute")
    print(f"{len(cases)} cases, {len({w[0] for w in wrong})} different; compute buffers exact: {exact_compute}")
    for line in wrong if "-v" in sys.argv else wrong[:8]:
        print(*line)
    return 1 if wrong or len(cases) < 700 else 0


sys.exit(main())
