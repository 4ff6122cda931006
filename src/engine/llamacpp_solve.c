/* SPDX-License-Identifier: MIT
 * What can be sought of a run of llama.cpp: layers on the cards, the context, layers whose experts stay on
 * the CPU, the type of the cache, the cut over several cards.
 *
 * Source: llama.cpp b10470, src/llama-model.cpp (load_tensors: which layer goes where), src/llama-context.cpp
 * (contexts are filled up to 256 tokens). */
#include "engine/llamacpp.h"

#define MOST_LAYERS 65536  /* beyond, the file is no model */
#define MOST_SEQUENCES 256 /* LLAMA_MAX_SEQ; of older builds fewer, which are refused */
#define LEAST_UBATCH UINT64_C(64)
#define MOST_CONTEXT (UINT64_C(1) << 24) /* of a model that does not say how much it was made for */

const struct vr_llamacpp_cache vr_llamacpp_caches[VR_LLAMACPP_N_CACHES] = { { VR_Q4_0, 4 },
                                                                            { VR_Q8_0, 8 },
                                                                            { VR_F16, 16 } };

static uint64_t all_layers(const vram_model *m)
{
    return vr_add_sat(m->n_layers, m->n_predict_layers);
}

/* ---- values ---- */

/* Layers from the first on that have no experts on the cards. */
static uint64_t bare_layers(const vram_model *m, const vram_workload *w)
{
    return w->cpu_moe || w->n_cpu_moe > m->n_layers ? m->n_layers : w->n_cpu_moe;
}

/* A build that has the option, and nothing else that says where tensors go. */
static bool moves_experts(const vram_model *m, const vram_workload *w)
{
    vr_lm_rules r;
    vr_lm_rules_of(&r, w->version_major);
    return m->experts != 0 && m->gguf && r.n_cpu_moe != 0 && !w->cpu_moe && w->override_text == NULL;
}

/* 64, 128, ... up to what is given at once. */
static uint64_t ubatches(const vram_workload *w)
{
    uint64_t n = 0;
    while (n < 16 && LEAST_UBATCH << n <= w->batch)
        n++;
    return n;
}

static bool cuts(const vram_workload *w)
{
    return w->split_mode == VR_LM_SPLIT_LAYER && w->set_by[VR_SET_TENSOR_SPLIT] != VR_BY_USER;
}

uint64_t vr_llamacpp_contexts(const vram_model *m)
{
    uint64_t most = m->max_context != 0 && m->max_context < MOST_CONTEXT ? m->max_context : MOST_CONTEXT;
    return most / VR_LLAMACPP_STEP;
}

static bool cache_is_f16(const vram_workload *w)
{
    return w->cache_k == VR_F16 && w->cache_v == VR_F16;
}

static uint64_t count(vr_goal g, const vram_model *m, const vram_workload *w)
{
    if (!m->gguf || m->n_layers == 0 || all_layers(m) > MOST_LAYERS)
        return 0;
    switch (g) {
    case VR_GOAL_LAYERS:
        return all_layers(m) + 2;
    case VR_GOAL_CONTEXT:
        return vr_llamacpp_contexts(m);
    case VR_GOAL_EXPERTS:
        return moves_experts(m, w) ? m->n_layers + 1 : 0;
    case VR_GOAL_SEQUENCES:
        return w->embedding ? 0 : MOST_SEQUENCES;
    case VR_GOAL_UBATCH:
        return w->ubatch != 0 ? ubatches(w) : 0;
    case VR_GOAL_CACHE:
        return cache_is_f16(w) ? VR_LLAMACPP_N_CACHES : 0;
    default:
        return cuts(w) ? 1 : 0;
    }
}

static uint64_t own_ubatch(const vram_workload *w)
{
    for (uint64_t x = 0; x < ubatches(w); x++) {
        if (w->ubatch == LEAST_UBATCH << x)
            return x;
    }
    return UINT64_MAX;
}

/* UINT64_MAX: none of those that are sought. */
static uint64_t own_context(const vram_workload *w)
{
    uint64_t all = w->slots ? w->context : vr_mul_sat(w->context, w->sequences);
    bool odd = w->n_ctx != 0 && w->n_ctx != all;
    return !odd && w->context % VR_LLAMACPP_STEP == 0 && w->context != 0 ? w->context / VR_LLAMACPP_STEP - 1
                                                                         : UINT64_MAX;
}

