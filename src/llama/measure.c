/* SPDX-License-Identifier: MIT
 * From where things lie to bytes in each memory.
 *
 * Source: llama.cpp b10470, src/llama-context.cpp (memory_breakdown, output_reserve), ggml/src/ggml-alloc.c
 * (ggml_backend_alloc_ctx_tensors_from_buft). */
#include "llama/adapted.h"
#include "llama/beside.h"

/* ---- memories ---- */

vr_lm_memory *vr_lm_memory_of(vr_lm_sizes *out, const vr_lm_plan *plan, uint8_t buft)
{
    for (size_t i = 0; i < plan->n_devices; i++) {
        if (plan->device_buft[i] == buft)
            return &out->device[i];
    }
    return buft == plan->host_buft ? &out->host : &out->pinned;
}

static void add(uint64_t *to, uint64_t bytes)
{
    *to = vr_add_sat(*to, bytes);
}

uint64_t vr_lm_taken(const vr_lm_plan *plan, uint8_t buft, vr_dtype type, const uint64_t ne[VR_GG_DIMS])
{
    const vr_gg_buft *b = &plan->machine.bufts[buft];
    vr_gg_tensor t = { .type = (uint8_t)type, .nb = { vr_dtype_block_bytes(type) } };
    for (size_t i = 0; i < VR_GG_DIMS; i++)
        t.ne[i] = ne[i];
    t.nb[1] = vr_gg_row_size(type, ne[0]);
    t.nb[2] = vr_mul_sat(t.nb[1], ne[1]);
    t.nb[3] = vr_mul_sat(t.nb[2], ne[2]);
    return vr_round_up(vr_gg_alloc_size(b, &t), b->alignment);
}

/* ---- weights ---- */

static void add_weight(vr_lm_sizes *out, const vr_lm_plan *plan, const vr_lm_weight *w, uint8_t buft)
{
    if (buft == VR_GG_NOWHERE)
        return;
    vr_lm_memory *m = vr_lm_memory_of(out, plan, buft);
    bool cut = vr_lm_is_cut(plan, w, buft);
    for (size_t i = 0; cut && i < plan->n_devices; i++)
        add(&out->device[i].model, vr_lm_cut_bytes(plan, w, i));
    if (!cut)
        add(&m->model, vr_lm_taken(plan, buft, (vr_dtype)w->type, w->ne));
    m->tensors++;
    add(&m->elements, w->tensor->elements);
}

/* Layers that have rope factors of their own. */
static bool turns(const vr_lm *lm, uint32_t il)
{
    if (vr_str_is(lm->name, "step35"))
        return true;
    if (vr_str_is(lm->name, "gemma4") && il < lm->n_layer && lm->layers[il].swa)
        return false;
    return il < lm->n_layer / lm->loops;
}

/* One copy in each buffer that a layer's small tensors lie in. */
static void add_rope_factors(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_plan *plan, const vr_lm_weight *w)
{
    bool there[2 * VR_GG_MAX_BACKENDS] = { false };
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        uint8_t buft = vr_lm_plain_buft(plan, il);
        if (!turns(lm, il) || there[buft])
            continue;
        there[buft] = true;
        add_weight(out, plan, w, buft);
    }
}

/* Of an embedding a head is made, or of a head the embedding. */
static bool copied(const vr_lm *lm, const vr_lm_weight *w)
{
    bool tied = vr_lm_find_outside(lm, "token_embd.weight") != NULL;
    return vr_str_is(w->name, tied ? "token_embd.weight" : "output.weight");
}

static void add_weights(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_plan *plan)
{
    for (uint32_t il = 0; il < lm->n_layer_all; il++) {
        const vr_lm_layer *l = &lm->layers[il];
        for (size_t i = 0; i < l->n_weights; i++)
            add_weight(out, plan, &l->weights[i], plan->weight_buft[il][i]);
    }
    for (size_t i = 0; i < lm->n_outside; i++) {
        const vr_lm_weight *w = &lm->outside[i];
        if (vr_str_starts(w->name, "rope_"))
            add_rope_factors(out, lm, plan, w);
        else
            add_weight(out, plan, w, plan->outside_buft[i]);
        if (plan->head_copied && copied(lm, w))
            add_weight(out, plan, w, plan->head_buft);
    }
}

/* ---- caches ---- */

typedef struct kept_tensor {
    vr_dtype type;
    uint64_t width, rows, streams;
} kept_tensor;

