/* SPDX-License-Identifier: MIT
 * Where the pieces of a model lie: device_map by the words that from_pretrained takes, turned into a device
 * for each parameter and for each layer.
 *
 * What a map lets lie on the host or the disk is computed on the first GPU all the same: accelerate
 * (big_modeling.py, dispatch_model; hooks.py, AlignDevicesHook) brings each module's weights there before it
 * runs and drops them after. Buffers of such modules stay on that GPU. */
#include <string.h>

#include "engine/device_map.h"
#include "engine/packed_run.h"

/* get_max_memory puts torch.tensor([0]) on each card before it asks what is free: a segment for small blocks
 * stays. */
#define LOOK_SEGMENT (2 * VR_MIB)

static const char NOT_ON_CARDS[] =
    "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to "
    "fit "
    "the quantized model. If you want to dispatch the model on the CPU or the disk while keeping these "
    "modules "
    "in 32-bit, you need to set `llm_int8_enable_fp32_cpu_offload=True` and pass a custom `device_map` to "
    "`from_pretrained`.";

typedef struct placing {
    vr_placement *out;
    const vram_model *m;
    const vram_workload *w;
    const vr_params *params;
    uint16_t *of, *layers;
    vr_arena *a;
} placing;

static vram_status room_of(vr_map_room *room, const vr_device_facts *gpus, size_t n, const vram_workload *w,
                           vr_arena *a)
{
    uint64_t *free_bytes = VR_ARRAY(a, uint64_t, n);
    if (free_bytes == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool endless = gpus[i].available == UINT64_MAX;
        uint64_t taken = vr_add_sat(gpus[i].context, LOOK_SEGMENT);
        free_bytes[i] = endless ? UINT64_MAX / 4 : vr_sub_floor(gpus[i].available, taken);
    }
    *room = (vr_map_room){ .gpus = free_bytes,
                           .n = n,
                           .host = w->host_memory != 0 ? w->host_memory : UINT64_MAX,
                           .idle = LOOK_SEGMENT };
    return VRAM_OK;
}

static void count_offloaded(placing *p)
{
    for (size_t i = 0; i < p->params->n; i++) {
        const vr_param *param = &p->params->list[i];
        uint64_t *sum = p->of[i] == VR_ON_HOST ? &p->out->host_bytes : &p->out->disk_bytes;
        if (p->of[i] < VR_ON_HOST)
            continue;
        if (vr_param_is_buffer(param->kind)) /* offload_buffers is off */
            p->of[i] = 0;
        else
            *sum = vr_add_sat(*sum, param->elements * vr_param_width(p->m, p->w, param));
    }
}

static bool all_in_one(const placing *p)
{
    for (size_t i = 1; i < p->params->n; i++) {
        if (p->of[i] != p->of[0])
            return false;
    }
    return p->of[0] < VR_ON_HOST && p->out->head == p->of[0];
}

/* Of a layer all parameters lie together: its class is never split. */
static bool find_layers(placing *p)
{
    const vram_model *m = p->m;
    const vr_str prefix = vr_layers_prefix(m, p->a);
    bool *seen = VR_ARRAY(p->a, bool, (size_t)m->n_layers);
    for (size_t i = 0; seen != NULL && prefix.s != NULL && i < p->params->n; i++) {
        vr_str name = p->params->list[i].name, word, rest;
        uint64_t layer;
        if (name.n <= prefix.n || memcmp(name.s, prefix.s, prefix.n) != 0 ||
            vr_param_is_buffer(p->params->list[i].kind))
            continue;
        rest = (vr_str){ name.s + prefix.n, name.n - prefix.n };
        if (!vr_str_split(&rest, '.', &word) || !vr_parse_u64(word, &layer) || layer >= m->n_layers)
            continue;
        if (seen[layer] && p->layers[layer] != p->of[i])
            return false;
        seen[layer] = true;
        p->layers[layer] = p->of[i];
    }
    return seen != NULL && prefix.s != NULL;
}

