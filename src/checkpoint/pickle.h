/* SPDX-License-Identifier: MIT
 * Pickles as data. Nothing is imported, called or executed: a class or function is a name, calling it is a
 * node that remembers what would have been called with what. What these mean is the reader's business. */
#ifndef VR_PICKLE_H
#define VR_PICKLE_H

#include "base/base.h"

typedef enum vr_pickled_kind {
    VR_PICKLED_NONE,
    VR_PICKLED_BOOL,
    VR_PICKLED_INT,   /* that fits 64 bits */
    VR_PICKLED_TEXT,  /* raw: the escapes of protocol 0 stay */
    VR_PICKLED_BYTES, /* bytes, and numbers longer than 64 bits: little-endian, two's complement */
    VR_PICKLED_OTHER, /* a fraction, or something that only its extension or buffer would tell */
    VR_PICKLED_LIST,  /* and sets */
    VR_PICKLED_TUPLE,
    VR_PICKLED_DICT,
    VR_PICKLED_GLOBAL,     /* items: module and name */
    VR_PICKLED_CALL,       /* a vr_pickled_call; its items as of a list, or of a dictionary when pairs */
    VR_PICKLED_PERSISTENT, /* items: the persistent id */
} vr_pickled_kind;

typedef struct vr_pickled {
    uint8_t kind;  /* vr_pickled_kind */
    bool pairs;    /* of a dictionary: n is twice the number of its entries */
    bool open;     /* for the reader: it is inside of this one */
    uint8_t tag;   /* idem: what it means; 0 at first */
    uint32_t n;    /* items, or bytes of text */
    uint32_t room; /* of items */
    uint32_t at;   /* offset of the instruction that made it */
    union {
        int64_t i;
        const char *s; /* borrowed from the pickle */
        struct vr_pickled **items;
    } u;
} vr_pickled;

typedef struct vr_pickled_call {
    vr_pickled value; /* first */
    vr_pickled *callee, *args;
    vr_pickled *state; /* what BUILD gave it, or NULL */
} vr_pickled_call;

typedef struct vr_pickled_list {
    vr_pickled **p;
    size_t n, room;
} vr_pickled_list;

/* Ceilings. A state dictionary takes about 30 values and items for each tensor; nothing published has
 * 500,000. */
#define VR_MAX_PICKLE_BYTES (256 * VR_MIB)
#define VR_MAX_PICKLED (UINT32_C(1) << 24)
#define VR_MAX_PICKLE_STACK (UINT32_C(1) << 21)

typedef struct vr_pickle {
    vram_ctx *ctx;
    vr_arena *arena;
    const char *file;     /* for messages */
    uint64_t file_offset; /* where the text lies in it */
    bool place_unknown;   /* the text was unpacked: file_offset is all that can be said */
    const char *text;     /* all that is known of it */
    size_t n, at;
    uint64_t most; /* bytes it can have at most */

    vr_pickled_list stack, memo, globals, persistents;
    vr_pickled *blocks;           /* where the next values go */
    size_t blocks_left, n_values; /* with the items of containers */
    vr_pickled *result;           /* once at its end */
} vr_pickle;

/* Reads one pickle from at on; several may follow each other. VRAM_MORE: the text ends before it. */
vram_status vr_pickle_read(vr_pickle *p);
/* For the error of a value: where it stands in the file. */
uint64_t vr_pickle_place(const vr_pickle *p, uint64_t at);

vr_str vr_pickled_text(const vr_pickled *v);          /* of a text, otherwise empty */
bool vr_pickled_u64(const vr_pickled *v, uint64_t *); /* a whole number, not negative */
/* A global of that name, "os.system". */
bool vr_pickled_is(const vr_pickled *v, const char *module, const char *name);
static inline const vr_pickled_call *vr_pickled_call_of(const vr_pickled *v)
{
    return (const vr_pickled_call *)(const void *)v;
}

#endif
