/* SPDX-License-Identifier: MIT
 * Manifests of Ollama on any bytes. What must hold: a refusal names a place in the text; what is accepted has
 * digests that can be file names, sizes that can be sums, files that lead down; memory stays within a
 * multiple of the text and is given back. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "io/ollama_manifest.h"

static void check_file(const char *file)
{
    vr_str rest = vr_str_of(file), part;
    while (vr_str_split(&rest, '/', &part))
        CHECK(part.n > 0 && !vr_str_is(part, ".") && !vr_str_is(part, ".."));
    for (const char *c = file; *c != '\0'; c++)
        CHECK((unsigned char)*c >= 0x20 && *c != 0x7f && *c != '\\');
}

static void check_accepted(const io_manifest *m)
{
    bool weights = false;
    CHECK(m->n <= IO_LAYERS_MOST);
    for (size_t i = 0; i < m->n; i++) {
        const io_layer *l = &m->layers[i];
        bool file = l->kind == IO_LAYER_MODEL || l->kind == IO_LAYER_PROJECTOR || l->kind == IO_LAYER_TENSOR;
        CHECK(l->kind != IO_LAYER_OTHER && l->size <= INT64_MAX && (l->file != NULL || !file));
        CHECK(strlen(l->digest) == 71 && strncmp(l->digest, "sha256:", 7) == 0 &&
              strspn(l->digest + 7, "0123456789abcdef") == 64);
        weights = weights || l->kind == IO_LAYER_MODEL || l->kind == IO_LAYER_TENSOR;
        if (l->file != NULL)
            check_file(l->file);
    }
    CHECK(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vr_arena arena;
    io_manifest m;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    vr_arena_init(&arena, ctx);
    vram_status s = io_manifest_read(&m, &arena, "manifest", "model", (vr_str){ (const char *)data, size });
    if (s == VRAM_OK) {
        check_accepted(&m);
    } else {
        const vram_error *e = vram_last_error(ctx);
        CHECK(e->code == s && vram_exit_status(s) == 3 && e->text[0] != '\0');
        CHECK(strcmp(e->file, "manifest") == 0 && (!e->has_offset || e->offset <= size));
    }
    CHECK(h.peak_bytes < 65536 + 64 * size);
    vr_arena_free(&arena);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
