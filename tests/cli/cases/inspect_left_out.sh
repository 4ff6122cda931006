# A repository with the same weights in six formats: one counts, the others are named.
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
weights bert/model.safetensors F32 109482240 4
for name in pytorch_model.bin tf_model.h5 flax_model.msgpack onnx/model.onnx onnx/model_O1.onnx openvino/openvino_model.bin \
    optimizer.pt model.fp16.safetensors; do
    hole bert/$name 437929000
done
vram inspect bert
COLUMNS=80 vram inspect bert --color always | sed 's/\x1b\[[0-9;]*m//g'
vram inspect bert -v | tail -n 9
