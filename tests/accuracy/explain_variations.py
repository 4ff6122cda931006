#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same message in other clothes, and with figures that must change the answer:

    explain_variations.py VRAM [CASES.jsonl] [--seeds N] [--from N] [--parity even|odd|all] [--quarter REST...] [--only WORDS] [-v] [--show N]

Texts: the examples of data/error_texts.tsv, and with CASES.jsonl those of that file too (format: explain.py; VRAM_DATA is
not looked at). A seed is one text and what happens to it: one or two of the ways of explain_changes.py, all sizes times a
factor, a cut, or several ranks in one log. The answer to the plain text must be kept: cause, memory, certainty, figures. Then
each of PyTorch's messages gets figures of explain_arithmetic.py, which must change it. The same seed is the same
variation. --only: ways or texts whose name has the words. --show prints the text of one seed.

The exit status is 1 where something does not hold."""
import argparse
import collections
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import explain  # noqa: E402
import explain_arithmetic  # noqa: E402
import explaining  # noqa: E402
from explain_changes import CAUSE, CHANGES, FIGURES, quiet_lines, scaled_text  # noqa: E402

TABLE = os.path.join(HERE, "../../data/error_texts.tsv")
CERTAINTY = {word: n for n, word in enumerate(reversed(explaining.CERTAINTIES))}
GIB = 1 << 30
OUTSIDE_BOUNDS = (0, GIB * 15 // 100, GIB * 11 // 10, GIB * 13 // 10, GIB * 5 // 2)  # where the rules change their mind
Base = collections.namedtuple("Base", "id text plain")
Outcome = collections.namedtuple("Outcome", "way base seed wrong")


def examples():
    with open(TABLE, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    at = {name: n for n, name in enumerate(rows[0])}
    return [(row[at["id"]], row[at["example"]].replace("\\n", "\n")) for row in rows[1:] if len(row) > at["example"] and row[at["example"]]]


def bases(vram, args):
    """Texts with their plain answers; those that are not recognised at all are left out, and logs without the message."""
    texts = examples()
    if args.cases:
        texts += [(c["id"], c["log"]) for c in explain.cases_of(args.cases, args.parity, (), args.quarter) if c["log_kind"] in ("verbatim", "partial")]
    found = [Base(id_, text, explaining.ask(vram, text)) for id_, text in texts]
    return [b for b in found if b.plain.all]


# ---- what must be kept ----

def figures_of(answer):
    return {**{k: v for k, v in answer.facts.items() if k not in ("processes", "process_id")}, **{f"process {k}": v for k, v in explaining.process_pairs(answer).items()}}


def compare(plain, varied, loses=frozenset()):
    """What of the plain answer is not kept, a sentence each."""
    less = FIGURES in loses
    if not varied.all:
        return ["nothing recognised"]
    wrong = []
    if CAUSE not in loses and varied.cause != plain.cause and not (less and varied.cause == "unknown"):
        wrong.append(f"cause {varied.cause} for {plain.cause}")
    if varied.memory != plain.memory and not (less and varied.memory == "unknown"):
        wrong.append(f"memory {varied.memory} for {plain.memory}")
    if CAUSE not in loses and CERTAINTY[varied.certainty] != CERTAINTY[plain.certainty] and not (less and CERTAINTY[varied.certainty] < CERTAINTY[plain.certainty]):
        wrong.append(f"{varied.certainty} for {plain.certainty}")
    mine, theirs = figures_of(plain), figures_of(varied)
    for name in sorted({**mine, **theirs}):
        if mine.get(name) != theirs.get(name) and not (less and (name not in theirs or name not in mine)):
            wrong.append(f"{name} {theirs.get(name)} for {mine.get(name)}")
    return wrong


# ---- ways ----

def chain(r, text, changes):
    """None where one of them cannot happen."""
    for change in changes:
        text = change.make(r, text) if text is not None else None
    return text


def dressed(vram, r, base, args):
    """One or two ways after each other, in the order in which they come about."""
    chosen = sorted(r.sample(CHANGES, 2 if r.random() < 0.35 else 1), key=lambda c: c.stage)
    if len({c.stage for c in chosen}) < len(chosen):
        chosen = chosen[:1]
    text = chain(r, base.text, chosen)
    return " + ".join(c.name for c in chosen), text, lambda answer: compare(base.plain, answer, set().union(*(c.loses for c in chosen)))


def outside_of(answer):
    have = [explaining.figure(answer, n) for n in ("total", "free", "reserved")]
    return None if None in have[:2] else have[0] - have[1] - (have[2] or 0)


def band(outside):
    return None if outside is None else sum(outside >= b for b in OUTSIDE_BOUNDS)


def scaled(vram, r, base, args):
    """All sizes times a factor: no relation between them changes."""
    k = r.choice((0.87, 0.93, 1.04, 1.1, 1.21))
    text, values = scaled_text(base.text, k)
    outside = outside_of(base.plain)
    if not values or (outside is not None and (band(outside * k * 0.98) != band(outside) or band(outside * k * 1.02) != band(outside))):
        text = None

    def wrong(answer):
        if not answer.all:
            return ["nothing recognised"]
        found = [] if answer.cause == base.plain.cause else [f"cause {answer.cause} for {base.plain.cause}"]
        found += [] if answer.memory == base.plain.memory else [f"memory {answer.memory} for {base.plain.memory}"]
        for name, was in figures_of(base.plain).items():
            now = figures_of(answer).get(name)
            size = (name.endswith("_bytes") or name.startswith("process ")) and isinstance(was, int)
            if now is None or (size and was != now and all(abs(abs(now) - v) > 2 for v in values)):
                found.append(f"{name} {now} for {was} times {k}")
        return found
    return f"sizes times {k}", text, wrong


def cut(vram, r, base, args):
    """Lines before the first and behind the last that the answer cites are gone."""
    first = base.plain.all[0]
    cited = [e["line"] for e in first["evidence"] if e.get("line")] + ([first["line"]] if first.get("line") else [])
    lines = base.text.splitlines(True)
    if not cited or len(lines) < 3:
        return "cut", None, None
    if r.random() < 0.5 and min(cited) > 2:
        return "head cut", "".join(lines[r.randrange(1, min(cited) - 1):]), lambda answer: compare(base.plain, answer, {FIGURES})
    if max(cited) < len(lines):
        return "tail cut", "".join(lines[:r.randrange(max(cited), len(lines))]), lambda answer: compare(base.plain, answer, {FIGURES})
    return "cut", None, None


def alone(vram, r, base, args):
    """The line of the message without all that stood around it: nothing is surer then, no figure is new."""
    line, lines = base.plain.all[0].get("line"), base.text.split("\n")
    if not line or len(lines) < 3:
        return "message alone", None, None

    def wrong(answer):
        if not answer.all:
            return []
        found = [w for w in compare(base.plain, answer, {CAUSE, FIGURES}) if " None " not in w]
        if CERTAINTY[answer.certainty] > CERTAINTY[base.plain.certainty]:
            found.append(f"{answer.certainty} for {base.plain.certainty}")
        return found
    return "message alone", lines[line - 1], wrong


def ranks(vram, r, base, args):
    """Several processes print the same at the same time; each on its card, the sizes of each a little larger."""
    n = r.choice((2, 4, 8))
    if re.search(r"(?i)rank|worker", base.text) or len(base.text) > 4000:
        return "ranks interleaved", None, None
    own = [re.sub(r"(?<=GPU )\d(?=;| has a total)", lambda m: str((int(m[0]) + i) % 8), scaled_text(base.text, 1 + i / 1000)[0]).splitlines() for i in range(n)]
    left, out = [0] * n, []
    while any(left[i] < len(own[i]) for i in range(n)):
        i = r.choice([i for i in range(n) if left[i] < len(own[i])])
        for _ in range(r.randrange(1, 3)):
            if left[i] < len(own[i]):
                out.append(f"[rank{i}]: {own[i][left[i]]}\n")
                left[i] += 1

    def wrong(answer):
        of_one = [compare(explaining.ask(vram, "\n".join(lines)), answer) for lines in own]
        return min(of_one, key=len)
    return "ranks interleaved", "".join(out), wrong


WAYS = ((dressed, 80), (scaled, 8), (cut, 6), (alone, 4), (ranks, 6))


def vary(vram, args, of, seed):
    """Name of the way, base, text (None: cannot happen), what to ask of the answer."""
    r = random.Random(f"explain {seed}")
    base = r.choice(of)
    way = r.choices([w for w, _ in WAYS], [n for _, n in WAYS])[0]
    name, text, wrong = way(vram, r, base, args)
    return name, base, text, wrong


def tried(vram, text, wrong):
    try:
        return wrong(explaining.ask(vram, text))
    except explaining.Failed as e:
        return [str(e)]


def keeping(vram, args, of):
    for seed in range(args.first, args.first + args.seeds):
        name, base, text, wrong = vary(vram, args, of, seed)
        if text is not None and (args.only in name or args.only in base.id):
            yield Outcome(name, base.id, seed, tried(vram, text, wrong))


def changing(vram, args, of):
    times = 1 + args.seeds // 1000
    for base in of:
        if not explain_arithmetic.spot(base.text):
            continue
        for check in explain_arithmetic.CHECKS:
            for n in range(times if args.only in check.name or args.only in base.id else 0):
                text = check.make(random.Random(f"{check.name} {args.first + n}"), base.text)
                yield Outcome(check.name, base.id, args.first + n, tried(vram, text, lambda answer: list(check.wrong(answer.all[0], base.text)) if answer.all
                                                           else ["nothing recognised"]))


def report(outcomes, verbose):
    groups = collections.defaultdict(list)
    for outcome in outcomes:
        for way in outcome.way.split(" + "):
            groups[way].append(outcome)
    for way in sorted(groups):
        bad = [o for o in groups[way] if o.wrong]
        print(f"{way}: {len(groups[way])} tried, {len(bad)} do not hold")
        for o in bad if verbose else bad[:3]:
            print(f"    {o.base}, seed {o.seed}{', ' + o.way if o.way != way else ''}: " + "; ".join(o.wrong))
    bad = sum(bool(o.wrong) for o in outcomes)
    print(f"{len(outcomes)} variations, {bad} do not hold")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vram")
    parser.add_argument("cases", nargs="?")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--parity", choices=("even", "odd", "all"), default="all")
    parser.add_argument("--quarter", type=int, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--show", type=int)
    args = parser.parse_args()
    of = bases(args.vram, args)
    if not of:
        print("no text is recognised")
        return 1
    if args.show is not None:
        text = vary(args.vram, args, of, args.show)[2] or "cannot happen to this text"
        sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode())
        return 0
    return 1 if report([*keeping(args.vram, args, of), *changing(args.vram, args, of)], args.v) else 0


if __name__ == "__main__":
    sys.exit(main())
