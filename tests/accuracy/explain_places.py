#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""There and back: what `vram fit` foresees as PyTorch's error text, `vram explain --model` must lead back to the tensor that it foresaw.

    explain_places.py VRAM [--seed N] [--runs N] [-v]

Models of the catalogue, cards, types, ways to load and versions are drawn by the seed. Told how it ran, `explain` finds the place in nine of ten; told nothing but
the model, it finds that place or says that it has none, never another as the only one. The exit status is 1 where it does otherwise."""
import argparse
import collections
import json
import random
import subprocess
import sys
import time

CARDS = ("rtx-3060-12gb", "rtx-4090", "t4", "a100-sxm-40gb", "rtx-4060-ti-16gb", "h100-sxm-80gb", "l4", "rtx-4060-8gb", "v100-sxm2-16gb", "a10g")
# option, values, how often of ten
DRAWN = (("--dtype", ("float32", "float16", "bfloat16"), 3), ("--device-map", ("cuda", "auto"), 3), ("--engine-version", ("4.49", "4.57", "5.0", "5.17"), 3),
         ("--alloc-conf", ("expandable_segments:True",), 2), ("-c", ("1000", "16384", "30000"), 3))


def output_of(command, text=None):
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    try:
        return json.loads(run.stdout)
    except ValueError:
        return None


def models_of(vram):
    lines = subprocess.run([vram, "models"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return [line.split()[0] for line in lines if line.strip()]


def failure_of(vram, model, card, options, available):
    fit = output_of([vram, "fit", model, "--gpu", card, "--engine", "transformers", "--json", *options, *available])
    failure = fit["devices"][0]["failure"] if fit else None
    return failure if failure and "Tried to allocate" in (failure.get("message") or "") else None


def place_of(vram, model, options, message):
    told = output_of([vram, "explain", "--model", model, "--json", *options], "torch.OutOfMemoryError: " + message + "\n")
    return told["diagnoses"][0]["place"] if told and told["diagnoses"] else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vram")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    dice, models = random.Random(args.seed), models_of(args.vram)
    counts, wrong, slowest = collections.Counter(), 0, 0.0
    for _ in range(args.runs):
        model, card = dice.choice(models), dice.choice(CARDS)
        options = [word for name, values, often in DRAWN if dice.randrange(10) < often for word in (name, dice.choice(values))]
        available = ["--free", dice.choice(("5GiB", "7.3GiB"))] if dice.randrange(10) < 3 else []
        failure = failure_of(args.vram, model, card, options, available)
        if failure is None:
            counts["lives, or its text is not known"] += 1
            continue
        for given in (options, []):
            before = time.monotonic()
            place = place_of(args.vram, model, given, failure["message"])
            slowest = max(slowest, time.monotonic() - before)
            found = place is not None and place["found"]
            right = found and place["label"] == failure["label"]
            told = "told how" if given == options else "told the model alone"
            counts[told + (": the place" if right else ": another" if found else ": none")] += 1
            if not right and found and place["places"] == 1:
                wrong += 1
            if not right and (found or given == options):
                print(f"{model} on {card} {' '.join(options + available)}, {told}: {place and (place['label'] or place['not_found'])} instead of {failure['label']}")
    for words, n in sorted(counts.items()):
        print(f"{n:5}  {words}")
    if args.v:
        print(f"the slowest answer took {slowest:.2f} s")
    return 1 if wrong or counts["told how: none"] * 9 > counts["told how: the place"] else 0


if __name__ == "__main__":
    sys.exit(main())
