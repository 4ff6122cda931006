#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts and refusals of real vLLM servers (data/vllm/cases.jsonl of the folder VRAM_DATA, otherwise ../shared
beside the source) against `vram fit CONFIG --engine vllm`: how often the longest request fits the pool ("Maximum
concurrency"), what a refused one would need, and the tokens of the pool.

    vllm_cases.py VRAM SOURCE-ROOT [-v]

Of several cards a rank's share of the heads is asked for. A figure agrees when it lies between those of the printed
size of the pool, which has two decimals, rounded up and down.

Counted apart, since they agree by how they were made: cases whose log does not say an input of the cache (its
configuration, the type, the mode of recurrent states), which was chosen after a miss. Either the collection names
it (`chosen_to_fit`, "...:kv"), or the figure agrees here in the second mode of recurrent states only.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from data_folder import data_file  # noqa: E402

VRAM, ROOT = sys.argv[1], sys.argv[2]
GIB = 1 << 30
EXPLAINED = {"club-1086": "nothing of its types and drafts is logged",
             "idx-17822999525-r0": "its ranks differ, and which of them decided is not logged"}
KV = {"auto": "auto", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8_e5m2", "fp8_ds_mla": "fp8", "bfloat16": "bf16", "float16": "fp16"}


def configurations():
    """Model names of the cases to files."""
    folder, found = data_file(ROOT, "data/configs"), {}
    for name in os.listdir(folder):
        if name.endswith(".json"):
            found[name[:-5].replace("--", "/")] = os.path.join(folder, name)
    with open(os.path.join(folder, "aliases.tsv"), encoding="utf-8") as lines:
        for line in lines:
            cells = line.rstrip("\n").split("\t")
            if len(cells) >= 2 and os.path.exists(os.path.join(folder, cells[1])):
                found[cells[0]] = os.path.join(folder, cells[1])
    return found


def rank_of(path, tp, folder):
    """The configuration of one of `tp` ranks: its share of the heads for keys and values, one at least (latent attention
    is on every rank)."""
    with open(path, encoding="utf-8") as f:
        whole = json.load(f)
    text = whole.get("text_config") or whole
    heads = text.get("num_attention_heads")
    if "kv_lora_rank" not in text and heads:
        text.setdefault("head_dim", text["hidden_size"] // heads)
        text["num_key_value_heads"] = max(1, (text.get("num_key_value_heads") or heads) // tp)
        text["num_attention_heads"] = max(1, heads // tp)
    for mixer in (text, text.get("linear_attn_config") or {}):
        for key in ("linear_num_key_heads", "linear_num_value_heads", "mamba_num_heads", "num_heads", "n_groups"):
            if key in mixer:
                mixer[key] = max(1, mixer[key] // tp)
    made = os.path.join(folder, "config.json")
    with open(made, "w", encoding="utf-8") as f:
        json.dump(whole, f)
    return made


def recurrent(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return "linear_attention" in text or "linear_attn_config" in text or "mamba" in text or "full_attention_interval" in text


def why_not(case, path):
    """What this case has that is not said or not modelled."""
    flags, notes = (case["flags"] or "").lower(), (case["notes"] or "").lower()
    if (case["pp"] or 1) > 1 or "dcp" in flags:
        return "over several stages or contexts"
    if path is None:
        return "without its configuration"
    if "spec" in flags or "mtp" in flags:
        return "with drafted tokens"
    if "ssm_dtype:kv" in case["chosen_to_fit"] or (case["kv_dtype"] is None and "kv dtype" in notes):
        return "whose types are not said"
    if recurrent(path) and not case["concurrency"] and not case["need_gib"]:
        return "of mixed layers without a concurrency"
    return None


def fit(path, case, length, mode):
    options = ["-c", str(length), "--engine", "vllm", "--gpu", "4096GiB", "--mamba-cache-mode", mode]
    version = re.match(r"v?0\.(\d+)", case["version"] or "")
    if version and int(version.group(1)) >= 11:
        options += ["--engine-version", "0." + version.group(1)]
    elif case["version"]:
        options += ["--engine-version", "0.11"]
    if case["max_num_batched_tokens"]:
        options += ["--max-num-batched-tokens", str(case["max_num_batched_tokens"])]
    else:
        options += ["--max-num-batched-tokens", "8192" if (case["total_gpu_gib"] or 0) >= 70 else "2048"]
    if case["kv_dtype"]:
        options += ["--kv-cache-dtype", KV.get(case["kv_dtype"], case["kv_dtype"])]
    if case["engine_mode"] == "V0":
        options += ["--disable-hybrid-kv-cache-manager", "--block-size", "16"]
    elif case["block_size"] and not case["hybrid_block_size"]:
        options += ["--block-size", str(case["block_size"])]
    ran = subprocess.run([VRAM, "fit", path, *options, "--json"], capture_output=True, check=False)
    if ran.returncode not in (1, 3):
        return None, ran.stderr.decode().strip().replace("\n", " ")[:90]
    device = json.loads(ran.stdout)["devices"][0]
    cache = device["ledger"]["kv_cache"]
    if cache["bytes"] is None:
        return None, cache["formula"]
    blocks, size = re.match(r"([\d,]+) blocks? of ([\d,]+) B", cache["formula"]).groups()
    return cache["bytes"], (int(blocks.replace(",", "")), int(size.replace(",", "")))


def try_modes(case, path):
    """check(), and whether an input was chosen by what it gives. Which mode states are kept in is seldom said."""
    chosen = any(word.endswith(":kv") for word in case["chosen_to_fit"])
    result = check(case, path, "align")
    if len(result) == 3 and not result[1] and recurrent(path):
        second = check(case, path, "none")
        if len(second) == 3 and second[1]:
            return second, True
    return result, chosen


def agrees(told, low, high, slack):
    return low - slack <= told <= high + slack


def check(case, path, mode):
    """(what was compared, agrees, by how much ours is more), or (why nothing was)."""
    pool = case["kv_cache_gib"]
    if case["outcome"] == "refused" and case["need_gib"] and case["need_len"]:
        need, why = fit(path, case, case["need_len"], mode)
        if need is None:
            return (why,)
        off = need / GIB / case["need_gib"] - 1
        return "need of a refused request", abs(need / GIB - case["need_gib"]) <= 0.0051, off
    if pool and case["concurrency"] and case["concurrency_len"]:
        need, of = fit(path, case, case["concurrency_len"], mode)
        if need is None:
            return (of,)
        blocks, size = of
        low, high = (int((pool + by) * GIB // size) / blocks for by in (-0.005, 0.01))
        off = pool * GIB / need / case["concurrency"] - 1
        return "concurrency", agrees(case["concurrency"], low, high, 0.0051), off
    told = case["kv_tokens"] or (case["gpu_blocks"] or 0) * 16
    if pool and told:
        need, why = fit(path, case, 16384, mode)
        if need is None:
            return (why,)
        low, high = ((pool + by) * GIB / need * 16384 for by in (-0.005, 0.01))
        return "tokens", agrees(told, low, high, 16), pool * GIB / need * 16384 / told - 1
    return ("without a figure to compare",)


def main():
    cases = data_file(ROOT, "data/vllm/cases.jsonl")
    known, results, left = configurations(), {}, {}
    with open(cases, encoding="utf-8") as lines, tempfile.TemporaryDirectory() as folder:
        for case in map(json.loads, lines):
            if case["engine"] != "vllm":
                continue
            path = known.get(case["model"])
            why = why_not(case, path)
            if why is None and (case["tp"] or 1) > 1:
                path = rank_of(path, case["tp"], folder)
            result, chosen = ((why,), False) if why else try_modes(case, path)
            if len(result) == 1:
                left[result[0]] = left.get(result[0], 0) + 1
                continue
            what = result[0] + (", an input chosen after a miss" if chosen else "")
            results.setdefault(what, []).append((case["id"], *result[1:]))
            if "-v" in sys.argv and not result[1]:
                print(case["id"], case["model"], case["version"], what, "%+.2f %%" % (100 * result[2]), case["notes"])
    bad = 0
    for what, list_ in sorted(results.items()):
        bad += sum(not x[1] and x[0] not in EXPLAINED for x in list_)
        wrong = sorted(abs(x[2]) for x in list_ if not x[1])
        off = f", {len(wrong)} by up to {100 * wrong[-1]:.1f} % off" if wrong else ""
        print(f"{what}: {len(list_) - len(wrong)} of {len(list_)} agree{off}")
    for word, of in (("as logged", [x for k, x in results.items() if "chosen" not in k]),
                     ("with an input chosen after a miss", [x for k, x in results.items() if "chosen" in k])):
        print(f"{word}: {sum(x[1] for y in of for x in y)} of {sum(map(len, of))} agree")
    print("left out:", ", ".join(f"{n} {why}" for why, n in sorted(left.items(), key=lambda x: -x[1])))
    return 1 if bad or sum(map(len, results.values())) < 40 else 0


sys.exit(main())
