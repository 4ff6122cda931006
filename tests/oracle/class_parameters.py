#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What real classes declare and keep, of every configuration of the built-in catalogue: no weights, all on meta.

    class_parameters.py [--only WORD] FACTS MISSING     writes tests/model/class_parameters.tsv and ..._missing.tsv
    class_parameters.py [--only WORD] --more FILE FACTS tests/model/more_parameters.tsv, of the configurations in FILE
                                                        (tests/oracle/more_classes.json): classes without a published
                                                        configuration in the catalogue, small and with odd sizes

Run with the python of one of the environments that run.sh makes. Of each configuration, without its
quantization_config (parameters are those that packed ones stand for):

    M name class parameters embedding head buffers   tied ones once; those of the token embedding, of the head when it
                                                     is not tied, and elements of buffers that checkpoints store
    N name                                           another name whose configuration makes the very same
    A 3*sliding_attention full_attention ...         kind of each layer of the decoder, where the class says it
    L stack count parameters                         so many layers of that stack have so many parameters
    C count name=shape ...                           so many layers' caches, tensors after a pass over t tokens
    T count shape name                               tensors of a checkpoint; {} stands for any number
    J {...}                                          with --more: the configuration itself

MISSING has a line for each configuration without facts, and for those that the catalogue leaves out: name, reason.
"""
import argparse
import collections
import copy
import gc
import json
import os
import re
import sys

import torch
import transformers
import transformers.masking_utils

from models import VERSION, make_config, stored
from trace_transformers import shape_word

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))
from catalogue import LEFT_OUT  # noqa: E402
TOKENS = 13  # no width of any model


# ---- the catalogue

def unfolded(text):
    """*N(...) in a list is what stands in the brackets N times."""
    while (at := re.search(r"\*(\d+)\(", text)) is not None:
        depth, end = 1, at.end()
        while depth > 0:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:at.start()] + ",".join([text[at.end():end - 1]] * int(at[1])) + text[end:]
    return text


def with_constants(facts):
    """The catalogue has no constants of the mathematics; some classes insist on these."""
    for value in facts.values():
        if isinstance(value, dict):
            with_constants(value)
            if "rope_type" in value:
                for key, constant in (("rope_theta", 1e4), ("low_freq_factor", 1.0), ("high_freq_factor", 4.0)):
                    value.setdefault(key, constant)
    return facts


def catalogue():
    with open(os.path.join(ROOT, "data", "catalogue.tsv")) as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    for row in rows[1:]:
        named = dict(zip(rows[0], row))
        config = json.loads(unfolded(named["config"]))
        config.pop("quantization_config", None)
        yield named["name"], with_constants(config)


# ---- one class

def class_of(config, facts):
    for name in facts.get("architectures") or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    for auto in ("AutoModelForCausalLM", "AutoModelForImageTextToText"):
        mapping = getattr(transformers, auto)._model_mapping
        if type(config) in mapping:
            return mapping[type(config)]
    raise ValueError(f"no class for {facts['model_type']}")


def config_of(facts):
    """A publisher's own name for a class that transformers has (kimi_k2 is DeepseekV3ForCausalLM)."""
    own = (getattr(transformers, name, None) for name in facts.get("architectures") or [])
    own = next((c for c in own if c is not None), None)
    if facts["model_type"] in transformers.CONFIG_MAPPING:
        config = make_config(facts)
    elif own is not None:
        config = own.config_class(**{k: v for k, v in facts.items() if k != "model_type"})
    else:
        raise ValueError(f"transformers {VERSION} has no class for {facts['model_type']}")
    said, text = facts.get("text_config", facts), config.get_text_config()
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"):
        if key in said and getattr(text, key, None) != said[key]:  # or defaults stand for what was said
            raise ValueError(f"{type(config).__name__} does not take {key} from this configuration")
    return config


def build(facts):
    config = config_of(facts)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            model = class_of(config, facts)._from_config(config)
    finally:
        torch.set_default_dtype(torch.float32)
    model.tie_weights()
    return model.eval()


def run_length(items):
    out = []
    for item in items:
        if out and out[-1][1] == item:
            out[-1][0] += 1
        else:
            out.append([1, item])
    return out


def stacks(model):
    """Lists of layers that lie in no other."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) > 1 and not any(
                name.startswith(f + ".") for f in found):
            found.append(name)
            sizes = [sum(p.numel() for p in layer.parameters()) for layer in module]
            for size, count in collections.Counter(sizes).items():
                yield f"L {name} {count} {size}"


def collapsed(tensors):
    found = collections.Counter()
    for name, tensor in tensors.items():
        found[(re.sub(r"(?<=\.)\d+(?=\.|$)", "{}", name), shape_word(tensor))] += 1
    return [f"T {count} {shape} {name}" for (name, shape), count in found.items()]


class Unrouted(torch.nn.Module):
    """Which experts are taken is data, and there is none on meta; what they give is as large as what they read."""

    def forward(self, hidden, *_, **__):
        return torch.empty_like(hidden)


def tensors_of(layer):
    """Every tensor a layer's cache holds, t for the tokens of the pass; :f32 where it is wider than the model."""
    def word(t):
        shape = "x".join("t" if n == TOKENS else str(n) for n in t.shape) or "-"
        return shape + (":f32" if t.dtype == torch.float32 else "")

    out = []
    for name, value in sorted(vars(layer).items()):
        values = value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else [value]
        out += [f"{name}={word(v)}" for v in values if isinstance(v, torch.Tensor) and v.numel() > 1]
    return type(layer).__name__ + " " + " ".join(out)


