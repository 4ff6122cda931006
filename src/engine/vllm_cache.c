/* SPDX-License-Identifier: MIT
 * vLLM's cache: layers that keep alike are a kind; kinds that all keep every token are one group, others are
 * cut into groups of as many layers each, which draw blocks of one size from one pool. */
#include "engine/vllm_cache.h"

#define MOST_KINDS 8
#define PLAIN_BLOCK 16  /* CacheConfig.block_size on CUDA */
#define LATENT_BLOCK 64 /* FlashMLA; 32 or 64 of FlashInfer's, 128 of CUTLASS's kernel */
#define HYBRID_ALIGN 16 /* of attention's block beside recurrent layers */
#define INDEX_SCALE 4   /* bytes: one fp32 for the fp8 elements of an index's key */
#define SPARSE_FP8 656  /* fp8_ds_mla: 512 in fp8, 4 scales of 4 B, 64 rotated in 16 bits */

/* A kind of layer's cache. */
typedef struct kind {
    uint8_t attention;
    uint32_t window;
    uint64_t token; /* bytes of a token in one layer; 0: recurrent */
    uint64_t state; /* bytes of a sequence in one layer */
    uint64_t heard; /* positions of speech that it keeps, whatever the tokens; 0: it keeps tokens */
    uint64_t layers;
    uint64_t block, page; /* tokens and bytes of a block in one layer */
} kind;

typedef struct kinds {
    kind list[MOST_KINDS];
    size_t n;
    bool too_many;
} kinds;

/* ---- kinds ---- */

static void add(kinds *k, kind one)
{
    for (size_t i = 0; i < k->n; i++) {
        kind *x = &k->list[i];
        if (x->attention != one.attention || x->window != one.window || x->token != one.token ||
            x->state != one.state || x->heard != one.heard)
            continue;
        x->layers++;
        return;
    }
    k->too_many = k->too_many || k->n == MOST_KINDS;
    if (k->too_many)
        return;
    one.layers = 1;
    k->list[k->n++] = one;
}

static uint64_t width_of(const vram_workload *w)
{
    return vr_dtype_bits(w->dtype) / 8;
}

/* MLA's vector is one for keys and values; 656 bytes in fp8 where an index chooses
 * (backends/mla/flashmla_sparse.py).
 */
static uint64_t token_bytes(const vr_layer *l, const vr_kept *k, const vram_workload *w, bool fp8)
{
    if (fp8 && l->attention == VR_ATTENTION_LATENT && l->index_topk != 0)
        return SPARSE_FP8;
    return vr_mul_sat(vr_add_sat(k->keys, k->values), fp8 ? 1 : width_of(w));
}

/* The convolution's inputs but for the current one in the model's dtype. */
static uint64_t state_bytes(const vr_layer *l, const vram_workload *w, unsigned state_width)
{
    uint64_t conv = vr_mul_sat(l->conv_channels, vr_sub_floor(l->conv_taps, 1));
    return vr_add_sat(vr_mul_sat(conv, width_of(w)), vr_mul_sat(vr_layer_state_elements(l), state_width));
}

/* Of the recurrent state: what configurations of today's models say (mamba_ssm_cache_dtype). Silent, of the
 * gated delta rule and Nemotron-H fp32, of other Mambas the model's dtype (mamba_utils.py,
 * _mamba_state_dtype; NemotronHForCausalLMConfig). */
static unsigned state_width(const vram_model *m, const vram_workload *w, const vr_layer *l)
{
    static const char *const keys[] = { "mamba_ssm_cache_dtype", "mamba_ssm_dtype",
                                        "text_config.mamba_ssm_cache_dtype", "text_config.mamba_ssm_dtype" };
    vr_json v;
    for (size_t i = 0; m->checkpoint->has_config && i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (vr_json_get(m->checkpoint->config, keys[i], &v))
            return vr_json_str_is(v, "bfloat16") || vr_json_str_is(v, "float16") ? 2 : 4;
    }
    bool narrow = l->recurrent == VR_RECURRENT_MAMBA1 || l->recurrent == VR_RECURRENT_MAMBA2;
    bool own = m->family != NULL && vr_str_is(vr_str_of(m->family->model_type), "nemotron_h");
    return narrow && !own ? (unsigned)width_of(w) : 4;
}

/* A layer may keep a state beside keys and values (Falcon-H1). */
static void add_state(kinds *k, const vram_model *m, const vr_layer *l, const vram_workload *w)
{
    if (vr_layer_keeps_state(l))
        add(k,
            (kind){ .attention = VR_ATTENTION_RECURRENT, .state = state_bytes(l, w, state_width(m, w, l)) });
}

