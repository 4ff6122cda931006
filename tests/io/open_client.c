/* SPDX-License-Identifier: MIT
 * Lets each allocation of the library fail while a name is opened, once and for good, and prints how many
 * there are. Run by test_hub.py and by hand: open_client [--offline] NAME */
#include <stdio.h>
#include <string.h>

#include "../support/hook.h"
#include "vram_io.h"

/* What one failing allocation leads to, or NULL when it is what it should be. */
static const char *fail_one(const char *name, bool offline, size_t at, bool after, bool *opened)
{
    hook h = { .fail_at = at, .fail_after = after };
    const vram_io_options options = { .offline = offline };
    vram_io *io = NULL;
    vram_ctx *ctx = NULL;
    vram_checkpoint *ck = NULL;
    const char *wrong = NULL;
    if (vram_io_new(&io) != VRAM_OK)
        return "no vram_io";
    vram_io_set_options(io, &options);
    vram_status s = vram_open(&ctx, hook_alloc, &h);
    if (s == VRAM_OK)
        s = vram_io_open(&ck, io, ctx, name);
    *opened = s == VRAM_OK;
    if (s != VRAM_OK && s != VRAM_ENOMEM)
        wrong = ctx != NULL ? vram_last_error(ctx)->text : "another status than out of memory";
    if (s == VRAM_ENOMEM && ctx != NULL && vram_last_error(ctx)->code != VRAM_ENOMEM)
        wrong = "out of memory is not the error";
    if (wrong != NULL)
        printf("allocation %zu%s: %s\n", at, after ? " and later ones" : "", wrong);
    if (ctx != NULL)
        vram_close(ctx);
    vram_io_free(io);
    if (wrong == NULL && h.live_blocks != 0)
        wrong = "memory is lost";
    if (wrong == NULL && *opened && h.n_calls >= at && after)
        wrong = "it was opened without memory";
    return wrong;
}

int main(int argc, char **argv)
{
    bool offline = argc == 3 && strcmp(argv[1], "--offline") == 0, opened = false;
    size_t at[2] = { 0, 0 };
    if (argc != 2 + (int)offline)
        return 2;
    for (int after = 0; after < 2; after++) {
        size_t first = 0;
        for (at[after] = 1; at[after] < 100000; at[after]++) {
            const char *wrong = fail_one(argv[argc - 1], offline, at[after], after != 0, &opened);
            if (wrong != NULL) {
                printf("allocation %zu%s: %s\n", at[after], after ? " and later ones" : "", wrong);
                return 1;
            }
            /* one that can be done without does not end the search */
            first = opened ? first + 1 : 0;
            if (first == 20)
                break;
        }
    }
    printf("%zu\n", at[1] - 19);
    return 0;
}
