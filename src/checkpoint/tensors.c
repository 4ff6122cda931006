/* SPDX-License-Identifier: MIT
 * What the readers of all formats do with tensors: keep shapes and names, put them in order. */
#include "checkpoint/loading.h"

#include <string.h>

uint64_t *vr_keep_dims(vram_checkpoint *ck, const uint64_t *dims, size_t n)
{
    vr_loading *l = ck->loading;
    if (l->dims == NULL || n > l->dims_left) {
        size_t room = 2048;
        l->dims = VR_ARRAY(&ck->arena, uint64_t, room);
        l->dims_left = l->dims == NULL ? 0 : room;
        if (l->dims == NULL)
            return NULL;
    }
    uint64_t *kept = l->dims;
    if (n > 0)
        memcpy(kept, dims, n * sizeof(*dims));
    l->dims += n;
    l->dims_left -= n;
    return kept;
}

void vr_put_names(vram_checkpoint *ck, uint32_t number, size_t n, size_t *put, const vr_tensor **other)
{
    uint32_t taken = 0;
    *other = NULL;
    for (*put = 0; *put < n;) {
        size_t some = n - *put < VR_NAMES_MANY ? n - *put : VR_NAMES_MANY;
        size_t done = vr_names_put(&ck->names, ck->tensors, number + (uint32_t)*put, some, &taken);
        *put += done;
        if (done < some) {
            *other = &ck->tensors[taken];
            return;
        }
    }
}

static bool lies_before(void *ud, const void *x, const void *y)
{
    const vr_tensor *a = x, *b = y;
    (void)ud;
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
}

vram_status vr_sort_tensors(vram_checkpoint *ck, vr_tensor *t, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (lies_before(NULL, &t[i], &t[i - 1]))
            return vr_sort(ck->ctx, t, n, sizeof(*t), lies_before, NULL);
    }
    return VRAM_OK;
}
