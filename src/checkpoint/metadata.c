/* SPDX-License-Identifier: MIT
 * Keys and values of a weight file, kept as they stand in it and read when they are asked for.
 * Source of names and sizes: llama.cpp, ggml/src/gguf.cpp (GGUF_TYPE_SIZE, GGUF_TYPE_NAME). */
#include "checkpoint/metadata.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned bytes;
} types[VR_META_TYPES] = {
    [VR_META_U8] = { "u8", 1 },     [VR_META_I8] = { "i8", 1 },     [VR_META_U16] = { "u16", 2 },
    [VR_META_I16] = { "i16", 2 },   [VR_META_U32] = { "u32", 4 },   [VR_META_I32] = { "i32", 4 },
    [VR_META_F32] = { "f32", 4 },   [VR_META_BOOL] = { "bool", 1 }, [VR_META_STR] = { "str", 0 },
    [VR_META_ARRAY] = { "arr", 0 }, [VR_META_U64] = { "u64", 8 },   [VR_META_I64] = { "i64", 8 },
    [VR_META_F64] = { "f64", 8 },
};

unsigned vr_meta_bytes(uint8_t type)
{
    return type < VR_META_TYPES ? types[type].bytes : 0;
}

const char *vr_meta_name(uint8_t type)
{
    return type < VR_META_TYPES ? types[type].name : "?";
}

vram_status vr_metadata_init(vr_metadata *m, vr_arena *a, bool big_endian)
{
    *m = (vr_metadata){ .big_endian = big_endian };
    return vr_map_init(&m->by_key, a, 32, 0);
}

vram_status vr_metadata_add(vr_metadata *m, const vr_meta *entry, const vr_meta **other)
{
    bool was_there = false;
    uint32_t number = 0;
    *other = NULL;
    if (m->n == m->room) {
        size_t room = m->room == 0 ? 32 : m->room * 2;
        vr_meta *grown = vr_arena_grow(m->by_key.arena, m->list, m->room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        m->list = grown;
        m->room = room;
    }
    VR_TRY(vr_map_put(&m->by_key, entry->key, (uint32_t)m->n, &was_there, &number));
    if (was_there)
        *other = &m->list[number];
    else
        m->list[m->n++] = *entry;
    return VRAM_OK;
}

const vr_meta *vr_metadata_get(const vr_metadata *m, const char *key)
{
    uint32_t at = 0;
    return m != NULL && vr_map_get(&m->by_key, vr_str_of(key), &at) ? &m->list[at] : NULL;
}

/* ---- numbers ---- */

/* The bytes of one number, lowest first; *type is what they are. */
static bool raw_number(const vr_metadata *m, const vr_meta *v, uint64_t at, uint8_t *type, uint64_t *out)
{
    if (v == NULL || !v->kept)
        return false;
    *type = v->type == VR_META_ARRAY ? v->element : v->type;
    unsigned n = vr_meta_bytes(*type);
    if (n == 0 || at >= v->bytes.n / n)
        return false;
    const unsigned char *p = (const unsigned char *)v->bytes.s + at * n;
    uint64_t raw = 0;
    for (unsigned i = 0; i < n; i++)
        raw = raw << 8 | p[m->big_endian ? i : n - 1 - i];
    *out = raw;
    return true;
}

static bool is_signed(uint8_t type)
{
    return type == VR_META_I8 || type == VR_META_I16 || type == VR_META_I32 || type == VR_META_I64;
}

static bool is_floating(uint8_t type)
{
    return type == VR_META_F32 || type == VR_META_F64;
}

static int64_t extended(uint64_t raw, uint8_t type)
{
    unsigned bits = vr_meta_bytes(type) * 8;
    uint64_t sign = UINT64_C(1) << (bits - 1);
    uint64_t wide = (raw ^ sign) - sign; /* two's complement, widened */
    int64_t v = 0;
    memcpy(&v, &wide, sizeof(v));
    return v;
}

bool vr_meta_i64(const vr_metadata *m, const vr_meta *v, uint64_t at, int64_t *out)
{
    uint64_t raw = 0;
    uint8_t type = 0;
    if (!raw_number(m, v, at, &type, &raw) || !is_signed(type))
        return false;
    *out = extended(raw, type);
    return true;
}

bool vr_meta_u64(const vr_metadata *m, const vr_meta *v, uint64_t at, uint64_t *out)
{
    uint64_t raw = 0;
    uint8_t type = 0;
    if (!raw_number(m, v, at, &type, &raw) || is_floating(type) ||
        (is_signed(type) && extended(raw, type) < 0))
        return false;
    *out = type == VR_META_BOOL ? raw != 0 : raw;
    return true;
}

bool vr_meta_double(const vr_metadata *m, const vr_meta *v, uint64_t at, double *out)
{
    uint64_t raw = 0;
    uint8_t type = 0;
    if (!raw_number(m, v, at, &type, &raw) || !is_floating(type))
        return false;
    if (type == VR_META_F32) {
        uint32_t bits = (uint32_t)raw;
        float single = 0;
        memcpy(&single, &bits, sizeof(single));
        *out = (double)single;
    } else {
        memcpy(out, &raw, sizeof(*out));
    }
    return true;
}

/* ---- by key ---- */

/* A scalar of that key, or NULL. */
static const vr_meta *scalar(const vr_metadata *m, const char *key)
{
    const vr_meta *v = vr_metadata_get(m, key);
    return v != NULL && v->type != VR_META_ARRAY ? v : NULL;
}

bool vr_metadata_u64(const vr_metadata *m, const char *key, uint64_t *out)
{
    return vr_meta_u64(m, scalar(m, key), 0, out);
}

bool vr_metadata_double(const vr_metadata *m, const char *key, double *out)
{
    return vr_meta_double(m, scalar(m, key), 0, out);
}

bool vr_metadata_str(const vr_metadata *m, const char *key, vr_str *out)
{
    const vr_meta *v = scalar(m, key);
    if (v == NULL || v->type != VR_META_STR)
        return false;
    *out = v->bytes;
    return true;
}
