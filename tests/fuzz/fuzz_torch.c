/* SPDX-License-Identifier: MIT
 * Files of torch.save. The first byte says what the rest is: 'r', a file as it is; 'z', a pickle that becomes
 * the data.pkl of a zip file with storages "0" of 80 bytes and "1" of 8; 'd' the same, and before the pickle
 * three bytes for each byte of the file that is changed (place, low and high, and value), until three zeros;
 * 'l', what follows the head of the legacy form. What must hold: a refusal names a place in the file; what is
 * accepted is consistent and no larger than the file; it does not matter in which pieces the bytes come;
 * memory stays within a multiple of the input and is given back. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "../support/torch_made.h"
#include "checkpoint/checkpoint.h"

/* The dearest instruction is one byte for a value with its items, and both with the rooms they left behind;
 * deflate makes at most 1032 bytes of one. */
#define MOST_FOR_A_BYTE 200

static bytes zip_of(const uint8_t *p, size_t n)
{
    made_zip z = { .flags = n % 2 ? ZIP_64 : 0 };
    zip_add(&z, "archive/data.pkl", p, n, n, 0);
    zip_storage(&z, "0", 80);
    zip_storage(&z, "1", 8);
    zip_end(&z);
    return z.file;
}

static bytes damaged(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (n - i >= 3 && (p[i] | p[i + 1] | p[i + 2]) != 0)
        i += 3;
    size_t pickle = n - i >= 3 ? i + 3 : n;
    bytes b = zip_of(p + pickle, n - pickle);
    for (size_t k = 0; k < i; k += 3) /* from behind: what says where things are is there */
        b.p[b.n - 1 - ((size_t)p[k] | (size_t)p[k + 1] << 8) % b.n] = (char)p[k + 2];
    return b;
}

static bytes file_of(const uint8_t *data, size_t size)
{
    bytes b = { NULL, 0, 0 };
    if (size > 0 && data[0] == 'z')
        return zip_of(data + 1, size - 1);
    if (size > 0 && data[0] == 'd')
        return damaged(data + 1, size - 1);
    if (size > 0 && data[0] == 'l')
        legacy_begin(&b);
    put(&b, data + (size > 0), size - (size > 0));
    return b;
}

static vram_status answer(vram_checkpoint *ck, const bytes *b, const vram_want *w, size_t piece)
{
    if (w->kind == VRAM_WANT_LISTING) {
        CHECK(vram_checkpoint_add_file(ck, "model.pt", b->n) == VRAM_OK);
        return vram_checkpoint_listed(ck);
    }
    CHECK(strcmp(w->file, "model.pt") == 0 && w->least > 0 && w->least <= w->most);
    CHECK(w->offset <= b->n && w->most <= b->n - w->offset);
    size_t n = (size_t)(piece == 0 ? w->most : w->least), at = n;
    if (piece == 0)
        return vram_checkpoint_supply(ck, w->file, w->offset, b->p + w->offset, n);
    while (at > 0) { /* from behind */
        size_t k = at < piece ? at : piece;
        at -= k;
        CHECK(vram_checkpoint_supply(ck, w->file, w->offset + at, b->p + w->offset + at, k) == VRAM_OK);
    }
    return VRAM_OK;
}

static vram_status read_all(vram_checkpoint *ck, const bytes *b, size_t piece)
{
    const vram_want *wants;
    for (size_t rounds = 0;; rounds++) {
        vram_status s = vram_checkpoint_step(ck);
        if (s != VRAM_MORE)
            return s;
        /* listing; head; tail; end record; directory; local header; pickle. Or the doublings. */
        CHECK(rounds < 24);
        CHECK(vram_checkpoint_wants(ck, &wants) == 1);
        s = answer(ck, b, &wants[0], piece);
        if (s != VRAM_OK)
            return s;
    }
}

static void check_accepted(const vram_checkpoint *ck, const bytes *b)
{
    uint64_t sum = 0, end = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) {
        const vr_tensor *t = &ck->tensors[i];
        CHECK(t->file == 0 && t->n_dims <= VR_MAX_DIMS && t->dtype != VR_DTYPE_NONE);
        CHECK(t->begin <= t->end && (!t->shared || t->begin == t->end));
        CHECK(t->begin >= end || t->shared);
        CHECK(vr_checkpoint_find(ck, t->name) == t);
        end = t->end;
        sum += t->end - t->begin;
    }
    CHECK(sum == ck->tensor_bytes && sum == ck->files[0].tensor_bytes);
    CHECK(ck->n_tensors > 0 && sum <= 1032 * b->n);
}

typedef struct outcome {
    vram_status s;
    uint64_t offset, bytes, elements;
    size_t n_tensors, n_warnings;
} outcome;

static outcome run(const bytes *b, size_t piece)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    const vram_warning *warnings;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vram_checkpoint_new(&ck, ctx, "fuzz") == VRAM_OK);
    outcome o = { .s = read_all(ck, b, piece) };
    o.n_warnings = vram_warnings(ctx, &warnings);
    if (o.s == VRAM_OK) {
        check_accepted(ck, b);
        o.bytes = ck->tensor_bytes;
        o.elements = ck->elements;
        o.n_tensors = ck->n_tensors;
    } else {
        const vram_error *e = vram_last_error(ctx);
        CHECK(e->code == o.s && vram_exit_status(o.s) == 3 && e->text[0] != '\0');
        CHECK(!e->has_offset || e->offset <= b->n || strcmp(e->file, "model.pt") != 0);
        o.offset = e->offset;
    }
    bool packed =
        o.s == VRAM_OK || (b->n > 0 && memchr(b->p, 8, b->n) != NULL); /* a member may be deflated */
    if (piece == 0)
        CHECK(h.peak_bytes < 131072 + (packed ? 1032 + MOST_FOR_A_BYTE : MOST_FOR_A_BYTE) * b->n);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes b = file_of(data, size);
    outcome whole = run(&b, 0), pieces = run(&b, 1 + (size > 1 ? data[1] % 16 : 0));
    CHECK(whole.s == pieces.s && whole.offset == pieces.offset && whole.bytes == pieces.bytes);
    CHECK(whole.elements == pieces.elements && whole.n_tensors == pieces.n_tensors);
    CHECK(whole.n_warnings == pieces.n_warnings);
    free(b.p);
    return 0;
}
