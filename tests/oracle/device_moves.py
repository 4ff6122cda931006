# SPDX-License-Identifier: MIT
"""Records what moves between memories when a model that is spread over them runs: tests/engine/device_moves.tsv.

    python tests/oracle/device_moves.py >> tests/engine/device_moves.tsv      in each version's environment

accelerate's own hooks (dispatch_model) on a real class, in PyTorch's fake mode: tensors have devices, sizes and no
memory, so that no card is needed. Only accelerate's setter of a module's tensor is replaced, which does not know fake
parameters. Written down is every copy from one device to another, in order, as FROM>TO:BYTES; 0 and 1 are GPUs.

Columns: version, class, tied, attention, place of each layer and of the head, pass, copies.
"""
import sys
import warnings

import accelerate
import accelerate.hooks
import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

warnings.filterwarnings("ignore")
BATCH, TOKENS = 2, 5
CASES = [(kind, tied, attention, layers)
         for kind, tied in (("llama", False), ("qwen3", True), ("phi3", False), ("gemma3_text", True), ("gemma2", True))
         for attention in ("eager", "sdpa") if (kind, attention) != ("gemma2", "sdpa")
         for layers in ((0, 0, 1, 1), (0, 1, "cpu", "cpu"))]


def place(module, name, device, value=None, **_):
    *path, last = name.split(".")
    owner = module.get_submodule(".".join(path))
    kind = owner._parameters if last in owner._parameters else owner._buffers
    where = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    new = value.to(where) if value is not None else torch.empty(kind[last].shape, dtype=kind[last].dtype, device=where)
    kind[last] = torch.nn.Parameter(new, requires_grad=False) if kind is owner._parameters else new


accelerate.hooks.set_module_tensor_to_device = place


class Moves(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._to_copy.default and args[0].device != out.device and out.numel() != 0:
            names = [str(d.index) if d.type == "cuda" else d.type for d in (args[0].device, out.device)]
            self.seen.append((out.ndim, f"{names[0]}>{names[1]}:{out.untyped_storage().nbytes()}"))
        return out


def shape_of(kind, tied):
    config = AutoConfig.for_model(kind, num_hidden_layers=4, hidden_size=64, intermediate_size=128, num_attention_heads=4,
                                  num_key_value_heads=2, vocab_size=96, head_dim=16, pad_token_id=0,
                                  tie_word_embeddings=tied, max_position_embeddings=128)
    if kind.startswith("gemma"):
        config.layer_types = ["sliding_attention", "full_attention"] * 2
        config.sliding_window = 64
    return config


def run(kind, tied, attention, layers):
    config = shape_of(kind, tied)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention).eval()
        last = layers[-1]
        where = {"model.embed_tokens": 0, "model.norm": last, "lm_head": 0 if tied else last}
        where |= {f"model.layers.{i}": d for i, d in enumerate(layers)}
        where |= {name: last for name, _ in model.named_modules() if name.startswith("model.rotary_emb")}
        accelerate.dispatch_model(model, where, skip_keys=model._skip_keys_device_placement)
        ids = torch.empty((BATCH, TOKENS), dtype=torch.long, device="cuda:0")
        with torch.no_grad(), Moves() as moves:
            out = model(ids, use_cache=True, logits_to_keep=1)
            n = len(moves.seen)
            model(ids[:, :1], past_key_values=out.past_key_values, use_cache=True, logits_to_keep=1)
    # Numbers that the CPU hands to a kernel as a tensor without dimensions are no move of anything.
    short = [[text for ndim, text in part if ndim > 0] for part in (moves.seen[:n], moves.seen[n:])]
    return zip(("prefill", "decode"), short)


def main():
    for kind, tied, attention, layers in CASES:
        try:
            passes = list(run(kind, tied, attention, layers))
        except Exception as e:
            print(kind, attention, layers, type(e).__name__, str(e)[:200], file=sys.stderr)
            continue
        for name, moves in passes:
            print("\t".join([transformers.__version__, kind, str(int(tied)), attention, ",".join(map(str, layers)), name,
                             " ".join(moves)]))


main()
