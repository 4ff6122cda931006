#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what llama.cpp would allocate for small models of every architecture, as facts (gguf.py tells their form).

    record.py RECORDER OUT_FOLDER VERSION [ARCHITECTURE ...]
    record.py RECORDER OUT_FOLDER VERSION --again     the models and runs of facts/, of another version: what differs

RECORDER is the program that run.sh builds. Each model is recorded from a file that gguf.py wrote of the very keys and
tensors that its facts have. Two shapes of each architecture: "wide" has only the tensors that llama.cpp insists on
(with the fused ones that real files have), "narrow" has all that it knows; the architectures named in FIRST have both
of both.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import architectures
import gguf

# These have every set of options, and both lists of tensors in both sizes.
FIRST = ('llama qwen2 qwen3 qwen3moe gemma2 gemma3 phi3 deepseek2 gpt-oss mamba falcon-h1 nemotron_h qwen3next').split()

# What every model is asked.
ALWAYS = [
    '-c 4096 -ngl 99',
    '-c 4096 -fa on -ngl 99 --server',
    '-c 4096 -fa off -ngl 99 -ub 128',
    '-c 8192 -fa on -ngl 99 --devices 2',
    '-c 4096 -fa on -ngl 2 -np 3',
    '-c 8192 -fa on -ctk q8_0 -ctv q8_0 -ngl 99 --server',
]
# Each model has some of these.
SOMETIMES = [
    '-c 4096 -fa on -ngl 0',
    '-c 4096 -fa off -ngl 2 --devices 2',
    '-c 6000 -fa on -ngl 99 -np 3 -ub 77 -b 200',
    '-c 4096 -fa on -ngl 99 -nkvo',
    '-c 4096 -fa off -ctk q8_0 -ngl 99 -np 2 -kvu --server',
    '-c 8192 -fa on -ngl 99 --devices 3 -ts 3,1,2 --server',
    '-c 8192 -fa off -ngl 99 --devices 2 -ub 1024 -b 1024',
    '-c 2048 -fa on -ngl 1 --no-op-offload',
    '-c 4096 -fa on -ngl 99 -ot blk\\.1\\.ffn=CPU --server',
    '-c 4096 -fa on --devices 0 --no-repack',
    '-c 4096 -fa on -ctk q4_0 -ctv q4_0 -ngl 99 -np 2',
    '-c 4096 -fa on -ctk q8_0 -ngl 99',
    '-c 4096 -fa on -ctk bf16 -ctv bf16 -ngl 2 -ub 32',
    '-c 8192 -fa on -ngl 99 --swa-full -np 4 -kvu --n-outputs-max 9',
    '-c 4096 -fa on -ngl 99 --devices 2 --free 8192,16384 -ub 1',
    '-c 4096 -fa on -ngl 99 --devices 2 -sm none -mg 1 -b 64',
    '-c 0 -fa on -ngl 99',
    '-c 4096 -fa off -ngl 99 --devices 0 --no-repack -np 2',
]
OF_EXPERTS = ['-c 4096 -fa on -ngl 99 --cpu-moe', '-c 4096 -fa on -ngl 99 --n-cpu-moe 2 --server -np 1',
              '-c 4096 -fa on -ngl 99 --cpu-moe --no-op-offload']
OF_ENCODERS = ['-c 2048 -ngl 99 --embeddings --pooling mean -b 2048 -ub 2048', '-c 512 -fa on -ngl 99 --embeddings --pooling cls',
               '-c 1024 -fa off -ngl 2 --embeddings --pooling none -np 2']
RUNS_EACH = 6


class Refused(Exception):
    """llama.cpp said no, or fell over."""


def one_line(text):
    return str(text).strip().replace('\n', ' ')[-200:]


