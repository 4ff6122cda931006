/* SPDX-License-Identifier: MIT
 * Map from names to numbers: open addressing, linear probing, at most half full. Used to find duplicate names
 * in headers of 100,000 tensors, so it must stay linear. The seed is mixed with an address, which no file can
 * know, so none can choose its collisions; nothing is ever listed in hash order, so no result depends on it.
 */
#include "base/internal.h"

#include <string.h>

struct vr_slot {
    vr_str key;
    uint64_t hash; /* 0: empty */
    uint32_t number;
};

/* Multiply and fold, as wyhash and its kin mix; the constants are the fractional digits of the golden ratio
 * and of pi, chosen only for having no structure. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    vr_u128 product = (vr_u128)(a ^ UINT64_C(0x9E3779B97F4A7C15)) * ((b ^ UINT64_C(0x243F6A8885A308D3)) | 1);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(vr_str key, uint64_t seed)
{
    uint64_t h = mix(seed, key.n);
    while (key.n != 0) {
        uint64_t word = 0;
        size_t n = key.n < sizeof word ? key.n : sizeof word;
        memcpy(&word, key.s, n);
        h = mix(h ^ word, seed);
        key.s += n;
        key.n -= n;
    }
    h = mix(h, seed);
    return h != 0 ? h : 1;
}

/* The slot of that key, or the empty one where it belongs. */
static struct vr_slot *slot_of(struct vr_slot *slots, size_t room, vr_str key, uint64_t hash)
{
    size_t at = (size_t)hash & (room - 1);
    while (slots[at].hash != 0 && !(slots[at].hash == hash && vr_str_eq(slots[at].key, key)))
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static vram_status resize(vr_map *m, size_t room)
{
    struct vr_slot *slots = VR_ARRAY(m->arena, struct vr_slot, room);
    if (slots == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < m->room; i++) {
        if (m->slots[i].hash != 0)
            *slot_of(slots, room, m->slots[i].key, m->slots[i].hash) = m->slots[i];
    }
    m->slots = slots;
    m->room = room;
    return VRAM_OK;
}

vram_status vr_map_init(vr_map *m, vr_arena *a, size_t expected, uint64_t seed)
{
    *m = (vr_map){ .arena = a, .seed = seed ^ (uint64_t)(uintptr_t)a };
    size_t room = 8;
    while (room / 2 < expected && room < SIZE_MAX / 4)
        room *= 2;
    return resize(m, room);
}

vram_status vr_map_put(vr_map *m, vr_str key, uint32_t number, bool *was_there, uint32_t *value)
{
    uint64_t hash = hash_of(key, m->seed);
    struct vr_slot *slot = slot_of(m->slots, m->room, key, hash);
    *was_there = slot->hash != 0;
    if (*was_there) {
        *value = slot->number;
        return VRAM_OK;
    }
    if (m->n >= m->room / 2) {
        VR_TRY(resize(m, m->room * 2));
        slot = slot_of(m->slots, m->room, key, hash);
    }
    *slot = (struct vr_slot){ key, hash, number };
    m->n++;
    *value = number;
    return VRAM_OK;
}

bool vr_map_get(const vr_map *m, vr_str key, uint32_t *value)
{
    const struct vr_slot *slot = slot_of(m->slots, m->room, key, hash_of(key, m->seed));
    if (slot->hash == 0)
        return false;
    *value = slot->number;
    return true;
}
