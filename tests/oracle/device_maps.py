# SPDX-License-Identifier: MIT
"""Records where accelerate and transformers put each module of a model: tests/engine/device_maps.tsv.

    python tests/oracle/device_maps.py >> tests/engine/device_maps.tsv      in each version's environment

A model on PyTorch's meta device has shapes and no memory. What CUDA would say is free is put in the place of
the function that asks it; everything else is the library's own: _get_device_map of transformers, with
infer_auto_device_map and get_balanced_memory of accelerate (transformers 4) or its own (5).

Columns: version, model (a row of MODELS), settings, dtype, quantisation, map, free bytes of each card, bytes of
the host, then module=device pairs, or the class of the exception. Layers in a row are one pair.
"""
import json
import re
import sys
from unittest import mock

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

V5 = int(transformers.__version__.split(".")[0]) >= 5
G = 1 << 30

MODELS = {
    "llama-70b": ("llama", dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
                                num_attention_heads=64, num_key_value_heads=8, vocab_size=128256)),
    "llama-8b": ("llama", dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                               num_attention_heads=32, num_key_value_heads=8, vocab_size=128256)),
    "qwen2-7b": ("qwen2", dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                               num_attention_heads=28, num_key_value_heads=4, vocab_size=152064)),
    "qwen3-06b": ("qwen3", dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                                num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936,
                                tie_word_embeddings=True)),
    "gemma3-1b": ("gemma3_text", dict(hidden_size=1152, intermediate_size=6912, num_hidden_layers=26,
                                      num_attention_heads=4, num_key_value_heads=1, head_dim=256,
                                      vocab_size=262144, tie_word_embeddings=True)),
    "gemma2-9b": ("gemma2", dict(hidden_size=3584, intermediate_size=14336, num_hidden_layers=42,
                                 num_attention_heads=16, num_key_value_heads=8, head_dim=256,
                                 vocab_size=256000, tie_word_embeddings=True)),
    "phi3-14b": ("phi3", dict(hidden_size=5120, intermediate_size=17920, num_hidden_layers=40,
                              num_attention_heads=40, num_key_value_heads=10, vocab_size=32064)),
}

# Classes that are more than a plain decoder: the whole configuration is in the facts.
CONFIGS = {
    "qwen3-30b-a3b": ("qwen3_moe", dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=48, num_attention_heads=32,
                                        num_key_value_heads=4, head_dim=128, vocab_size=151936, num_experts=128,
                                        num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1,
                                        norm_topk_prob=True, tie_word_embeddings=False)),
    "deepseek-v2-lite": ("deepseek_v3", dict(hidden_size=2048, intermediate_size=10944, num_hidden_layers=27,
                                             num_attention_heads=16, num_key_value_heads=16, vocab_size=102400,
                                             n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
                                             moe_intermediate_size=1408, first_k_dense_replace=1, q_lora_rank=None,
                                             kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                                             n_group=1, topk_group=1, tie_word_embeddings=False)),
    "gpt2-xl": ("gpt2", dict(n_embd=1600, n_layer=48, n_head=25, vocab_size=50257, n_positions=1024)),
    "bloom-7b": ("bloom", dict(hidden_size=4096, n_layer=30, n_head=32, vocab_size=250880)),
    "opt-13b": ("opt", dict(hidden_size=5120, ffn_dim=20480, num_hidden_layers=40, num_attention_heads=40, vocab_size=50272,
                            word_embed_proj_dim=5120, max_position_embeddings=2048)),
}

# model, dtype, quantisation, map, GiB free of each card, GiB of the host
CASES = []
for name, dtypes, cards in (
    ("llama-70b", ("bfloat16", "float32"), ((23, 23), (23, 11), (79, 79), (79,), (47, 47, 47, 47), (160, 160))),
    ("llama-8b", ("bfloat16", "float32"), ((11, 11), (23, 23), (5, 23), (15,), (23,))),
    ("qwen2-7b", ("bfloat16",), ((11, 11), (7.25, 7.25), (7, 7, 3))),
    ("qwen3-06b", ("bfloat16", "float32"), ((7, 7), (0.8, 0.8), (0.5, 2), (0.6,))),
    ("gemma3-1b", ("bfloat16",), ((3, 3), (1.1, 1.1))),
    ("gemma2-9b", ("bfloat16",), ((11, 11), (23, 23))),
    ("phi3-14b", ("bfloat16",), ((15, 15), (23, 23))),
):
    for dtype in dtypes:
        for free in cards:
            for kind in ("auto", "sequential", "balanced_low_0"):
                CASES.append((name, dtype, "none", kind, free, 512))
