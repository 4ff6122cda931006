/* SPDX-License-Identifier: MIT
 * Programs that scripts ask of GGUF files: each line of the input is a file and settings, apart by tabs, each
 * line of the output a JSON object. */
#ifndef TESTS_LLAMA_LINES_H
#define TESTS_LLAMA_LINES_H

#include "vram_io.h"

#include "llama/llama.h"

#include <stdio.h>
#include <string.h>

#define MOST_LINE 4096

static inline vram_status open_model(vram_model **m, vram_ctx *ctx, vram_io *io, const char *path)
{
    vram_checkpoint *ck = NULL;
    VR_TRY(vram_io_open_path(&ck, io, ctx, path));
    return vram_model_new(m, ck);
}

static inline vram_status open_lm(const vr_lm **lm, vram_ctx *ctx, vram_io *io, const char *path)
{
    vram_model *m = NULL;
    const char *why = NULL;
    VR_TRY(open_model(&m, ctx, io, path));
    VR_TRY(vr_lm_of(lm, &why, m, &ctx->arena));
    return *lm != NULL ? VRAM_OK : vr_fail(ctx, VRAM_EUNSUPPORTED, T(why));
}

/* What it prints is the object; where it fails, its sentence is. */
typedef vram_status answer_line(char *line, vram_ctx *ctx, vram_io *io);

static inline int answer_lines(answer_line *answer)
{
    static char line[MOST_LINE];
    while (fgets(line, sizeof line, stdin) != NULL) {
        vram_io *io = NULL;
        vram_ctx *ctx = NULL;
        line[strcspn(line, "\n")] = '\0';
        if (vram_io_new(&io) != VRAM_OK || vram_open(&ctx, vram_io_alloc, NULL) != VRAM_OK)
            return 5;
        if (answer(line, ctx, io) != VRAM_OK)
            printf("{\"error\": \"%s\"}\n", vram_last_error(ctx)->text);
        vram_close(ctx);
        vram_io_free(io);
    }
    return 0;
}

#endif
