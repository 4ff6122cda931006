#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every architecture as if it were not known: the small models of tests/oracle/llamacpp/facts/, and the models of
data/llamacpp/virtual_device_cases.jsonl (of the folder VRAM_DATA, otherwise ../shared beside the source, where it is there),
each under a name that nobody has. Compute buffers then come of a graph that the names of their tensors make; what llama.cpp
asked of the cards for the real ones says how near that is.

    generic_cases.py MEASURED SOURCE-ROOT [-v] [--markdown FILE] [ARCHITECTURE...]

Fails where a compute buffer of the case file is outside the band that is told, or more than two in a hundred of the small
ones. Those that are differ in what no tensor's name says: attention that no kernel has (grok), layers that are run twice
(nanbeige), a head that blanks out words (chameleon), layers that keep a state (minimax-01)."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = sys.argv[2]
for folder in ("tests/oracle/llamacpp", "tests/accuracy", "tests/support"):
    sys.path.insert(0, os.path.join(ROOT, folder))
sys.path.insert(0, HERE)
import facts_words  # noqa: E402
import gguf  # noqa: E402
import page  # noqa: E402
import placed_words  # noqa: E402

FACTS = os.path.join(ROOT, "tests/oracle/llamacpp/facts")
ENGINE = os.path.join(ROOT, "src/engine/llamacpp.c")


def bound():
    """How far off it is told that it may be, by the engine."""
    with open(ENGINE, encoding="utf-8") as text:
        return int(re.search(r"#define GUESSED (\d+)", text.read())[1]) / 1000


def held(predicted, actual):
    return abs(actual - predicted) <= bound() * predicted


SHARE = 0.98
KINDS = ("model", "context", "compute")
# What llama.cpp's converter writes into files of such models, and the small models lack.
WRITTEN = {**dict.fromkeys(("bert", "dream", "eurobert", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe", "llama-embed", "modern-bert",
                            "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1"), ("attention.causal", "bool", [0])),
           "gemma-embedding": ("pooling_type", "u32", [1])}


def nameless(arch):
    return "z" * len(arch)


def renamed(keys):
    """The same keys under a name that no architecture has."""
    arch = next(values[0] for key, _, values in keys if key == "general.architecture")
    out = []
    for key, kind, values in keys:
        if key == "general.architecture":
            values = [nameless(arch)]
        elif key.startswith(arch + "."):
            key = nameless(arch) + key[len(arch):]
        out.append((key, kind, values))
    if arch in WRITTEN:
        key, kind, values = WRITTEN[arch]
        out.append((f"{nameless(arch)}.{key}", kind, values))
    return out


def rename_file(path, arch):
    """The same in a file, whose names keep their lengths."""
    with open(path, "r+b") as f:
        head = f.read(4 << 20)
        old, new = arch.encode(), nameless(arch).encode()
        start = head.index(b"general.architecture") + len("general.architecture") + 12
        assert head[start:start + len(old)] == old, arch
        changed = head[:start] + new + head[start + len(old):]
        changed = re.sub(rb"(?<=\0\0\0)" + re.escape(old) + rb"(?=\.[a-z])", new, changed)
        assert len(changed) == len(head)
        f.seek(0)
        f.write(changed)


def small_models(folder, wanted):
    """(source, architecture, line to ask, compute buffers of the cards) of each recorded run"""
    for name in sorted(os.listdir(FACTS)):
        arch = name[:-4]
        if wanted and arch not in wanted:
            continue
        for model, (keys, tensors, lines) in gguf.models(os.path.join(FACTS, name)).items():
            path = os.path.join(folder, model + ".gguf")
            gguf.write(path, renamed(keys), tensors)
            for options, facts in facts_words.runs_of(lines):
                if "error" not in facts:
                    cards = {n: f for n, f in facts["bytes"].items() if n.startswith("CUDA") and n != "CUDA_Host"}
                    yield "small", arch, "\t".join([path, *facts_words.settings(options)]), cards, options


