#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small configurations of all kinds for fuzz_kinds: kinds_corpus.py CATALOGUE ARCHITECTURES FILE...

Of the built-in catalogue one of each pair of model types with and without quantisation, and each architecture with
nothing but its defaults, cut to a few layers and experts. A file is one configuration, and every kind has one: too
few files are an error. In those that are left over stand kinds again, with other settings: the target draws them
from the bytes."""
import json
import re
import sys

LAYERS, EXPERTS = 4, 8
DEPTHS = {"num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth", "encoder_layers", "decoder_layers",
          "num_decoder_layers"}
COUNTS = {"num_experts", "num_local_experts", "n_routed_experts"}
FEW = {"num_experts_per_tok", "moe_topk", "experts_per_token", "n_group", "topk_group"}


def rows(path):
    lines = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8") if not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def expanded(text):
    def repeat(m):
        return ",".join([m[2]] * int(m[1]))

    while True:
        longer = re.sub(r"\*(\d+)\(((?:[^()\"]|\"[^\"]*\")*)\)", repeat, text)
        if longer == text:
            return json.loads(text)
        text = longer


def cut(value, key=""):
    if isinstance(value, dict):
        return {k: cut(v, k) for k, v in value.items()}
    if isinstance(value, list):
        kept = value[:LAYERS] if len(value) > 2 * LAYERS else value
        return [cut(v) for v in kept]
    if isinstance(value, str) and "pattern" in key:
        return value[:LAYERS]
    limits = ((DEPTHS, LAYERS), (COUNTS, EXPERTS), (FEW, 2))
    for keys, most in limits:
        if key in keys and isinstance(value, int):
            return min(value, most)
    return value


def all_kinds(catalogue, architectures):
    kinds = {}
    for row in rows(catalogue):
        config = expanded(row["config"])
        text = config.get("text_config") or {}
        method = (config.get("quantization_config") or {}).get("quant_method")
        kinds.setdefault((config.get("model_type"), text.get("model_type"), method), cut(config))
    for row in rows(architectures):
        kinds.setdefault((row["model_type"], None, None),
                         {"architectures": [row["class_name"]], "model_type": row["model_type"],
                          "torch_dtype": "bfloat16", "num_hidden_layers": LAYERS})
    return list(kinds.values())


def main():
    kinds = all_kinds(sys.argv[1], sys.argv[2])
    files = sys.argv[3:]
    if len(files) < len(kinds):
        sys.exit(f"{len(kinds)} kinds and {len(files)} files for them: raise the number in meson.build")
    for i, name in enumerate(files):
        chosen = dict(kinds[i % len(kinds)])
        if i >= len(kinds):
            chosen["again"] = i // len(kinds)
        with open(name, "w", encoding="ascii") as f:
            json.dump(chosen, f, separators=(",", ":"))


main()
