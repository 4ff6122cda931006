/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: the rules of a version, and one forward pass being written on a tape.
 *
 * Every function below writes the storages of one module in the order in which that module allocates and
 * frees them. Source of truth: modeling_*.py, cache_utils.py, masking_utils.py and
 * integrations/sdpa_attention.py of transformers, and recorded runs of it (tests/oracle/facts), which
 * tests/engine/test_oracle.c holds against these tapes event by event. */
#ifndef VR_PASS_H
#define VR_PASS_H

#include "engine/kv_rules.h"

/* From this version of transformers on, until the next row. */
typedef struct vr_rules {
    unsigned major, minor;
    bool appends; /* the cache keeps the first keys and values without a copy, and all of them: no window */
    bool contiguous; /* sdpa copies queries, keys and values into contiguous storages */
    bool gqa;        /* sdpa can be told of grouped queries, instead of repeating keys and values */
    bool packs_gqa;  /* ... and folds the groups of a single token into its queries when there is a mask */
    bool warms_up;   /* loading with a device map allocates the whole model once (caching_allocator_warmup) */
    bool warmup_of_total;  /* ... at most the card's total less 1.2 GiB; false: what is free less 1.2 GiB */
    bool warmup_with_head; /* ... and counts the head of an untied model */
    bool dtype_auto;       /* loads in the checkpoint's dtype unless told otherwise; false: fp32 */
    bool natural_order; /* a device map loads all files in natural order; false: file by file in byte order */
    bool two_inv_freq;  /* a rotary module has a second buffer, original_inv_freq */
    bool window_tensor; /* a sliding layer of the cache keeps its window in a tensor on the card */
    bool plain_masks;   /* masks are built by broadcasting, not by vmap */
    bool positions_added; /* position ids are an arange plus the past length */
    bool gemma2_scales;   /* gemma2 scales inside its embedding module */
    bool rotary_product;  /* rotary angles are an elementwise product; false: a matrix product in fp32 */
    bool opt_unmasked;    /* opt does not take the ones that it counts for a mask of padding */
    bool gemma2_eager;    /* gemma2 refuses sdpa, for it cannot cap scores */
    bool own_maps; /* device maps are made by transformers itself, which asks quantisers for sizes; false: by
                      accelerate */
    bool latent_cache; /* latent attention is cached as its short vectors; false: keys and values of all
                          heads */
    bool sparse_latent_cache; /* ... of sparse attention too */
    bool balance_by_all;      /* the largest layer counts for the balance of GPUs; false: the first */
    bool balance_by_largest;  /* the largest leaf counts for the balance of GPUs; false: the mean of all */
    bool fused_experts;       /* experts are one tensor, and run by torch's grouped product */
    bool norms_widened;       /* nemotron_h widens the weights of its norms */
    bool ssm_products;        /* Mamba-2's scan is made of matrix products; false: of sums of products */
    bool groups_inside;       /* the delta rule itself repeats queries and keys for each value head */
    bool masks_experts;    /* what no expert of this process takes is masked in copies, be there any or not */
    bool returns_features; /* what a vision tower gave is returned with the logits */
    bool wide_routers;     /* weights of routers with a correction are kept in 32 bits */
    bool leaves_out;       /* layers that use others' keys and values see the last token only */
    bool masks_rarely;     /* ... only where experts are spread over processes; the loop counts one more */
    bool umt5_asks;        /* UMT5 scales what its head reads where its configuration ties it; else always */
} vr_rules;

/* From this version of PyTorch on, until the next row (ATen/cuda/CublasHandlePool.cpp). */
typedef struct vr_torch_rules {
    unsigned major, minor;
    bool gqa;             /* scaled_dot_product_attention has enable_gqa */
    bool lt_stays;        /* cublasLt keeps its workspace; false: one for each call */
    bool blackwell_large; /* 32 MiB for compute capability 10 and 12 as well */
    bool unified;         /* cublasLt works in cuBLAS's workspace */
    bool by_call;         /* no workspace is kept at all: each call has its own */
} vr_torch_rules;