static vram_status find_ends(placing *p)
{
    vr_str embedding = vr_embedding_name(p->m, p->a), norm = vr_last_norm_name(p->m, p->a);
    if (embedding.s == NULL || norm.s == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < p->params->n; i++) {
        vr_str name = p->params->list[i].name;
        if (vr_str_cmp(name, embedding) == 0)
            p->out->embedding = p->of[i];
        else if (vr_str_ends(name, "inv_freq"))
            p->out->rotary = p->of[i];
        else if (vr_str_cmp(name, vr_str_of(p->m->head_name)) == 0)
            p->out->head = p->of[i];
        else if (vr_str_cmp(name, norm) == 0)
            p->out->norm = p->of[i];
    }
    return VRAM_OK;
}

static vram_status describe(placing *p)
{
    vr_placement *out = p->out;
    count_offloaded(p);
    VR_TRY(find_ends(p));
    out->spread = !all_in_one(p);
    if (!find_layers(p))
        out->unknown = "a layer that is split over devices is not computed";
    for (uint64_t i = 0; i < p->m->n_layers; i++)
        out->layers_off += p->layers[i] >= VR_ON_HOST;
    out->params = p->of;
    out->layers = p->layers;
    if (p->w->weight_quant != VR_QUANT_NONE && out->host_bytes + out->disk_bytes != 0)
        out->refused = NOT_ON_CARDS;
    return VRAM_OK;
}

/* What quantisers refuse to put elsewhere: taken as if the last card had it, so that what lacks shows. */
static void back_to_cards(placing *p)
{
    uint16_t last = (uint16_t)(p->out->n_gpus - 1);
    for (size_t i = 0; i < p->params->n; i++)
        p->of[i] = p->of[i] >= VR_ON_HOST ? last : p->of[i];
    for (uint64_t i = 0; i < p->m->n_layers; i++)
        p->layers[i] = p->layers[i] >= VR_ON_HOST ? last : p->layers[i];
    uint16_t *const ends[] = { &p->out->embedding, &p->out->rotary, &p->out->norm, &p->out->head };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        *ends[i] = *ends[i] >= VR_ON_HOST ? last : *ends[i];
    p->out->host_bytes = p->out->disk_bytes = p->out->layers_off = 0;
}

vram_status vr_transformers_place(vr_placement *out, const vram_model *m, const vram_workload *w,
                                  const vr_device_facts *gpus, size_t n, vr_arena *a)
{
    struct vr_prepared own;
    const struct vr_prepared *from;
    vr_modules tree;
    vr_map_room room;
    *out = (vr_placement){ .n_gpus = n };
    VR_TRY(vr_prepared_of(&from, &own, m, w, a));
    if (m->quantised && vr_unpacks(m, w, &gpus[0])) {
        out->unknown = "where weights go that are unpacked while loading is not known";
        return VRAM_OK;
    }
    if (from->as_stored || m->uncounted_part != NULL || m->structure != VR_DECODER) {
        out->unknown = "the modules of this class are not known";
        return VRAM_OK;
    }
    placing p = { .out = out, .m = m, .w = w, .params = &from->params, .a = a };
    p.of = VR_ARRAY(a, uint16_t, from->params.n);
    p.layers = VR_ARRAY(a, uint16_t, (size_t)m->n_layers);
    if (p.of == NULL || p.layers == NULL)
        return VRAM_ENOMEM;
    VR_TRY(vr_modules_of(&tree, m, p.params, w, a));
    VR_TRY(room_of(&room, gpus, n, w, a));
    VR_TRY(vr_device_map_of(p.of, &out->head, &tree, p.params, w, &room, a));
    VR_TRY(describe(&p));
    if (out->refused != NULL)
        back_to_cards(&p);
    else if (m->quantised && out->layers_off != 0)
        out->unknown = "what packed weights take that are brought from the host is not known";
    return VRAM_OK;
}
