#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sparse adapters (LoRA) for models of the facts, and what llama.cpp takes with them, with control vectors, and with a
second model that drafts.

    adapters.py --record RECORDER FACTS     lines of: MODEL, what is beside it, OPTIONS, a list of buffers in JSON:
                                            {buffer: [model, context, compute, adapters]}, and with a draft model its own
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gguf  # noqa: E402

MODELS = ['llama/llama-wide-least', 'qwen3/qwen3-wide-least', 'qwen3moe/qwen3moe-wide-experts-least',
          'gemma3/gemma3-wide-least', 'deepseek2/deepseek2-wide-experts-least', 'phi3/phi3-wide-least',
          'falcon-h1/falcon-h1-wide-least']
RUNS = ['-c 2048', '-c 2048 -ngl 2', '-c 4096 --server -np 2', '-c 2048 --devices 2 -ts 1,1', '-c 2048 -fa off', '-c 2048 -ngl 1 --no-op-offload']
# what of a model an adapter changes
PICKS = {'attention': ('attn_q.', 'attn_v.', 'attn_qkv.', 'attn_q_a.', 'attn_q_b.', 'attn_kv_a_mqa.'),
         'layers': ('attn_q.', 'attn_k.', 'attn_v.', 'attn_output.', 'ffn_up.', 'ffn_down.', 'ffn_gate.', 'attn_qkv.',
                    'ffn_up_exps.', 'ffn_down_exps.', 'ffn_gate_exps.', 'ssm_in.', 'ssm_out.'),
         'ends': ('output.weight', 'token_embd.', 'attn_q.', 'attn_qkv.', 'attn_kv_a_mqa.')}


def model(path):
    arch, name = path.split('/')
    keys, tensors, _ = gguf.models(os.path.join(HERE, 'facts', arch + '.tsv'))[name]
    return keys, tensors


def pair(name, dims, rank, kind):
    if name == 'token_embd.weight':
        return [(name + '.lora_a', kind, [rank, dims[1]]), (name + '.lora_b', kind, [rank, dims[0]])]
    return [(name + '.lora_a', kind, [dims[0], rank] + dims[2:]), (name + '.lora_b', kind, [rank] + dims[1:])]


def adapter(path, pick, rank, kind):
    keys, tensors = model(path)
    arch = [k for k in keys if k[0] == 'general.architecture'][0]
    tied = not any(t[0] == 'output.weight' for t in tensors)
    out = []
    for name, _, dims in tensors:
        if len(dims) < 2 or not any(name.startswith(p) or '.' + p in name for p in PICKS[pick]):
            continue
        if tied and name == 'token_embd.weight' or pick == 'ends' and 'attn_output' in name:
            continue # llama.cpp stops with an error at the first
        out += pair(name, dims, rank, kind)
    more = [('general.type', 'str', ['adapter']), ('adapter.type', 'str', ['lora']), ('adapter.lora.alpha', 'f32', [16.0])]
    return [arch] + more, out


def cases():
    """(model, what is beside it, options); of an adapter pick:rank:type"""
    for path in MODELS:
        for options in RUNS:
            for beside in ('attention:8:f32', 'layers:24:f16', 'ends:16:f32', 'control', 'draft'):
                if beside != 'control' or not path.startswith(('deepseek2', 'falcon-h1')): # not counted there
                    yield path, beside, options


def files(folder, path, beside):
    """Writes what is needed; the model's file and the words for the recorder."""
    at = os.path.join(folder, path.replace('/', '-') + '.gguf')
    gguf.write(at, *model(path))
    if beside == 'control':
        return at, ['--control']
    other = os.path.join(folder, 'beside.gguf')
    if beside == 'draft':
        gguf.write(other, *model(MODELS[0]))
        return at, ['--draft-model', other]
    pick, rank, kind = beside.split(':')
    gguf.write(other, *adapter(path, pick, int(rank), kind))
    return at, ['--lora', other]


def buffers(told):
    out = {}
    for name, of in told['bytes'].items():
        out[name] = [of['model'], of['context'], of['compute'], 0]
    for name, size in told.get('adapters', {}).items():
        out.setdefault(name, [0, 0, 0, 0])[3] += size
    return out


def record(recorder, facts):
    with tempfile.TemporaryDirectory() as folder, open(facts, 'w', encoding='utf-8') as out:
        out.write('# llama.cpp b10470, virtual CUDA 8.9; adapters.py --record\n')
        for path, beside, options in cases():
            at, words = files(folder, path, beside)
            ran = subprocess.run([recorder, '-m', at, '--no-repack'] + options.split() + words, capture_output=True, text=True)
            told = json.loads(ran.stdout)
            if told['error']:
                sys.exit('%s %s %s: %s' % (path, beside, options, told))
            fields = [path, beside, options, json.dumps(buffers(told), sort_keys=True)]
            if 'second' in told:
                fields.append(json.dumps(buffers(told['second']), sort_keys=True))
            out.write('\t'.join(fields) + '\n')


if __name__ == '__main__':
    if len(sys.argv) != 4 or sys.argv[1] != '--record':
        sys.exit(__doc__)
    record(*sys.argv[2:])
