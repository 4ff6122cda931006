# What is not on this disk when no server may be asked, and what to do about it.
vram inspect ./nothing
vram inspect nothing
vram fit Qwen/Qwen2.5-7B-Instruct --offline
vram fit ollama:qwen2.5:14b --offline
vram fit https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/main --offline
vram fit https://example.org/model.gguf --offline
vram fit modelscope:Qwen/Qwen2.5-7B --offline
vram fit example:nothing
vram inspect qwen2.5:7b
vram fit https://huggingface.co/datasets/Qwen/names