const vr_rules *vr_rules_of(const vram_workload *w);
const vr_torch_rules *vr_torch_rules_of(const vram_workload *w);
bool vr_version_traced(const vram_workload *w); /* recorded runs of this very version exist */
vram_status vr_transformers_version(vram_workload *w, vr_str text);

/* ---- transformers_options.c ---- */

#define VR_TRANSFORMERS_OPTIONS 23
extern const struct vr_option_row *const vr_transformers_options[VR_TRANSFORMERS_OPTIONS];

/* ---- a pass ---- */

typedef uint32_t vr_block;
#define VR_NONE UINT32_MAX
#define VR_ELSEWHERE (UINT32_MAX - 1) /* in another memory than the one that is planned */

/* What happens in a layer, for labels: enumerator, name after "model.layers.N." */
#define VR_STEPS(X)                                                                                          \
    X(NORM_IN, "input_layernorm output")                                                                     \
    X(Q, "self_attn.q_proj output")                                                                          \
    X(Q_SMALL, "self_attn.q_a_proj output")                                                                  \
    X(KV_SMALL, "self_attn.kv_a_proj_with_mqa output")                                                       \
    X(KV, "self_attn.kv_b_proj output")                                                                      \
    X(QUERY, "self_attn queries")                                                                            \
    X(KEY, "self_attn keys")                                                                                 \
    X(K, "self_attn.k_proj output")                                                                          \
    X(V, "self_attn.v_proj output")                                                                          \
    X(QKV, "self_attn.qkv_proj output")                                                                      \
    X(QK_NORM, "self_attn query and key norm")                                                               \
    X(ROPE, "self_attn rotary embedding")                                                                    \
    X(KEYS, "key cache")                                                                                     \
    X(VALUES, "value cache")                                                                                 \
    X(WHOLE_KEYS, "self_attn keys from the cache")                                                           \
    X(WHOLE_VALUES, "self_attn values from the cache")                                                       \
    X(INDEX, "self_attn.indexer")                                                                            \
    X(MIXER_IN, "mixer projections")                                                                         \
    X(CONV, "mixer convolution")                                                                             \
    X(DECAY, "mixer decay")                                                                                  \
    X(SCAN, "mixer scan")                                                                                    \
    X(MIXER_NORM, "mixer norm")                                                                              \
    X(MIXER_OUT, "mixer output")                                                                             \
    X(GATE_OF_OUTPUT, "self_attn output gate")                                                               \
    X(CONV_STATE, "convolution state")                                                                       \
    X(STATE, "recurrent state")                                                                              \
    X(INDEX_KEYS, "index key cache")                                                                         \
    X(REPEATED, "self_attn repeated keys and values")                                                        \
    X(SCORES, "self_attn scores")                                                                            \
    X(ATTENTION, "self_attn attention output")                                                               \
    X(O, "self_attn.o_proj output")                                                                          \
    X(NORM_ATTENTION, "post_attention_layernorm output")                                                     \
    X(MIDDLE, "residual after attention")                                                                    \
    X(NORM_CROSS, "norm before the attention to the encoder")                                                \
    X(NORM_BEFORE, "pre_feedforward_layernorm output")                                                       \
    X(NORM_AFTER, "post_feedforward_layernorm output")                                                       \
    X(GATE, "mlp.gate_proj output")                                                                          \
    X(ACT, "mlp activation")                                                                                 \
    X(UP, "mlp.up_proj output")                                                                              \
    X(GATE_UP, "mlp.gate_up_proj output")                                                                    \
    X(PRODUCT, "mlp.down_proj input")                                                                        \
    X(DOWN, "mlp.down_proj output")                                                                          \
    X(ROUTER, "mlp router")                                                                                  \
    X(ROUTED, "mlp tokens of each expert")                                                                   \
    X(EXPERT_IN, "mlp.experts input")                                                                        \
    X(EXPERT_GATE, "mlp.experts gate and up")                                                                \
    X(EXPERT_ACT, "mlp.experts activation")                                                                  \
    X(EXPERT_DOWN, "mlp.experts down")                                                                       \
    X(EXPERTS, "mlp.experts output")                                                                         \
    X(SHARED, "mlp shared experts")                                                                          \
    X(SIDE, "per_layer_input")                                                                               \
    X(FINAL, "last norm")                                                                                    \
    X(OUTPUT, "output")