static uint64_t own(vr_goal g, const vram_model *m, const vram_workload *w)
{
    uint64_t most = all_layers(m) + 1;
    switch (g) {
    case VR_GOAL_LAYERS:
        return w->gpu_layers < most ? w->gpu_layers : most;
    case VR_GOAL_CONTEXT:
        return own_context(w);
    case VR_GOAL_EXPERTS:
        return vr_sub_floor(m->n_layers, bare_layers(m, w));
    case VR_GOAL_SEQUENCES:
        return w->set_by[VR_SET_SEQUENCES] == VR_BY_USER ? w->sequences - 1 : UINT64_MAX;
    case VR_GOAL_UBATCH:
        return own_ubatch(w);
    default:
        return count(g, m, w) - 1;
    }
}

static uint64_t number(vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w)
{
    (void)w;
    switch (g) {
    case VR_GOAL_CONTEXT:
        return (x + 1) * VR_LLAMACPP_STEP;
    case VR_GOAL_EXPERTS:
        return vr_sub_floor(m->n_layers, x);
    case VR_GOAL_SEQUENCES:
        return x + 1;
    case VR_GOAL_UBATCH:
        return LEAST_UBATCH << x;
    case VR_GOAL_CACHE:
        return vr_llamacpp_caches[x < VR_LLAMACPP_N_CACHES ? x : VR_LLAMACPP_N_CACHES - 1].bits;
    default:
        return x;
    }
}

static void take(vram_workload *to, vr_setting s, uint64_t *field, uint64_t value)
{
    *field = value;
    to->set_by[s] = VR_BY_USER;
}

static void take_types(vram_workload *to, uint8_t type)
{
    to->cache_k = to->cache_v = type;
    to->set_by[VR_SET_CACHE_TYPE_K] = to->set_by[VR_SET_CACHE_TYPE_V] = VR_BY_USER;
}

/* A context of each sequence takes the place of one of all together. */
static vram_status set(vram_workload *to, vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w,
                       vr_arena *a)
{
    uint64_t value = number(g, x, m, w);
    (void)a;
    switch (g) {
    case VR_GOAL_LAYERS:
        take(to, VR_SET_GPU_LAYERS, &to->gpu_layers, value);
        break;
    case VR_GOAL_CONTEXT:
        take(to, VR_SET_CONTEXT, &to->context, value);
        to->n_ctx = 0;
        to->set_by[VR_SET_N_CTX] = VR_BY_DEFAULT;
        break;
    case VR_GOAL_EXPERTS:
        take(to, VR_SET_N_CPU_MOE, &to->n_cpu_moe, value);
        break;
    case VR_GOAL_SEQUENCES:
        take(to, VR_SET_SEQUENCES, &to->sequences, value);
        to->prefill_batch = 0;
        break;
    case VR_GOAL_UBATCH:
        take(to, VR_SET_UBATCH, &to->ubatch, value);
        break;
    case VR_GOAL_CACHE:
        take_types(to, vr_llamacpp_caches[x].type);
        break;
    default:
        break;
    }
    return VRAM_OK;
}

/* ---- a cut over several cards ---- */

/* llama.cpp gives layer i of n to the first card whose shares, summed up, are more than i / n of all: so the
 * counts of layers as shares are met as they are. */
static vram_status cut(vram_workload *to, const uint64_t *shares, size_t n, vr_arena *a)
{
    const char *list = "";
    for (size_t k = 0; k < n && list != NULL; k++)
        list = vr_text(a, T(list), T(k > 0 ? "," : ""), U(shares[k]));
    to->shares_text = list;
    to->set_by[VR_SET_TENSOR_SPLIT] = VR_BY_USER;
    return list == NULL ? VRAM_ENOMEM : VRAM_OK;
}

typedef struct units {
    const vram_model *m;
    const vram_workload *w;
    uint64_t *bytes;              /* by layer, with the output behind them */
    uint64_t layers, first, bare; /* first on the cards; layers before bare have no experts there */
} units;

static bool is_experts(vr_str name)
{
    return vr_str_find(name, "_exps.", NULL) || vr_str_find(name, "_chexps.", NULL);
}

static void add_tensor(const units *u, const vr_tensor *t)
{
    vr_str rest = t->name, digits;
    uint64_t layer = u->layers, bytes = t->end - t->begin;
    bool input = vr_str_starts(t->name, "token_embd.") && !u->m->tied;
    if (vr_str_starts(t->name, "blk.")) {
        rest = (vr_str){ t->name.s + 4, t->name.n - 4 };
        if (!vr_str_split(&rest, '.', &digits) || !vr_parse_u64(digits, &layer) || layer > u->layers)
            return;
        if (layer < u->bare && is_experts(t->name))
            return;
    }
    if (!input)
        u->bytes[layer] = vr_add_sat(u->bytes[layer], bytes);
}

