/* SPDX-License-Identifier: MIT
 * Stable merge sort, bottom up. Two neighbouring runs that are in order already are left alone, so sorted
 * input (the usual order of names in a checkpoint) costs one comparison per element and no copy. */
#include "base/internal.h"

#include <string.h>

typedef bool (*less_fn)(void *ud, const void *x, const void *y);

/* Merges the sorted runs [a, b) and [b, end). The left one moves to scratch; the write place never overtakes
 * the right one. */
static void merge(char *a, char *b, const char *end, size_t size, char *scratch, less_fn less, void *ud)
{
    size_t left_bytes = (size_t)(b - a);
    memcpy(scratch, a, left_bytes);
    const char *left = scratch, *left_end = scratch + left_bytes, *right = b;
    char *to = a;
    while (left < left_end && right < end) {
        const char **from = less(ud, right, left) ? &right : &left;
        memcpy(to, *from, size);
        *from += size;
        to += size;
    }
    if (left < left_end)
        memcpy(to, left, (size_t)(left_end - left));
}

static void merge_runs(char *base, size_t count, size_t size, size_t width, char *scratch, less_fn less,
                       void *ud)
{
    for (size_t at = 0; count - at > width;) {
        size_t right = count - at - width < width ? count - at - width : width;
        char *a = base + at * size, *b = a + width * size;
        if (less(ud, b, b - size))
            merge(a, b, b + right * size, size, scratch, less, ud);
        at += width + right;
    }
}

static bool in_order(const char *base, size_t count, size_t size, less_fn less, void *ud)
{
    for (size_t i = 1; i < count; i++) {
        if (less(ud, base + i * size, base + (i - 1) * size))
            return false;
    }
    return true;
}

vram_status vr_sort(struct vram_ctx *ctx, void *base, size_t count, size_t size,
                    bool (*less)(void *ud, const void *x, const void *y), void *ud)
{
    if (count < 2 || size == 0 || in_order(base, count, size, less, ud))
        return VRAM_OK;
    size_t widest = 1; /* the left run of the last merge */
    while (widest < count - widest)
        widest *= 2;
    size_t scratch_bytes = widest * size; /* less than the array itself, so it cannot overflow */
    char *scratch = vr_ctx_realloc(ctx, NULL, 0, scratch_bytes);
    if (scratch == NULL)
        return VRAM_ENOMEM;
    for (size_t width = 1; width <= widest; width *= 2)
        merge_runs(base, count, size, width, scratch, less, ud);
    vr_ctx_realloc(ctx, scratch, scratch_bytes, 0);
    return VRAM_OK;
}