typedef enum vr_step {
#define X(id, name) VR_STEP_##id,
    VR_STEPS(X)
#undef X
        VR_STEP_COUNT
} vr_step;

/* And outside the layers */
#define VR_PLACES(X)                                                                                         \
    X(IDS, "input ids")                                                                                      \
    X(EMBEDDING, "model.embed_tokens output")                                                                \
    X(SIDE, "model.embed_tokens_per_layer")                                                                  \
    X(POSITIONS, "position ids")                                                                             \
    X(MASK, "attention mask")                                                                                \
    X(ROTARY, "model.rotary_emb output")                                                                     \
    X(BIAS, "bias of relative positions")                                                                    \
    X(WINDOW, "sliding window of the cache")                                                                 \
    X(LENGTH, "length and place in the cache")                                                               \
    X(PACKING, "packing of keys or values")                                                                  \
    X(LEAVING, "keys or values on their way to the host")                                                    \
    X(CACHE, "update of the cache")                                                                          \
    X(FINAL_NORM, "model.norm output")                                                                       \
    X(LOGITS, "lm_head output")                                                                              \
    X(BEAMS, "scores of beams")                                                                              \
    X(DRAFTS, "scores of drafts")                                                                            \
    X(TOKENS, "tokens of beams")                                                                             \
    X(WORKSPACE, "cuBLAS workspace")                                                                         \
    X(LT_WORKSPACE, "cublasLt workspace")                                                                    \
    X(RANDOM, "random state of the attention kernel")                                                        \
    X(PADDED_MASK, "attention mask in rows of 16 bytes")                                                     \
    X(SOLVER, "addresses of a batched solver")                                                               \
    X(STATISTICS, "statistics of a normalisation")                                                           \
    X(KERNEL, "sums of the attention kernel")                                                                \
    X(PIXELS, "pixel values")                                                                                \
    X(SPEECH, "frames of speech")                                                                            \
    X(HEARD, "model.encoder convolutions and positions")                                                     \
    X(FEATURES, "image features")                                                                            \
    X(SCATTERED, "places of image features")                                                                 \
    X(MOVED, "hidden states from another device")                                                            \
    X(DEQUANTISED, "weight in 16 bits")

typedef enum vr_place {
#define X(id, name) VR_PLACE_##id,
    VR_PLACES(X)
#undef X
        VR_PLACE_COUNT
} vr_place;

/* Keys or values in few bits, with a scale and a shift for each group of them. */
typedef struct vr_packed {
    vr_block data, scale, shift;
} vr_packed;

/* Keys and values of one layer of one group of sequences. */
typedef struct vr_kv {
    vr_block k, v;
    vr_block index;       /* keys of its index, or VR_NONE */
    vr_block window;      /* the tensor that holds its window or its length, or VR_NONE */
    vr_block conv, state; /* of a recurrent layer, instead of keys and values */
    vr_packed packed[2];  /* of a quantised cache, of which k and v are the last tokens */
    uint64_t packed_tokens;
} vr_kv;

#define VR_MOST_SEEN 16

/* What a search with beams holds, of all beams together; all VR_NONE without one. */
typedef struct vr_search {
    vr_block ids, places;    /* the repeated prompts and their positions, until the search is over */
    vr_block more_places;    /* those that grow with each token */
    vr_block input;          /* the prompt's positions, while the model runs */
    vr_block read, running;  /* tokens of the beams that ran before, and that run */
    vr_block finished, best; /* of the finished ones; of twice as many as there are beams */
    vr_block logits, sum;    /* scores of the last call in 32 bits, and those added up */
} vr_search;