static void add_layer(kinds *k, const vr_layer *l, const vram_workload *w, const vr_vllm_settings *s)
{
    vr_kept kept = vr_layer_kept(l);
    kind one = { .attention = l->attention, .window = l->window };
    if (l->attention == VR_ATTENTION_NONE || l->attention == VR_ATTENTION_RECURRENT || l->kv_from != 0)
        return;
    if (s->no_hybrid && one.window != 0) {
        one.attention = VR_ATTENTION_FULL;
        one.window = 0;
    }
    one.token = token_bytes(l, &kept, w, s->fp8);
    if (one.token != 0)
        add(k, one);
    if (kept.index != 0)
        add(k, (kind){ .attention = VR_ATTENTION_LATENT, .token = kept.index + INDEX_SCALE });
}

/* CrossAttentionSpec; of T5, which it does not run, nothing. */
static void add_heard(kinds *k, const vram_model *m, const vr_layer *l, const vram_workload *w, bool fp8)
{
    uint64_t token = (uint64_t)l->cross_heads * ((uint64_t)l->key_dim + l->value_dim);
    if (m->source_positions != 0 && token != 0)
        add(k, (kind){ .attention = VR_ATTENTION_FULL,
                       .token = vr_mul_sat(token, fp8 ? 1 : width_of(w)),
                       .heard = m->source_positions });
}

static bool keeps_all(const kind *k)
{
    return k->attention == VR_ATTENTION_FULL || k->attention == VR_ATTENTION_LATENT;
}

/* Full attention of different widths is one type, in one group (UniformTypeKVCacheSpecs); so are windows of
 * one size. */
static bool one_type(const kinds *k)
{
    for (size_t i = 1; i < k->n; i++) {
        const kind *a = &k->list[0], *b = &k->list[i];
        bool alike = keeps_all(a) ? keeps_all(b) : a->attention == b->attention && a->window == b->window;
        if (!alike || a->state != 0 || b->state != 0 || a->heard != b->heard)
            return false;
    }
    return true;
}

/* ---- blocks of one sequence ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* kv_cache_interface.py, max_memory_usage_bytes of each kind. */
static uint64_t blocks_of(const kind *k, uint64_t tokens, uint64_t in_flight, unsigned states)
{
    switch (k->attention) {
    case VR_ATTENTION_SLIDING:
        return vr_cdiv(least(vr_add_sat(vr_sub_floor(k->window, 1), in_flight), tokens), k->block) + 1;
    case VR_ATTENTION_CHUNKED:
        return vr_cdiv(least(vr_add_sat(k->window, in_flight), tokens), k->block);
    case VR_ATTENTION_RECURRENT:
        return states;
    default:
        return vr_cdiv(k->heard != 0 ? k->heard : tokens, k->block);
    }
}

/* ---- pages ---- */

static uint64_t default_block(const kind *k)
{
    return k->attention == VR_ATTENTION_LATENT ? LATENT_BLOCK : PLAIN_BLOCK;
}

/* Attention's block is made so long that a page of it covers a state, and the state's page is padded to that
 * (platforms/interface.py). */
static void cover_states(kinds *k, uint64_t latent_align)
{
    uint64_t state = 0, token = 0, align = HYBRID_ALIGN, block = 0;
    for (size_t i = 0; i < k->n; i++) {
        const kind *x = &k->list[i];
        state = x->state > state ? x->state : state;
        token = x->token != 0 && (token == 0 || x->token < token) ? x->token : token;
        align = x->attention == VR_ATTENTION_LATENT ? latent_align : align;
    }
    if (state == 0 || token == 0)
        return;
    block = vr_mul_sat(align, vr_cdiv(state, vr_mul_sat(align, token)));
    for (size_t i = 0; i < k->n; i++) {
        kind *x = &k->list[i];
        if (x->token != 0 && block > x->block)
            x->block = block;
        if (x->token != 0)
            x->page = vr_mul_sat(x->block, x->token);
    }
}

/* unify_kv_cache_spec_page_size: smaller pages get longer blocks; states are padded. */
static const char *unify(kinds *k)
{
    uint64_t page = 0;
    for (size_t i = 0; i < k->n; i++)
        page = k->list[i].page > page ? k->list[i].page : page;
    for (size_t i = 0; i < k->n; i++) {
        kind *x = &k->list[i];
        if (x->token != 0 && (x->page == 0 || page % x->page != 0))
            return "its layers' pages cannot be made one size, which vLLM's cache wants";
        if (x->token != 0)
            x->block = vr_mul_sat(x->block, page / x->page);
        x->page = page;
    }
    return NULL;
}

