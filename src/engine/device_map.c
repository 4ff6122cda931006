/* SPDX-License-Identifier: MIT
 * Modules to devices: infer_auto_device_map and get_balanced_memory, of accelerate (utils/modeling.py, used
 * by transformers 4) and of transformers 5 (integrations/accelerate.py); tests/engine/device_maps.tsv holds
 * what both decided for recorded models.
 *
 * Modules are taken in their order. What does not fit on a device is split into its children; what cannot be
 * split goes to the next one, and nothing after it comes back: first the GPUs, then the host, then the disk.
 * The first GPU and the host keep room for the largest piece that is still to come, which may have to be
 * brought back there. Sizes are in half bytes. */
#include "engine/device_map.h"

typedef struct mapping {
    const vr_modules *tree;
    const vr_rules *rules;
    uint64_t *limits, *used; /* by device: GPUs, host, disk */
    size_t n_gpus;
    uint32_t *todo; /* the last comes first */
    size_t n_todo;
    uint32_t *largest; /* modules of the largest size that are still to come */
    size_t n_largest;
    uint64_t largest_size;
    uint16_t *of; /* by node */
    bool head_placed;
} mapping;

static const vr_module *node(const mapping *p, uint32_t i)
{
    return &p->tree->list[i];
}

static bool splits(const mapping *p, uint32_t i)
{
    return node(p, i)->param == VR_NO_PARAM && !node(p, i)->leaf && !node(p, i)->whole;
}

/* ---- how much each device is to take ---- */

static uint64_t largest_whole(const vr_modules *t, bool first_only)
{
    uint64_t most = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->list[i].whole)
            continue;
        if (first_only)
            return t->list[i].size;
        most = t->list[i].size > most ? t->list[i].size : most;
    }
    return most;
}

typedef struct leaves {
    uint64_t sum, n, most;
} leaves;

/* Of a module: what its own tensors weigh. */
static uint64_t own_size(const vr_modules *t, uint32_t i)
{
    uint64_t sum = 0;
    for (uint32_t k = i + 1; k < t->list[i].end; k = t->list[k].end)
        sum += t->list[k].param != VR_NO_PARAM ? t->list[k].size : 0;
    return sum;
}

static leaves leaves_of(const vr_modules *t, bool with_modules_below)
{
    leaves l = { 0, 0, 0 };
    for (uint32_t i = 1; i < t->n; i++) {
        if (t->list[i].param != VR_NO_PARAM || (!t->list[i].leaf && !with_modules_below))
            continue;
        uint64_t size = own_size(t, i);
        if (size == 0)
            continue;
        l.sum += size;
        l.n++;
        l.most = size > l.most ? size : l.most;
    }
    return l;
}

/* What a GPU gets beyond its equal share. Whole bytes, in half bytes. */
static uint64_t balance_buffer(const mapping *p)
{
    leaves l = leaves_of(p->tree, p->rules->own_maps);
    uint64_t mean = l.n == 0 ? 0 : l.sum / 2 / l.n * 2;
    uint64_t most = largest_whole(p->tree, !p->rules->balance_by_all),
             other = p->rules->balance_by_largest ? l.most : mean;
    most = other > most ? other : most;
    return most / 2 * 5 / 4 * 2;
}

static void balance(mapping *p, bool low_zero)
{
    size_t n = p->n_gpus;
    uint64_t total = node(p, 0)->size, others = 0, share;
    share = total / 2 / (low_zero ? n - 1 : n) * 2 + balance_buffer(p);
    for (size_t i = 0; i + 1 < n; i++) {
        if (!(low_zero && i == 0) && share < p->limits[i])
            p->limits[i] = share;
    }
    for (size_t i = 1; i < n; i++)
        others = vr_add_sat(others, p->limits[i]);
    if (low_zero && vr_sub_floor(total, others) < p->limits[0])
        p->limits[0] = vr_sub_floor(total, others);
}

static uint64_t nine_tenths(uint64_t x)
{
    return x == UINT64_MAX ? x : vr_mul_sat(x / 10, 9) + x % 10 * 9 / 10;
}

static void set_limits(mapping *p, const vram_workload *w, const vr_map_room *room)
{
    size_t n = p->n_gpus;
    for (size_t i = 0; i < n; i++)
        p->limits[i] = vr_mul_sat(vr_add_sat(room->gpus[i], p->rules->own_maps ? room->idle : 0), 2);
    p->limits[n] = vr_mul_sat(room->host, 2);
    p->limits[n + 1] = UINT64_MAX;
    if (p->rules->own_maps)
        p->limits[n] = nine_tenths(p->limits[n]);
    if (w->device_map != VR_MAP_SEQUENTIAL && n == 1)
        p->limits[0] = nine_tenths(p->limits[0]);
    if (w->device_map != VR_MAP_SEQUENTIAL)
        balance(p, w->device_map == VR_MAP_BALANCED_LOW_0 && n > 1);
    /* quantizer_bnb_*.py, adjust_max_memory: room for what quantising takes */
    for (size_t i = 0; w->weight_quant != VR_QUANT_NONE && i <= n; i++)
        p->limits[i] = nine_tenths(p->limits[i]);
    for (size_t i = 0; !p->rules->own_maps && i < n; i++)
        p->limits[i] = vr_add_sat(p->limits[i], vr_mul_sat(room->idle, 2));
}

