/* SPDX-License-Identifier: MIT
 * Loading: from_pretrained(...).to("cuda"), or from_pretrained(device_map=...) onto one card.
 *
 * .to() moves one parameter after the other in module order (torch.nn.Module._apply). With a device map,
 * transformers from 4.50 on first allocates the whole model at once and frees it (modeling_utils.py,
 * caching_allocator_warmup), then loads: version 5 all files in natural order, with four threads whose race
 * is not modelled; version 4 file by file, names in byte order as safetensors lists them, each tensor read
 * onto the card in its stored dtype and converted there. Buffers and what the checkpoint lacks come last. */
#include "engine/packed_run.h"

#define FEW 16                            /* events and labels of a plan without a pass, beside its tensors */
#define WARMUP_SPARE UINT64_C(1288490188) /* int(1.2 * 1024**3) */

typedef struct loader {
    vr_pass *p;
    uint64_t *bytes, *elements;
    bool unpacks; /* what is stored quantised */
} loader;

static unsigned width_of(vr_dtype t)
{
    return vr_dtype_bits(t) / 8;
}

static uint32_t label_of(const loader *l, vr_str name)
{
    if (l->p->prefix == NULL)
        return vr_tape_label(l->p->tape, name);
    const char *text = vr_text(l->p->arena, T(l->p->prefix), S(name));
    if (text == NULL)
        l->p->tape->status = VRAM_ENOMEM;
    return vr_tape_label(l->p->tape, vr_str_of(text));
}

static vr_block take(const loader *l, uint64_t bytes, vr_item item, vr_str name)
{
    if (l->p->elsewhere)
        return VR_ELSEWHERE;
    return vr_take_labelled(l->p, bytes, item, label_of(l, name));
}

static void count(const loader *l, uint64_t bytes, uint64_t elements)
{
    if (l->p->elsewhere)
        return;
    *l->bytes = vr_add_sat(*l->bytes, bytes);
    *l->elements = vr_add_sat(*l->elements, elements);
}

/* ---- one parameter ---- */

static bool is_quantised(const loader *l, const vr_param *param)
{
    return l->p->w->weight_quant != VR_QUANT_NONE && param->kind == VR_PARAM_LINEAR;
}

static bool is_buffer(const vr_param *param)
{
    return !vr_param_is_stored(param->kind) || param->kind == VR_PARAM_STATE;
}

static unsigned param_width(const loader *l, const vr_param *param)
{
    return vr_param_width(l->p->m, l->p->w, param);
}

static void load_quantised(const loader *l, const vr_param *param)
{
    vr_weight_quant quant = (vr_weight_quant)l->p->w->weight_quant;
    if (!l->p->elsewhere)
        vr_bnb_load(l->p, param, label_of(l, param->name));
    count(l, vr_bnb_bytes(quant, param->dims[0], param->elements), param->elements);
}

static bool is_state(const vr_param *param)
{
    return is_buffer(param) || vr_param_is_state(param->kind);
}

/* Of a class whose matrices stay packed, also what it has beside them. */
static void load_packed(const loader *l, const vr_param *param, uint64_t bytes)
{
    const vram_model *m = l->p->m;
    uint64_t stands_for = param->side ? 0
                          : param->packed && param->parts == NULL
                              ? m->packing.parameters[param->tensor - m->checkpoint->tensors]
                              : param->elements;
    bool other = false;
    if (param->tensor != NULL && param->parts == NULL && !l->p->elsewhere)
        other = vr_packed_load(l->p, param->tensor, vr_tape_label(l->p->tape, param->name), &bytes);
    if (!other)
        take(l, bytes, is_state(param) ? VR_ITEM_BUFFERS : VR_ITEM_PARAMETERS, param->name);
    if (!is_buffer(param))
        count(l, bytes, stands_for);
}

static void load_param(const loader *l, const vr_param *param)
{
    uint64_t n = param->elements, bytes = n * param_width(l, param);
    if (is_quantised(l, param)) {
        load_quantised(l, param);
        return;
    }
    if (param->packed || l->p->packed != NULL) {
        load_packed(l, param, bytes);
        return;
    }
    take(l, bytes, is_state(param) ? VR_ITEM_BUFFERS : VR_ITEM_PARAMETERS, param->name);
    if (!is_buffer(param))
        count(l, bytes, n);
}

/* ---- tensors as the checkpoint has them ---- */

