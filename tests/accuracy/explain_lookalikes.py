#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What reads like a shortage of GPU memory and is none, alone and inside logs; and what is no text at all:

    explain_lookalikes.py VRAM [--seeds N] [-v]

Look-alikes are never called a shortage of the GPU's memory. Hostile inputs end by themselves within seconds, in exit status 0
or 1, without figures that the text does not have; what holds nothing to recognise says so in a sentence. The exit status is
1 where one does not."""
import argparse
import collections
import gzip
import os
import random
import struct
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import explaining  # noqa: E402
from explain_changes import quiet_lines, scaled_text  # noqa: E402
from explain_variations import examples, figures_of  # noqa: E402

# name, memories that are right, text. Our own, in the forms that these programs have.
LOOK_ALIKES = (
    ("Triton shared memory", "none unknown", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376. "
     "Reducing block sizes or `num_stages` may help."),
    ("Triton registers", "none unknown", "triton.runtime.errors.OutOfResources: out of resource: threads, Required: 2048, Hardware limit: 1024. Reducing block sizes may help."),
    ("exit 137 of Docker", "host", "trainer exited with code 137"),
    ("exit 137 of Kubernetes", "host", "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
     "      Started:      Wed, 11 Mar 2026 09:12:44 +0000"),
    ("killed in a shell", "host", "+ python3 train.py --config base.yaml\nrun.sh: line 12: 48211 Killed                  python3 train.py --config base.yaml"),
    ("torchrun -9", "host", "torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 2 (pid: 7719) of binary: /usr/bin/python3"),
    ("DeepSpeed -9", "host", "[launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'sft.py'] exits with return code = -9"),
    ("kernel's own killer", "host", "[91231.502113] Out of memory: Killed process 30415 (python3) total-vm:98231004kB, anon-rss:61220532kB, file-rss:71680kB, "
     "shmem-rss:14336kB, UID:1000 pgtables:131072kB oom_score_adj:0"),
    ("limit of a control group", "host", "[5512.100231] Memory cgroup out of memory: Killed process 911 (python) total-vm:41231004kB, anon-rss:33120532kB, file-rss:1680kB, "
     "shmem-rss:0kB, UID:0 pgtables:71072kB oom_score_adj:936"),
    ("Slurm", "host", "slurmstepd: error: Detected 2 oom_kill events in StepId=771204.0. Some of the step tasks have been OOM Killed."),
    ("paging file, safetensors", "host", "OSError: The paging file is too small for this operation to complete. (os error 1455)"),
    ("paging file, DLL", "host", "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "
     "\"C:\\apps\\env\\lib\\site-packages\\torch\\lib\\cudnn_cnn_infer64_8.dll\" or one of its dependencies."),
    ("Xid 79", "none", "[  812.338112] NVRM: Xid (PCI:0000:41:00): 79, pid=2211, name=python3, GPU has fallen off the bus."),
    ("Xid 31", "none", "NVRM: Xid (PCI:0000:65:00): 31, pid=8123, name=python, Ch 00000012, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted"),
    ("ECC", "none", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("illegal address", "none", "RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some "
     "other API call, so the stacktrace below might be incorrect."),
    ("DataLoader killed", "host", "RuntimeError: DataLoader worker (pid 5113) is killed by signal: Killed. "),
    ("DataLoader bus error", "host", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
     "RuntimeError: DataLoader worker (pid(s) 711, 712) exited unexpectedly"),
    ("DataLoader bus error, short", "host", "RuntimeError: DataLoader worker (pid 604) is killed by signal: Bus error. It is possible that dataloader's workers are out of "
     "shared memory. Please try to raise your shared memory limit."),
    ("bus error", "host none unknown", "Fatal Python error: Bus error\n\nThread 0x00007f1b2a7fc700 (most recent call first):\n  File \"queue.py\", line 171 in get"),
    ("NaN", "none unknown nothing", "step 412: loss=nan grad_norm=nan\nRuntimeError: Function 'MulBackward0' returned nan values in its 0th output."),
    ("probabilities with NaN", "none unknown nothing", "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"),
    ("disk full", "none unknown nothing host", "OSError: [Errno 28] No space left on device: '/data/checkpoints/step_900/optimizer.pt'"),
    ("driver mismatch", "none", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 555.42"),
    ("driver too old", "none", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"),
    ("driver insufficient", "none", "CUDA error: CUDA driver version is insufficient for CUDA runtime version"),
    ("no card", "none", "RuntimeError: No CUDA GPUs are available"),
    ("built without CUDA", "none unknown nothing", "AssertionError: Torch not compiled with CUDA enabled"),
    ("NumPy", "host", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 37.3 GiB for an array with shape (100000, 50000) and data type float64"),
    ("CPU allocator", "host", "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 77309411328 "
     "bytes. Error code 12 (Cannot allocate memory)"),
    ("Python's MemoryError", "host", "    data = f.read()\nMemoryError"),
    ("Ray", "host", "Memory on the node (IP: 10.0.4.7, ID: 5dc1) where the task (actor ID: 88f2, name=Worker.__init__, pid=9912, memory used=44.71GB) was running was "
     "119.22GB / 125.40GB (0.950718), which exceeds the memory usage threshold of 0.95."),
    ("file descriptors", "none unknown nothing host", "OSError: [Errno 24] Too many open files: '/data/shards/0412.tar'"),
    ("out of range", "none unknown nothing", "Assertion `srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: device-side assert triggered"),
    ("too long a prompt", "none unknown nothing", "Token indices sequence length is longer than the specified maximum sequence length for this model (5312 > 4096)."),
    ("words only", "none unknown nothing", "We ran out of memory budget for this quarter, please order GPUs. Memory usage was discussed."),
)
# In whose middle they stand; nothing in them failed.
AROUND = ("Epoch 3: 41%|####      | 412/1003 [02:11<03:08,  3.14it/s, loss=1.93]\n", "INFO 03-11 10:11:12 metrics.py:345] Running: 3 reqs, Swapped: 0 reqs, Pending: 0 reqs\n",
          "wandb: Run summary:\nwandb: train/loss 1.93\n", "2026-03-11 10:10:55 INFO torch.cuda.max_memory_allocated: 21.44 GiB\n")


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((x * y) & 255 for x in range(3 * 64)) for y in range(64))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Tally:
    """What did not hold, by group."""

    def __init__(self, vram):
        self.vram = vram
        self.tried, self.bad = collections.Counter(), []

    def check(self, group, name, data, wrong):
        self.tried[group] += 1
        try:
            found = wrong(explaining.ask(self.vram, data, seconds=20))
        except explaining.Failed as e:
            found = [str(e)]
        self.bad += [(group, name, words) for words in found]


def not_gpu(memories):
    def wrong(answer):
        called = {d["memory"] for d in answer.all}
        if called & {"gpu", "pool"}:
            yield "called a shortage of the GPU's memory: " + ", ".join(f"{d['memory']}, {d['cause']} ({d['text']})" for d in answer.all)
        elif answer.memory not in memories.split() and (answer.all or "nothing" not in memories):
            yield f"memory {answer.memory}, {memories} expected" if answer.all else "nothing recognised"
    return wrong


def look_alikes(tally, seeds):
    for name, memories, text in LOOK_ALIKES:
        tally.check("look-alikes", name, text, not_gpu(memories))
        for seed in range(max(1, seeds // 100)):
            r = random.Random(f"{name} {seed}")
            head = "".join(r.choice(AROUND) for _ in range(r.randrange(9))) + quiet_lines(r, r.randrange(200))
            tally.check("look-alikes inside logs", f"{name}, seed {seed}", head + text + "\n" + quiet_lines(r, r.randrange(40)), not_gpu(memories))


def nothing(answer):
    if answer.all:
        yield "recognised: " + ", ".join(str(d["text"]) for d in answer.all)


def anything(answer):
    return []


def binaries(tally, seeds):
    with open(tally.vram, "rb") as f:
        own = f.read()
    tally.check("binaries", "this program itself", own, anything)  # it holds the texts that it looks for
    tally.check("binaries", "a picture", png(), nothing)
    tally.check("binaries", "gzip of a log", gzip.compress(quiet_lines(random.Random(1), 5000).encode()), nothing)
    tally.check("binaries", "zeros", bytes(1 << 20), nothing)
    tally.check("binaries", "0xff", b"\xff" * (1 << 20), nothing)
    tally.check("binaries", "nothing", b"", nothing)
    tally.check("binaries", "a line end", b"\n", nothing)
    for seed in range(seeds // 10):
        r = random.Random(f"bytes {seed}")
        tally.check("random bytes", f"seed {seed}", r.randbytes(r.choice((1, 7, 300, 5000, 70000, 1 << 20))), nothing)


def no_other_figures(whole, text):
    """A part of a message may lack figures; those that it has are the message's: the same, or another print of it (in MiB
    where the exact bytes are gone)."""
    have = figures_of(whole)
    printed = scaled_text(text, 1)[1]

    def wrong(answer):
        if not answer.all or answer.text != whole.text:
            return []
        return [f"{name} {value} for {have.get(name)}" for name, value in figures_of(answer).items()
                if have.get(name) != value and not any(abs(value - v) <= 2 for v in printed)]
    return wrong


DIGITS = "0123456789.,"


def halves(tally, seeds):
    """Each example cut at each position, and begun at each, but in the middle of a number: the rest of one is a number too."""
    of = examples()
    r = random.Random("halves")
    for id_, text in of:
        try:
            whole = explaining.ask(tally.vram, text)
        except explaining.Failed as e:
            tally.bad.append(("half messages", id_, str(e)))
            continue
        positions = r.sample(range(1, len(text)), min(len(text) - 1, max(1, 2 * seeds // max(len(of), 1)))) if seeds < 5000 else range(1, len(text))
        for at in positions:
            if text[at - 1] in DIGITS and text[at] in DIGITS:
                continue
            tally.check("half messages", f"{id_}, first {at}", text[:at], no_other_figures(whole, text))
            tally.check("half messages", f"{id_}, from {at}", text[at:], no_other_figures(whole, text))


PYTORCH = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {r}. GPU {n} has a total capacity of {t} of which {f} is free. "
           "Including non-PyTorch memory, this process has {p} memory in use. Of the allocated memory {a} is allocated by PyTorch, and {u} is reserved by "
           "PyTorch but unallocated.")
HUGE = ("99999999999 GiB", "99999999999999999999999999999999 GiB", "17179869184.00 GiB", "18446744073709551615 bytes", "18446744073709551616 bytes", "-1.00 GiB", "1e99 GiB",
        "0 bytes", "0.00 MiB", "nan GiB", ". GiB", "1.999999999999999999999999999999 GiB", "00000000000000000000000000012.00 GiB", "1.2.3 GiB", "0x10 GiB")
ZERO = {"r": "130.00 MiB", "n": "0", "t": "11.50 GiB", "f": "60.00 MiB", "p": "11.40 GiB", "a": "11.20 GiB", "u": "80.00 MiB"}


def bounded(answer):
    for d in answer.all:
        missing = d.get("missing_at_least_bytes")
        if missing is not None and not 0 <= missing < 1 << 64:
            yield f"{missing} bytes missing"
        if any(isinstance(v, int) and not -(1 << 63) <= v < 1 << 64 for v in d["facts"].values()):
            yield "a figure beyond 64 bits"


def hostile(tally, seeds):
    for name in ZERO:
        for size in HUGE:
            tally.check("hostile figures", f"{name} = {size}", PYTORCH.format(**{**ZERO, name: size}), bounded)
    tally.check("hostile figures", "all huge", PYTORCH.format(**dict.fromkeys(ZERO, HUGE[0])), bounded)
    message = PYTORCH.format(**ZERO)

    def read(answer):
        if answer.facts.get("request_bytes") != 130 << 20:
            yield f"request {answer.facts.get('request_bytes')}, text {answer.text}"
    tally.check("hostile lines", "1 MB before it in its line", "x" * (1 << 20) + " " + message, read)
    tally.check("hostile lines", "1 MB behind it in its line", message + " " + "x" * (1 << 20), read)
    tally.check("hostile lines", "8 MB without a line end", "word " * (8 << 18), nothing)
    tally.check("hostile lines", "NULs between lines", b"\0" * 5000 + b"\n" + message.encode() + b"\n" + b"\0" * 5000, read)
    tally.check("hostile lines", "a NUL behind each line", b"line\0\n" * 2000 + message.encode() + b"\0\n", read)
    tally.check("hostile lines", "100,000 colours", "\x1b[31m" * 100000 + message + "\x1b[0m" * 100000, read)
    tally.check("hostile lines", "a colour that does not end", "\x1b[" + "1;" * 100000 + "\n" + message, read)
    tally.check("hostile lines", "an escape that does not end", "\x1b]0;" + "t" * 100000 + "\n" + message, read)
    tally.check("hostile lines", "prefixes on prefixes", "[rank0]:" * 50000 + " " + message + "\n" + message, read)
    tally.check("hostile lines", "5,000 events", (message + "\n") * 5000, read)
    tally.check("hostile lines", "5,000 different events", "\n".join(PYTORCH.format(**{**ZERO, "r": f"{130 + n}.00 MiB"}) for n in range(5000)), read)
    tally.check("hostile lines", "100,000 processes", message.replace("Including", "".join(f"Process {n} has 1.00 MiB memory in use. " for n in range(100000)) + "Including"),
                anything)
    tally.check("hostile lines", "100,000 frames", 'Traceback (most recent call last):\n' + '  File "a/modeling.py", line 7, in forward\n    x = self.mlp(x)\n' * 100000 + message, read)
    for seed in range(seeds // 20):
        r = random.Random(f"words {seed}")
        words = " ".join(text for _, text in examples()).split() or ["no"]
        tally.check("words of all messages in any order", f"seed {seed}", " ".join(r.choice(words) for _ in range(r.choice((5, 50, 2000)))), bounded)
        flipped = bytearray(r.choice(examples())[1].encode())
        for _ in range(r.randrange(1, 8)):
            flipped[r.randrange(len(flipped))] = r.randrange(256)
        tally.check("messages with other bytes", f"seed {seed}", bytes(flipped), bounded)


def sentences(tally):
    """Where nothing was recognised, people read why."""
    for name, path in (("/dev/null", "/dev/null"), ("a program", tally.vram)):
        ran = subprocess.run([tally.vram, "explain", path], capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL, errors="replace", timeout=60)
        said = ran.stdout + ran.stderr
        tally.tried["sentences"] += 1
        if path == "/dev/null" and (ran.returncode != 1 or "recogni" not in said.lower() or len(said) > 1000):
            tally.bad.append(("sentences", name, f"exit status {ran.returncode}: {said[:200]!r}"))
        elif ran.returncode not in (0, 1):
            tally.bad.append(("sentences", name, f"exit status {ran.returncode}: {said[:200]!r}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vram")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    tally = Tally(os.path.abspath(args.vram))
    look_alikes(tally, args.seeds)
    binaries(tally, args.seeds)
    halves(tally, args.seeds)
    hostile(tally, args.seeds)
    sentences(tally)
    for group, n in tally.tried.items():
        bad = [b for b in tally.bad if b[0] == group]
        print(f"{group}: {n} tried, {len({b[1] for b in bad})} do not hold")
        for _, name, words in bad if args.v else bad[:6]:
            print(f"    {name}: {words}")
    return 1 if tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
