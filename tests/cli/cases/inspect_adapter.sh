# An adapter is no model: what it is, and of which.
# A safetensors file of one tensor: NAME DTYPE ELEMENTS BYTES-OF-AN-ELEMENT; its data is a hole.
weights() {
    mkdir -p "$(dirname "$1")"
    header="{\"w.weight\":{\"dtype\":\"$2\",\"shape\":[$3],\"data_offsets\":[0,$(($3 * $4))]}}"
    printf "\\$(printf %o ${#header})\0\0\0\0\0\0\0%s" "$header" >"$1"
    truncate -s $((8 + ${#header} + $3 * $4)) "$1"
}
hole() {
    mkdir -p "$(dirname "$1")"
    truncate -s "$2" "$1"
}
weights lora/adapter_model.safetensors F32 5046272 4
hole lora/training_args.bin 5368
cat >lora/adapter_config.json <<END
{"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"]}
END
vram inspect lora
vram fit lora --gpu 24GiB
