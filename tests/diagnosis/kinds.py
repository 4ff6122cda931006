#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Texts as people paste them, of kinds that no table's example shows: cut messages, frames without their File
line, the last line of a launcher, one sentence. kinds.tsv says what an engineer would answer, and why.

    kinds.py VRAM kinds.tsv [-v]

A certainty with < before it is the most that may be said: such a text could end otherwise.
"""
import csv
import json
import subprocess
import sys

STEPS = ["unknown", "possible", "likely", "certain"]


def ask(vram, text):
    ran = subprocess.run([vram, "explain", "--json"], input=text.encode(), capture_output=True, check=False, timeout=60)
    found = json.loads(ran.stdout)["diagnoses"]
    return found[0] if found else {"cause": "unknown", "memory": "unknown", "certainty": "unknown", "text": None}


def wrong(row, got):
    """What differs, in words."""
    most = row["certainty"].startswith("<")
    certainty = row["certainty"].lstrip("<")
    says = []
    if got["cause"] not in row["cause"].split("|"):
        says.append(f"cause {got['cause']} for {row['cause']}")
    if row["memory"] and got["memory"] not in row["memory"].split("|"):
        says.append(f"memory {got['memory']} for {row['memory']}")
    if most and STEPS.index(got["certainty"]) > STEPS.index(certainty):
        says.append(f"{got['certainty']}, and at most {certainty} is known")
    elif certainty and not most and got["certainty"] != certainty:
        says.append(f"{got['certainty']} for {certainty}")
    return says


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    failed = 0
    for n, row in enumerate(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        text = row["text"].replace("\\n", "\n") + "\n"
        got = ask(sys.argv[1], text)
        says = wrong(row, got)
        failed += bool(says)
        if says:
            print(f"{n}: {'; '.join(says)} ({got['text']}): {row['text'][:110]} ({row['reason']})")
    return 1 if failed else 0


sys.exit(main())
