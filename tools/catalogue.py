#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the rows of data/catalogue.tsv from a folder of config.json files called ORG--NAME.json.

    catalogue.py FOLDER > data/catalogue.tsv       FOLDER/aliases.tsv, when it is there: repository, tab, file

A row keeps what decides sizes, layers, types and quantisation, in one order, and where it comes from (the key _source
of each file). What is left out is in DROP; what the files lack or have flattened is put right in the tables below, each
with its reason, and such a row says so in its column note. SPEECH are models of which there is no file. In lists, *N(...) is what stands in the brackets N times.
"""
import json
import os
import re
import sys

# Of no influence on any size: names of tokens, constants of the mathematics, how it was trained, how it is sampled.
DROP = set("""
    _attn_implementation _source activation_situ_beta activation_situ_linear_beta
    attention_bias_qkv attention_value_scale beta_fast beta_slow compress_rope_theta deepstack_image_only
    gate_lower_bound hc_eps hc_sinkhorn_iters high_freq_factor ignore_index image_grid_pinpoints image_placeholder
    image_seq_length initial_context_length latent_moe_use_norm layer_norm_eps
    layer_norm_epsilon layernorm_epsilon low_freq_factor mamba_hidden_act
    media_placeholder_token_id merge_type mm_projector_type moe_router_scaling_factor moe_shared_expert_overlap
    mscale mscale_all_dim norm_eps pos_emb_interpolation_mode process_image_mode projector_ln_eps
    rescale_prenorm_residual rms_norm_eps rope_theta router_jitter_noise sparse_init_block sparse_local_block
    sparse_score_type swa_rope_theta swiglu_alpha time_step_floor time_step_max time_step_min truncate
    unshifted_sink use_prefill_window_in_sink_attention video_placeholder video_token_index vision_feature_layer
    vision_feature_select_strategy
