/* SPDX-License-Identifier: MIT
 * What runs of weights that stay packed: which layouts have tapes here, and which matrices of a model are
 * packed. Those that a checkpoint leaves as they are (routers, heads) run as everywhere. */
#include <string.h>

#include "engine/packed_run.h"
#include "engine/words.h"

#include "model/experts.h"

/* A layout by quant_method of config.json, from this version of transformers on; the newest first. */
typedef struct packed_kind {
    const char *method;
    unsigned major, minor;
    const vr_packed_run *run;
} packed_kind;

static const packed_kind kinds[] = {
    { "awq", 5, 0, &vr_run_marlin },   { "awq", 4, 35, &vr_run_awq },
    { "gptq", 4, 50, &vr_run_marlin }, { "compressed-tensors", 4, 50, &vr_run_compressed },
    { "fp8", 4, 50, &vr_run_fp8 },     { "mxfp4", 4, 55, &vr_run_mxfp4 },
};

static const packed_kind *kind_of(const vram_model *m, const vram_workload *w)
{
    const char *method = m->packing.method;
    unsigned version = w->version_major * 1000 + w->version_minor;
    for (size_t i = 0; m->quantised && method != NULL && i < sizeof kinds / sizeof *kinds; i++) {
        const packed_kind *k = &kinds[i];
        if (vr_str_is(vr_str_of(method), k->method) && version >= k->major * 1000 + k->minor)
            return k;
    }
    return NULL;
}

/* ---- which matrices ---- */

static bool is_in(const vram_model *m, size_t i)
{
    return m->packing.packed_in != NULL && m->packing.packed_in[i] != 0;
}

/* A matrix that the class declares and the checkpoint has in no form, or in another shape. */
static bool lacks(const vram_model *m, size_t i)
{
    const vr_declared *d = &m->declared[i];
    if (d->n_dims < 2 || !vr_param_is_stored(d->kind) || is_in(m, i))
        return false;
    if (d->tensor == NULL || m->packing.role[d->tensor - m->checkpoint->tensors] != VR_ROLE_PLAIN)
        return true;
    for (unsigned k = 0; k < d->n_dims; k++) {
        if (d->tensor->n_dims != d->n_dims || d->tensor->dims[k] != d->dims[k])
            return true;
    }
    return false;
}

static const char *not_of_class(const vram_model *m)
{
    static const char text[] = "the checkpoint does not have the matrices that its class declares";
    if (m->checkpoint->n_tensors == 0)
        return "which matrices are packed is not known without files";
    if (m->packing.unlike || m->contradicted != NULL || m->checkpoint->incomplete)
        return text;
    for (size_t i = 0; i < m->n_declared; i++) {
        bool outside = m->declared[i].layer == VR_NO_LAYER;
        if (lacks(m, i))
            return text;
        if (outside && is_in(m, i))
            return "what packed matrices outside of the layers take while they run is not known";
    }
    return NULL;
}

bool vr_layer_packs_experts(const vram_model *m, uint64_t layer)
{
    for (size_t i = 0; i < m->n_declared; i++) {
        const vr_declared *d = &m->declared[i];
        bool expert = d->role == VR_EXPERT_DOWN || d->kind == VR_PARAM_EXPERTS;
        if (d->layer == layer && expert && d->part == VR_PART_DECODER && is_in(m, i))
            return true;
    }
    return false;
}

const char *vr_no_packed_tape(const vram_model *m, const vram_workload *w, const vr_device_facts *d,
                              vr_arena *a)
{
    if (!m->quantised)
        return NULL;
    const packed_kind *k = kind_of(m, w);
    bool unpacks = vr_unpacks(m, w, d);
    if ((k == NULL && !unpacks) || m->packing.uncountable || m->structure != VR_DECODER)
        return vr_why_quantised(m, a);
    const char *why = not_of_class(m);
    return why != NULL || unpacks ? why : k->run->why_not(m, w, d);
}

bool vr_packs_class(const vram_model *m, const vram_workload *w)
{
    const packed_kind *k = kind_of(m, w);
    bool whole = m->family != NULL && m->structure == VR_DECODER && m->uncounted_part == NULL &&
                 m->weights_unknown == NULL && m->packing.packed_in != NULL;
    return k != NULL && k->run->classed && whole && not_of_class(m) == NULL;
}

/* ---- a pass ---- */

/* A linear layer of the decoder; experts are asked for by themselves. */
static bool has_shape(const vram_model *m, const vr_declared *d)
{
    bool expert = d->role != VR_EXPERT_NONE && d->role != VR_EXPERT_ROUTER;
    return d->layer < m->n_layers && d->part == VR_PART_DECODER && d->kind == VR_PARAM_LINEAR && !expert;
}

