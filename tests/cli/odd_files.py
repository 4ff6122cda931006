#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GGUF files that llama.cpp refuses, or that are no model: the sentence, the exit status, and no figure that could be wrong.

    odd_files.py VRAM SOURCE-ROOT

What llama.cpp does with them is in its source: gguf.cpp (versions, byte order, types), llama-model.cpp (architectures,
tensors that it asks for), and for experts' tensors each by itself the commit of 2024-10-30 that is b3990."""
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(sys.argv[2], "tests/oracle/llamacpp"))
import gguf  # noqa: E402
import solver  # noqa: E402

VRAM = os.path.abspath(sys.argv[1])  # it is run in the folder of the files
Q8_0, F32 = solver.Q8_0, solver.F32
LAYERS, WIDTH, FFN, WORDS = 8, 1024, 2048, 32000
FACTS = os.path.abspath(os.path.join(sys.argv[2], "tests/oracle/llamacpp/facts/deepseek2.tsv"))
ENGINES = ([], ["--engine", "llama.cpp"], ["--engine", "ollama"])
KEYS = solver.common("llama", LAYERS, WIDTH, 16, 4, 64, FFN, WORDS, 8192)


def fed(i, number=""):
    return [("blk.%d.ffn_%s%s.weight" % (i, part, number), dims, Q8_0)
            for part, dims in (("gate", [WIDTH, FFN]), ("up", [WIDTH, FFN]), ("down", [FFN, WIDTH]))]


def attending(i):
    return solver.attention(i, WIDTH, 16, 4, 64, Q8_0)


def dense():
    return solver.around(WIDTH, WORDS, Q8_0) + [t for i in range(LAYERS) for t in attending(i) + fed(i)]


def one_by_one():
    """As Mixtral was converted until April 2024."""
    tensors = solver.around(WIDTH, WORDS, Q8_0)
    for i in range(LAYERS):
        tensors += attending(i) + [("blk.%d.ffn_gate_inp.weight" % i, [WIDTH, 8], F32)]
        for e in range(8):
            tensors += fed(i, ".%d" % e)
    return {**KEYS, "llama.expert_count": 8, "llama.expert_used_count": 2}, tensors


def renamed(keys, name):
    return {k.replace("llama", name): name if v == "llama" else v for k, v in keys.items()}


