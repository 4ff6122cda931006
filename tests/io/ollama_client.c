/* SPDX-License-Identifier: MIT
 * Opens a model of Ollama and prints what it consists of as lines of JSON. Run by test_ollama.py and by hand:
 *   ollama_client [--offline] [--refresh] [--memory] [--endpoint URL] REPO [TAG]
 * --memory: instead lets each allocation of the library fail, once and for good, and prints how many there
 * are. */
#include <stdio.h>
#include <string.h>

#include "../support/hook.h"
#include "checkpoint/checkpoint.h"
#include "io/ollama.h"

static void put_text(const char *name, const char *s)
{
    printf("\"%s\": \"", name);
    for (; s != NULL && *s != '\0'; s++) {
        if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ' || (unsigned char)*s > 126)
            printf("\\u%04x", (unsigned)(unsigned char)*s);
        else
            putchar(*s);
    }
    printf("\", ");
}

static void show(const vram_checkpoint *ck)
{
    printf("{");
    put_text("kind", "checkpoint");
    put_text("name", ck->name);
    put_text("read_from", ck->read_from);
    printf("\"config\": %s, \"tensors\": %zu, \"bytes\": %llu}\n", ck->has_config ? "true" : "false",
           ck->n_tensors, (unsigned long long)ck->tensor_bytes);
    for (size_t i = 0; i < ck->n_files; i++) {
        printf("{");
        put_text("kind", "file");
        put_text("name", ck->files[i].name);
        printf("\"size\": %llu}\n", (unsigned long long)ck->files[i].size);
    }
    for (size_t i = 0; i < ck->n_left_out; i++) {
        printf("{");
        put_text("kind", "left_out");
        put_text("name", ck->left_out[i].name);
        printf("\"size\": %llu}\n", (unsigned long long)ck->left_out[i].size);
    }
}

static void show_error(const vram_error *e)
{
    printf("{");
    put_text("kind", "error");
    put_text("text", e->text);
    put_text("file", e->file);
    put_text("hint", e->hint);
    printf("\"offset\": %lld, \"exit\": %d}\n", e->has_offset ? (long long)e->offset : -1,
           vram_exit_status(e->code));
}

static void progress(void *ud, uint64_t read, uint64_t not_downloaded)
{
    (void)not_downloaded;
    *(uint64_t *)ud = read;
}

/* What one failing allocation leads to, or NULL when it is what it should be. */
static const char *fail_one(const io_place *place, const vram_io_options *options, size_t at, bool after,
                            bool *opened)
{
    hook h = { .fail_at = at, .fail_after = after };
    vram_io *io;
    vram_ctx *ctx = NULL;
    vram_checkpoint *ck;
    if (vram_io_new(&io) != VRAM_OK)
        return "no io";
    vram_io_set_options(io, options);
    vram_status s = vram_open(&ctx, hook_alloc, &h);
    if (s == VRAM_OK)
        s = io_ollama_open(&ck, io, ctx, place);
    *opened = s == VRAM_OK;
    bool failed = h.n_calls >= at;
    const char *wrong = s == VRAM_OK && failed             ? "it went on without memory"
                        : s != VRAM_OK && !failed          ? "it failed with all memory"
                        : s != VRAM_OK && s != VRAM_ENOMEM ? vram_last_error(ctx)->text
                                                           : NULL;
    if (wrong != NULL)
        printf("{\"kind\": \"wrong\", \"at\": %zu, \"text\": \"%s\"}\n", at, wrong);
    if (ctx != NULL)
        vram_close(ctx);
    vram_io_free(io);
    return wrong != NULL ? "wrong" : h.live_blocks != 0 ? "left" : NULL;
}

static int try_memory(const io_place *place, const vram_io_options *options)
{
    size_t at = 1;
    for (bool opened = false; !opened; at++) {
        for (int after = 0; after < 2; after++) {
            const char *wrong = fail_one(place, options, at, after, &opened);
            if (wrong != NULL)
                return 1;
        }
    }
    printf("{\"kind\": \"memory\", \"n\": %zu}\n{\"kind\": \"read\", \"bytes\": 0}\n", at - 2);
    return 0;
}

int main(int argc, char **argv)
{
    io_place place = { .kind = IO_PLACE_OLLAMA };
    vram_io_options options = { .offline = false };
    uint64_t came = 0;
    vram_io *io;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    int i = 1;
    bool memory = false;
    for (; i < argc && argv[i][0] == '-'; i++) {
        options.offline = options.offline || strcmp(argv[i], "--offline") == 0;
        memory = memory || strcmp(argv[i], "--memory") == 0;
        options.refresh = options.refresh || strcmp(argv[i], "--refresh") == 0;
        if (strcmp(argv[i], "--endpoint") == 0 && i + 1 < argc)
            snprintf(place.endpoint, sizeof(place.endpoint), "%s", argv[++i]);
    }
    if (i < argc)
        snprintf(place.repo, sizeof(place.repo), "%s", argv[i++]);
    if (i < argc)
        snprintf(place.quant, sizeof(place.quant), "%s", argv[i]);
    if (memory)
        return try_memory(&place, &options);
    if (vram_io_new(&io) != VRAM_OK || vram_open(&ctx, vram_io_alloc, NULL) != VRAM_OK)
        return 99;
    vram_io_set_options(io, &options);
    vram_io_set_progress(io, progress, &came);
    if (io_ollama_open(&ck, io, ctx, &place) == VRAM_OK)
        show(ck);
    else
        show_error(vram_last_error(ctx));
    const vram_warning *w;
    size_t n = vram_warnings(ctx, &w);
    for (size_t k = 0; k < n; k++) {
        printf("{");
        put_text("kind", "warning");
        put_text("file", w[k].file);
        put_text("text", w[k].text);
        printf("\"n\": %zu}\n", k);
    }
    printf("{\"kind\": \"read\", \"bytes\": %llu}\n", (unsigned long long)came);
    vram_close(ctx);
    vram_io_free(io);
    return 0;
}
