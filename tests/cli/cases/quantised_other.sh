# One matrix of 512 x 1024 weights in NVFP4, whose config.json says that it is GPTQ of 8 bits: the tensors are right.
# 524,288 parameters; 262,144 B packed, 32,768 B of scales for 16, and 8 B.
mkdir odd
header='{"a.weight":{"dtype":"U8","shape":[512,512],"data_offsets":[0,262144]},"a.weight_scale":{"dtype":"F8_E4M3","shape":[512,64],"data_offsets":[262144,294912]},"a.weight_scale_2":{"dtype":"F32","shape":[],"data_offsets":[294912,294916]},"a.input_scale":{"dtype":"F32","shape":[],"data_offsets":[294916,294920]}}'
n=${#header}
{
  printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$header"
  head -c 294920 /dev/zero
} > odd/model.safetensors
cat > odd/config.json <<'END'
{"model_type": "made_up", "quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 16}}
END
vram inspect odd
vram inspect odd --json | sed -n '/"parameters"/p; /"quantization"/,/}/p'
