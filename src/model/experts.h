/* SPDX-License-Identifier: MIT
 * Mixtures of experts: which settings they have, which layers, and what such a block declares. Special kinds
 * with another attention use it for their MLPs.
 *
 *     vr_read_experts(r, vr_moe_of("deepseek_v3"))      m->layers: which have experts, how many, how wide
 *     vr_declare_experts_block(d, l)                    at d->path "...layers.N.": router, experts, shared */
#ifndef VR_EXPERTS_H
#define VR_EXPERTS_H

#include "model/declare.h"
#include "model/reading.h"

#define VR_MAX_EXPERTS 65536

/* How a token's experts are chosen. */
typedef enum vr_router_kind {
    VR_ROUTER_SOFTMAX,          /* softmax over all in fp32, the best of it */
    VR_ROUTER_TOP_SOFTMAX,      /* the best, softmax over these */
    VR_ROUTER_WIDE_TOP_SOFTMAX, /* ... in fp32; the shared experts are the layer's own */
    VR_ROUTER_SIGMOID,          /* sigmoid in fp32, a correction added, groups, the best of the best groups */
    VR_ROUTER_TOP_SIGMOID,      /* the best, sigmoid of these, the others 0 */
    VR_ROUTER_CORRECTED,        /* softmax in fp32, a correction added, the best of it */
    VR_ROUTER_GROUPS,           /* softmax in the model's dtype, the best of the best groups */
    VR_ROUTER_SCALED, /* softmax over all in fp32, the best of it times a number; may choose groups */
    VR_ROUTER_BESIDE, /* as SOFTMAX of what it normalises, times numbers of the experts; beside an MLP */
    VR_ROUTER_WIDE_SOFTMAX, /* a router in fp32 whatever the model is, softmax over all, the best of it */
    VR_ROUTER_OTHER         /* no tape for it */
} vr_router_kind;

typedef enum vr_experts_form {
    VR_EXPERTS_LIST,      /* linear layers of each expert: "experts.7.up_proj.weight" */
    VR_EXPERTS_FUSED,     /* of all experts in one: [experts, 2 x ffn, hidden] and [experts, hidden, ffn] */
    VR_EXPERTS_TRANSPOSED /* of all, inputs first: [experts, hidden, 2 x ffn] and [experts, ffn, hidden] */
} vr_experts_form;

/* Which layers have experts. */
typedef enum vr_moe_where {
    VR_MOE_ALL,
    VR_MOE_STEP,        /* decoder_sparse_step, mlp_only_layers */
    VR_MOE_FIRST_DENSE, /* first_k_dense_replace; of these moe_layer_freq, a number or a list */
    VR_MOE_TYPES,       /* mlp_layer_types; without it as FIRST_DENSE */
    VR_MOE_INTERLEAVED, /* moe_layers, interleave_moe_layer_step */
    VR_MOE_RANGE        /* moe_layer_start_index, moe_layer_end_index, moe_layer_interval */
} vr_moe_where;

/* Where what the router adds before it chooses stands. */
typedef enum vr_correction {
    VR_CORRECTION_NONE,
    VR_CORRECTION_OF_ROUTER, /* a buffer of the router, behind its weight */
    VR_CORRECTION_LAST,      /* a buffer of the block, behind all its modules */
    VR_CORRECTION_FIRST      /* a parameter [1, experts] in a module of its own, before the router */
} vr_correction;

/* Names without the layer's; those of linear layers without ".weight". */
typedef struct vr_moe {
    const char *model_type;
    uint8_t form, router, where, correction;
    const char *block;         /* "mlp." */
    const char *block_5;       /* from transformers 5 on; NULL: the same */
    const char *router_name;   /* "gate" */
    const char *router_name_5; /* NULL: the same */
    const char *gate, *up, *down;
    bool down_second;   /* assigned gate, down, up */
    bool clamped;       /* gates and ups (GptOssExperts) */
    bool biased;        /* router and experts */
    bool router_last;   /* assigned behind the experts; _5: from transformers 5 on */
    bool router_last_5; /* ... */
    const char *correction_name;
    const char *shared;        /* NULL: none */
    const char *shared_key;    /* its setting; NULL: as wide as intermediate_size */
    bool shared_is_count;      /* of experts, not their width together */
    const char *shared_gate;   /* a weight of its own for each token; NULL: none */
    const char *ffn_key;       /* width of an expert; NULL: intermediate_size */
    const char *dense_ffn_key; /* of layers without experts; NULL: intermediate_size */
    /* Defaults of the configuration class; 0: there is none. */
    uint32_t experts, used, ffn, shared_default, first_dense, step;
    uint32_t dense_ffn;           /* of dense_ffn_key; 0: twice intermediate_size */
    uint32_t groups, groups_used; /* n_group and topk_group; 0: one */
    /* What of a token's weights stays in fp32: its router does not narrow them again. */
    bool wide_weights;   /* up to transformers 4 */
    bool wide_weights_5; /* from 5 on */
    bool loops_all;      /* over all experts, hit or not, up to transformers 4 */
    bool returns_logits; /* the block returns what its router computed, up to transformers 4 */
    bool shared_first_5; /* the shared experts run before the router, from 5 on */
    bool normalised;     /* norm_topk_prob when the config is silent, or always where the class reads none */
    const char *source;
} vr_moe;

const vr_moe *vr_moe_of(const char *model_type); /* NULL: none such */

/* Settings of the experts into m->layers, which are there already: mlp, ffn, experts, ... of each, and the
 * sums of the model. Not understood when they contradict each other. */
vram_status vr_read_experts(vr_reading *r, const vr_moe *moe);

/* A list of one 0 or 1 for each layer; another number of them is not understood. */
vram_status vr_config_flags(vr_reading *r, const char *key, vr_json list, bool *with);
/* MiniMax: rotary_dim, a number of its own, into all layers. */
vram_status vr_read_rotary_dim(vr_reading *r);

void vr_declare_experts_block(vr_declaring *d, const vr_layer *l);
/* The block of a layer whatever its kind: experts or a dense MLP. */
void vr_declare_any_mlp(vr_declaring *d, const vr_layer *l);

#endif
