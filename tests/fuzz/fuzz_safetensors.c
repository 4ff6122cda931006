/* SPDX-License-Identifier: MIT
 * The checkpoint reader on any bytes. The first byte says what the rest is: one weight file, or parts between
 * 0xFD 0xFD that become up to two shards, an index and a configuration. What must hold: a refusal names a
 * file and a place in it; what is accepted is consistent; it does not matter in which pieces the bytes come;
 * memory stays within a multiple of the input and is given back. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "checkpoint/checkpoint.h"

enum mode { MODE_SECOND = 1, MODE_INDEX = 2, MODE_CONFIG = 4, MODE_LONGER = 8 /* the rest: how it is fed */ };

typedef struct part {
    const char *name;
    const char *bytes;
    size_t n;
    uint64_t size;
} part;

typedef struct parts {
    part p[4];
    size_t n;
    size_t bytes;
} parts;

static part next_part(const uint8_t **p, const uint8_t *end, const char *name)
{
    const uint8_t *start = *p, *at = start;
    while (at < end && !(end - at >= 2 && at[0] == 0xFD && at[1] == 0xFD))
        at++;
    *p = end - at >= 2 ? at + 2 : end;
    return (part){ name, (const char *)start, (size_t)(at - start), (uint64_t)(at - start) };
}

static parts split(const uint8_t *data, size_t size)
{
    parts all = { .bytes = size };
    const uint8_t *p = data + (size > 0), *end = data + size;
    unsigned mode = size > 0 ? data[0] : 0;
    if ((mode & (MODE_SECOND | MODE_INDEX | MODE_CONFIG)) == 0) {
        all.p[all.n++] =
            (part){ "model.safetensors", (const char *)p, (size_t)(end - p), (uint64_t)(end - p) };
        if (mode & MODE_LONGER)
            all.p[0].size += UINT64_C(1) << 40; /* the data of a large file, which is never read */
        return all;
    }
    all.p[all.n++] = next_part(&p, end, "model-00001-of-00002.safetensors");
    if (mode & MODE_SECOND)
        all.p[all.n++] = next_part(&p, end, "model-00002-of-00002.safetensors");
    if (mode & MODE_INDEX)
        all.p[all.n++] = next_part(&p, end, "model.safetensors.index.json");
    if (mode & MODE_CONFIG)
        all.p[all.n++] = next_part(&p, end, "config.json");
    return all;
}

static const part *find(const parts *all, const char *name)
{
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->p[i].name, name) == 0)
            return &all->p[i];
    }
    return NULL;
}

static vram_status list(vram_checkpoint *ck, const parts *all)
{
    for (size_t i = all->n; i-- > 0;)
        CHECK(vram_checkpoint_add_file(ck, all->p[i].name, all->p[i].size) == VRAM_OK);
    return vram_checkpoint_listed(ck);
}

/* Bytes the input does not have are a hole that is never filled: then it is given up. */
static vram_status supply(vram_checkpoint *ck, const parts *all, const vram_want *w, size_t piece)
{
    const part *f = find(all, w->file);
    CHECK(f != NULL && w->least > 0 && w->least <= w->most && w->offset <= f->size);
    CHECK(w->most <= f->size - w->offset);
    uint64_t n = piece == 0 ? w->most : w->least;
    if (w->offset + w->least > f->n)
        return VRAM_EIO;
    if (w->offset + n > f->n)
        n = f->n - w->offset;
    if (piece == 0)
        return vram_checkpoint_supply(ck, w->file, w->offset, f->bytes + w->offset, (size_t)n);
    for (uint64_t at = n; at > 0;) { /* from behind */
        uint64_t k = at < piece ? at : piece;
        at -= k;
        CHECK(vram_checkpoint_supply(ck, w->file, w->offset + at, f->bytes + w->offset + at, (size_t)k) ==
              VRAM_OK);
    }
    return VRAM_OK;
}

