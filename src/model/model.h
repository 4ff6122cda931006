/* SPDX-License-Identifier: MIT
 * What a checkpoint computes: layers, attention kind of each, vocabulary; checked against tensor shapes. */
#ifndef VR_MODEL_H
#define VR_MODEL_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "model/quantised.h"

typedef enum vr_attention_kind {
    VR_ATTENTION_FULL,
    VR_ATTENTION_SLIDING,   /* the last `window` tokens */
    VR_ATTENTION_CHUNKED,   /* the tokens of the same chunk of `window` tokens (Llama-4) */
    VR_ATTENTION_LATENT,    /* MLA: keys and values are made from one latent vector a token */
    VR_ATTENTION_RECURRENT, /* a state of fixed size: delta rule, SSM, short convolution */
    VR_ATTENTION_NONE       /* neither */
} vr_attention_kind;

/* How a recurrent layer mixes tokens. */
typedef enum vr_recurrent_kind {
    VR_RECURRENT_DELTA,       /* gated delta rule: one decay a head */
    VR_RECURRENT_KEYED_DELTA, /* KDA: one decay for each key dimension */
    VR_RECURRENT_MAMBA2,      /* one decay a head, B and C shared by groups of heads */
    VR_RECURRENT_MAMBA1,      /* a decay for each channel and state, one head */
    VR_RECURRENT_SHORT_CONV,  /* a gated convolution and no other state (LFM2) */
    VR_RECURRENT_LRU          /* a number for each channel (RG-LRU) */
} vr_recurrent_kind;

typedef enum vr_norm_kind {
    VR_NORM_RMS,           /* LlamaRMSNorm: fp32 inside, weight times the narrowed result */
    VR_NORM_RMS_GEMMA,     /* Gemma*RMSNorm: (1 + weight) in fp32, narrowed last */
    VR_NORM_RMS_LATE,      /* Olmo2RMSNorm: weight times the fp32 result, narrowed last */
    VR_NORM_RMS_BARE,      /* without a weight */
    VR_NORM_LAYER,         /* torch.nn.LayerNorm, weight and bias */
    VR_NORM_LAYER_WEIGHT,  /* the same without a bias */
    VR_NORM_LAYER_BARE,    /* OlmoLayerNorm: in fp32, neither */
    VR_NORM_LAYER_COHERE,  /* CohereLayerNorm: a weight, by elementwise operators in fp32 */
    VR_NORM_LAYER_1P,      /* NemotronLayerNorm1P: 1 + weight, and a bias */
    VR_NORM_RMS_LATE_WIDE, /* HeliumRMSNorm: as RMS_LATE, with the weight widened */
    VR_NORM_RMS_CHAINED,   /* Llama4TextRMSNorm: as RMS, and no name holds what it is made of */
    VR_NORM_RMS_POWER      /* Gemma4RMSNorm: the same, by a power of a mean that is kept */
} vr_norm_kind;

/* How many storages the activation of an MLP takes. */
typedef enum vr_activation {
    VR_ACT_ONE,      /* one kernel: silu, gelu, relu */
    VR_ACT_RELU2,    /* relu, squared */
    VR_ACT_GELU_NEW, /* NewGELUActivation: elementwise */
    VR_ACT_BLOOM,    /* bloom_gelu_forward: elementwise */
    VR_ACT_UNKNOWN
} vr_activation;

/* How queries and keys are turned by their position, and what of a head that is turned only in part becomes
 * of the rest. */
typedef enum vr_rope_kind {
    VR_ROPE_NONE,
    VR_ROPE_HALF,          /* the second half of a head beside the first, all of it (llama) */
    VR_ROPE_CHUNKS,        /* each half by itself, then both put together (gpt_oss) */
    VR_ROPE_HALF_EACH,     /* put together with the rest at once (phi3) */
    VR_ROPE_HALF_THEN,     /* ... after both are turned (gpt_neox) */
    VR_ROPE_HALF_KEPT,     /* ... and the parts are kept (phi) */
    VR_ROPE_HALF_RETURNED, /* ... as what is returned (nemotron) */
    VR_ROPE_HALF_WIDE,     /* by cos and sin in fp32 (olmo2) */
    VR_ROPE_PAIRS,         /* neighbours beside each other, in part (glm) */
    VR_ROPE_PAIRS_ALL,     /* ... all of a head (helium) */
    VR_ROPE_PAIRS_FLOAT,   /* ... in fp32 (cohere) */
    VR_ROPE_PAIRS_WIDE,    /* ... by cos and sin in fp32 (ernie4_5) */
    VR_ROPE_PAIRS_COMPLEX  /* ... as complex numbers in fp32 (llama4, deepseek_v2) */
} vr_rope_kind;