static uint64_t kept_bytes(const vr_lm_plan *plan, uint8_t buft, const kept_tensor *t)
{
    const uint64_t ne[VR_GG_DIMS] = { t->width, t->rows, t->streams, 1 };
    return t->width != 0 && t->rows != 0 ? vr_lm_taken(plan, buft, t->type, ne) : 0;
}

static void add_kept(vr_lm_memory *m, vr_lm_kept_sum *to, uint64_t bytes)
{
    to->layers += bytes != 0;
    add(&to->bytes, bytes);
    add(&m->context, bytes);
}

/* Keys of several tokens in one, and the two tensors of their state. */
static uint64_t compressed_bytes(const vr_lm_params *p, const vr_lm_plan *plan, const vr_lm_cache *c,
                                 const vr_lm_compressed *x, uint8_t buft)
{
    const kept_tensor k = { (vr_dtype)p->type_k, x->width, x->cells, c->streams };
    const kept_tensor state = { VR_F32, x->state_width, x->state_rows, c->streams };
    return vr_add_sat(kept_bytes(plan, buft, &k), vr_mul_sat(2, kept_bytes(plan, buft, &state)));
}

static void add_cache(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan,
                      uint32_t il)
{
    const vr_lm_cache *c = &plan->caches[il];
    uint8_t buft = c->device == VR_LM_HOST ? plan->host_buft : plan->device_buft[c->device];
    vr_lm_memory *m = vr_lm_memory_of(out, plan, buft);
    const kept_tensor k = { (vr_dtype)p->type_k, c->k_width, c->cells, c->streams };
    const kept_tensor v = { (vr_dtype)p->type_v, c->v_width, c->cells, c->streams };
    const kept_tensor index = { (vr_dtype)p->type_k, c->index_width, c->cells, c->streams };
    const kept_tensor beside = { (vr_dtype)p->type_v, c->index_values, c->cells, c->streams };
    const uint64_t states = vr_mul_sat(c->r_rows, c->r_kept);
    const kept_tensor r = { VR_F32, c->r_width, states, 1 }, s = { VR_F32, c->s_width, states, 1 };
    add_kept(m, lm->layers[il].swa ? &m->sliding : &m->full,
             vr_add_sat(vr_add_sat(kept_bytes(plan, buft, &k), kept_bytes(plan, buft, &v)),
                        vr_add_sat(kept_bytes(plan, buft, &index), kept_bytes(plan, buft, &beside))));
    add_kept(m, &m->states, vr_add_sat(kept_bytes(plan, buft, &r), kept_bytes(plan, buft, &s)));
    for (int i = 0; i < 2; i++)
        add_kept(m, &m->full, compressed_bytes(p, plan, c, &c->compressed[i], buft));
    add(&m->token, vr_add_sat(vr_gg_row_size(k.type, k.width), vr_gg_row_size(v.type, v.width)));
    add(&m->token,
        vr_add_sat(vr_gg_row_size(index.type, index.width), vr_gg_row_size(beside.type, beside.width)));
}

void vr_lm_add_placed(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan)
{
    if (!p->predicts) /* it has the first context's */
        add_weights(out, lm, plan);
    for (uint32_t il = 0; il < lm->n_layer_all && plan->caches_unknown == NULL; il++)
        add_cache(out, lm, p, plan, il);
}

/* ---- the whole ---- */

/* Logits of as many tokens as there are sequences; grown when a batch asks for more. */
static uint64_t output_bytes(const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan)
{
    uint64_t floats = lm->n_vocab;
    if (p->embeddings || vr_str_is(lm->name, "t5"))
        floats = vr_add_sat(floats, vr_lm_number(lm, "embedding_length_out", lm->n_embd));
    return vr_mul_sat(vr_mul_sat(floats, 4), plan->n_seq_max);
}

static bool is_experts(const vr_lm_weight *w)
{
    return vr_str_find(w->name, "_exps.", NULL) || vr_str_find(w->name, "_chexps.", NULL);
}

static bool on_host(const vr_lm_plan *plan, uint8_t buft)
{
    return buft != VR_GG_NOWHERE && plan->machine.bufts[buft].host; /* not all is loaded */
}

