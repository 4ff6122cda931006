#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Settings that --solve finds, typed again: with them the run fits, with the next one it does not.

    solver.py VRAM        files are made here: a dense model and one with experts, headers with a hole behind
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../oracle/llamacpp"))
import gguf  # noqa: E402

F32, Q4_0, Q8_0 = "f32", "q4_0", "q8_0"
KINDS = {str: "str", float: "f32", int: "u32"}


def write(path, keys, tensors):
    """keys: value by name; tensors: (name, dims, type)."""
    gguf.write(path, [(k, KINDS[type(v)], [v]) for k, v in keys.items()], [(name, kind, dims) for name, dims, kind in tensors])


def attention(i, width, heads, kv_heads, head, kind):
    p = "blk.%d." % i
    return [(p + "attn_norm.weight", [width], F32), (p + "attn_q.weight", [width, heads * head], kind),
            (p + "attn_k.weight", [width, kv_heads * head], kind), (p + "attn_v.weight", [width, kv_heads * head], kind),
            (p + "attn_output.weight", [heads * head, width], kind), (p + "ffn_norm.weight", [width], F32)]


def around(width, words, kind):
    return [("token_embd.weight", [width, words], kind), ("output_norm.weight", [width], F32), ("output.weight", [width, words], kind)]


def common(arch, layers, width, heads, kv_heads, head, ffn, words, context):
    return {"general.architecture": arch, arch + ".block_count": layers, arch + ".context_length": context,
            arch + ".embedding_length": width, arch + ".feed_forward_length": ffn, arch + ".attention.head_count": heads,
            arch + ".attention.head_count_kv": kv_heads, arch + ".attention.key_length": head,
            arch + ".attention.value_length": head, arch + ".attention.layer_norm_rms_epsilon": 1e-6,
            arch + ".rope.dimension_count": head, arch + ".vocab_size": words}


def dense(path, kind):
    layers, width, ffn = 24, 2048, 8192
    tensors = around(width, 32000, kind)
    for i in range(layers):
        tensors += attention(i, width, 16, 8, 128, kind)
        tensors += [("blk.%d.ffn_%s.weight" % (i, n), [ffn, width] if n == "down" else [width, ffn], kind) for n in ("gate", "up", "down")]
    write(path, common("llama", layers, width, 16, 8, 128, ffn, 32000, 65536), tensors)


def experts(path):
    layers, width, n, ffn = 16, 1024, 32, 1024
    keys = common("qwen3moe", layers, width, 16, 4, 64, ffn, 32000, 16384)
    keys.update({"qwen3moe.expert_count": n, "qwen3moe.expert_used_count": 4, "qwen3moe.expert_feed_forward_length": ffn})
    tensors = around(width, 32000, Q8_0)
    for i in range(layers):
        p = "blk.%d." % i
        tensors += attention(i, width, 16, 4, 64, Q8_0)
        tensors += [(p + "attn_q_norm.weight", [64], F32), (p + "attn_k_norm.weight", [64], F32), (p + "ffn_gate_inp.weight", [width, n], F32)]
        tensors += [(p + "ffn_%s_exps.weight" % x, [ffn, width, n] if x == "down" else [width, ffn, n], Q8_0) for x in ("gate", "up", "down")]
    write(path, keys, tensors)


