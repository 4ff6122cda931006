/* SPDX-License-Identifier: MIT
 * What is known of a file. Pieces that follow each other in the file and in memory become one, so a header
 * that is supplied byte by byte from one buffer costs one entry and is never copied. */
#include "checkpoint/view.h"

#include <string.h>

static uint64_t span_end(const vr_span *s)
{
    return s->offset + s->n;
}

vram_status vr_view_add(vr_view *v, vr_arena *a, uint64_t offset, const char *p, size_t n)
{
    if (v->n > 0) {
        vr_span *last = &v->spans[v->n - 1];
        if (span_end(last) == offset && last->p + last->n == p) {
            last->n += n;
            return VRAM_OK;
        }
        if (offset < last->offset)
            v->unsorted = true;
    }
    if (v->n == v->room) {
        size_t room = v->room == 0 ? 2 : v->room * 2;
        vr_span *grown = vr_arena_grow(a, v->spans, v->room, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        v->spans = grown;
        v->room = room;
    }
    v->spans[v->n++] = (vr_span){ offset, p, n };
    return VRAM_OK;
}

static bool earlier(void *ud, const void *x, const void *y)
{
    (void)ud;
    return ((const vr_span *)x)->offset < ((const vr_span *)y)->offset;
}

static void merge(vr_view *v)
{
    size_t kept = 0;
    for (size_t i = 1; i < v->n; i++) {
        vr_span *last = &v->spans[kept], *s = &v->spans[i];
        if (span_end(last) == s->offset && last->p + last->n == s->p)
            last->n += s->n;
        else
            v->spans[++kept] = *s;
    }
    v->n = kept + 1;
}

vram_status vr_view_settle(vr_view *v, vram_ctx *ctx)
{
    if (!v->unsorted)
        return VRAM_OK;
    VR_TRY(vr_sort(ctx, v->spans, v->n, sizeof(*v->spans), earlier, NULL));
    merge(v);
    v->unsorted = false;
    return VRAM_OK;
}

uint64_t vr_view_known(const vr_view *v, uint64_t begin)
{
    uint64_t end = begin;
    for (size_t i = 0; i < v->n && v->spans[i].offset <= end; i++) {
        if (span_end(&v->spans[i]) > end)
            end = span_end(&v->spans[i]);
    }
    return end;
}

void vr_view_copy(const vr_view *v, uint64_t begin, char *out, size_t n)
{
    uint64_t end = begin + n;
    for (size_t i = 0; i < v->n && begin < end; i++) {
        const vr_span *s = &v->spans[i];
        if (s->offset > begin || span_end(s) <= begin)
            continue;
        uint64_t stop = span_end(s) < end ? span_end(s) : end;
        memcpy(out, s->p + (begin - s->offset), (size_t)(stop - begin));
        out += stop - begin;
        begin = stop;
    }
}

const char *vr_view_get(const vr_view *v, vr_arena *a, uint64_t begin, size_t n)
{
    for (size_t i = 0; i < v->n; i++) {
        const vr_span *s = &v->spans[i];
        if (s->offset <= begin && span_end(s) >= begin + n)
            return s->p + (begin - s->offset);
    }
    char *joined = vr_arena_alloc(a, n);
    if (joined != NULL)
        vr_view_copy(v, begin, joined, n);
    return joined;
}
