# How loads die. A checkpoint of 8 billion parameters in fp32, in four files of holes: 29.9 GiB of weights. Transformers 4 loads
# fp32 unless it is told otherwise; told to take bf16 with a device map for one card, it reads fp32 tensors onto the card and
# converts them there, so that each is there twice for a moment (6 instead of 4 bytes of the embeddings' two). 5 converts before.
python3 - <<'END'
import json, struct, os
h, f, layers, vocab = 4096, 14336, 32, 128256
names = [('model.embed_tokens.weight', [vocab, h])]
for i in range(layers):
    p = 'model.layers.%d.' % i
    names += [(p + 'self_attn.q_proj.weight', [h, h]), (p + 'self_attn.k_proj.weight', [1024, h]), (p + 'self_attn.v_proj.weight', [1024, h]),
              (p + 'self_attn.o_proj.weight', [h, h]), (p + 'mlp.gate_proj.weight', [f, h]), (p + 'mlp.up_proj.weight', [f, h]),
              (p + 'mlp.down_proj.weight', [h, f]), (p + 'input_layernorm.weight', [h]), (p + 'post_attention_layernorm.weight', [h])]
names += [('model.norm.weight', [h]), ('lm_head.weight', [vocab, h])]
os.mkdir('m')
open('m/config.json', 'w').write(json.dumps({'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'hidden_size': h, 'intermediate_size': f,
    'num_hidden_layers': layers, 'num_attention_heads': 32, 'num_key_value_heads': 8, 'vocab_size': vocab, 'torch_dtype': 'float32',
    'max_position_embeddings': 8192, 'tie_word_embeddings': False}))
index, n = {}, (len(names) + 3) // 4
for k in range(4):
    file, at, head = 'model-%05d-of-00004.safetensors' % (k + 1), 0, {}
    for name, shape in names[k * n:(k + 1) * n]:
        size = 4
        for d in shape: size *= d
        head[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + size]}
        index[name], at = file, at + size
    text = json.dumps(head).encode()
    with open('m/' + file, 'wb') as out:
        out.write(struct.pack('<Q', len(text)) + text)
        out.truncate(8 + len(text) + at)
open('m/model.safetensors.index.json', 'w').write(json.dumps({'metadata': {}, 'weight_map': index}))
END
shows() { vram fit "$@" | grep -E '^(FITS|TIGHT|DOES|dies|may die|error|GPU|CPU)' | cut -c 1-250; }
shows m --gpu rtx-4090-24gb --engine-version 4.57
shows m --gpu rtx-4090-24gb --engine-version 4.57 --dtype bf16
shows m --gpu rtx-4090-24gb --engine-version 4.57 --device-map auto
shows m --gpu 24GiB --free 15.5GiB --engine-version 4.57 --dtype bf16 --quantization none
shows m --gpu 24GiB --free 16.5GiB --engine-version 4.57 --dtype bf16 --device-map sequential
shows m --gpu rtx-4090-24gb
shows m --gpu rtx-4090-24gb --dtype bf16 --device-map auto
# 4 bits: what is packed would fit, the weight in 16 bits beside it does not; transformers 4 has it there twice.
shows m --gpu 24GiB --free 5.8GiB --dtype bf16 --quantization bnb-4bit -c 64
shows m --gpu 24GiB --free 6.2GiB --dtype bf16 --quantization bnb-4bit -c 64 --engine-version 4.57
shows m --gpu 24GiB --free 5.8GiB --dtype bf16 --quantization bnb-4bit-dq -c 64
