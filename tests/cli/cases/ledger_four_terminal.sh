# The diagram: one letter a category, the cards' edges marked.
cat >four.json <<'JSON'
{"scenarios": [
  {"name": "serve x1 FP16", "params": 7e9, "context": 4096, "kv_bytes_per_token": 524288, "overhead": 0.2},
  {"name": "serve x16 FP16", "params": 7e9, "context": 4096, "sequences": 16, "kv_bytes_per_token": 524288, "overhead": 0.2},
  {"name": "serve x16 INT4", "params": 7e9, "weight_bytes": 0.5, "context": 4096, "sequences": 16,
   "kv_bytes_per_token": 524288, "overhead": 0.2},
  {"name": "train mixed Adam", "params": 7e9, "mode": "train"}]}
JSON
COLUMNS=80 vram ledger --scenario four.json --gpu-memory-gib 24,80 --color always | sed 's/\x1b\[[0-9;]*m//g'