def speech_of(config, dtype):
    return {"input_features": torch.zeros((1, config.num_mel_bins, 2 * config.max_source_positions), dtype=dtype)}


def states_of(model):
    """What modules keep themselves: RecurrentGemma's states, under the names that others have for them."""
    for module in model.modules():
        if isinstance(getattr(module, "conv1d_state", None), torch.Tensor):
            held = argparse.Namespace(conv_states=module.conv1d_state, recurrent_states=module.rg_lru.recurrent_states)
            yield tensors_of(held)


def cache_lines(model):
    for name, module in list(model.named_modules()):
        if type(module).__name__.endswith("Experts"):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], Unrouted())
    transformers.masking_utils.is_tracing = lambda *_: True  # or masks are looked into
    with torch.device("meta"), torch.no_grad():
        ids = torch.zeros((1, TOKENS), dtype=torch.long)
        try:
            out = model(**speech_of(model.config, model.dtype), decoder_input_ids=ids, use_cache=True) if (
                model.main_input_name == "input_features") else model(ids, use_cache=True)
        except AttributeError:  # Llama4ForConditionalGeneration of 5.24 asks for outputs of images that were not given
            out = model.get_decoder()(ids, use_cache=True)
        names = ("cache", "past_key_values", "cache_params")
        cache = next((getattr(out, n) for n in names if getattr(out, n, None) is not None), None)
        if cache is None:  # RecurrentGemma gives none back
            cache = transformers.DynamicCache(config=model.config)
            model(ids, use_cache=True, cache=cache)
    both = [getattr(cache, name + "_attention_cache", None) for name in ("self", "cross")]
    found = collections.Counter(tensors_of(layer) for part in ([cache] if None in both else both) for layer in part.layers)
    found.update(states_of(model))
    return [f"C {n} {text}" for text, n in found.items()]


def facts_of(facts):
    model = build(facts)
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    tied = head is None or head.weight is embedding
    parameters = {id(p) for p in model.parameters()}
    buffers = sum(b.numel() for n, b in model.state_dict(keep_vars=True).items() if id(b) not in parameters)
    lines = [f"{type(model).__name__} {sum(p.numel() for p in model.parameters())} {embedding.numel()} "
             f"{0 if tied else head.weight.numel()} {buffers}"]
    kinds = getattr(model.config.get_text_config(), "layer_types", None)
    if kinds:
        lines.append("A " + " ".join(f"{n}*{kind}" if n > 1 else kind for n, kind in run_length(kinds)))
    lines += stacks(model)
    tensors = collapsed(stored(model))
    try:
        lines += cache_lines(model)
    except Exception as error:  # pylint: disable=broad-except
        print(f"  no cache: {type(error).__name__} {str(error).splitlines()[0][:150]}", file=sys.stderr)
    return lines + tensors


def head_of(torch_version):
    return (f"# SPDX-License-Identifier: MIT\n# Made by tests/oracle/class_parameters.py with transformers {VERSION}, "
            f"PyTorch {torch_version.split('+')[0]}; what it says is told there.\n")


def record_more(path, out, only):
    with open(path, encoding="utf-8") as f:
        cases = json.load(f)
    with open(out, "w", encoding="utf-8") as out:
        out.write(head_of(torch.__version__))
        for name, facts in cases.items():
            if only not in name:
                continue
            print(name, file=sys.stderr, flush=True)
            lines = facts_of(copy.deepcopy(facts))
            out.write("\n".join([f"M {name} {lines[0]}", "J " + json.dumps(facts, separators=(",", ":")), *lines[1:], ""]))


def main():
    only = sys.argv[2] if sys.argv[1] == "--only" else ""
    if sys.argv[-3] == "--more":
        record_more(sys.argv[-2], sys.argv[-1], only)
        return
    paths, found, missing = sys.argv[-2:], {}, []
    for name, facts in catalogue():
        if only not in name:
            continue
        key = json.dumps({k: v for k, v in facts.items() if k not in ("dtype", "torch_dtype")}, sort_keys=True)
        if key not in found:
            print(name, file=sys.stderr, flush=True)
            try:
                found[key] = facts_of(copy.deepcopy(facts))
            except Exception as error:  # pylint: disable=broad-except
                found[key] = f"{type(error).__name__}: {str(error).splitlines()[0][:140]}"
            gc.collect()
        if isinstance(found[key], str):
            missing.append((name, found[key]))
            print(f"  {found[key][:200]}", file=sys.stderr, flush=True)
        else:
            found.setdefault("names", {}).setdefault(key, []).append(name)
    head = head_of(torch.__version__)
    with open(paths[0], "w") as out:
        out.write(head)
        for key, names in found.get("names", {}).items():
            out.write(f"M {names[0]} " + "\n".join([found[key][0], *(f"N {n}" for n in names[1:]), *found[key][1:]]) + "\n")
    missing += [(name, f"not in the catalogue: {reason}") for name, reason in LEFT_OUT.items()]
    with open(paths[1], "w") as out:
        out.write(head + "name\treason\n" + "".join(f"{n}\t{reason}\n" for n, reason in missing))


if __name__ == "__main__":
    main()
