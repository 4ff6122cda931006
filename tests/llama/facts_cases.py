#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small models of every architecture, made from tests/oracle/llamacpp/facts/, against what llama.cpp itself asked of each
memory there (recorded by tests/oracle/llamacpp/): weights, caches and compute buffers, nodes and splits of the graph.

    facts_cases.py MEASURED SOURCE-ROOT [-v] [-bBUILD] [-oFOLDER] [ARCHITECTURE...]

-b: as that build of llama.cpp did it (default 10470). -o: runs of that build, where they differ from those in facts/.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

MEASURED, ROOT = sys.argv[1], sys.argv[2]
sys.path.insert(0, os.path.join(ROOT, "tests/oracle/llamacpp"))
import gguf  # noqa: E402
from facts_words import runs_of, settings  # noqa: E402

FACTS = os.path.join(ROOT, "tests/oracle/llamacpp/facts")


def other_runs(folder, file):
    """Facts by (model, options) of another build"""
    path = os.path.join(folder, file)
    if not folder or not os.path.exists(path):
        return {}
    return {(name, options): facts for name, (_, _, lines) in gguf.models(path).items() for options, facts in runs_of(lines)}


def memories(answer):
    return {name: figures for name, figures in answer.items() if isinstance(figures, list) and any(figures)}


def told(facts):
    out = {}
    for name, figures in facts["bytes"].items():
        to = out.setdefault("CPU" if name == "CPU_REPACK" else name, [0, 0, 0])
        for i, n in enumerate(figures):
            to[i] += n
    return {name: figures for name, figures in out.items() if any(figures)}


# Their models here have lists of sliding layers that no period gives, which builds from v0.5.0 on follow.
LISTED = {"gemma3n", "laguna"}


def compare(answer, facts):
    """What differs: a set of words."""
    if "error" in facts:
        refused = answer.get("refused") or "error" in answer or not answer["context_known"]
        return set() if refused else {"refused"}
    if "error" in answer or answer["refused"]:
        return {"started"}
    ours, theirs, out = memories(answer), told(facts), set()
    for name in ours.keys() | theirs.keys():
        for what, a, b in zip(("model", "context", "compute"), ours.get(name, [0] * 3), theirs.get(name, [0] * 3)):
            known = answer.get(f"{what}_known", True)
            if not known:
                out.add("known")
            elif a != b:
                out.add(what)
    if answer["compute_known"] and [answer["nodes"], answer["splits"]] != facts["graph"]["pp"]:
        out.add("graph")
    return out


def main():
    wanted = [w for w in sys.argv[3:] if w[0] != "-"]
    others = next((w[2:] for w in sys.argv[3:] if w[:2] == "-o"), "")
    build = next((w[2:] for w in sys.argv[3:] if w[:2] == "-b"), "10470")
    if others and not os.listdir(others):
        sys.exit(f"no facts in {others}")
    files = [os.path.join(FACTS, f) for f in sorted(os.listdir(FACTS)) if not wanted or f[:-4] in wanted]
    asked, expected, used, unused = [], [], set(), set()
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            other = other_runs(others, os.path.basename(path))
            for name, (keys, tensors, lines) in gguf.models(path).items():
                file = os.path.join(folder, name + ".gguf")
                gguf.write(file, keys, tensors)
                for options, facts in runs_of(lines):
                    asked.append("\t".join([file, *settings(options), "build=" + build]))
                    used.add((name, options))
                    expected.append((os.path.basename(path)[:-4], name, options, other.get((name, options), facts)))
            unused |= other.keys() - used
        if not expected or unused:
            sys.exit(f"{len(expected)} runs; of the other build's there are none for {sorted(unused)}")
        ran = subprocess.run([MEASURED], input="\n".join(asked) + "\n", capture_output=True, check=True, text=True)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(expected), (len(answers), len(expected))
    wrong, unknown, by_arch = collections.Counter(), 0, collections.defaultdict(list)
    for answer, (arch, name, options, facts) in zip(answers, expected):
        differs = compare(answer, facts)
        if others and arch in LISTED and not answer.get("context_known", True):
            differs -= {"known"}
        unknown += not answer.get("compute_known") and "error" not in facts
        wrong.update(differs)
        if differs:
            by_arch[arch].append((name, options, differs, answer, facts))
    print(f"{len(expected)} runs of {len(files)} architectures, {sum(map(len, by_arch.values()))} different "
          f"({dict(wrong)}), compute buffers not known in {unknown}")
    for arch, list_ in sorted(by_arch.items()):
        words = collections.Counter(w for one in list_ for w in one[2])
        print(arch, len(list_), dict(words))
        for name, options, differs, answer, facts in list_[:3] if "-v" in sys.argv else ():
            print("   ", name, options, differs, memories(answer) or answer, told(facts), facts.get("error"))
    return 1 if by_arch else 0


sys.exit(main())
