/* SPDX-License-Identifier: MIT
 *
 * `vram fit MODEL --solve quant`: of several quantisations that lie together the largest that fits. Their
 * sizes are in the listing, so few headers are read: the smallest one's says how much room is left, the
 * largest that this is enough for is read next, then the one above it, which must not fit.
 */
#include <stdlib.h>

#include "cli.h"

typedef struct search {
    cli *c;
    const char *name;
    const vram_workload *workload;
    const vram_device *const *devices;
    size_t n_devices;
    vram_quant *list;
    vram_fit **fits; /* NULL: not judged */
    size_t n;
} search;

static vram_status judge(search *q, size_t i, vram_checkpoint *ck)
{
    vram_model *model = NULL;
    vram_status s = VRAM_OK;

    if (ck == NULL)
        s = cli_open_nth(q->c, q->name, i + 1, &ck);
    if (s == VRAM_OK)
        s = vram_model_new(&model, ck);
    if (s == VRAM_OK)
        s = vram_fit_new(&q->fits[i], model, q->workload, q->devices, q->n_devices);
    q->list[i].fit = q->fits[i];
    return s;
}

/* Between one that fits and one that does not, by what the first leaves. */
static size_t guess(const search *q, size_t lo, size_t hi)
{
    int64_t left = vram_fit_headroom(q->fits[lo]);
    size_t i = hi - 1;

    while (i > lo + 1 && (left < 0 || q->list[i].bytes - q->list[lo].bytes > (uint64_t)left))
        i--;
    return i;
}

static vram_status bisect(search *q, vram_checkpoint *smallest, size_t *best)
{
    size_t lo = 0, hi = q->n;
    vram_status s = judge(q, 0, smallest);

    if (s == VRAM_OK && !vram_fit_may(q->fits[0]))
        hi = 1;
    while (s == VRAM_OK && hi - lo > 1) {
        size_t i = guess(q, lo, hi);
        s = judge(q, i, NULL);
        if (s == VRAM_OK)
            *(vram_fit_may(q->fits[i]) ? &lo : &hi) = i;
    }
    *best = lo;
    return s;
}

static vram_status search_list(search *q, vram_checkpoint *smallest, vram_fit **out)
{
    const vram_choice *choices;
    size_t best = 0;
    vram_status s;

    q->n = vram_checkpoint_choices(smallest, &choices);
    q->list = calloc(q->n, sizeof *q->list);
    q->fits = calloc(q->n, sizeof *q->fits);
    if (q->list == NULL || q->fits == NULL)
        return vram_fail(q->c->ctx, &(vram_error){ .code = VRAM_ENOMEM, .text = "out of host memory" });
    for (size_t i = 0; i < q->n; i++)
        q->list[i] = (vram_quant){ .name = choices[i].name, .bytes = choices[i].bytes };
    s = bisect(q, smallest, &best);
    if (s == VRAM_OK)
        s = vram_fit_quants(q->fits[best], q->list, q->n, best);
    *out = q->fits[best];
    return s;
}

vram_status cli_quants(cli *c, const char *name, const vram_workload *w, const vram_device *const *devices,
                       size_t n_devices, vram_fit **out)
{
    search q = { .c = c, .name = name, .workload = w, .devices = devices, .n_devices = n_devices };
    const vram_choice *choices;
    vram_checkpoint *smallest = NULL;
    vram_status s = cli_open_nth(c, name, 1, &smallest);

    if (s != VRAM_OK)
        return s;
    if (vram_checkpoint_choices(smallest, &choices) == 0)
        return vram_fail(
            c->ctx, &(vram_error){ .code = VRAM_ESETTING,
                                   .text = "--solve quant chooses among the GGUF files of one place, and "
                                           "there are not several",
                                   .hint = "give a repository or a folder of quantisations" });
    s = search_list(&q, smallest, out);
    free(q.list);
    free(q.fits);
    return s;
}