/* A group of sequences that are computed together. */
typedef struct vr_group {
    uint64_t sequences, past;
    vr_kv *layers;
    vr_search search;
    vr_block scores[2]; /* of drafts, in 32 bits; or VR_NONE */
    vr_block logits;
    vr_block seen[VR_MOST_SEEN]; /* of a vision tower, returned with the logits */
    size_t n_seen;
    bool started;   /* the cache exists */
    uint8_t stream; /* on which an offloaded cache comes back */
} vr_group;

typedef struct vr_pass {
    vr_tape *tape;
    vr_arena *arena;
    const vram_model *m;
    const vram_workload *w;
    const vr_device_facts *device;
    const vr_rules *rules;
    const vr_torch_rules *torch;
    unsigned width;    /* bytes of an activation */
    uint32_t *labels;  /* [layer * VR_STEP_COUNT + step]; 0: not made yet */
    uint32_t *brought; /* the same, of weights that are brought to the card */
    uint32_t places[VR_PLACE_COUNT];
    vr_block workspace, lt_workspace;
    bool has_kernels;
    const struct vr_packed_run *packed; /* what runs of weights that stay packed; NULL: they do not */
    struct vr_packed_shape *shapes;     /* then: of all layers; of each, where its own begin */
    uint32_t *shapes_of;
    vr_block *stored; /* by the checkpoint's tensors: those that are loaded packed and unpacked later */
    /* Of several memories the one that the tape is of, and whether what happens now happens in another one:
     * then nothing is written, and what is taken is VR_ELSEWHERE. */
    const vr_placement *placement; /* NULL: there is only one */
    uint16_t gpu;                  /* where it happens */
    bool elsewhere;
    bool brings; /* the weights of what runs now are brought to the card for it (accelerate's offloading) */
    /* of the pass being written: */
    vr_group *group;
    uint64_t batch, q, rows; /* sequences, new tokens of each, their product */
    uint64_t layer;
    const char *prefix;             /* of all labels of its layers; or NULL */
    struct vr_assistant *assistant; /* that drafts for this model; or NULL */
    vr_block full_mask, sliding_mask;
    vr_block router_output; /* what a block of experts returns beside its result, until the layer returns */
    vr_block mlp_input;     /* normalised, the MLP's to drop early; VR_NONE: it is the layer's own input */
    uint32_t seen_label;    /* while a vision tower runs: what all that is taken is called; else 0 */
    struct vr_sight *sight; /* what it gave to this pass; NULL: no pictures in it */
    vr_block deepened;      /* a layer's output to which its features were added; or VR_NONE */
    vr_block side;          /* what the layers' own embeddings gave, for all layers; or VR_NONE */
    vr_block beside[4];     /* what experts beside an MLP leave in the layer's variables */
    uint64_t skipped;       /* tokens of each sequence that the layers from here on leave out */
    vr_block chosen, chosen_now; /* tokens that an index chose: the last layer's, this one's; or VR_NONE */
} vr_pass;

/* ---- pass.c ---- */

vram_status vr_pass_open(vr_pass *p);
uint32_t vr_pass_label(vr_pass *p, vr_step step);
uint32_t vr_place_label(vr_pass *p, vr_place place);
vr_str vr_step_module(vr_step step); /* ".gate_proj" of "mlp.gate_proj output" */
/* In the layer that p->layer names. */
vr_block vr_take(vr_pass *p, uint64_t bytes, vr_item item, vr_step step);
vr_block vr_take_at(vr_pass *p, uint64_t bytes, vr_item item, vr_place place);
vr_block vr_take_labelled(vr_pass *p, uint64_t bytes, vr_item item, uint32_t label);
void vr_drop(vr_pass *p, vr_block block); /* VR_NONE, VR_ELSEWHERE: nothing */
void vr_drop_all(vr_pass *p, const vr_block *list, size_t n);
/* A variable is assigned anew: what it named goes once the next is there. */
void vr_replace(vr_pass *p, vr_block *x, vr_block next);
/* What follows happens on this device: a GPU, or what brings weights to the first one. */
void vr_pass_on(vr_pass *p, uint16_t device);
uint16_t vr_pass_gpu(const vr_pass *p, uint16_t device); /* the GPU that computes what lies there */
/* A module's own weights, brought to the card until it has run; VR_NONE where they lie there. step: what it
 * makes, in the layer that p->layer names. */
