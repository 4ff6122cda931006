# A small Qwen2 packed as GPTQ packs: 2 layers of width 256 and 512, 4 bits, groups of 128; data a hole.
# Parameters: embeddings 1000 x 256, which the head shares; a layer 4 matrices of attention (256 x 256, 2 x 128 x 256,
# 256 x 256), 3 of 512 x 256, biases 512, norms 512; the last norm 256:
# 256,000 + 2 x (196,608 + 393,216 + 1,024) + 256 = 1,437,952. Bytes: 4 bits each of 2 x 589,824 = 589,824; scales and
# zero points 2.5 B for 128 = 23,040; g_idx 4 B x 2 x (6 x 256 + 512) = 16,384; the rest in 16 bits 516,608.
at=0
header='{'
put() { # name dtype bytes shape
  header="$header$comma\"$1\":{\"dtype\":\"$2\",\"shape\":[$4],\"data_offsets\":[$at,$((at + $3))]}"
  at=$((at + $3))
  comma=,
}
packed() { # stem out in
  put "$1.qweight" I32 $(($2 * $3 / 2)) "$(($3 / 8)),$2"
  put "$1.qzeros" I32 $(($3 / 128 * $2 / 2)) "$(($3 / 128)),$(($2 / 8))"
  put "$1.scales" F16 $(($3 / 128 * $2 * 2)) "$(($3 / 128)),$2"
  put "$1.g_idx" I32 $(($3 * 4)) "$3"
}
put model.embed_tokens.weight F16 512000 1000,256
for i in 0 1; do
  l=model.layers.$i
  packed $l.self_attn.q_proj 256 256
  put $l.self_attn.q_proj.bias F16 512 256
  for w in k v; do
    packed $l.self_attn.${w}_proj 128 256
    put $l.self_attn.${w}_proj.bias F16 256 128
  done
  packed $l.self_attn.o_proj 256 256
  packed $l.mlp.gate_proj 512 256
  packed $l.mlp.up_proj 512 256
  packed $l.mlp.down_proj 256 512
  put $l.input_layernorm.weight F16 512 256
  put $l.post_attention_layernorm.weight F16 512 256
done
put model.norm.weight F16 512 256
header="$header}"
n=${#header}
mkdir tiny
{
  printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$header"
  head -c $at /dev/zero
} > tiny/model.safetensors
cat > tiny/config.json <<'END'
{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 512,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
 "tie_word_embeddings": true, "max_position_embeddings": 4096, "torch_dtype": "float16",
 "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false}}
END
vram inspect tiny
vram fit tiny --gpu rtx-3060-12gb
