/* SPDX-License-Identifier: MIT
 * What a projector file takes, as the library measures it: for scripts that hold it against llama.cpp's own
 * figures. Each line of the input is a file and settings, apart by tabs: its path, fa=on, host=1, tokens=64.
 * Each line of the output is a JSON object. */
#include "llama/clip.h"

#include "lines.h"

#include <stdlib.h>

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

static vram_status answer(char *line, vram_ctx *ctx, vram_io *io)
{
    vr_clip_params p = { .flash_attn = true, .flash_auto = true };
    vram_model *m = NULL;
    const vr_clip *c = NULL;
    const char *why = NULL;
    vr_clip_sizes s;
    const char *path = strtok(line, "\t");
    for (char *word = strtok(NULL, "\t"); word != NULL; word = strtok(NULL, "\t"))
        set(&p, word);
    VR_TRY(open_model(&m, ctx, io, path));
    VR_TRY(vr_clip_of(&c, &why, m, &ctx->arena));
    if (c == NULL)
        return vr_fail(ctx, VRAM_EUNSUPPORTED, T(why));
    VR_TRY(vr_clip_measure(&s, c, &p, &ctx->arena));
    printf("{\"weights\": %llu, \"compute\": %llu, \"host_compute\": %llu, \"nodes\": %zu, \"splits\": %zu, "
           "\"why\": \"%s\"}\n",
           (unsigned long long)s.weights, (unsigned long long)s.compute, (unsigned long long)s.host_compute,
           s.n_nodes, s.n_splits, s.why != NULL ? s.why : "");
    return VRAM_OK;
}

int main(void)
{
    return answer_lines(answer);
}