static void fill_pages(kinds *k, uint64_t block)
{
    for (size_t i = 0; i < k->n; i++) {
        kind *x = &k->list[i];
        x->block = block != 0 ? block : default_block(x);
        x->page = x->state != 0 ? x->state : vr_mul_sat(x->block, x->token);
    }
}

/* ---- the two ways ---- */

static void one_group(vr_vllm_cache *out, const kinds *k, const vr_vllm_settings *s)
{
    const kind *first = &k->list[0];
    out->groups = 1;
    out->block = first->block;
    for (size_t i = 0; i < k->n; i++) {
        out->block_bytes = vr_add_sat(out->block_bytes, vr_mul_sat(k->list[i].page, k->list[i].layers));
        out->layers_of_a_group += k->list[i].layers;
    }
    out->blocks = blocks_of(first, out->context, s->in_flight, s->states);
    out->steady = vr_mul_sat(blocks_of(first, out->context, 1, s->states), out->block_bytes);
}

/* _get_kv_cache_groups_uniform_page_size */
static uint64_t group_size(const kinds *k)
{
    uint64_t fewest = UINT64_MAX, most = 0;
    for (size_t i = 0; i < k->n; i++) {
        fewest = least(fewest, k->list[i].layers);
        most = k->list[i].layers > most ? k->list[i].layers : most;
    }
    return 2 * most < 3 * fewest ? most : fewest;
}

static void many_groups(vr_vllm_cache *out, const kinds *k, const vr_vllm_settings *s)
{
    uint64_t size = group_size(k), after = 0;
    out->layers_of_a_group = size;
    out->block_bytes = vr_mul_sat(k->list[0].page, size);
    out->block = UINT64_MAX;
    for (size_t i = 0; i < k->n; i++) {
        const kind *x = &k->list[i];
        uint64_t groups = vr_cdiv(x->layers, size);
        out->groups += groups;
        out->blocks =
            vr_add_sat(out->blocks, vr_mul_sat(groups, blocks_of(x, out->context, s->in_flight, s->states)));
        after = vr_add_sat(after, vr_mul_sat(groups, blocks_of(x, out->context, 1, s->states)));
        if (x->token != 0)
            out->block = least(out->block, x->block);
    }
    out->steady = vr_mul_sat(after, out->block_bytes);
}

static uint64_t bytes_of_a_token(const kinds *k)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < k->n; i++)
        sum = vr_add_sat(sum, k->list[i].heard != 0 ? 0 : vr_mul_sat(k->list[i].token, k->list[i].layers));
    return sum;
}

void vr_vllm_cache_of(vr_vllm_cache *out, const vram_model *m, const vram_workload *w,
                      const vr_vllm_settings *s)
{
    kinds k = { .n = 0 };
    *out = (vr_vllm_cache){ .sequences = w->sequences, .context = w->context };
    for (uint64_t i = 0; i < m->n_layers; i++) {
        add_state(&k, m, &m->layers[i], w);
        add_layer(&k, &m->layers[i], w, s);
        add_heard(&k, m, &m->layers[i], w, s->fp8);
    }
    if (k.too_many)
        out->why = "its layers keep in more ways than vLLM's cache has been worked out for";
    if (out->why != NULL || k.n == 0)
        return;
    fill_pages(&k, s->block);
    if (!one_type(&k)) {
        cover_states(&k, s->latent_align != 0 ? s->latent_align : HYBRID_ALIGN);
        out->why = unify(&k);
        if (out->why != NULL)
            return;
        many_groups(out, &k, s);
    } else {
        one_group(out, &k, s);
    }
    out->token_bytes = bytes_of_a_token(&k);
    out->bytes = vr_mul_sat(vr_mul_sat(out->blocks, out->block_bytes), w->sequences);
    out->steady = vr_mul_sat(out->steady, w->sequences);
}

uint64_t vr_vllm_pool_tokens(const vr_vllm_cache *c, const vram_workload *w, uint64_t pool)
{
    uint64_t blocks = c->block_bytes != 0 ? pool / c->block_bytes : 0;
    return c->blocks != 0 ? vr_mul_div(blocks, w->context, c->blocks) : 0;
}