vr_block vr_bring(vr_pass *p, uint64_t bytes, vr_step step);
vr_block vr_bring_at(vr_pass *p, uint64_t bytes, vr_place place);
/* What a matrix product takes beside its result, before and after the kernel; `biased` ones run in cublasLt.
 */
void vr_gemm(vr_pass *p, bool biased);
/* A linear layer in -> out over p->rows; its result. */
vr_block vr_linear(vr_pass *p, uint64_t in, uint64_t out, bool biased, vr_item item, vr_step step);
const vr_layer *vr_layer_of(const vr_pass *p);            /* p->layer */
bool vr_has_window(const vr_layer *l);                    /* its cache forgets what lies before a window */
uint64_t vr_window(const vr_pass *p);                     /* tokens, of p->layer; 0: full attention */
uint64_t vr_kv_length(const vr_pass *p, uint64_t window); /* keys that this pass attends to */

/* ---- norms.c ---- */

/* Over `rows` rows of `size`; the input stays. */
vr_block vr_norm(vr_pass *p, uint64_t rows, uint64_t size, vr_step step);
vr_block vr_norm_at(vr_pass *p, uint64_t rows, uint64_t size, vr_place place);
/* A norm without a weight, where the class has such ones (gemma4, llama4). */
vr_block vr_norm_bare(vr_pass *p, uint64_t rows, uint64_t size, vr_step step);
/* weight * normalised; *variance is held by a variable of the module. */
vr_block vr_norm_kept(vr_pass *p, uint64_t rows, uint64_t size, vr_step step, vr_block *variance);

/* ---- learned.c ---- */

/* What the model's variables hold of learned positions until it returns. */
typedef struct vr_learned {
    vr_block list[4];
    size_t n;
} vr_learned;

void vr_learned_ones(vr_pass *p, vr_learned *l);
void vr_learned_count(vr_pass *p, vr_learned *l);
vr_block vr_learned_add(vr_pass *p, vr_learned *l); /* the first hidden states */
vr_block vr_learned_mask(vr_pass *p);               /* of early versions; or VR_NONE */

/* ---- rotary.c ---- */

typedef struct vr_rotated {
    vr_block q, k;
    vr_block kept[2]; /* until the attention returns */
} vr_rotated;

/* Of the layer's queries and keys, which stay; keys become `item`. */
vr_rotated vr_rotate(vr_pass *p, vr_item item);
/* Of `heads` heads alone, as VR_ROPE_HALF. */
vr_block vr_rotate_one(vr_pass *p, uint64_t heads, vr_item item);
bool vr_rotary_packs(uint8_t rope);   /* the results lie head by head, not token by token */
bool vr_rotary_is_wide(uint8_t rope); /* cos and sin are not narrowed */

/* ---- rotary_tables.c ---- */

/* One table of `columns`; *sin VR_NONE where both are in one. */
void vr_rotary_table(vr_pass *p, uint64_t columns, vr_block *cos, vr_block *sin);
/* Columns of the table of sliding layers, or of the others. */
uint64_t vr_table_columns(const vram_model *m, bool sliding);

/* ---- blocks.c ---- */

vr_block vr_mlp(vr_pass *p); /* over p->rows */
/* The activation of what the MLP's first product gave, which stays. */
vr_block vr_activate(vr_pass *p);

/* ---- chunks.c ---- */

