#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Answers and settings that are sought of llama.cpp and Ollama, where each allocation fails in turn: small models of the
facts, one with experts, one with states beside attention.

    starved_cases.py STARVED SOURCE-ROOT
"""
import os
import subprocess
import sys
import tempfile

STARVED, ROOT = sys.argv[1:3]
sys.path.insert(0, os.path.join(ROOT, "tests/oracle/llamacpp"))
import gguf  # noqa: E402

FACTS = os.path.join(ROOT, "tests/oracle/llamacpp/facts")
# architecture, engine, what is sought, every so many-th allocation, cards
CASES = (
    ("qwen3moe", "llama.cpp", "", 1, ("1GiB",)),
    ("qwen3moe", "llama.cpp", "experts", 1, ("1GiB",)),
    ("qwen3moe", "llama.cpp", "split", 1, ("1GiB", "2GiB")),
    ("qwen3moe", "llama.cpp", "ubatch", 1, ("1GiB", "2GiB", "3GiB")),
    ("qwen3moe", "ollama", "", 1, ("1GiB",)),
    ("qwen3moe", "ollama", "context", 1, ("1GiB", "2GiB")),
    ("qwen3next", "llama.cpp", "", 1, ("1GiB", "2GiB")),
    ("qwen3next", "llama.cpp", "context", 1, ("1GiB",)),
    ("qwen3next", "llama.cpp", "sequences", 1, ("1GiB", "2GiB")),
    ("qwen3next", "ollama", "", 1, ("1GiB", "2GiB")),
    ("qwen3next", "ollama", "context", 1, ("1GiB",)),
    ("falcon-h1", "llama.cpp", "ngl", 1, ("1GiB",)),
    ("gemma3n", "llama.cpp", "cache", 1, ("1GiB",)),
    ("deepseek2", "llama.cpp", "ngl", 1, ("1GiB", "1GiB")),
)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as room:
        for arch, engine, sought, step, cards in CASES:
            models = gguf.models(os.path.join(FACTS, arch + ".tsv"))
            keys, tensors, _ = models[next(iter(models))]
            path = os.path.join(room, arch + ".gguf")
            gguf.write(path, keys, tensors)
            done = subprocess.run([STARVED, engine, sought, str(step), path, *cards], stdout=subprocess.PIPE,
                                  universal_newlines=True)
            failed += done.returncode != 0
            print(arch, engine, sought or "fit", *cards, done.stdout, sep="\n" if done.returncode else " ", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