static vram_status read_all(vram_checkpoint *ck, const parts *all, size_t piece)
{
    const vram_want *wants;
    for (size_t rounds = 0;; rounds++) {
        vram_status s = vram_checkpoint_step(ck);
        if (s != VRAM_MORE)
            return s;
        CHECK(rounds <
              5); /* listing; heads and small files; the rest of the headers; those the index names */
        size_t n = vram_checkpoint_wants(ck, &wants);
        CHECK(n > 0);
        for (size_t i = 0; i < n; i++) {
            s = wants[i].kind == VRAM_WANT_LISTING ? list(ck, all) : supply(ck, all, &wants[i], piece);
            if (s != VRAM_OK)
                return s;
        }
    }
}

static void check_accepted(const vram_checkpoint *ck)
{
    uint64_t bytes = 0, elements = 0, end = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        if (i == 0 || t[-1].file != t->file)
            end = 0;
        CHECK(t->file < ck->n_files && !ck->files[t->file].missing && (i == 0 || t[-1].file <= t->file));
        CHECK(t->begin == end && t->end >= end && t->n_dims <= VR_MAX_DIMS);
        CHECK((t->end - t->begin) * 8 == t->elements * vr_dtype_bits((vr_dtype)t->dtype));
        CHECK(vr_checkpoint_find(ck, t->name) == t);
        end = t->end;
        bytes += t->end - t->begin;
        elements += t->elements;
    }
    CHECK(bytes == ck->tensor_bytes && elements == ck->elements);
    for (size_t i = 0; i < ck->n_files; i++) {
        const vr_file *f = &ck->files[i];
        CHECK(f->missing || f->size == f->header_bytes + f->tensor_bytes);
        CHECK(i == 0 || strcmp(f[-1].name, f->name) < 0);
    }
}

static void check_refused(const vram_error *e, vram_status s, const parts *all)
{
    CHECK(e->code == s && vram_exit_status(s) == 3 && e->text[0] != '\0' && e->file != NULL);
    const part *f = find(all, e->file);
    CHECK(f != NULL ? !e->has_offset || e->offset <= f->size : !e->has_offset);
}

typedef struct outcome {
    vram_status s;
    uint64_t offset, bytes;
    size_t n_tensors, n_warnings;
} outcome;

static outcome run(const parts *all, size_t piece)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    const vram_warning *warnings;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vram_checkpoint_new(&ck, ctx, "fuzz") == VRAM_OK);
    outcome o = { read_all(ck, all, piece), 0, 0, 0, 0 };
    if (o.s == VRAM_OK) {
        check_accepted(ck);
        o.bytes = ck->tensor_bytes;
        o.n_tensors = ck->n_tensors;
        o.n_warnings = vram_warnings(ctx, &warnings);
    } else if (o.s != VRAM_EIO) {
        check_refused(vram_last_error(ctx), o.s, all);
        o.offset = vram_last_error(ctx)->offset;
    }
    if (piece == 0)
        CHECK(h.peak_bytes < 65536 + 64 * all->bytes);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return o;
}

/* GGUF, a zip or a pickle: what holds of those is held in targets of their own. */
static bool is_other(const parts *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const part *f = &all->p[i];
        if (f->n >= 4 && (memcmp(f->bytes, "GGUF", 4) == 0 || memcmp(f->bytes, "PK\3\4", 4) == 0 ||
                          (f->bytes[0] == '\x80' && f->bytes[2] == '\x8a')))
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parts all = split(data, size);
    if (is_other(&all))
        return 0;
    outcome whole = run(&all, 0);
    outcome pieces = run(&all, 1 + (size > 0 ? data[0] >> 4 : 0));
    if (whole.s == VRAM_EIO || pieces.s == VRAM_EIO)
        return 0; /* given up, with one way of feeding sooner than with the other */
    CHECK(whole.s == pieces.s && whole.offset == pieces.offset && whole.bytes == pieces.bytes);
    CHECK(whole.n_tensors == pieces.n_tensors && whole.n_warnings == pieces.n_warnings);
    return 0;
}
