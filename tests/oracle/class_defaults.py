#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each class of data/architectures.tsv is when its configuration says nothing: built from the defaults of its
own, on meta. Run with the python of one of the environments that run.sh makes.

    class_defaults.py > tests/model/class_defaults.tsv

    model_type parameters layers sliding window     sliding: how many layers are; "-" where the class does not say

Rows that are no class of that version, or that cannot be built from nothing, are left out."""
import os

import torch
import transformers
from transformers import AutoConfig

from models import VERSION

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def rows():
    with open(os.path.join(ROOT, "data/architectures.tsv"), encoding="utf-8") as lines:
        table = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    at = table[0].index("class_name")
    return [(row[0], row[at]) for row in table[1:]]


def facts(model_type, class_name):
    config = AutoConfig.for_model(model_type)
    with torch.device("meta"):
        model = getattr(transformers, class_name)(config)
    model.tie_weights()
    kinds = getattr(config, "layer_types", None)
    if kinds and any("compressed" in kind for kind in kinds):  # these slide too
        kinds = None
    sliding = sum(kind == "sliding_attention" for kind in kinds) if kinds else "-"
    layers = getattr(config, "num_decoder_layers", None) or config.num_hidden_layers
    window = config.sliding_window if kinds and sliding else "-"
    return sum(p.numel() for p in model.parameters()), layers, sliding, window


def main():
    print("# SPDX-License-Identifier: MIT")
    print(f"# Made by tests/oracle/class_defaults.py with transformers {VERSION}; what it says is told there.")
    for model_type, class_name in rows():
        try:
            print(model_type, *facts(model_type, class_name), sep="\t", flush=True)
        except (ValueError, TypeError, AttributeError):
            continue


main()