vr_block vr_causal_in_chunk(vr_pass *p, uint64_t kv);

/* ---- alibi.c: BLOOM ---- */

/* Biases of all heads; *held until the model returns. */
vr_block vr_alibi(vr_pass *p, vr_block *held);
/* A layer; *weights: what attention returned, held until the next one returns. */
vr_block vr_alibi_layer(vr_pass *p, vr_block *weights);

/* ---- beside.c: Gemma 4 ---- */

/* From the embeddings: what each layer reads beside its input, of all layers; or VR_NONE. */
vr_block vr_side_inputs(vr_pass *p);
/* A layer's output with its own part of that; what it was belongs to the caller. */
vr_block vr_side_add(vr_pass *p);
/* The MLP's result `fed` and that of experts on the same input, added up; *weights: what `_` names. */
vr_block vr_experts_beside(vr_pass *p, vr_block fed, vr_block *weights);
/* Where the layers begin that only read what others keep, all tokens but the last are left out. */
void vr_leave_out(vr_pass *p);

/* ---- attention.c ---- */

/* The projections, the cache and the kernel; *probabilities stay until the layer returns. Drops `normed`,
 * which may be VR_NONE. */
vr_block vr_attention(vr_pass *p, vr_block normed, vr_block *probabilities);

void vr_append(vr_pass *p); /* a layer without a window: its cache with the new keys and values */
/* Queries of all heads times a factor of their positions. */
void vr_scale_query(vr_pass *p, vr_block *q);

/* ---- beams.c ---- */

uint64_t vr_beams(const vram_workload *w); /* of each sequence, at least 1 */
/* Before a call of the model over q tokens. */
void vr_beams_feed(vr_pass *p, vr_group *g, uint64_t q);
/* After a call of the model: takes its logits, and puts the cache in the order of the beams that go on. */
void vr_beams_step(vr_pass *p, vr_group *g);
void vr_beams_end(vr_pass *p, vr_group *g);

/* ---- latent.c ---- */

/* What this version's cache keeps of a token in this layer. */
vr_kept vr_kept_of(const vr_layer *l, const vr_rules *rules);
/* As vr_attention, of a layer of latent attention. */
vr_block vr_attention_latent(vr_pass *p, vr_block normed, vr_block *probabilities);

/* ---- recurrent.c ---- */

/* The mixer of a recurrent layer. Drops `normed`. */
vr_block vr_mixer_recurrent(vr_pass *p, vr_block normed);

/* ---- kernels.c ---- */

typedef struct vr_heads {
    uint64_t q, kv, groups;          /* numbers of heads; query heads that share one key head */
    uint64_t size, value, kv_tokens; /* size of queries and keys, of values */
    bool packed;                     /* queries lie head by head, not token by token */
    bool inside;    /* ... or within a wider storage, so that not even those of single tokens are one batch */
    bool scattered; /* values are a part of something wider: no batch of matrices over several sequences */
    bool fresh;     /* keys and values lie token by token, as their projections left them */
    vr_block mask;
    bool biased;   /* a bias of each head's scores beside it, the same for all sequences */
    bool permuted; /* ... which is a view, whose last dimension is not contiguous */
    bool sinks;    /* a logit more for each query, which no value answers */
} vr_heads;

vr_block vr_kernel_eager(vr_pass *p, const vr_heads *h, vr_block *probabilities);
vr_block vr_kernel_sdpa(vr_pass *p, const vr_heads *h);
vr_block vr_kernel_flash(vr_pass *p, const vr_heads *h); /* the flash_attn package */
/* Whether sdpa and this pass take a kernel that recorded runs cover on this card. */
bool vr_sdpa_traced(const vram_workload *w, const vram_model *m, const vr_device_facts *d);

/* ---- forward.c ---- */

/* One call of the model on q new tokens of each sequence of the group; its logits replace the group's. */
void vr_forward(vr_pass *p, vr_group *g, uint64_t q);