static vram_status list_shapes(vr_pass *p)
{
    const vram_model *m = p->m;
    size_t n = 0;
    for (size_t i = 0; i < m->n_declared; i++)
        n += has_shape(m, &m->declared[i]);
    p->shapes = VR_ARRAY(p->arena, vr_packed_shape, n + 1);
    p->shapes_of = VR_ARRAY(p->arena, uint32_t, (size_t)m->n_layers + 1);
    if (p->shapes == NULL || p->shapes_of == NULL)
        return VRAM_ENOMEM;
    n = 0;
    for (size_t i = 0, layer = 0; i < m->n_declared; i++) {
        const vr_declared *d = &m->declared[i];
        if (!has_shape(m, d))
            continue;
        while (layer < d->layer)
            p->shapes_of[++layer] = (uint32_t)n;
        p->shapes[n++] =
            (vr_packed_shape){ .out = d->dims[0], .in = d->dims[1], .name = d->name, .packed = is_in(m, i) };
        for (size_t k = layer + 1; k <= m->n_layers; k++)
            p->shapes_of[k] = (uint32_t)n;
    }
    return VRAM_OK;
}

vram_status vr_packed_open(vr_pass *p)
{
    const packed_kind *k = kind_of(p->m, p->w);
    p->packed = k != NULL && !vr_unpacks(p->m, p->w, p->device) ? k->run : NULL;
    if (p->packed == NULL)
        return VRAM_OK;
    if (p->packed->begin != NULL) {
        p->stored = VR_ARRAY(p->arena, vr_block, p->m->checkpoint->n_tensors + 1);
        if (p->stored == NULL)
            return VRAM_ENOMEM;
    }
    return p->packed->linear != NULL ? list_shapes(p) : VRAM_OK;
}

void vr_packed_begin(vr_pass *p)
{
    if (p->packed != NULL && p->packed->begin != NULL)
        p->packed->begin(p);
}

/* "...mlp.gate_proj.weight" makes the step of ".gate_proj". */
static bool makes(const vr_packed_shape *s, vr_str module)
{
    static const char weight[] = ".weight";
    vr_str stem = { s->name.s, s->name.n - (sizeof weight - 1) };
    return vr_str_ends(s->name, weight) && stem.n >= module.n &&
           memcmp(stem.s + stem.n - module.n, module.s, module.n) == 0;
}

/* By its shape, among those of the layer; of several matrices of one shape by its name, or the last. */
bool vr_is_packed(const vr_pass *p, uint64_t in, uint64_t out, vr_step step)
{
    bool packed = false;
    vr_str module = vr_step_module(step);
    if (p->packed == NULL || p->packed->linear == NULL || p->layer >= p->m->n_layers)
        return false;
    for (uint32_t i = p->shapes_of[p->layer]; i < p->shapes_of[p->layer + 1]; i++) {
        const vr_packed_shape *s = &p->shapes[i];
        if (s->in != in || s->out != out)
            continue;
        packed = s->packed;
        if (makes(s, module))
            break;
    }
    return packed;
}

vr_block vr_packed_linear(vr_pass *p, uint64_t rows, uint64_t in, uint64_t out, bool biased, vr_item item,
                          vr_step step)
{
    return p->packed->linear(p, rows, in, out, biased, item, step);
}

bool vr_packs_block(const vr_pass *p)
{
    return p->packed != NULL && p->packed->block != NULL;
}

vr_block vr_packed_block(vr_pass *p)
{
    return p->packed->block(p);
}

bool vr_packs_experts(const vr_pass *p)
{
    return p->packed != NULL && p->packed->experts != NULL;
}

vr_block vr_packed_experts(vr_pass *p, const vr_routed *r)
{
    return p->packed->experts(p, r);
}

bool vr_packed_load(vr_pass *p, const vr_tensor *t, uint32_t label, uint64_t *bytes)
{
    return p->packed != NULL && p->packed->load != NULL && p->packed->load(p, t, label, bytes);
}

bool vr_packed_first(const vr_pass *p)
{
    return p->packed != NULL && p->packed->packed_first;
}

const char *vr_packed_weights(const vr_pass *p)
{
    return p->packed != NULL && p->packed->weights != NULL ? p->packed->weights : "";
}

uint64_t vr_packed_uncertain(const vr_pass *p)
{
    return p->packed != NULL ? p->packed->uncertain : 0;
}

uint64_t vr_packed_above_permille(const vr_pass *p)
{
    return p->packed != NULL && p->packed->above != NULL ? p->packed->above(p) : 0;
}
