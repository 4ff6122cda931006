#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that real PyTorch saves, and what `vram inspect` says of them.

    torch_oracle.py VRAM DIR        holds one against the other; DIR must be empty
    torch_oracle.py --record DIR    writes the smaller ones and facts.json there, for torch_facts.py

Run by a Python that has torch, and torchao for six more files. For each file the names, dtypes and shapes of the model's
tensors and their bytes (each storage once, whole) as PyTorch has them in memory are held against the JSON. One line for
each that differs; the exit status is 1 then.
"""
import argparse
import collections
import json
import os
import sys
import warnings

import numpy
import torch
from torch_facts import compare

NAMES = {
    torch.float64: 'F64', torch.float32: 'F32', torch.float16: 'F16', torch.bfloat16: 'BF16', torch.int64: 'I64',
    torch.int32: 'I32', torch.int16: 'I16', torch.int8: 'I8', torch.uint8: 'U8', torch.bool: 'BOOL',
    torch.uint16: 'U16', torch.uint32: 'U32', torch.uint64: 'U64', torch.complex32: 'C32', torch.complex64: 'C64',
    torch.complex128: 'C128', torch.float8_e4m3fn: 'F8_E4M3', torch.float8_e5m2: 'F8_E5M2',
    torch.float8_e4m3fnuz: 'F8_E4M3FNUZ', torch.float8_e5m2fnuz: 'F8_E5M2FNUZ', torch.float8_e8m0fnu: 'F8_E8M0',
    torch.qint8: 'QINT8', torch.quint8: 'QUINT8', torch.qint32: 'QINT32', torch.quint4x2: 'QUINT4X2',
}


def storage_bytes(tensors):
    """Bytes of the storages behind some tensors, each once."""
    return sum({t.untyped_storage().data_ptr() or id(t): t.untyped_storage().nbytes() for t in tensors}.values())


class Net(torch.nn.Module):
    """Tied weights, a buffer that is not saved in state dictionaries, a shared module."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.block = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)])
        self.again = self.block[0]
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer('steps', torch.zeros((), dtype=torch.long))
        self.config = argparse.Namespace(width=3)


class Subclass(torch.Tensor):
    pass


def trained(module):
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    sum(p.sum() for p in module.parameters()).backward()
    optimizer.step()
    return optimizer


def quantized():
    x = torch.randn(6, 4)
    scales, zeros = torch.full((6,), 0.1, dtype=torch.double), torch.zeros(6, dtype=torch.long)
    fours = torch.quantize_per_channel(torch.randn(6, 5), torch.full((6,), 0.1), torch.zeros(6), 0, torch.quint4x2)
    return collections.OrderedDict(
        q4=fours, q8=torch.quantize_per_tensor(x, 0.1, 3, torch.qint8), u8=torch.quantize_per_tensor(x, 0.1, 3, torch.quint8),
        q32=torch.quantize_per_tensor(x, 0.1, 0, torch.qint32),
        ch=torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8))


def all_dtypes():
    return collections.OrderedDict((name.lower(), torch.zeros(2, 3).to(dtype)) for dtype, name in NAMES.items()
                                   if not name.startswith(('QI', 'QU')))


def torchao_cases():
    """Weights that torchao quantised; what its tensors hold has the names of its attributes."""
    try:
        from torchao import quantization
    except ImportError:
        return
    for kind in ('Int8WeightOnly', 'Float8WeightOnly', 'IntxWeightOnly'):
        linear = torch.nn.Linear(8, 4, dtype=torch.bfloat16)
        quantization.quantize_(linear, getattr(quantization, kind + 'Config')())
        saved = linear.state_dict()
        inside = {'weight.' + k: t for k, t in vars(saved['weight']).items() if isinstance(t, torch.Tensor)}
        yield 'torchao.' + kind[:-len('WeightOnly')].lower(), saved, {**inside, 'bias': saved['bias']}


