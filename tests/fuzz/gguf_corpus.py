#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small GGUF files for fuzz_gguf, each behind the byte that says how it is fed: gguf_corpus.py FILE...

One file for each name given: every version in both byte orders, then split ones, a nested array, a vocabulary."""
import struct
import sys

U32, F32, STR, ARRAY = 4, 6, 8, 9


def make(version, order, keys, tensors, alignment=32):
    word = order + ("I" if version == 1 else "Q")

    def text(s):
        return struct.pack(word, len(s)) + s.encode()

    def array(element, values):
        head = struct.pack(order + "I", element) + struct.pack(word, len(values))
        return head + b"".join(value(element, v) for v in values)

    def value(kind, v):
        if kind == STR:
            return text(v)
        if kind == ARRAY:
            return array(*v)
        return struct.pack(order + {U32: "I", F32: "f"}[kind], v)

    head = b"GGUF" + struct.pack(order + "I", version) + struct.pack(word, len(tensors)) + struct.pack(word, len(keys))
    for name, kind, v in keys:
        head += text(name) + struct.pack(order + "I", kind) + value(kind, v)
    at = 0
    for name, kind, dims, size in tensors:
        head += text(name) + struct.pack(order + "I", len(dims))
        head += b"".join(struct.pack(word, d) for d in dims) + struct.pack(order + "IQ", kind, at)
        at += -(-size // alignment) * alignment
    return head + b"\0" * (-len(head) % alignment + at)


def files():
    model = [("general.architecture", STR, "llama"), ("llama.block_count", U32, 1), ("llama.embedding_length", U32, 32),
             ("llama.attention.head_count", U32, 4), ("llama.attention.head_count_kv", ARRAY, (U32, [2])),
             ("llama.rope.freq_base", F32, 1e6)]
    tensors = [("token_embd.weight", 2, (32, 2), 36), ("blk.0.attn_k.weight", 8, (32, 16), 544),
               ("blk.0.attn_v.weight", 0, (32, 16), 2048), ("output_norm.weight", 0, (32,), 128)]
    for version in (1, 2, 3):
        for order in "<>":
            yield b"\0" + make(version, order, model, tensors)
    mamba = [("general.architecture", STR, "mamba"), ("general.alignment", U32, 8), ("mamba.block_count", U32, 2),
             ("mamba.ssm.inner_size", U32, 64), ("mamba.ssm.state_size", U32, 16), ("mamba.ssm.conv_kernel", U32, 4)]
    yield b"\x11" + make(3, "<", mamba, [("blk.0.ssm_in.weight", 1, (32, 4), 256)], 8)
    split = [("split.no", U32, 0), ("split.count", U32, 2), ("split.tensors.count", U32, 3)]
    yield b"\x22" + make(3, "<", split, tensors[:2])
    words = [("tokenizer.ggml.model", STR, "gpt2"), ("tokenizer.ggml.tokens", ARRAY, (STR, ["a", "", "token"])),
             ("x", ARRAY, (ARRAY, [(U32, [1, 2]), (STR, ["deep"]), (ARRAY, [(F32, [0.5])])]))]
    yield b"\x33" + make(3, "<", words, tensors[3:])
    yield b"\x08" + make(3, "<", model, [("t", 12, (256, 1 << 30), 0)])  # its data is a hole


if __name__ == "__main__":
    for name, data in zip(sys.argv[1:], files(), strict=True):
        with open(name, "wb") as f:
            f.write(data)
