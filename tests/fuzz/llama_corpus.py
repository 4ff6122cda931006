#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heads of GGUF files for fuzz_llama, a model of each file of facts: llama_corpus.py GGUF.PY FACTS... FILE...

Each behind the eight bytes that settings are drawn from; the data is left out."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import gguf  # noqa: E402


def main():
    paths = sys.argv[2:]
    facts, files = paths[:len(paths) // 2], paths[len(paths) // 2:]
    for i, (path, out) in enumerate(zip(facts, files, strict=True)):
        keys, tensors, _ = next(iter(gguf.models(path).values()))
        with open(out, "wb") as f:
            f.write((i * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little"))
            f.write(gguf.head(keys, tensors))


main()
