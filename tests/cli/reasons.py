#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures of the golden cases that follow from sizes alone, worked out here: each stands in its case's output, so that
a golden file that is written anew with a wrong one does not pass. What a rehearsal gives (activations, idle memory, the
tensor at which a load dies) has no closed form; it is pinned there, and held against recorded runs elsewhere.

    reasons.py SOURCE-ROOT
"""
import os
import sys

CASES = os.path.join(sys.argv[1], "tests/cli/cases")
GIB = 1 << 30


def up(n, by):
    return -(-n // by)


def matrices(h, ffn, heads, kv, d):
    """Of a decoder's layer, as rows and columns."""
    return [(heads * d, h), (kv * d, h), (kv * d, h), (h, heads * d), (ffn, h), (ffn, h), (h, ffn)]


def decoder(h, ffn, layers, heads, kv, d, vocab, norms, tables=2):
    """norms: elements of all norms of a layer."""
    return layers * (sum(a * b for a, b in matrices(h, ffn, heads, kv, d)) + norms) + tables * vocab * h + h


def gib(n):
    return f"{n / GIB:.2f}"


def llama_8b():
    n = decoder(4096, 14336, 32, 32, 8, 128, 128256, 2 * 4096)
    return {"configuration": [f"{n:,} parameters", f"{2 * n:,} bytes", f"weights           {gib(2 * n)} GiB",
                              f"{32 * 2 * 8 * 128 * 2 // 1024} KiB in the KV cache", f"{128256 * 2 / 1024:.2f} KiB of logits"]}


def llama_70b():
    layer = decoder(8192, 28672, 1, 64, 8, 128, 0, 2 * 8192, 0) - 8192
    head = 8192 + 128256 * 8192
    low = 34 * layer * 2  # nine tenths of 64 GiB less the largest layer
    assert low + layer * 2 < 64 * GIB * 9 // 10 < low + 3 * layer * 2
    return {"device_map": [f"layers 26-79, norm, head: {gib(54 * layer * 2 + 2 * head)} GiB", f'"bytes": {low}',
                           f"layers 61-79, norm, head: {gib(19 * layer * 2 + 2 * head)} GiB"]}


def qwen3_32b():
    n = decoder(5120, 25600, 64, 64, 8, 128, 151936, 2 * 5120 + 2 * 128)
    packed = matrices(5120, 25600, 64, 8, 128)
    fp8 = 64 * sum(a * b + up(a, 128) * up(b, 128) * 4 for a, b in packed)
    rest = n - 64 * sum(a * b for a, b in packed)
    return {"configuration": [f"{n:,} parameters x 2 B", f"{fp8 + 2 * rest:,} bytes",
                              f"KV cache           {gib(64 * 4096 * 16384)} GiB"]}


def gemma_27b():
    text = decoder(5376, 21504, 62, 32, 16, 128, 262208, 4 * 5376 + 2 * 128, 1)
    w, f = 1152, 4304  # SigLIP of 896 pixels: patches of 14, 27 layers, a norm; then a norm and a matrix
    layer = 4 * (w * w + w) + 2 * w * f + f + w + 2 * 2 * w
    n = text + 3 * 14 * 14 * w + w + 64 * 64 * w + 27 * layer + 2 * w + w + w * 5376
    token, tokens, window = 2 * 16 * 128 * 2, 131072, 1024
    full, sliding = 10, 52
    in_flight = up(window - 1 + 16384, 16) + 1  # vLLM: six groups of ten, and what is left; blocks of 16 tokens
    groups = up(sliding, full)
    least = full * tokens * token + sliding * window * token
    blocks = tokens // 16 + groups * in_flight
    later = tokens // 16 + groups * (window // 16 + 1)
    cells = full * tokens * token + sliding * (window + 512) * token
    return {"configuration": [f"{n:,} parameters", f"{2 * n:,} bytes", f"{62 * token // 1024} KiB in the KV cache"],
            "engines": [f"{blocks:,} blocks of {10 * 16 * token:,} B (16 tokens), in {groups + 1} groups",
                        f"{gib(blocks * 160 * token)} not counted", f"afterwards {gib(later * 160 * token)} GiB",
                        f'"least_kv_bytes": {least}', f"would make it {gib(least)} GiB", f"{gib(cells)} not counted",
                        f"transformers 5.17   {gib(2 * n)}    {gib(62 * tokens * token)}"]}


def hybrids():
    """vLLM: pages of as many tokens as a state needs; two states of each of three groups."""
    out = []
    for attend, token, width in ((12, 2 * 2 * 256 * 2, 1056), (16, 2 * 4 * 256 * 2, 784)):
        out += [f"a token  {attend * token:,} B", f"{up(262144, width) + 3 * 2} blocks of {attend * token * width:,} B ({width:,} tokens)"]
    state = 48 * 4 * (3 * (2 * 16 * 128 + 48 * 128) + 48 * 128 * 128)
    return {"engines": out + [f"1 state: {state / (1 << 20):.2f} MiB", f"a token  {61 * (512 + 64) * 2:,} B"]}


def gpt_oss_20b():
    h, experts, vocab = 2880, 32, 201088
    attention = h * 4096 * 2 + 2 * h * 512 + 4096 + 2 * 512 + h + 64
    packed = experts * 3 * h * h
    biases = experts * 3 * h  # Mxfp4GptOssExperts has them in fp32
    plain = 24 * (attention + experts * h + experts + biases + 2 * h) + 2 * vocab * h + h
    return {"packed": [f"weights           {gib(24 * (packed * 17 // 32 + 2 * biases) + 2 * plain)} GiB",
                       f"weights           {gib(24 * packed * 2 + 2 * plain)} GiB"]}


def encoders():
    bert = (30522 + 512 + 2 + 1) * 384 + 384 + 12 * (4 * 384 * 385 + 2 * 384 * 1536 + 1536 + 384 + 4 * 384) + 384 * 385
    attention, ffn, h = 4 * 768 * 768, 3 * 768 * 2048, 768
    t5 = 2 * 12 * (attention + ffn + 2 * h) + 12 * (attention + h) + 2 * 32 * 12 + 2 * h + 2 * 32128 * h
    return {"structures": [f"{bert:,} parameters", f"{t5:,} parameters",
                           f"KV cache           {gib((25 * 4096 + 5 * 2048) * 2 * 4096)} GiB",
                           f"KV cache           {gib(7 * 576 * 2 * 4096 + 20 * (49152 * 2 + 524288 * 4))} GiB"]}


def pictures():
    """Sides to the nearest 28 pixels; two by two patches of 14 make a token."""
    rows, columns = round(1024 / 28), round(768 / 28)
    return {"images": [f"pictures of {2 * rows} x {2 * columns} patches", f"2 images of {rows * columns} tokens each",
                       f"{(896 // 14 // 4) ** 2} tokens each"]}


def main():
    checked, missing = 0, []
    for reason in (llama_8b, llama_70b, qwen3_32b, gemma_27b, hybrids, gpt_oss_20b, encoders, pictures):
        for case, figures in reason().items():
            with open(os.path.join(CASES, case + ".stdout"), encoding="utf-8") as f:
                text = f.read()
            for figure in figures:
                checked += 1
                if figure not in text:
                    missing.append((case, reason.__name__, figure))
    print(f"{checked} figures, {len(missing)} not in the golden files")
    for line in missing:
        print(*line)
    return 1 if missing else 0


sys.exit(main())
