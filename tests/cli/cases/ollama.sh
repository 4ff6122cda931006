# Ollama: what it puts on the GPU, what ollama ps will show, what to write into a Modelfile; pasted commands of it. A
# GGUF file of 16 layers of width 2048: q, k, v and the output 2048 x 2048, a gated FFN of 8192, in F16, and an embedding
# and head of 32000: 16 x 134.2 MB + 2 x 131.1 MB. Keys and values of 2048 tokens x 2 x 2048 x 2 B = 16 MiB a layer.
python3 -B - "$(dirname "$0")/.." <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import solver
keys = {'general.architecture': 'llama', 'general.name': 'made', 'llama.block_count': 16, 'llama.embedding_length': 2048,
        'llama.feed_forward_length': 8192, 'llama.attention.head_count': 16, 'llama.attention.head_count_kv': 16,
        'llama.context_length': 16384, 'llama.vocab_size': 32000, 'llama.attention.layer_norm_rms_epsilon': 1e-5}
tensors = solver.around(2048, 32000, 'f16')
for i in range(16):
    tensors += solver.attention(i, 2048, 16, 16, 128, 'f16')
    tensors += [('blk.%d.ffn_%s.weight' % (i, n), [a, b], 'f16')
                for n, a, b in (('gate', 2048, 8192), ('up', 2048, 8192), ('down', 8192, 2048))]
solver.write('made-F16.gguf', keys, tensors)
PY
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
