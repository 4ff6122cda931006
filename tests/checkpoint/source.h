/* SPDX-License-Identifier: MIT
 * A source in memory for the tests of this folder: files whose heads are made here and whose data is a hole,
 * and the ways in which their bytes can reach the library. */
#ifndef VR_TEST_SOURCE_H
#define VR_TEST_SOURCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "checkpoint/checkpoint.h"

#define MAX_FILES 16

typedef struct fake_file {
    const char *name;
    char *bytes; /* n known ones; zeros up to size */
    size_t n;
    uint64_t size;
    size_t n_wants; /* ranges asked of it */
} fake_file;

typedef enum feed {
    FEED_MOST,     /* in order, all that is useful */
    FEED_LEAST,    /* in order, no byte more than must be */
    FEED_REVERSED, /* last want first, each in three pieces, last piece first */
    FEED_BYTES,    /* byte by byte, no two beside each other in memory */
    FEED_STEPS,    /* one byte of one want, then a step */
    FEEDS
} feed;

typedef struct world {
    hook memory;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    fake_file files[MAX_FILES];
    size_t n_files;
    void *owned[4096];
    size_t n_owned;
    size_t n_rounds;
} world;

static inline void *keep(world *w, void *p)
{
    assert_non_null(p);
    if (w->n_owned < sizeof(w->owned) / sizeof(w->owned[0]))
        w->owned[w->n_owned++] = p;
    else
        fail_msg("the world owns too much");
    return p;
}

static inline fake_file *find_file(world *w, const char *name)
{
    for (size_t i = 0; i < w->n_files; i++) {
        if (strcmp(w->files[i].name, name) == 0)
            return &w->files[i];
    }
    fail_msg("bytes of %s are wanted, which does not exist", name);
    return NULL;
}

/* A file of n bytes that claims to have `size` of them. */
static inline fake_file *add_bytes(world *w, const char *name, const void *bytes, size_t n, uint64_t size)
{
    size_t room = n + 65536 < size ? n + 65536 : (size_t)size;
    fake_file *f = &w->files[w->n_files++];
    assert_true(w->n_files <= MAX_FILES);
    *f = (fake_file){ name, keep(w, calloc(1, room + 1)), room, size, 0 };
    memcpy(f->bytes, bytes, n < room ? n : room);
    return f;
}

static inline fake_file *add_text(world *w, const char *name, const char *text)
{
    return add_bytes(w, name, text, strlen(text), strlen(text));
}

/* A safetensors file of that header and so many bytes of data. */
static inline fake_file *add_header(world *w, const char *name, const char *header, uint64_t data)
{
    size_t n = strlen(header);
    char *bytes = malloc(n + 8);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)n >> 8 * i & 0xff);
    memcpy(bytes + 8, header, n);
    fake_file *f = add_bytes(w, name, bytes, n + 8, n + 8 + data);
    free(bytes);
    return f;
}

/* The text without its '@', and where that was. */
static inline char *unmark(world *w, const char *marked, uint64_t *offset)
{
    char *text = keep(w, calloc(1, strlen(marked) + 1));
    const char *at = strchr(marked, '@');
    size_t before = at == NULL ? strlen(marked) : (size_t)(at - marked);
    memcpy(text, marked, before);
    if (at != NULL)
        strcpy(text + before, at + 1);
    *offset = before;
    return text;
}

static inline void open_world(world *w)
{
    w->ctx = NULL;
    w->ck = NULL;
    w->n_rounds = 0;
    for (size_t i = 0; i < w->n_files; i++)
        w->files[i].n_wants = 0;
}

/* Everything of the context is gone, or somebody leaks. */
static inline void close_world(world *w)
{
    if (w->ctx != NULL)
        vram_close(w->ctx);
    w->ctx = NULL;
    assert_int_equal(w->memory.live_blocks, 0);
    assert_int_equal(w->memory.live_bytes, 0);
}

static inline void end_world(world *w)
{
    close_world(w);
    for (size_t i = 0; i < w->n_owned; i++)
        free(w->owned[i]);
    free(w);
}

static inline world *new_world(void)
{
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    return w;
}

static inline vram_status list_files(world *w)
{
    for (size_t i = 0; i < w->n_files; i++) {
        vram_status s = vram_checkpoint_add_file(w->ck, w->files[i].name, w->files[i].size);
        if (s != VRAM_OK)
            return s;
    }
    return vram_checkpoint_listed(w->ck);
}

static inline vram_status supply(world *w, const vram_want *want, uint64_t from, uint64_t n)
{
    fake_file *f = find_file(w, want->file);
    assert_true(from + n <= f->n);
    return vram_checkpoint_supply(w->ck, want->file, from, f->bytes + from, (size_t)n);
}