/* The mask that eager attention adds: of every sequence, each of p->q tokens against kv ones. */
vr_block vr_added_mask(vr_pass *p, uint64_t kv);

/* ---- tower.c, tower_join.c ---- */

/* What a vision tower gave, until the model returns. */
typedef struct vr_sight {
    vr_block features;                 /* one for each token of a picture */
    vr_block deep[VR_MOST_SEEN], last; /* added behind the first layers; the last hidden states */
    size_t n_deep;
    vr_block held[2]; /* what a variable of the model names */
    uint64_t tokens;  /* features of all pictures of the pass */
} vr_sight;

/* Pixels on the card before the first pass: of `sequences` sequences. */
vr_block vr_pixels(vr_pass *p, uint64_t sequences);
bool vr_tower_runs(const vram_model *m); /* its tape is known */
/* Why not with these settings; or NULL. */
const char *vr_no_look(const vram_model *m, const vram_workload *w);
/* For limits: of a picture; the widest of what a patch becomes, in elements. */
uint64_t vr_patches(const vram_workload *w);
uint64_t vr_patch_width(const vram_model *m);
/* The tower over all pictures of the pass. */
void vr_look(vr_pass *p, vr_sight *out);
/* That, and its features in the places of their tokens: the embeddings, anew. */
vr_block vr_see(vr_pass *p, vr_block embeddings, vr_sight *s);
/* Behind a layer: its output with features added; *old is kept until the next one returns. */
vr_block vr_deepen(vr_pass *p, vr_block x, vr_block *old);
void vr_sight_end(vr_pass *p);                /* the model returns */
void vr_forget_seen(vr_pass *p, vr_group *g); /* what it returned is dropped */

/* ---- forward_encoder.c ---- */

typedef struct vr_encoded {
    vr_block hidden, pooled;
} vr_encoded;

/* One call of an encoder on `tokens` of each sequence; what it returns is the caller's. */
vr_encoded vr_encode(vr_pass *p, uint64_t sequences, uint64_t tokens);

/* ---- tapes.c ---- */

/* Why nothing is known of what this model computes; NULL: it is. */
const char *vr_no_tape(const vram_model *m, const vram_workload *w);
/* Why not even what its cache keeps; NULL: it is. */
const char *vr_no_cache(const vram_model *m, const vram_workload *w);

/* ---- held.c ---- */

/* Recorded runs of this class and kind of attention agree with its tape. */
bool vr_family_held(const vram_model *m, const vram_workload *w);
/* Not only the decoder in it. */
bool vr_whole_held(const vram_model *m, const vram_workload *w);

/* ---- moves.c: between memories ---- */

/* What a layer is given beside the hidden states. */
typedef struct vr_given {
    vr_block full_mask, sliding_mask, positions, cos[2], sin[2];
} vr_given;

typedef struct vr_copies {
    vr_block list[8];
    size_t n;
} vr_copies;

/* What follows happens there, as vr_pass_on; p->gpu is set. */
void vr_go_to(vr_pass *p, uint16_t device);
/* Where the ends of the model lie; alone, all is on one. */
vr_placement vr_ends(const vr_pass *p);
/* A copy on this card of what lies on another one; VR_NONE: there is nothing to copy. from: VR_NONE, there is
 * no such thing. */
vr_block vr_sent(vr_pass *p, vr_block from, uint16_t lies, uint64_t bytes, vr_item item, vr_place place);
void vr_keep_copy(vr_copies *c, vr_block block);
/* All that a layer is given beside the hidden states; its masks become those of the pass. */
void vr_carry(vr_pass *p, const vr_given *g, vr_copies *c);
void vr_drop_copies(vr_pass *p, vr_copies *c);

/* ---- parameters.c ---- */

/* Rotary tables: bit 0 for full attention (or all), bit 1 for sliding layers. */
unsigned vr_rotary_tables(const vram_model *m, const vr_rules *rules);

/* ---- limits.c ---- */

vram_status vr_check_limits(const vr_pass *p);

#endif
