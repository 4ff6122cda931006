#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ours and what others say, beside llama.cpp's own figures, by hand:

    compare.py VRAM SOURCE-ROOT PEERS RECORDER [PAGE]

PEERS is the folder that setup.sh fills, RECORDER the program of tests/oracle/llamacpp (llama.cpp b10470 on virtual cards).
Prints two tables and puts them into PAGE, docs/accuracy.md: twelve models with everything on one card, and files that no case file has
against node-llama-cpp's llama.cpp, which is newer."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../support")]
import page  # noqa: E402
from asking import HOST, Refused, ask  # noqa: E402
from data_folder import make_gguf  # noqa: E402
from figures import table  # noqa: E402

VRAM, ROOT, PEERS, RECORDER = sys.argv[1:5]
GIB = 1 << 30
TWELVE = (("llama2-7b", "Q4_K_M"), ("llama3.1-8b", "Q4_K_M"), ("llama3.1-70b", "Q4_K_M"), ("qwen2.5-7b", "Q4_K_M"), ("qwen3-8b", "Q4_K_M"),
          ("qwen3-30b-a3b", "Q4_K_M"), ("gemma2-9b", "Q4_K_M"), ("gemma3-12b", "Q4_K_M"), ("mixtral-8x7b", "Q4_K_M"),
          ("phi4-14b", "Q4_K_M"), ("deepseek2-lite", "Q4_K_M"), ("gpt-oss-20b", "MXFP4"))
NEW = (("smollm2-1.7b", "Q8_0"), ("mistral-small-24b", "Q4_K_M"), ("mixtral-8x22b", "Q4_K_M"), ("qwen2.5-3b", "Q5_K_M"), ("gemma3-270m", "Q8_0"),
       ("yi-34b", "IQ4_XS"), ("qwen3-1.7b", "Q6_K"))
# Shapes that no model has, as tools/make_gguf.py writes them: its name, type and the rest of L().
ODD = {
    "odd llama": ("F16", ("llama", 7, 1600, 25, 5, 4384, 50257, 4096), {}),
    "odd qwen2": ("Q8_0", ("qwen2", 5, 992, 31, 1, 2720, 33333, 8192), {"hd": 32, "tied": True}),
    "odd qwen3moe": ("F16", ("qwen3moe", 5, 1056, 11, 1, 2112, 77777, 8192), {"hd": 96, "ne": 24, "nu": 3, "ffe": 352}),
    "odd gemma3": ("F16", ("gemma3", 13, 736, 5, 1, 3104, 99991, 8192), {"hd": 128, "tied": True, "swa": 320}),
    "odd phi3": ("F16", ("phi3", 6, 1120, 14, 2, 3008, 44444, 4096), {}),
    "odd mamba": ("F16", ("mamba", 9, 864, 0, 0, 0, 41111, 4096), {"hd": 1, "tied": True, "dconv": 4, "dinner": 1728, "dstate": 16, "dtrank": 54}),
}
# Context, micro-batch, sequences, flash attention, types of cache, layers on the card.
SETTINGS = ((8192, 512, 1, True, "f16", 999), (5120, 384, 3, True, "f16", 999), (5120, 384, 3, False, "f16", 999),
            (32768, 512, 1, True, "q8_0", 999), (8192, 512, 1, True, "f16", 10), (8192, 512, 1, True, "f16", 0))


def run_of(path, setting, batch=None):
    context, ubatch, sequences, flash, kind, layers = setting
    return {"File": path, "Context": context, "Batch": batch or ubatch, "Ubatch": ubatch, "Sequences": sequences, "Layers": layers,
            "Flash": flash, "Keys": kind, "Values": kind}


def of_peer(command, runs, cards=1):
    told = subprocess.run(command, input="".join(json.dumps(r) + "\n" for r in runs), capture_output=True, text=True, check=True,
                          env={**os.environ, "CARDS": str(cards)})
    return [json.loads(line) for line in told.stdout.splitlines()]


def recorded(run, server):
    words = ["-m", run["File"], "-c", run["Context"], "-b", run["Batch"], "-ub", run["Ubatch"], "-np", run["Sequences"], "-ngl", run["Layers"],
             "-fa", "on" if run["Flash"] else "off", "-ctk", run["Keys"], "-ctv", run["Values"], *(["--n-outputs-max", 1] if server else [])]
    told = json.loads(subprocess.run([RECORDER, *map(str, words)], capture_output=True, text=True, check=False).stdout)
    return told.get("bytes")


def of_node(runs, cards=1):
    return of_peer(["node", os.path.join(HERE, "node_llama_cpp.cjs"), os.path.join(PEERS, "llama")], runs, cards)


def ours(run, tool, cards=1):
    words = ["--n-ctx", run["Context"], "-np", run["Sequences"], "-b", run["Batch"], "-ub", run["Ubatch"], "-ngl", run["Layers"],
             "-fa", "on" if run["Flash"] else "off", "-ctk", run["Keys"], "-ctv", run["Values"], "--tool", tool]
    answer = ask(VRAM, run["File"], list(map(str, words)), cards)
    if answer.verdict == "does_not_fit":  # of cards that are never too small
        raise Refused("it does not start")
    return answer.memories


def gguf_view(path, context):
    """"TOTAL | 5.79 GB": the model and its cache, wherever they lie, and five per cent."""
    told = subprocess.run(["node", os.path.join(PEERS, "node_modules/@huggingface/gguf/dist/cli.js"), "-c", str(context), path],
                          capture_output=True, text=True, check=False).stdout
    found = re.search(r"TOTAL +\| +([\d.]+) GB", told)
    return float(found.group(1)) * 1e9 if found else None


