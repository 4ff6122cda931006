# SPDX-License-Identifier: MIT
"""Classes of transformers built from a configuration: on meta, or in memory with constant weights."""
import copy
import importlib
import inspect
import re
import textwrap

import torch
import transformers
from transformers import AutoConfig

VERSION = transformers.__version__
MAJOR_MINOR = tuple(int(x) for x in VERSION.split(".")[:2])


def make_config(facts):
    """From the members of a config.json."""
    facts = copy.deepcopy(facts)
    return AutoConfig.for_model(facts.pop("model_type"), **facts)


def merged(facts, more):
    """`facts` with the members of `more` in their place, nested ones too."""
    out = dict(facts)
    for key, value in more.items():
        nested = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merged(out[key], value) if nested else value
    return out


def wide_names(model, dtype):
    """Parameters that from_pretrained keeps in fp32, by the rules of its own (modeling_utils.py)."""
    modules = []
    if dtype == torch.float16:
        modules += model._keep_in_fp32_modules or []
    if dtype in (torch.float16, torch.bfloat16):
        modules += model._keep_in_fp32_modules_strict or []
    pattern = re.compile("|".join(rf"((^|\.){re.escape(m)}($|\.))" for m in modules)) if modules else None
    return {n for n, _ in model.named_parameters() if pattern is not None and pattern.search(n)}


def on_meta(config, auto, dtype=torch.bfloat16, **asked):
    """auto: an Auto class, or a class that none of these makes. asked: attn_implementation, experts_implementation."""
    config = copy.deepcopy(config)
    experts = asked.pop("experts_implementation", None)
    if experts is not None:
        for part in [config, *(v for v in vars(config).values() if isinstance(v, transformers.PretrainedConfig))]:
            part._experts_implementation = experts
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            made = getattr(transformers, auto)
            model = (made.from_config if hasattr(made, "from_config") else made._from_config)(config, **asked)
    finally:
        torch.set_default_dtype(torch.float32)
    model.tie_weights()
    wide = wide_names(model, dtype)
    for name, parameter in model.named_parameters():
        if name in wide:
            parameter.data = parameter.data.to(torch.float32)
    return model.eval()


def in_memory(model):
    """A model on meta gets constant weights: random ones of real widths take minutes and change nothing here."""
    model = model.to_empty(device="cpu").eval()
    model.tie_weights()
    for parameter in model.parameters():
        parameter.data.fill_(0.01)
    for buffer in model.buffers():
        buffer.data.fill_(0.5 if buffer.dtype.is_floating_point else 0)
    return model


REPLACED = set()


def as_on_cuda(edits, applies):
    """Functions that ask for the device take their other branch: their own source with a condition replaced."""
    for edit in edits:
        if edit["function"] in REPLACED or not applies(edit.get("versions")):
            continue
        REPLACED.add(edit["function"])
        path, _, name = edit["function"].partition(":")
        module = importlib.import_module(path)
        owner, _, method = name.partition(".")
        owner = getattr(module, owner)
        source = textwrap.dedent(inspect.getsource(getattr(owner, method)))
        pairs = [edit[k] if isinstance(edit[k], list) else [edit[k]] for k in ("replace", "by")]
        for old, new in zip(*pairs):
            if old not in source:
                raise RuntimeError(f"{old} is not in {name}")
            source = source.replace(old, new)
        made = {}
        exec(source, vars(module), made)
        setattr(owner, method, made[method])


def stored(model):
    """Names and tensors as save_pretrained would write them: what a checkpoint of this class looks like."""
    tensors, seen = {}, set()
    ignored = set(getattr(model, "_keys_to_ignore_on_save", None) or [])
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen and name not in ignored:
            seen.add(id(tensor))
            tensors[name] = tensor.data
    if MAJOR_MINOR >= (5, 0):
        from transformers.core_model_loading import revert_weight_conversion
        return revert_weight_conversion(model, tensors)
    back = {v: k for k, v in (getattr(model, "_checkpoint_conversion_mapping", None) or {}).items()}
    out = {}
    for name, tensor in tensors.items():
        for pattern, replacement in back.items():  # as save_pretrained of 4.5x does
            replacement = re.sub(r"\(.*\)", "", replacement.lstrip("^"))
            name, n = re.subn(pattern, replacement, name)
            if n > 0:
                break
        out[name] = tensor
    return out
