/* SPDX-License-Identifier: MIT
 * A checkpoint that is no GGUF file yet: what llama.cpp's converter would write of it, in 16 bits, on one
 * card with all layers there. Sums only.
 *
 * Source: llama.cpp b10470, convert_hf_to_gguf.py (one-dimensional tensors stay in 32 bits),
 * src/llama-model.cpp and src/llama-kv-cache*.cpp (which layers slide, how many cells they have). */
#include "engine/llamacpp.h"

#include <string.h>

#define ALIGNMENT 128
#define ROW_PADDING 512
#define REST                                                                                                 \
    "of a model that has yet to be converted neither the compute buffer nor the pool of the kernels is "     \
    "known"

/* ---- what lies on the card ---- */

typedef struct placing {
    const vram_model *m;
    const vr_lm_params *p;
    uint64_t first; /* layer on the card; the output is one more */
} placing;

/* Rows of blocks are filled up to ROW_PADDING elements, once at a tensor's end. */
static uint64_t row_bytes(vr_dtype t, uint64_t n)
{
    return vr_mul_sat(vr_cdiv(n, vr_dtype_block(t)), vr_dtype_block_bytes(t));
}

static uint64_t row_filling(vr_dtype t, uint64_t row)
{
    bool fills = vr_dtype_block(t) > 1 && row % ROW_PADDING != 0;
    return fills ? row_bytes(t, ROW_PADDING - row % ROW_PADDING) : 0;
}

/* ---- weights ---- */

/* Whatever the class calls it. */
static bool is_embedding(const vram_model *m, vr_str name)
{
    static const char end[] = ".weight";
    size_t n = m->embedding.n, rest = sizeof end - 1;
    if (!vr_str_ends(name, end) || n == 0 || name.n < n + rest)
        return false;
    return memcmp(name.s + name.n - rest - n, m->embedding.s, n) == 0;
}

/* Of a model that is no GGUF file yet: matrices in 16 bits, the others in 32; what sees or hears is a file of
 * its own. */