static inline vram_status supply_thirds(world *w, const vram_want *want)
{
    uint64_t third = want->most / 3;
    vram_status s = supply(w, want, want->offset + 2 * third, want->most - 2 * third);
    if (s == VRAM_OK)
        s = supply(w, want, want->offset + third, third);
    return s == VRAM_OK ? supply(w, want, want->offset, third) : s;
}

static inline vram_status supply_bytes(world *w, const vram_want *want)
{
    const fake_file *f = find_file(w, want->file);
    char *apart = keep(w, calloc(want->least, 2));
    vram_status s = VRAM_OK;
    for (uint64_t i = 0; i < want->least && s == VRAM_OK; i++) {
        apart[2 * i] = f->bytes[want->offset + i];
        s = vram_checkpoint_supply(w->ck, want->file, want->offset + i, apart + 2 * i, 1);
    }
    return s;
}

static inline vram_status supply_want(world *w, const vram_want *want, feed how)
{
    if (want->kind == VRAM_WANT_LISTING)
        return list_files(w);
    find_file(w, want->file)->n_wants++;
    switch (how) {
    case FEED_LEAST:
        return supply(w, want, want->offset, want->least);
    case FEED_REVERSED:
        return supply_thirds(w, want);
    case FEED_BYTES:
        return supply_bytes(w, want);
    case FEED_STEPS:
        return supply(w, want, want->offset, 1);
    default:
        return supply(w, want, want->offset, want->most);
    }
}

static inline void check_want(world *w, const vram_want *want)
{
    if (want->kind == VRAM_WANT_LISTING)
        return;
    const fake_file *f = find_file(w, want->file);
    assert_true(want->least > 0 && want->least <= want->most);
    assert_true(want->offset + want->most <= f->size);
}

static inline vram_status answer(world *w, feed how)
{
    const vram_want *wants = NULL;
    size_t n = vram_checkpoint_wants(w->ck, &wants);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        const vram_want *want = &wants[how == FEED_REVERSED ? n - 1 - i : i];
        check_want(w, want);
        vram_status s = supply_want(w, want, how);
        if (s != VRAM_OK || how == FEED_STEPS)
            return s;
    }
    return VRAM_OK;
}

/* Reads the world's files to the end: the status is that of the whole. */
static inline vram_status read_world(world *w, feed how)
{
    open_world(w);
    vram_status s = vram_open(&w->ctx, hook_alloc, &w->memory);
    if (s != VRAM_OK) {
        w->ctx = NULL;
        return s;
    }
    s = vram_checkpoint_new(&w->ck, w->ctx, "the checkpoint");
    while (s == VRAM_OK) {
        s = vram_checkpoint_step(w->ck);
        if (s != VRAM_MORE)
            return s;
        w->n_rounds++;
        s = answer(w, how);
    }
    return s;
}

static inline void show_error(const world *w)
{
    const vram_error *e = vram_last_error(w->ctx);
    print_message("error %d, file %s, offset %d %llu: %s\n", (int)e->code, e->file == NULL ? "-" : e->file,
                  e->has_offset, (unsigned long long)e->offset, e->text);
}

/* offset UINT64_MAX: none is expected. */
static inline void expect_error(const world *w, vram_status got, vram_status code, const char *file,
                                uint64_t offset, const char *text)
{
    const vram_error *e = vram_last_error(w->ctx);
    bool right = got == code && e->code == code && e->has_offset == (offset != UINT64_MAX) &&
                 (!e->has_offset || e->offset == offset) && strstr(e->text, text) != NULL &&
                 e->file != NULL && strcmp(e->file, file) == 0;
    if (!right) {
        show_error(w);
        fail_msg("expected error %d, file %s, offset %llu: %s", (int)code, file, (unsigned long long)offset,
                 text);
    }
}

static inline void expect_ok(const world *w, vram_status got)
{
    if (got != VRAM_OK) {
        show_error(w);
        fail_msg("status %d", (int)got);
    }
}

static inline bool has_warning(const world *w, const char *file, const char *text)
{
    const vram_warning *list = NULL;
    size_t n = vram_warnings(w->ctx, &list);
    for (size_t i = 0; i < n; i++) {
        if (strstr(list[i].text, text) != NULL && list[i].file != NULL && strcmp(list[i].file, file) == 0)
            return true;
    }
    for (size_t i = 0; i < n; i++)
        print_message("warning: %s: %s\n", list[i].file == NULL ? "-" : list[i].file, list[i].text);
    return false;
}

static inline size_t n_warnings(const world *w)
{
    const vram_warning *list = NULL;
    return vram_warnings(w->ctx, &list);
}

#endif