/* Floating tensors of 16 bits and more become the load dtype; whole numbers and packed formats stay. */
static uint64_t stored_as(const loader *l, const vr_tensor *t)
{
    vr_dtype d = (vr_dtype)t->dtype;
    bool converted = !l->p->m->quantised && vr_dtype_floating(d) && vr_dtype_bits(d) >= 16 && d != VR_C64;
    return converted ? vr_mul_sat(t->elements, width_of(l->p->w->dtype)) : t->end - t->begin;
}

static bool is_plain(const loader *l, const vr_tensor *t)
{
    return l->p->m->packing.role[t - l->p->m->checkpoint->tensors] == VR_ROLE_PLAIN;
}

static void load_tensor(const loader *l, const vr_tensor *t)
{
    size_t at = (size_t)(t - l->p->m->checkpoint->tensors);
    bool unpacks = l->unpacks && !is_plain(l, t);
    uint64_t bytes = unpacks ? vr_unpacked_bytes(l->p->m, l->p->w, at) : stored_as(l, t);
    if (bytes == 0)
        return;
    if (!vr_packed_load(l->p, t, vr_tape_label(l->p->tape, t->name), &bytes))
        take(l, bytes, VR_ITEM_PARAMETERS, t->name);
    count(l, bytes, l->p->m->packing.parameters[at]);
}

/* ---- with a device map ---- */

/* What follows is of this parameter: on the card where it belongs. What stays on the host or the disk takes
 * nothing of any card. */
static void go_to(const loader *l, const vr_params *params, const vr_param *param)
{
    const vr_placement *where = l->p->placement;
    if (where != NULL)
        l->p->elsewhere = where->params[param - params->list] != l->p->device->rank;
}

/* Before a map is made from what is free, each card is looked at: torch.tensor([0], device=i) (accelerate,
 * get_max_memory), whose segment stays. */
#define LOOK_SEGMENT (2 * VR_MIB)

static uint64_t look_at(const loader *l)
{
    if (l->p->w->device_map == VR_MAP_NONE || l->p->w->device_map == VR_MAP_CUDA)
        return 0;
    l->p->elsewhere = false;
    vr_drop(l->p, take(l, 8, VR_ITEM_WARMUP, VR_LIT("the loader's look at the card")));
    return LOOK_SEGMENT;
}

/* Transformers 4 knows of a quantiser only that it halves (get_accelerator_warm_up_factor). */
static uint64_t warmup_of(const loader *l, const vr_param *param)
{
    vr_weight_quant quant = (vr_weight_quant)l->p->w->weight_quant;
    bool asks = l->p->rules->own_maps;
    if (asks && is_quantised(l, param))
        return vr_bnb_packed(quant, param->elements);
    return param->elements * param_width(l, param);
}

static uint64_t warmup_sum(const loader *l, const vr_params *params)
{
    const vr_rules *r = l->p->rules;
    uint64_t sum = 0;
    for (size_t i = 0; i < params->n; i++) {
        const vr_param *param = &params->list[i];
        bool head = vr_str_is(param->name, l->p->m->head_name);
        go_to(l, params, param);
        if (!l->p->elsewhere && !is_buffer(param) && (!head || r->warmup_with_head))
            sum += warmup_of(l, param);
    }
    for (size_t i = 0; i < params->n_others; i++)
        sum += stored_as(l, params->others[i]);
    return !r->own_maps && l->p->w->weight_quant != VR_QUANT_NONE ? sum / 2 : sum;
}

/* torch.empty(bytes // 2, dtype=float16), of what is not idle in PyTorch already. It is cut 1.2 GiB below
 * what the driver has free, which the idle bytes are then taken from as well, or below the card's total. */
static void warm_up(const loader *l, const vr_params *params, uint64_t idle)
{
    bool of_total = l->p->rules->warmup_of_total;
    uint64_t sum = l->p->rules->warms_up ? warmup_sum(l, params) : 0;
    uint64_t bytes = of_total && sum <= 2 * idle ? 0 : vr_sub_floor(sum, idle) / 2 * 2;
    uint64_t spare = of_total ? WARMUP_SPARE : WARMUP_SPARE + idle;
    l->p->elsewhere = false;
    if (bytes != 0)
        vr_drop(l->p, vr_tape_alloc_cut(l->p->tape, bytes, VR_ITEM_WARMUP,
                                        vr_tape_label(l->p->tape, VR_LIT("loader's warm-up block")),
                                        (uint32_t)spare, of_total));
}

