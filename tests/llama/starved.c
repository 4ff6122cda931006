/* SPDX-License-Identifier: MIT
 * Answers on a GGUF file where memory ends: every allocation fails once, and from one on all of them.
 *
 *     starved ENGINE SOUGHT STEP FILE GPU...      STEP: each, or every so many-th
 *
 * What is asked for fits in the end, is refused for want of memory until then, and nothing stays allocated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/hook.h"
#include "vram_io.h"

#define MOST_GPUS 4

typedef struct asked {
    const char *engine, *sought, *path;
    char **gpus;
    size_t n;
} asked;

static vram_status judge(vram_ctx *ctx, hook *h, const asked *q, const vram_model *m, size_t n)
{
    vram_workload *w = NULL;
    vram_device *d[MOST_GPUS] = { NULL };
    vram_fit *f = NULL;
    size_t begin = h->n_calls;
    if (n != 0)
        h->fail_at = begin + n;
    vram_status status = vram_workload_new(&w, ctx, q->engine);
    if (status == VRAM_OK && *q->sought != '\0')
        status = vram_workload_solve(w, q->sought);
    for (size_t i = 0; i < q->n && status == VRAM_OK; i++)
        status = vram_device_new(&d[i], ctx, q->gpus[i], 0);
    if (status == VRAM_OK)
        status = vram_fit_new(&f, m, w, (const vram_device *const *)d, q->n);
    if (status == VRAM_OK && n == 0)
        printf("%zu allocations\n", h->n_calls - begin);
    return status;
}

/* n: which allocation fails, 0 for none; *reached: there were so many. */
static bool run(const asked *q, size_t n, bool and_later, bool *reached)
{
    hook h = { .fail_after = and_later };
    vram_io *io = NULL;
    vram_ctx *ctx = NULL;
    vram_checkpoint *ck = NULL;
    vram_model *m = NULL;
    if (vram_io_new(&io) != VRAM_OK || vram_open(&ctx, hook_alloc, &h) != VRAM_OK ||
        vram_io_open_path(&ck, io, ctx, q->path) != VRAM_OK || vram_model_new(&m, ck) != VRAM_OK)
        exit(2);
    vram_status status = judge(ctx, &h, q, m, n);
    *reached = n == 0 || h.n_calls >= h.fail_at;
    bool good = status == (n != 0 && *reached ? VRAM_ENOMEM : VRAM_OK);
    if (!good)
        printf("allocation %zu%s: status %d, %s\n", n, and_later ? " and later" : "", (int)status,
               status != VRAM_OK ? vram_last_error(ctx)->text : "");
    vram_close(ctx);
    vram_io_free(io);
    if (h.live_bytes != 0 || h.live_blocks != 0)
        printf("allocation %zu: %zu bytes in %zu blocks stay\n", n, h.live_bytes, h.live_blocks);
    return good && h.live_bytes == 0 && h.live_blocks == 0;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 5 + MOST_GPUS)
        return 2;
    const asked q = { argv[1], argv[2], argv[4], argv + 5, (size_t)argc - 5 };
    size_t step = strtoul(argv[3], NULL, 10), runs = 0, bad = 0;
    bool reached = true;
    bad += !run(&q, 0, false, &reached);
    for (size_t n = 1; step != 0 && reached; n += step, runs++) {
        bool ignored;
        bad += !run(&q, n, false, &reached);
        bad += !run(&q, n, true, &ignored);
    }
    printf("%zu runs, %zu bad\n", 2 * runs + 1, bad);
    return bad != 0;
}
