#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns the trace of a PyTorch memory snapshot (torch.cuda.memory._dump_snapshot) into text for test_replay.

    trace_to_tape.py SNAPSHOT.pickle > events.txt    exit 0, or 3 with a reason; 4: no allocations in it

The pickle is read, never executed: only opcodes that build plain data are known, any other ends the run.

The snapshot holds the state at the end and the events that led to it. Undoing the events backwards gives the
state at the start. What the trace does not say is how large a block was that is freed in it (it names the
requested size): in the large pool a gap of up to 1 MiB behind it belongs to it, because the allocator splits
off only what is larger.

Lines of the output, all numbers decimal:
    segment ADDRESS SIZE small|large STREAM      the state at the start: segments, each followed by
    block ADDRESS SIZE REQUESTED live|idle       its blocks from front to back, without gaps
    S ADDRESS SIZE STREAM                        the driver gave a segment (for the allocation that follows)
    F ADDRESS SIZE                               the driver got a segment back
    a ADDRESS REQUESTED STREAM                   allocated
    f ADDRESS                                    released
    end-segment ..., end-block ...               the state at the end, from the snapshot itself
    end ALLOCATED RESERVED
"""
import struct
import sys

MIB = 1 << 20


class Bad(Exception):
    """The file is damaged, or holds more than plain data."""


class Reader:
    """Pickle opcodes of plain data (protocols 2 to 4), after the layout in CPython's Lib/pickletools.py."""

    MARK = object()

    def __init__(self, data):
        self.data, self.at, self.stack, self.memo = data, 0, [], {}

    def take(self, n):
        if n < 0 or n > len(self.data) - self.at:
            raise Bad(f"cut at byte {self.at}")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, width, signed=False):
        return int.from_bytes(self.take(width), "little", signed=signed)

    def text(self, width):
        return self.take(self.number(width)).decode("utf-8", "surrogatepass")

    def since_mark(self):
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is self.MARK:
                items = self.stack[i + 1:]
                del self.stack[i:]
                return items
        raise Bad(f"no mark before byte {self.at}")

    def top(self, kind):
        if not self.stack or type(self.stack[-1]) is not kind:
            raise Bad(f"no {kind.__name__} before byte {self.at}")
        return self.stack[-1]

    def pop(self):
        if not self.stack or self.stack[-1] is self.MARK:
            raise Bad(f"nothing to take before byte {self.at}")
        return self.stack.pop()

    def remember(self, key):
        if len(self.memo) > len(self.data) or not self.stack:
            raise Bad(f"memo out of bounds at byte {self.at}")
        self.memo[key] = self.stack[-1]

    def recall(self, key):
        if key not in self.memo:
            raise Bad(f"nothing remembered as {key}, byte {self.at}")
        self.stack.append(self.memo[key])

    def tuple_of(self, n):
        items = [self.pop() for _ in range(n)]
        self.stack.append(tuple(reversed(items)))

    def items(self, pairs):
        if len(pairs) % 2 or any(type(k) not in (str, int) for k in pairs[::2]):
            raise Bad(f"bad dictionary before byte {self.at}")
        self.top(dict).update(zip(pairs[::2], pairs[1::2]))

    def set_one(self):
        value = self.pop()
        self.items([self.pop(), value])

    def append_one(self):
        value = self.pop()
        self.top(list).append(value)

    def append_all(self):
        items = self.since_mark()
        self.top(list).extend(items)

    push = {  # opcode: what it puts on the stack
        0x7d: lambda r: {}, 0x5d: lambda r: [], 0x29: lambda r: (), 0x28: lambda r: r.MARK,
        0x4e: lambda r: None, 0x88: lambda r: True, 0x89: lambda r: False,
        0x4b: lambda r: r.number(1), 0x4d: lambda r: r.number(2), 0x4a: lambda r: r.number(4, True),
        0x8a: lambda r: int.from_bytes(r.take(r.number(1)), "little", signed=True),
        0x8b: lambda r: int.from_bytes(r.take(r.number(4, True)), "little", signed=True),
        0x47: lambda r: struct.unpack(">d", r.take(8))[0],
        0x8c: lambda r: r.text(1), 0x58: lambda r: r.text(4), 0x8d: lambda r: r.text(8),
        0x74: lambda r: tuple(r.since_mark()),
    }
    do = {  # opcode: what it does to the stack or the memo
        0x80: lambda r: r.take(1), 0x95: lambda r: r.take(8),
        0x94: lambda r: r.remember(len(r.memo)), 0x71: lambda r: r.remember(r.number(1)),
        0x72: lambda r: r.remember(r.number(4)), 0x68: lambda r: r.recall(r.number(1)),
        0x6a: lambda r: r.recall(r.number(4)), 0x85: lambda r: r.tuple_of(1), 0x86: lambda r: r.tuple_of(2),
        0x87: lambda r: r.tuple_of(3), 0x61: append_one, 0x65: append_all, 0x73: set_one,
        0x75: lambda r: r.items(r.since_mark()),
    }

    def load(self):
        while True:
            op = self.number(1)
            if op == 0x2e:
                return self.pop()
            if op in self.push:
                self.stack.append(self.push[op](self))
            elif op in self.do:
                self.do[op](self)
            else:
                raise Bad(f"opcode 0x{op:02x} at byte {self.at - 1} is not plain data")