/* What a module is to its layer. */
typedef enum vr_module_role {
    VR_MODULE_Q,
    VR_MODULE_K,
    VR_MODULE_V,
    VR_MODULE_QKV,
    VR_MODULE_O,
    VR_MODULE_Q_NORM,
    VR_MODULE_K_NORM,
    VR_MODULE_GATE,
    VR_MODULE_UP,
    VR_MODULE_GATE_UP,
    VR_MODULE_DOWN,
    VR_MODULE_PRE_ATTENTION, /* norm of what attention reads; _POST: of what it gives */
    VR_MODULE_POST_ATTENTION,
    VR_MODULE_PRE_MLP,
    VR_MODULE_POST_MLP,
    VR_MODULE_COUNT
} vr_module_role;

/* Row of data/namings.tsv: how a class calls its modules, in the order of its __init__. */
typedef struct vr_naming {
    const char *name;
    const char *prefix; /* "model.", up to what lies beside the layers */
    const char *head;   /* its tensor: "lm_head.weight" */
    bool transposed;    /* Conv1D of gpt2: [in, out] */
    const char *model;  /* "embedding=embed_tokens layers=layers norm=norm ..." */
    const char *layer;  /* "q=self_attn.q_proj ...", words of vr_module_role */
    const char *source;
} vr_naming;

typedef enum vr_mlp_kind {
    VR_MLP_GATED,       /* gate_proj, up_proj, down_proj */
    VR_MLP_GATED_FUSED, /* gate_up_proj, down_proj */
    VR_MLP_PLAIN,       /* up, activation, down */
    VR_MLP_EXPERTS,     /* a router and experts, perhaps shared ones beside them */
    VR_MLP_NONE
} vr_mlp_kind;

/* Which layers slide when layer_types is absent. */
typedef enum vr_window_rule {
    VR_WINDOW_ATTRIBUTE, /* all layers, as soon as there is a sliding_window */
    VR_WINDOW_LAYERS,    /* use_sliding_window: the layers from max_window_layers on */
    VR_WINDOW_PATTERN    /* all but every sliding_pattern-th */
} vr_window_rule;

typedef enum vr_softcap {
    VR_SOFTCAP_NONE, /* the class does not apply one */
    VR_SOFTCAP_OFF,  /* it does when the config gives a value */
    VR_SOFTCAP_ON    /* it does unless the config says null */
} vr_softcap;

/* Row of data/architectures.tsv: a decoder class. Defaults are those of the class when the config is silent.
 */
