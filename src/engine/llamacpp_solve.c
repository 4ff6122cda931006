/* SPDX-License-Identifier: MIT
 * What can be sought of a run of llama.cpp: layers on the cards, the context, layers whose experts stay on
 * the CPU, the type of the cache, the cut over several cards.
 *
 * Source: llama.cpp b10470, src/llama-model.cpp (load_tensors: which layer goes where), src/llama-context.cpp
 * (contexts are filled up to 256 tokens). */
#include "engine/kv_rules.h"

#define STEP 256                         /* tokens */
#define MOST_CONTEXT (UINT64_C(1) << 24) /* of a model that does not say how much it was made for */

static const struct {
    uint8_t type;
    const char *name;
} types[] = { { VR_Q4_0, "q4_0" }, { VR_Q8_0, "q8_0" }, { VR_F16, "f16" } };
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static const char EXPERTS[] = "n_cpu_moe", SPLIT[] = "tensor_split";

static uint64_t all_layers(const vram_model *m)
{
    return vr_add_sat(m->n_layers, m->n_predict_layers);
}

/* ---- values ---- */

static bool has(const vram_workload *w, const char *key)
{
    vr_setting s = vr_setting_of(key);
    return s != VR_SETTING_COUNT && vr_engine_has(w->engine, s);
}

static uint64_t contexts(const vram_model *m)
{
    uint64_t most = m->max_context != 0 && m->max_context < MOST_CONTEXT ? m->max_context : MOST_CONTEXT;
    return most / STEP;
}

static bool cache_is_f16(const vram_workload *w)
{
    return w->cache_k == VR_F16 && w->cache_v == VR_F16;
}

static uint64_t count(vr_goal g, const vram_model *m, const vram_workload *w)
{
    if (m->n_layers == 0 || all_layers(m) > UINT32_MAX)
        return 0;
    switch (g) {
    case VR_GOAL_LAYERS:
        return all_layers(m) + 2;
    case VR_GOAL_CONTEXT:
        return contexts(m);
    case VR_GOAL_EXPERTS:
        return m->experts != 0 && m->gguf && has(w, EXPERTS) ? m->n_layers + 1 : 0;
    case VR_GOAL_CACHE:
        return cache_is_f16(w) ? N_TYPES : 0;
    default:
        return has(w, SPLIT) ? 1 : 0;
    }
}

static uint64_t number(vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w)
{
    (void)w;
    return g == VR_GOAL_CONTEXT ? (x + 1) * STEP : g == VR_GOAL_EXPERTS ? vr_sub_floor(m->n_layers, x) : x;
}

static vram_status set(vram_workload *to, vr_goal g, uint64_t x, const vram_model *m, const vram_workload *w,
                       vr_arena *a)
{
    static const char *const keys[] = { "n_gpu_layers", "context", EXPERTS };
    if (g == VR_GOAL_CACHE) {
        VR_TRY(vram_workload_set(to, "cache_type_k", types[x].name));
        return vram_workload_set(to, "cache_type_v", types[x].name);
    }
    if ((size_t)g >= sizeof(keys) / sizeof(keys[0]))
        return VRAM_OK;
    const char *value = vr_text(a, U(number(g, x, m, w)));
    return value == NULL ? VRAM_ENOMEM : vram_workload_set(to, keys[g], value);
}

/* ---- a cut over several cards ---- */

/* llama.cpp gives layer i of n to the first card whose shares, summed up, are more than i / n of all: so the
 * counts of layers as shares are met as they are. */
static vram_status cut(vram_workload *to, const uint64_t *shares, size_t n, vr_arena *a)
{
    const char *list = "";
    for (size_t k = 0; k < n && list != NULL; k++)
        list = vr_text(a, T(list), T(k > 0 ? "," : ""), U(shares[k]));
    return list == NULL ? VRAM_ENOMEM : vram_workload_set(to, SPLIT, list);
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
    uint64_t cells = vr_mul_sat(u->w->context, u->w->sequences);
    uint64_t seen = vr_add_sat(l->window, u->w->ubatch);
    cells = l->window != 0 && !u->w->swa_full && seen < cells ? seen : cells;
    uint64_t bits = vr_add_sat(vr_mul_sat(kept.keys, vr_dtype_bits((vr_dtype)u->w->cache_k)),
                               vr_mul_sat(kept.values, vr_dtype_bits((vr_dtype)u->w->cache_v)));
    u->bytes[i] = vr_add_sat(u->bytes[i], vr_mul_div(bits, cells, 8));
    u->bytes[i] = vr_add_sat(u->bytes[i], vr_mul_sat(l->state_bytes, u->w->sequences));
}

static uint64_t bare_layers(const vram_workload *w, vr_arena *a)
{
    uint64_t n = 0;
    const char *value = has(w, EXPERTS) ? vr_workload_value(w, vr_setting_of(EXPERTS), a) : "0";
    return value != NULL && vr_parse_u64(vr_str_of(value), &n) ? n : 0;
}

static vram_status units_of(uint64_t **bytes, size_t *n, const vram_model *m, const vram_workload *w,
                            vr_arena *a)
{
    units u = { .m = m, .w = w, .layers = all_layers(m), .bare = bare_layers(w, a) };
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

static const char *words(vr_goal g, const vram_model *m, const vram_workload *w, size_t n_gpus, vr_arena *a)
{
    switch (g) {
    case VR_GOAL_LAYERS:
        return vr_text(a, U(w->gpu_layers), T(" of "), U(all_layers(m) + 1), T(" layers on the "),
                       T(n_gpus > 1 ? "cards" : "card"));
    case VR_GOAL_CONTEXT:
        return vr_text(a, T("a context of "), GROUPED(w->context), T(" tokens"));
    case VR_GOAL_EXPERTS:
        return vr_text(a, T("experts of "), U(bare_layers(w, a)), T(" of "), U(m->n_layers),
                       T(" layers on the CPU"));
    case VR_GOAL_CACHE:
        return vr_text(a, T("keys and values in "), T(vr_dtype_name((vr_dtype)w->cache_k)));
    default:
        return vr_text(a, T("layers cut "), T(vr_workload_value(w, vr_setting_of(SPLIT), a)),
                       T(" over the cards"));
    }
}

static const char *cost(vr_goal g)
{
    switch (g) {
    case VR_GOAL_LAYERS:
        return "slower: the other layers run on the CPU";
    case VR_GOAL_CONTEXT:
        return "shorter prompts";
    case VR_GOAL_EXPERTS:
        return "slower: those experts run on the CPU";
    case VR_GOAL_CACHE:
        return "a small loss of quality";
    default:
        return "nothing";
    }
}

const vr_solvable vr_solvable_llamacpp = {
    .count = count,
    .number = number,
    .set = set,
    .units = units_of,
    .cut = cut,
    .words = words,
    .cost = cost,
    .command = vr_llamacpp_command,
};