def ask(recorder, file, options):
    done = subprocess.run([recorder, '-m', file] + options.split(), capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Refused(done.stderr[-300:]) from None


# ---- models --------------------------------------------------------------------------------------------------------

def kind_of(name):
    return re.sub(r'^((?:\w+\.)?blk)\.\d+\.', r'\1.%d.', name)


def with_fused(tensors):
    """Query, key and value weights of a layer as one"""
    out = []
    parts = {}
    for name, kind, dims in tensors:
        match = re.match(r'(blk\.\d+)\.attn_([qkv])\.(weight|bias)$', name)
        if not match:
            out.append((name, kind, dims))
            continue
        group = parts.setdefault((match.group(1), match.group(3)), [])
        group.append((match.group(2), kind, dims))
        if len(group) == 3:
            whole = sum(d[-1] for _, _, d in group)
            first = next(g for g in group if g[0] == 'v')
            out.append(('%s.attn_qkv.%s' % (match.group(1), match.group(3)), first[1], first[2][:-1] + [whole]))
    return out


def order(tensor):
    name = tensor[0]
    match = re.search(r'blk\.(\d+)\.', name)
    return (match is not None, int(match.group(1)) if match else 0, name.startswith('dec.'), name != 'token_embd.weight')


def loads(recorder, file, keys, tensors):
    gguf.write(file, keys, tensors)
    try:
        return ask(recorder, file, '-c 512 -ngl 99')['error'] is None
    except Refused:
        return False


def least(recorder, file, keys, tensors):
    """Without each kind of tensor that can go"""
    for kind in sorted({kind_of(t[0]) for t in tensors}):
        fewer = [t for t in tensors if kind_of(t[0]) != kind]
        if fewer and loads(recorder, file, keys, fewer):
            tensors = fewer
    return tensors


def is_nvfp4_scale(name):
    """llama.cpp knows one for each matrix; files have them beside weights of that type only"""
    return name.endswith('.input_scale') or (name.endswith('.scale') and 'ffn_gate_inp' not in name)


def base_model(recorder, file, architecture, size, with_experts, changes=None):
    named = architectures.keys_of(architecture, size, with_experts, changes)
    keys = [(k,) + architectures.typed(v) for k, v in named.items()]
    gguf.write(file, keys, [])
    found = ask(recorder, file, '--shapes %d' % named['general.file_type'])
    if 'error' in found:
        raise Refused(found['text'][-300:])
    read = set(found['keys']) | {'general.quantization_version', 'general.file_type'}
    tensors = [(t[0], architectures.TYPES.get(t[0].split('.')[-2], t[1]), t[2:]) for t in found['tensors']]
    if not (architecture == 'llama' and size == 'narrow'):
        tensors = [t for t in tensors if not is_nvfp4_scale(t[0])]
    return [k for k in keys if k[0] in read], sorted(tensors, key=order)


def with_predictor(keys, tensors):
    """The last block as one that predicts a further token: for those that llama.cpp does not make of metadata alone"""
    architecture = keys[0][2][0]
    blocks = next(k[2][0] for k in keys if k[0] == architecture + '.block_count')
    embd, vocab = next(t[2] for t in tensors if t[0] == 'token_embd.weight')
    stem = 'blk.%d.nextn.' % (blocks - 1)
    more = [('eh_proj', 'q8_0', [2 * embd, embd]), ('enorm', 'f32', [embd]), ('hnorm', 'f32', [embd]),
            ('embed_tokens', 'q8_0', [embd, vocab]), ('shared_head_head', 'q8_0', [embd, vocab]),
            ('shared_head_norm', 'f32', [embd])]
    return (keys + [(architecture + '.nextn_predict_layers', 'u32', [1])],
            tensors + [(stem + name + '.weight', kind, dims) for name, kind, dims in more])


def further_model(recorder, file, architecture, word, size, with_experts, changes):
    if word != 'nextn':
        keys, tensors = base_model(recorder, file, architecture, size, with_experts, changes)
        return keys, least(recorder, file, keys, tensors)
    try:
        return base_model(recorder, file, architecture, size, with_experts, changes)
    except Refused:
        return with_predictor(*base_model(recorder, file, architecture, size, with_experts))


def made_models(recorder, file, architecture):
    """(name, keys, tensors) of the models of an architecture"""
    for _, word, size, with_experts, changes in [f for f in architectures.FURTHER if f[0] == architecture]:
        name = '%s-%s%s' % (architecture, word, '-experts' if with_experts else '')
        try:
            keys, tensors = further_model(recorder, file, architecture, word, size, with_experts, changes)
            yield name, keys, tensors
        except Refused as refused:
            print('%s: %s' % (name, one_line(refused)), file=sys.stderr)
    for with_experts in architectures.expert_choices(architecture):
        for size in architectures.SIZES:
            keys, tensors = base_model(recorder, file, architecture, size, with_experts)
            name = '%s-%s%s' % (architecture, size, '-experts' if with_experts else '')
            if size == 'narrow' or architecture in FIRST:
                yield name + '-full', keys, tensors
            if size == 'wide' or architecture in FIRST:
                fused = with_fused(tensors) if architecture in architectures.FUSED_QKV else tensors
                if not loads(recorder, file, keys, fused):
                    fused = tensors
                yield name + '-least', keys, least(recorder, file, keys, fused)


def options_of(name, architecture):
    if architecture in architectures.ENCODERS:
        return OF_ENCODERS + ALWAYS
    some = SOMETIMES + (OF_EXPERTS if 'experts' in name else [])
    if architecture in FIRST:
        return ALWAYS + some
    # a different handful for each model, the same at each recording
    start = sum(name.encode()) % len(some)
    chosen = [some[(start + 5 * i) % len(some)] for i in range(RUNS_EACH)]
    return ALWAYS + list(dict.fromkeys(chosen + (OF_EXPERTS[:2] if 'experts' in name else [])))


# ---- facts ---------------------------------------------------------------------------------------------------------

def layer_list(numbers):
    parts = []
    for n in sorted(numbers):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ','.join(str(a) if a == b else '%d-%d' % (a, b) for a, b in parts)


def tensor_lines(tensors):
    groups = {}
    for name, kind, dims in tensors:
        match = re.search(r'blk\.(\d+)\.', name)
        group = groups.setdefault((kind_of(name), kind, tuple(dims)), [])
        if match:
            group.append(int(match.group(1)))
    for (name, kind, dims), layers in groups.items():
        yield '\t'.join(['tensor', name, kind, layer_list(layers) if layers else '-'] + [str(d) for d in dims])


def key_line(key, kind, values):
    return '\t'.join(['key', key, kind] + ['%.9g' % v if isinstance(v, float) else str(v) for v in values])


def run_lines(options, found):
    yield 'run\t' + options
    if found['error'] is not None:
        yield 'error\t%s\t%s' % (found['error'], one_line(found['text'].replace('\t', ' ')))
        return
    for name, b in found['bytes'].items():
        yield 'bytes\t%s\t%d\t%d\t%d' % (name, b['model'], b['context'], b['compute'])
    for name, size in found['output'].items():
        yield 'output\t%s\t%d' % (name, size)
    e = found['effective']
    yield 'sizes\t%d\t%d\t%d\t%d\t%d' % tuple(e[k] for k in ('n_ctx', 'n_ctx_seq', 'n_batch', 'n_ubatch', 'n_seq_max'))
    for kind, g in found['graphs'].items():
        yield 'graph\t%s\t%d\t%d' % (kind, g['nodes'], g['splits'])


def facts_of(recorder, file, name, architecture, keys, tensors):
    yield 'model\t' + name
    yield from (key_line(*k) for k in keys)
    yield from tensor_lines(tensors)
    gguf.write(file, keys, tensors)
    for options in options_of(name, architecture):
        try:
            yield from run_lines(options, ask(recorder, file, options))
        except Refused as refused:
            print('%s %s: %s' % (name, options, one_line(refused)), file=sys.stderr)


def record(recorder, folder, version, architecture):
    file = os.path.join(tempfile.mkdtemp(), 'model.gguf')
    lines = ['# llama.cpp of llama-cpp-python %s, virtual CUDA 8.9' % version]
    try:
        for name, keys, tensors in made_models(recorder, file, architecture):
            lines.extend(facts_of(recorder, file, name, architecture, keys, tensors))
    except Refused as refused:
        print('%s: %s' % (architecture, one_line(refused)), file=sys.stderr)
    if len(lines) > 1:
        (folder / ('%s.tsv' % architecture)).write_text('\n'.join(lines) + '\n', encoding='utf-8')


# ---- another version on the same models ----------------------------------------------------------------------------

def same(now, before):
    """A refusal counts, not its words"""
    refused = [any(line.startswith('error') for line in lines) for lines in (now, before)]
    return all(refused) if any(refused) else now == before


def again(recorder, folder, version, base, architecture):
    """The runs of base/ARCHITECTURE.tsv asked of another version: those that come out otherwise"""
    file, lines, last = os.path.join(tempfile.mkdtemp(), 'model.gguf'), [], None
    for name, (keys, tensors, told) in gguf.models(base / (architecture + '.tsv')).items():
        gguf.write(file, keys, tensors)
        starts = [i for i, fields in enumerate(told) if fields[0] == 'run'] + [len(told)]
        for first, end in zip(starts, starts[1:]):
            options, before = told[first][1], ['\t'.join(fields) for fields in told[first:end]]
            try:
                now = list(run_lines(options, ask(recorder, file, options)))
            except Refused:
                now = ['run\t' + options, 'error\tstops']
            if not same(now[1:], before[1:]):
                lines += ([] if name == last else ['model\t' + name]) + now
                last = name
    if lines:
        head = '# llama.cpp of llama-cpp-python %s, virtual CUDA 8.9: runs that differ from those in %s/' % (version, base.name)
        (folder / (architecture + '.tsv')).write_text('\n'.join([head] + lines) + '\n', encoding='utf-8')


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    recorder, folder, version = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if sys.argv[4:] == ['--again']:
        base = pathlib.Path(__file__).parent / 'facts'
        for path in sorted(base.glob('*.tsv')):
            again(recorder, folder, version, base, path.stem)
        return
    for architecture in sys.argv[4:] or architectures.ALL:
        record(recorder, folder, version, architecture)


if __name__ == '__main__':
    main()
