/* SPDX-License-Identifier: MIT
 * What every room of the core uses: the context, its error, arenas, slices, checked arithmetic. */
#ifndef VR_BASE_H
#define VR_BASE_H

#include "vram.h"

/* ---- characters of ASCII alone, whatever the locale ---- */

static inline char vr_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}
static inline bool vr_is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static inline bool vr_is_letter(char c)
{
    return vr_lower(c) >= 'a' && vr_lower(c) <= 'z';
}
static inline bool vr_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- slices: length-carrying strings, not NUL-terminated ---- */

typedef struct vr_str {
    const char *s;
    size_t n;
} vr_str;

#define VR_LIT(literal) ((vr_str){ (literal), sizeof(literal) - 1 })
vr_str vr_str_of(const char *zero_terminated); /* NULL gives the empty slice */
vr_str vr_str_made(const char *text);          /* NULL, of a text that could not be made, gives .s NULL */
bool vr_str_eq(vr_str a, vr_str b);
bool vr_str_is(vr_str a, const char *zero_terminated);
int vr_str_cmp(vr_str a, vr_str b); /* bytewise */
bool vr_str_starts(vr_str a, const char *prefix);
bool vr_str_ends(vr_str a, const char *suffix);
bool vr_str_find(vr_str a, const char *what, size_t *at); /* first place; at may be NULL */
bool vr_str_holds(vr_str a, vr_str what);                 /* in either case; nothing is held by all */
/* Takes the next word separated by sep off *rest; false at the end, which is rest->s NULL. Empty words are
 * returned: "a," is "a" and "", an empty slice is one empty word. */
bool vr_str_split(vr_str *rest, char sep, vr_str *word);

/* ---- arena: everything of one object, freed at once ---- */

struct vr_chunk;
typedef struct vr_arena {
    struct vram_ctx *ctx;
    struct vr_chunk *head, *last; /* all chunks in the order they were made */
    struct vr_chunk *current; /* the one being filled; those behind it are empty or have one large block */
    bool starved;             /* something asked of it was not there: what was made may lack words */
} vr_arena;

void vr_arena_init(vr_arena *a, struct vram_ctx *ctx);
/* Zeroed, aligned to 16. NULL: the hook failed; the context's error is then VRAM_ENOMEM. n 0 gives a valid
 * pointer. */
void *vr_arena_alloc(vr_arena *a, size_t n);
/* The same, but what stands in it is not said: for what is large and not all used. */
void *vr_arena_spare(vr_arena *a, size_t n);
void *vr_arena_array(vr_arena *a, size_t count, size_t size); /* checked product */
char *vr_arena_copy(vr_arena *a, vr_str s);                   /* NUL-terminated copy */
/* Grows an array that was the arena's own: room for `count` elements, the old ones first, the others zero.
 * `old` is void then; NULL: it still holds. */
void *vr_arena_grow(vr_arena *a, void *old, size_t old_count, size_t count, size_t size);
void vr_arena_reset(vr_arena *a); /* empties, keeps the memory */
void vr_arena_free(vr_arena *a);

#define VR_NEW(arena, type) ((type *)vr_arena_alloc((arena), sizeof(type)))
#define VR_ARRAY(arena, type, count) ((type *)vr_arena_array((arena), (count), sizeof(type)))

/* ---- pieces: type-safe text without printf ---- */

typedef enum vr_piece_kind {
    VR_P_STR,
    VR_P_U64,
    VR_P_GROUPED, /* 1,234,567 */
    VR_P_I64,
    VR_P_FIXED, /* value / unit with `decimals` places (at most 18), exact, rounded half up; "?" for unit 0 */
    VR_P_BYTES  /* 1.50 GiB, 2.00 MiB, 512 bytes as PyTorch prints sizes: two decimals, ties to even */
} vr_piece_kind;

typedef struct vr_piece {
    vr_piece_kind kind;
    vr_str str;
    uint64_t u;
    int64_t i;
    uint64_t unit;
    unsigned decimals;
} vr_piece;

#define VR_KIB (UINT64_C(1) << 10)
#define VR_MIB (UINT64_C(1) << 20)
#define VR_GIB (UINT64_C(1) << 30)
#define VR_GB UINT64_C(1000000000)

