/* SPDX-License-Identifier: MIT
 * Adapters: each pair of tensors lies where the tensor that it changes lies, and its product is added behind
 * that one's.
 *
 * Source: llama.cpp b10470, src/llama-adapter.cpp (llama_adapter_lora_init_impl, llama_adapter_cvec::init);
 * src/llama-graph.cpp (build_lora_mm, build_lora_mm_id, build_inp_embd). */
#include "llama/lora.h"
#include "llama/adapted.h"

#include <string.h>

#define OUTSIDE UINT32_MAX /* in the place of a layer */

/* To a weight of the model; a: [in, rank], b: [rank, out], with experts behind. */
typedef struct pair {
    vr_str name; /* of the weight, whole */
    uint32_t layer;
    size_t at; /* among the layer's weights, or those of no layer */
    const vr_tensor *a, *b;
} pair;

struct vr_lm_adapter {
    const pair *pairs;
    size_t n;
};

/* ---- the file ---- */

static bool cut(vr_str *name, const char *end)
{
    if (!vr_str_ends(*name, end))
        return false;
    name->n -= strlen(end);
    return true;
}

static const pair *find_pair(const pair *list, size_t n, vr_str name)
{
    for (size_t i = n; i > 0; i--) { /* the other half mostly is the last */
        if (vr_str_eq(list[i - 1].name, name))
            return &list[i - 1];
    }
    return NULL;
}

static const char *sort_pairs(pair *list, size_t *n, const vram_checkpoint *ck)
{
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        vr_str name = t->name;
        bool first = cut(&name, ".lora_a"), second = !first && cut(&name, ".lora_b");
        if (!first && !second && vr_str_ends(name, "_norm.weight"))
            continue;
        if (!first && !second)
            return "the adapter has a tensor that is neither lora_a nor lora_b";
        pair *p = (pair *)find_pair(list, *n, name);
        if (p == NULL) {
            p = &list[(*n)++];
            *p = (pair){ .name = name };
        }
        if (first)
            p->a = t;
        else
            p->b = t;
    }
    return NULL;
}

/* "blk.17.attn_q.weight": layer 17. */
static bool is_of_layer(vr_str whole, uint64_t *layer, vr_str *name)
{
    vr_str rest = whole, word;
    if (!vr_str_starts(whole, "blk."))
        return false;
    rest = (vr_str){ whole.s + 4, whole.n - 4 };
    bool good = vr_str_split(&rest, '.', &word) && vr_parse_u64(word, layer) && rest.s != NULL;
    *name = rest;
    return good;
}

static const vr_lm_weight *find_in(const vr_lm_weight *list, size_t n, vr_str name, size_t *at)
{
    for (*at = 0; *at < n; (*at)++) {
        if (vr_str_eq(list[*at].name, name))
            return &list[*at];
    }
    return NULL;
}

static uint64_t dim(const vr_tensor *t, size_t i)
{
    return i < t->n_dims ? t->dims[i] : 1;
}

static bool fits(const pair *p, const vr_lm_weight *w)
{
    if (vr_str_is(p->name, "token_embd.weight"))
        return w->ne[0] == dim(p->b, 1) && w->ne[1] == dim(p->a, 1);
    return w->ne[0] == dim(p->a, 0) && w->ne[1] == dim(p->b, 1) && dim(p->a, 1) == dim(p->b, 0);
}

static const char *find_weight(pair *p, const vr_lm *lm)
{
    uint64_t layer = 0;
    vr_str name = p->name;
    const vr_lm_weight *w = NULL;
    if (p->a == NULL || p->b == NULL)
        return "the adapter lacks a tensor of a pair";
    p->layer = OUTSIDE;
    if (!is_of_layer(p->name, &layer, &name)) {
        w = find_in(lm->outside, lm->n_outside, p->name, &p->at);
    } else if (layer < lm->n_layer_all) {
        p->layer = (uint32_t)layer;
        w = find_in(lm->layers[layer].weights, lm->layers[layer].n_weights, name, &p->at);
    }
    if (w == NULL)
        return "the adapter changes a tensor that the model does not have";
    if (vr_str_is(p->name, "token_embd.weight") && vr_lm_find_outside(lm, "output.weight") == NULL)
        return "the adapter changes an embedding that is the head too: llama.cpp stops with an error";
    return fits(p, w) ? NULL : "a tensor of the adapter has not the shape that the model needs";
}

