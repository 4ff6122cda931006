# One model in every engine. gemma-3-27b of 131,072 tokens: 10 full layers of 8,192 B a token are 10 GiB, 52 sliding ones
# keep 1,024 tokens at least (10.41 in all), 1,536 cells in llama.cpp (10.61), every token in transformers until the next
# one and in SGLang, in vLLM blocks for the tokens in flight.
vram fit gemma-3-27b-it -c 131072 --gpu h100-sxm-80gb --engine all || echo "exit $?"
COLUMNS=80 vram fit gemma-3-27b-it -c 131072 --gpu h100-sxm-80gb --engine all --color always | sed 's/\x1b\[[0-9;]*m//g'
vram fit gemma-3-27b-it -c 131072 --gpu h100-sxm-80gb --engine all --json |
    sed -n '/"refused"/p; /"kv_bytes_per_token"/p; /"least_kv/p; /^  "verdict"/p; /"claim/p'
# Latent attention: 576 elements in each of 61 layers are 70,272 B; before transformers 5.15 the heads' keys and values.
vram fit deepseek-v3 -c 32K --engine all || echo "exit $?"
vram fit deepseek-v3 -c 1 --engine transformers --engine-version 5.12 | sed -n '/KV cache/p'
# Hybrids: 12 of 48 layers keep 2,048 B a token, 6 GiB in all; 16 of 64 keep 4,096 B, 16 GiB and 149.62 MiB of states.
vram fit qwen3-next-80b-a3b-instruct -c 262144 --engine all | sed -n '/ KV cache: /p; /^a token/p'
vram fit qwen3.5-27b -c 262144 --engine all | sed -n '/ KV cache: /p; /^a token/p'
# Nobody understands it: a verdict only where something is known.
mkdir odd && echo '{"model_type": "never_heard_of", "hidden_size": 64}' > odd/config.json
vram fit odd/config.json --engine all || echo "exit $?"
# An option is for the engines that have it; one that none takes is wrong usage.
vram fit qwen3-8b -c 16K --gpu 24GiB --engine all --kv-cache-dtype fp8 -ctk q8_0 -ctv q8_0 || echo "exit $?"
vram fit qwen3-8b --engine all --engine-version 0.27 || echo "exit $?"
vram fit qwen3-8b --gpu 24GiB --engine vllm --gpu-memory-utilization 0.7 || echo "exit $?"
vram fit qwen3-8b --gpu 24GiB --mem-fraction-static 0.7 || echo "exit $?"
