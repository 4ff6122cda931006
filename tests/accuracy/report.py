#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""llama.cpp's own figures beside those of `vram fit`, from files of cases:

    report.py VRAM SOURCE-ROOT [CASES.jsonl...] [-v] [-j N] [--only TEXT] [--markdown FILE]

CASES.jsonl are in the formats of data/llamacpp/virtual_device_cases.jsonl (bytes that llama.cpp asked of a virtual CUDA
device) and gpu_log_cases.jsonl (what it printed on real cards) of the folder VRAM_DATA, otherwise ../shared beside the
source; without any, both. -v prints a line for each figure: case, memory, quantity, foretold, actual, error, basis. --only
leaves the cases whose name has the text. --markdown rewrites the part of FILE that is made by this command.

The exit status is 1 where something that must hold does not."""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import figures  # noqa: E402
import page  # noqa: E402
import real_logs  # noqa: E402
import virtual_device  # noqa: E402
from data_folder import data_file, make_gguf  # noqa: E402

BOTH = ("virtual_device_cases.jsonl", "gpu_log_cases.jsonl")


def lines_of(path, only):
    """Cases of a file, and whether they are logs."""
    with open(path, encoding="utf-8") as lines:
        found = [line for line in lines if only in line]
    return found, bool(found) and "printed_MiB" in json.loads(found[0])


def virtual_tables(outcome):
    rows = outcome.rows
    return ["Figures that are exact to the byte, each card's by itself. Of two cards, what is measured by llama-fit-params (`--tool fit-params`).", "",
            *figures.by_kind(rows), "", *figures.by_architecture(rows), "", *figures.by_basis(rows), "",
            f"Refused by llama.cpp, and not called possible here: {outcome.refusals - len(outcome.wrongly_run)} of {outcome.refusals}."]


def run(args, path):
    lines, logs = lines_of(path, args.only)
    if not lines:
        return virtual_device.Outcome(), [], [f"{path}: no cases"]
    if logs:
        outcome = real_logs.run(args.vram, lines, make_gguf(args.root))
        return outcome, real_logs.tables(outcome), real_logs.misses(outcome)
    outcome = virtual_device.run(args.vram, lines, make_gguf(args.root), args.jobs)
    return outcome, virtual_tables(outcome), [] if args.only else virtual_device.misses(outcome)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vram")
    parser.add_argument("root")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown")
    args = parser.parse_args()
    text, missed = [], []
    for path in args.cases or [data_file(args.root, "data/llamacpp/" + name) for name in BOTH]:
        outcome, tables, misses = run(args, path)
        if args.v:
            print("\n".join(figures.listing(outcome.rows + outcome.compute)))
        print("\n".join(tables))
        text += [*tables, ""]
        missed += misses
    if args.markdown:
        page.rewrite(args.markdown, "tests/accuracy/report.py", text[:-1])
    for miss in missed:
        print("MISSED", miss)
    return 1 if missed else 0


sys.exit(main())
