# SPDX-License-Identifier: MIT
"""Models whose weights stay packed, on a CPU: the real modules of transformers and the real Python around the
kernels of the hub, which takes all storages; only the launches of Triton kernels are left out.

VRAM_ORACLE_KERNELS: a copy of github.com/huggingface/kernels-community, whose folders finegrained-fp8 and
gpt-oss-triton-kernels are what transformers downloads as kernels-community/... at run time.

What the card would be asked for is answered as for one with compute capability 8.9 and a single
multiprocessor: then no product is split along its inputs, which of a few tokens would be.
"""
import contextlib
import importlib
import os
import sys
import types

import torch
import triton

from models import MAJOR_MINOR

CAPABILITY = (8, 9)


class Ops:
    """What a build of the kernels registers; here the functions themselves."""


def triton_op(ops):
    def named(name, **_):
        def keep(function):
            setattr(ops, name, function)
            return function
        return keep
    return named


def from_hub(folder, package):
    root = os.environ.get("VRAM_ORACLE_KERNELS")
    if not root:
        raise ValueError("VRAM_ORACLE_KERNELS does not name a copy of kernels-community")
    path = os.path.join(root, folder, "torch-ext")
    if path not in sys.path:
        sys.path.insert(0, path)
    ops = Ops()
    sys.modules[f"{package}._ops"] = stub = types.ModuleType(f"{package}._ops")
    stub.ops, stub.add_op_namespace_prefix = ops, lambda name: name
    torch.library.triton_op, torch.library.wrap_triton = triton_op(ops), lambda kernel: kernel
    return importlib.import_module(package)


def without_launches():
    triton.runtime.jit.KernelInterface.__getitem__ = lambda self, grid: lambda *args, **more: None
    target = triton.backends.compiler.GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], 32)
    driver = types.SimpleNamespace(get_current_target=lambda: target,
                                   get_active_torch_device=lambda: torch.device("cuda"))
    type(triton.runtime.driver).active = property(lambda self: driver)
    torch.cuda.get_device_capability = lambda *args: CAPABILITY
    torch.cuda.get_device_properties = lambda *args: types.SimpleNamespace(
        multi_processor_count=1, shared_memory_per_block_optin=101376)


def fp8(model, asked):
    from transformers.integrations import finegrained_fp8
    from transformers.utils.quantization_config import FineGrainedFP8Config
    settings = FineGrainedFP8Config(**asked)
    left = ["lm_head", *(asked.get("modules_to_not_convert") or [])]
    finegrained_fp8.replace_with_fp8_linear(model, modules_to_not_convert=left, quantization_config=settings)
    if MAJOR_MINOR < (5, 0):  # its kernels are its own
        torch.cuda.device = lambda device: contextlib.nullcontext()
        torch.cuda.synchronize = lambda: None
        finegrained_fp8.is_torch_accelerator_available = lambda: False
        return
    kernel = from_hub("finegrained-fp8", "finegrained_fp8")

    def grouped(*args, tokens_per_expert, **more):  # which histc counts in floats on a CPU, in whole numbers elsewhere
        return kernel.matmul_grouped(*args, tokens_per_expert=tokens_per_expert.view(torch.int32), **more)

    finegrained_fp8._FINEGRAINED_FP8 = finegrained_fp8.FineGrainedFP8(
        matmul=kernel.matmul_2d, batched_matmul=kernel.matmul_batched, grouped_matmul=grouped)


def mxfp4(model, asked):
    from transformers.integrations import mxfp4 as code
    from transformers.utils.quantization_config import Mxfp4Config
    hub = from_hub("gpt-oss-triton-kernels", "gpt_oss_triton_kernels")
    if MAJOR_MINOR < (5, 0):
        sys.modules["kernels"] = types.SimpleNamespace(get_kernel=lambda *args, **more: hub)
        more = {"config": model.config}
    else:
        importlib.import_module("transformers.integrations.hub_kernels").get_kernel = lambda *args, **more: hub
        more = {}
    code.replace_with_mxfp4_linear(model, quantization_config=Mxfp4Config(), modules_to_not_convert=["lm_head"],
                                   **more)


def load_mxfp4(model):
    """As from_pretrained does with blocks and scales: swizzle_mxfp4_convertops, load_and_swizzle_mxfp4."""
    from transformers.integrations import mxfp4 as code
    for module in model.modules():
        if type(module).__name__ != "Mxfp4GptOssExperts":
            continue
        h, f = module.hidden_size, module.intermediate_size
        for proj, rows, columns in (("gate_up_proj", 2 * f, h), ("down_proj", h, f)):
            blocks = torch.zeros((module.num_experts, rows, columns // 2), dtype=torch.uint8)
            scales = torch.zeros((module.num_experts, rows, columns // 32), dtype=torch.uint8)
            for name in [n for n in module._parameters if n.startswith(proj) and not n.endswith("bias")]:
                del module._parameters[name]
            weight, scale = code.swizzle_mxfp4(blocks.transpose(-2, -1), scales.transpose(-2, -1),
                                               code.triton_kernels_hub)
            weight.shape = torch.Size([module.num_experts, columns, rows])
            matmul = code.triton_kernels_hub.matmul_ogs
            config = matmul.PrecisionConfig(
                weight_scale=scale, flex_ctx=matmul.FlexCtx(rhs_data=matmul.InFlexData()))
            setattr(module, proj, weight)
            setattr(module, f"{proj}_precision_config", config)


def pack(model, asked, dtype):
    """A model on meta gets the modules of its quantiser, made as from_pretrained does: in the load dtype."""
    asked = dict(asked)
    without_launches()
    torch.set_default_dtype(dtype)
    try:
        {"fp8": fp8, "mxfp4": mxfp4}[asked.pop("quant_method")](model, asked)
    finally:
        torch.set_default_dtype(torch.float32)


def load_packed(model, asked):
    if asked["quant_method"] == "mxfp4":
        load_mxfp4(model)
