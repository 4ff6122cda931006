# A pipeline of diffusers: each component by itself, one of them in half precision only, one missing.
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
weights sdxl/unet/diffusion_pytorch_model.safetensors F32 2567463684 4
weights sdxl/unet/diffusion_pytorch_model.fp16.safetensors F16 2567463684 2
weights sdxl/text_encoder_2/model.fp16.safetensors F16 694659840 2
weights sdxl/vae/diffusion_pytorch_model.safetensors F32 83653863 4
weights sdxl/sd_xl_base_1.0.safetensors F16 3000000000 2
cat >sdxl/model_index.json <<END
{"_class_name": "StableDiffusionXLPipeline", "scheduler": ["diffusers", "EulerDiscreteScheduler"],
 "text_encoder": ["transformers", "CLIPTextModel"], "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
 "tokenizer": ["transformers", "CLIPTokenizer"], "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}
END
vram inspect sdxl
COLUMNS=120 vram inspect sdxl --file fp16 --color always | sed 's/\x1b\[[0-9;]*m//g'
