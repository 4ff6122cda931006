#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures of the golden cases that follow from sizes alone, worked out here: each stands in its case's output, so that
a golden file that is written anew with a wrong one does not pass. What a rehearsal gives (activations, idle memory, the
tensor at which a load dies) has no closed form; it is pinned there, and held against recorded runs elsewhere. Compute
buffers of GGUF files that the cases make are those that tests/oracle/llamacpp/recorder.cpp recorded of llama.cpp b10470.

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


def mib(n):
    return f"{n / (1 << 20):.2f} MiB"


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


def activations(compute, nodes, splits, tokens="512"):
    return (f"activations        {gib(compute)} GiB  simulated; buffer for {tokens} tokens computed at once; graph nodes = {nodes}, "
            f"graph splits = {splits}")


def held(weights, cache, on_host, caches_on_host=0):
    """Of the only card, and what is left in host memory, the rows of weights and caches."""
    return [f"weights            {gib(weights)} GiB  exact;", f"KV cache           {gib(cache)} GiB  exact;",
            f"weights {mib(on_host) if on_host < GIB else gib(on_host) + ' GiB'}, " +
            (f"caches {mib(caches_on_host)}, " if caches_on_host else "")]


def results(compute, rows):
    """In host memory: its compute buffer as recorded, and logits of so many rows of 32000 words."""
    return f"inputs and results {mib(compute + 4 * rows * 32000)}"


def of_two(what, first, second, basis):
    return f"{what:<22}{gib(first):>6}{gib(second):>10} GiB  {basis}"


DENSE, WIDE = 2 * 2048 * 2048 + 2 * 2048 * 1024 + 3 * 2048 * 8192, 2048 * 32000  # of a layer of solver.py's dense model; its tables


def dense(layers, bits):
    """So many of the last layers and the head; norms are F32."""
    return (layers * DENSE + WIDE) * bits // 8 + (2 * layers + 1) * 2048 * 4


def made_dense():
    token, table = 2 * 1024 * 2, WIDE * 4  # of a layer in F16; the embedding in F32, whose rows stay in host memory
    q4, q8 = 4.5, 8.5
    shared = [activations(67119232, 750, 2), results(12595232, 4)]
    plain = [*held(dense(24, q4), 24 * 4096 * token, WIDE * q4 / 8), *shared]
    served = [*held(dense(24, q4), 24 * 2 * 65536 * token * 17 / 32, WIDE * q4 / 8), activations(620849280, 1086, 2), results(75591712, 2)]
    some = {}  # in host memory the embedding, as large as the head, and no norm behind the layers
    for n, splits in ((9, 167), (6, 200)):
        some[n] = [*held(dense(n, 32), n * 4096 * token, dense(24 - n, 32) - 2048 * 4, (24 - n) * 4096 * token),
                   activations(125831168, 750, splits), results(12595232, 4)]
    large = [*held(dense(24, 32), 24 * 4096 * token, table), *shared, f"allocating {mib(dense(24, 32))[:-4]} MiB on device 0"]
    eight = [*held(dense(24, q8), 24 * 4096 * token, WIDE * q8 / 8), *shared]
    long = [*held(dense(24, q8), 24 * 65536 * token, WIDE * q8 / 8), activations(130035712, 750, 2), results(75511808, 1)]
    alone = [f"weights            {gib(dense(24, 32) + table)} GiB  exact; 219 of 219 tensors", activations(71315488, 750, 1)]
    cut = [of_two("weights", dense(21, 32) - dense(0, 32), dense(3, 32), "exact"),
           of_two("KV cache", 21 * 65536 * token, 3 * 65536 * token, "exact")]
    return {"solve": plain + served + some[9] + large[3:] + eight + cut, "by_itself": some[6] + large + eight + long, "no_gpu": alone,
            "unknown_architecture": ['"bytes": 67119232,', f'"bytes": {24 * 4096 * token},']}


def made_experts():
    """16 layers, in Q8_0 but for the norms and the routers of 32 experts."""
    attend, expert, vectors = 2 * 1024 * 1024 + 2 * 1024 * 256, 32 * 3 * 1024 * 1024, 4 * (2 * 1024 + 2 * 64 + 1024 * 32)
    table, layer = 1024 * 32000 * 34 // 32, (attend + expert) * 34 // 32 + vectors
    whole = 16 * layer + table + 4 * 1024
    away = whole - 5 * expert * 34 // 32
    cache = 16 * 4096 * 2 * 256 * 2
    return {"solve": [f"weights            {gib(whole)} GiB", f"allocating {mib(whole)[:-4]} MiB on device 0", "activations        0.03 GiB",
                      results(8400928, 4)],
            "by_itself": [*held(away, cache, table + whole - away), activations(62924800, 886, 17), results(8400928, 4)]}


def made_for_ollama():
    layer, table = (4 * 2048 * 2048 + 3 * 2048 * 8192) * 2 + 2 * 2048 * 4, 2048 * 32000 * 2
    token = 2 * 2048 * 2  # of a layer in F16
    head = table + 2048 * 4

    def some(n, tokens, type_=1):
        return [*held(n * layer + head, n * tokens * token * type_, table + (16 - n) * layer, (16 - n) * tokens * token * type_)]
    return {"ollama": [*some(16, 2048), activations(65022080, 502, 2), results(10498080, 1),
                       *some(16, 16384), activations(159404160, 502, 2, "1,024"), results(50356256, 1),
                       *some(12, 2048), activations(88082432, 502, 46), results(14692384, 1),
                       *some(4, 4096, 17 / 32), activations(96536576, 694, 134), results(16871456, 1),
                       *some(16, 4096, 17 / 32), activations(65104000, 726, 2), results(10580000, 2)]}


def explained():
    """What a message's own figures say, by subtraction, and the published shortfall of a 7B model on a 12 GB card."""
    total, free, allocated, idle = 11.63 * GIB, 30.88 * (1 << 20), 11.34 * GIB, 105.47 * (1 << 20)
    usable, weights, own = 12490457088, 15231233024, 11.54 * GIB
    context, others = own - allocated - idle, total - free - own
    short = weights - usable
    card = f"{total / GIB:.2f} GiB = live {allocated / GIB:.2f} + idle {idle / GIB:.2f} + CUDA context {context / GIB:.2f} + other programs " \
           f"{others / GIB:.2f} + free {free / GIB:.2f}"
    fits = 49056
    adam = (752.00 - 311.44 - 189.12)
    return {"explain_load": [f"({100 * idle / total:.1f} % of the card is idle", card, f"at least {gib(short)} GiB ({short / 1e9:.2f} GB)",
                             f"request 130.00 MiB = {130 << 20:,} bytes"],
            "explain_server": [f"at least {16.00 - 5.99:.2f} GiB", f"--max-model-len {fits}", f"--kv-cache-dtype fp8 --max-model-len {2 * fits}",
                               f'"kv_needed_bytes": {16 * GIB}'],
            "explain_training": [f"live 22.41 + idle {189.12 / 1024:.2f}", f"with it {adam:.2f} MiB would still be missing"],
            "explain_nothing": ["2 lines (34 bytes)", "1 line (3 KB)"]}


def main():
    checked, missing = 0, []
    for reason in (llama_8b, llama_70b, qwen3_32b, gemma_27b, hybrids, gpt_oss_20b, encoders, pictures,
                   made_dense, made_experts, made_for_ollama, explained):
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
