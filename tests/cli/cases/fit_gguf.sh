# A GGUF file: llama.cpp runs it, the weights are known and what a token takes in the cache. 8 layers of width 4096, 32 heads of 128, 8 of them for keys and values: 8 x 2 x 1024 x 2 B = 32 KiB a token,
# 0.125 GiB at 4,096 tokens. Each of the 8 matrices of 4096 x 131072 in Q4_K is 144 B for 256 weights: 302 MB,
# and with 16 of 4096 x 1024 it is 2.29 GiB in all.
python3 - <<'END'
import struct
def text(s): return struct.pack('<Q', len(s)) + s.encode()
keys = [('general.architecture', 'llama'), ('general.name', 'made'), ('general.file_type', 15), ('llama.block_count', 8),
        ('llama.embedding_length', 4096), ('llama.feed_forward_length', 131072), ('llama.attention.head_count', 32),
        ('llama.attention.head_count_kv', 8), ('llama.context_length', 8192)]
def value(v): return struct.pack('<I', 8) + text(v) if isinstance(v, str) else struct.pack('<II', 4, v)
size = 4096 * 131072 // 256 * 144
key = 4096 * 1024 // 256 * 144
tensors = b''.join(text('blk.%d.ffn_up.weight' % i) + struct.pack('<IQQIQ', 2, 4096, 131072, 12, i * size) for i in range(8))
tensors += b''.join(text('blk.%d.attn_%s.weight' % (i, w)) + struct.pack('<IQQIQ', 2, 4096, 1024, 12, 8 * size + (2 * i + n) * key)
                    for i in range(8) for n, w in enumerate('kv'))
head = b'GGUF' + struct.pack('<IQQ', 3, 24, len(keys)) + b''.join(text(k) + value(v) for k, v in keys) + tensors
with open('made-Q4_K_M.gguf', 'wb') as f:
    f.write(head)
    f.truncate((len(head) + 31) // 32 * 32 + 8 * size + 16 * key)
END
vram fit made-Q4_K_M.gguf --gpu rtx-3060-12gb || echo "exit $?"
vram fit made-Q4_K_M.gguf --gpu 2GiB -c 8192
COLUMNS=100 vram fit made-Q4_K_M.gguf --color always | sed 's/\x1b\[[0-9;]*m//g'
vram fit made-Q4_K_M.gguf --gpu 2GiB --json | sed -n '/"engine"/p; /^    "context"/,/}/p; /"attention"/p; /"peak/p; /"compute_bytes/p'
vram fit made-Q4_K_M.gguf --gpu 2GiB --engine transformers | tail -n 1
# Neither the embedding nor the head is there, so that no graph can be made of it: its compute buffer is not known.
# q8_0: 34 B for 32 elements instead of 64. Of 9 layers with the output on the card 5, so layers 4 to 7.
vram fit made-Q4_K_M.gguf --gpu 24GiB -ctk q8_0 -ctv q8_0 -ngl 5 -np 2
vram fit made-Q4_K_M.gguf --gpu 24GiB --gpu-memory-utilization 0.9 || echo "exit $?"
vram fit made-Q4_K_M.gguf --gpu 24GiB --engine vllm -ctk f16 || echo "exit $?"
vram fit made-Q4_K_M.gguf --gpu 24GiB --engine vllm || echo "exit $?"
