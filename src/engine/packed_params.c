/* SPDX-License-Identifier: MIT
 * The parameters of a class whose matrices stay packed: FP8Linear and FP8Experts, which have their scales
 * behind the weight (finegrained_fp8.py), and Mxfp4GptOssExperts (mxfp4.py). What the checkpoint has beside
 * them is not loaded. */
#include <string.h>

#include "engine/packed_run.h"

typedef struct packing {
    const vram_model *m;
    const vr_params *from;
    vr_param *list;
    size_t n;
    vr_arena *a;
} packing;

static bool is_packed(const vram_model *m, const vr_tensor *t)
{
    return t != NULL && m->packing.role[t - m->checkpoint->tensors] == VR_ROLE_PACKED;
}

/* Of these the first that is there; NULL also without memory, which the arena remembers. */
static const vr_tensor *beside(const packing *x, vr_str name, const char *const *suffixes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        vr_str other = vr_str_made(vr_text(x->a, S(name), T(suffixes[i])));
        const vr_tensor *t = other.s != NULL ? vr_checkpoint_find(x->m->checkpoint, other) : NULL;
        if (t != NULL)
            return t;
    }
    return NULL;
}

static const vr_tensor *scales_of(const packing *x, const vr_tensor *t)
{
    static const char *const suffixes[] = { "_scale_inv", "_scale", "_scales" };
    static const char blocks[] = "_blocks";
    vr_str name = t->name;
    if (vr_str_ends(name, blocks))
        name.n -= sizeof blocks - 1;
    return beside(x, name, suffixes, sizeof suffixes / sizeof *suffixes);
}

/* Experts in one tensor are called otherwise when they are packed. */
static const vr_tensor *blocks_of(const packing *x, const vr_param *p)
{
    static const char *const suffixes[] = { "_blocks" };
    return p->tensor == NULL && p->kind == VR_PARAM_EXPERTS ? beside(x, p->name, suffixes, 1) : NULL;
}

static void add_scales(packing *x, const vr_param *p, const vr_tensor *scales, uint64_t elements)
{
    if (scales == NULL)
        return;
    vr_str name = vr_str_made(vr_text(x->a, S(p->name), T("_scale_inv")));
    x->list[x->n++] = (vr_param){ .name = name,
                                  .dims = { elements },
                                  .n_dims = 1,
                                  .elements = elements,
                                  .kind = VR_PARAM_WEIGHT,
                                  .packed = true,
                                  .side = true,
                                  .tensor = scales };
}

static bool goes_into(const vr_param *p, const vr_declared *d)
{
    bool down = vr_str_ends(p->name, "down_proj");
    bool part = d->n_dims > 1 && d->role != VR_EXPERT_NONE && d->role != VR_EXPERT_ROUTER;
    return part && (d->role == VR_EXPERT_DOWN) == down;
}

/* The scales of all experts, which are merged as they are. */
static void add_merged_scales(packing *x, const vr_param *p)
{
    const vr_tensor *first = NULL;
    uint64_t elements = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        const vr_declared *d = &p->parts[i];
        const vr_tensor *scales = goes_into(p, d) && d->tensor != NULL ? scales_of(x, d->tensor) : NULL;
        first = first == NULL ? scales : first;
        elements = vr_add_sat(elements, scales != NULL ? scales->elements : 0);
    }
    add_scales(x, p, first, elements);
}

static void add(packing *x, const vr_param *param)
{
    const vr_tensor *blocks = blocks_of(x, param);
    vr_param *p = &x->list[x->n++];
    *p = *param;
    if (blocks != NULL)
        p->tensor = blocks;
    p->packed = is_packed(x->m, p->tensor);
    if (!p->packed)
        return;
    if (p->n_parts != 0) {
        add_merged_scales(x, p);
        return;
    }
    p->elements = p->tensor->elements;
    const vr_tensor *scales = scales_of(x, p->tensor);
    add_scales(x, p, scales, scales != NULL ? scales->elements : 0);
}

vram_status vr_params_packed(vr_params *params, const vram_model *m, vr_arena *a)
{
    packing x = { .m = m, .from = params, .a = a, .list = VR_ARRAY(a, vr_param, 2 * params->n + 1) };
    if (x.list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < params->n; i++)
        add(&x, &params->list[i]);
    for (size_t i = 0; i < x.n; i++) {
        if (x.list[i].name.s == NULL)
            return VRAM_ENOMEM;
    }
    params->list = x.list;
    params->n = x.n;
    return VRAM_OK;
}