def cases():
    """(file, what is saved, the model's tensors by name, options of torch.save)"""
    torch.manual_seed(0)
    whole = torch.arange(100, dtype=torch.float32)
    tied = torch.randn(7, 3)
    plain = collections.OrderedDict([('a.weight', torch.randn(4, 5)), ('a.bias', torch.zeros(4, dtype=torch.half))])
    net, seq = Net(), torch.nn.Sequential(torch.nn.Conv2d(1, 2, 2), torch.nn.BatchNorm2d(2))
    optimizer = trained(seq)
    q = quantized()
    parts = {'q4.scales': q['q4'].q_per_channel_scales(), 'q4.zero_points': q['q4'].q_per_channel_zero_points(),
             'ch.scales': q['ch'].q_per_channel_scales(),
             'ch.zero_points': q['ch'].q_per_channel_zero_points()}
    coo = torch.eye(4).to_sparse().coalesce()
    csr = torch.eye(4).to_sparse_csr()
    state = seq.state_dict()
    views = {'all': whole, 'row': whole[10:20], 'every': whole[::3], 'wide': whole[:1].expand(50)}
    small = {'small': torch.zeros(10, 1000)[:2, :3]}
    table = [
        ('plain', plain, plain), ('tied', {'x': tied, 'y': tied, 'z': tied.t()}, {'x': tied, 'y': tied, 'z': tied.t()}),
        ('views', views, views), ('small', small, small),
        ('dtypes', all_dtypes(), all_dtypes()),
        ('quantized', q, {**q, **parts}),
        ('none', {'empty': torch.zeros(0, 3), 'scalar': torch.tensor(2.5)},
         {'empty': torch.zeros(0, 3), 'scalar': torch.tensor(2.5)}),
        ('tensor', tied, {'tensor': tied}), ('list', [tied, {'b': tied[0]}], {'0': tied, '1.b': tied[0]}),
        ('parameter', {'w': torch.nn.Parameter(tied)}, {'w': tied}),
        ('module', net, net.state_dict()), ('sequential', seq, state),
        ('training', {'model_state_dict': state, 'optimizer_state_dict': optimizer.state_dict(), 'epoch': 3}, state),
        ('lightning', {'epoch': 1, 'pytorch-lightning_version': '2.4', 'state_dict': state, 'callbacks': {},
                       'optimizer_states': [optimizer.state_dict()], 'lr_schedulers': [{'last_epoch': 1}]}, state),
        ('deepspeed', {'module': state, 'optimizer': None, 'ds_config': {'zero': 1}, 'dp_world_size': 1}, state),
        ('adam', optimizer.state_dict(),
         {'state.%d.%s' % (i, k): v for i, s in optimizer.state_dict()['state'].items() for k, v in s.items()}),
        ('nested', {'unet': {'down': [{'w': tied}]}, 'vae': plain},
         {'unet.down.0.w': tied, **{'vae.' + k: v for k, v in plain.items()}}),
        ('sparse', {'coo': coo, 'csr': csr},
         {'coo.indices': coo.indices(), 'coo.values': coo.values(), 'csr.compressed_indices': csr.crow_indices(),
          'csr.plain_indices': csr.col_indices(), 'csr.values': csr.values()}),
        ('subclass', {'s': tied.as_subclass(Subclass)}, {'s': tied}),
        ('storage', {'bytes': torch.arange(20, dtype=torch.uint8).untyped_storage()},
         {'bytes': torch.arange(20, dtype=torch.uint8)}),
        ('numpy', {'w': tied, 'array': numpy.zeros(3), 'scalar': numpy.float64(3)}, {'w': tied}),
        ('meta', {'w': tied, 'm': torch.empty(3, device='meta')}, {'w': tied}),
        ('many', {'layer.%d.weight' % i: torch.zeros(2, 2) for i in range(4000)},
         {'layer.%d.weight' % i: torch.zeros(2, 2) for i in range(4000)}),
    ]
    for name, saved, tensors in table + list(torchao_cases()):
        yield name + '.pt', saved, tensors, {}
        yield name + '.legacy.pt', saved, tensors, {'_use_new_zipfile_serialization': False}
    for protocol in (3, 4, 5):
        yield 'protocol%d.pt' % protocol, plain, plain, {'pickle_protocol': protocol}
        yield 'protocol%d.legacy.pt' % protocol, plain, plain, {'pickle_protocol': protocol,
                                                                '_use_new_zipfile_serialization': False}


