/* SPDX-License-Identifier: MIT
 * The choice of files on any listing: records of a name, a line end and the bytes of that file, between 0xFD
 * 0xFD. The first byte says whether the first record is a pattern that chooses, and in which pieces bytes
 * come. What must hold: a refusal has a sentence; each weight file either counts or is left out with a
 * reason; parts add up to the whole; it does not matter in which pieces the bytes come; memory is given back.
 */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/kinds.h"

#define MOST_FILES 24
#define NAME_BYTES 128

enum mode { MODE_PATTERN = 1, MODE_LONGER = 2 /* the rest: how it is fed */ };

typedef struct file {
    char name[NAME_BYTES];
    const char *bytes;
    size_t n;
    uint64_t size;
} file;

typedef struct listing {
    file files[MOST_FILES];
    size_t n;
    char pattern[NAME_BYTES];
    bool chosen, twice;
} listing;

static const uint8_t *record_end(const uint8_t *p, const uint8_t *end)
{
    while (p < end && !(end - p >= 2 && p[0] == 0xFD && p[1] == 0xFD))
        p++;
    return p;
}

/* Up to the line end; a zero byte ends a name too, for C. */
static size_t copy_name(char *name, const uint8_t *p, const uint8_t *end)
{
    size_t n = 0, k = 0;
    while (p + n < end && p[n] != '\n')
        n++;
    for (; k < n && k < NAME_BYTES - 1 && p[k] != 0; k++)
        name[k] = (char)p[k];
    name[k] = '\0';
    return n;
}

static void add_file(listing *l, const uint8_t *p, const uint8_t *end, uint64_t more)
{
    file *f = &l->files[l->n];
    size_t n = copy_name(f->name, p, end);
    p += p + n < end ? n + 1 : n;
    f->bytes = (const char *)p;
    f->n = (size_t)(end - p);
    f->size = f->n + (vr_str_ends(vr_str_of(f->name), ".json") ? 0 : more);
    for (size_t i = 0; i < l->n; i++)
        l->twice = l->twice || strcmp(l->files[i].name, f->name) == 0;
    l->n++;
}

static void split(listing *l, const uint8_t *data, size_t size)
{
    const uint8_t *p = data + (size > 0), *end = data + size;
    unsigned mode = size > 0 ? data[0] : 0;
    *l = (listing){ .n = 0 };
    while (p < end && l->n < MOST_FILES) {
        const uint8_t *stop = record_end(p, end);
        if (mode & MODE_PATTERN && !l->chosen) {
            l->chosen = true;
            (void)copy_name(l->pattern, p, stop);
        } else {
            add_file(l, p, stop, mode & MODE_LONGER ? UINT64_C(1) << 40 : 0);
        }
        p = stop < end ? stop + 2 : end;
    }
}

static const file *find(const listing *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->files[i].name, name) == 0)
            return &l->files[i];
    }
    return NULL;
}

static vram_status list(vram_checkpoint *ck, const listing *l)
{
    vram_status s = VRAM_OK;
    for (size_t i = 0; i < l->n && s == VRAM_OK; i++)
        s = vram_checkpoint_add_file(ck, l->files[i].name, l->files[i].size);
    return s == VRAM_OK ? vram_checkpoint_listed(ck) : s;
}

static vram_status supply(vram_checkpoint *ck, const listing *l, const vram_want *w, size_t piece)
{
    const file *f = find(l, w->file);
    CHECK(f != NULL && w->least > 0 && w->least <= w->most && w->offset <= f->size);
    CHECK(w->most <= f->size - w->offset);
    if (w->offset + w->least > f->n)
        return VRAM_EIO; /* a hole that is never filled: given up */
    uint64_t n = piece == 0 ? w->most : w->least < piece ? w->least : piece;
    if (w->offset + n > f->n)
        n = f->n - w->offset;
    return vram_checkpoint_supply(ck, w->file, w->offset, f->bytes + w->offset, (size_t)n);
}

static vram_status read_all(vram_checkpoint *ck, const listing *l, size_t piece)
{
    const vram_want *wants;
    for (;;) {
        vram_status s = vram_checkpoint_step(ck);
        if (s != VRAM_MORE)
            return s;
        size_t n = vram_checkpoint_wants(ck, &wants);
        CHECK(n > 0);
        for (size_t i = 0; i < n; i++) {
            s = wants[i].kind == VRAM_WANT_LISTING ? list(ck, l) : supply(ck, l, &wants[i], piece);
            if (s != VRAM_OK)
                return s;
        }
    }
}

static size_t times_counted(const vram_checkpoint *ck, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < ck->n_files; i++)
        n += !ck->files[i].missing && strcmp(ck->files[i].name, name) == 0;
    for (size_t i = 0; i < ck->n_left_out; i++)
        n += strcmp(ck->left_out[i].name, name) == 0;
    return n;
}

static void check_accepted(const vram_checkpoint *ck, const listing *l)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->n; i++) {
        vr_kind k;
        bool matters = vr_kind_of(vr_str_of(l->files[i].name), &k) &&
                       (k.role == VR_ROLE_WEIGHTS || k.role == VR_ROLE_OTHER);
        CHECK(times_counted(ck, l->files[i].name) == matters);
    }
    for (size_t i = 0; i < ck->n_left_out; i++)
        CHECK(ck->left_out[i].why != NULL && *ck->left_out[i].why != '\0');
    for (size_t i = 0; i < ck->n_parts; i++)
        bytes += ck->parts[i].bytes;
    CHECK(ck->n_parts == 0 || bytes == ck->tensor_bytes);
    for (size_t i = 0; i < ck->n_tensors; i++)
        CHECK(vr_checkpoint_find(ck, ck->tensors[i].name) == &ck->tensors[i]);
}

typedef struct outcome {
    vram_status s;
    uint64_t offset, bytes;
    size_t n_tensors, n_warnings;
} outcome;

static outcome run(const listing *l, size_t piece, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    const vram_warning *warnings;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vram_checkpoint_new(&ck, ctx, "fuzz") == VRAM_OK);
    CHECK(!l->chosen || vram_checkpoint_choose(ck, l->pattern) == VRAM_OK);
    outcome o = { read_all(ck, l, piece), 0, 0, 0, 0 };
    if (o.s == VRAM_OK) {
        check_accepted(ck, l);
        o.bytes = ck->tensor_bytes;
        o.n_tensors = ck->n_tensors;
        o.n_warnings = vram_warnings(ctx, &warnings);
    } else if (o.s != VRAM_EIO) {
        const vram_error *e = vram_last_error(ctx);
        CHECK(e->code == o.s && e->text[0] != '\0');
        CHECK(vram_exit_status(o.s) == 3 || o.s == VRAM_ESETTING || (o.s == VRAM_EINTERNAL && l->twice));
        o.offset = e->offset;
    }
    if (piece == 0) /* a name may say that there are 99,999 shards, which are then missing */
        CHECK(h.peak_bytes < ((size_t)1 << 26) + 256 * size);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static listing l;
    split(&l, data, size);
    outcome whole = run(&l, 0, size);
    outcome pieces = run(&l, 1 + (size > 0 ? data[0] >> 2 : 0), size);
    if (whole.s == VRAM_EIO || pieces.s == VRAM_EIO)
        return 0; /* given up, with one way of feeding sooner than with the other */
    CHECK(whole.s == pieces.s && whole.offset == pieces.offset && whole.bytes == pieces.bytes);
    CHECK(whole.n_tensors == pieces.n_tensors && whole.n_warnings == pieces.n_warnings);
    return 0;
}