def fit(vram, *words):
    done = subprocess.run([vram, "fit", "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    if done.returncode not in (0, 1):
        sys.exit("%s: exit %d: %s" % (" ".join(words), done.returncode, done.stderr.decode()))
    return json.loads(done.stdout)


OPTION = {"ngl": "-ngl", "context": "-c", "experts": "-ncmoe"}


def layers_of(holds):
    n = 0
    for piece in holds.split(", "):
        words = piece.split(" ")
        if words[0] in ("layer", "layers"):
            a, _, b = words[1].partition("-")
            n += int(b or a) - int(a) + 1
        n += words[0] == "head"
    return n


def pasted(vram, cards, answer):
    """The command line that is printed takes what was found, to the byte."""
    words = answer["solver"]["answers"][0]["command"].split()
    again = fit(vram, *[w for c in cards for w in ("--gpu", c)], "--", *words)
    for one, other in zip(answer["devices"], again["devices"]):
        assert one["required_bytes"] == other["required_bytes"] and one.get("holds") == other.get("holds"), words


def check(vram, path, cards, goal, *more):
    gpus = [w for c in cards for w in ("--gpu", c)]
    answer = fit(vram, path, *gpus, "--solve", goal, *more)
    what = "%s %s %s %s" % (os.path.basename(path), " ".join(cards), goal, " ".join(more))
    solved = answer["solver"]["answers"][0]
    assert answer["solver"]["sought"] == goal and solved["goal"] == goal, what
    if not solved["found"]:
        assert answer["verdict"] != "fits", what
        return what, None
    assert answer["verdict"] == "fits" and solved["headroom_bytes"] >= 0, what
    again = fit(vram, path, *gpus, *more, *solved["option"].split())
    assert again["verdict"] == "fits" and again["devices"] == answer["devices"], what
    if solved["shares"]:
        held = [layers_of(d["holds"]) for d in answer["devices"] if d["kind"] == "gpu"]
        assert held == solved["shares"], (what, held, solved["shares"])
    if solved["next"] is not None and goal in OPTION:
        after = [w for w in solved["option"].split()]
        after[after.index(OPTION[goal]) + 1] = str(solved["next"])
        assert fit(vram, path, *gpus, *more, *after)["verdict"] != "fits", what
        assert solved["next_headroom_bytes"] is None or solved["next_headroom_bytes"] < 0, what
    pasted(vram, cards, answer)
    return what, solved


def whole(vram, path, card, goal, option, *more):
    """Ollama leaves on the CPU what does not fit: with what is found nothing is, with the next value something is."""
    words = [path, "--gpu", card, "--engine", "ollama", *more]
    answer = fit(vram, *words, "--solve", goal)
    solved = answer["solver"]["answers"][0]
    if not solved["found"]:
        return False
    for value, all_of_it in ((solved["value"], True), (solved["next"], False)):
        if value is None:
            continue
        again = fit(vram, *words, option, str(value))
        assert again["verdict"] == "fits", words
        assert (layers_of(again["devices"][0]["holds"]) == 25) == all_of_it, (words, goal, value)
    return True


def main():
    vram = os.path.abspath(sys.argv[1])
    n = found = 0
    with tempfile.TemporaryDirectory() as room:
        a, b = os.path.join(room, "dense-Q4_0.gguf"), os.path.join(room, "experts-Q8_0.gguf")
        dense(a, Q4_0)
        experts(b)
        cases = [(a, [c], g, []) for c in ("700MiB", "1GiB", "1500MiB", "1800MiB", "2GiB", "6GiB") for g in ("ngl", "context", "cache")]
        cases += [(a, ["1500MiB", "1GiB"], g, []) for g in ("ngl", "context", "split")]
        cases += [(a, ["1100MiB", "1800MiB", "900MiB"], g, ["-c", "8192"]) for g in ("ngl", "context", "split", "cache")]
        cases += [(b, [c], g, []) for c in ("1GiB", "1500MiB", "2GiB", "4GiB") for g in ("ngl", "context", "experts")]
        cases += [(b, ["2GiB", "1200MiB"], g, m) for g in ("ngl", "experts", "split") for m in ([], ["-c", "16384", "-np", "2"])]
        for path, cards, goal, more in cases:
            what, solved = check(vram, path, cards, goal, *more)
            n += 1
            if os.environ.get("SOLVER_SHOW"):
                print(what, solved and (solved["value"], solved["shares"], solved["headroom_bytes"] >> 20, solved["tries"]))
            if solved is not None:
                found += 1
        for card in ("2GiB", "3GiB", "6GiB"):
            for goal, option, more in (("context", "-c", []), ("sequences", "--sequences", ["-c", "8192"])):
                n += 1
                found += whole(vram, a, card, goal, option, *more)
    print("%d searches, %d found something, all typed again" % (n, found))
    assert found * 2 > n


if __name__ == "__main__":
    main()
