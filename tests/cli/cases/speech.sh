# Whisper: the encoder hears 30 s, 1,500 positions, whatever was said; the decoder starts with 4 tokens and tells up to 448. By hand:
# keys and values of 32 layers, 1,280 wide, of 1,948 positions and tokens in 16 bits: 319,160,320 B = 0.30 GiB. All that it reads
# gets logits. vLLM: blocks of 16 tokens, 28 and of speech 94, of 327,680 B in 4 layers: 0.04 GiB. A longer prompt in place of what is generated: -c.
vram fit whisper-large-v3 --gpu rtx-3060-12gb
vram fit whisper-large-v3-turbo --gpu rtx-3060-12gb -c 448 --sequences 16 --dtype bf16
vram fit whisper-large-v3-turbo --gpu 8GiB --engine all
vram inspect whisper-tiny
vram fit whisper-tiny --gpu 8GiB --logits last
