#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what transformers makes of configurations that are partly silent: record_configs.py > recorded.tsv

Each row is a config.json and the facts that the class derives from it, its biases read off the parameters of a model on
the meta device and its windows off the cache it would use. Needs torch and transformers 5.24 from PyPI; run on demand,
the recorded rows are what the tests use.
"""
import copy
import json
import random

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import get_layer_types_and_kwargs

COLUMNS = ("family layers hidden heads kv_heads head_dim rotary_dim ffn vocab context tied qkv_bias o_bias mlp_bias "
           "attention_softcap final_softcap windows").split()
VISION = {"model_type": "siglip_vision_model", "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32,
          "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


def maybe(c, chance, key, *values):
    if random.random() < chance:
        c[key] = random.choice(values)


def variant(kind):
    gemma = kind.startswith("gemma")
    kv, groups = random.choice([1, 2, 4]), random.choice([1, 2, 3])
    c = {"num_hidden_layers": random.choice([1, 3, 7, 13]), "num_attention_heads": kv * groups,
         "hidden_size": kv * groups * random.choice([16, 32]), "vocab_size": random.choice([64, 100]),
         "intermediate_size": random.choice([48, 80]), "max_position_embeddings": random.choice([128, 4096])}
    if random.random() < 0.7:
        c["num_key_value_heads"] = kv
    elif random.random() < 0.5 and kind in ("llama", "phi3", "qwen2", "qwen3"):
        c["num_key_value_heads"] = None
    else:
        c["num_attention_heads"], c["hidden_size"] = 32, 128
    maybe(c, 0.6, "head_dim", 16, 24, 32)
    maybe(c, 0.5, "tie_word_embeddings", True, False)
    maybe(c, 0.5, "attention_bias", True, False)
    maybe(c, 0.5, "mlp_bias", True, False)
    maybe(c, 0.5, "sliding_window", *([16, 64] if gemma else [16, 64, None]))
    maybe(c, 0.5, "use_sliding_window", True)
    maybe(c, 0.5, "max_window_layers", 0, 1, 2, 5)
    if gemma:
        maybe(c, 0.3, "sliding_window_pattern", 2, 3)
        maybe(c, 0.3, "use_bidirectional_attention", True)
        maybe(c, 0.3, "final_logit_softcapping", None, 30.0)
        maybe(c, 0.3, "attn_logit_softcapping", None, 50.0)
    if kind == "phi3":
        c.update(pad_token_id=0, bos_token_id=1, eos_token_id=1)
        maybe(c, 0.5, "partial_rotary_factor", 0.5, 0.75, 1.0)
    if gemma or (kind.startswith("qwen") and c.get("sliding_window") and c.get("use_sliding_window")):
        if random.random() < 0.3:
            c["layer_types"] = random.choices(["sliding_attention", "full_attention"], k=c["num_hidden_layers"])
    return c


def wrapped(c):
    text = dict(c, model_type="gemma3_text")
    outer = {"model_type": "gemma3", "text_config": text, "vision_config": VISION}
    if "tie_word_embeddings" in text:
        outer["tie_word_embeddings"] = text.pop("tie_word_embeddings")
    return outer


def facts(kind, raw):
    config = AutoConfig.for_model(**copy.deepcopy(raw))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    c = config.get_text_config(decoder=True)
    layer = [n for n, _ in model.named_parameters() if ".layers.0." in n and "vision" not in n]
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    table = [b for n, b in model.named_buffers() if n.endswith("rotary_emb.inv_freq")]
    rotary = 2 * table[0].numel() if kind == "phi3" else head_dim  # what cos and sin turn
    types, kwargs = get_layer_types_and_kwargs(c)
    windows = [k["sliding_window"] if t == "sliding_attention" else 0 for t, k in zip(types, kwargs)]
    return [kind, c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.num_key_value_heads, head_dim, rotary,
            c.intermediate_size, c.vocab_size, c.max_position_embeddings, int(bool(config.tie_word_embeddings)),
            int(any(n.endswith("q_proj.bias") for n in layer)), int(any(n.endswith("o_proj.bias") for n in layer)),
            int(any(n.endswith("gate_proj.bias") for n in layer)),
            int(kind == "gemma2" and c.attn_logit_softcapping is not None),
            int(kind.startswith("gemma") and c.final_logit_softcapping is not None), ",".join(map(str, windows))]


def main():
    random.seed(11)
    print("# SPDX-License-Identifier: MIT")
    print(f"# Recorded by record_configs.py from transformers {transformers.__version__}.")
    print("\t".join(COLUMNS + ["config"]))
    for kind in ("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "gemma3"):
        inner = "gemma3_text" if kind == "gemma3" else kind
        for i in range(14):
            c = {} if i == 0 else variant(inner)
            raw = wrapped(c) if kind == "gemma3" else dict(c, model_type=kind)
            print("\t".join(map(str, facts(inner, raw))) + "\t" + json.dumps(raw, separators=(",", ":")))


main()
