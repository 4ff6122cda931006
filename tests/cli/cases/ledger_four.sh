# Llama-2-7B: 7e9 parameters, 512 KiB of KV a token, 4,096 tokens; 17.6, 47.6, 35.9, 104.3 GiB.
cat >four.json <<'JSON'
{"scenarios": [
  {"name": "serve x1 FP16", "params": 7e9, "context": 4096, "kv_bytes_per_token": 524288, "overhead": 0.2},
  {"name": "serve x16 FP16", "params": 7e9, "context": 4096, "sequences": 16, "kv_bytes_per_token": 524288, "overhead": 0.2},
  {"name": "serve x16 INT4", "params": 7e9, "weight_bytes": 0.5, "context": 4096, "sequences": 16,
   "kv_bytes_per_token": 524288, "overhead": 0.2},
  {"name": "train mixed Adam", "params": 7e9, "mode": "train"}]}
JSON
vram ledger --scenario four.json --gpu-memory-gib 24,80
