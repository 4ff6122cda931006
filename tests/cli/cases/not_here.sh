# What is not on this disk, and what to do about it. Nobody is asked: the port is closed.
export HF_ENDPOINT=http://127.0.0.1:1
vram inspect ./nothing
vram inspect qwen2.5:7b
vram inspect Qwen2.5-7B-Instruct
vram fit Qwen/Qwen2.5-7B-Instruct
vram fit --offline Qwen/Qwen2.5-7B-Instruct
vram fit --offline ollama:qwen2.5:14b
vram fit https://huggingface.co/Qwen/Qwen2.5-7B-Instruct
vram fit https://huggingface.co/datasets/Qwen/names
vram fit example:nothing