typedef struct vr_family {
    const char *model_type;  /* "qwen2" */
    const char *wrappers;    /* model_types of the multimodal models around it ("gemma3"), or NULL */
    const char *class_name;  /* "Qwen2ForCausalLM" */
    const char *naming;      /* a row of data/namings.tsv */
    uint8_t norm, mlp;       /* vr_norm_kind, vr_mlp_kind */
    uint8_t activation;      /* vr_activation, when the config is silent */
    uint8_t rope;            /* vr_rope_kind */
    uint32_t rotary_percent; /* of a head, when the config is silent; 0: all, and the config is not asked */
    /* Defaults; what the config says under these names overrides them, where the class reads them. */
    bool qkv_bias, o_bias, mlp_bias, head_bias;
    const char *qkv_bias_key, *o_bias_key, *mlp_bias_key;
    bool qk_norm;           /* q_norm, k_norm over head_dim */
    bool qk_norm_whole;     /* ... over all heads together */
    bool qk_norm_rotated;   /* ... after they are rotated */
    bool query_scaled;      /* ministral3: rotated queries times a factor of their positions */
    bool both_masks;        /* from transformers 5 on, masks of both kinds are made though no layer slides */
    bool early_masks;       /* up to 4 the class is as before masking_utils.py */
    bool own_rotary;        /* ... and each attention has a rotary module, which it does not use */
    bool query_multiplied;  /* opt: queries times their scale, before they are used */
    bool qk_norm_after;     /* queries and keys are normalised after all is projected, not each at once */
    bool turned_at_once;    /* ... each before the next is projected; values are normalised too (gemma4) */
    bool values_scaled;     /* mimo_v2: values times a number */
    bool shifted_softmax;   /* ... eager attention takes the largest score off first, and does not widen */
    bool narrow_softmax;    /* of eager attention: in the model's width */
    bool inline_mlp;        /* opt: the MLP is no module of its own */
    bool wide_logits;       /* logits are given in fp32 */
    bool norm_widened;      /* from some version on its norms are VR_NORM_RMS_LATE_WIDE */
    bool keeps_outputs;     /* gpt2: a layer's variables live longer */
    bool scale_cast;        /* minicpm3: what embeddings are scaled by is a whole number, on the card */
    bool head_input_scaled; /* minicpm3: what the head reads is divided by a number, not what it gives */
    bool keeps_attention;   /* llama4: what attention gave has a name of its own */
    bool keeps_norm;        /* stablelm: the same, and the norm before its attention is kept */
    bool alibi;             /* bloom: scores have a bias that falls with the distance; layers of its own */
    bool alibi_wide;        /* mpt: ... in fp32, of all tokens there can be, and nothing is counted */
    bool tables_in_dict;    /* local_rope: by kind of layer, in one module of version 4 */
    uint32_t taped_from;    /* version of transformers x 100, 524: what earlier ones compute is not known */
    bool ffn_by_layer;      /* intermediate_size may be a list */
    bool untaped;           /* what it computes is not known storage by storage */
    bool parallel;          /* attention and MLP read the same, and both are added to it */
    bool tied_default;      /* tie_word_embeddings when the config is silent */
    bool embedding_scaled;  /* gemma: hidden states times sqrt(hidden) */
    bool embedding_multiplied, residual_multiplied, logits_multiplied; /* by numbers of the config */
    bool multiplied_late; /* the embeddings only behind the masks */
    bool full_unrotated;  /* layers of full attention turn nothing, where others slide */
    bool some_unrotated;  /* the config's no_rope_layers, or every no_rope_layer_interval-th, turn nothing */
    uint8_t attention_softcap, final_softcap; /* vr_softcap */
    bool grid_rotary;                         /* three tables, of time, height and width, put together */
    bool grid_sections;                       /* ... by sections that are copied first (qwen2_5_vl) */
    bool local_rope;                          /* gemma3: second rotary table for sliding layers */
    bool reads_bidirectional;                 /* gemma3: use_bidirectional_attention halves the window */
    bool index_shared; /* layers of sparse attention choose tokens for those after them that have no index */
    const char *keys;  /* other names of settings, "num_hidden_layers=n_layer ..."; or NULL */
    const char *only;  /* "key=value ...": not understood when the config says otherwise; or NULL */
    uint32_t vocab_default, hidden_default, layers_default, heads_default;
    uint32_t ffn_default;       /* 0: four times hidden */
    uint32_t kv_heads_default;  /* 0: as many as heads */
    uint32_t head_dim_default;  /* 0: hidden / heads */
    uint64_t context_default;   /* max_position_embeddings */
    uint32_t position_offset;   /* learned positions: rows before the first */
    uint32_t window_default;    /* sliding_window; 0: none */
    uint8_t window_rule;        /* vr_window_rule */
    uint32_t max_window_layers; /* of VR_WINDOW_LAYERS */
    uint32_t sliding_pattern; /* of VR_WINDOW_PATTERN: every n-th layer is full when layer_types is absent */
    bool reads_pattern;       /* the config's sliding_window_pattern overrides it */
    const char *special;      /* its kind in specials.c, where it is more than a plain decoder; or NULL */
    const char *source;
} vr_family;

/* How a layer's experts are built, chosen and named: rows of experts.c. */
struct vr_moe;

/* Everything that an engine must know of a layer to say what it keeps and computes. What a kind has not is 0.
 */
