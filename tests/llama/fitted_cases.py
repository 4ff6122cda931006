#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What --fit makes of runs of GGUF files (tools/make_gguf.py of the folder VRAM_DATA, otherwise ../shared beside the
source) against what llama.cpp b10470 itself made of them (fitted.tsv): context, layers, split and overrides, all equal.

    fitted_cases.py FITTED SOURCE-ROOT [-v]
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
from data_folder import make_gguf  # noqa: E402

FITTED, ROOT = sys.argv[1], sys.argv[2]


def ours(gguf, room, files, row):
    model, *words = row
    if model not in files:
        files[model] = os.path.join(room, model + ".gguf")
        gguf.make(model, "Q4_K_M", files[model], "none")
    words[4] = str(int(words[4]) % 2**64)
    done = subprocess.run([FITTED], input="\t".join([files[model], *words]) + "\n", stdout=subprocess.PIPE,
                          universal_newlines=True, timeout=60)
    return json.loads(done.stdout)


def differences(answer, wanted):
    context, layers, split, overrides, first = wanted
    # It also lists a pattern for the layer behind the last one, which nothing has.
    got = len(answer["ot"])
    several = "," in split
    return [what for what, ok in (
        ("context", answer["n_ctx"] == int(context)), ("layers", answer["ngl"] == int(layers)),
        ("split", not several or answer["ts"] == [int(x) for x in split.split(",")]),
        ("overrides", int(overrides) - got in (0, 1)),
        ("first override", got == 0 or answer["ot"][0] == first)) if not ok]


def main():
    gguf = make_gguf(ROOT)
    with open(os.path.join(HERE, "fitted.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    failed, files = 0, {}
    with tempfile.TemporaryDirectory() as room:
        for row in rows:
            answer = ours(gguf, room, files, row[:10])
            wrong = differences(answer, row[10:])
            failed += bool(wrong)
            if wrong or "-v" in sys.argv:
                print(" ".join(row[:10]), wrong, answer["n_ctx"], answer["ngl"], answer["ts"], answer["ot"][:1], "wanted",
                      row[10:])
    print("%d passed, %d failed" % (len(rows) - failed, failed))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
