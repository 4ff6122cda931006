# Ollama: what it puts on the GPU, what ollama ps will show, what to write into a Modelfile; pasted commands of it. A
# GGUF file of 16 layers of width 2048: q, k, v and the output 2048 x 2048, a gated FFN of 8192, in F16, and an embedding
# and head of 32000: 16 x 134.2 MB + 2 x 131.1 MB. Keys and values of 2048 tokens x 2 x 2048 x 2 B = 16 MiB a layer.
python3 - <<'END'
import struct
def text(s): return struct.pack('<Q', len(s)) + s.encode()
keys = [('general.architecture', 'llama'), ('general.name', 'made'), ('llama.block_count', 16),
        ('llama.embedding_length', 2048), ('llama.feed_forward_length', 8192), ('llama.attention.head_count', 16),
        ('llama.attention.head_count_kv', 16), ('llama.context_length', 16384), ('llama.vocab_size', 32000)]
real = [('llama.attention.layer_norm_rms_epsilon', 1e-5)]
def value(v): return struct.pack('<I', 8) + text(v) if isinstance(v, str) else struct.pack('<II', 4, v)
shapes = [('token_embd.weight', 1, 2048, 32000), ('output.weight', 1, 2048, 32000), ('output_norm.weight', 0, 2048, 1)]
for i in range(16):
    shapes += [('blk.%d.%s.weight' % (i, n), t, a, b) for n, t, a, b in (
        ('attn_norm', 0, 2048, 1), ('attn_q', 1, 2048, 2048), ('attn_k', 1, 2048, 2048), ('attn_v', 1, 2048, 2048),
        ('attn_output', 1, 2048, 2048), ('ffn_norm', 0, 2048, 1), ('ffn_gate', 1, 2048, 8192), ('ffn_up', 1, 2048, 8192),
        ('ffn_down', 1, 8192, 2048))]
at, tensors = 0, b''
for name, t, a, b in shapes:
    tensors += text(name) + (struct.pack('<IQIQ', 1, a, t, at) if b == 1 else struct.pack('<IQQIQ', 2, a, b, t, at))
    at += a * b * (2 if t else 4)
head = b'GGUF' + struct.pack('<IQQ', 3, len(shapes), len(keys) + 1)
head += b''.join(text(k) + value(v) for k, v in keys) + b''.join(text(k) + struct.pack('<If', 6, v) for k, v in real)
head += tensors
with open('made-F16.gguf', 'wb') as f:
    f.write(head)
    f.truncate((len(head) + 31) // 32 * 32 + at)
END
exec 2>&1
vram fit made-F16.gguf --engine ollama --gpu 8GiB -c 2048
vram fit made-F16.gguf --engine ollama --gpu 24GiB
vram fit made-F16.gguf --engine ollama --gpu 3GiB -c 2048
# Before 0.30 by its own estimate.
for release in 0.13.5 0.9.6 0.6; do
    vram fit made-F16.gguf --engine ollama --gpu 3GiB -c 2048 --engine-version $release | grep -e ollama -e weights -e cache
done
vram fit made-F16.gguf --engine ollama --gpu 2x3GiB -c 2048
vram fit made-F16.gguf --engine ollama --gpu 8GiB --num-gpu 5 --kv-cache-type q8_0
vram fit made-F16.gguf --gpu 8GiB -- OLLAMA_CONTEXT_LENGTH=2048 OLLAMA_NUM_PARALLEL=2 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve
vram fit made-F16.gguf --engine ollama --engine-version 0.2.0 || echo "exit $?"
vram fit made-F16.gguf --engine ollama --engine-version 12 || echo "exit $?"
vram fit made-F16.gguf --engine llama.cpp --sched-spread || echo "exit $?"
vram fit --offline -- ollama run nobody/nothing:here "why is the sky blue?" --verbose || echo "exit $?"
vram fit --offline -- ollama run --format=json --bogus x || echo "exit $?"