typedef struct vr_layer {
    uint8_t attention; /* vr_attention_kind */
    uint8_t mlp;       /* vr_mlp_kind */
    uint32_t window;   /* tokens of SLIDING and CHUNKED; 0 for the others */
    uint32_t heads, kv_heads;
    uint32_t key_dim, value_dim; /* of a head; LATENT: as computed, so key_dim = nope + rope */
    uint32_t rotary_dim;         /* of key_dim, rotated */
    uint32_t cross_heads;        /* of the attention to an encoder, key_dim and value_dim wide; 0: none */
    bool bare_qk_norm;           /* queries and keys are normalised without a weight, once they are turned */
    bool query_tempered;         /* queries times a factor of their positions, in fp32 */
    bool sinks;                  /* a logit of each head that stands for no token (gpt-oss) */
    bool all_heads_cached; /* transformers repeats keys and values for all heads, then caches (Falcon) */
    bool key_is_value;     /* values are made of what the keys are made of; both are cached */
    uint32_t side_width;   /* of an embedding that this layer alone reads (Gemma 4); 0: none */
    uint32_t kv_from;      /* uses the cache of layer kv_from - 1 and has none of its own; 0: it has */
    /* LATENT: kept of a token are latent + rotary_dim elements, where the engine does not expand them. */
    uint32_t latent, query_latent; /* query_latent 0: queries are projected at once */
    /* Sparse: an index chooses index_topk tokens, and keeps index_dim elements of each. LATENT with
     * index_heads and index_dim 0: this layer takes what the last one before it chose. */
    uint32_t index_heads, index_dim, index_topk;
    /* Beside the window one entry of key_dim elements, and one of index_dim, for so many tokens; 0: none. */
    uint32_t compress_rate;
    uint32_t out_groups, out_latent; /* the output goes through a short vector for each group of heads */
    uint32_t streams;                /* copies of the hidden states that are mixed around each block */
    uint32_t bypass_rank;  /* of a short way around attention (LAuReL), or of adapters (Zamba2); 0: none */
    bool adapted;          /* adapters beside queries, keys and values too */
    uint32_t weights_from; /* attention and MLP are those of layer weights_from - 1 (Zamba2); 0: its own */
    bool by_key_head;      /* of a delta net: what belongs to a key head is projected together */
    bool output_gate;      /* q_proj makes a gate of the output beside the queries */
    uint8_t recurrent;     /* vr_recurrent_kind of RECURRENT */
    /* The convolution's state is channels x taps where it is kept with its newest column (transformers),
     * channels x (taps - 1) where it is not (llama.cpp, vLLM). */
    uint32_t conv_channels, conv_taps;
    uint32_t state_heads, state_rows, state_columns; /* and the recurrent one heads x rows x columns */
    uint32_t state_groups; /* of heads, each with keys and queries (B and C of an SSM) of its own */
    uint32_t chunk;        /* tokens that a scan takes at once */
    uint32_t step_rank;    /* of a Mamba-1: its step goes through so short a vector */
    bool conv_bias, mixer_bias, out_bias; /* of the convolution; of the projections in; out */
    bool unnormed;                        /* a Mamba-2 without a norm behind its scan (Falcon-H1) */
    bool inputs_normed;                   /* a Mamba-1 with norms of its step, B and C (Jamba) */
    uint32_t ffn;                         /* of the dense MLP */
    uint32_t experts, experts_used, expert_ffn;
    uint32_t shared_ffn;                 /* of all shared experts together */
    uint32_t expert_groups, groups_used; /* the router picks groups of experts first; 1: all are one */
    bool weights_normalised;             /* the router's weights of a token are made to add up to 1 */
    uint32_t expert_hidden;              /* what experts work on; 0: the layer's own width */
    const struct vr_moe *moe; /* of EXPERTS, and of MLPs beside them, for their names; NULL: of a GGUF file */
    /* Of a GGUF file, as llama.cpp keeps them: of each token over all heads; of keys alone where one vector
     * serves for both (MLA). Of config.json: what the heads have (key_dim, value_dim). */
    uint64_t key_elements, value_elements;
    /* Recurrent: kept of a sequence, however long it is. GGUF: as llama.cpp keeps it; of config.json: the
     * convolution's with its newest column in 16 bits, the state in 32. */
    uint64_t state_bytes;
} vr_layer;

