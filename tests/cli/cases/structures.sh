# What is said of models that are not one stack of like layers. BERT: no cache, no logits, no head. T5: its encoder takes
# most, before the cache is there; 12 layers keep the encoder's 4,096 tokens and the first of the decoder's own. Gemma 4:
# two kinds of layers keep two widths. Kimi-Linear: short vectors in 7 layers, states in 20. Mixtral over two cards: merging
# the experts while it loads takes more than the pass. Without weights there is no room to tell of.
# Nemotron-H has another name in checkpoints than in its class: where its layers lie is found all the same, each once.
# By hand: BERT (30522 + 512 + 2) x 384 + 12 x 1,774,464 + norm and pooler = 33,360,000; Gemma 4 (25 x 4,096 + 5 x 2,048) x 2 B
# x 4,096 = 0.86 GiB; Kimi-Linear 7 x 576 x 2 B x 4,096 + 20 x (49,152 x 2 B + 524,288 x 4 B) = 0.07 GiB.
printf '{"model_type":"bert","architectures":["BertModel"],"hidden_size":384,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":1536,"vocab_size":30522,"torch_dtype":"float32"}' > bert.json
printf '{"model_type":"t5","architectures":["T5ForConditionalGeneration"],"d_model":768,"d_kv":64,"d_ff":2048,"num_layers":12,"num_heads":12,"vocab_size":32128,"feed_forward_proj":"gated-gelu","tie_word_embeddings":false,"torch_dtype":"bfloat16"}' > t5.json
vram inspect bert.json
vram fit bert.json --gpu 8GiB
vram fit t5.json --gpu 8GiB
vram fit gemma-4-26b-a4b --gpu 80GiB
vram fit kimi-linear-48b-a3b-instruct --gpu 141GiB | grep KV
vram fit mixtral-8x7b-v0.1 --gpu 2x48GiB --device-map auto
vram fit nemotron-h-56b-base-8k --gpu 4x80GiB --device-map auto | grep '^GPU'
vram fit deepseek-v4-pro
