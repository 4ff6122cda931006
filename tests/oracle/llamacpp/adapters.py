#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sparse adapters (LoRA) for models of the facts, and what llama.cpp takes with them, with control vectors, and with a
second model that drafts, or layers of the model itself that do.

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
PREDICTING = ['qwen35/qwen35-nextn', 'qwen35moe/qwen35moe-nextn-experts', 'qwen3next/qwen3next-nextn-experts',
              'step35/step35-nextn-experts', 'mimo2/mimo2-nextn-experts', 'glm-dsa/glm-dsa-nextn-experts',
              'deepseek32/deepseek32-nextn-experts', 'deepseek2/deepseek2-wide-experts-least',
              'hy_v3/hy_v3-wide-experts-least', 'cohere2moe/cohere2moe-wide-experts-least',
              'nemotron_h_moe/nemotron_h_moe-wide-experts-least']
PREDICTING_RUNS = ['-c 2048 --server -np 1', '-c 4096 --server -np 3', '-c 2048 --server -np 2 -ngl 2',
                   '-c 2048 --server -np 2 --devices 2 -ts 1,1', '-c 2048 --server -np 2 -fa off']
# what of a model an adapter changes
PICKS = {'attention': ('attn_q.', 'attn_v.', 'attn_qkv.', 'attn_q_a.', 'attn_q_b.', 'attn_kv_a_mqa.'),
         'layers': ('attn_q.', 'attn_k.', 'attn_v.', 'attn_output.', 'ffn_up.', 'ffn_down.', 'ffn_gate.', 'attn_qkv.',
                    'ffn_up_exps.', 'ffn_down_exps.', 'ffn_gate_exps.', 'ssm_in.', 'ssm_out.'),
         'ends': ('output.weight', 'token_embd.', 'attn_q.', 'attn_qkv.', 'attn_kv_a_mqa.')}


def model(path):
    arch, name = path.split('/')
    keys, tensors, _ = gguf.models(os.path.join(HERE, 'facts', arch + '.tsv'))[name]
    return keys, tensors


def joined(tensors, layer):
    """The layer's matrices of queries, keys and values in one."""
    names = ['blk.%d.attn_%s.weight' % (layer, x) for x in 'qkv']
    parts = [t for t in tensors if t[0] in names]
    rows = sum(t[2][1] for t in parts)
    biases = ['blk.%d.attn_%s.bias' % (layer, x) for x in 'qkv']
    whole = ('blk.%d.attn_qkv.weight' % layer, parts[0][1], [parts[0][2][0], rows])
    return [t for t in tensors if t[0] not in names + biases] + [whole]


def predicting_nemotron(keys, tensors):
    """Layers of it are attention or experts; the one that predicts is both, without a latent."""
    keys = [k for k in keys if not k[0].endswith('moe_latent_size')]
    wide = {'ffn_down_exps.weight': [512, 768, 8], 'ffn_up_exps.weight': [768, 512, 8]}
    tensors = [(name, kind, wide.get(name.split('.', 2)[-1], dims)) for name, kind, dims in tensors if 'latent' not in name]
    more = [('blk.3.' + t[0][6:], t[1], t[2]) for t in tensors
            if t[0].startswith('blk.0.') or t[0].startswith('blk.2.') and 'attn_norm' not in t[0]]
    more += [('blk.3.post_attention_norm.weight', 'f32', [768]), ('blk.3.nextn.eh_proj.weight', 'q8_0', [1536, 768])]
    more += [('blk.3.nextn.%s.weight' % n, 'f32', [768]) for n in ('enorm', 'hnorm', 'shared_head_norm')]
    more_of = {'block_count': [4], 'feed_forward_length': [0, 0, 1792, 1792], 'attention.head_count_kv': [2, 0, 0, 2]}
    keys = [(k, kind, more_of.get(k.split('.', 1)[1], v)) for k, kind, v in keys]
    return keys + [('nemotron_h_moe.nextn_predict_layers', 'u32', [1])], tensors + more


def predicting(path):
    """The model with a layer that predicts: its own, or the last one once more."""
    keys, tensors = model(path)
    arch = path.split('/')[0]
    numbers = {k[0]: k[2] for k in keys}
    layers = numbers[arch + '.block_count'][0]
    if arch == 'nemotron_h_moe':
        return predicting_nemotron(keys, tensors)
    if arch == 'mimo2':
        return keys, joined(tensors, layers - 1)
    if arch + '.nextn_predict_layers' in numbers:
        return keys, tensors
    last, width = 'blk.%d.' % (layers - 1), numbers[arch + '.embedding_length'][0]
    more = [('blk.%d.' % layers + t[0][len(last):], t[1], t[2]) for t in tensors if t[0].startswith(last)]
    more += [('blk.%d.nextn.eh_proj.weight' % layers, 'q8_0', [2 * width, width]),
             ('blk.%d.nextn.enorm.weight' % layers, 'f32', [width]), ('blk.%d.nextn.hnorm.weight' % layers, 'f32', [width])]
    keys = [k for k in keys if '.temperature_' not in k[0]] # llama.cpp stops at queries scaled by position
    keys = [(k, kind, [layers + 1] if k == arch + '.block_count' else
             v + v[-1:] if kind.endswith('[]') and k.startswith(arch + '.') and len(v) == layers and
             not k.endswith('sliding_window_pattern') else v)
            for k, kind, v in keys]
    return keys + [(arch + '.nextn_predict_layers', 'u32', [1])], tensors + more


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
    for path in PREDICTING:
        for options in PREDICTING_RUNS:
            yield path, 'mtp', options


def files(folder, path, beside):
    """Writes what is needed; the model's file and the words for the recorder."""
    at = os.path.join(folder, path.replace('/', '-') + '.gguf')
    if beside == 'mtp':
        gguf.write(at, *predicting(path))
        return at, ['--mtp']
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
            first = buffers(told)
            for name, of in buffers(told.get('again', {'bytes': {}})).items(): # buffers grow, and never shrink
                first[name][2] = max(first[name][2], of[2])
            fields = [path, beside, options, json.dumps(first, sort_keys=True)]
            if 'second' in told:
                second = buffers(told['second'])
                for of in second.values():
                    of[0] *= beside != 'mtp' # the weights are the first context's
                fields.append(json.dumps({k: v for k, v in second.items() if any(v)}, sort_keys=True))
            out.write('\t'.join(fields) + '\n')


if __name__ == '__main__':
    if len(sys.argv) != 4 or sys.argv[1] != '--record':
        sys.exit(__doc__)
    record(*sys.argv[2:])
