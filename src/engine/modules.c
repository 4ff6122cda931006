/* SPDX-License-Identifier: MIT
 * The tree of modules that a device map is made from, and the size of each as the map's maker counts it:
 * accelerate's compute_module_sizes with transformers 4 (utils/modeling.py), which sees one dtype for all but
 * the modules that a quantiser leaves alone; integrations/accelerate.py of transformers 5, which asks the
 * quantiser for each parameter. Both leave out the head that shares the embeddings. */
#include "engine/modules.h"

#define DEPTH 24 /* of modules in modules */

typedef struct growing {
    vr_modules *tree;
    const vr_params *params;
    const vram_model *m;
    const vram_workload *w;
    const vr_rules *rules;
    vr_str embedding;
    uint32_t open[DEPTH]; /* the path to where we are; [0] is the root */
    size_t depth;
} growing;

/* ---- where things are ---- */

static bool beside_layers(const vr_declared *d, uint8_t n_dims)
{
    return d->part == VR_PART_DECODER && d->layer == VR_NO_LAYER && d->kind == VR_PARAM_WEIGHT &&
           d->n_dims == n_dims;
}

vr_str vr_embedding_name(const vram_model *m, vr_arena *a)
{
    for (size_t i = 0; i < m->n_declared; i++) {
        if (beside_layers(&m->declared[i], 2))
            return vr_name_in_class(m, m->declared[i].name, a);
    }
    return (vr_str){ "", 0 };
}

vr_str vr_last_norm_name(const vram_model *m, vr_arena *a)
{
    for (size_t i = m->n_declared; i-- > 0;) {
        if (beside_layers(&m->declared[i], 1) && vr_str_ends(m->declared[i].name, ".weight"))
            return vr_name_in_class(m, m->declared[i].name, a);
    }
    return (vr_str){ "", 0 };
}

vr_str vr_layers_prefix(const vram_model *m, vr_arena *a)
{
    for (size_t i = 0; i < m->n_declared; i++) {
        size_t at;
        vr_str name = m->declared[i].name;
        if (m->declared[i].part == VR_PART_DECODER && m->declared[i].layer == 0 &&
            vr_str_find(name, ".0.", &at))
            return vr_name_in_class(m, (vr_str){ name.s, at + 1 }, a);
    }
    return (vr_str){ "", 0 };
}

/* ---- sizes ---- */

/* quantizer_bnb_*.py, modules_to_not_convert: the head, or what shares its weights; names are searched for
 * the module's name (get_special_dtypes_update). */
static bool left_alone(const growing *g, const vr_param *p)
{
    vr_str head = vr_str_of(g->m->head_name);
    return vr_str_cmp(p->name, head) == 0 || (g->m->tied && vr_str_cmp(p->name, g->embedding) == 0);
}

/* Half bytes an element. */
static uint64_t width(const growing *g, const vr_param *p)
{
    uint64_t full = 2 * (uint64_t)vr_param_width(g->m, g->w, p);
    uint64_t packed = g->w->weight_quant == VR_QUANT_BNB_8BIT ? 2 : 1;
    if (g->rules->own_maps)
        return g->w->weight_quant != VR_QUANT_NONE && p->kind == VR_PARAM_LINEAR ? packed : full;
    if (g->w->weight_quant != VR_QUANT_NONE && !left_alone(g, p))
        return packed;
    uint64_t most = vr_dtype_bits(g->w->dtype) / 4;
    return vr_param_is_buffer(p->kind) && full > most
               ? most
               : full; /* what is kept in fp32 is among the special dtypes */
}

/* ---- the tree ---- */

static bool lies_under(vr_str name, vr_str module)
{
    return module.n == 0 || (name.n > module.n && name.s[module.n] == '.' &&
                             vr_str_cmp((vr_str){ name.s, module.n }, module) == 0);
}

static bool numbered(vr_str word)
{
    uint64_t n;
    return vr_parse_u64(word, &n);
}

