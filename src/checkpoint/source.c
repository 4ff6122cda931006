/* SPDX-License-Identifier: MIT
 * What the side that fetches bytes needs of the context: errors of its own, kept where all others are. */
#include "base/base.h"

vram_status vram_fail(vram_ctx *ctx, const vram_error *e)
{
    vram_error error = *e; /* it may be the context's own, which is replaced */
    const vr_piece text = T(error.text);
    (void)vr_fail_pieces(ctx, error.code, error.file, error.has_offset ? &error.offset : NULL, &text, 1);
    if (error.hint != NULL)
        vr_hint(ctx, error.hint);
    return error.code;
}
