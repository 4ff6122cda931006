# A configuration without weights, in a folder and under another name, and a model that is built in.
mkdir model
cat > model/config.json <<'EOF'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
 "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
 "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}
EOF
cp model/config.json mine
vram inspect model
vram fit mine --gpu 24GiB
vram fit Qwen3-32B --gpu h100-sxm-80gb --context 16K
vram inspect gemma-3-27b-it
vram inspect qwen3-32b-fp8
vram models qwen2.5 32b -v
vram fit qwen3-33b
vram inspect model --file Q4
