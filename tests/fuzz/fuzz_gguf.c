/* SPDX-License-Identifier: MIT
 * The GGUF reader and the model on top of it on any bytes. The first byte: bit 3, the file is longer than
 * what follows by a hole that is never filled; the upper half, how large the pieces are. What must hold: a
 * refusal names the file and a place in it; what is accepted is consistent; it does not matter in which
 * pieces the bytes come; memory stays within a multiple of the input and is given back. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"

#define NAME "model.gguf"
#define HOLE (UINT64_C(1) << 40)

typedef struct file {
    const char *bytes;
    size_t n;
    uint64_t size;
} file;

static vram_status supply(vram_checkpoint *ck, const file *f, const vram_want *w, size_t piece)
{
    CHECK(w->least > 0 && w->least <= w->most && w->offset <= f->size && w->most <= f->size - w->offset);
    uint64_t n = piece == 0 ? w->most : w->least;
    if (w->offset + w->least > f->n)
        return VRAM_EIO;
    if (w->offset + n > f->n)
        n = f->n - w->offset;
    for (uint64_t at = n; at > 0;) { /* from behind */
        uint64_t k = piece == 0 || at < piece ? at : piece;
        at -= k;
        CHECK(vram_checkpoint_supply(ck, NAME, w->offset + at, f->bytes + w->offset + at, (size_t)k) ==
              VRAM_OK);
    }
    return VRAM_OK;
}

static vram_status read_all(vram_checkpoint *ck, const file *f, size_t piece)
{
    const vram_want *wants;
    for (size_t rounds = 0;; rounds++) {
        vram_status s = vram_checkpoint_step(ck);
        if (s != VRAM_MORE)
            return s;
        CHECK(rounds < 8 + 3 * f->n); /* each brings what an item needs */
        CHECK(vram_checkpoint_wants(ck, &wants) == 1);
        if (wants[0].kind == VRAM_WANT_LISTING) {
            CHECK(vram_checkpoint_add_file(ck, NAME, f->size) == VRAM_OK);
            s = vram_checkpoint_listed(ck);
        } else {
            s = supply(ck, f, &wants[0], piece);
        }
        if (s != VRAM_OK)
            return s;
    }
}

static void check_accepted(const vram_checkpoint *ck, const file *f)
{
    uint64_t bytes = 0, elements = 0, end = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        unsigned block = vr_dtype_block((vr_dtype)t->dtype);
        CHECK(t->end >= t->begin && (t->begin >= end || t->end == t->begin) && t->n_dims <= 4);
        CHECK(t->elements % block == 0);
        CHECK(t->end - t->begin == t->elements / block * vr_dtype_block_bytes((vr_dtype)t->dtype));
        CHECK(vr_checkpoint_find(ck, t->name) == t);
        end = t->end > end ? t->end : end;
        bytes += t->end - t->begin;
        elements += t->elements;
    }
    CHECK(bytes == ck->tensor_bytes && elements == ck->elements);
    CHECK(ck->n_tensors == 0 || ck->files[0].header_bytes + end <= f->size);
    CHECK(ck->metadata != NULL);
    for (size_t i = 0; i < ck->metadata->n; i++) {
        const vr_meta *v = &ck->metadata->list[i];
        uint64_t u;
        CHECK(v->key.n > 0 && v->offset < f->size);
        CHECK(!vr_meta_u64(ck->metadata, v, v->type == VR_META_ARRAY ? v->count : 1, &u));
    }
}

static void check_model(const vram_checkpoint *ck)
{
    vram_model *m = NULL;
    CHECK(vram_model_new(&m, ck) == VRAM_OK);
    CHECK(m->family == NULL && m->not_understood != NULL);
    CHECK(!m->shape_known || (m->layers != NULL && m->n_layers > 0));
}

typedef struct outcome {
    vram_status s;
    uint64_t offset, bytes;
    size_t n_tensors, n_warnings;
} outcome;

static outcome run(const file *f, size_t piece)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    const vram_warning *warnings;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vram_checkpoint_new(&ck, ctx, "fuzz") == VRAM_OK);
    outcome o = { read_all(ck, f, piece), 0, 0, 0, 0 };
    if (piece == 0)
        CHECK(h.peak_bytes < 65536 + 64 * f->n);
    if (o.s == VRAM_OK) {
        check_accepted(ck, f);
        check_model(ck);
        o.bytes = ck->tensor_bytes;
        o.n_tensors = ck->n_tensors;
        o.n_warnings = vram_warnings(ctx, &warnings);
    } else if (o.s != VRAM_EIO) {
        const vram_error *e = vram_last_error(ctx);
        CHECK(e->code == o.s && vram_exit_status(o.s) == 3 && e->text[0] != '\0' && e->file != NULL);
        CHECK(!e->has_offset || e->offset <= f->size);
        o.offset = e->offset;
    }
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned mode = size > 0 ? data[0] : 0;
    size_t n = size > 0 ? size - 1 : 0;
    file f = { (const char *)data + (size - n), n, n + (mode & 8 ? HOLE : 0) };
    outcome whole = run(&f, 0);
    outcome pieces = run(&f, 1 + (mode >> 4));
    if (whole.s == VRAM_EIO || pieces.s == VRAM_EIO)
        return 0; /* given up, with one way of feeding sooner than with the other */
    CHECK(whole.s == pieces.s && whole.offset == pieces.offset && whole.bytes == pieces.bytes);
    CHECK(whole.n_tensors == pieces.n_tensors && whole.n_warnings == pieces.n_warnings);
    return 0;
}