def round_size(n):
    return 512 if n < 512 else (n + 511) // 512 * 512


class Start:
    """Segments and live blocks, going backwards from the end of the trace to its start."""

    def __init__(self, snapshot, device):
        self.segments = {}  # address: [size, small or None]
        self.live = {}      # address: (size or None, requested)
        self.streams = {}
        self.end = []
        for s in snapshot["segments"]:
            if s.get("device", 0) != device:
                continue
            if s.get("is_expandable"):
                raise Bad("expandable segments are not replayed")
            small, at = s["segment_type"] == "small", s["address"]
            self.segments[at] = [s["total_size"], small]
            self.streams[at] = s["stream"]
            self.end.append(("end-segment", at, s["total_size"], "small" if small else "large", s["stream"]))
            for b in s["blocks"]:
                live = b["state"].startswith("active")
                if live:
                    self.live[at] = (b["size"], b["requested_size"])
                self.end.append(("end-block", at, b["size"], b["requested_size"] if live else 0,
                                 "live" if live else "idle"))
                at += b["size"]
        self.allocated = sum(size for size, _ in self.live.values())
        self.reserved = sum(size for size, _ in self.segments.values())

    def undo(self, trace):
        for e in reversed(trace):
            action, at = e["action"], e["addr"]
            if action == "alloc":
                if self.live.pop(at, None) is None:
                    raise Bad(f"the trace allocates {at}, which the snapshot does not know")
            elif action == "free_completed":
                self.live[at] = (None, e["size"])
            elif action == "segment_alloc":
                del self.segments[at]
            elif action == "segment_free":
                self.segments[at] = [e["size"], None]
                self.streams[at] = e["stream"]

    def blocks_of(self, start):
        """Blocks of one segment, front to back."""
        size, small = self.segments[start]
        inside = sorted(p for p in self.live if start <= p < start + size)
        if small is None:
            small = size == 2 * MIB and all(round_size(self.live[p][1]) <= MIB for p in inside)
            self.segments[start][1] = small
        at = start
        for i, p in enumerate(inside):
            if p > at:
                yield at, p - at, 0, "idle"
            length, requested = self.live[p]
            behind = inside[i + 1] if i + 1 < len(inside) else start + size
            if length is None:
                length = round_size(requested)
                if not small and behind - (p + length) <= MIB:
                    length = behind - p
            yield p, length, requested, "live"
            at = p + length
        if at < start + size:
            yield at, start + size - at, 0, "idle"


def convert(snapshot, out):
    device = next((i for i, t in enumerate(snapshot["device_traces"])
                   if any(e["action"] == "alloc" for e in t)), None)
    if device is None:
        return False
    trace = snapshot["device_traces"][device]
    start = Start(snapshot, device)
    start.undo(trace)
    for at in sorted(start.segments):
        blocks = list(start.blocks_of(at))
        size, small = start.segments[at]
        print("segment", at, size, "small" if small else "large", start.streams[at], file=out)
        for b in blocks:
            print("block", *b, file=out)
    for e in trace:
        action = e["action"]
        if action == "alloc":
            print("a", e["addr"], e["size"], e["stream"], file=out)
        elif action == "free_completed":
            print("f", e["addr"], file=out)
        elif action == "segment_alloc":
            print("S", e["addr"], e["size"], e["stream"], file=out)
        elif action == "segment_free":
            print("F", e["addr"], e["size"], file=out)
        elif action not in ("free_requested", "snapshot", "oom", "user_defined"):
            raise Bad(f"action {action} is not replayed")
    for line in start.end:
        print(*line, file=out)
    print("end", start.allocated, start.reserved, file=out)
    return True


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], "rb") as f:
            snapshot = Reader(f.read()).load()
        if not convert(snapshot, sys.stdout):
            print(f"{sys.argv[1]}: no allocations in the trace", file=sys.stderr)
            return 4
    except (Bad, KeyError, TypeError, AttributeError, OSError, UnicodeDecodeError) as e:
        print(f"{sys.argv[1]}: {type(e).__name__}: {e}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
