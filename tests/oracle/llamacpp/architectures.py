# SPDX-License-Identifier: MIT
"""Metadata of small models, one or more for each architecture of llama.cpp.

The sizes are small and odd, but legal: the rows of weights are whole blocks of their types, heads have a size that
flash attention takes (or, on purpose, one that it does not take). A key that an architecture does not read is dropped
by record.py, so that one list serves all.
"""

# Left out: clip, gptj, gemma4-assistant, eagle3, dflash, graniteswitch, wavtokenizer-dec, which answer no prompt by
# themselves, and plm and rwkv6qwen2, at whose graphs llama.cpp falls over.
ALL = ('llama llama4 deci falcon grok gpt2 gptneox mpt baichuan starcoder refact bert modern-bert nomic-bert '
       'nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert bloom stablelm qwen qwen2 qwen2moe qwen2vl qwen3 '
       'qwen3moe qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe phi2 phi3 phimoe plamo plamo2 plamo3 codeshell orion '
       'internlm2 minicpm minicpm3 gemma gemma2 gemma3 gemma3n gemma4 gemma-embedding starcoder2 mamba mamba2 jamba '
       'falcon-h1 xverse command-r cohere2 cohere2moe dbrx olmo olmo2 olmoe muse-glimmer openelm arctic deepseek '
       'deepseek2 deepseek2-ocr deepseek32 deepseek4 chatglm glm4 glm4moe glm-dsa bitnet t5 t5encoder jais jais2 '
       'nemotron nemotron_h nemotron_h_moe exaone exaone4 exaone-moe rwkv6 rwkv7 arwkv7 granite granitemoe '
       'granitehybrid chameleon bailingmoe bailingmoe2 dots1 arcee afmoe laguna ernie4_5 ernie4_5-moe hunyuan-moe '
       'hunyuan-dense hunyuan_vl hy_v3 smollm3 gpt-oss lfm2 lfm2moe dream smallthinker llada llada-moe seed_oss '
       'grovemoe apertus minimax-01 minimax-m2 minimax-m3 cogvlm rnd1 pangu-embedded mistral3 mistral4 paddleocr '
       'mimo2 step35 llama-embed maincoder kimi-linear kimi-k3 talkie mellum nanbeige qwen3tts pockettts').split()

# Tensors that are of one type in every file.
TYPES = {'ffn_gate_tid2eid': 'i32'}

# As many heads of keys as of queries.
EQUAL_HEADS = {'olmoe', 'jais2', 't5', 't5encoder', 'dots1', 'minicpm3', 'plm', 'jina-bert-v2', 'deepseek2-ocr'}

# What real files of these have as one tensor, and llama.cpp also takes as three.
FUSED_QKV = {'phi3', 'gpt2', 'gptneox', 'falcon', 'bloom', 'mpt', 'starcoder', 'codeshell', 'qwen', 'chatglm', 'dbrx',
             'jais', 'nomic-bert', 'nomic-bert-moe', 'phi2', 'plamo2', 'plamo3', 'openelm', 'modern-bert', 'neo-bert',
             'jina-bert-v3'}

# Those that are of experts, always or often.
EXPERTS_ALWAYS = {
    'llama4', 'cohere2moe', 'grok', 'qwen2moe', 'qwen3moe', 'qwen3next', 'qwen3vlmoe', 'qwen35moe', 'phimoe', 'dbrx',
    'olmoe', 'arctic', 'deepseek', 'deepseek2', 'deepseek2-ocr', 'deepseek32', 'deepseek4', 'glm4moe', 'glm-dsa',
    'exaone-moe', 'bailingmoe', 'bailingmoe2', 'dots1', 'afmoe', 'ernie4_5-moe', 'hunyuan-moe', 'hy_v3', 'gpt-oss',
    'lfm2moe', 'smallthinker', 'llada-moe', 'grovemoe', 'minimax-01', 'minimax-m2', 'minimax-m3', 'rnd1', 'mimo2',
    'kimi-linear', 'kimi-k3', 'step35', 'mistral4', 'mellum', 'laguna', 'granitemoe', 'nemotron_h_moe',
    'nomic-bert-moe',
}
EXPERTS_TOO = {'llama', 'granite', 'granitehybrid', 'mistral3', 'jamba', 'gemma4', 'minicpm', 'refact', 'muse-glimmer'}

LATENT = {'deepseek2', 'deepseek32', 'glm-dsa', 'kimi-linear', 'kimi-k3', 'mistral4'}
LATENT_ATTENTION = {'attention.key_length': 576, 'attention.value_length': 512, 'rope.dimension_count': 64,
                    'attention.key_length_mla': 192, 'attention.value_length_mla': 128,
                    'attention.q_lora_rank': 384, 'attention.kv_lora_rank': 512, 'attention.head_count_kv': 1,
                    'attention.head_count': 8}
