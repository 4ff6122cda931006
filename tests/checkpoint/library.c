/* SPDX-License-Identifier: MIT
 * A program of somebody else: the shared library and vram.h, nothing else of this repository. It has a file's
 * bytes in memory, hands over what is asked for, and prints what `vram inspect --json` does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vram.h"

static const char file[] = "\x41\0\0\0\0\0\0\0"
                           "{\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}"
                           "............";
#define SIZE (sizeof(file) - 1)

static void *memory(void *ud, void *p, size_t old, size_t n)
{
    (void)ud, (void)old;
    if (n == 0)
        free(p);
    return n == 0 ? NULL : realloc(p, n);
}

static int collect(void *ud, const void *bytes, size_t n)
{
    return strncat(ud, bytes, n) == NULL;
}

static vram_status answer(vram_checkpoint *ck, const vram_want *w)
{
    if (w->kind == VRAM_WANT_RANGE)
        return vram_checkpoint_supply(ck, w->file, w->offset, file + w->offset, (size_t)w->least);
    vram_status s = vram_checkpoint_add_file(ck, "model.safetensors", SIZE);
    return s == VRAM_OK ? vram_checkpoint_listed(ck) : s;
}

int main(void)
{
    static char text[1 << 16];
    vram_ctx *ctx = NULL;
    vram_checkpoint *ck = NULL;
    vram_model *model = NULL;
    const vram_want *wants;
    vram_status s = vram_open(&ctx, memory, NULL);
    if (s == VRAM_OK)
        s = vram_checkpoint_new(&ck, ctx, "mine");
    while (s == VRAM_OK && (s = vram_checkpoint_step(ck)) == VRAM_MORE) {
        size_t n = vram_checkpoint_wants(ck, &wants);
        s = VRAM_OK;
        for (size_t i = 0; i < n && s == VRAM_OK; i++)
            s = answer(ck, &wants[i]);
    }
    if (s == VRAM_OK)
        s = vram_model_new(&model, ck);
    if (s == VRAM_OK)
        s = vram_inspect_render(model, &(vram_style){ .format = VRAM_JSON }, collect, text);
    if (s != VRAM_OK && ctx != NULL)
        fprintf(stderr, "%s\n", vram_last_error(ctx)->text);
    if (ctx != NULL)
        vram_close(ctx);
    bool right =
        strstr(text, "\"checkpoint_bytes\": 12,") != NULL && strstr(text, "\"parameters\": 6,") != NULL;
    fputs(right ? "" : text, stderr);
    return s == VRAM_OK && right ? 0 : 1;
}
