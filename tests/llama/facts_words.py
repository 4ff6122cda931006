# SPDX-License-Identifier: MIT
"""Recorded runs (tests/oracle/llamacpp/facts/), and their options in the words of `measured`."""

WITH_VALUE = {"-c": "c", "-b": "b", "-ub": "ub", "-np": "np", "-ngl": "ngl", "-ctk": "ctk", "-ctv": "ctv", "-ts": "ts",
              "--n-cpu-moe": "ncmoe", "--devices": "devices", "-ot": "ot", "-mg": "mg", "--n-outputs-max": "outputs",
              "--free": "free"}
FLAGS = {"-nkvo": "kvo=0", "--cpu-moe": f"ncmoe={2**64 - 1}", "--no-repack": "no_repack=1", "-kvu": "kvu=1",
         "--swa-full": "swa_full=1", "--no-op-offload": "opo=0", "--embeddings": "embeddings=1"}
MODES = {"layer": "0", "row": "1", "none": "2", "tensor": "3"}
POOLS = {"none": "1", "mean": "2", "cls": "3", "last": "4", "rank": "5"}


def settings(options):
    """The words of MEASURED for the recorder's."""
    words, out, server, slots, batch, given = options.split(), {"fa_auto": "1"}, False, None, 2048, False
    while words:
        word = words.pop(0)
        if word == "-fa":
            out["fa_auto"], out["fa"] = "0", str(int(words.pop(0) == "on"))
        elif word == "-sm":
            out["sm"] = MODES[words.pop(0)]
        elif word == "--pooling":
            out["pooling"] = POOLS[words.pop(0)]
        elif word == "--server":
            server = True
        elif word in WITH_VALUE:
            out[WITH_VALUE[word]] = words.pop(0)
        elif FLAGS[word] is not None:
            key, _, value = FLAGS[word].partition("=")
            out[key] = value
    slots, batch, given = out.get("np"), int(out.get("b", batch)), "outputs" in out
    if server and slots is None:
        out["np"], out["kvu"] = "4", "1"
    if server and not given and "embeddings" not in out:
        out["outputs"] = str(min(batch, int(out["np"])))
    return [f"{key}={value}" for key, value in out.items()]


def runs_of(lines):
    """(options, facts) of each run"""
    out = []
    for kind, *fields in lines:
        if kind == "run":
            out.append((fields[0], {"bytes": {}, "graph": {}}))
        elif kind == "bytes":
            out[-1][1]["bytes"][fields[0]] = [int(f) for f in fields[1:]]
        elif kind == "graph":
            out[-1][1]["graph"][fields[0]] = [int(f) for f in fields[1:]]
        else:
            out[-1][1][kind] = fields
    return out