#define T(zero_terminated) ((vr_piece){ .kind = VR_P_STR, .str = vr_str_of(zero_terminated) })
#define S(slice) ((vr_piece){ .kind = VR_P_STR, .str = (slice) })
#define U(value) ((vr_piece){ .kind = VR_P_U64, .u = (value) })
#define GROUPED(value) ((vr_piece){ .kind = VR_P_GROUPED, .u = (value) })
#define I(value) ((vr_piece){ .kind = VR_P_I64, .i = (value) })
#define FIXED(value, per, places)                                                                            \
    ((vr_piece){ .kind = VR_P_FIXED, .u = (value), .unit = (per), .decimals = (places) })
#define GIB(bytes) FIXED(bytes, VR_GIB, 2) /* the number only */
#define MIB(bytes) FIXED(bytes, VR_MIB, 1)
#define BYTES(bytes) ((vr_piece){ .kind = VR_P_BYTES, .u = (bytes) })

/* ---- growing text buffer with a ceiling; failure is sticky ---- */

typedef struct vr_buf {
    struct vram_ctx *ctx;
    char *p; /* NUL-terminated whenever not NULL */
    size_t n, room, limit;
    bool failed; /* out of memory or over the limit; the context's error says which */
} vr_buf;

void vr_buf_init(vr_buf *b, struct vram_ctx *ctx, size_t limit);
void vr_buf_free(vr_buf *b);
void vr_put_bytes(vr_buf *b, const void *p, size_t n);
void vr_put_repeat(vr_buf *b, const char *what, size_t times); /* what: one UTF-8 character or more */
void vr_put_pieces(vr_buf *b, const vr_piece *p, size_t n);
#define vr_put(b, ...)                                                                                       \
    vr_put_pieces((b), (const vr_piece[]){ __VA_ARGS__ },                                                    \
                  sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))
size_t vr_utf8_width(vr_str s); /* columns, one per code point or ill-formed byte */

/* What may reach a terminal: every text from a file, an argument or a name goes through here. Takes the
 * character at the start of s (n not 0) and returns its bytes. *hidden (may be NULL): VR_SHOWN, or what must
 * not be shown: the code point of a control character, a line separator, or one that is invisible or changes
 * the direction; VR_ILL_FORMED for a byte that is no UTF-8. */
#define VR_SHOWN UINT32_MAX
#define VR_ILL_FORMED (UINT32_MAX - 1)
size_t vr_utf8_shown(vr_str s, uint32_t *hidden);
/* Each character that must not be shown becomes one '?'; returns the new length. */
size_t vr_utf8_clean(char *text, size_t n);

/* The text of some pieces as a NUL-terminated string in an arena; NULL on failure. */
const char *vr_text_pieces(vr_arena *a, const vr_piece *p, size_t n);
#define vr_text(a, ...)                                                                                      \
    vr_text_pieces((a), (const vr_piece[]){ __VA_ARGS__ },                                                   \
                   sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))

/* ---- context and errors ---- */

struct vram_ctx {
    vram_alloc_fn alloc;
    void *ud;
    vr_arena arena; /* of the context itself: error texts, warnings, small objects */
    vram_error error;
    char error_text[1536];
    char error_hint[256];
    char error_file[256];
    vram_warning *warnings;
    size_t n_warnings, warnings_room;
    struct vr_object *objects; /* last made first */
};

/* Head of every object that the context frees: its first member. */
typedef struct vr_object {
    struct vr_object *next;
    /* Must free the object's arena (and buffers), which holds the object. */
    void (*release)(struct vr_object *self);
} vr_object;
void vr_object_register(struct vram_ctx *ctx, vr_object *o, void (*release)(vr_object *));

/* Memory straight from the hook, for what must grow in place. */
void *vr_ctx_realloc(struct vram_ctx *ctx, void *p, size_t old_size, size_t new_size);

/* Sets the error (and drops its hint) and returns its code. file may be NULL (not in a file). Texts longer
 * than the room end in "..."; control characters and ill-formed UTF-8 become '?'. Never allocates. */
vram_status vr_fail_pieces(struct vram_ctx *ctx, vram_status code, const char *file, const uint64_t *offset,
                           const vr_piece *p, size_t n);
#define vr_fail(ctx, code, ...)                                                                              \
    vr_fail_pieces((ctx), (code), NULL, NULL, (const vr_piece[]){ __VA_ARGS__ },                             \
                   sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))