static vram_status converted_weights(vr_sum *out, uint64_t *elements, const vram_model *m, vr_arena *a)
{
    *out = (vr_sum){ .words =
                         "the model has to be converted to a GGUF file first, and how large that would be is "
                         "not known" };
    *elements = 0;
    if (m->family == NULL || m->declared == NULL || m->source_positions != 0)
        return VRAM_OK;
    out->counted = true;
    out->basis = VR_BASIS_ASSUMED;
    for (size_t i = 0; i < m->n_declared; i++) {
        const vr_declared *d = &m->declared[i];
        bool parameter = d->kind <= VR_PARAM_CONV, language = d->part <= VR_PART_ENCODER;
        bool embedding = is_embedding(m, d->name) || vr_str_is(d->name, "shared.weight");
        bool side = vr_str_ends(d->name, "embed_tokens_per_layer.weight"); /* read in host memory */
        if (!parameter || !language || (embedding && !m->tied) || side)
            continue;
        bool matrix = d->n_dims >= 2 && d->kind != VR_PARAM_CONV;
        out->bytes = vr_add_sat(out->bytes, vr_round_up(vr_mul_sat(d->elements, matrix ? 2 : 4), ALIGNMENT));
        *elements = vr_add_sat(*elements, d->elements);
    }
    out->words = vr_text(a, GROUPED(*elements),
                         T(" parameters on the card as a GGUF file in 16 bits, vectors in "
                           "32; a quantised one takes less"));
    return out->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* ---- the caches ---- */

/* As of a GGUF file whose layers all slide so. */
static vr_lm_cells cells_of(const placing *p, uint64_t window)
{
    const vr_lm lm = { .n_ctx_train =
                           (uint32_t)(p->m->max_context < UINT32_MAX ? p->m->max_context : UINT32_MAX),
                       .n_swa = (uint32_t)(window < UINT32_MAX ? window : UINT32_MAX),
                       .causal = true };
    vr_lm_rules r;
    vr_lm_cells c;
    vr_lm_rules_of(&r, p->p->build);
    vr_lm_cells_of(&c, &r, &lm, p->p, false);
    return c;
}

static uint64_t cache_bytes(vr_dtype t, uint64_t width, uint64_t rows)
{
    uint64_t bytes = vr_add_sat(vr_mul_sat(row_bytes(t, width), rows), row_filling(t, width));
    return width == 0 ? 0 : vr_round_up(bytes, ALIGNMENT);
}

/* Architectures whose windows llama.cpp keeps to (src/llama-model.cpp); of others every layer is full. A GGUF
 * file's layers were read so already. */
static bool slides(const vram_model *m)
{
    static const char *const names[] = {
        "gemma2",      "gemma3",       "gemma3_text", "gemma3n", "gemma3n_text", "gemma4",
        "gemma4_text", "gpt_oss",      "cohere2",     "llama4",  "llama4_text",  "exaone4",
        "olmo3",       "smallthinker", "exaone_moe",  "afmoe",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (m->model_type != NULL && vr_str_is(vr_str_of(m->model_type), names[i]))
            return true;
    }
    return false;
}

/* Always 32 bits; of a convolution all inputs but the current one. */
static uint64_t state_bytes(const vr_layer *l)
{
    uint64_t conv = vr_mul_sat(l->conv_channels, vr_sub_floor(l->conv_taps, 1));
    return vr_mul_sat(vr_add_sat(conv, vr_layer_state_elements(l)), 4);
}

typedef struct caches {
    uint64_t full, sliding, state; /* bytes on the card */
    uint64_t n_full, n_sliding, n_recurrent, host_layers;
    vr_lm_cells cells;
} caches;

static void add_layer(caches *c, const placing *p, uint64_t i)
{
    const vr_layer *l = &p->m->layers[i];
    const vr_lm_params *w = p->p;
    vr_kept k = vr_layer_kept(l);
    bool windowed = l->window != 0 && slides(p->m);
    vr_lm_cells n = cells_of(p, windowed ? l->window : 0);
    uint64_t rows = vr_mul_sat(n.n_stream, windowed ? n.sliding : n.full);
    uint64_t kv = vr_add_sat(cache_bytes((vr_dtype)w->type_k, k.keys, rows),
                             cache_bytes((vr_dtype)w->type_v, k.values, rows));
    uint64_t state = vr_mul_sat(state_bytes(l), n.n_seq_max);
    if (i < p->first || !w->offload_kqv) {
        c->host_layers += kv != 0 || state != 0;
        return;
    }
    uint64_t *to = windowed ? &c->sliding : &c->full;
    *to = vr_add_sat(*to, kv);
    *(windowed ? &c->n_sliding : &c->n_full) += kv != 0;
    c->state = vr_add_sat(c->state, state);
    c->n_recurrent += state != 0;
    if (windowed)
        c->cells.sliding = n.sliding;
    c->cells.full = n.full;
    c->cells.n_stream = n.n_stream;
    c->cells.n_seq_max = n.n_seq_max;
}

static bool joined(vr_arena *a, const char **list, const char *more)
{
    if (more != NULL && *list != NULL)
        *list = vr_text(a, T(*list), T(**list != '\0' ? "; " : ""), T(more));
    return more != NULL && *list != NULL;
}

static const char *of_layers(vr_arena *a, uint64_t layers, uint64_t n, uint64_t streams, const char *what,
                             uint64_t bytes)
{
    const char *times = streams > 1 ? vr_text(a, U(streams), T(" x ")) : "";
    if (times == NULL)
        return NULL;
    return vr_text(a, GROUPED(layers), T(layers == 1 ? " layer of " : " layers of "), T(times), GROUPED(n),
                   T(" cells"), T(what), T(": "), BYTES(bytes));
}

static const char *words_of(const caches *c, vr_arena *a)
{
    const char *list = "";
    if (c->n_full != 0)
        (void)joined(a, &list, of_layers(a, c->n_full, c->cells.full, c->cells.n_stream, "", c->full));
    if (c->n_sliding != 0)
        (void)joined(a, &list,
                     of_layers(a, c->n_sliding, c->cells.sliding, c->cells.n_stream,
                               " for the window and a batch", c->sliding));
    if (c->n_recurrent != 0)
        (void)joined(a, &list,
                     vr_text(a, GROUPED(c->cells.n_seq_max),
                             T(c->cells.n_seq_max == 1 ? " state: " : " states: "), BYTES(c->state)));
    if (c->host_layers != 0)
        (void)joined(a, &list,
                     vr_text(a, T("those of "), GROUPED(c->host_layers),
                             T(c->host_layers == 1 ? " layer" : " layers"), T(" in host memory")));
    return list != NULL && *list == '\0' ? "no layer keeps anything" : list;
}

/* Rows of quantised types are whole blocks (src/llama-context.cpp refuses others); what it keeps of an index
 * is not worked out. */
static const char *why_not(const placing *p)
{
    for (uint64_t i = 0; i < p->m->n_layers; i++) {
        vr_kept k = vr_layer_kept(&p->m->layers[i]);
        if (p->m->layers[i].weights_from != 0)
            return "what llama.cpp keeps of blocks that layers share is not known";
        if (k.index != 0)
            return "what llama.cpp keeps for an index that chooses tokens is not worked out";
        if (k.keys % vr_dtype_block((vr_dtype)p->p->type_k) != 0 ||
            k.values % vr_dtype_block((vr_dtype)p->p->type_v) != 0)
            return "its keys or values are no whole blocks of the type of the cache";
    }
    return NULL;
}

static vram_status caches_of(vr_sum *kv, const placing *p, vr_arena *a)
{
    const char *why = vr_why_no_layers(p->m);
    caches c = { .full = 0 };
    if (why == NULL)
        why = why_not(p);
    *kv = (vr_sum){ .words = why };
    if (why != NULL || vr_keeps_nothing(kv, p->m))
        return VRAM_OK;
    for (uint64_t i = 0; i < p->m->n_layers; i++)
        add_layer(&c, p, i);
    *kv = (vr_sum){ true, vr_basis_of(p->m), vr_add_sat(vr_add_sat(c.full, c.sliding), c.state), NULL };
    kv->words = words_of(&c, a);
    return kv->words == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static uint64_t token_bytes(const placing *p)
{
    uint64_t sum = 0;
    for (uint64_t i = p->first; i < p->m->n_layers && p->p->offload_kqv; i++) {
        vr_kept k = vr_layer_kept(&p->m->layers[i]);
        sum = vr_add_sat(sum, row_bytes((vr_dtype)p->p->type_k, k.keys));
        sum = vr_add_sat(sum, row_bytes((vr_dtype)p->p->type_v, k.values));
    }
    return sum;
}

vram_status vr_llamacpp_converted(vr_plan *out, const vram_model *m, const vram_workload *w, vr_arena *a)
{
    vr_lm_params params;
    vr_sum weights, kv;
    *out = (vr_plan){ 0 };
    VR_TRY(vr_llamacpp_params(&params, w, a));
    placing p = { .m = m, .p = &params };
    p.first = vr_sub_floor(vr_add_sat(m->n_layers, m->n_predict_layers) + 1, params.n_gpu_layers);
    VR_TRY(converted_weights(&weights, &out->n_parameters, m, a));
    VR_TRY(caches_of(&kv, &p, a));
    VR_TRY(vr_plan_of_sums(out, m, &weights, &kv, REST, a));
    out->refused = m->foreign                 ? m->not_understood
                   : m->source_positions != 0 ? "Whisper is run by whisper.cpp, a program apart"
                                              : NULL;
    out->as_stored = true;
    out->kv_token = kv.counted ? token_bytes(&p) : 0;
    return VRAM_OK;
}
