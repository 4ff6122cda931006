/* SPDX-License-Identifier: MIT
 * Experts as transformers 5 has them: one tensor of all gates and ups, one of all downs, in place of linear
 * layers of each expert, and under names of their own (conversion_mapping.py; the order of modules is that of
 * tests/oracle/facts/order-*.tsv). */
#include <string.h>

#include "engine/loading.h"
#include "engine/experts.h"
#include "model/experts.h"

typedef struct block {
    const vr_declared *of; /* entries of one layer's router and experts, one after the other */
    size_t n;
    const vr_moe *moe;
    bool wide_router;
} block;

static const vr_moe *moe_of(const vram_model *m, const vr_declared *d)
{
    bool in_layer = d->role != VR_EXPERT_NONE && d->layer != VR_NO_LAYER && d->layer < m->n_layers;
    return in_layer ? m->layers[d->layer].moe : NULL;
}

size_t vr_merge_length(const vram_model *m, const vr_declared *d)
{
    const vr_declared *end = m->declared + m->n_declared;
    size_t n = 0;
    if (moe_of(m, d) == NULL)
        return 0;
    while (d + n < end && d[n].role != VR_EXPERT_NONE && d[n].layer == d->layer && d[n].part == d->part)
        n++;
    return n;
}

/* Where `word` begins in the name; the name's length when it is not there. */
static size_t find(vr_str name, const char *word)
{
    size_t k = strlen(word);
    for (size_t i = 0; i + k <= name.n; i++) {
        if (memcmp(name.s + i, word, k) == 0)
            return i;
    }
    return name.n;
}

static vr_str replaced(vr_str name, const char *old, const char *by, vr_arena *a)
{
    size_t at = by != NULL ? find(name, old) : name.n;
    if (at == name.n)
        return name;
    vr_str front = { name.s, at }, back = { name.s + at + strlen(old), name.n - at - strlen(old) };
    return vr_str_made(vr_text(a, S(front), T(by), S(back)));
}

/* A correction that is the block's own comes behind all of its modules. */
static bool is_own(const block *b, const vr_declared *d)
{
    return b->moe->correction == VR_CORRECTION_LAST && vr_param_is_state(d->kind);
}

static vram_status add_router(vr_params *out, const block *b, bool own, vr_arena *a)
{
    for (size_t i = 0; i < b->n; i++) {
        const vr_declared *d = &b->of[i];
        if (d->role != VR_EXPERT_ROUTER || is_own(b, d) != own)
            continue;
        vr_str name = replaced(d->name, b->moe->router_name, b->moe->router_name_5, a);
        name = replaced(name, b->moe->block, b->moe->block_5, a);
        if (name.s == NULL)
            return VRAM_ENOMEM;
        vr_param *p = &out->list[out->n++];
        *p = (vr_param){
            .name = name, .elements = d->elements, .n_dims = d->n_dims, .kind = d->kind, .tensor = d->tensor
        };
        p->wide = b->wide_router && d->kind == VR_PARAM_LINEAR;
        memcpy(p->dims, d->dims, sizeof(p->dims));
    }
    return VRAM_OK;
}

static bool goes_into(const vr_declared *d, bool down)
{
    return down ? d->role == VR_EXPERT_DOWN : d->role == VR_EXPERT_GATE || d->role == VR_EXPERT_UP;
}

/* Of one kind: its number, the first, whether all are in the checkpoint. */
static size_t parts_of(const block *b, bool down, const vr_declared **first, bool *there)
{
    size_t n = 0;
    *first = NULL;
    *there = true;
    for (size_t i = 0; i < b->n; i++) {
        if (!goes_into(&b->of[i], down))
            continue;
        *first = n++ == 0 ? &b->of[i] : *first;
        *there = *there && b->of[i].tensor != NULL;
    }
    return n;
}

static vram_status add_merged(vr_params *out, const block *b, bool down, vr_arena *a)
{
    static const char experts[] = "experts.";
    const vr_declared *first;
    bool there;
    size_t n = parts_of(b, down, &first, &there);
    if (n == 0)
        return VRAM_OK;
    vr_str name = replaced(first->name, b->moe->block, b->moe->block_5, a);
    if (name.s == NULL)
        return VRAM_ENOMEM;
    name.n = find(name, experts) + sizeof experts - 1;
    name = vr_str_made(vr_text(a, S(name), T(down ? "down_proj" : "gate_up_proj")));
    if (name.s == NULL)
        return VRAM_ENOMEM;
    uint64_t each = down ? 1 : 2;
    out->list[out->n++] = (vr_param){ .name = name,
                                      .dims = { n / each, each * first->dims[0], first->dims[1] },
                                      .elements = vr_mul_sat(n, first->elements),
                                      .n_dims = 3,
                                      .kind = VR_PARAM_EXPERTS,
                                      .tensor = there ? first->tensor : NULL,
                                      .parts = b->of,
                                      .n_parts = b->n };
    return VRAM_OK;
}

vram_status vr_merge_experts(vr_params *out, const vram_model *m, const vr_rules *rules, const vr_declared *d,
                             size_t n, vr_arena *a)
{
    const block b = { d, n, moe_of(m, d), vr_router_wide(rules, &m->layers[d->layer]) };
    if (!b.moe->router_last_5)
        VR_TRY(add_router(out, &b, false, a));
    VR_TRY(add_merged(out, &b, false, a));
    VR_TRY(add_merged(out, &b, true, a));
    if (b.moe->router_last_5)
        VR_TRY(add_router(out, &b, false, a));
    return add_router(out, &b, true, a);
}
