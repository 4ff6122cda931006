#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Facts as files, and models of facts as sparse GGUF files.

    gguf.py FACTS.tsv [MODEL [OUT.gguf]]

Without a model the models of the facts are listed; OUT.gguf has the metadata and tensors of one, and a hole where the
data would be.

A file of facts, one line a thing, its fields between tabs:

    # comment
    model   NAME
    key     KEY  TYPE  VALUE...             TYPE str u32 i32 f32 bool, or one of these and [] for an array
    tensor  NAME  TYPE  LAYERS  NE0  NE1..  one line for a kind of tensor: %d in the name stands for each layer of
                                            LAYERS (0-2,4 or - for a tensor that is no layer's)
    run     OPTIONS
    bytes   BUFFER  MODEL  CONTEXT  COMPUTE
    output  BUFFER  BYTES
    sizes   N_CTX  N_CTX_SEQ  N_BATCH  N_UBATCH  N_SEQ_MAX
    graph   pp|tg  NODES  SPLITS
    error   WHAT  TEXT                      instead of the four above
"""
import struct
import sys

# name: (id in the file, elements of a block, its bytes)
TYPES = {
    'f32': (0, 1, 4), 'f16': (1, 1, 2), 'q4_0': (2, 32, 18), 'q4_1': (3, 32, 20), 'q5_0': (6, 32, 22),
    'q5_1': (7, 32, 24), 'q8_0': (8, 32, 34), 'q2_K': (10, 256, 84), 'q3_K': (11, 256, 110),
    'q4_K': (12, 256, 144), 'q5_K': (13, 256, 176), 'q6_K': (14, 256, 210), 'iq2_xxs': (16, 256, 66),
    'iq2_xs': (17, 256, 74), 'iq3_xxs': (18, 256, 98), 'iq1_s': (19, 256, 50), 'iq4_nl': (20, 32, 18),
    'iq3_s': (21, 256, 110), 'iq2_s': (22, 256, 82), 'iq4_xs': (23, 256, 136), 'i8': (24, 1, 1), 'i16': (25, 1, 2),
    'i32': (26, 1, 4), 'iq1_m': (29, 256, 56), 'bf16': (30, 1, 2), 'tq1_0': (34, 256, 54), 'tq2_0': (35, 256, 66),
    'mxfp4': (39, 32, 17),
}
# name: (id in the file, format)
VALUES = {'u32': (4, '<I'), 'i32': (5, '<i'), 'f32': (6, '<f'), 'bool': (7, '<B')}
STRING, ARRAY = 8, 9


def text(s):
    raw = s.encode()
    return struct.pack('<Q', len(raw)) + raw


def value_bytes(kind, value):
    return text(value) if kind == 'str' else struct.pack(VALUES[kind][1], value)


def value_id(kind):
    return STRING if kind == 'str' else VALUES[kind][0]


def key_bytes(key, kind, values):
    """A key and its value; kind as in the facts."""
    if kind.endswith('[]'):
        kind = kind[:-2]
        head = struct.pack('<IIQ', ARRAY, value_id(kind), len(values))
        return text(key) + head + b''.join(value_bytes(kind, v) for v in values)
    return text(key) + struct.pack('<I', value_id(kind)) + value_bytes(kind, values[0])


def tensor_size(kind, dims):
    _, block, size = TYPES[kind]
    if dims[0] % block:
        raise ValueError('%d elements are no blocks of %s' % (dims[0], kind))
    count = dims[0] // block * size
    for d in dims[1:]:
        count *= d
    return count


def laid_out(keys, tensors):
    """The head of the file, and how long its data is."""
    parts = [struct.pack('<IIQQ', 0x46554747, 3, len(tensors), len(keys))] + [key_bytes(*k) for k in keys]
    offset = 0
    for name, kind, dims in tensors:
        parts.append(text(name) + struct.pack('<I', len(dims)) + struct.pack('<%dQ' % len(dims), *dims) +
                     struct.pack('<IQ', TYPES[kind][0], offset))
        offset += (tensor_size(kind, dims) + 31) // 32 * 32
    header = b''.join(parts)
    return header + b'\0' * (-len(header) % 32), offset


def head(keys, tensors):
    return laid_out(keys, tensors)[0]


def write(path, keys, tensors):
    """keys: (key, kind, values); tensors: (name, type, dims)."""
    header, size = laid_out(keys, tensors)
    with open(path, 'wb') as out:
        out.write(header)
        out.truncate(len(header) + size)


# ---- facts ----

def parse_value(kind, word):
    if kind == 'str':
        return word
    return float(word) if kind == 'f32' else int(word)


def layers_of(word):
    """0-2,4 as numbers"""
    for part in word.split(','):
        first, _, last = part.partition('-')
        yield from range(int(first), int(last or first) + 1)


def expand(fields):
    name, kind, layers = fields[:3]
    dims = [int(f) for f in fields[3:]]
    if layers == '-':
        return [(name, kind, dims)]
    return [(name.replace('%d', str(i)), kind, dims) for i in layers_of(layers)]


def models(path):
    """name: (keys, tensors, lines of its runs) of a file of facts"""
    found = {}
    current = None
    with open(path, encoding='utf-8') as lines:
        for line in lines:
            fields = line.rstrip('\n').split('\t')
            if fields[0] == 'model':
                current = found[fields[1]] = ([], [], [])
            elif fields[0] == 'key':
                kind = fields[2]
                current[0].append((fields[1], kind, [parse_value(kind.replace('[]', ''), w) for w in fields[3:]]))
            elif fields[0] == 'tensor':
                current[1].extend(expand(fields[1:]))
            elif not line.startswith('#'):
                current[2].append(fields)
    return found


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    found = models(sys.argv[1])
    if len(sys.argv) == 2:
        print('\n'.join(found))
    else:
        keys, tensors, _ = found[sys.argv[2]]
        write(sys.argv[3], keys, tensors)


if __name__ == '__main__':
    main()
