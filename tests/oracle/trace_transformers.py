#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Record which storages real transformers allocates and frees in a forward pass, in which order, how large.

    trace_transformers.py [--cases FILE[:NAME,NAME...]] [--fresh SEED] OUTDIR     (--cases can be repeated)

The pass runs on CPU torch under the profiler, whose memory events come from the allocator itself: nothing
that a kernel takes and gives back is missed. Models have real widths, few layers, constant weights and a
small vocabulary. One file per run; tests/engine/test_oracle.c plays our own tape against it. Format:

    # key value        facts about the run; "config" is the config.json of which both sides are built
    O number path      an operator: the path of ATen calls that took the storage, "-" for Python itself
    = name             a place: encoder, prefill, decode 1, ..., release
    bytes:number ...   a storage is allocated (by operator `number`); storages count from 0
    -storage ...       a storage is freed

and, in order-*.tsv, what module.to() walks: "P name elements dtype shape" for parameters, "B ..." for
buffers, tied ones once; after them "S name dtype shape" for each tensor of a checkpoint of this class.
Shapes are 2048x1536, of a scalar "-". Run by tests/oracle/run.sh; no part of the normal tests.

With --fresh those of the cases that tests/oracle/facts has are recorded at other depths, lengths and widths
(fresh.py).

A case is an entry in a file of tests/oracle/cases/ (one file a kind, so that people do not meet):

    "qwen3_moe": {                          name; files are called NAME-IMPLEMENTATION-VARIANT-VERSION.tsv
      "about": "Qwen3-30B-A3B, ...",        whose widths these are, and what was reduced
      "class": "AutoModelForCausalLM",      default; any Auto class, or the class itself
      "config": {"model_type": ..., ...},   everything a published config.json would say
      "versions": ">=5.0",                  optional: where it is recorded (>=, <, == joined by commas)
      "runs": [
        {"variant": "base", "implementation": ["sdpa", "eager"]},
        {"variant": "batch", "implementation": ["sdpa"], "batch": 3, "tokens": 56} ] }

A configuration with a "quantization_config" gets the modules of its quantiser (packed.py, which says what is
left out), and no order-*.tsv.

A case can also say what of the class does not ask for the device when it is recorded:
      "as_on_cuda": [{"function": "module:Class.method", "replace": SOURCE, "by": SOURCE, "versions": "<5.0"}]

