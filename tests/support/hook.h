/* SPDX-License-Identifier: MIT
 * The allocator hook of tests: counts, checks old sizes, fails the n-th call. */
#ifndef VR_TEST_HOOK_H
#define VR_TEST_HOOK_H

#include <stdlib.h>

#include "vram.h"

typedef struct hook {
    size_t live_bytes, peak_bytes, n_calls, live_blocks;
    size_t fail_at;  /* 0: never; n: the n-th growing call fails ... */
    bool fail_after; /* ... and every later one too */
} hook;

static inline void *hook_alloc(void *ud, void *ptr, size_t old_size, size_t new_size)
{
    hook *h = ud;
    if (new_size == 0) {
        if (ptr != NULL) {
            h->live_bytes -= old_size;
            h->live_blocks--;
        }
        free(ptr);
        return NULL;
    }
    h->n_calls++;
    if (h->fail_at != 0 && (h->n_calls == h->fail_at || (h->fail_after && h->n_calls > h->fail_at)))
        return NULL;
    void *p = realloc(ptr, new_size);
    if (p == NULL)
        return NULL;
    h->live_bytes += new_size - (ptr != NULL ? old_size : 0);
    if (ptr == NULL)
        h->live_blocks++;
    if (h->live_bytes > h->peak_bytes)
        h->peak_bytes = h->live_bytes;
    return p;
}

#endif
