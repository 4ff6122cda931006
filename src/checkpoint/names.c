/* SPDX-License-Identifier: MIT
 * Table from names to tensors: open addressing, linear probing, at most half full. The names themselves stay
 * in the tensors, so base's general map, four times this size, is not needed; with 90,000 tensors the
 * difference is a third of the time of reading a checkpoint, all of it waiting for memory. */
#include "checkpoint/names.h"

#include <string.h>

#include "checkpoint/checkpoint.h"

#if defined(__GNUC__)
#define TOUCH(p) __builtin_prefetch(p)
#else
#define TOUCH(p) ((void)(p))
#endif

__extension__ typedef unsigned __int128 wide;

/* Multiplies and folds the halves of the product, as wyhash does. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t word(const char *p, size_t n)
{
    uint64_t w = 0;
    memcpy(&w, p, n);
    return w;
}

static uint64_t hash_of(const vr_names *t, vr_str name)
{
    const char *p = name.s, *end = name.s + name.n;
    uint64_t h = t->seed ^ name.n;
    for (; end - p >= 8; p += 8)
        h = mix(h ^ word(p, 8), UINT64_C(0x9E3779B97F4A7C15)); /* the golden ratio: odd, no structure */
    if (p < end)
        h = mix(h ^ word(p, (size_t)(end - p)), UINT64_C(0x9E3779B97F4A7C15));
    return mix(h, t->seed | 1);
}

vram_status vr_names_init(vr_names *t, vr_arena *a, size_t most, uint64_t seed)
{
    size_t room = 16;
    while (room / 2 < most && room <= SIZE_MAX / 4)
        room *= 2;
    t->slots = VR_ARRAY(a, uint64_t, room);
    t->mask = room - 1;
    /* An address that no file can know: none can choose names that collide. No result depends on it. */
    t->seed = mix(seed ^ (uint64_t)(uintptr_t)t->slots, UINT64_C(0xD6E8FEB86659FD93));
    return t->slots == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Where the name is, or the free slot where it would be. */
static size_t place(const vr_names *t, const vr_tensor *tensors, vr_str name, uint64_t hash)
{
    size_t at = (size_t)hash & t->mask;
    for (;; at = (at + 1) & t->mask) {
        uint64_t slot = t->slots[at];
        if (slot == 0 || (slot >> 32 == hash >> 32 && vr_str_eq(tensors[(uint32_t)slot - 1].name, name)))
            return at;
    }
}

size_t vr_names_put(vr_names *t, const vr_tensor *tensors, uint32_t number, size_t n, uint32_t *other)
{
    uint64_t hashes[VR_NAMES_MANY];
    for (size_t i = 0; i < n; i++) {
        hashes[i] = hash_of(t, tensors[number + i].name);
        TOUCH(&t->slots[hashes[i] & t->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = place(t, tensors, tensors[number + i].name, hashes[i]);
        if (t->slots[at] != 0) {
            *other = (uint32_t)t->slots[at] - 1;
            return i;
        }
        t->slots[at] = (hashes[i] >> 32) << 32 | (number + i + 1);
    }
    return n;
}

static uint32_t number_at(const vr_names *t, const vr_tensor *tensors, vr_str name, uint64_t hash)
{
    uint64_t slot = t->slots[place(t, tensors, name, hash)];
    return slot == 0 ? VR_NO_NAME : (uint32_t)slot - 1;
}

uint32_t vr_names_get(const vr_names *t, const vr_tensor *tensors, vr_str name)
{
    return number_at(t, tensors, name, hash_of(t, name));
}

/* Three things are read for a name, each somewhere else: its slot, its tensor, the name in the header. Each
 * is asked for early, all of one kind together. */
void vr_names_get_many(const vr_names *t, const vr_tensor *tensors, const vr_str *names, size_t n,
                       uint32_t *numbers)
{
    uint64_t hashes[VR_NAMES_MANY];
    for (size_t i = 0; i < n; i++) {
        hashes[i] = hash_of(t, names[i]);
        TOUCH(&t->slots[hashes[i] & t->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t slot = t->slots[hashes[i] & t->mask];
        if (slot != 0)
            TOUCH(&tensors[(uint32_t)slot - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t slot = t->slots[hashes[i] & t->mask];
        if (slot != 0)
            TOUCH(tensors[(uint32_t)slot - 1].name.s);
    }
    for (size_t i = 0; i < n; i++)
        numbers[i] = number_at(t, tensors, names[i], hashes[i]);
}