""".split())

FIRST = """architectures model_type dtype torch_dtype tie_word_embeddings num_hidden_layers hidden_size intermediate_size
    num_attention_heads num_key_value_heads head_dim vocab_size max_position_embeddings""".split()
LAST = ["text_config", "vision_config", "audio_config", "quantization_config"]

UNKNOWN = "sizes are known in part only"
# Of these the files have so little that defaults of the classes would stand for the rest.
LEFT_OUT = {
    "google/gemma-4-12B-it": UNKNOWN,
    "google/gemma-4-E4B-it": UNKNOWN,
    "ibm-granite/granite-4.0-h-small": UNKNOWN,
    "mistral-community/pixtral-12b": UNKNOWN,
    "mistralai/Ministral-3-14B-Instruct-2512": UNKNOWN,
    "mistralai/Mistral-Small-4-119B-2603": UNKNOWN,
    "nvidia/Cosmos-Reason2-2B": UNKNOWN,
    "xai-org/grok-2": UNKNOWN,
    "zai-org/GLM-4.7": UNKNOWN,
}

# Of these there is no file: name, width, layers, heads, and what else differs from the first four.
WIDTHS = "github.com/k2-fsa/sherpa-onnx scripts/whisper/model-info.md (widths), float32 as published"
LARGE = ("as large there; 128 mel bins and one language more: github.com/openai/whisper README.md and discussion 1762, "
         "float16 as published")
SPEECH = [
    ("tiny", 384, 4, 6, {}, WIDTHS),
    ("base", 512, 6, 8, {}, WIDTHS),
    ("small", 768, 12, 12, {}, WIDTHS),
    ("medium", 1024, 24, 16, {}, WIDTHS),
    ("large-v2", 1280, 32, 20, {}, WIDTHS + "; the shape of large"),
    ("large-v3", 1280, 32, 20, {"num_mel_bins": 128, "vocab_size": 51866, "torch_dtype": "float16"}, WIDTHS + "; " + LARGE),
    ("large-v3-turbo", 1280, 32, 20, {"num_mel_bins": 128, "vocab_size": 51866, "torch_dtype": "float16",
                                      "decoder_layers": 4},
     WIDTHS + "; " + LARGE + "; 4 layers in the decoder: github.com/openai/whisper discussion 2363"),
]

# What stands beside the decoder and is in no file.
LACKS = {
    "google/gemma-4-26B-A4B-it": None,
    "microsoft/Phi-3-vision-128k-instruct": "vision tower",
    "MiniMaxAI/MiniMax-M3": "vision tower",
}

# The files have the settings of the decoder beside those of the whole; publishers have them in text_config.
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
          "num_attention_heads": 16, "num_channels": 3, "image_size": 896, "patch_size": 14, "vision_use_head": False}
GEMMA3 = ("gemma3_text", SIGLIP, "vision tower: transformers 5.24 convert_gemma3_weights.py")
NESTED = {
    "google/gemma-3-4b-it": GEMMA3,
    "google/gemma-3-12b-it": GEMMA3,
    "google/gemma-3-27b-it": GEMMA3,
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": ("mistral", None, ""),
    "mistralai/Devstral-Small-2-24B-Instruct-2512": ("ministral3", None, ""),
}

# Files that leave out the tower that the publisher's has: its settings, or the model of the same tower.
LLAMA4 = ({"model_type": "llama4_vision_model", "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34,
           "num_attention_heads": 16, "num_channels": 3, "image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
           "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096,
           "multi_modal_projector_bias": False},
          "vision tower: NVIDIA/TensorRT-LLM tests/unittest/_torch/modeling/test_modeling_llama_min_latency.py")
TOWERS = {
    "google/gemma-4-31B-it": ("nvidia/Gemma-4-31B-IT-NVFP4", "vision tower: nvidia/Gemma-4-31B-IT-NVFP4, made of it"),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": LLAMA4,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": LLAMA4,
}

# Published in 16 bits, and here only in the quantised form: its quantisation is left out.
PLAIN = {
    "Qwen/Qwen3.6-27B": "nvidia/Qwen3.6-27B-NVFP4",
    "Qwen/Qwen3.6-35B-A3B": "nvidia/Qwen3.6-35B-A3B-NVFP4",
}

# Their quantisation stands in a file of its own (hf_quant_config.json), which is not here: how, and of which modules, is
# not known, but that they are.
QUANTISED_ELSEWHERE = re.compile(r"^nvidia/.*-(FP8|NVFP4)$")

# Repositories of the same shape, precision and length as another one.
SAME = {
    "deepseek-ai/DeepSeek-R1-0528": "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "meta-llama/Llama-3.3-70B-Instruct",
    "google/gemma-4-26B-A4B-it": "google/gemma-4-26B-A4B",
    "meta-llama/Llama-3.1-70B-Instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3.8-27B": "Qwen/Qwen3.6-27B",
}


def settled(value):
    """Of one object what decides, in our order."""
    if isinstance(value, list):
        return [settled(v) for v in value]
    if not isinstance(value, dict):
        return value
    kept = {k: settled(v) for k, v in value.items() if k not in DROP}
    kept = {k: v for k, v in kept.items() if v != {} or k in ("text_config", "vision_config")}
    if "quantized_layers" in kept:
        kept["quantized_layers_patterns"] = patterns(kept.pop("quantized_layers"))
    if "no_op" in kept:  # the blocks of nemotron-nas: what is not so is not said
        kept = {k: v for k, v in kept.items() if v not in (None, False)}
    order = {k: i for i, k in enumerate(FIRST)}
    order.update({k: 1000 + i for i, k in enumerate(LAST)})
    return {k: kept[k] for k in sorted(kept, key=lambda k: (order.get(k, 500), k))}


def patterns(layers):
    """Modules that differ in numbers only are one row, with N for each number."""
    found = {}
    for name, how in layers.items():
        key = re.sub(r"(?<=\.)\d+(?=\.)", "N", name)
        if found.setdefault(key, how) != how:
            raise SystemExit("%s: not all alike" % key)
    return {k: found[k] for k in sorted(found)}


def packed_list(items):
    """The shortest way to write a list, as far as greed finds it."""
    out, i = [], 0
    while i < len(items):
        best, times = 1, 1
        for width in range(1, min(16, len(items) - i) + 1):
            n = 1
            while items[i + n * width:i + (n + 1) * width] == items[i:i + width]:
                n += 1
            if n > 1 and n * width > best * times:
                best, times = width, n
        unit = ",".join(packed(v) for v in items[i:i + best])
        repeated = "*%d(%s)" % (times, unit)
        out.append(repeated if times > 1 and len(repeated) < len(unit) * times else ",".join([unit] * times))
        i += best * times
    return "[" + ",".join(out) + "]"


def packed(value):
    if isinstance(value, list):
        return packed_list(value)
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + packed(v) for k, v in value.items()) + "}"
    return json.dumps(value)


def nested(config, kind, vision):
    outer = {k: config[k] for k in ("architectures", "model_type", "torch_dtype", "tie_word_embeddings",
                                    "vision_config", "quantization_config") if k in config}
    inner = {k: v for k, v in config.items() if k not in outer}
    if vision is not None:
        outer["vision_config"] = vision
    if kind.startswith("ministral") or kind == "mistral":
        inner.setdefault("sliding_window", None)  # as published; the class would have one when it is silent
    outer["text_config"] = dict(inner, model_type=kind)
    return outer


def has_quantisation(config):
    return any("quantization_config" in c for c in (config, config.get("text_config") or {}))


def speech(width, layers, heads, more):
    """The configuration of a Whisper; publishers' files say the same and more."""
    config = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "torch_dtype": "float32",
              "activation_function": "gelu", "d_model": width, "num_mel_bins": 80, "vocab_size": 51865,
              "max_source_positions": 1500, "max_target_positions": 448}
    for stack in ("encoder", "decoder"):
        config.update({stack + "_layers": layers, stack + "_attention_heads": heads, stack + "_ffn_dim": 4 * width})
    return dict(config, **more)


