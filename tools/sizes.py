#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the parameters of built-in models against the sizes that their publishers put into the names.

    vram models --json | sizes.py        prints the rows that are outside

A size is rounded or cut: from half a unit of its last digit under it to a whole one over it ("7b": 6.5 to 8 billion,
"0.6b": 0.55 to 0.7). Of "8x7b" 7 billion are one of 8 that share all but the experts: at least one, at most eight of
them. What is outside is for a person to judge: some names count a part (a decoder without its tower, no embeddings).
"""
import json
import re
import sys

SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.(\d+))?)b(?![\w.])")  # the first in a name: what follows an a is active


def bounds(match):
    times, size, digits = match.groups()
    unit = 10 ** -len(digits or "")
    if times:
        return float(size), int(times) * (float(size) + unit)
    return float(size) - unit / 2, float(size) + unit


def main():
    held = 0
    for model in json.load(sys.stdin)["models"]:
        match, count = SIZE.search(model["name"]), model["parameters"]
        if match is None or count is None:
            continue
        held += 1
        least, most = bounds(match)
        if not least <= count / 1e9 <= most:
            print("%-45s %9.3f, by its name %g to %g" % (model["name"], count / 1e9, least, most))
    print("%d names state a size" % held)


if __name__ == "__main__":
    main()
