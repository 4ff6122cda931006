#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What --solve finds, told to llama.cpp itself: it asks for the same bytes, and for more than there are with the next value.

    solved.py VRAM RECORDER MAKE_GGUF [MODEL ...]     MAKE_GGUF makes a model's file without data; RECORDER is run.sh --build's

The command line that vram prints is given to the recorder as it stands. Of several cards weights and caches are compared, which
says that --tensor-split puts each layer where it was meant; the recorder measures as llama-fit-params does, and that tool's
compute buffers of several cards are not those of a run. Of one card all three are compared, and the value and the next one are
held against the room on the card by llama.cpp's figures.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

MODELS = {"llama3.1-8b": "Q4_K_M", "qwen2.5-14b": "Q4_K_M", "llama3.1-70b": "Q4_K_M", "qwen3-30b-a3b": "Q4_K_M", "gemma3-12b": "Q4_K_M",
          "mixtral-8x7b": "Q4_K_M", "gpt-oss-20b": "MXFP4", "phi4-14b": "Q4_K_M", "qwen3-next-80b-a3b": "Q4_K_M"}
CARDS = (["rtx-3060-12gb"], ["rtx-4090"], ["rtx-4090", "rtx-3060-12gb"], ["rtx-3060-12gb", "rtx-4090", "8GiB"])
OPTION = {"ngl": "-ngl", "context": "-c", "experts": "-ncmoe", "sequences": "-np"}
CONTEXT = 16384  # of the searches for something else


def fit(vram, *words):
    done = subprocess.run([vram, "fit", "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return json.loads(done.stdout) if done.stdout else None


def asked(recorder, words, cards):
    done = subprocess.run([recorder, *words, "--server", "--devices", str(cards)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found = json.loads([line for line in done.stdout.decode().splitlines() if line.startswith("{")][-1])["bytes"]
    nothing = {"model": 0, "context": 0, "compute": 0}
    return [found.get("CUDA%d" % i, nothing) for i in range(cards)]


def with_next(words, goal, value):
    words = list(words)
    if OPTION[goal] not in words:
        return None
    words[words.index(OPTION[goal]) + 1] = str(value)
    if goal == "sequences":
        words[words.index("-c") + 1] = str(CONTEXT * value)
    return words


def total(card):
    return card["model"] + card["context"] + card["compute"]


def compare(recorder, answer, goal, cards):
    """A list of what differs."""
    solved = answer["solver"]["answers"][0]
    words = shlex.split(solved["command"])[1:]
    theirs = asked(recorder, words, cards)
    gpus = [d for d in answer["devices"] if d["kind"] == "gpu"]
    wrong = []
    for ours, card in zip(gpus, theirs):
        pairs = [("weights", "model"), ("kv_cache", "context")] + ([("activations", "compute")] if cards == 1 else [])
        wrong += ["%s %d not %d" % (c, ours["ledger"][c]["bytes"], card[k]) for c, k in pairs if ours["ledger"][c]["bytes"] != card[k]]
    more = with_next(words, goal, solved["next"]) if solved["next"] is not None and cards == 1 else None
    if more is not None:
        beside = gpus[0]["ledger"]["runtime_overhead"]["high_bytes"]
        room = gpus[0]["gpu"]["available_low_bytes"] - beside
        if not total(theirs[0]) <= room < total(asked(recorder, more, 1)[0]):
            wrong.append("%d fits not, or %d does" % (solved["value"], solved["next"]))
    return wrong


def main():
    vram, recorder, make = sys.argv[1:4]
    n = found = bad = 0
    with tempfile.TemporaryDirectory() as room:
        for model in sys.argv[4:] or MODELS:
            path = os.path.join(room, model + ".gguf")
            subprocess.run([sys.executable, make, model, MODELS[model], path], check=True, stdout=subprocess.DEVNULL)
            for cards in CARDS:
                for goal in OPTION:
                    words = [w for c in cards for w in ("--gpu", c)] + ["--solve", goal]
                    answer = fit(vram, path, *words, *([] if goal == "context" else ["-c", str(CONTEXT)]))
                    if answer is None:
                        continue  # a model without experts
                    n += 1
                    if not answer["solver"]["answers"][0]["found"]:
                        continue
                    found += 1
                    wrong = compare(recorder, answer, goal, len(cards))
                    bad += wrong != []
                    if wrong:
                        print(model, " ".join(cards), goal, "; ".join(wrong))
    print("%d searches, %d found something, %d not as llama.cpp has it" % (n, found, bad))
    return bad != 0 or found == 0


if __name__ == "__main__":
    sys.exit(main())