def large(folder):
    """Over 4 GiB in one storage and behind it, as a hole."""
    saved = {'big': torch.empty((1 << 32) + 12, dtype=torch.uint8), 'after': torch.empty(3, 3)}
    path = os.path.join(folder, 'large.pt')
    with torch.serialization.skip_data():
        torch.save(saved, path)
    return path, saved


def facts_of(tensors):
    return {'tensors': {name: [NAMES[t.dtype], list(t.shape)] for name, t in tensors.items()},
            'bytes': storage_bytes(tensors.values())}


# Small enough to lie in the repository.
RECORDED = {'plain', 'tied', 'views', 'dtypes', 'quantized', 'none', 'tensor', 'list', 'parameter', 'module', 'training',
            'lightning', 'deepspeed', 'adam', 'nested', 'sparse', 'subclass', 'storage', 'numpy', 'meta', 'torchao'}
RECORDED_LEGACY = {'plain', 'tied', 'quantized', 'adam'}  # a module's has the source text of PyTorch's classes


def is_recorded(name):
    words = name.split('.')
    return words[0] in (RECORDED_LEGACY if 'legacy' in words else RECORDED) or name.startswith('protocol')


def sharded(folder):
    """Two files and the index that transformers writes beside them."""
    parts = [{'a': torch.randn(3, 4), 'b': torch.zeros(5, dtype=torch.bfloat16)}, {'c': torch.ones(2, 2, dtype=torch.half)}]
    names = ['pytorch_model-%05d-of-%05d.bin' % (i + 1, len(parts)) for i in range(len(parts))]
    tensors = {k: t for part in parts for k, t in part.items()}
    os.makedirs(folder)
    for name, part in zip(names, parts):
        torch.save(part, os.path.join(folder, name))
    index = {'metadata': {'total_size': storage_bytes(tensors.values())},
             'weight_map': {k: name for name, part in zip(names, parts) for k in part}}
    with open(os.path.join(folder, 'pytorch_model.bin.index.json'), 'w', encoding='utf-8') as f:
        json.dump(index, f, indent=2)
    return tensors


def record(folder):
    files = {}
    for name, saved, tensors, options in cases():
        if is_recorded(name):
            torch.save(saved, os.path.join(folder, name), **options)
            files[name] = facts_of(tensors)
    files['sharded'] = facts_of(sharded(os.path.join(folder, 'sharded')))
    with open(os.path.join(folder, 'facts.json'), 'w', encoding='utf-8') as f:
        f.write('{"torch": %s, "files": {\n' % json.dumps(torch.__version__))
        f.write(',\n'.join('%s: %s' % (json.dumps(n), json.dumps(files[n])) for n in sorted(files)) + '\n}}\n')
    print('%d files of PyTorch %s' % (len(files), torch.__version__))
    return 0


def main():
    vram, folder = sys.argv[1:]
    warnings.simplefilter('ignore')
    if vram == '--record':
        return record(folder)
    out, n = [], 0
    for name, saved, tensors, options in cases():
        path = os.path.join(folder, name)
        try:
            torch.save(saved, path, **options)
        except (RuntimeError, NotImplementedError, AttributeError) as e:
            print('%s: PyTorch does not save it: %s' % (name, str(e).split('\n')[0]))
            continue
        compare(vram, path, facts_of(tensors), out)
        n += 1
    path, saved = large(folder)
    compare(vram, path, facts_of(saved), out)
    path = os.path.join(folder, 'sharded')
    compare(vram, path, facts_of(sharded(path)), out)
    print('\n'.join(out + ['%d files of PyTorch %s, %d differences' % (n + 2, torch.__version__, len(out))]))
    return 1 if out or n < 40 else 0


if __name__ == '__main__':
    sys.exit(main())