def real_models(folder, wanted):
    data = os.path.join(os.environ.get("VRAM_DATA") or os.path.join(ROOT, "../shared"), "data/llamacpp/virtual_device_cases.jsonl")
    if not os.access(data, os.R_OK):
        return
    from data_folder import make_gguf
    maker, paths = make_gguf(ROOT), {}
    with open(data, encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            if case["error"] or not case["bytes"] or (wanted and case["arch"] not in wanted):
                continue
            key = (case["model"], case["file_type"])
            if key not in paths:
                paths[key] = os.path.join(folder, f"{len(paths)}.gguf")
                maker.make(*key, paths[key], "none")
                rename_file(paths[key], case["arch"])
            cards = {n: [f[k] for k in KINDS] for n, f in case["bytes"].items() if n.startswith("CUDA") and n != "CUDA_Host"}
            yield "real", case["arch"], "\t".join([paths[key], *placed_words.settings(case)]), cards, case["case"]


class Errors:
    def __init__(self):
        self.pairs, self.unknown, self.why = [], 0, collections.Counter()
        self.exact = {"model": [0, 0], "context": [0, 0]}

    def take(self, answer, cards):
        for i, kind in enumerate(self.exact):
            if "error" not in answer and answer.get(f"{kind}_known", True):
                self.exact[kind][0] += sum(answer[name][i] == figures[i] for name, figures in cards.items())
                self.exact[kind][1] += len(cards)
        if answer.get("guessed") and answer["compute_known"]:
            self.pairs += [(answer[name][2], figures[2]) for name, figures in cards.items() if figures[2]]
        else:
            self.unknown += 1
            self.why[answer.get("why") or answer.get("error") or "refused"] += 1

    def words(self):
        if not self.pairs:
            return ["-", "-", "-", "-"]
        off = [p / a - 1 for p, a in self.pairs]
        near = sorted(map(abs, off))
        return [f"{sum(x <= 0.01 for x in near)}", f"{100 * near[len(near) // 2]:.1f} %", f"{100 * min(off):+.1f} %", f"{100 * max(off):+.1f} %"]


def table(by_arch):
    out = ["| architecture | figures | within 1 % | median | lowest | highest | not counted |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for arch, e in sorted(by_arch.items()):
        out.append(f"| {arch} | {len(e.pairs)} | {' | '.join(e.words())} | {e.unknown} |")
    return out


def of(by_arch, kind):
    exact, all_ = (sum(e.exact[kind][i] for e in by_arch.values()) for i in (0, 1))
    return f"{exact} of {all_}"


def summary(by_source, by_arch):
    out = []
    for source, words in (("small", "Small models of recorded facts"), ("real", "Models of the case file")):
        pairs = [pair for e in by_source[source].values() for pair in e.pairs]
        if not pairs:
            continue
        off = [p / a - 1 for p, a in pairs]
        near = sorted(map(abs, off))
        shares = ", ".join(f"{sum(x <= limit for x in near)} within {100 * limit:g} %" for limit in (0.001, 0.01, 0.05, 0.1))
        out += [f"{words}: {len(off)} compute buffers of cards, {shares}; median {100 * near[len(near) // 2]:.2f} %, lowest "
                f"{100 * min(off):+.1f} %, highest {100 * max(off):+.1f} %; {sum(held(*pair) for pair in pairs)} in the band that is "
                f"told, {100 * bound():g} % to either side. Weights exact on {of(by_source[source], 'model')} cards, caches, which are assumed, on "
                f"{of(by_source[source], 'context')}.", ""]
    some = sum(1 for e in by_arch.values() if e.pairs)
    return [f"{some} of {len(by_arch)} architectures have a graph that the names of their tensors make; the compute buffers of the "
            "others stay not counted.", "", *out]


def main():
    words = sys.argv[3:]
    markdown = words.pop(words.index("--markdown") + 1) if "--markdown" in words else None
    wanted = [w for w in words if not w.startswith("-")]
    with tempfile.TemporaryDirectory() as folder:
        cases = [*small_models(folder, wanted), *real_models(folder, wanted)]
        ran = subprocess.run([sys.argv[1]], input="\n".join(c[2] for c in cases) + "\n", capture_output=True, check=True, text=True)
    by_source, by_arch = {"small": {}, "real": {}}, {}
    outside = []
    for (source, arch, _, cards, name), line in zip(cases, ran.stdout.splitlines()):
        answer = json.loads(line)
        for to in (by_source[source], by_arch):
            to.setdefault(arch, Errors()).take(answer, cards)
        known = answer.get("guessed") and answer["compute_known"]
        for card, (_, _, actual) in cards.items():
            if known and actual and not held(answer[card][2], actual):
                outside.append((arch, name, card, answer[card][2], actual, f"{100 * (answer[card][2] / actual - 1):+.1f} %"))
    told = summary(by_source, by_arch)
    print("\n".join(told))
    if "-v" in words:
        print("\n".join(table(by_arch)))
        for arch, e in sorted(by_arch.items()):
            print(arch, dict(e.why)) if e.why else None
        for line in outside:
            print("OUTSIDE", *line)
    if markdown:
        page.rewrite(markdown, "tests/llama/generic_cases.py", [*told, *table(by_arch)])
    pairs = [pair for e in by_source["small"].values() for pair in e.pairs]
    if not pairs:
        print("MISSED: no compute buffer was made of tensors' names")
        return 1
    if not wanted and sum(held(*pair) for pair in pairs) < SHARE * len(pairs):
        print("MISSED: too few of the small models are in the band")
        return 1
    real = [pair for e in by_source["real"].values() for pair in e.pairs]
    asked = any(source == "real" for source, *_ in cases)
    return 0 if all(held(*pair) for pair in real) and (real or not asked) else 1


if __name__ == "__main__":
    sys.exit(main())
