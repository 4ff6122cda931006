vram inspect example:qwen2.5-7b
