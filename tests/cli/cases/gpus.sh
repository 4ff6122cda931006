vram gpus 3060 12gb
vram gpus no-such-card
