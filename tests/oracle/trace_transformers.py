#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Record which storages real transformers allocates and frees in a forward pass, in which order, how large.

    trace_transformers.py OUTDIR        every case below that this version of transformers can run

The pass runs on CPU torch under the profiler, whose memory events come from the allocator itself: nothing
that a kernel takes and gives back is missed. Models have real widths, two layers, constant weights and a
small vocabulary. One file per case; tests/engine/test_oracle.c plays our own tape against it. Format:

    # key value        facts about the run
    O number path      an operator: the path of ATen calls that took the storage, "-" for Python itself
    = name             a place: prefill, decode 1, ..., release
    bytes:number ...   a storage is allocated (by operator `number`); storages count from 0
    -storage ...       a storage is freed

and, in order-*.tsv, what module.to() walks: "P name elements dtype" for parameters, "B ..." for buffers, tied
ones once. Run by tests/oracle/run.sh; no part of the normal tests.
"""
import contextlib
import os
import sys
import textwrap

import torch
import transformers
from torch._C._profiler import _EventType
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import AutoConfig, AutoModelForCausalLM

VERSION = transformers.__version__
MAJOR_MINOR = tuple(int(x) for x in VERSION.split(".")[:2])
VOCAB = 2048

PHI3 = {"pad_token_id": 0, "sliding_window": None}

# Widths of published models (their config.json): hidden, heads, KV heads, head size, MLP width, tied, more.
# A name with a hyphen is a second shape of a class.
SHAPES = {
    "llama": ("llama", 2048, 32, 8, 64, 8192, True, {}),  # Llama-3.2-1B
    "llama-mha": ("llama", 4096, 32, 32, 128, 11008, False, {}),  # Llama-2-7B
    "qwen2": ("qwen2", 1536, 12, 2, 128, 8960, True, {}),  # Qwen2.5-1.5B
    "mistral": ("mistral", 4096, 32, 8, 128, 14336, False, {"sliding_window": 4096}),  # Mistral-7B-v0.1
    "mistral-full": ("mistral", 4096, 32, 8, 128, 14336, False, {"sliding_window": None}),  # Mistral-7B-v0.3
    "qwen3": ("qwen3", 1024, 16, 8, 128, 3072, True, {}),  # Qwen3-0.6B
    "phi3": ("phi3", 3072, 32, 32, 96, 8192, False, PHI3),  # Phi-3-mini-4k
    "phi3-gqa": ("phi3", 5120, 40, 10, 128, 17920, False, PHI3),  # phi-4
    "gemma2": ("gemma2", 2304, 8, 4, 256, 9216, True, {"sliding_window": 4096}),  # gemma-2-2b
    "gemma3_text": ("gemma3_text", 1152, 4, 1, 256, 6912, True, {"sliding_window": 512}),  # gemma-3-1b
}
LAYER_TYPES = ["sliding_attention", "full_attention"]  # of the two layers of gemma2 and gemma3_text

IMPLS = ("sdpa", "eager")


def cases():
    """(shape, implementation, variant) with the variant's settings."""
    for shape in SHAPES:
        for impl in IMPLS:
            yield shape, impl, "base", {}
            if "-" not in shape:
                yield shape, impl, "batch", dict(batch=3, tokens=56)
    for shape in ("mistral", "phi3", "gemma2", "gemma3_text"):
        for impl in IMPLS:
            yield shape, impl, "window", dict(window=48, tokens=80, decode=3)
    for shape in ("qwen2", "gemma2"):
        yield shape, "eager", "last", dict(last=True)
    yield "qwen2", "sdpa", "last", dict(last=True, batch=2)
    for shape in ("qwen2", "gemma3_text"):
        yield shape, "eager", "fp32", dict(dtype=torch.float32)
        yield shape, "math", "fp32", dict(dtype=torch.float32)
        yield shape, "math", "batch", dict(batch=3, tokens=56)
    for shape in ("mistral", "phi3"):
        yield shape, "math", "base", {}
    yield "mistral", "math", "window", dict(window=48, tokens=80, decode=3)
    yield "qwen2", "sdpa", "fp16", dict(dtype=torch.float16)


def make_config(shape, window=None):
    kind, hidden, heads, kv_heads, head_dim, ffn, tied, more = SHAPES[shape]
    facts = dict(hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv_heads,
                 head_dim=head_dim, intermediate_size=ffn, tie_word_embeddings=tied, num_hidden_layers=2,
                 vocab_size=VOCAB, **more)
    if kind.startswith("gemma"):
        facts["layer_types"] = list(LAYER_TYPES)
    if window is not None:
        facts["sliding_window"] = window
    return AutoConfig.for_model(kind, **facts)


def make_model(config, impl, dtype):
    """On meta first: random initialisation of real widths takes minutes on a CPU and changes nothing here."""
    torch.set_default_dtype(dtype)
    with torch.device("meta"):
        asked = "sdpa" if impl == "math" else impl
        model = AutoModelForCausalLM.from_config(config, attn_implementation=asked)
    torch.set_default_dtype(torch.float32)
    wide = {name for name, _ in model.named_buffers() if name.endswith("inv_freq")}
    model = model.to_empty(device="cpu").eval()
    model.tie_weights()
    for parameter in model.parameters():
        parameter.data.fill_(0.01)
    for name, buffer in model.named_buffers():
        buffer.data = torch.full_like(buffer, 0.5, dtype=torch.float32 if name in wide else dtype)
    return model


