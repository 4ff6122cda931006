/* SPDX-License-Identifier: MIT
 * What moves from one memory to another when a model is spread over several: accelerate (hooks.py,
 * send_to_device) copies what a module is given to the module's own card, where it stays until the module
 * returns. Held against accelerate's hooks in tests/engine/device_moves.tsv. */
#include "engine/pass.h"

vr_block vr_sent(vr_pass *p, vr_block from, uint16_t lies, uint64_t bytes, vr_item item, vr_place place)
{
    if (from == VR_NONE || vr_pass_gpu(p, lies) == p->gpu)
        return VR_NONE;
    return vr_take_at(p, bytes, item, place);
}

void vr_go_to(vr_pass *p, uint16_t device)
{
    p->gpu = vr_pass_gpu(p, device);
    vr_pass_on(p, device);
}

vr_placement vr_ends(const vr_pass *p)
{
    return p->placement != NULL ? *p->placement : (vr_placement){ .n_gpus = 1 };
}

void vr_keep_copy(vr_copies *c, vr_block block)
{
    c->list[c->n++] = block;
}

static void carry_mask(vr_pass *p, const vr_given *g, vr_copies *c)
{
    uint64_t window = vr_window(p), kv = vr_kv_length(p, window);
    unsigned width = p->w->attention == VR_IMPL_EAGER ? p->width : 1;
    vr_block mask = window != 0 ? g->sliding_mask : g->full_mask;
    vr_block copy =
        vr_sent(p, mask, vr_ends(p).embedding, p->batch * p->q * kv * width, VR_ITEM_SCORES, VR_PLACE_MASK);
    vr_keep_copy(c, copy);
    copy = copy != VR_NONE ? copy : mask;
    p->full_mask = window != 0 ? VR_NONE : copy;
    p->sliding_mask = window != 0 ? copy : VR_NONE;
}

/* Of gemma3 each kind of layer has its own; version 4 hands both to every layer. */
static bool gets_table(const vr_pass *p, int table)
{
    bool own = vr_layer_of(p)->attention == VR_ATTENTION_SLIDING && p->m->family->local_rope;
    return !p->rules->own_maps || table == (own ? 1 : 0);
}

void vr_carry(vr_pass *p, const vr_given *g, vr_copies *c)
{
    uint64_t columns = vr_table_columns(p->m, vr_layer_of(p)->attention == VR_ATTENTION_SLIDING);
    uint64_t table = p->q * columns * (vr_rotary_is_wide(p->m->family->rope) ? 4 : p->width);
    unsigned ids = p->rules->own_maps ? 1 : 2; /* version 4: cache_position beside position_ids */
    carry_mask(p, g, c);
    for (unsigned i = 0; i < ids; i++)
        vr_keep_copy(
            c, vr_sent(p, g->positions, vr_ends(p).embedding, p->q * 8, VR_ITEM_INPUTS, VR_PLACE_POSITIONS));
    for (int i = 0; i < 2; i++) {
        if (!gets_table(p, i))
            continue;
        vr_keep_copy(c, vr_sent(p, g->cos[i], vr_ends(p).rotary, table, VR_ITEM_INPUTS, VR_PLACE_ROTARY));
        vr_keep_copy(c, vr_sent(p, g->sin[i], vr_ends(p).rotary, table, VR_ITEM_INPUTS, VR_PLACE_ROTARY));
    }
}

void vr_drop_copies(vr_pass *p, vr_copies *c)
{
    vr_drop_all(p, c->list, c->n);
}
