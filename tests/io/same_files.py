# SPDX-License-Identifier: MIT
"""One small model, written as each format in which models are given away: a library for test_same.py.

The model is shaped as Qwen2 with tied embeddings. Sources: safetensors' README; torch/serialization.py of PyTorch 2.15 and
Lib/pickle.py of Python (protocol 2) for .bin; ggml docs/gguf.md, gguf-py/gguf/tensor_mapping.py (names) and
convert_hf_to_gguf.py of llama.cpp (what has one dimension stays F32, however the rest is stored)."""
import io
import json
import math
import struct
import zipfile

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, VOCAB = 2, 64, 160, 4, 2, 512
KV = HIDDEN // HEADS * KV_HEADS
SIZE = {'F32': 4, 'F16': 2, 'BF16': 2}
STORAGE = {'F32': 'FloatStorage', 'F16': 'HalfStorage', 'BF16': 'BFloat16Storage'}
GGML = {'F32': 0, 'F16': 1, 'BF16': 30}
FILE_TYPE = {'F32': 0, 'F16': 1, 'BF16': 32}
WORD = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}

IN_LAYER = [  # PyTorch's name, GGUF's, shape
    ('input_layernorm.weight', 'attn_norm.weight', [HIDDEN]),
    ('self_attn.q_proj.weight', 'attn_q.weight', [HIDDEN, HIDDEN]),
    ('self_attn.q_proj.bias', 'attn_q.bias', [HIDDEN]),
    ('self_attn.k_proj.weight', 'attn_k.weight', [KV, HIDDEN]),
    ('self_attn.k_proj.bias', 'attn_k.bias', [KV]),
    ('self_attn.v_proj.weight', 'attn_v.weight', [KV, HIDDEN]),
    ('self_attn.v_proj.bias', 'attn_v.bias', [KV]),
    ('self_attn.o_proj.weight', 'attn_output.weight', [HIDDEN, HIDDEN]),
    ('post_attention_layernorm.weight', 'ffn_norm.weight', [HIDDEN]),
    ('mlp.gate_proj.weight', 'ffn_gate.weight', [FFN, HIDDEN]),
    ('mlp.up_proj.weight', 'ffn_up.weight', [FFN, HIDDEN]),
    ('mlp.down_proj.weight', 'ffn_down.weight', [HIDDEN, FFN]),
]


def tensors():
    """(PyTorch's name, GGUF's, shape) of each, in the order of the modules."""
    rows = [('model.embed_tokens.weight', 'token_embd.weight', [VOCAB, HIDDEN])]
    for i in range(LAYERS):
        rows += [('model.layers.%d.%s' % (i, a), 'blk.%d.%s' % (i, b), shape) for a, b, shape in IN_LAYER]
    return rows + [('model.norm.weight', 'output_norm.weight', [HIDDEN])]


def parameters(of=lambda shape: True):
    return sum(math.prod(shape) for _, _, shape in tensors() if of(shape))


def config(dtype):
    return json.dumps({
        'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2', 'num_hidden_layers': LAYERS, 'hidden_size': HIDDEN,
        'intermediate_size': FFN, 'num_attention_heads': HEADS, 'num_key_value_heads': KV_HEADS, 'vocab_size': VOCAB,
        'max_position_embeddings': 4096, 'tie_word_embeddings': True, 'torch_dtype': WORD[dtype]}).encode()