def error(size, truth):
    return "no answer" if size is None else f"{100 * (size - truth) / truth:+.2f} %" if size != truth else "0"


def twelve(gguf, folder):
    lines = []
    for model, kind in TWELVE:
        path = os.path.join(folder, "model.gguf")
        gguf.make(model, kind, path, "none")
        run = run_of(path, SETTINGS[0], 2048)
        truth = sum(recorded(run, True)["CUDA0"].values())
        parser = of_peer([os.path.join(PEERS, "gguf_parser")], [run])[0]
        theirs = None if "error" in parser else sum(parser["CUDA0"].values())
        lines.append([f"{model} {kind}", f"{truth / GIB:.3f}", error(ours(run, "server")["CUDA0"]["total"].bytes, truth), error(theirs, truth),
                      error(gguf_view(path, run["Context"]), truth)])
    return table(("model", "GiB on the card", "vram", "gguf-parser-go 0.28.2", "@huggingface/gguf 0.4.6"), lines)


class Listed(list):
    """A table whose rows are kept."""

    def __init__(self, head, rows):
        super().__init__(table(head, rows))
        self.rows = rows


def parts(memories, name):
    """Weights, and cache with compute buffer, as node-llama-cpp tells them."""
    memory = memories.get(name)
    if memory is None or memory["total"].bytes is None:
        return None, None
    return memory["weights"].bytes, memory["cache"].bytes + memory["compute"].bytes


def setting_words(setting):
    context, ubatch, sequences, flash, kind, layers = setting
    return f"-c {context} -ub {ubatch} -np {sequences} -fa {'on' if flash else 'off'} -ctk/v {kind} -ngl {layers}"


def against_node(gguf, folder):
    lines = []
    for name, (kind, shape, more) in ODD.items():
        gguf.MODELS[name] = gguf.L(*shape, **more)
    for model, kind in NEW + tuple((name, odd[0]) for name, odd in ODD.items()):
        path = os.path.join(folder, "model.gguf")
        gguf.make(model, kind, path, "none")
        runs = [run_of(path, s) for s in SETTINGS]
        for setting, run, told in zip(SETTINGS, runs, of_node(runs)):
            lines.append(one_against_node(f"{model} {kind}", setting, run, told))
    return Listed(("file", "settings", "card: weights", "card: cache and compute", "vram", "host: weights", "host: cache and compute",
                  "vram"), lines)


def one_against_node(name, setting, run, told):
    line = [name, setting_words(setting)]
    try:
        answer, why = ours(run, "fit-params"), None
    except Refused as refused:
        answer, why = None, str(refused)
    if "error" in told:
        return line + ["refused", "refused", "the same" if answer is None else "answered"] * 2
    if answer is None:
        return line + ["–", "–", why] * 2
    for place, memory in (("cards", "CUDA0"), ("host", HOST)):
        weights, rest = parts(answer, memory)
        line += [str(told[place]["weights"]), str(told[place]["context"])]
        line.append("not counted" if weights is None else "the same" if (weights, rest) == (told[place]["weights"], told[place]["context"])
                    else f"{weights - told[place]['weights']:+d}, {rest - told[place]['context']:+d}")
    return line


def loaded(gguf, folder):
    """Runs that load the small ones, on one to three cards: what all cards together hold then."""
    lines, path = [], os.path.join(folder, "model.gguf")
    for name, (kind, _, _) in ODD.items():
        gguf.make(name, kind, path, "none")
        for setting in (SETTINGS[1], SETTINGS[1][:2] + (1,) + SETTINGS[1][3:5] + (4,)):
            for cards in (1, 2, 3):
                run = dict(run_of(path, setting), Loaded=True)
                told = of_node([run], cards)[0]["cards"]
                mine = [m for place, m in ours(run, "cli", cards).items() if place != HOST]
                weights = sum(m["weights"].bytes for m in mine)
                rest = sum(m["cache"].bytes + m["compute"].bytes for m in mine)
                lines.append([f"{name} {kind}", setting_words(setting), str(cards), str(told["weights"]), str(told["context"]),
                              "the same" if (weights, rest) == (told["weights"], told["context"]) else
                              f"{weights - told['weights']:+d}, {rest - told['context']:+d}"])
    return Listed(("file", "settings", "cards", "weights", "cache and compute", "vram"), lines)


def in_short(lines, columns):
    """Of each file: runs, and those alike in the given columns."""
    files = {}
    for line in lines:
        files.setdefault(line[0], []).append(all(line[c] == "the same" for c in columns))
    return [[name, str(len(alike)), str(sum(alike))] for name, alike in files.items()]


def main():
    gguf = make_gguf(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        others, measured, real = twelve(gguf, folder), against_node(gguf, folder), loaded(gguf, folder)
    print("\n".join(others + measured + real))
    if len(sys.argv) > 5:
        page.rewrite(sys.argv[5], "tests/accuracy/peers/compare.py", [
            *others, "", "Measured on one card, and on the host; settings: " + "; ".join(f"`{setting_words(s)}`" for s in SETTINGS) + ".", "",
            *table(("file", "settings", "the same to the byte"), in_short(measured.rows, (4, 7))), "",
            "Really loaded on one, two and three cards, all layers and a part:", "",
            *table(("file", "runs", "the same to the byte"), in_short(real.rows, (5,)))])


main()