static uint64_t experts_off(const vr_lm *lm, const vr_lm_plan *plan)
{
    uint64_t n = 0;
    for (uint32_t il = 0; il < lm->n_layer; il++) {
        const vr_lm_layer *l = &lm->layers[il];
        bool off = false;
        for (size_t i = 0; i < l->n_weights && plan->layer_device[il] != VR_LM_HOST; i++)
            off = off || (is_experts(&l->weights[i]) && on_host(plan, plan->weight_buft[il][i]));
        n += off;
    }
    return n;
}

/* Of the cards that runs were recorded on (tests/oracle/llamacpp/virtual_cuda.cpp). */
#define RECORDED_CC 89

/* One card at most. Which kernel attention takes on a card decides whether it copies caches that are not in
 * 16 bits, and that is known as recorded for one kind of cards. */
static bool as_recorded(const vr_lm_plan *plan)
{
    const vr_gg_machine *m = &plan->machine;
    bool same_kernels = m->n_backends == 1 || !plan->copies_cache || m->cc == RECORDED_CC;
    return plan->rules.recorded != 0 && m->n_backends <= 2 && same_kernels;
}

static void describe(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan)
{
    out->n_ctx = plan->n_ctx;
    out->n_ctx_seq = plan->n_ctx_seq;
    out->n_batch = plan->n_batch;
    out->n_ubatch = plan->n_ubatch;
    out->n_seq_max = plan->n_seq_max;
    out->n_tokens = plan->n_tokens;
    out->n_stream = plan->n_stream;
    out->cells = plan->cells;
    out->swa_cells = plan->swa_cells;
    out->pipelined = plan->pipelined;
    out->shares_weights = p->predicts;
    out->layer_device = plan->layer_device;
    out->experts_off = experts_off(lm, plan);
    out->output = output_bytes(lm, p, plan);
    out->held = vr_lm_held(lm->name);
    out->compute_near = plan->rules.compute != VR_LM_COMPUTE_EXACT;
    out->verified = out->held && as_recorded(plan) && vr_lm_held_under(lm->name, p);
    out->context_known = plan->caches_unknown == NULL;
    out->why = plan->caches_unknown;
}

/* Grok's scores pass a tanh that no attention kernel has: llama.cpp turns flash attention off. */
static vr_lm_params effective(const vr_lm *lm, const vr_lm_params *p)
{
    vr_lm_params own = *p;
    if (vr_str_is(lm->name, "grok"))
        own.flash_attn = own.flash_auto = false;
    return own;
}

static vram_status measure_compute(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p,
                                   const vr_lm_plan *plan, vr_arena *a)
{
    const char *why = NULL;
    if (lm->n_embd == 0 || lm->n_vocab == 0)
        why = "neither keys nor tensors of the file say the width and the vocabulary";
    else if (plan->rules.compute == VR_LM_COMPUTE_NO)
        why = "this build plans its memory in another way, which is not known here";
    if (why == NULL) {
        out->compute_near = plan->rules.compute == VR_LM_COMPUTE_NEAR;
        return vr_lm_compute(out, lm, p, plan, a);
    }
    if (out->why == NULL)
        out->why = why;
    return VRAM_OK;
}

static vram_status measure(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *asked,
                           const vr_lm_device *devices, size_t n, vr_arena *a)
{
    vr_lm_plan plan;
    const vr_lm_params own = effective(lm, asked), *p = &own;
    *out = (vr_lm_sizes){ .why = NULL };
    VR_TRY(vr_lm_plan_of(&plan, lm, p, devices, n, a));
    out->refused = plan.refused != NULL;
    out->unknown = plan.unknown != NULL;
    out->why = plan.refused != NULL ? plan.refused : plan.unknown;
    if (out->why != NULL)
        return VRAM_OK;
    describe(out, lm, p, &plan);
    vr_lm_add_placed(out, lm, p, &plan);
    vr_lm_add_adapters(out, lm, p, &plan);
    for (size_t i = 0; i < plan.n_devices; i++) {
        if (plan.device_buft[i] != VR_GG_NOWHERE)
            out->device[i].pool = vr_lm_pool(lm, &plan, plan.device_buft[i]);
    }
    VR_TRY(measure_compute(out, lm, p, &plan, a));
    out->context_held = vr_lm_is_known(lm) ? out->compute_known : vr_lm_kept_held(lm->name);
    return VRAM_OK;
}

vram_status vr_lm_measure(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p,
                          const vr_lm_device *devices, size_t n, vr_arena *a)
{
    VR_TRY(measure(out, lm, p, devices, n, a));
    return vr_lm_measure_beside(out, lm, p, devices, n, a);
}