CASES += [("llama-70b", "bfloat16", "none", "auto", (23, 23), 60), ("llama-8b", "bfloat16", "none", "auto", (5,), 4)]
for quant in ("bnb-4bit", "bnb-8bit"):
    for name in ("llama-70b", "llama-8b", "qwen3-06b", "gemma3-1b"):
        for free in ((23, 23), (11, 11), (5,), (23, 23, 11)):
            CASES.append((name, "bfloat16", quant, "auto", free, 512))
for name, cards in (("qwen3-30b-a3b", ((47, 47), (23, 23, 23))), ("deepseek-v2-lite", ((23, 23), (11, 23, 23))),
                    ("gpt2-xl", ((3, 3), (1.5, 1.5))), ("bloom-7b", ((11, 11),)), ("opt-13b", ((23, 23), (11, 15)))):
    for free in cards:
        for kind in ("auto", "sequential"):
            CASES.append((name, "bfloat16", "none", kind, free, 512))


def quantizer(quant):
    if quant == "none":
        return None
    from transformers.quantizers import AutoHfQuantizer

    config = BitsAndBytesConfig(load_in_4bit=quant == "bnb-4bit", load_in_8bit=quant == "bnb-8bit")
    return AutoHfQuantizer.from_config(config, pre_quantized=False)


def device_map(model, kind, free, host, dtype, q):
    memory = {i: int(f * G) for i, f in enumerate(free)}
    memory["cpu"] = int(host * G)
    patches = [mock.patch("torch.cuda.memory_reserved", lambda i: 0), mock.patch("torch.cuda.memory_allocated", lambda i: 0)]

    def asked(given=None):
        return dict(memory) if given is None else given

    if V5:
        import transformers.integrations.accelerate as place

        patches.append(mock.patch.object(place, "accelerate_max_memory", asked))
        arguments = (model, kind, None, q)
    else:
        import accelerate.utils.modeling
        import transformers.modeling_utils as place

        patches += [mock.patch.object(accelerate.utils.modeling, "get_max_memory", asked),
                    mock.patch.object(place, "get_max_memory", asked)]
        arguments = (model, kind, None, q, dtype, None)
    for p in patches:
        p.start()
    try:
        return place._get_device_map(*arguments)
    finally:
        for p in patches:
            p.stop()


def short(found):
    """Layers that follow each other on one device as one pair: model.layers.0-39=0"""
    out = []
    for name, device in found.items():
        layer = re.fullmatch(r"(.*\.(?:layers|h|blocks)\.)(\d+)", name)
        if layer and out and out[-1][0] == layer[1] and out[-1][3] == device and out[-1][2] + 1 == int(layer[2]):
            out[-1][2] += 1
        elif layer:
            out.append([layer[1], int(layer[2]), int(layer[2]), device])
        else:
            out.append([name, None, None, device])
    return " ".join(f"{n}={d}" if a is None else f"{n}{a}-{b}={d}" for n, a, b, d in out)


def numbers(settings):
    head = settings.get("head_dim", settings["hidden_size"] // settings["num_attention_heads"])
    values = [settings[k] for k in ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads")]
    tied = int(settings.get("tie_word_embeddings", False))
    return ",".join(map(str, values + [head, settings["intermediate_size"], settings["vocab_size"], tied]))


def main():
    models = {}
    for name, dtype, quant, kind, free, host in CASES:
        key = (name, dtype, quant)
        if key not in models:
            models.clear()
            kind_of, settings = (MODELS | CONFIGS)[name]
            config = AutoConfig.for_model(kind_of, **settings)
            config.dtype = getattr(torch, dtype)
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
            model.tie_weights()
            q = quantizer(quant)
            if q is not None:
                q.preprocess_model(model=model, device_map=None, config=config, dtype=getattr(torch, dtype))
            models[key] = (model, q)
        model, q = models[key]
        try:
            found = short(device_map(model, kind, free, host, getattr(torch, dtype), q))
        except Exception as e:
            found = type(e).__name__
            print(f"{name} {quant} {kind} {free}: {e}"[:200], file=sys.stderr)
        kind_of, settings = (MODELS | CONFIGS)[name]
        if name in CONFIGS:
            shape = json.dumps({"model_type": kind_of, "torch_dtype": dtype} | settings, separators=(",", ":"))
        else:
            shape = numbers(settings)
        print("\t".join([transformers.__version__, name, kind_of, shape, dtype, quant, kind,
                         ",".join(str(int(f * G)) for f in free), str(int(host * G)), found or '""']))


main()
