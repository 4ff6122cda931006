/* SPDX-License-Identifier: MIT
 * Arena over the context's hook: a list of chunks, filled from the front, freed at once.
 * Chunks double up to 1 MiB; what would waste a good part of the current chunk gets a chunk of its own behind
 * it. Under AddressSanitizer blocks are separated by poisoned gaps, so that running over one is found
 * although the hook sees only chunks. */
#include "base/internal.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VR_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define VR_ASAN 1
#endif
#ifdef VR_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#define GAP ((size_t)16)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define GAP ((size_t)0)
#endif

#define ALIGN ((size_t)16)
#define CHUNK_MIN ((size_t)4096)
#define CHUNK_MAX ((size_t)1 << 20)
#define LARGE (CHUNK_MAX / 4)

struct vr_chunk {
    struct vr_chunk *next;
    size_t size; /* as asked from the hook, this head included */
    size_t used; /* of the payload */
};

static char *payload(struct vr_chunk *c)
{
    char *p = (char *)(c + 1);
    size_t over = (size_t)((uintptr_t)p % ALIGN); /* the hook promises no alignment of 16 */
    return over == 0 ? p : p + (ALIGN - over);
}

static size_t capacity(struct vr_chunk *c)
{
    return c->size - (size_t)(payload(c) - (char *)c);
}

static struct vr_chunk *chunk_new(vr_arena *a, size_t need)
{
    size_t size = need + sizeof(struct vr_chunk) + ALIGN;
    size_t usual = a->current == NULL ? CHUNK_MIN : a->current->size * 2;
    if (usual > CHUNK_MAX)
        usual = CHUNK_MAX;
    if (need <= LARGE && size < usual)
        size = usual;
    struct vr_chunk *c = vr_ctx_realloc(a->ctx, NULL, 0, size);
    if (c == NULL)
        return NULL;
    *c = (struct vr_chunk){ .size = size };
    POISON(payload(c), capacity(c));
    if (a->last != NULL)
        a->last->next = c;
    else
        a->head = c;
    a->last = c;
    return c;
}

/* A chunk with room: the first empty one behind the current that is large enough, or a new one. */
static struct vr_chunk *chunk_for(vr_arena *a, size_t need)
{
    struct vr_chunk *c = a->current != NULL ? a->current->next : a->head;
    while (c != NULL && (c->used != 0 || capacity(c) < need))
        c = c->next;
    if (c == NULL)
        c = chunk_new(a, need);
    if (c != NULL && (need <= LARGE || a->current == NULL))
        a->current = c;
    return c;
}

void vr_arena_init(vr_arena *a, struct vram_ctx *ctx)
{
    *a = (vr_arena){ .ctx = ctx };
}

static size_t need_of(size_t n)
{
    return (n + (n == 0) + ALIGN - 1) / ALIGN * ALIGN + GAP;
}

void *vr_arena_spare(vr_arena *a, size_t n)
{
    if (n > SIZE_MAX / 2) {
        vr_out_of_memory(a->ctx);
        a->starved = true;
        return NULL;
    }
    size_t need = need_of(n);
    struct vr_chunk *c = a->current;
    if (c == NULL || capacity(c) - c->used < need)
        c = chunk_for(a, need);
    a->starved = a->starved || c == NULL;
    if (c == NULL)
        return NULL;
    char *p = payload(c) + c->used;
    c->used += need;
    UNPOISON(p, n);
    return p;
}

void *vr_arena_alloc(vr_arena *a, size_t n)
{
    void *p = vr_arena_spare(a, n);

    if (p != NULL && n != 0)
        memset(p, 0, n);
    return p;
}

void *vr_arena_array(vr_arena *a, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        vr_out_of_memory(a->ctx);
        return NULL;
    }
    return vr_arena_alloc(a, count * size);
}

char *vr_arena_copy(vr_arena *a, vr_str s)
{
    char *p = vr_arena_spare(a, s.n < SIZE_MAX ? s.n + 1 : s.n); /* SIZE_MAX is refused there */
    if (p == NULL)
        return NULL;
    if (s.n != 0)
        memcpy(p, s.s, s.n);
    p[s.n] = '\0';
    return p;
}

/* The link to the chunk that this block has for itself; NULL: it shares one. */
static struct vr_chunk **own_chunk(vr_arena *a, const void *block, size_t need)
{
    struct vr_chunk **at = &a->head;
    while (*at != NULL && payload(*at) != block)
        at = &(*at)->next;
    return *at != NULL && (*at)->used == need ? at : NULL;
}

/* A chunk of its own is not left behind when what is in it grows: beside the new one it would be half of all
 * memory again. */
static void *grow_chunk(vr_arena *a, struct vr_chunk **at, size_t need)
{
    struct vr_chunk *c = *at, *moved;
    size_t head = (size_t)(payload(c) - (char *)c), used = c->used;
    UNPOISON(payload(c), capacity(c));
    moved = vr_ctx_realloc(a->ctx, c, c->size, need + sizeof(struct vr_chunk) + ALIGN);
    if (moved == NULL) {
        a->starved = true;
        return NULL;
    }
    a->last = a->last == c ? moved : a->last;
    a->current = a->current == c ? moved : a->current;
    *at = moved;
    moved->size = need + sizeof(struct vr_chunk) + ALIGN;
    moved->used = need;
    char *p = payload(moved);
    if (p != (char *)moved + head)
        memmove(p, (char *)moved + head, used);
    memset(p + used, 0, need - used);
    POISON(p + need - GAP, capacity(moved) - need + GAP);
    return p;
}

void *vr_arena_grow(vr_arena *a, void *old, size_t old_count, size_t count, size_t size)
{
    size_t kept = old_count < count ? old_count : count;
    struct vr_chunk **own = NULL;
    if (old != NULL && old_count * size > LARGE && (size == 0 || count <= SIZE_MAX / 2 / size) &&
        count > old_count)
        own = own_chunk(a, old, need_of(old_count * size));
    if (own != NULL)
        return grow_chunk(a, own, need_of(count * size));
    void *p = vr_arena_array(a, count, size);
    if (p != NULL && old != NULL && kept * size != 0) {
        memcpy(p, old, kept * size);
        POISON(old, old_count * size); /* nobody may look there any more */
    }
    return p;
}

void vr_arena_reset(vr_arena *a)
{
    for (struct vr_chunk *c = a->head; c != NULL; c = c->next) {
        POISON(payload(c), capacity(c));
        c->used = 0;
    }
    a->current = a->head;
}

/* The arena may lie inside one of its own chunks (an object holds its arena), so the loop does not touch it.
 */
void vr_arena_free(vr_arena *a)
{
    struct vram_ctx *ctx = a->ctx;
    struct vr_chunk *c = a->head;
    vr_arena_init(a, ctx);
    while (c != NULL) {
        struct vr_chunk *next = c->next;
        UNPOISON(payload(c), capacity(c));
        vr_ctx_realloc(ctx, c, c->size, 0);
        c = next;
    }
}
