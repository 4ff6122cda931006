/* SPDX-License-Identifier: MIT
 * What a projector file takes, as the library measures it: for scripts that hold it against llama.cpp's own
 * figures. Each line of the input is a file and settings, apart by tabs: its path, fa=on, host=1, tokens=64.
 * Each line of the output is a JSON object. */
#include "vram_io.h"

#include "llama/clip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINE 4096

static void set(vr_clip_params *p, char *word)
{
    char *value = strchr(word, '=');
    *value++ = '\0';
    if (strcmp(word, "fa") == 0) {
        p->flash_attn = strcmp(value, "off") != 0;
        p->flash_auto = strcmp(value, "auto") == 0;
    } else if (strcmp(word, "host") == 0) {
        p->on_host = strcmp(value, "1") == 0;
    } else if (strcmp(word, "tokens") == 0) {
        p->most_tokens = strtoull(value, NULL, 10);
    }
}

static vram_status answer(const char *path, const vr_clip_params *p, vram_ctx *ctx, vram_io *io)
{
    vram_checkpoint *ck = NULL;
    vram_model *m = NULL;
    const vr_clip *c = NULL;
    const char *why = NULL;
    vr_clip_sizes s;
    VR_TRY(vram_io_open_path(&ck, io, ctx, path));
    VR_TRY(vram_model_new(&m, ck));
    VR_TRY(vr_clip_of(&c, &why, m, &ctx->arena));
    if (c == NULL)
        return vr_fail(ctx, VRAM_EUNSUPPORTED, T(why));
    VR_TRY(vr_clip_measure(&s, c, p, &ctx->arena));
    printf("{\"weights\": %llu, \"compute\": %llu, \"host_compute\": %llu, \"nodes\": %zu, \"splits\": %zu, "
           "\"why\": \"%s\"}\n",
           (unsigned long long)s.weights, (unsigned long long)s.compute, (unsigned long long)s.host_compute,
           s.n_nodes, s.n_splits, s.why != NULL ? s.why : "");
    return VRAM_OK;
}

int main(void)
{
    static char line[MOST_LINE];
    while (fgets(line, sizeof line, stdin) != NULL) {
        vr_clip_params p = { .flash_attn = true, .flash_auto = true };
        vram_io *io = NULL;
        vram_ctx *ctx = NULL;
        line[strcspn(line, "\n")] = '\0';
        const char *path = strtok(line, "\t");
        for (char *word = strtok(NULL, "\t"); word != NULL; word = strtok(NULL, "\t"))
            set(&p, word);
        if (vram_io_new(&io) != VRAM_OK || vram_open(&ctx, vram_io_alloc, NULL) != VRAM_OK)
            return 5;
        if (answer(path, &p, ctx, io) != VRAM_OK)
            printf("{\"error\": \"%s\"}\n", vram_last_error(ctx)->text);
        vram_close(ctx);
        vram_io_free(io);
    }
    return 0;
}