/* ---- the largest piece still to come ---- */

static void consider(mapping *p, uint32_t i)
{
    uint64_t size = node(p, i)->size;
    if (size > p->largest_size) {
        p->largest_size = size;
        p->n_largest = 0;
    }
    if (size == p->largest_size)
        p->largest[p->n_largest++] = i;
}

/* Of one module: itself when it is not split, otherwise all modules below that are not. */
static void consider_below(mapping *p, uint32_t top)
{
    uint32_t i = top;
    while (i < node(p, top)->end) {
        if (splits(p, i) || (i != top && node(p, i)->param != VR_NO_PARAM)) {
            i++;
        } else {
            consider(p, i);
            i = node(p, i)->end;
        }
    }
}

static void find_largest(mapping *p, bool tensors_too)
{
    p->largest_size = 0;
    p->n_largest = 0;
    for (size_t i = p->n_todo; i-- > 0;) {
        if (tensors_too || node(p, p->todo[i])->param == VR_NO_PARAM)
            consider_below(p, p->todo[i]);
    }
}

/* The module is being looked at: neither it nor what lies below is to come any more. */
static void forget_largest(mapping *p, uint32_t i)
{
    size_t n = 0;
    for (size_t k = 0; k < p->n_largest; k++) {
        if (p->largest[k] < i || p->largest[k] >= node(p, i)->end)
            p->largest[n++] = p->largest[k];
    }
    p->n_largest = n;
    if (n == 0)
        find_largest(p, false);
}

/* ---- the walk ---- */

static bool fits(const mapping *p, size_t device, uint64_t size)
{
    bool keeps = device == 0 || device == p->n_gpus;
    uint64_t need = vr_add_sat(p->used[device], size);
    if (device == p->n_gpus + 1)
        return true;
    return vr_add_sat(need, keeps ? p->largest_size : 0) <= p->limits[device];
}

static void place(mapping *p, uint32_t i, size_t device)
{
    uint16_t d = device < p->n_gpus ? (uint16_t)device : device == p->n_gpus ? VR_ON_HOST : VR_ON_DISK;
    uint32_t head = p->tree->head, embedding = p->tree->embedding;
    p->used[device] = vr_add_sat(p->used[device], node(p, i)->size);
    for (uint32_t k = i; k < node(p, i)->end; k++)
        p->of[k] = d;
    if (head == 0 || embedding < i || embedding >= node(p, i)->end)
        return;
    p->of[head] = d; /* it shares the embeddings: it goes where they go */
    p->head_placed = true;
}

static void push(mapping *p, uint32_t i)
{
    p->todo[p->n_todo++] = i;
}

/* What lies directly below, tensors first; the last pushed comes first. */
static void push_children(mapping *p, uint32_t i)
{
    size_t from = p->n_todo;
    for (int tensors = 1; tensors >= 0; tensors--) {
        for (uint32_t k = i + 1; k < node(p, i)->end; k = node(p, k)->end) {
            if ((node(p, k)->param != VR_NO_PARAM) == (tensors != 0))
                push(p, k);
        }
    }
    for (size_t a = from, b = p->n_todo; a + 1 < b; a++) {
        uint32_t kept = p->todo[a];
        p->todo[a] = p->todo[--b];
        p->todo[b] = kept;
    }
}

static void walk(mapping *p)
{
    size_t device = 0;
    push_children(p, 0);
    find_largest(p, true);
    while (p->n_todo > 0) {
        uint32_t i = p->todo[--p->n_todo];
        if (i == p->tree->head && p->head_placed)
            continue;
        forget_largest(p, i);
        if (fits(p, device, node(p, i)->size)) {
            place(p, i, device);
        } else if (splits(p, i)) {
            push_children(p, i);
            find_largest(p, false);
        } else {
            device++;
            push(p, i);
        }
    }
}

vram_status vr_device_map_of(uint16_t *devices, uint16_t *head, const vr_modules *tree,
                             const vr_params *params, const vram_workload *w, const vr_map_room *room,
                             vr_arena *a)
{
    mapping p = { .tree = tree, .rules = vr_rules_of(w), .n_gpus = room->n };
    p.limits = VR_ARRAY(a, uint64_t, room->n + 2);
    p.used = VR_ARRAY(a, uint64_t, room->n + 2);
    p.todo = VR_ARRAY(a, uint32_t, tree->n + 1);
    p.largest = VR_ARRAY(a, uint32_t, tree->n + 1);
    p.of = VR_ARRAY(a, uint16_t, tree->n);
    if (p.limits == NULL || p.used == NULL || p.todo == NULL || p.largest == NULL || p.of == NULL)
        return VRAM_ENOMEM;
    set_limits(&p, w, room);
    walk(&p);
    for (size_t i = 0; i < tree->n; i++) {
        if (tree->list[i].param < params->n)
            devices[tree->list[i].param] = p.of[i];
    }
    *head = tree->head != 0 ? p.of[tree->head] : 0;
    return VRAM_OK;
}
