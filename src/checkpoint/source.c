/* SPDX-License-Identifier: MIT
 * What the side that fetches bytes needs: errors of its own, kept where all others are, and errors of ours
 * with the directory that only it knows. */
#include <string.h>

#include "checkpoint/checkpoint.h"

vram_status vram_fail(vram_ctx *ctx, const vram_error *e)
{
    vram_error error = *e; /* it may be the context's own, which is replaced */
    const vr_piece text = T(error.text);
    (void)vr_fail_pieces(ctx, error.code, error.file, error.has_offset ? &error.offset : NULL, &text, 1);
    if (error.hint != NULL)
        vr_hint(ctx, error.hint);
    return error.code;
}

#define PATH_BYTES 1024

vram_status vram_checkpoint_place(vram_checkpoint *ck, const char *directory)
{
    size_t n = strlen(directory);
    while (n > 0 && directory[n - 1] == '/')
        n--;
    ck->place = vr_arena_copy(&ck->arena, (vr_str){ directory, n });
    return ck->place == NULL ? VRAM_ENOMEM : VRAM_OK;
}

vram_status vram_checkpoint_read_from(vram_checkpoint *ck, const char *where)
{
    ck->read_from = vr_arena_copy(&ck->arena, vr_str_of(where));
    return ck->read_from == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static bool is_below(const vram_checkpoint *ck, const char *file)
{
    return file != NULL && file[0] != '/' && strcmp(file, ck->name) != 0;
}

vram_status vr_checkpoint_placed(const vram_checkpoint *ck, vram_status s)
{
    vram_error e = *vram_last_error(ck->ctx);
    char path[PATH_BYTES];
    if (s >= 0 || ck->place == NULL || e.code != s || !is_below(ck, e.file))
        return s;
    size_t n = strlen(ck->place), k = strlen(e.file);
    if (n + k + 2 > PATH_BYTES)
        return s;
    memcpy(path, ck->place, n);
    path[n] = '/';
    memcpy(path + n + 1, e.file, k + 1);
    e.file = path;
    return vram_fail(ck->ctx, &e);
}
