#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sparse projector files (mmproj) for llama.cpp: every kind that is played here, in shapes that people use and in odd
ones, and what llama.cpp takes for them.

    projectors.py OUT                          writes the files
    projectors.py --record RECORDER FACTS      asks projector_recorder: NAME, OPTIONS, bytes of weights, of the compute
                                               buffer, and of what the CPU computes beside it
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf  # noqa: E402

RUNS = ['', '-fa off', '-fa on', '--no-mmproj-offload', '--no-mmproj-offload -fa off']


def keys_of(proj, d, heads, ff, layers, image, patch, out, more=()):
    k = [('general.architecture','str',['clip']), ('clip.has_vision_encoder','bool',[1]), ('clip.projector_type','str',[proj]),
         ('clip.vision.embedding_length','u32',[d]), ('clip.vision.attention.head_count','u32',[heads]),
         ('clip.vision.feed_forward_length','u32',[ff]), ('clip.vision.block_count','u32',[layers]),
         ('clip.vision.projection_dim','u32',[out]), ('clip.vision.attention.layer_norm_epsilon','f32',[1e-6]),
         ('clip.vision.image_size','u32',[image]), ('clip.vision.patch_size','u32',[patch]),
         ('clip.vision.image_mean','f32[]',[0.5]*3), ('clip.vision.image_std','f32[]',[0.5]*3), ('clip.use_gelu','bool',[1])]
    return k + list(more)

def u32(k, v): return ('clip.vision.' + k, 'u32', [v])

class F:
    def __init__(self, w): self.w, self.t = w, []
    def mat(self, name, *ne):
        w = self.w
        if w not in ('f16','bf16','f32') and ne[0] % 32: w = 'f16'
        self.t.append((name + '.weight', w, list(ne)))
    def f32(self, name, *ne): self.t.append((name, 'f32', list(ne)))
    def lin(self, name, a, b, bias=True):
        self.mat(name, a, b)
        if bias: self.f32(name + '.bias', b)
    def norm(self, name, d, bias=True):
        self.f32(name + '.weight', d)
        if bias: self.f32(name + '.bias', d)

def vit(f, d, ff, layers, bias=True, nbias=True, gate=False, fused=False, qknorm=0, ls=False, swapped=False, kv=None):
    kv = kv or d
    for i in range(layers):
        b = 'v.blk.%d.' % i
        f.norm(b + 'ln1', d, nbias); f.norm(b + 'ln2', d, nbias)
        if fused: f.lin(b + 'attn_qkv', d, 3 * d, bias)
        else:
            f.lin(b + 'attn_q', d, d, bias); f.lin(b + 'attn_k', d, kv, bias); f.lin(b + 'attn_v', d, kv, bias)
        f.lin(b + 'attn_out', d, d, bias)
        if qknorm: f.f32(b + 'attn_q_norm.weight', qknorm); f.f32(b + 'attn_k_norm.weight', qknorm)
        if ls: f.f32(b + 'ls1.weight', d); f.f32(b + 'ls2.weight', d)
        up, down = ('ffn_down', 'ffn_up') if swapped else ('ffn_up', 'ffn_down')
        f.lin(b + up, d, ff, bias)
        if gate: f.lin(b + 'ffn_gate', d, ff, bias)
        f.lin(b + down, ff, d, bias)

def gemma3(w, d, heads, ff, layers, image, patch, out, merge=4):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, n)
    vit(f, d, ff, layers, swapped=True); f.norm('v.post_ln', d)
    f.t.append(('mm.input_projection.weight', 'f16' if w != 'f32' else w, [out, d])); f.f32('mm.soft_emb_norm.weight', d)
    more = [] if merge == 4 else [u32('projector.scale_factor', merge)]
    return keys_of('gemma3', d, heads, ff, layers, image, patch, out, more), f.t

def idefics3(w, d, heads, ff, layers, image, patch, out, scale):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, n)
    vit(f, d, ff, layers); f.norm('v.post_ln', d); f.mat('mm.model.fc', d * scale * scale, out)
    return keys_of('idefics3', d, heads, ff, layers, image, patch, out, [u32('projector.scale_factor', scale), u32('preproc_image_size', 2048)]), f.t

def lfm2(w, d, heads, ff, layers, image, patch, out, scale=2):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, n)
    vit(f, d, ff, layers); f.norm('v.post_ln', d); f.norm('mm.input_norm', d * scale * scale)
    f.lin('mm.1', d * scale * scale, 2560); f.lin('mm.2', 2560, out)
    return keys_of('lfm2', d, heads, ff, layers, image, patch, out, [u32('projector.scale_factor', scale)]), f.t

def phi4(w, d, heads, ff, layers, image, patch, out):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, n)
    vit(f, d, ff, layers); f.norm('v.post_ln', d)
    f.lin('mm.0', d, out); f.lin('mm.2', out, out)
    return keys_of('phi4', d, heads, ff, layers, image, patch, out, [u32('image_min_pixels', 65536), u32('image_max_pixels', 2000000)]), f.t