static void add_cache(const units *u, uint64_t i)
{
    const vr_layer *l = &u->m->layers[i];
    vr_kept kept = vr_layer_kept(l);
    uint64_t cells = vr_llamacpp_tokens(u->w);
    uint64_t seen = vr_add_sat(l->window, u->w->ubatch);
    cells = l->window != 0 && !u->w->swa_full && seen < cells ? seen : cells;
    uint64_t bits = vr_add_sat(vr_mul_sat(kept.keys, vr_dtype_bits((vr_dtype)u->w->cache_k)),
                               vr_mul_sat(kept.values, vr_dtype_bits((vr_dtype)u->w->cache_v)));
    u->bytes[i] = vr_add_sat(u->bytes[i], vr_mul_div(bits, cells, 8));
    u->bytes[i] = vr_add_sat(u->bytes[i], vr_mul_sat(l->state_bytes, u->w->sequences));
}

static vram_status units_of(uint64_t **bytes, size_t *n, const vram_model *m, const vram_workload *w,
                            vr_arena *a)
{
    units u = { .m = m, .w = w, .layers = all_layers(m), .bare = bare_layers(m, w) };
    u.first = vr_sub_floor(u.layers + 1, w->gpu_layers);
    u.bytes = VR_ARRAY(a, uint64_t, u.layers + 1);
    if (u.bytes == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < m->checkpoint->n_tensors; i++)
        add_tensor(&u, &m->checkpoint->tensors[i]);
    for (uint64_t i = 0; i < m->n_layers && m->layers != NULL && !w->no_kv_offload; i++)
        add_cache(&u, i);
    *bytes = u.bytes + u.first;
    *n = (size_t)(u.layers + 1 - u.first);
    return VRAM_OK;
}

/* ---- words ---- */

const char *vr_llamacpp_cache_words(const vram_workload *w, vr_arena *a)
{
    return vr_text(a, T("keys and values in "), T(vr_option_word_text(vr_llamacpp_types, w->cache_k)));
}

const char *vr_llamacpp_cache_cost(const vram_workload *w)
{
    return w->cache_k == VR_Q4_0 ? "some loss of quality" : "a small loss of quality";
}

static const char *words(vr_goal g, const vram_model *m, const vram_workload *w, size_t n_gpus, vr_arena *a)
{
    switch (g) {
    case VR_GOAL_LAYERS:
        return vr_text(a, U(w->gpu_layers), T(" of "), U(all_layers(m) + 1), T(" layers on the "),
                       T(n_gpus > 1 ? "cards" : "card"));
    case VR_GOAL_CONTEXT:
        return vr_text(a, T("a context of "), GROUPED(w->context), T(" tokens"),
                       T(w->sequences > 1 && !w->slots ? " for each sequence" : ""));
    case VR_GOAL_SEQUENCES:
        return vr_text(a, GROUPED(w->sequences),
                       T(w->sequences == 1 ? " sequence of " : " sequences at once, each of "),
                       GROUPED(w->context), T(" tokens"));
    case VR_GOAL_UBATCH:
        return vr_text(a, GROUPED(w->ubatch), T(" tokens computed at once"));
    case VR_GOAL_EXPERTS:
        if (bare_layers(m, w) == 0)
            return n_gpus > 1 ? "all experts on the cards" : "all experts on the card";
        return vr_text(a, T("experts of "), U(bare_layers(m, w)), T(" of "), U(m->n_layers),
                       T(" layers on the CPU"));
    case VR_GOAL_CACHE:
        return vr_llamacpp_cache_words(w, a);
    default:
        return vr_text(a, T("layers cut "), T(w->shares_text), T(" over the cards"));
    }
}

static const char *cost(vr_goal g, const vram_workload *w)
{
    switch (g) {
    case VR_GOAL_LAYERS:
        return "much slower";
    case VR_GOAL_CONTEXT:
        return "shorter prompts";
    case VR_GOAL_SEQUENCES:
        return "less at once";
    case VR_GOAL_UBATCH:
        return "slower prompts";
    case VR_GOAL_EXPERTS:
        return "slower";
    case VR_GOAL_CACHE:
        return vr_llamacpp_cache_cost(w);
    default:
        return "nothing";
    }
}

const vr_solvable vr_solvable_llamacpp = {
    .count = count,
    .own = own,
    .number = number,
    .set = set,
    .units = units_of,
    .cut = cut,
    .words = words,
    .cost = cost,
    .command = vr_llamacpp_command,
};
