vram example