typedef enum vr_tower_form { VR_TOWER_OTHER, VR_TOWER_QWEN2_5, VR_TOWER_QWEN3 } vr_tower_form;

/* What sees pictures beside a decoder. What a kind has not is 0. */
typedef struct vr_tower {
    const struct vr_tower_kind *kind; /* private to the room: tower.h */
    uint8_t form;                     /* vr_tower_form, for those who run it */
    uint64_t layers, hidden, heads, ffn;
    uint64_t channels, patch, temporal_patch;     /* of a patch: pixels of a side, pictures */
    uint64_t image;                               /* pixels of a side, where it is fixed */
    uint64_t positions;                           /* rows of learned positions */
    uint64_t merge;                               /* merge x merge patches become one token */
    uint64_t out;                                 /* width of these tokens */
    uint64_t n_deepstack;                         /* further mergers (Qwen3-VL) */
    uint64_t window;                              /* pixels of a side of windowed attention (Qwen2.5-VL) */
    uint64_t kv_heads, head_dim;                  /* where they are settings of their own (Gemma 4) */
    uint64_t vision_out, adapter_in, adapter_out; /* of what hands on to the decoder (Llama 4) */
    uint64_t picture_tokens;                      /* of a picture, where their number is fixed */
    bool *whole; /* by layer: attends to all patches, not to windows (Qwen2.5-VL) */
    bool *deep;  /* by layer: one of the further mergers reads what it gives (Qwen3-VL) */
    bool has_head, projector_bias, standardised;
} vr_tower;

/* What becomes of a picture before a tower sees it. */
typedef struct vr_picture {
    uint64_t width, height; /* pixels, after the processor has made it fit */
    uint64_t columns, rows; /* patches */
    uint64_t features;      /* that the tower hands on */
    uint64_t tokens;        /* in the prompt: features, and what stands between rows of them */
} vr_picture;

/* Of a picture of so many pixels; a sentence why not, or NULL. Pixels of a side: 1 to VR_MOST_PIXELS. */
#define VR_MOST_PIXELS 65536
const char *vr_picture_of(vr_picture *out, const vram_model *m, uint64_t width, uint64_t height);
bool vr_picture_fixed(const vram_model *m); /* its size makes no difference: the processor scales it */

/* What a declared tensor is to those who load, quantise and count it. */
typedef enum vr_param_kind {
    VR_PARAM_WEIGHT,      /* vectors, embeddings, heads */
    VR_PARAM_LINEAR,      /* weight of a torch.nn.Linear: what quantisers look for */
    VR_PARAM_EXPERTS,     /* of all experts in one, three dimensions */
    VR_PARAM_CONV,        /* of a convolution */
    VR_PARAM_BUFFER,      /* no parameter; in the model's dtype */
    VR_PARAM_BUFFER_F32,  /* no parameter; always 32 bits */
    VR_PARAM_BUFFER_I64,  /* no parameter; whole numbers of 64 bits */
    VR_PARAM_BUFFER_BOOL, /* no parameter; a byte each */
    VR_PARAM_STATE,       /* no parameter, but checkpoints hold it; in the model's dtype */
    VR_PARAM_STATE_F32,   /* ... always 32 bits */
    VR_PARAM_ROTARY,      /* a rotary module's buffers stand here: how many depends on the engine's version */
    VR_PARAM_SCALE        /* the embedding's scale stands here, where the engine's version has one */
} vr_param_kind;

typedef enum vr_structure {
    VR_DECODER,
    VR_ENCODER,        /* generates nothing and keeps no cache */
    VR_ENCODER_DECODER /* vram_model.encoder beside the decoder's layers */
} vr_structure;

/* What a declared tensor is among a layer's experts, which newer classes have in one tensor each. */
typedef enum vr_expert_role {
    VR_EXPERT_NONE,
    VR_EXPERT_GATE,
    VR_EXPERT_UP,
    VR_EXPERT_DOWN,
    VR_EXPERT_ROUTER /* and what belongs to it */
} vr_expert_role;

/* Which part of the model it belongs to. */
typedef enum vr_model_part {
    VR_PART_DECODER,
    VR_PART_ENCODER,
    VR_PART_VISION,
    VR_PART_PROJECTOR,
    VR_PART_PREDICT /* layers that predict further tokens */
} vr_model_part;