static bool natural(void *ud, const void *x, const void *y)
{
    const vr_param *const *a = x, *const *b = y;
    (void)ud;
    return vr_natural_before((*a)->name, (*b)->name);
}

static bool by_file(void *ud, const void *x, const void *y)
{
    const vr_param *const *a = x, *const *b = y;
    (void)ud;
    if ((*a)->tensor->file != (*b)->tensor->file)
        return (*a)->tensor->file < (*b)->tensor->file;
    return vr_str_cmp((*a)->tensor->name, (*b)->tensor->name) < 0;
}

/* Version 4 converts on the card, when all goes to one: the stored tensor goes when the converted one is
 * there. With several devices it reads and converts on the host (modeling_utils.py, tensor_device). */
static void load_from_file(const loader *l, const vr_param *param)
{
    const vr_tensor *t = param->tensor;
    bool spread = l->p->placement != NULL && l->p->placement->spread;
    bool converts = !l->p->rules->natural_order && !spread && !is_quantised(l, param) &&
                    param->kind != VR_PARAM_STATE_F32 && !param->packed && t->dtype != l->p->w->dtype;
    vr_block stored = converts ? take(l, t->end - t->begin, VR_ITEM_PARAMETERS, param->name) : VR_NONE;
    load_param(l, param);
    vr_drop(l->p, stored);
}

/* ---- merging experts (core_model_loading.py: MergeModulelist, Concatenate) ---- */

static uint64_t part_bytes(const loader *l, const vr_param *param, const vr_declared *d)
{
    return d->elements * (param->packed ? param_width(l, param) : width_of(l->p->w->dtype));
}

static bool is_part(const vr_declared *d, uint8_t role)
{
    return d->role == role && d->n_dims > 1;
}

/* torch.stack of all parts of one role, which go when it is there; the stack. */
static vr_block stack(const loader *l, const vr_param *param, vr_block *parts, uint8_t role)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < param->n_parts; i++)
        sum += is_part(&param->parts[i], role) ? part_bytes(l, param, &param->parts[i]) : 0;
    vr_block out = take(l, sum, VR_ITEM_PARAMETERS, param->name);
    for (size_t i = 0; i < param->n_parts; i++) {
        if (is_part(&param->parts[i], role))
            vr_drop(l->p, parts[i]);
    }
    return out;
}

static bool is_down(const vr_param *param)
{
    return vr_str_ends(param->name, "down_proj");
}

static void merge(const loader *l, const vr_param *param, vr_block *parts)
{
    count(l, param->elements * param_width(l, param), param->elements);
    if (is_down(param)) {
        stack(l, param, parts, VR_EXPERT_DOWN);
        return;
    }
    vr_block gate = stack(l, param, parts, VR_EXPERT_GATE), up = stack(l, param, parts, VR_EXPERT_UP);
    take(l, param->elements * param_width(l, param), VR_ITEM_PARAMETERS, param->name);
    vr_drop(l->p, gate);
    vr_drop(l->p, up);
}

static void take_parts(const loader *l, const vr_param *param, vr_block *parts, bool down)
{
    for (size_t i = 0; i < param->n_parts; i++) {
        const vr_declared *d = &param->parts[i];
        if (is_part(d, VR_EXPERT_DOWN) ? down : !down && d->role != VR_EXPERT_ROUTER)
            parts[i] = take(l, part_bytes(l, param, d), VR_ITEM_PARAMETERS, d->name);
    }
}

static vr_str first_part(const vr_param *param)
{
    vr_str first = { NULL, 0 };
    for (size_t i = 0; i < param->n_parts; i++) {
        const vr_declared *d = &param->parts[i];
        bool of = is_part(d, VR_EXPERT_DOWN) == is_down(param) && d->role != VR_EXPERT_ROUTER;
        if (of && (first.s == NULL || vr_natural_before(d->name, first)))
            first = d->name;
    }
    return first;
}

/* Threads load the files in natural order, where the experts of a layer lie together: all of its parts are
 * there before the first of the two tensors can be made. How far they run ahead is not modelled. A quantiser
 * that works while loading lets no threads run: then each tensor's parts come for themselves. */