def halves():
    rows = tensors()
    return [rows[:len(rows) // 2], rows[len(rows) // 2:]]


# ---- safetensors ----

def safetensors_head(dtype, rows):
    """The header, and how many bytes of data follow it."""
    header, at = {}, 0
    for name, _, shape in rows:
        n = math.prod(shape) * SIZE[dtype]
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text, at


def safetensors(dtype, rows=None):
    head, data = safetensors_head(dtype, rows or tensors())
    return head + bytes(data)


# ---- PyTorch ----

def _word(s):
    return b'X' + struct.pack('<I', len(s)) + s.encode()


def _int(n):
    return b'J' + struct.pack('<i', n)


def _row(numbers):
    return b'(' + b''.join(map(_int, numbers)) + b't'


def _tensor(dtype, key, shape, legacy):
    n = math.prod(shape)
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    storage = b'(' + _word('storage') + b'ctorch\n' + STORAGE[dtype].encode() + b'\n' + _word(key) + _word('cpu') + _int(n)
    storage += b'NtQ' if legacy else b'tQ'
    return (b'ctorch._utils\n_rebuild_tensor_v2\n(' + storage + _int(0) + _row(shape) + _row(strides)
            + b'\x89ccollections\nOrderedDict\n)RtR')


def _state(dtype, rows, legacy):
    out = b'ccollections\nOrderedDict\n)R('
    for i, (name, _, shape) in enumerate(rows):
        out += _word(name) + _tensor(dtype, str(i), shape, legacy)
    return out + b'u'


def torch_zip(dtype, rows=None):
    rows = rows or tensors()
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_STORED) as z:
        z.writestr('archive/data.pkl', b'\x80\x02' + _state(dtype, rows, False) + b'.')
        for i, (_, _, shape) in enumerate(rows):
            z.writestr('archive/data/%d' % i, bytes(math.prod(shape) * SIZE[dtype]))
        z.writestr('archive/version', b'3\n')
    return file.getvalue()


def write_sparse_zip(f, dtype, rows):
    """As torch_zip into a file with holes for the storages, in zip64 form (APPNOTE.TXT 6.3.10, 4.3.14 and 4.5.3)."""
    directory, wide, n = b'', 0xffffffff, 0

    def member(name, size, data=b''):
        nonlocal directory, n
        at, name, n = f.tell(), name.encode(), n + 1
        f.write(b'PK\3\4' + struct.pack('<5H3I2H', 45, 0, 0, 0, 0, 0, wide, wide, len(name), 20) + name)
        f.write(struct.pack('<2H2Q', 1, 16, size, size) + data)
        f.seek(size - len(data), 1)
        directory += b'PK\1\2' + struct.pack('<6H3I5H2I', 45, 45, 0, 0, 0, 0, 0, wide, wide, len(name), 28, 0, 0, 0, 0, wide)
        directory += name + struct.pack('<2H3Q', 1, 24, size, size, at)

    pickle = b'\x80\x02' + _state(dtype, rows, False) + b'.'
    member('archive/data.pkl', len(pickle), pickle)
    for i, (_, _, shape) in enumerate(rows):
        member('archive/data/%d' % i, math.prod(shape) * SIZE[dtype])
    member('archive/version', 2, b'3\n')
    at = f.tell()
    f.write(directory)
    f.write(b'PK\6\6' + struct.pack('<Q2H2I4Q', 44, 45, 45, 0, 0, n, n, len(directory), at))
    f.write(b'PK\6\7' + struct.pack('<IQI', 0, at + len(directory), 1))
    f.write(b'PK\5\6' + struct.pack('<4H2IH', 0, 0, n, n, wide, wide, 0))


def legacy_head(dtype, rows):
    """All before the storages."""
    magic = (0x1950a86a20f9469cfc6c).to_bytes(10, 'little')
    out = b'\x80\x02\x8a\x0a' + magic + b'.' + b'\x80\x02M\xe9\x03.'
    sizes = b''.join(_word(k) + b'K' + bytes([n]) for k, n in (('short', 2), ('int', 4), ('long', 4)))
    out += b'\x80\x02}(' + _word('protocol_version') + b'M\xe9\x03' + _word('little_endian') + b'\x88'
    out += _word('type_sizes') + b'}(' + sizes + b'uu.'
    out += b'\x80\x02' + _state(dtype, rows, True) + b'.'
    return out + b'\x80\x02](' + b''.join(_word(str(i)) for i in range(len(rows))) + b'e.'


def torch_legacy(dtype, rows=None):
    rows = rows or tensors()
    out = legacy_head(dtype, rows)
    for _, _, shape in rows:
        n = math.prod(shape)
        out += struct.pack('<q', n) + bytes(n * SIZE[dtype])
    return out


def write_sparse_legacy(f, dtype, rows):
    f.write(legacy_head(dtype, rows))
    for _, _, shape in rows:
        n = math.prod(shape)
        f.write(struct.pack('<q', n))
        f.seek(n * SIZE[dtype], 1)
    f.truncate()


# ---- GGUF ----

def _text(s):
    return struct.pack('<Q', len(s)) + s.encode()


def stored(dtype, shape, norms_too):
    return dtype if norms_too or len(shape) > 1 else 'F32'


def gguf_head(dtype, norms_too=False, rows=None, tokens=0):
    """All before the data, and how many bytes of data follow; tokens: of a vocabulary in the metadata."""
    rows = rows or tensors()
    keys = [('general.architecture', 8, _text('qwen2')), ('general.file_type', 4, struct.pack('<I', FILE_TYPE[dtype])),
            ('qwen2.attention.layer_norm_rms_epsilon', 6, struct.pack('<f', 1e-6))]
    for key, n in (('block_count', LAYERS), ('context_length', 4096), ('embedding_length', HIDDEN),
                   ('feed_forward_length', FFN), ('attention.head_count', HEADS),
                   ('attention.head_count_kv', KV_HEADS), ('vocab_size', VOCAB)):
        keys.append(('qwen2.' + key, 4, struct.pack('<I', n)))
    if tokens:
        keys.append(('tokenizer.ggml.model', 8, _text('llama')))
        listed = b''.join(_text('token %d' % i) for i in range(tokens))
        keys.append(('tokenizer.ggml.tokens', 9, struct.pack('<IQ', 8, tokens) + listed))
        for key, kind in (('scores', 6), ('token_type', 5)):
            keys.append(('tokenizer.ggml.' + key, 9, struct.pack('<IQ', kind, tokens) + bytes(4 * tokens)))
    out = b'GGUF' + struct.pack('<IQQ', 3, len(rows), len(keys))
    for key, kind, value in keys:
        out += _text(key) + struct.pack('<I', kind) + value
    at = 0
    for _, name, shape in rows:
        kind = stored(dtype, shape, norms_too)
        out += _text(name) + struct.pack('<I', len(shape)) + b''.join(struct.pack('<Q', n) for n in reversed(shape))
        out += struct.pack('<IQ', GGML[kind], at)
        at += -(-math.prod(shape) * SIZE[kind] // 32) * 32
    return out + bytes(-len(out) % 32), at


def gguf(dtype, norms_too=False):
    """norms_too: what has one dimension is of that type too, which llama.cpp's converter never does."""
    head, data = gguf_head(dtype, norms_too)
    return head + bytes(data)


# ---- directories: {name: bytes} ----

def _directory(dtype, make, stem, tail, sharded):
    files = {'config.json': config(dtype), 'tokenizer.json': b'{}'}
    if not sharded:
        files[stem + tail] = make(dtype)
        return files
    weight_map = {}
    for i, rows in enumerate(halves()):
        name = '%s-%05d-of-00002%s' % (stem, i + 1, tail)
        files[name] = make(dtype, rows)
        weight_map.update((row[0], name) for row in rows)
    total = parameters() * SIZE[dtype]
    files[stem + tail + '.index.json'] = json.dumps({'metadata': {'total_size': total}, 'weight_map': weight_map}).encode()
    return files


def safetensors_directory(dtype, sharded=False):
    return _directory(dtype, safetensors, 'model', '.safetensors', sharded)


def bin_directory(dtype, sharded=False, make=torch_zip):
    return _directory(dtype, make, 'pytorch_model', '.bin', sharded)


def pipeline(dtype):
    """Of diffusers, with the model as the only part that has weights."""
    index = {'_class_name': 'SomePipeline', 'text_encoder': ['transformers', 'Qwen2ForCausalLM'],
             'tokenizer': ['transformers', 'Qwen2Tokenizer']}
    files = {'text_encoder/' + name: data for name, data in safetensors_directory(dtype).items()}
    return {**files, 'model_index.json': json.dumps(index).encode()}