# Layers without attention stand where a list of heads has a zero.
HYBRID = {'plamo2', 'jamba', 'nemotron_h', 'nemotron_h_moe', 'granitehybrid', 'lfm2', 'lfm2moe', 'kimi-linear',
          'kimi-k3'}
ENCODERS = {'bert', 'nomic-bert', 'nomic-bert-moe', 'jina-bert-v2', 'jina-bert-v3', 'modern-bert', 'neo-bert', 'eurobert',
            'gemma-embedding', 'llama-embed', 't5encoder'}

# Further models: architecture, word for the name, size, with experts, what differs from that size.
# File types 0 F32, 1 F16, 2 Q4_0, 32 BF16, 38 MXFP4 in the experts.
FURTHER = [
    ('llama', 'f16', 'wide', False, {'file_type': 1}),
    ('llama', 'q4_0', 'narrow', False, {'file_type': 2, 'attention.head_count_kv': 1}),
    ('llama', 'bf16', 'narrow', True, {'file_type': 32, 'expert_shared_count': 0}),
    # attention kernels: heads of 96 have no vector kernel, of 100 none, of 256 the largest of it, of 40 another
    ('llama', 'head96', 'wide', False, {'attention.key_length': 96, 'attention.value_length': 96,
                                        'rope.dimension_count': 96}),
    ('llama', 'head100', 'narrow', False, {'file_type': 1, 'attention.key_length': 100, 'attention.value_length': 100,
                                           'rope.dimension_count': 100}),
    ('llama', 'head256', 'wide', False, {'attention.key_length': 256, 'attention.value_length': 256,
                                         'rope.dimension_count': 256, 'attention.head_count_kv': 1}),
    ('llama', 'head40', 'narrow', False, {'file_type': 1, 'attention.key_length': 40, 'attention.value_length': 40,
                                          'rope.dimension_count': 40}),
    ('llama', 'deep', 'narrow', False, {'block_count': 13, 'vocab_size': 32003}),
    ('qwen3', 'deep', 'wide', False, {'block_count': 11, 'vocab_size': 151936}),
    ('qwen3moe', 'many', 'narrow', True, {'expert_count': 60, 'expert_used_count': 6, 'block_count': 6}),
    ('gemma3', 'six', 'wide', False, {'block_count': 13, 'attention.sliding_window_pattern': None,
                                      'attention.sliding_window': 512, 'vocab_size': 20011}),
    ('gemma2', 'long', 'narrow', False, {'attention.sliding_window': 4096, 'block_count': 6}),
    ('gpt-oss', 'mxfp4', 'wide', True, {'file_type': 38, 'attention.key_length': 64, 'attention.value_length': 64,
                                        'rope.dimension_count': 64, 'attention.sliding_window': 128,
                                        'block_count': 6}),
    ('deepseek2', 'whole', 'wide', True, {'attention.key_length_mla': None, 'attention.value_length_mla': None,
                                          'attention.key_length': 192, 'attention.value_length': 128,
                                          'attention.head_count_kv': 8}),
    ('deepseek2', 'lite', 'wide', True, {'attention.q_lora_rank': None, 'attention.head_count': 16,
                                         'expert_gating_func': 1, 'block_count': 27}),
    ('qwen35', 'eight', 'wide', False, {'block_count': 8, 'full_attention_interval': 4}),
    ('qwen3next', 'eight', 'wide', True, {'block_count': 8, 'full_attention_interval': 4}),
    ('falcon-h1', 'state256', 'wide', False, {'ssm.state_size': 256, 'ssm.group_count': 1}),
    ('mamba2', 'state64', 'narrow', False, {'ssm.state_size': 64}),
]
# Blocks that predict further tokens, which are in the file and unused unless they draft.
FURTHER += [(a, 'nextn', 'narrow', a != 'qwen35', {'nextn_predict_layers': 1}) for a in
            ('glm4moe', 'glm-dsa', 'deepseek32', 'mimo2', 'step35', 'qwen35', 'qwen35moe',
             'qwen3next')]

# embedding, heads, heads of keys, head size, feed-forward, layers, vocabulary, expert feed-forward, file type
SIZES = {
    'wide': (768, 6, 2, 128, 1792, 3, 5003, 512, 15),    # Q4_K_M
    'narrow': (320, 5, 5, 64, 896, 4, 1999, 160, 7),     # Q8_0
}


def expert_choices(architecture):
    """Whether the models of an architecture have experts: one or both of False and True"""
    if architecture in EXPERTS_ALWAYS:
        return [True]
    return [False, True] if architecture in EXPERTS_TOO else [False]