static vram_status load_experts(const loader *l, const vr_param *down, const vr_param *both)
{
    bool threads = l->p->w->weight_quant == VR_QUANT_NONE;
    vr_block *parts = VR_ARRAY(l->p->arena, vr_block, down->n_parts);
    if (parts == NULL)
        return VRAM_ENOMEM;
    bool down_first = vr_natural_before(first_part(down), first_part(both));
    const vr_param *order[] = { down_first ? down : both, down_first ? both : down };
    for (size_t i = 0; i < 2; i++) {
        if (!threads)
            take_parts(l, order[i], parts, is_down(order[i]));
        if (threads && i == 0) {
            take_parts(l, down, parts, true);
            take_parts(l, both, parts, false);
        }
        merge(l, order[i], parts);
    }
    return VRAM_OK;
}

/* _process_model_after_weight_loading */
static void give_back(const loader *l)
{
    if (vr_packed_first(l->p))
        vr_tape_empty_cache(l->p->tape);
}

/* The other tensor that the same experts are merged into, with scales between the two at most; 0: there is
 * none. */
static size_t other_half(const vr_param *const *there, size_t n, size_t i)
{
    for (size_t k = i + 1; there[i]->n_parts != 0 && k < n && k <= i + 2; k++) {
        if (there[k]->parts == there[i]->parts)
            return k;
    }
    return 0;
}

static vram_status load_mapped(const loader *l, const vr_params *params)
{
    const vr_param **there = VR_ARRAY(l->p->arena, const vr_param *, params->n);
    size_t n = 0;
    if (there == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < params->n; i++) {
        if (params->list[i].tensor != NULL)
            there[n++] = &params->list[i];
    }
    VR_TRY(vr_sort(l->p->m->ctx, there, n, sizeof(*there), l->p->rules->natural_order ? natural : by_file,
                   NULL));
    warm_up(l, params, look_at(l));
    for (size_t i = 0; i < params->n_others; i++)
        load_tensor(l, params->others[i]);
    for (size_t i = 0; i < n; i++) {
        size_t other = other_half(there, n, i);
        go_to(l, params, there[i]);
        if (other != 0)
            VR_TRY(load_experts(l, there[i], there[other]));
        else
            load_from_file(l, there[i]);
        for (size_t k = i + 1; k < other; k++)
            load_from_file(l, there[k]);
        i = other != 0 ? other : i;
    }
    for (size_t i = 0; i < params->n; i++) {
        go_to(l, params, &params->list[i]);
        if (params->list[i].tensor == NULL)
            load_param(l, &params->list[i]);
    }
    give_back(l);
    return VRAM_OK;
}

/* ---- without ---- */

/* An unknown class: layer by layer, which is how most are built. */
static void load_as_stored(const loader *l, const vr_tensor *const *list)
{
    size_t n = l->p->m->checkpoint->n_tensors;
    bool apart = vr_packed_first(l->p) && l->p->w->device_map == VR_MAP_NONE;
    vr_tape_reserve(l->p->tape, l->p->tape->n + n + FEW, l->p->tape->n_labels + n + FEW);
    for (size_t i = 0; i < n; i++) {
        if (!apart || !is_plain(l, list[i]))
            load_tensor(l, list[i]);
    }
    give_back(l);
    for (size_t i = 0; apart && i < n; i++) {
        if (is_plain(l, list[i]))
            load_tensor(l, list[i]);
    }
}

vram_status vr_load(vr_pass *p, const struct vr_prepared *from, uint64_t *bytes, uint64_t *elements)
{
    loader l = { .p = p, .bytes = bytes, .elements = elements, .unpacks = vr_unpacks(p->m, p->w, p->device) };
    const vr_params *params = &from->params;
    *bytes = *elements = 0;
    if (from->as_stored || l.unpacks) {
        load_as_stored(&l, from->natural);
        return VRAM_OK;
    }
    if (p->w->device_map != VR_MAP_NONE || p->w->weight_quant != VR_QUANT_NONE)
        return load_mapped(&l, params);
    for (size_t i = 0; i < params->n_others; i++)
        load_tensor(&l, params->others[i]);
    bool apart = vr_packed_first(p);
    for (size_t i = 0; i < params->n; i++) {
        if (!apart || params->list[i].packed)
            load_param(&l, &params->list[i]);
    }
    give_back(&l);
    for (size_t i = 0; apart && i < params->n; i++) {
        if (!params->list[i].packed)
            load_param(&l, &params->list[i]);
    }
    return VRAM_OK;
}