def read(folder):
    """Repository to (configuration, source, note)."""
    rows = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            config = json.load(f)
        repo = name[:-5].replace("--", "/", 1)
        rows[repo] = (config, config.get("_source", ""), "")
    for name, width, layers, heads, more, source in SPEECH:
        rows["openai/whisper-" + name] = (speech(width, layers, heads, more), source, "put together of its widths")
    for repo, (config, source, _) in rows.items():
        if QUANTISED_ELSEWHERE.match(repo) and not has_quantisation(config):
            stated = dict(config, quantization_config={"quant_method": "modelopt"})
            rows[repo] = (stated, source, "quantised, as hf_quant_config.json says")
    for repo, quantised in PLAIN.items():
        config, source, _ = rows[quantised]
        plain = {k: v for k, v in config.items() if k != "quantization_config"}
        rows[repo] = (plain, source, "the shape of %s, which was made of it" % quantised)
    for repo, (kind, vision, source) in NESTED.items():
        config, was, _ = rows[repo]
        rows[repo] = (nested(config, kind, vision), was + ("; " + source if source else ""), "nested as published")
    for repo, (tower, source) in TOWERS.items():
        config, was, note = rows[repo]
        vision = rows[tower][0]["vision_config"] if isinstance(tower, str) else tower
        rows[repo] = (dict(config, vision_config=vision), was + "; " + source, note or "with its tower, as published")
    return {repo: row for repo, row in rows.items() if repo not in LEFT_OUT}


def short_names(name):
    """(rank, alias): what people type instead; the lower rank wins, and where two are equal nobody does."""
    bare = re.sub(r"^(meta-|nvidia-)", "", name)
    if bare != name:
        yield 1, bare
    plain = re.sub(r"-(instruct|it|chat|hf|bf16)(-hf)?(-v1\.0)?$", "", bare)
    if plain != bare:
        yield 2, plain


def aliases(rows):
    names = {repo.split("/")[1].lower(): repo for repo in rows}
    claims = {}
    for name, repo in names.items():
        for rank, alias in short_names(name):
            if alias not in names:
                claims.setdefault(alias, []).append((rank, repo))
    out = {repo: [] for repo in rows}
    for alias, who in claims.items():
        best = [repo for rank, repo in who if rank == min(w[0] for w in who)]
        if len(best) == 1:
            out[best[0]].append(alias)
    for other, repo in SAME.items():
        taken = other.split("/")[1].lower()
        out[repo] += [other] + ([taken] if taken not in names and taken not in claims else [])
    return out


def clean(source):
    """As the other tables have it: github.com/owner/name@commit path."""
    source = re.sub(r"https://(github\.com/[^/ ]+/[^/ ]+)/blob/([0-9a-f]{8})[0-9a-f]*/\S*/([^/ ]+/[^/ ]+)", r"\1@\2 \3", source)
    source = re.sub(r"https://(github\.com/[^/ ]+/[^/ ]+)/(?:tree|blob)/main/(\S+)", r"\1 \2", source)
    source = re.sub(r",? ?index ids? [0-9 and]+", " ", source)
    return re.sub(r"\s+", " ", source.replace("https://", "")).strip()


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    rows = read(sys.argv[1])
    also = aliases(rows)
    print("# SPDX-License-Identifier: MIT")
    print("# One published model a row, made by tools/catalogue.py; an empty cell is none. Columns: README.md beside "
          "this file.")
    print("name\trepo\taliases\tlacks\tnote\tconfig\tsource")
    for repo in sorted(rows, key=lambda r: r.split("/")[1].lower()):
        config, source, note = rows[repo]
        row = [repo.split("/")[1].lower(), repo, " ".join(sorted(also[repo])), LACKS.get(repo) or "", note,
               packed(settled(config)), clean(source)]
        print("\t".join(row))


if __name__ == "__main__":
    main()
