#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GGUF files of known models, made by tools/make_gguf.py of the folder VRAM_DATA (otherwise ../shared beside the
source), as `vram inspect --json` reads them: every tensor against that tool's list, and what a token and a
sequence keep against llama.cpp's own figures in data/llamacpp/virtual_device_cases.jsonl.

    gguf_models.py VRAM SOURCE-ROOT
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from data_folder import data_file, make_gguf  # noqa: E402

VRAM, ROOT = sys.argv[1], sys.argv[2]
TYPES = ("Q4_K_M", "F16", "MXFP4")
FULL = {"qwen2.5-7b", "llama2-7b", "gemma3-270m"}  # with a vocabulary as long as the real one


def pad(x, to):
    return (x + to - 1) // to * to


def inspect(path):
    ran = subprocess.run([VRAM, "inspect", path, "--json", "--tensors"], capture_output=True, check=False)
    assert ran.returncode == 0, (path, ran.stderr)
    return json.loads(ran.stdout)


def check_tensors(made, seen):
    ours = {t["name"]: (t["shape"], t["dtype"], t["bytes"]) for t in seen["tensor_list"]}
    theirs = {name: (list(dims), dtype, size) for name, dims, dtype, size in made["list"]}
    assert ours == theirs, made["model"]
    assert seen["checkpoint_bytes"] == sum(size for _, _, size in theirs.values())
    assert seen["parameters"] == made["params"]
    assert seen["files"][0]["header_bytes"] == made["header_bytes"]
    assert seen["format"] == "gguf" and not seen["warnings"], seen["warnings"]


def check_shape(made, seen):
    shape, model = made["shape"], seen["model"]
    assert model["shape_known"] and not model["understood"]
    assert (model["layers"], model["hidden"], model["vocab"]) == (shape["n"], shape["d"], shape["vocab"])
    assert model["max_context"] == shape["ctx"] and model["tied"] == shape["tied"]
    assert model["heads"] == (shape["h"] or None), model
    assert model["experts"] == shape.get("ne")
    assert model["file_type"] == made["file_type"], model["file_type"]
    assert len(seen["layers"]) == shape["n"]


def context_bytes(seen, case):
    """What llama.cpp keeps with these options, from the facts of each layer."""
    effective, options = case["effective"], case["options"].split()
    cells, sequences = effective["n_ctx_seq"], effective["n_seq_max"]
    streams = 1 if "KVU" in case["env"] else sequences
    total = 0
    for layer in seen["layers"]:
        n = cells
        if layer["attention"] == "sliding":
            most = layer["window"] * (sequences if streams == 1 else 1) + effective["n_ubatch"]
            n = pad(min(cells, most), 256)
        total += streams * n * 2 * (layer["key_elements"] + layer["value_elements"])
        total += sequences * layer["state_bytes"]
    assert "-ctk" not in options
    return total


def read_cases():
    path = data_file(ROOT, "data/llamacpp/virtual_device_cases.jsonl")
    found = {}
    with open(path, encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            plain = not any(o in case["options"] for o in ("-ctk", "-ctv"))
            if plain and not case["error"] and case["bytes"]:
                found.setdefault(case["model"], []).append(case)
    return found


def main():
    gguf = make_gguf(ROOT)
    cases, files, checked, without = read_cases(), 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for name in gguf.MODELS:
            for file_type in TYPES:
                full = name in FULL and file_type == TYPES[0]
                made = gguf.make(name, file_type, path, "full" if full else "none")
                seen = inspect(path)
                check_tensors(made, seen)
                check_shape(made, seen)
                files += 1
            for case in cases.get(name, []):
                told = sum(b["context"] for b in case["bytes"].values())
                ours = context_bytes(seen, case)
                assert ours == told, (case["case"], ours, told)
                checked += 1
            if name not in cases:
                without.append(name)
    print(f"{files} files, {checked} caches to the byte; no figures of", *without)
    assert files == 3 * len(gguf.MODELS) and checked >= 500
    return 0


sys.exit(main())
