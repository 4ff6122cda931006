# Weights that are stored quantised: what transformers makes of them depends on the card. The shapes of gpt-oss-20b with experts
# in MXFP4, 12.8 GiB in a file of holes: kept with the kernels package, unpacked to 16 bits without it and on a card of
# compute capability 7.0, refused by 4.55 below 9.0. A matrix in FP8 is refused below 8.9 by 4, unpacked by 5.
python3 - <<'END'
import json, struct, os
def write(folder, config, tensors):
    os.mkdir(folder)
    open(folder + '/config.json', 'w').write(json.dumps(config))
    at, head = 0, {}
    for name, dtype, shape in tensors:
        size = {'BF16': 2, 'U8': 1, 'F8_E4M3': 1, 'F32': 4}[dtype]
        for d in shape: size *= d
        head[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    with open(folder + '/model.safetensors', 'wb') as out:
        out.write(struct.pack('<Q', len(text)) + text)
        out.truncate(8 + len(text) + at)
h, vocab, experts = 2880, 201088, 32
t = [('model.embed_tokens.weight', 'BF16', [vocab, h])]
for i in range(24):
    p = 'model.layers.%d.' % i
    for w, o, k in (('q', 4096, h), ('k', 512, h), ('v', 512, h), ('o', h, 4096)):
        t += [(p + 'self_attn.%s_proj.weight' % w, 'BF16', [o, k]), (p + 'self_attn.%s_proj.bias' % w, 'BF16', [o])]
    t += [(p + 'self_attn.sinks', 'BF16', [64]), (p + 'mlp.router.weight', 'BF16', [experts, h]), (p + 'mlp.router.bias', 'BF16', [experts])]
    for w, o in (('gate_up', 2 * h), ('down', h)):
        t += [(p + 'mlp.experts.%s_proj_blocks' % w, 'U8', [experts, o, 90, 16]), (p + 'mlp.experts.%s_proj_scales' % w, 'U8', [experts, o, 90]),
              (p + 'mlp.experts.%s_proj_bias' % w, 'BF16', [experts, o])]
    t += [(p + 'input_layernorm.weight', 'BF16', [h]), (p + 'post_attention_layernorm.weight', 'BF16', [h])]
t += [('model.norm.weight', 'BF16', [h]), ('lm_head.weight', 'BF16', [vocab, h])]
write('oss', {'model_type': 'gpt_oss', 'architectures': ['GptOssForCausalLM'], 'hidden_size': h, 'intermediate_size': h, 'num_hidden_layers': 24,
    'num_attention_heads': 64, 'num_key_value_heads': 8, 'head_dim': 64, 'vocab_size': vocab, 'num_local_experts': experts, 'num_experts_per_tok': 4,
    'sliding_window': 128, 'tie_word_embeddings': False, 'quantization_config': {'quant_method': 'mxfp4'}}, t)
write('fp8', {'model_type': 'qwen3', 'architectures': ['Qwen3ForCausalLM'], 'hidden_size': 16384, 'intermediate_size': 131072, 'num_hidden_layers': 1, 'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [128, 128],
    'fmt': 'e4m3', 'activation_scheme': 'dynamic'}}, [('model.layers.0.mlp.up_proj.weight', 'F8_E4M3', [131072, 16384]),
    ('model.layers.0.mlp.up_proj.weight_scale_inv', 'F32', [1024, 128])])
END
shows() { vram fit "$@" 2>&1 | grep -E '^(FITS|TIGHT|DOES|UNKNOWN|weights|dies|vram: warning)' | cut -c 1-250; }
shows oss --gpu rtx-4090-24gb
shows oss --gpu rtx-4090-24gb --quantization dequantize
shows oss --gpu v100-sxm2-16gb
shows oss --gpu rtx-4090-24gb --engine-version 4.55
shows fp8 --gpu rtx-3060-12gb
shows fp8 --gpu rtx-3060-12gb --engine-version 4.57
shows fp8 --gpu rtx-4090-24gb