def common(size):
    embd, heads, kv, head, ff, layers, vocab, expert_ff, _ = SIZES[size]
    return {
        'vocab_size': vocab, 'context_length': 8192, 'embedding_length': embd, 'features_length': embd,
        'block_count': layers, 'leading_dense_block_count': 1, 'feed_forward_length': ff,
        'use_parallel_residual': True, 'logit_scale': 1.5, 'time_mix_extra_dim': 64, 'time_decay_extra_dim': 128,
        'full_attention_interval': 2, 'attention.head_count': heads, 'attention.head_count_kv': kv,
        'attention.key_length': head, 'attention.value_length': head, 'rope.dimension_count': head,
        'rope.freq_base': 10000.0, 'attention.max_alibi_bias': 8.0, 'attention.clamp_kqv': 8.0,
        'attention.layer_norm_epsilon': 1e-5, 'attention.layer_norm_rms_epsilon': 1e-5,
        'attention.group_norm_epsilon': 1e-5, 'attention.group_norm_groups': 8,
        'attention.relative_buckets_count': 32, 'attention.sliding_window': 640,
        'attention.sliding_window_pattern': 2,
        'attention.indexer.head_count': 32, 'attention.indexer.key_length': 128, 'attention.indexer.top_k': 96,
        'attention.indexer.block_size': 4, 'attention.indexer.local_blocks': 1,
        'rope.dimension_sections': [head // 4, head // 8, head // 8, 0],
        'expert_weights_scale': 1.5, 'expert_group_scale': 1.0, 'experts_per_group': 1,
        'interleave_moe_layer_step': 2, 'expert_gating_func': 2,
        'ssm.inner_size': 2 * embd, 'ssm.conv_kernel': 4, 'ssm.state_size': 128, 'ssm.time_step_rank': 2 * embd // 64,
        'ssm.group_count': 2, 'kda.head_dim': 128, 'wkv.head_size': 64, 'shortconv.l_cache': 3,
        'residual_scale': 0.75, 'embedding_scale': 12.0, 'attention.scale': 0.0625,
        'token_shift_count': 2, 'attention.decay_lora_rank': 64, 'attention.iclr_lora_rank': 64,
        'attention.value_residual_mix_lora_rank': 32, 'attention.gate_lora_rank': 128,
        'attn_logit_softcapping': 50.0, 'final_logit_softcapping': 30.0,
        'altup.num_inputs': 4, 'swin_norm': False, 'rescale_every_n_layers': 6,
        'attn_res.block_size': 12, 'activation.situ_beta': 4.0, 'activation.situ_linear_beta': 25.0,
        'kda.gate_lower_bound': -5.0, 'attention.q_lora_rank': 384, 'attention.kv_lora_rank': 256,
        'attention.temperature_length': 8192, 'attention.temperature_scale': 0.1, 'num_loops': 2,
    }


def experts(size):
    expert_ff = SIZES[size][7]
    return {
        'expert_count': 8, 'expert_used_count': 3, 'expert_shared_count': 1,
        'expert_feed_forward_length': expert_ff, 'expert_shared_feed_forward_length': 2 * expert_ff,
        'expert_chunk_feed_forward_length': expert_ff, 'expert_latent_length': SIZES[size][0] // 2, 'expert_group_count': 2,
        'expert_group_used_count': 1, 'moe_every_n_layers': 2, 'moe_latent_size': SIZES[size][0] // 2,
    }


def per_layer(architecture, keys):
    """Lists that have something of each layer."""
    layers = keys['block_count']
    if architecture in HYBRID:
        heads, kv = keys['attention.head_count'], keys['attention.head_count_kv']
        none = [i for i in range(layers) if i % 2 == 1]
        keys['attention.head_count'] = [0 if i in none else heads for i in range(layers)]
        keys['attention.head_count_kv'] = [0 if i in none else kv for i in range(layers)]
    if architecture in ('granitehybrid', 'jamba', 'plamo2'):
        keys['attention.head_count'] = heads
    if architecture in ('nemotron_h', 'nemotron_h_moe'):
        # attention, state space, feed-forward, state space
        keys['attention.head_count'] = heads
        keys['attention.head_count_kv'] = [kv if i == 0 else 0 for i in range(layers)]
        keys['feed_forward_length'] = [keys['feed_forward_length'] if i == 2 else 0 for i in range(layers)]
    if architecture in ('cohere2moe', 'mimo2', 'step35', 'muse-glimmer', 'gemma4', 'gemma3n', 'laguna', 'mellum'):
        keys['attention.sliding_window_pattern'] = [i % 2 == 0 for i in range(layers)]


def special(architecture, size, keys):
    embd, _, kv, head, _, layers, _, expert_ff, _ = SIZES[size]
    if architecture in LATENT:
        keys.update(LATENT_ATTENTION)
    if architecture in ('deepseek2', 'deepseek32', 'glm-dsa', 'mistral4'):
        keys['expert_weights_scale'] = 2.5
    if architecture in EQUAL_HEADS:
        keys['attention.head_count_kv'] = keys['attention.head_count']
    if architecture in ('minicpm3', 'plm'):
        keys.update({'attention.key_length': 96, 'attention.value_length': 64, 'rope.dimension_count': 32})
    if architecture == 'deepseek4':
        keys.update({'expert_weights_norm': True, 'expert_gating_func': 4, 'swiglu_clamp_exp': 7.0,
                     'attention.output_group_count': 2, 'attention.output_lora_rank': 128,
                     'attention.compress_rope_freq_base': 40000.0, 'hyper_connection.count': 4,
                     'hyper_connection.sinkhorn_iterations': 3, 'hyper_connection.epsilon': 1e-6,
                     'hash_layer_count': 1, 'attention.compress_ratios': [4, 128, 4, 128][:layers],
                     'attention.head_count': 8, 'attention.head_count_kv': 1})
    if architecture == 'chameleon':
        keys['vocab_size'] = 10240
    if architecture == 'qwen3tts':
        keys['vocab_size'] = 4096
    if architecture == 'llama4':
        keys['block_count'] = 4
    if architecture == 'gemma3n':
        keys['block_count'] = 24 if size == 'wide' else 22
        keys['embedding_length_per_layer_input'] = 256
    if architecture == 'gemma4':
        keys.update({'block_count': 6, 'embedding_length_per_layer_input': 256, 'attention.shared_kv_layers': 2,
                     'attention.key_length': 2 * head, 'attention.value_length': 2 * head,
                     'attention.key_length_swa': head, 'attention.value_length_swa': head,
                     'rope.dimension_count': 2 * head, 'rope.dimension_count_swa': head,
                     'rope.freq_base_swa': 10000.0})
    if architecture in ('qwen3next', 'qwen35', 'qwen35moe'):
        keys.update({'ssm.inner_size': 1024, 'ssm.time_step_rank': 8, 'ssm.group_count': 4, 'ssm.state_size': 128,
                     'attention.key_length': 256, 'attention.value_length': 256, 'rope.dimension_count': 64,
                     'rope.dimension_sections': [11, 11, 10, 0]})
    if architecture == 'mamba':
        keys.update({'ssm.state_size': 16, 'ssm.time_step_rank': 32, 'attention.head_count': 0,
                     'ssm.group_count': 0, 'attention.head_count_kv': 0})
    if architecture == 'jamba':
        keys.update({'ssm.state_size': 16, 'ssm.time_step_rank': 64, 'ssm.group_count': 0})
    if architecture == 'mamba2':
        keys.update({'attention.head_count': 0, 'attention.head_count_kv': 0})
    if architecture == 'plamo2':
        keys['ssm.group_count'] = 0
    if architecture == 'minimax-m3':
        keys.update({'attention.indexer.head_count': kv, 'rope.dimension_count': 64})
    if architecture in ('rwkv6', 'rwkv6qwen2', 'rwkv7', 'arwkv7'):
        keys.update({'attention.head_count': 0, 'attention.head_count_kv': 0})
    if architecture in ('rwkv6qwen2', 'arwkv7'):
        keys['token_shift_count'] = 1
    if architecture in ('nemotron_h_moe',):
        keys['expert_latent_length'] = 0
    if architecture == 't5' or architecture == 't5encoder':
        keys['decoder_start_token_id'] = 0


def keys_of(architecture, size, with_experts, changes=None):
    """The metadata of a model as key: value; changes: key: value, or None for a key that is not there"""
    keys = common(size)
    if with_experts:
        keys.update(experts(size))
    special(architecture, size, keys)
    keys.update(changes or {})
    per_layer(architecture, keys)
    full = {'general.architecture': architecture, 'general.quantization_version': 2,
            'general.file_type': keys.pop('file_type', SIZES[size][8])}
    full.update(('%s.%s' % (architecture, key), value) for key, value in keys.items() if value is not None)
    full['tokenizer.ggml.model'] = 'none'
    if architecture in ENCODERS:
        full['tokenizer.ggml.token_type_count'] = 2
    if architecture == 'apertus':
        full.update({'xielu.alpha_n': 0.8, 'xielu.alpha_p': 0.8, 'xielu.beta': 0.5, 'xielu.eps': 1e-6})
    return full


def typed(value):
    """A value with its type in the file"""
    if isinstance(value, list):
        kind, _ = typed(value[0])
        return kind + '[]', [int(v) if kind == 'bool' else v for v in value]
    if isinstance(value, bool):
        return 'bool', [int(value)]
    if isinstance(value, int):
        return 'u32', [value]
    return ('str' if isinstance(value, str) else 'f32'), [value]