static const char *why_not(const vram_model *file, const vr_lm *lm)
{
    const vr_metadata *k = file->checkpoint->metadata;
    vr_str type = { NULL, 0 }, kind = { NULL, 0 }, arch = { NULL, 0 };
    (void)vr_metadata_str(k, "general.type", &type);
    (void)vr_metadata_str(k, "adapter.type", &kind);
    (void)vr_metadata_str(k, "general.architecture", &arch);
    if (!vr_str_is(type, "adapter") || !vr_str_is(kind, "lora"))
        return "the file is no adapter for llama.cpp";
    return vr_str_eq(arch, lm->name) ? NULL : "the adapter is for another architecture";
}

vram_status vr_lm_adapter_of(const vr_lm_adapter **out, const char **why, const vram_model *file,
                             const vr_lm *lm, vr_arena *a)
{
    *out = NULL;
    *why = file->gguf ? why_not(file, lm) : "the file is no adapter for llama.cpp";
    if (*why != NULL)
        return VRAM_OK;
    vr_lm_adapter *x = VR_NEW(a, vr_lm_adapter);
    pair *list = VR_ARRAY(a, pair, file->checkpoint->n_tensors);
    if (x == NULL || list == NULL)
        return VRAM_ENOMEM;
    *why = sort_pairs(list, &x->n, file->checkpoint);
    for (size_t i = 0; i < x->n && *why == NULL; i++)
        *why = find_weight(&list[i], lm);
    x->pairs = list;
    *out = *why == NULL ? x : NULL;
    return VRAM_OK;
}

/* ---- where it lies ---- */

static uint8_t buft_of(const vr_lm_plan *plan, const pair *p)
{
    uint8_t buft = p->layer == OUTSIDE ? plan->outside_buft[p->at] : plan->weight_buft[p->layer][p->at];
    if (buft != VR_GG_NOWHERE && plan->machine.bufts[buft].repacked)
        return plan->host_buft;
    return buft;
}

static void dims_of(const vr_tensor *t, uint64_t ne[VR_GG_DIMS])
{
    for (size_t i = 0; i < VR_GG_DIMS; i++)
        ne[i] = dim(t, i);
}

static void add_tensor(vr_lm_sizes *out, const vr_lm_plan *plan, const vr_tensor *t, uint8_t buft)
{
    uint64_t ne[VR_GG_DIMS];
    if (buft == VR_GG_NOWHERE)
        return;
    dims_of(t, ne);
    uint64_t *to = &vr_lm_memory_of(out, plan, buft)->adapter;
    *to = vr_add_sat(*to, vr_lm_taken(plan, buft, (vr_dtype)t->dtype, ne));
}

/* A row for each layer but the first. */
static void add_control(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_plan *plan)
{
    const uint64_t ne[VR_GG_DIMS] = { lm->n_embd, 1, 1, 1 };
    for (uint32_t il = 1; il < lm->n_layer; il++) {
        uint8_t buft = vr_lm_plain_buft(plan, il);
        uint64_t *to = &vr_lm_memory_of(out, plan, buft)->adapter;
        *to = vr_add_sat(*to, vr_lm_taken(plan, buft, VR_F32, ne));
    }
}

void vr_lm_add_adapters(vr_lm_sizes *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_plan *plan)
{
    for (size_t i = 0; i < p->n_adapters; i++) {
        for (size_t j = 0; j < p->adapters[i]->n; j++) {
            const pair *x = &p->adapters[i]->pairs[j];
            add_tensor(out, plan, x->a, buft_of(plan, x));
            add_tensor(out, plan, x->b, buft_of(plan, x));
        }
    }
    if (p->control_vector)
        add_control(out, lm, plan);
}

/* ---- in the graph ---- */

