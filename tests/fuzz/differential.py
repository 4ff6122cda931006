#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Damaged GGUF and PyTorch files: what `vram inspect` makes of each, and what a peer makes of it. Run by hand.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install gguf
    /tmp/peer/bin/python tests/fuzz/differential.py gguf VRAM [N] [SEED]      the peer is gguf.GGUFReader
    build-oracle/torch/bin/python tests/fuzz/differential.py torch VRAM [N] [SEED]      torch.load(weights_only=True)

Own files of every kind (gguf_corpus.py; torch.save) are changed in one to three places: bytes, lengths, counts, types,
offsets, alignment, fields of a zip's directory, names, opcodes. When both accept a file, they must agree on every tensor:
name, dtype, shape, bytes, and for GGUF where it begins. When only one does, the reason must be a named one (KINDS below).
All else is printed, the file kept in differential-found/, and the exit status 1.

N files (10,000). The peer lives in this process; vram is started once for each file.
"""
import collections
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile

ARGV = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# Why only vram refuses: its message, and why that is right. The peer is the reader named in the key.
REFUSED_BY_VRAM = {
    'gguf': [
        (r'inside of tensor', 'tensors overlap: the peer does not look'),
        (r'not at a multiple of', 'an offset is not aligned, which llama.cpp refuses: the peer does not look'),
        (r'a key has no name|is said to have .* bytes, over the format', 'a key of no or over 65,535 bytes: not allowed by docs/gguf.md'),
        (r'the name of tensor', 'a tensor name of over 65,535 bytes'),
        (r'dimensions, more than ggml', 'over four dimensions: ggml has no more'),
        (r'not whole blocks', 'a row that is not whole blocks: numpy rounds down'),
        (r'has over 2\^64 elements|would end beyond 2\^63', 'sizes that overflow: numpy wraps around'),
        (r'the file lacks', 'the last tensor is cut: the peer maps what is there'),
        (r'the file ends within its header|but the file ends after|too many for a file', 'the header is cut: the peer takes short slices'),
        (r'arrays stand in each other', 'arrays over eight deep: llama.cpp reads none in another'),
        (r'general.alignment is [\d,]+, over|general.alignment is no whole', 'an alignment beyond 16 MiB, or no number'),
    ],
    'torch': [
        (r'storage .* of .* bytes is not in the file', 'a storage no tensor needs is missing: torch.load is lazy'),
        (r'has .* bytes, but .* by its type and elements', 'the storage has another size than its description: torch.load reads what there is'),
        (r'reaches beyond its storage', 'a window beyond its storage: torch.load resizes the storage'),
        (r'there is no tensor in the file', 'an empty dictionary: nothing to count is an error here'),
        (r'it has no data.pkl', "a member's name in letters of another case: torch's miniz takes it for the same"),
        (r"zip file's directory is damaged", "an entry of the directory that torch does not need"),
        (r'has no end record', "an end record that is not the file's end: torch's miniz takes the last mark it finds"),
        (r'known are 0 to 5', 'a pickle protocol that Python does not have: torch.load does not look'),
        (r'zip64 end record', "a damaged zip64 end record: torch's miniz passes over it where the sizes are small"),
        (r'bytes here and .* elsewhere', 'one storage is described twice, with different sizes: torch.load keeps the first'),
        (r'refer to each other so often|nested over|over .* values', 'work without end is bounded'),
        (r'is there twice', 'two values under one name: Python keeps the last'),
        (r'as stored and .* as unpacked|cannot have .* bytes when', 'the directory contradicts itself'),
        (r'remembers a value at place', 'a place in the memo no pickler writes'),
        (r'the file goes on for', 'bytes behind the last storage: torch.load does not look'),
    ],
}

# Why only the peer refuses: its message.
REFUSED_BY_PEER = {
    'gguf': [
        (r'out of time', 'a count that keeps the peer busy for seconds'),
        (r'out of time', 'a count that keeps the peer busy for seconds'),
        (r'appears to be version 1', 'version 1, which the peer never read'),
        (r"codec can't decode", 'a name that is no UTF-8: llama.cpp takes any bytes, ours are shown cleaned'),
        (r'Duplicate GGUF\.', 'a key that is called as the peer calls its own fields'),
        (r'Bad type for general.alignment', 'an alignment of another integer type: its value is right all the same'),
        (r'cannot reshape array of size|cannot be reshaped', 'a shape that has a zero in it'),
    ],
    'torch': [
        (r'out of time', 'a count that keeps the peer busy for seconds'),
        (r'PytorchStreamReader failed|inline_container', 'fields of the zip that vram does not need, such as the number of a disk'),
        (r"codec can't decode", 'a name that is no UTF-8: ours are shown cleaned'),
        (r'can require gradients|requires_grad must be', 'a flag of a tensor that its dtype cannot have, or that is none; it takes no memory'),
        (r'hasRecord', 'a record of the archive that vram does not need: its version'),
        (r'^(TypeError|ValueError|KeyError|IndexError|AttributeError|AssertionError|OverflowError)',
         'what a value would do when it is made: a list as a key, a number of letters; here nothing is made'),
        (r'storage has wrong byte size', 'the legacy count before a storage, which lies apart and is not read'),
        (r'Unsupported global|Unsupported class|Unsupported operand|Can only|WeightsUnpickler error|Unsupported function',
         'torch.load refuses what would run code; here nothing runs and only the tensors are named'),
    ],
}


PEER_SECONDS = 2


def out_of_time(signum, frame):
    raise TimeoutError('out of time')


class Vram:
    def __init__(self, path):
        self.path = path

    def read(self, name):
        run = subprocess.run([self.path, 'inspect', '--json', '--tensors', name], capture_output=True, timeout=60)
        if run.returncode not in (0, 3):
            return None, 'EXIT %d: %s' % (run.returncode, run.stderr[-300:])
        if run.returncode == 3 and not run.stdout:  # otherwise a part of a split file, read as far as it is there
            return None, run.stderr.decode(errors='replace')
        said = json.loads(run.stdout)
        at = said['files'][0]['header_bytes'] if said['format'] == 'gguf' else 0
        return {t['name']: (t['dtype'], tuple(t['shape']), t['bytes'], at + t['offset']) for t in said['tensor_list']}, ''


# ---- GGUF ----

class Gguf:
    tail = '.gguf'

    def __init__(self):
        import gguf
        import gguf_corpus
        import warnings
        warnings.simplefilter('ignore')  # numpy's, of sizes that overflow
        self.reader = gguf.GGUFReader
        self.samples = [data[1:] for data in gguf_corpus.files() if data[0] & 8 == 0]

    def read(self, name):
        try:
            r = self.reader(name)
        except Exception as e:  # whatever it is, it refused
            return None, '%s: %s' % (type(e).__name__, e)
        return {t.name: (t.tensor_type.name, tuple(int(d) for d in t.shape), int(t.n_bytes), int(t.data_offset))
                for t in r.tensors}, ''

    def agree(self, ours, theirs):
        return ours == theirs

    def mutate(self, data, rng):
        b = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            at = rng.randrange(len(b))
            kind = rng.randrange(8)
            if kind == 0:
                b[at] = rng.randrange(256)
            elif kind == 1:
                b[at] ^= 1 << rng.randrange(8)
            elif kind == 2:  # a length, a count, an offset
                at = min(at, len(b) - 8)
                b[at:at + 8] = struct.pack('<Q', rng.choice((0, 1, 2, 3, 8, 31, 32, 33, 64, 65535, 65536, 1 << 31, 1 << 32,
                                                             1 << 63, (1 << 64) - 1, len(b), rng.randrange(1 << 16))))
            elif kind == 3:  # a type, a number of dimensions
                at = min(at, len(b) - 4)
                b[at:at + 4] = struct.pack('<I', rng.choice((0, 1, 2, 4, 5, 8, 9, 12, 13, 30, 39, 42, 43, rng.randrange(64))))
            elif kind == 4:
                del b[at:at + rng.choice((1, 4, 8, 32))]
            elif kind == 5:
                b[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 8, 32))))
            elif kind == 6:
                del b[at:]
            else:
                b += bytes(rng.choice((1, 31, 32, 1000)))
            if len(b) < 24:
                break
        return bytes(b)


# ---- PyTorch ----

class Torch:
    tail = '.pt'

    def __init__(self):
        import io
        import warnings
        import torch
        warnings.simplefilter('ignore')
        self.torch, self.io = torch, io
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'checkpoint'))
        from torch_oracle import NAMES
        self.names = NAMES
        tied = torch.zeros(4, 3)
        states = [
            {'a.weight': torch.zeros(4, 5), 'a.bias': torch.zeros(4, dtype=torch.half)},
            collections.OrderedDict(x=tied, y=tied, z=tied.t(), w=torch.nn.Parameter(torch.zeros(3, 2, dtype=torch.bfloat16))),
            {'u': torch.zeros(3, dtype=torch.uint16), 'f8': torch.zeros(2, 2).to(torch.float8_e4m3fn), 'e': torch.zeros(0, 3),
             's': torch.tensor(2.5), 'c': torch.zeros(2, dtype=torch.complex64)},
            {'q': torch.quantize_per_tensor(torch.zeros(2, 3), 0.1, 3, torch.qint8)},
        ]
        self.samples = []
        for i, state in enumerate(states):
            for zipped in (True, False):
                f = io.BytesIO()
                torch.save(state, f, _use_new_zipfile_serialization=zipped, pickle_protocol=2 + i % 3)
                self.samples.append(f.getvalue())

    def read(self, name):
        torch = self.torch
        try:
            state = torch.load(name, weights_only=True, map_location='cpu')
        except Exception as e:  # whatever it is, it refused
            return None, '%s: %s' % (type(e).__name__, e)
        found, seen = {}, {}
        stack = [('', state)]
        while stack:
            prefix, v = stack.pop()
            if isinstance(v, torch.Tensor):
                storage = v.untyped_storage()
                seen[storage.data_ptr() or id(v)] = storage.nbytes()
                dtype = self.names.get(v.dtype, str(v.dtype))
                found[prefix or 'tensor'] = (dtype, tuple(v.shape))
            elif isinstance(v, dict):
                stack += [('%s.%s' % (prefix, k) if prefix else str(k), x) for k, x in v.items()]
            elif isinstance(v, (list, tuple)):
                stack += [('%s.%d' % (prefix, k) if prefix else str(k), x) for k, x in enumerate(v)]
        return (found, sum(seen.values())), ''

    def agree(self, ours, theirs):
        found, total = theirs
        return {k: v[:2] for k, v in ours.items()} == found and sum(v[2] for v in ours.values()) == total

    def mutate_pickle(self, p, rng):
        b = bytearray(p)
        for _ in range(rng.choice((1, 1, 2, 3))):
            at = rng.randrange(len(b))
            kind = rng.randrange(5)
            if kind == 0:
                b[at] = rng.choice(b'(.012BCGIJKLMNQRSTUVX]abcdeghijloqrstu}\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8c\x92\x93\x94\x95')
            elif kind == 1:
                b[at] = rng.randrange(256)
            elif kind == 2:
                b[at] ^= 1 << rng.randrange(8)
            elif kind == 3:
                words = [m.start() for m in re.finditer(rb'Storage|rebuild|torch|cpu|storage', b)]
                if words:
                    b[rng.choice(words) + rng.randrange(4)] ^= 1 << rng.randrange(5)
            else:
                numbers = [i for i in range(len(b) - 1) if b[i] == 0x4b]  # BININT1
                if numbers:
                    b[rng.choice(numbers) + 1] = rng.choice((0, 1, 2, 3, 4, 5, 6, 12, 20, 255))
        return bytes(b)

    def rebuild(self, data, rng):
        """The same zip with another pickle, or with a member less, more or longer."""
        old, f = zipfile.ZipFile(self.io.BytesIO(data)), self.io.BytesIO()
        change = rng.randrange(6)
        with zipfile.ZipFile(f, 'w') as new:
            for info in old.infolist():
                body = old.read(info)
                if info.filename.endswith('data.pkl') and change < 4:
                    body = self.mutate_pickle(body, rng)
                if '/data/' in info.filename and change == 4 and rng.random() < .5:
                    if rng.random() < .5:
                        continue
                    body = body[:rng.randrange(len(body) + 1)] + bytes(rng.randrange(9))
                kind = zipfile.ZIP_DEFLATED if change == 5 and '/data' in info.filename and rng.random() < .5 else 0
                new.writestr(info.filename, body, kind)
        return f.getvalue()

    def mutate(self, data, rng):
        if data[:2] != b'PK':
            return self.mutate_pickle(data, rng)
        if rng.random() < .6:
            return self.rebuild(data, rng)
        b = bytearray(data)
        directory = b.rfind(b'PK\5\6')
        first = b.find(b'PK\1\2')
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(first, len(b)) if first < len(b) and rng.random() < .7 else rng.randrange(len(b))
            kind = rng.randrange(4)
            if kind == 0:
                b[at] = rng.randrange(256)
            elif kind == 1:
                b[at] ^= 1 << rng.randrange(8)
            elif kind == 2:  # a field of the directory's end, or of an entry
                at = min(rng.choice((directory + 4, directory + 8, directory + 12, directory + 16, first + 10, first + 20,
                                     first + 24, first + 28, first + 42)), len(b) - 4)
                b[at:at + 4] = struct.pack('<I', rng.choice((0, 1, 8, 0xffff, 0xffffffff, len(b), rng.randrange(1 << 12))))
            else:
                del b[at:at + rng.choice((1, 4, len(b)))]
            if len(b) < 64:
                break
        return bytes(b)


def kind_of(table, text):
    for pattern, why in table:
        if re.search(pattern, text):
            return why
    return None


def main():
    which, path = ARGV[:2]
    n = int(ARGV[2]) if len(ARGV) > 2 else 10000
    rng = random.Random(int(ARGV[3]) if len(ARGV) > 3 else 1)
    peer, vram = {'gguf': Gguf, 'torch': Torch}[which](), Vram(path)
    signal.signal(signal.SIGALRM, out_of_time)
    counts, kinds, findings = collections.Counter(), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n):
            name = os.path.join(folder, 'f' + peer.tail)
            sample = peer.samples[i % len(peer.samples)]
            data = sample if i < len(peer.samples) else peer.mutate(sample, rng)
            with open(name, 'wb') as f:
                f.write(data)
            ours, why = vram.read(name)
            signal.setitimer(signal.ITIMER_REAL, PEER_SECONDS)
            theirs, peer_why = peer.read(name)
            signal.setitimer(signal.ITIMER_REAL, 0)
            kind = None
            if ours is not None and theirs is not None:
                counts['both accept'] += 1
                kind = 'alike' if peer.agree(ours, theirs) else None
            elif ours is None and theirs is None:
                counts['both refuse'] += 1
                kind = None if why.startswith('EXIT') else 'alike'
            elif ours is None:
                counts['only vram refuses'] += 1
                kind = kind_of(REFUSED_BY_VRAM[which], why)
            else:
                counts['only the peer refuses'] += 1
                kind = kind_of(REFUSED_BY_PEER[which], peer_why)
            if kind is not None:
                kinds[kind] += kind != 'alike'
                continue
            findings += 1
            os.makedirs('differential-found', exist_ok=True)
            kept = 'differential-found/%s-%d%s' % (which, i, peer.tail)
            with open(kept, 'wb') as f:
                f.write(data)
            print('%s\n  vram: %s %s\n  peer: %s %s' % (kept, ours, why.strip()[:300], theirs, peer_why[:300]), flush=True)
    print('%d files, %s' % (n, ', '.join('%s: %d' % c for c in sorted(counts.items()))))
    for why, k in kinds.most_common():
        if why != 'alike':
            print('%6d  %s' % (k, why))
    print('%d findings' % findings)
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main())