class Walk:
    """Memory events of a profile in the order of time, each with the operators around it."""

    def __init__(self, prof):
        self.events = []
        for root in prof.profiler.kineto_results.experimental_event_tree():
            self.visit(root, [])
        self.events.sort(key=lambda e: e[0])

    def visit(self, event, path):
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            self.events.append((event.start_time_ns, fields.ptr, fields.alloc_size, path))
        elif event.name.startswith("= "):
            self.events.append((event.start_time_ns, None, event.name, path))
        else:
            name = event.name.removeprefix("aten::")
            path = path if path and path[-1] == name else path + [name]  # vmap repeats itself once per level
        for child in event.children:
            self.visit(child, path)


def mark(name):
    with record_function("= " + name):
        pass


def trace(model, batch, tokens, decode, last, math):
    keep = {"logits_to_keep": 1} if last else {}
    key = "cache" if MAJOR_MINOR >= (5, 20) else "past_key_values"
    backend = sdpa_kernel([SDPBackend.MATH]) if math else contextlib.nullcontext()

    def call(ids, cache=None):
        return model(ids, use_cache=True, **keep, **({} if cache is None else {key: cache}))

    ids = torch.zeros((batch, tokens), dtype=torch.long)
    with torch.no_grad(), backend:
        warm = call(torch.zeros((1, 8), dtype=torch.long))
        call(torch.zeros((1, 1), dtype=torch.long), getattr(warm, key))
        del warm
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
            mark("prefill")
            out = call(ids)
            for step in range(decode):
                mark(f"decode {step + 1}")
                out = call(ids[:, :1], getattr(out, key))
            mark("release")
            del out
    return Walk(prof)


def write(path, header, walk):
    numbers, storages, lines, words, n = {}, {}, [], [], 0

    def flush():
        if words:
            lines.extend(textwrap.wrap(" ".join(words), 108, break_on_hyphens=False))
            words.clear()

    for _, pointer, size, ops in walk.events:
        if pointer is None:
            flush()
            lines.append(size)
        elif size > 0:
            name = "/".join(ops) or "-"
            if name not in numbers:
                flush()
                numbers[name] = len(numbers)
                lines.append(f"O {numbers[name]} {name}")
            storages[pointer] = n
            n += 1
            words.append(f"{size}:{numbers[name]}")
        elif pointer in storages:
            words.append(f"-{storages.pop(pointer)}")
    flush()
    with open(path, "w") as out:
        out.write("".join(f"# {k} {v}\n" for k, v in header.items()))
        out.write("\n".join(lines) + "\n")


def write_order(path, header, model):
    """What module.to() visits, in its order; a tied parameter is moved at its first visit."""
    names, seen, lines = {}, set(), []
    for name, tensor in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]:
        names.setdefault(id(tensor), name)
    parameters = {id(p) for p in model.parameters()}

    def visit(tensor):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kind = "P" if id(tensor) in parameters else "B"
            dtype = str(tensor.dtype).removeprefix("torch.")
            lines.append(f"{kind} {names[id(tensor)]} {tensor.numel()} {dtype}")
        return tensor

    def walk(module):  # as torch.nn.Module._apply does
        for child in module.children():
            walk(child)
        for parameter in module._parameters.values():
            if parameter is not None:
                visit(parameter)
        for buffer in module._buffers.values():
            if buffer is not None:
                visit(buffer)

    walk(model)
    with open(path, "w") as out:
        out.write("".join(f"# {k} {v}\n" for k, v in header.items()))
        out.write("\n".join(lines) + "\n")


def describe(shape, **more):
    kind, hidden, heads, kv_heads, head_dim, ffn, tied, _ = SHAPES[shape]
    return dict(model_type=kind, hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=head_dim, ffn=ffn,
                vocab=VOCAB, tied=int(tied), layers=2, transformers=VERSION,
                torch=torch.__version__.split("+")[0], python=".".join(map(str, sys.version_info[:3])),
                **more)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    for shape in SHAPES:
        model = make_model(make_config(shape), "eager", torch.bfloat16)
        write_order(os.path.join(out, f"order-{shape}-{VERSION}.tsv"), describe(shape), model)
    for shape, impl, variant, settings in cases():
        batch, tokens = settings.get("batch", 1), settings.get("tokens", 80)
        decode, last = settings.get("decode", 1), settings.get("last", False)
        dtype = settings.get("dtype", torch.bfloat16)
        try:
            config = make_config(shape, settings.get("window"))
            model = make_model(config, impl, dtype)
        except ValueError as error:
            print(f"{shape} {impl}: {str(error).splitlines()[0][:90]}")
            continue
        walk = trace(model, batch, tokens, decode, last, impl == "math")
        window = getattr(config, "sliding_window", None) or 0
        kinds = getattr(config, "layer_types", None)
        if kinds is None:
            one = window and shape.startswith(("mistral", "phi3"))
            kinds = ["sliding_attention" if one else "full_attention"] * 2
        letters = "".join("s" if k.startswith("sliding") else "f" for k in kinds)
        header = describe(shape, implementation=impl, batch=batch, tokens=tokens, decode=decode,
                          logits="last" if last else "all", dtype=str(dtype).removeprefix("torch."),
                          window=window, layer_kinds=letters)
        name = f"{shape}-{impl}-{variant}-{VERSION}.tsv"
        write(os.path.join(out, name), header, walk)
        print(f"{name}: {len(walk.events)} events")


if __name__ == "__main__":
    main()
