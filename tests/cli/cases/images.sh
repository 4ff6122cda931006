# Pictures in the prompt: what they take of it, and what is refused.
vram fit qwen2.5-vl-7b-instruct --gpu rtx-4090
vram fit qwen2.5-vl-7b-instruct --gpu rtx-4090 --images 2 --image-size 1024x768
vram fit gemma-3-4b-it --gpu rtx-4090 --images 3 --context 8K
vram fit qwen3-vl-8b-instruct --gpu rtx-4090 --images 4
vram fit qwen3-vl-8b-instruct --gpu rtx-4090 --images 8 --image-size 4096x4096
vram fit qwen3-vl-8b-instruct --gpu rtx-4090 --images 1 --image-size 10x5000
vram fit qwen3-32b --gpu rtx-4090 --images 1
vram fit qwen3-vl-8b-instruct --gpu rtx-4090 --images 1 --image-size 10
exit 0
