# What runs of weights that stay packed: FP8 and MXFP4 of the catalogue, GPTQ, AWQ and compressed-tensors by a configuration.
write() {
  printf '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false,
    "torch_dtype": "float16", "max_position_embeddings": 32768, "quantization_config": %s}' "$2" > "$1"
}
write gptq.json '{"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false, "sym": true}'
write awq.json '{"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": true}'
write packed.json '{"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
  "config_groups": {"group_0": {"input_activations": null, "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int",
  "strategy": "group", "group_size": 128, "symmetric": true}}}}'
vram fit gpt-oss-120b --gpu h100-sxm-80gb -c 4096
vram fit qwen3-30b-a3b-fp8 --gpu h100-sxm-80gb -c 4096
vram fit qwen3-32b-fp8 --gpu rtx-3090-24gb
vram fit gptq.json --gpu rtx-3060-12gb
vram fit gptq.json --gpu rtx-3060-12gb --device-map cuda
vram fit gptq.json --gpu rtx-3060-12gb --quantization bnb-4bit
vram fit awq.json --gpu rtx-3060-12gb --engine-version 4.57
vram fit packed.json --gpu rtx-3060-12gb
vram fit deepseek-r1 --gpu 8xh200 --device-map auto | head -8