bool vr_lm_adapted_room(vr_lm_graph *c)
{
    size_t n = c->p->n_adapters;
    if (n == 0)
        return true;
    c->adapted = VR_ARRAY(c->arena, vr_t *, n);
    for (size_t i = 0; i < n && c->adapted != NULL; i++) {
        c->adapted[i] = VR_ARRAY(c->arena, vr_t, 2 * c->p->adapters[i]->n);
        if (c->adapted[i] == NULL)
            return false;
    }
    return c->adapted != NULL;
}

/* These apply their head without the adapter's part. */
static bool head_alone(const vr_lm *lm)
{
    static const char *const names[] = { "deepseek2", "deepseek32", "deepseek4",
                                         "glm-dsa",   "kimi-k3",    "kimi-linear" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (vr_str_is(lm->name, names[i]))
            return true;
    }
    return false;
}

static bool is_weight(const vr_lm_graph *c, const pair *p, vr_t w)
{
    if (p->layer != OUTSIDE)
        return c->layer_weights[p->layer][p->at] == w;
    if (c->head == w && head_alone(c->lm))
        return false;
    return c->outside_weights[p->at] == w || (c->head == w && vr_str_is(p->name, "output.weight"));
}

/* NULL: the adapter leaves the weight as it is. */
static const pair *pair_of(vr_lm_graph *c, size_t adapter, vr_t w)
{
    const vr_lm_adapter *x = c->p->adapters[adapter];
    for (size_t i = 0; i < x->n; i++) {
        const pair *p = &x->pairs[(c->adapted_at + i) % x->n];
        if (!is_weight(c, p, w))
            continue;
        c->adapted_at = (size_t)(p - x->pairs);
        return p;
    }
    return NULL;
}

static vr_t half(vr_lm_graph *c, size_t adapter, const pair *p, bool second)
{
    vr_t *slot = &c->adapted[adapter][2 * (size_t)(p - c->p->adapters[adapter]->pairs) + second];
    const vr_tensor *t = second ? p->b : p->a;
    uint64_t ne[VR_GG_DIMS];
    dims_of(t, ne);
    if (*slot == NULL)
        *slot = vr_gg_placed(c->g, NULL, (vr_dtype)t->dtype, ne, buft_of(c->plan, p), false);
    return *slot;
}

vr_t vr_lm_adapted(vr_lm_graph *c, vr_t w, vr_t cur, vr_t ids, vr_t out)
{
    vr_gg *g = c->g;
    for (size_t i = 0; i < c->p->n_adapters; i++) {
        const pair *p = pair_of(c, i, w);
        if (p == NULL)
            continue;
        vr_t a = half(c, i, p, false), b = half(c, i, p, true), x;
        if (ids != NULL)
            x = vr_gg_mul_mat_id(g, b, vr_gg_mul_mat_id(g, a, cur, ids), ids);
        else
            x = vr_gg_mul_mat(g, b, vr_gg_mul_mat(g, a, cur));
        out = vr_gg_add(g, out, vr_gg_scale(g, x));
    }
    return out;
}

vr_t vr_lm_adapted_rows(vr_lm_graph *c, vr_t w, vr_t tokens, vr_t out)
{
    vr_gg *g = c->g;
    for (size_t i = 0; i < c->p->n_adapters; i++) {
        const pair *p = pair_of(c, i, w);
        if (p == NULL)
            continue;
        vr_t rows = vr_gg_get_rows(g, half(c, i, p, false), tokens);
        out = vr_gg_add(g, out, vr_gg_scale(g, vr_gg_mul_mat(g, half(c, i, p, true), rows)));
    }
    return out;
}

vr_t vr_lm_control(vr_lm_graph *c, vr_t cur, int il)
{
    const uint64_t ne[VR_GG_DIMS] = { c->lm->n_embd, 1, 1, 1 };
    c->controlled = true;
    if (!c->p->control_vector || il < 1 || (uint32_t)il >= c->lm->n_layer)
        return cur;
    uint8_t buft = vr_lm_plain_buft(c->plan, (uint32_t)il);
    return vr_gg_add(c->g, cur, vr_gg_placed(c->g, NULL, VR_F32, ne, buft, false));
}