#define VR_DECLARED_DIMS 5
#define VR_NO_LAYER UINT32_MAX

/* A parameter or buffer of the class, in the order in which torch.nn.Module._apply walks them. Names and
 * shapes are those of checkpoints, which are older than the classes that load them. */
typedef struct vr_declared {
    vr_str name;             /* with the class's prefix, also when the checkpoint's names lack it */
    const vr_tensor *tensor; /* in the checkpoint; NULL: not there */
    uint64_t dims[VR_DECLARED_DIMS];
    uint64_t elements;
    uint32_t layer;           /* or VR_NO_LAYER */
    uint8_t n_dims;           /* 0: one number */
    uint8_t skip;             /* bytes at the front of the name that the checkpoint's lacks */
    uint8_t kind, part, role; /* vr_param_kind, vr_model_part, vr_expert_role */
} vr_declared;

/* What adapter_config.json says. */
typedef struct vr_adapter {
    const char *type;    /* "LoRA", or what PEFT calls it; NULL: not said */
    const char *base;    /* the model it is loaded on top of, or NULL */
    const char *alpha;   /* a number, or NULL */
    const char *targets; /* words of modules, or NULL */
    uint64_t rank;       /* 0: not said */
    uint64_t n_targets, n_modules;
} vr_adapter;

/* A setting that config.json leaves out, and what was taken for it. */
typedef struct vr_assumed {
    const char *key;
    uint64_t value;
} vr_assumed;

struct vram_model {
    vr_object object;
    vram_ctx *ctx;
    vr_arena arena;
    const vram_checkpoint *checkpoint;
    const char *architecture;   /* "Qwen2ForCausalLM"; NULL unknown */
    const char *model_type;     /* NULL unknown */
    const vr_family *family;    /* NULL: not understood, then only the weights are counted */
    const char *not_understood; /* sentence why, when family is NULL */
    /* The first setting that a tensor overruled: a class built from config.json would not load it. Sentence,
     * or NULL. */
    const char *contradicted;
    const char *cache_unknown;  /* why nothing is said of what it keeps of a token, or NULL */
    const char *uncounted_part; /* what stands beside the decoder, is there and not counted, or NULL */
    /* With family NULL, of a GGUF file: the sizes below and the layers are known all the same; each is 0 when
     * it is not stated or differs from layer to layer. */
    bool shape_known;
    bool gguf;                 /* a GGUF file: llama.cpp runs it, and no other engine here */
    bool foreign;              /* a file that no engine here runs: no verdict can follow from its weights */
    bool kv_known;             /* and what its layers keep of a token */
    const char *file_type;     /* "Q4_K_M", or NULL */
    const vr_adapter *adapter; /* the checkpoint is an adapter and no model; or NULL */
    bool fp32;                 /* nearly all weights are F32, and there are many */
    vr_dtype dtype;            /* of the config, or of the first floating tensor; GGUF: of most bytes */
    uint64_t dtype_at;         /* where config.json says so; 0: it does not */
    bool quantised;            /* quantization_config, packed tensors or GGUF: nothing is converted on load */
    vr_quantised packing;      /* what is quantised and how; empty when nothing is */
    uint64_t parameters;       /* weights, biases, norms, each counted once however it is stored */
    bool learned_positions;    /* rows of a table, by position, are added to the embeddings */
    uint64_t skipped_positions; /* of an encoder: rows of that table before the first, beside max_context */
    uint64_t side_vocab;       /* rows of the layers' own embeddings */
    const vr_naming *naming;   /* NULL with family */
    vr_str embedding, stack;   /* what it calls its embedding and its layers */
    vr_str modules[VR_MODULE_COUNT]; /* of a layer, by role; empty: it has none */
    const char *prefix; /* "model." or "" or "language_model.model." as in the names; NULL with family */
    uint64_t n_layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_context;
    uint64_t n_predict_layers; /* layers after n_layers that predict further tokens; no class here has them */
    uint64_t rotary_dim;       /* of head_dim, rotated */
    uint64_t experts, experts_used, expert_ffn; /* 0: none */
    uint64_t state_bytes;                       /* recurrent layers, one sequence */
    const char *head_name; /* the head's tensor in the checkpoint's naming; NULL when nothing is understood */
    bool has_head;         /* and it is there */
    bool tied, qkv_bias, o_bias, mlp_bias;
    uint64_t attention_softcap, final_softcap; /* 1: there is one, 0: none */
    uint8_t activation;                        /* vr_activation, of the dense MLP */
    vr_layer *layers;
    uint8_t structure;     /* vr_structure */
    const vr_tower *tower; /* NULL: there is none, or none that is understood (uncounted_part) */
    vr_layer *encoder;     /* of VR_ENCODER_DECODER */
    uint64_t n_encoder;
    uint64_t token_types;  /* rows of BERT's table */
    uint64_t bias_buckets; /* rows of T5's table of relative positions */
    bool bias_by_layer;    /* UMT5: each layer has one, not the first alone */
    /* An encoder of speech: numbers of a frame, and positions that it always has, each of two frames. 0: it
     * reads the prompt. */
    uint64_t mel_bins, source_positions;
    bool output_scaled; /* T5: what the head reads, where config.json ties it to the embeddings */
    /* A configuration alone: why its weights are not known all the same; NULL: they are, and `checkpoint` has
     * what the class declares. */
    const char *weights_unknown;
    bool dtype_assumed; /* it does not say of which type they are */
    /* Sizes that it leaves out though others state them: the class's defaults. More than there is room for
     * are only counted. */
    vr_assumed assumed[8];
    size_t n_assumed;
    /* What the class declares by the configuration; NULL when it is not understood. */
    const vr_declared *declared;
    size_t n_declared;
    uint64_t declared_parameters; /* each once; buffers are none */
    /* What published checkpoints have beside that: layers that predict further tokens. 0: none, or how they
     * are built is not known. */
    struct {
        uint64_t layers, parameters;
    } ahead;
    /* All layers, one sequence, full length, 2 bytes an element; of latent attention the short vectors. */
    uint64_t kv_bytes_per_token_16bit;
};