def janus(w, d, heads, ff, layers, image, patch, out):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, n)
    vit(f, d, ff, layers); f.norm('v.post_ln', d); f.lin('mm.0', d, out); f.lin('mm.1', out, out)
    return keys_of('janus_pro', d, heads, ff, layers, image, patch, out), f.t

def llava(w, d, heads, ff, layers, image, patch, out, yi=False, cls=True, one=False):
    f = F(w); n = (image // patch) ** 2
    if cls: f.f32('v.class_embd', d)
    f.t.append(('v.patch_embd.weight', 'f16', [patch, patch, 3, d])); f.f32('v.position_embd.weight', d, n + cls)
    f.norm('v.pre_ln', d); f.norm('v.post_ln', d); vit(f, d, ff, layers, swapped=True)
    f.lin('mm.0', d, out)
    if yi: f.norm('mm.1', out); f.lin('mm.3', out, out); f.norm('mm.4', out)
    elif not one: f.lin('mm.2', out, out)
    f.f32('v.image_newline', out); f.f32('v.unused', 1000)
    return keys_of('mlp', d, heads, ff, layers, image, patch, out), f.t

def internvl(w, d, heads, ff, layers, image, patch, out, scale=2, big=False):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.class_embd', d); f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, n + 1)
    vit(f, d, ff, layers, bias=True, nbias=not big, ls=True, qknorm=d if big else 0)
    f.norm('mm.model.mlp.0', d * 4); f.lin('mm.model.mlp.1', d * 4, out); f.lin('mm.model.mlp.3', out, out)
    return keys_of('internvl', d, heads, ff, layers, image, patch, out, [u32('projector.scale_factor', scale)]), f.t

def llama4(w, d, heads, ff, layers, image, patch, out, scale=2):
    f = F(w); n = (image // patch) ** 2
    f.f32('v.class_embd', d); f.mat('v.patch_embd', patch * patch * 3, d); f.f32('v.position_embd.weight', d, n + 1)
    f.norm('v.pre_ln', d); f.norm('v.post_ln', d); vit(f, d, ff, layers)
    f.mat('mm.model.mlp.1', d * scale * scale, 4096); f.mat('mm.model.mlp.2', 4096, 4096); f.mat('mm.model.fc', 4096, out)
    return keys_of('llama4', d, heads, ff, layers, image, patch, out, [u32('projector.scale_factor', scale)]), f.t

def pixtral(w, d, heads, ff, layers, image, patch, out, merge=0, kind='pixtral', bias=True):
    f = F(w)
    f.f32('v.patch_embd.weight', patch, patch, 3, d); f.f32('v.pre_ln.weight', d); vit(f, d, ff, layers, bias=False, nbias=False, gate=True)
    f.lin('mm.1', d, out, bias); f.lin('mm.2', out, out, bias)
    if kind == 'pixtral': f.f32('v.token_embd.img_break', out)
    if merge: f.f32('mm.input_norm.weight', d); f.mat('mm.patch_merger', d * merge * merge, d)
    more = [('clip.use_silu', 'bool', [1])] + ([u32('spatial_merge_size', merge)] if merge else [])
    k = [x for x in keys_of(kind, d, heads, ff, layers, image, patch, out, more) if x[0] != 'clip.use_gelu']
    return k, f.t

def qwen2vl(w, d, heads, ff, layers, patch, out):
    f = F(w)
    for n in ('v.patch_embd.weight', 'v.patch_embd.weight.1'): f.f32(n, patch, patch, 3, d)
    vit(f, d, ff, layers); f.norm('v.post_ln', d); f.lin('mm.0', 4 * d, 4 * d); f.lin('mm.2', 4 * d, out)
    k = [x for x in keys_of('qwen2vl_merger', d, heads, ff, layers, 560, patch, out) if x[0] != 'clip.use_gelu']
    return k, f.t

def qwen25vl(w, d, heads, ff, layers, patch, out, pattern=8):
    f = F(w)
    for n in ('v.patch_embd.weight', 'v.patch_embd.weight.1'): f.f32(n, patch, patch, 3, d)
    vit(f, d, ff, layers, nbias=False, gate=True); f.f32('v.post_ln.weight', d); f.lin('mm.0', 4 * d, 4 * d); f.lin('mm.2', 4 * d, out)
    k = [x for x in keys_of('qwen2.5vl_merger', d, heads, ff, layers, 560, patch, out, [('clip.use_silu', 'bool', [1]), u32('n_wa_pattern', pattern)]) if x[0] != 'clip.use_gelu']
    return k, f.t

def qwen3vl(w, d, heads, ff, layers, patch, out, deep, side=48):
    f = F(w)
    for n in ('v.patch_embd.weight', 'v.patch_embd.weight.1'): f.f32(n, patch, patch, 3, d)
    f.f32('v.patch_embd.bias', d); f.f32('v.position_embd.weight', d, side * side)
    vit(f, d, ff, layers, fused=True); f.norm('v.post_ln', d); f.lin('mm.0', 4 * d, 4 * d); f.lin('mm.2', 4 * d, out)
    for i in deep:
        b = 'v.deepstack.%d.' % i
        f.norm(b + 'norm', 4 * d); f.lin(b + 'fc1', 4 * d, 4 * d); f.lin(b + 'fc2', 4 * d, out)
    return keys_of('qwen3vl_merger', d, heads, ff, layers, side * 16, patch, out), f.t

ALL = {
 'gemma3-4b': gemma3('f16', 1152, 16, 4304, 27, 896, 14, 2560),
 'gemma3-4b-q8': gemma3('q8_0', 1152, 16, 4304, 27, 896, 14, 2560),
 'gemma3-27b-bf16': gemma3('bf16', 1152, 16, 4304, 27, 896, 14, 5376),
 'gemma3-tiny': gemma3('f16', 384, 5 if 0 else 6, 900, 3, 224, 14, 640, 2),
 'smolvlm-256m': idefics3('f16', 768, 12, 3072, 12, 512, 16, 576, 4),
 'smolvlm2-2.2b': idefics3('q8_0', 1152, 16, 4304, 27, 384, 14, 2048, 3),
 'idefics3-odd': idefics3('f32', 320, 5, 777, 4, 230, 10, 333, 3),
 'lfm2-vl-1.6b': lfm2('f16', 1152, 16, 4304, 26, 256, 16, 2048),
 'lfm2-vl-450m-q8': lfm2('q8_0', 768, 12, 3072, 12, 256, 16, 1024),
 'phi4-mm': phi4('f16', 1152, 16, 4304, 26, 448, 14, 3072),
 'janus-pro-7b': janus('f16', 1024, 16, 4096, 24, 384, 16, 4096),
 'llava-1.5-7b': llava('f16', 1024, 16, 4096, 24, 336, 14, 4096),
 'llava-yi': llava('f16', 1024, 16, 4096, 24, 448, 14, 7168, yi=True),
 'llava-one': llava('q4_0', 640, 10, 2000, 5, 196, 14, 2048, cls=False),
 'internvl3-8b': internvl('f16', 1024, 16, 4096, 24, 448, 14, 3584),
 'internvl-6b': internvl('f16', 3200, 25, 12800, 45, 448, 14, 8192, big=True),
 'internvl-odd': internvl('q8_0', 416, 13, 1000, 4, 252, 14, 1000),
 'llama4-scout': llama4('f16', 1408, 16, 5632, 34, 336, 14, 5120),
 'llama4-odd': llama4('bf16', 512, 4, 1500, 3, 224, 14, 900),
 'pixtral-12b': pixtral('f16', 1024, 16, 4096, 24, 1024, 16, 5120),
 'mistral-small-3.1': pixtral('f16', 1024, 16, 4096, 24, 1540, 14, 5120, 2, bias=False),
 'lightonocr': pixtral('f16', 1024, 16, 4096, 24, 1540, 14, 1024, 2, 'lightonocr', bias=False),
 'pixtral-odd': pixtral('q8_0', 320, 5, 608, 3, 1024, 16, 672, 2),
 'qwen2-vl-7b': qwen2vl('f16', 1280, 16, 5120, 32, 14, 3584),
 'qwen2-vl-odd': qwen2vl('q8_0', 320, 5, 1000, 3, 14, 640),
 'qwen2.5-vl-7b': qwen25vl('f16', 1280, 16, 3420, 32, 14, 3584),
 'qwen2.5-vl-odd': qwen25vl('bf16', 256, 4, 700, 5, 14, 512, 2),
 'qwen3-vl-8b': qwen3vl('f16', 1152, 16, 4304, 27, 16, 4096, (8, 16, 24)),
 'qwen3-vl-2b-q8': qwen3vl('q8_0', 1024, 16, 4096, 24, 16, 2048, (5, 11, 17)),
 'qwen3-vl-odd': qwen3vl('f16', 192, 3, 500, 4, 16, 320, (0, 2), side=20),
}



def write_all(out):
    os.makedirs(out, exist_ok=True)
    for name, (keys, tensors) in ALL.items():
        gguf.write(os.path.join(out, name + '.gguf'), keys, tensors)


def figures(buffers):
    """Buffers in the order they were asked for: the weights first; a compute buffer may grow."""
    home = buffers[0][0]
    most = {True: 0, False: 0}
    for name, size in buffers[1:]:
        most[name == home] = max(most[name == home], size)
    return buffers[0][1], most[True], most[False]


def record(recorder, facts):
    with tempfile.TemporaryDirectory() as folder, open(facts, 'w', encoding='utf-8') as out:
        write_all(folder)
        out.write('# llama.cpp b10470, virtual CUDA 8.9; projectors.py --record\n')
        for name in ALL:
            for options in RUNS:
                words = [recorder, '-m', os.path.join(folder, name + '.gguf')] + options.split()
                told = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
                out.write('\t'.join([name, options or '-', *map(str, figures(told['buffers']))]) + '\n')


def main():
    if len(sys.argv) == 2:
        write_all(sys.argv[1])
    elif len(sys.argv) == 4 and sys.argv[1] == '--record':
        record(*sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