/* Layers are what the classes name in _no_split_modules; of what lies inside of one nothing is asked. */
static bool never_split(const growing *g, vr_str word)
{
    return numbered(word) && !g->tree->list[g->open[g->depth - 1]].whole;
}

static uint32_t add(growing *g, vr_str name, uint32_t param)
{
    uint32_t at = (uint32_t)g->tree->n++;
    g->tree->list[at] = (vr_module){ .name = name, .param = param, .leaf = param == VR_NO_PARAM };
    return at;
}

static void close_to(growing *g, size_t depth)
{
    while (g->depth > depth)
        g->tree->list[g->open[--g->depth]].end = (uint32_t)g->tree->n;
}

static vram_status enter(growing *g, vr_str name, vr_str word)
{
    bool whole = never_split(g, word);
    if (g->depth == DEPTH)
        return vr_fail(g->m->ctx, VRAM_ELIMIT, T("modules lie too deep in each other: "), S(name));
    g->tree->list[g->open[g->depth - 1]].leaf = false;
    uint32_t at = add(g, name, VR_NO_PARAM);
    g->tree->list[at].whole = whole;
    g->open[g->depth++] = at;
    return VRAM_OK;
}

/* Modules come in the order in which they are walked, so that what belongs together stands together. */
static vram_status put(growing *g, uint32_t param)
{
    const vr_param *p = &g->params->list[param];
    size_t keep = g->depth;
    while (keep > 1 && !lies_under(p->name, g->tree->list[g->open[keep - 1]].name))
        keep--;
    close_to(g, keep);
    size_t known = g->tree->list[g->open[g->depth - 1]].name.n;
    vr_str word, rest = p->name;
    if (known != 0)
        rest = (vr_str){ p->name.s + known + 1, p->name.n - known - 1 };
    while (vr_str_split(&rest, '.', &word) && rest.n != 0)
        VR_TRY(enter(g, (vr_str){ p->name.s, (size_t)(word.s + word.n - p->name.s) }, word));
    uint32_t at = add(g, p->name, param);
    g->tree->list[at].end = at + 1;
    uint64_t size = vr_mul_sat(p->elements, width(g, p));
    g->tree->list[at].size = size;
    for (size_t i = 0; i < g->depth; i++)
        g->tree->list[g->open[i]].size = vr_add_sat(g->tree->list[g->open[i]].size, size);
    if (g->m->tied && vr_str_cmp(p->name, g->embedding) == 0)
        g->tree->embedding = at;
    return VRAM_OK;
}

/* Every word of every name may be a module of its own. */
static size_t most_nodes(const vr_params *params)
{
    size_t n = 3;
    for (size_t i = 0; i < params->n; i++) {
        n++;
        for (size_t k = 0; k < params->list[i].name.n; k++)
            n += params->list[i].name.s[k] == '.';
    }
    return n;
}

vram_status vr_modules_of(vr_modules *out, const vram_model *m, const vr_params *params,
                          const vram_workload *w, vr_arena *a)
{
    growing g = { .tree = out,
                  .params = params,
                  .m = m,
                  .w = w,
                  .rules = vr_rules_of(w),
                  .embedding = vr_embedding_name(m, a) };
    *out = (vr_modules){ .list = VR_ARRAY(a, vr_module, most_nodes(params)) };
    if (out->list == NULL || g.embedding.s == NULL)
        return VRAM_ENOMEM;
    g.open[g.depth++] = add(&g, (vr_str){ "", 0 }, VR_NO_PARAM);
    for (size_t i = 0; i < params->n; i++)
        VR_TRY(put(&g, (uint32_t)i));
    close_to(&g, 1);
    if (out->embedding != 0) {
        vr_str head = vr_str_of(m->head_name);
        if (vr_str_ends(head, ".weight"))
            head.n -= sizeof ".weight" - 1;
        out->list[0].leaf = false;
        out->head = add(&g, head, VR_NO_PARAM);
        out->list[out->head].end = out->head + 1;
    }
    close_to(&g, 0);
    return VRAM_OK;
}
