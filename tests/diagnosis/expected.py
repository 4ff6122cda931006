#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which figures the examples of data/error_texts.tsv and data/log_signs.tsv hold, by a reading of its own.

    expected.py ROOT > texts_expected.tsv
    expected.py ROOT --check texts_expected.tsv     1 when the file is not what the examples hold now

One line a figure, in the order of the text: id of the row, name of the figure, value in the figure's unit
(bytes, tokens, a count, millionths). The reader in C is held against it by test_texts.c. Nothing is shared
with it but the tables: pieces of a template become patterns of Python's re, and values are fractions.
"""
import csv
import re
import sys
from fractions import Fraction

BINARY = {"": 1, "b": 1, "byte": 1, "bytes": 1}
DECIMAL = dict(BINARY)
for power, letter in enumerate("kmgt", 1):
    for name in (letter, letter + "b", letter + "i", letter + "ib"):
        BINARY[name] = 1024**power
        DECIMAL[name] = 1024**power if "i" in name else 1000**power

NUMBER = r"\s*([-+]?[0-9][0-9]*(?:[.,][0-9]+)?)"
SIZE = r"\s*([-+]?[0-9][0-9]*(?:[.,][0-9]+)?)\s*([KMGT]i?B?|bytes?|B)\b"
WHOLE = r"\s*([-+]?[0-9][0-9,]*)"
HOLES = {"size": SIZE, "size10": SIZE, "bytes": WHOLE, "int": WHOLE, "word": r"(\S+?)", "line": r"([^\n]+)"}
SCALES = {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "mb": 1000**2, "gb": 1000**3}
UNKNOWN = {2**64, 2**64 - 1}


def units(root):
    """Unit of each figure, from the list in src/diagnosis/facts.h."""
    text = open(f"{root}/src/diagnosis/facts.h", encoding="utf-8").read()
    return {m[2]: m[3] for m in re.finditer(r'X\((\w+), "(\w+)", (\w+),', text)}


def pattern_of(piece):
    """The pattern of a piece, and name and type of each hole."""
    parts = re.split(r"(\{\w*:\w+\})", piece)
    out, holes = "", []
    for part in parts:
        if part.startswith("{"):
            name, kind = part[1:-1].split(":")
            out += HOLES.get(kind, NUMBER)
            holes.append((name, kind))
        else:
            out += r"\s+".join(re.escape(word) for word in re.split(r"\s+", part))
    if piece.startswith("{"):
        out = r"(?<![0-9.,])" + out
    return re.compile(out, re.IGNORECASE), holes


BYTES = {"size", "size10", "bytes", *SCALES}
FITTING = {"BYTES": BYTES, "TOKENS": {"int"}, "COUNT": {"int"}, "MICRO": {"num"}}


def misread(template, unit_of):
    """A hole whose type cannot be its figure's; None: there is none."""
    for name, kind in re.findall(r"\{(\w+):(\w+)\}", template):
        if name not in unit_of or kind not in FITTING[unit_of[name]]:
            return f"{name}:{kind}"
    return None


def value_of(kind, unit, groups):
    """The value of one figure; None: it stands for "not known". Takes its groups off the list."""
    text = groups.pop(0)
    if kind in ("size", "size10"):
        scale = (BINARY if kind == "size" else DECIMAL)[groups.pop(0).lower()]
        value = Fraction(text.replace(",", ".")) * scale
    elif kind in ("bytes", "int"):
        value = Fraction(text.replace(",", ""))
    else:
        value = Fraction(text.replace(",", ".")) * SCALES.get(kind, 1)
    if abs(value) in UNKNOWN:
        return None
    return int(value * 1000000) if unit == "MICRO" else int(value)


def figures(template, example, unit_of):
    """Position, name and value of each figure of the example."""
    found = {}
    for piece in filter(None, template.split(" ~ ")):
        pattern, holes = pattern_of(piece.lstrip("*"))
        for match in pattern.finditer(example):
            groups, at = list(match.groups()), 1
            for name, kind in holes:
                position = match.start(at)
                at += 2 if kind in ("size", "size10") else 1
                if kind in ("word", "line"):
                    groups.pop(0)
                    continue
                value = value_of(kind, unit_of.get(name, "COUNT"), groups)
                if name and value is not None:
                    found[(position, name)] = value
            if not piece.startswith("*"):
                break
    return [(name, value) for (_, name), value in sorted(found.items())]


def lines_of(root):
    """The lines of texts_expected.tsv."""
    unit_of = units(root)
    yield "# SPDX-License-Identifier: MIT"
    yield "# Figures that the examples of data/ hold; made by expected.py from their text."
    for table in ("error_texts", "log_signs"):
        with open(f"{root}/data/{table}.tsv", encoding="utf-8") as file:
            lines = [line for line in file if not line.startswith("#")]
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            if misread(row["template"], unit_of):
                sys.exit(f"{row['id']}: {misread(row['template'], unit_of)} cannot be")
            example = row["example"].replace("\\n", "\n")
            for name, value in figures(row["template"], example, unit_of):
                yield f"{row['id']}\t{name}\t{value}"


def main():
    text = "\n".join(lines_of(sys.argv[1])) + "\n"
    if sys.argv[2:3] != ["--check"]:
        sys.stdout.write(text)
        return 0
    with open(sys.argv[3], encoding="utf-8") as file:
        if file.read() == text:
            return 0
    print("the examples hold other figures now: make the file again with expected.py")
    return 1


sys.exit(main())
