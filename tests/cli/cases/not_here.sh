# What is not on this disk, and what to do about it.
vram inspect ./nothing
vram fit Qwen/Qwen2.5-7B-Instruct
vram fit ollama:qwen2.5:14b
vram fit https://huggingface.co/Qwen/Qwen2.5-7B-Instruct
vram fit example:nothing