def older(path, version, end):
    """Version 1 had lengths and counts of 4 bytes."""
    word = end + ("I" if version == 1 else "Q")

    def text(s):
        return struct.pack(word, len(s)) + s.encode()

    def value(v):
        if isinstance(v, str):
            return struct.pack(end + "I", 8) + text(v)
        return struct.pack(end + "If", 6, v) if isinstance(v, float) else struct.pack(end + "II", 4, v)

    infos, at = b"", 0
    for name, dims, kind in dense():
        infos += text(name) + struct.pack(end + "I", len(dims)) + b"".join(struct.pack(word, d) for d in dims)
        infos += struct.pack(end + "IQ", gguf.TYPES[kind][0], at)
        at += (gguf.tensor_size(kind, dims) + 31) // 32 * 32
    head = b"GGUF" + struct.pack(end + "I", version) + struct.pack(word, len(dense())) + struct.pack(word, len(KEYS))
    head += b"".join(text(k) + value(v) for k, v in KEYS.items()) + infos
    with open(path, "wb") as f:
        f.write(head)
        f.truncate((len(head) + 31) // 32 * 32 + at)


def of_type(path, number):
    with open(path, "rb") as f:
        whole = f.read()
    at = whole.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 4 + 2 * 8
    with open(path, "wb") as f:
        f.write(whole[:at] + struct.pack("<I", number) + whole[at + 4:])


def latent():
    """Latent attention with one matrix for keys and values, as converted until April 2025, runs; a file whose keys say
    otherwise does not."""
    models = gguf.models(FACTS)
    keys, tensors, _ = models["deepseek2-whole-experts"]
    gguf.write("whole.gguf", keys, tensors)
    check(report("whole.gguf", ["-ngl", "99"])["verdict"] == "fits", "whole.gguf")
    more = [("deepseek2.attention.key_length_mla", "u32", [192]), ("deepseek2.attention.value_length_mla", "u32", [128])]
    gguf.write("lacks.gguf", keys + more, tensors)
    refused("lacks.gguf", "attention.key_length_mla says that there is attn_k_b, and there is attn_kv_b alone")
    keys, tensors, _ = models["deepseek2-narrow-experts-full"]
    gguf.write("says.gguf", [k for k in keys if not k[0].endswith("_mla")], tensors)
    refused("says.gguf", "there is attn_k_b, and no attention.key_length_mla")


def run(path, words):
    card = [] if "--gpu" in words else ["--gpu", "24GiB"]
    done = subprocess.run([VRAM, "fit", path, *card, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=60)
    return done.returncode, done.stdout


def report(path, words):
    done = subprocess.run([VRAM, "fit", path, "--gpu", "24GiB", "--json", *words], stdout=subprocess.PIPE,
                          universal_newlines=True, timeout=60)
    return json.loads(done.stdout)


def ledger(answer):
    return answer["devices"][0]["ledger"]


FAILED = []


def check(ok, *what):
    if not ok:
        FAILED.append(what)
        print("FAILED", *what)


def refused(path, sentence, engines=ENGINES, figures=False):
    """The sentence, exit 3, and nothing that is not the file's own bytes is counted."""
    for words in engines:
        status, said = run(path, words)
        check(status == 3, path, words, status, said)
        check(sentence in said, path, words, said)
        check("FITS" not in said, path, words, said)
        for row in ("KV cache", "activations", "runtime overhead"):
            line = next((x for x in said.splitlines() if x.startswith(row)), None)
            check(figures or line is None or "not counted" in line, path, words, line)


def no_models():
    adapter = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora"}
    solver.write("adapter.gguf", adapter, [("blk.0.attn_q.weight.lora_a", [WIDTH, 8], F32),
                                           ("blk.0.attn_q.weight.lora_b", [8, WIDTH], F32)])
    refused("adapter.gguf", "this is an adapter (LoRA), which llama.cpp loads on top of a model")
    patches = [("v.patch_embd.weight", [14, 14, 3, 1024], F32)]
    solver.write("typed.gguf", {"general.type": "mmproj", "general.architecture": "clip"}, patches)
    solver.write("old.gguf", {"general.architecture": "clip"}, patches)
    for name in ("typed.gguf", "old.gguf"):
        refused(name, "this is a multimodal projector (mmproj), which llama.cpp loads beside a model")
    solver.write("imatrix.gguf", {"general.type": "imatrix"}, [("blk.0.attn_q.weight.in_sum2", [WIDTH], F32)])
    refused("imatrix.gguf", "this is an importance matrix for quantising, no model")
    solver.write("vector.gguf", {"general.architecture": "controlvector"}, [("direction.1", [WIDTH], F32)])
    refused("vector.gguf", "this is a control vector, which llama.cpp loads beside a model")
    solver.write("vocab.gguf", {**KEYS, "tokenizer.ggml.model": "gpt2"}, [])
    refused("vocab.gguf", "the header names no tensor: this is a vocabulary without weights")
    solver.write("nameless.gguf", {"general.name": "x"}, dense())
    refused("nameless.gguf", "llama.cpp does not load the file: it has no general.architecture")


def formats():
    older("one.gguf", 1, "<")
    refused("one.gguf", "llama.cpp does not load the file: it is of version 1 of the GGUF format")
    older("big.gguf", 3, ">")
    refused("big.gguf", "llama.cpp does not load the file: it is for computers that are big-endian")
    older("two.gguf", 2, "<")
    solver.write("three.gguf", KEYS, dense())
    for words in ENGINES:
        a, b = report("two.gguf", words), report("three.gguf", words)
        check(a["verdict"] == "fits" and ledger(a) == ledger(b), "version 2", words)
    for number, sentence in ((31, "is of type Q4_0_4_4, which llama.cpp no longer reads"), (200, "is of type 200, which is not known")):
        solver.write("typed.gguf", KEYS, dense())
        of_type("typed.gguf", number)
        refused("typed.gguf", sentence)


def experts():
    solver.write("experts.gguf", *one_by_one())
    apart = "each expert has tensors of its own, which builds from b3990 on do not read"
    refused("experts.gguf", apart)
    build = ["--engine", "llama.cpp", "-ngl", "99", "--engine-version"]
    refused("experts.gguf", apart, [build + ["b3990"]])
    status, said = run("experts.gguf", build + ["b3989"])
    check(status == 3 and apart not in said and "activations       not counted" in said, "b3989", said)
    # 8 layers of 8 experts x 3 x 1024 x 2048, of attention 2 x 1024 x 1024 + 2 x 1024 x 256, and the head, at 34 bytes for 32;
    # in F32 17 norms of 1024 and the routers of 8 x 1024.
    eight = 8 * (8 * 3 * 1024 * 2048 + 2 * 1024 * 1024 + 2 * 1024 * 256) + 1024 * 32000
    wanted = eight // 32 * 34 + 4 * (17 * 1024 + 8 * 8 * 1024)
    weights = ledger(report("experts.gguf", build + ["b3989"]))["weights"]
    check(weights["bytes"] == wanted and weights["basis"] == "assumed", "weights", weights, wanted)


def unknown():
    keys = renamed(KEYS, "newly")
    solver.write("newly.gguf", keys, dense())
    solver.write("other.gguf", keys, [(n.replace("ffn_gate", "ffn_frob"), d, t) for n, d, t in dense()])
    for name in ("newly.gguf", "other.gguf"):
        for runs, engines in (("this build of llama.cpp", ENGINES[:2]), ("the llama.cpp in this release of Ollama", ENGINES[2:])):
            refused(name, runs + " does not know the architecture newly, a newer one may", engines, figures=True)
        for words in ENGINES:
            x = report(name, words)
            check(x["verdict"] == "unknown", name, words, x["verdict"])
            for part in ("weights", "kv_cache"):
                check(ledger(x)[part]["basis"] == "assumed", name, words, part)
            check(ledger(x)["activations"]["basis"] == ("formula" if name == "newly.gguf" else "not_counted"), name, words)
    status, said = run("newly.gguf", ["--solve", "context"])
    check(status == 3 and "solved  " not in said and "llama-server" not in said, "solve", said)
    solver.dense("large.gguf", Q8_0)  # 1.56 GiB of weights on the card
    with open("large.gguf", "rb") as f:
        whole = f.read()
    with open("large.gguf", "wb") as f:
        f.write(whole.replace(b"llama", b"newly"))
    status, said = run("large.gguf", ["--gpu", "1GiB"])
    check(status == 1 and "DOES NOT FIT" in said, "small card", status, said)
    solver.write("plm.gguf", renamed(KEYS, "plm"), dense())
    refused("plm.gguf", "a graph of the architecture plm is not known here; the figures are about", figures=True)


def main():
    with tempfile.TemporaryDirectory() as room:
        os.chdir(room)
        for part in (no_models, formats, experts, latent, unknown):
            part()
    print("%d failed" % len(FAILED))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