Members of a run (defaults): batch (1), tokens (80), decode (1) tokens one by one, logits ("all", "last"),
dtype ("bfloat16"), implementation ("sdpa", "eager", "math": sdpa's plain products, flex_attention, ...),
versions, and
  config     members that replace those of the case, nested ones too
  cache      "dynamic" (default), "none" (use_cache=False), {"static": LENGTH}, "offloaded", {"static": LENGTH,
             "offloading": true}, {"quantized": {"backend": "quanto", "nbits": 4, ...}}
  experts    experts_implementation of 5.x ("eager", "grouped_mm", "batched_mm")
  routing    "spread" (default): token t's j-th expert is (t * k + j) modulo n; "first": experts 0..k-1
  encoder    {"tokens": N}, or inputs as below: what the encoder reads first; `tokens` are the decoder's
  inputs     more tensors of the first call: name: {"shape": [..], "dtype": "model" (default) or another,
             "fill": 1, "values": [..]}; "batch" in a shape stands for that number
  image_tokens   {"id": I, "at": A, "count": N}: ids A..A+N-1 of each sequence are I
  drafts     tokens in each call beside those above, whose logits are computed and which are cut off the cache
             afterwards, as _assisted_decoding does (with "logits": "last")
  generate   arguments of generate(): runs that instead of single calls; `decode` is max_new_tokens - 1
  workload   settings of our own engine that say the same, "# workload key value" in the facts
"""
import argparse
import contextlib
import functools
import json
import os
import random
import sys
import textwrap

import torch
from torch._C._profiler import _EventType
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile, record_function

from fresh import fresh
from models import MAJOR_MINOR, VERSION, as_on_cuda, in_memory, make_config, merged, on_meta, stored
from packed import load_packed, pack

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "cases")


# ---- cases

def in_versions(rule):
    for part in filter(None, (rule or "").split(",")):
        sign = part.rstrip("0123456789.")
        asked = tuple(int(x) for x in part[len(sign):].split("."))
        mine = tuple(int(x) for x in VERSION.split("."))[:len(asked)]
        if not {">=": mine >= asked, "<": mine < asked, "==": mine == asked}[sign]:
            return False
    return True


def chosen_cases(asked):
    """(name, case) of the files named, or of all."""
    for word in asked or sorted(f.removesuffix(".json") for f in os.listdir(CASES) if f.endswith(".json")):
        path, _, names = word.partition(":")
        if not os.path.exists(path):
            path = os.path.join(CASES, path.removesuffix(".json") + ".json")
        with open(path) as f:
            cases = json.load(f)
        for name in names.split(",") if names else cases:
            if in_versions(cases[name].get("versions")):
                yield name, cases[name]


# ---- experts

class Routing:
    """Which experts a token takes would depend on weights; the indices that torch.topk found are overwritten
    in place, so that nothing is allocated that would not be."""

    def __init__(self, model, how):
        self.how, self.tables, self.real = how, {}, (torch.topk, torch.Tensor.topk)
        config = model.config.get_text_config()
        names = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
        self.experts = next((getattr(config, n) for n in names if getattr(config, n, None)), None)
        names = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts", "moe_topk")
        self.k = next((getattr(config, n) for n in names if getattr(config, n, None)), None)

    def table(self, shape):
        """Made in the warm-up for every number of tokens there will be."""
        if shape not in self.tables:
            rows = torch.arange(shape.numel()) if self.how == "spread" else torch.arange(self.k).repeat(
                shape.numel() // self.k)
            self.tables[shape] = (rows % self.experts).reshape(shape)
        return self.tables[shape]

    def counts(self, tokens):
        shape = torch.Size((tokens, self.k))
        return torch.bincount(self.table(shape).flatten(), minlength=self.experts).tolist()

    def __enter__(self):
        if self.experts and self.k:
            torch.topk = torch.Tensor.topk = lambda *args, **more: self.topk(*args, **more)
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.real

    def topk(self, scores, k, *args, **more):
        out = self.real[0](scores, k, *args, **more)
        if k == self.k and scores.shape[-1] == self.experts:
            out.indices.copy_(self.table(out.indices.shape))
        return out


# ---- running

def mark(name):
    with record_function("= " + name):
        pass


# A cache that offloads asks for streams and moves between a card and the host: the card is the CPU here, the host is
# meta, which takes no memory.
OFFLOADING = [
    {"function": "transformers.cache_utils:Cache.__init__", "replace": "torch.Stream()",
     "by": "__import__('unittest.mock').mock.MagicMock()"},
    {"function": "transformers.cache_utils:Cache.update", "replace": "torch.cuda.default_stream(key_states.device)",
     "by": "self.prefetch_stream"},
    {"function": "transformers.cache_utils:CacheLayerMixin.offload", "replace": '.to("cpu", non_blocking=True)',
     "by": '.to("meta")'},
    {"function": "transformers.cache_utils:CacheLayerMixin.prefetch",
     "replace": ["self.keys.to(self.device, non_blocking=True)", "self.values.to(self.device, non_blocking=True)"],
     "by": ["torch.empty_like(self.keys, device=self.device)", "torch.empty_like(self.values, device=self.device)"]},
]


def unpack_as_on_cuda():
    """Quanto's extension for the CPU puts pieces together; the one for CUDA (unpack.cu) takes its result alone."""
    from optimum.quanto.library.extensions import extension

    class Library:
        @staticmethod
        def unpack(packed, bits):
            return torch.empty((packed.shape[0] * (8 // bits), *packed.shape[1:]), dtype=packed.dtype)

    extension.get_extension("quanto_cpp")._lib = Library


CACHE_NAMES = ("cache", "past_key_values", "cache_params", "mems")


class Call:
    """One run's calls of the model."""

    def __init__(self, model, run, dtype):
        self.model, self.run, self.dtype = model, run, dtype
        self.batch, self.tokens, self.decode = run["batch"], run["tokens"], run["decode"]
        self.more = {} if run["cache"] == "none" else {"use_cache": True}
        self.drafts = run.get("drafts", 0)
        self.scores = [None, None]
        if run["logits"] == "last":
            self.more["logits_to_keep"] = 1 + self.drafts
        self.encodes = model.config.is_encoder_decoder
        self.ids_name = "decoder_input_ids" if self.encodes else "input_ids"

    def tensor(self, spec, batch):
        if "values" in spec:
            return torch.tensor(spec["values"], dtype=getattr(torch, spec.get("dtype", "int64")))
        shape = [batch if n == "batch" else n for n in spec["shape"]]
        dtype = spec.get("dtype", "model")
        return torch.full(shape, spec.get("fill", 1), dtype=self.dtype if dtype == "model" else getattr(torch, dtype))

    def ids(self, batch, tokens):
        ids = torch.zeros((batch, tokens), dtype=torch.long)
        image = self.run.get("image_tokens")
        if image and tokens == self.tokens:
            ids[:, image["at"]:image["at"] + image["count"]] = image["id"]
        return ids

    def inputs(self, batch):
        return {n: self.tensor(s, batch) for n, s in self.run.get("inputs", {}).items()}

    def encoder_inputs(self, batch):
        spec = self.run.get("encoder", {})
        if "tokens" in spec:
            return {"input_ids": torch.zeros((batch, spec["tokens"]), dtype=torch.long)}
        return {n: self.tensor(s, batch) for n, s in spec.items()}

    def new_cache(self):
        asked, config = self.run["cache"], self.model.config
        if isinstance(asked, dict) and "quantized" in asked:
            from transformers import QuantizedCache
            cache = QuantizedCache(config=config, **asked["quantized"])
            unpack_as_on_cuda()
        elif isinstance(asked, dict):
            from transformers import StaticCache
            cache = StaticCache(config=config, max_cache_len=asked["static"], offloading=asked.get("offloading", False))
        elif asked == "offloaded":
            from transformers import DynamicCache
            cache = DynamicCache(config=config, offloading=True)
        else:
            return {}
        return {self.cache_name(): cache}

    def cache_name(self):
        return "cache" if MAJOR_MINOR >= (5, 20) else "past_key_values"

    def cache_of(self, out):
        for name in CACHE_NAMES:
            if getattr(out, name, None) is not None:
                return {name: getattr(out, name)}
        return {}

    def first(self, ids, encoder, inputs):
        if self.encodes:
            mark("encoder")
            encoded = self.model.get_encoder()(**encoder)
            mark("prefill")
            return self.model(encoder_outputs=encoded, **{self.ids_name: ids}, **inputs, **self.more)
        mark("prefill")
        return self.model(ids, **inputs, **self.new_cache(), **self.more)

    def next(self, ids, out):
        more = {}
        if self.encodes:
            more["encoder_outputs"] = (out.encoder_last_hidden_state,)
        return self.model(**{self.ids_name: ids}, **more, **self.cache_of(out), **self.more)

    def reject(self, out):
        """generation/utils.py, _assisted_decoding: with the names of its variables."""
        if self.drafts == 0:
            return
        self.scores[0] = out.logits[:, -self.drafts - 1:].to(dtype=torch.float32)
        self.scores[1] = self.scores[0].clone()
        next(iter(self.cache_of(out).values())).crop(-self.drafts)

    def steps(self, ids, encoder, inputs):
        out = self.first(ids, encoder, inputs)
        self.reject(out)
        for step in range(self.decode):
            mark(f"decode {step + 1}")
            out = self.next(ids[:, :1 + self.drafts], out)
            self.reject(out)
        mark("release")
        self.scores = [None, None]
        del out

    def generate(self, ids, encoder, inputs):
        """generate() marks nothing itself: each call of the model begins a place."""
        calls, forward = [], self.model.forward

        @functools.wraps(forward)  # generate() looks for names of its arguments
        def marked(*args, **more):
            mark(f"decode {len(calls)}" if calls else "prefill")
            calls.append(1)
            return forward(*args, **more)

        self.model.forward = marked
        more = {**encoder, **inputs} if self.encodes else {"input_ids": ids, **inputs}
        if self.encodes:
            mark("encoder")
        out = self.model.generate(**more, max_new_tokens=self.decode + 1, do_sample=False, **self.run["generate"])
        assert len(calls) == self.decode + 1, "it ended early"
        mark("release")
        del out
        self.model.forward = forward

    def warm(self):
        """What is made once and kept, and what torch does at first sight of an operator."""
        if self.run.get("generate") is not None:
            self.generate(self.ids(self.batch, self.tokens), self.encoder_inputs(self.batch), self.inputs(self.batch))
            return
        small = not self.run.get("inputs") and not self.encodes and self.run["cache"] == "dynamic"
        ids = self.ids(1, 8) if small else self.ids(self.batch, self.tokens)
        out = self.first(ids, self.encoder_inputs(self.batch), self.inputs(self.batch))
        if self.decode > 0:
            self.next(self.ids(ids.shape[0], 1), out)


def trace(model, run, dtype):
    math = sdpa_kernel([SDPBackend.MATH]) if run["implementation"] == "math" else contextlib.nullcontext()
    routing = Routing(model, run["routing"])
    if routing.experts:  # made before anything is recorded
        for tokens in (run["batch"] * run["tokens"], run["batch"]):
            routing.counts(tokens)
    call = Call(model, run, dtype)
    ids = call.ids(run["batch"], run["tokens"] + run.get("drafts", 0))
    encoder, inputs = call.encoder_inputs(run["batch"]), call.inputs(run["batch"])
    with torch.no_grad(), math, routing:
        call.warm()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
            (call.steps if run.get("generate") is None else call.generate)(ids, encoder, inputs)
    return Walk(prof), routing


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


# ---- writing

def write(path, header, lines):
    with open(path, "w") as out:
        out.write("".join(f"# {k} {v}\n" for k, v in header))
        out.write("\n".join(lines) + "\n")


def event_lines(walk):
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
    return lines


def shape_word(tensor):
    return "x".join(map(str, tensor.shape)) or "-"


def dtype_word(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def order_lines(model):
    """What module.to() visits, in its order; a tied parameter is moved at its first visit."""
    names, seen, lines = {}, set(), []
    for name, tensor in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]:
        names.setdefault(id(tensor), name)
    parameters = {id(p) for p in model.parameters()}

    def visit(tensor):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kind = "P" if id(tensor) in parameters else "B"
            lines.append(f"{kind} {names[id(tensor)]} {tensor.numel()} {dtype_word(tensor)} {shape_word(tensor)}")

    def walk(module):  # as torch.nn.Module._apply does
        for child in module.children():
            walk(child)
        for tensor in [*module._parameters.values(), *module._buffers.values()]:
            if tensor is not None:
                visit(tensor)

    walk(model)
    lines += [f"S {name} {dtype_word(t)} {shape_word(t)}" for name, t in stored(model).items()]
    return lines


def describe(name, config, model, **more):
    # What a published file also says.
    config = {"architectures": [type(model).__name__], "torch_dtype": "bfloat16", **config}
    return [("case", name), ("model_type", config["model_type"]), ("transformers", VERSION),
            ("torch", torch.__version__.split("+")[0]), ("python", ".".join(map(str, sys.version_info[:3]))),
            *more.items(), ("config", json.dumps(config))]


# ---- all of it

RUN = dict(batch=1, tokens=80, decode=1, logits="all", dtype="bfloat16", cache="dynamic", routing="spread")


def unpacked(facts):
    """The class itself; its quantiser is asked for by itself."""
    return make_config({k: v for k, v in facts.items() if k != "quantization_config"})


def record_order(out, name, case):
    if "quantization_config" in case["config"]:  # what a checkpoint has follows from the configuration
        return
    model = on_meta(make_config(case["config"]), case.get("class", "AutoModelForCausalLM"))
    path = os.path.join(out, f"order-{name}-{VERSION}.tsv")
    write(path, describe(name, case["config"], model), order_lines(model))


def record_run(out, name, case, run):
    facts = merged(case["config"], run.get("config", {}))
    dtype = getattr(torch, run["dtype"])
    asked = {"attn_implementation": {"math": "sdpa"}.get(run["implementation"], run["implementation"])}
    if "experts" in run:
        asked["experts_implementation"] = run["experts"]
    as_on_cuda(case.get("as_on_cuda", []) + OFFLOADING, in_versions)
    model = on_meta(unpacked(facts), case.get("class", "AutoModelForCausalLM"), dtype, **asked)
    how = facts.get("quantization_config")
    if how is not None:
        pack(model, how, dtype)
    model = in_memory(model)
    if how is not None:
        load_packed(model, how)
    walk, routing = trace(model, run, dtype)
    more = {k: run[k] for k in ("implementation", "batch", "tokens", "decode", "logits", "dtype")}
    if run["cache"] != "dynamic":
        more["cache"] = json.dumps(run["cache"])
    if routing.experts:
        how = getattr(model.config.get_text_config(), "_experts_implementation", None) or "class"
        more["experts"] = run.get("experts", how)
        more["routing"] = run["routing"]
        more["expert_tokens"] = " ".join(map(str, routing.counts(run["batch"] * run["tokens"])))
        more["expert_tokens_decode"] = " ".join(map(str, routing.counts(run["batch"])))
    for key in ("encoder", "inputs", "image_tokens", "generate"):
        if key in run:
            more[key] = json.dumps(run[key])
    header = describe(name, facts, model, **more)
    header += [("workload", f"{k} {v}") for k, v in run.get("workload", {}).items()]
    path = f"{name}-{run['implementation']}-{run['variant']}-{VERSION}.tsv"
    write(os.path.join(out, path), header, event_lines(walk))
    print(f"{path}: {len(walk.events)} events", flush=True)


def runs_of(case):
    for run in case["runs"]:
        run = {**RUN, **run}
        kinds = run["implementation"]
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if in_versions(run.get("versions")):
                yield {**run, "implementation": kind}


def is_recorded(name):
    return os.path.exists(os.path.join(HERE, "facts", f"order-{name}-{VERSION}.tsv"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", action="append")
    parser.add_argument("--fresh")
    parser.add_argument("out")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(0)
    for name, case in chosen_cases(args.cases):
        if args.fresh is not None:
            if not is_recorded(name):
                continue
            case = fresh(random.Random(f"{args.fresh} {name}"), case)
        try:
            record_order(args.out, name, case)
        except ValueError as error:  # a class that this version does not have
            print(f"{name}: {str(error).splitlines()[0][:90]}")
            continue
        for run in runs_of(case):
            try:
                record_run(args.out, name, case, run)
            except ValueError as error:  # an implementation that this class refuses
                print(f"{name} {run['implementation']} {run['variant']}: {str(error).splitlines()[0][:90]}")


if __name__ == "__main__":
    main()