bool vr_param_is_state(uint8_t kind);  /* a buffer that checkpoints hold */
bool vr_param_is_buffer(uint8_t kind); /* one that they do not hold */
bool vr_param_is_stored(uint8_t kind); /* in checkpoints; buffers are made anew */

/* What transformers and others that expand it keep of a token for this layer, elements over all heads. */
uint64_t vr_layer_kv_elements(const vr_layer *l);
/* LATENT: what engines keep of a token that do not expand it, and beside that its index's keys. */
uint64_t vr_layer_latent_elements(const vr_layer *l);
uint64_t vr_layer_index_elements(const vr_layer *l);
/* Elements of a recurrent layer's states, one sequence. */
bool vr_layer_keeps_state(const vr_layer *l); /* beside its keys and values too (Falcon-H1, Zamba) */
uint64_t vr_layer_conv_elements(const vr_layer *l);
uint64_t vr_layer_state_elements(const vr_layer *l);

const vr_family *vr_families(size_t *n);
const vr_family *vr_family_find(vr_str model_type); /* also by a wrapper's name */
bool vr_family_wrapped(const vr_family *f, vr_str wrapper);
const vr_naming *vr_naming_of(const vr_family *f);
/* The next "word=value" of a cell; false at its end. */
bool vr_next_pair(vr_str *cell, vr_str *word, vr_str *value);
/* The module of a layer that has this role; VR_MODULE_COUNT: no such word. */
vr_module_role vr_module_role_of(vr_str word);

/* Which tensors belong together in reports: the parts of a model that consists of several by their folders
 * ("unet"); of one model "embeddings", "layer 0", ..., "final norm", "head", "vision
 * tower", other stacks of layers by their path ("encoder"), "other"; in this order. Also for architectures
 * that are not known. */
typedef struct vr_component {
    const char *name;
    uint64_t layer;           /* or UINT64_MAX */
    vr_dtype dtype;           /* of most of its bytes */
    uint64_t bytes, elements; /* parameters that its tensors stand for */
    uint32_t n_tensors;
} vr_component;
vram_status vr_model_components(const vram_model *m, vr_arena *a, vr_component **out, size_t *n);

#endif
