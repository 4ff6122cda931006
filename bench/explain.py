#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Speed and memory of `vram explain` on long logs, beside grep and wc on the same bytes:

    explain.py VRAM [--mb 1000] [--seed N] [--runs 3] [--only NAME] [--json]

Makes each log in a temporary folder from a seed: a vLLM server's, a training run's, one whose lines are mostly frames of
tracebacks, one of failures only. Each program has one core (the last one this process may use). MB are 10^6 bytes of the log a second,
by the wall clock and (in brackets) of processor time, which other work on the machine disturbs less: the median of the runs after one that fills the page
cache. Memory is the process's peak (ru_maxrss)."""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MESSAGE = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU {gpu} has a total capacity of 31.36 GiB of which {free}.12 MiB is free. "
           "Including non-PyTorch memory, this process has 31.29 GiB memory in use. Of the allocated memory 30.10 GiB is allocated by PyTorch, and 480.31 MiB is "
           "reserved by PyTorch but unallocated.\n")
TRACE = ('Traceback (most recent call last):\n  File "/opt/app/env/lib/python3.12/site-packages/torch/nn/modules/module.py", line {n}, in _call_impl\n'
         '    return forward_call(*args, **kwargs)\n  File "/opt/app/models/decoder.py", line {n}, in forward\n    hidden = self.mlp(hidden)\n'
         '  File "/opt/app/env/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(input, self.weight, self.bias)\n')
SERVER = ("INFO 03-11 {h:02}:{m:02}:{s:02} [loggers.py:118] Engine 000: Avg prompt throughput: {a}.{d} tokens/s, Avg generation throughput: {b}.{d} tokens/s, "
          "Running: {r} reqs, Waiting: {w} reqs, GPU KV cache usage: {k}.{d}%, Prefix cache hit rate: {p}.{d}%\n",
          "INFO:     10.4.{k}.{r}:{a} - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n",
          "INFO 03-11 {h:02}:{m:02}:{s:02} [async_llm.py:261] Added request chatcmpl-{a:08x}{b:08x}{n:016x}.\n",
          "DEBUG 03-11 {h:02}:{m:02}:{s:02} [core.py:{b}] EngineCore loop active, {a} tokens scheduled in step {n}\n")
TRAINING = ("{{'loss': {k}.{n:04}, 'grad_norm': {d}.{b:04}, 'learning_rate': {a}e-06, 'epoch': {d}.{k}}}\n",
            "\r {k}%|{bar:10}| {n}/200000 [{h}:{m:02}:{s:02}<{r}:{s:02}:{m:02},  1.{d}s/it]",
            "[2026-03-11 {h:02}:{m:02}:{s:02},{a}] [INFO] [timer.py:{b}:stop] epoch=0/micro_step={n}/global_step={n}, RunningAvgSamplesPerSec={k}.{b}, "
            "MemAllocated={r}.{d}GB, MaxMemAllocated={p}.{d}GB\n",
            "[rank{d}]: iteration {n} | consumed samples: {b} | elapsed time per iteration (ms): {a}.{d} | lm loss: {d}.{b}E+00 | number of nan iterations: 0 |\n")


def values(r, n):
    return {"h": r.randrange(24), "m": r.randrange(60), "s": r.randrange(60), "a": r.randrange(100, 9000), "b": r.randrange(1000, 9999), "d": r.randrange(8),
            "r": r.randrange(100), "w": r.randrange(9), "k": r.randrange(100), "p": r.randrange(100), "n": n, "bar": "#" * r.randrange(10)}


def quiet(forms):
    def lines(r, n):
        return r.choice(forms).format(**values(r, n))
    return lines


def frames(r, n):
    return TRACE.format(n=r.randrange(100, 2000))


def events(r, n):
    return TRACE.format(n=r.randrange(100, 2000)) + MESSAGE.format(gpu=r.randrange(8), free=r.randrange(10, 90))


# name: lines, and whether one failure stands at the end
LOGS = {"server": (quiet(SERVER), True), "training": (quiet(TRAINING), True), "frames": (frames, True), "events": (events, False)}


def make(path, lines, fails, size, seed):
    """Blocks of some MB, each made once, again and again in another order."""
    r = random.Random(seed)
    blocks = []
    for b in range(16):
        block, n = [], 0
        while n < min(4_000_000, size // 16 + 1):
            block.append(lines(r, b * 100_000 + len(block)))
            n += len(block[-1])
        blocks.append("".join(block).encode())
    with open(path, "wb") as f:
        while f.tell() < size:
            f.write(r.choice(blocks))
        if fails:
            f.write(b"\n" + events(r, 0).encode())
        return f.tell()


# Run by a process of its own: a child's peak counts from the memory of the process that it was forked from, so from that of a
# Python that has done nothing. What is below that (some 9 MiB) reads as that.
RUNNER = """import os, sys, time
begin = time.monotonic()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
with open(sys.argv[1], "w") as f:
    f.write(f"{time.monotonic() - begin} {used.ru_utime + used.ru_stime} {used.ru_maxrss} {os.waitstatus_to_exitcode(status)}")
"""


def run(command, core, stdin=None):
    """Seconds by the clock, of the processor, peak memory in bytes, standard output, exit status."""
    with open(stdin or os.devnull, "rb") as given, tempfile.NamedTemporaryFile("r") as told:
        p = subprocess.run(["taskset", "-c", str(core), sys.executable, "-S", "-E", "-c", RUNNER, told.name, *command], stdin=given,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        seconds, busy, kib, status = told.read().split()
        return float(seconds), float(busy), int(kib) * 1024, p.stdout, int(status)


def measured(path, vram, core, runs, size):
    commands = {"vram explain FILE": ([vram, "explain", "--json", path], None), "vram explain < FILE": ([vram, "explain", "--json"], path),
                "grep -c": (["grep", "-c", "capacity", path], None), "wc -l": (["wc", "-l", path], None)}
    run(["cat", path], core)
    found = {}
    for name, (command, stdin) in commands.items():
        ran = [run(command, core, stdin) for _ in range(runs)]
        clock, busy = (statistics.median(max(r[n], 1e-3) for r in ran) for n in (0, 1))
        found[name] = {"MB/s": round(size / 1e6 / clock), "MB/s of processor time": round(size / 1e6 / busy), "MiB": round(max(r[2] for r in ran) / (1 << 20), 1)}
        if name.startswith("vram"):
            answer = json.loads(ran[-1][3])["diagnoses"] if ran[-1][4] in (0, 1) else [{"cause": f"exit status {ran[-1][4]}"}]
            found[name]["first"] = f"{answer[0].get('cause')}, line {answer[0].get('line')}" if answer else "nothing"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vram")
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    core, all_ = max(os.sched_getaffinity(0)), {}
    folder = tempfile.mkdtemp(prefix="vram-explain-")
    try:
        for name, (lines, fails) in LOGS.items():
            if args.only in name:
                path = os.path.join(folder, name + ".log")
                size = make(path, lines, fails, args.mb * 1_000_000, args.seed)
                all_[name] = measured(path, os.path.abspath(args.vram), core, args.runs, size)
                os.remove(path)
                for what, of in all_[name].items() if not args.json else ():
                    print(f"{name}, {size / 1e6:.0f} MB: {what}: {of['MB/s']} MB/s ({of['MB/s of processor time']}), {of['MiB']} MiB{', first ' + of['first'] if 'first' in of else ''}")
    finally:
        shutil.rmtree(folder)
    if args.json:
        print(json.dumps(all_, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
