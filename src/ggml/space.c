/* SPDX-License-Identifier: MIT
 * Best fit among the free blocks of all chunks; only when none fits, what lies behind the last tensor.
 * Source: ggml 0.20, ggml/src/ggml-alloc.c (ggml_dyn_tallocr_alloc, ggml_dyn_tallocr_free_bytes). */
#include "ggml/space.h"

#include <string.h>

#define ENDLESS (UINT64_MAX / 2) /* of the last chunk, and the most that one may have */

void vr_gg_space_init(vr_gg_space *s, uint64_t alignment, uint64_t chunk_size, vr_arena *a)
{
    memset(s, 0, sizeof *s);
    s->arena = a;
    s->alignment = alignment;
    s->chunk_size = chunk_size < ENDLESS ? chunk_size : ENDLESS;
}

static void drop(vr_gg_chunk *c, size_t i)
{
    c->n_holes--;
    memmove(&c->holes[i], &c->holes[i + 1], (c->n_holes - i) * sizeof c->holes[0]);
}

/* The smallest block that is large enough, of several the last, of several chunks the last that has any:
 * chunks are searched each for itself. The last block of a chunk does not count. */
static bool best_hole(const vr_gg_space *s, uint64_t size, size_t *chunk, size_t *block)
{
    bool found = false;
    for (size_t c = 0; c < s->n_chunks; c++) {
        const vr_gg_chunk *k = s->chunks[c];
        uint64_t best = UINT64_MAX;
        for (size_t i = 0; i + 1 < k->n_holes; i++) {
            if (k->holes[i].size < size || k->holes[i].size > best)
                continue;
            best = k->holes[i].size;
            *chunk = c;
            *block = i;
            found = true;
        }
    }
    return found;
}

/* The chunk that grows least; among those that need not grow, the one with least to spare. */
static bool best_end(const vr_gg_space *s, uint64_t size, size_t *chunk, size_t *block)
{
    int64_t best = INT64_MIN;
    bool found = false;
    for (size_t c = 0; c < s->n_chunks; c++) {
        const vr_gg_chunk *k = s->chunks[c];
        if (k->n_holes == 0)
            continue;
        const vr_gg_hole *last = &k->holes[k->n_holes - 1];
        int64_t spare = (int64_t)(k->top - last->offset - size);
        bool better = best < 0 ? spare > best : spare >= 0 && spare < best;
        if (last->size < size || !better)
            continue;
        best = spare;
        *chunk = c;
        *block = k->n_holes - 1;
        found = true;
    }
    return found;
}

static vram_status new_chunk(vr_gg_space *s, uint64_t size)
{
    if (s->n_chunks == VR_GG_MOST_CHUNKS || size > ENDLESS)
        return vr_fail(s->arena->ctx, VRAM_EUNSUPPORTED,
                       T("the compute buffer is larger than ggml can count"));
    vr_gg_chunk *k = VR_NEW(s->arena, vr_gg_chunk);
    if (k == NULL)
        return VRAM_ENOMEM;
    k->n_holes = 1;
    k->holes[0].size = s->n_chunks == VR_GG_MOST_CHUNKS - 1 ? ENDLESS
                       : size > s->chunk_size               ? size
                                                            : s->chunk_size;
    s->chunks[s->n_chunks++] = k;
    return VRAM_OK;
}

vram_status vr_gg_space_take(vr_gg_space *s, uint64_t size, vr_gg_address *at)
{
    size = vr_round_up(size, s->alignment);
    size_t chunk = 0, block = 0;
    if (!best_hole(s, size, &chunk, &block) && !best_end(s, size, &chunk, &block)) {
        VR_TRY(new_chunk(s, size));
        chunk = s->n_chunks - 1;
        block = 0;
    }
    vr_gg_chunk *k = s->chunks[chunk];
    vr_gg_hole *f = &k->holes[block];
    *at = (vr_gg_address){ (uint32_t)chunk, f->offset };
    f->offset += size;
    f->size -= size;
    uint64_t end = f->offset;
    if (f->size == 0)
        drop(k, block);
    if (end > k->top)
        k->top = end;
    return VRAM_OK;
}

static vram_status insert(vr_gg_space *s, vr_gg_chunk *k, uint64_t offset, uint64_t size)
{
    if (k->n_holes == VR_GG_MOST_HOLES)
        return vr_fail(s->arena->ctx, VRAM_EUNSUPPORTED, T("ggml's graph allocator runs out of free blocks"));
    size_t i = 0;
    while (i < k->n_holes && k->holes[i].offset < offset)
        i++;
    memmove(&k->holes[i + 1], &k->holes[i], (k->n_holes - i) * sizeof k->holes[0]);
    k->holes[i] = (vr_gg_hole){ offset, size };
    k->n_holes++;
    return VRAM_OK;
}

/* Joins block i with the next one when they touch. */
static void join(vr_gg_chunk *k, size_t i)
{
    if (i + 1 >= k->n_holes || k->holes[i].offset + k->holes[i].size != k->holes[i + 1].offset)
        return;
    k->holes[i].size += k->holes[i + 1].size;
    drop(k, i + 1);
}

vram_status vr_gg_space_give(vr_gg_space *s, vr_gg_address at, uint64_t size)
{
    size = vr_round_up(size, s->alignment);
    vr_gg_chunk *k = s->chunks[at.chunk];
    for (size_t i = 0; i < k->n_holes; i++) {
        vr_gg_hole *f = &k->holes[i];
        if (f->offset + f->size == at.offset) {
            f->size += size;
            join(k, i);
            return VRAM_OK;
        }
        if (at.offset + size == f->offset) {
            f->offset = at.offset;
            f->size += size;
            if (i > 0)
                join(k, i - 1);
            return VRAM_OK;
        }
    }
    return insert(s, k, at.offset, size);
}

uint64_t vr_gg_space_bytes(const vr_gg_space *s)
{
    uint64_t n = 0;
    for (size_t c = 0; c < s->n_chunks; c++)
        n = vr_add_sat(n, s->chunks[c]->top);
    return n;
}