#define vr_fail_at(ctx, code, file, offset, ...)                                                             \
    vr_fail_pieces((ctx), (code), (file), &(const uint64_t){ (offset) }, (const vr_piece[]){ __VA_ARGS__ },  \
                   sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))
#define vr_fail_file(ctx, code, file, ...)                                                                   \
    vr_fail_pieces((ctx), (code), (file), NULL, (const vr_piece[]){ __VA_ARGS__ },                           \
                   sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))
void vr_hint(struct vram_ctx *ctx, const char *hint); /* adds what to do next to the error just set */
/* Adds a warning (deduplicated by text and file, cleaned and cut like errors, 200 at most and then one that
 * says so); VRAM_OK or VRAM_ENOMEM. file may be NULL. */
vram_status vr_warn_pieces(struct vram_ctx *ctx, const char *file, const vr_piece *p, size_t n);
#define vr_warn(ctx, file, ...)                                                                              \
    vr_warn_pieces((ctx), (file), (const vr_piece[]){ __VA_ARGS__ },                                         \
                   sizeof((const vr_piece[]){ __VA_ARGS__ }) / sizeof(vr_piece))

#define VR_TRY(call)                                                                                         \
    do {                                                                                                     \
        vram_status vr_try_status = (call);                                                                  \
        if (vr_try_status != VRAM_OK)                                                                        \
            return vr_try_status;                                                                            \
    } while (0)

/* ---- checked arithmetic: false on overflow, *out untouched then ---- */

bool vr_add(uint64_t a, uint64_t b, uint64_t *out);
bool vr_mul(uint64_t a, uint64_t b, uint64_t *out);
uint64_t vr_add_sat(uint64_t a, uint64_t b); /* UINT64_MAX on overflow */
uint64_t vr_mul_sat(uint64_t a, uint64_t b);
uint64_t vr_sub_floor(uint64_t a, uint64_t b);       /* 0 when b > a */
uint64_t vr_round_up(uint64_t x, uint64_t multiple); /* saturating */
/* a * b / c with a 128-bit product, rounded half up; saturating. */
uint64_t vr_mul_div(uint64_t a, uint64_t b, uint64_t c); /* c 0: UINT64_MAX */
int64_t vr_diff(uint64_t a, uint64_t b);                 /* a - b, clamped to int64 */

/* ---- sorting without qsort ---- */

/* Stable. less(ud, x, y): x comes first. VRAM_ENOMEM when no scratch can be had. */
vram_status vr_sort(struct vram_ctx *ctx, void *base, size_t count, size_t size,
                    bool (*less)(void *ud, const void *x, const void *y), void *ud);

/* ---- map from names to numbers, seeded hash, in an arena ---- */

typedef struct vr_map {
    vr_arena *arena;
    struct vr_slot *slots;
    size_t n, room;
    uint64_t seed;
} vr_map;
/* Room for `expected` names without growing; keys are borrowed. */
vram_status vr_map_init(vr_map *m, vr_arena *a, size_t expected, uint64_t seed);
/* *was_there: the key existed, *value is then its old number and nothing changes. */
vram_status vr_map_put(vr_map *m, vr_str key, uint32_t number, bool *was_there, uint32_t *value);
bool vr_map_get(const vr_map *m, vr_str key, uint32_t *value); /* false: *value untouched */

/* ---- numbers as people type them ---- */

bool vr_parse_u64(vr_str s, uint64_t *out); /* decimal digits only */
/* A whole number or refused: 4096, 16K (x1024), 16k (x1000), 1.5M (x2^20), 1.5m, G, g, 7e9, 4_096, 4,096. */
bool vr_parse_count(vr_str s, uint64_t *out);
/* 24GiB, 24 GB, 512MiB, 1024, 11.5GiB, in either case; K, M, G, T alone are binary; a part of a byte is
 * rounded half up. */
bool vr_parse_bytes(vr_str s, uint64_t *out);
/* Decimal number as value = *out / *scale with scale a power of ten (<= 1e9): "0.2" -> 2, 10; "7e9" ->
 * 7000000000, 1. */
bool vr_parse_decimal(vr_str s, uint64_t *out, uint64_t *scale);

#endif
