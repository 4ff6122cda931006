/* SPDX-License-Identifier: MIT
 * Keys and values that stand in a weight file itself.
 * Source of types and their numbers: ggml docs/gguf.md (enum gguf_metadata_value_type). */
#ifndef VR_METADATA_H
#define VR_METADATA_H

#include "base/base.h"

typedef enum vr_meta_type {
    VR_META_U8,
    VR_META_I8,
    VR_META_U16,
    VR_META_I16,
    VR_META_U32,
    VR_META_I32,
    VR_META_F32,
    VR_META_BOOL,
    VR_META_STR,
    VR_META_ARRAY,
    VR_META_U64,
    VR_META_I64,
    VR_META_F64,
    VR_META_TYPES
} vr_meta_type;

typedef struct vr_meta {
    vr_str key;
    uint8_t type;    /* vr_meta_type */
    uint8_t element; /* of an array: vr_meta_type */
    bool kept;       /* bytes below are there; long arrays and those of strings are passed over */
    uint64_t count;  /* elements of an array */
    uint64_t offset; /* of the value in the file */
    vr_str bytes;    /* a string; a number or an array of numbers as in the file */
} vr_meta;

typedef struct vr_metadata {
    bool big_endian;  /* the file's numbers */
    uint32_t version; /* of the format */
    vr_meta *list;    /* in the file's order */
    size_t n, room;
    vr_map by_key;
} vr_metadata;

vram_status vr_metadata_init(vr_metadata *m, vr_arena *a, bool big_endian);
/* *other: the entry that has this key already; nothing is added then. */
vram_status vr_metadata_add(vr_metadata *m, const vr_meta *entry, const vr_meta **other);

/* NULL when there is none; m may be NULL in all of these. */
const vr_meta *vr_metadata_get(const vr_metadata *m, const char *key);
/* Any whole number that is not negative, or a bool. */
bool vr_metadata_u64(const vr_metadata *m, const char *key, uint64_t *out);
bool vr_metadata_double(const vr_metadata *m, const char *key, double *out);
bool vr_metadata_str(const vr_metadata *m, const char *key, vr_str *out);

/* One number of a value, at 0 for a scalar; false when it is not there, not kept, or not of that kind. */
bool vr_meta_u64(const vr_metadata *m, const vr_meta *v, uint64_t at, uint64_t *out);
bool vr_meta_i64(const vr_metadata *m, const vr_meta *v, uint64_t at, int64_t *out);
bool vr_meta_double(const vr_metadata *m, const vr_meta *v, uint64_t at, double *out);

unsigned vr_meta_bytes(uint8_t type); /* of a number; 0 for the others */
const char *vr_meta_name(uint8_t type);

#endif
