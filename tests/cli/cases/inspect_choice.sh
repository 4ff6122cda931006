# Quantisations of one model in one place: which of them is meant is asked, with their sizes.
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
for size in Q8_0:8098525888 Q4_K_M:4683073536 Q2_K:3015938624; do
    hole qwen/Qwen2.5-7B-Instruct-${size%:*}.gguf ${size#*:}
done
hole qwen/F16/Qwen2.5-7B-Instruct-F16-00001-of-00002.gguf 9000000000
hole qwen/F16/Qwen2.5-7B-Instruct-F16-00002-of-00002.gguf 6237853184
hole qwen/mmproj-F16.gguf 1300000000
vram inspect qwen
vram inspect qwen --file 'Qwen*'
vram inspect qwen --file Q5
