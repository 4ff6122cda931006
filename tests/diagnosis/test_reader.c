/* SPDX-License-Identifier: MIT
 * From a text in pieces to findings: figures, templates, what is found wherever the text was cut, what
 * belongs to a message, and that no text costs more memory or time than another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "diagnosis/findings.h"
#include "diagnosis/template.h"

/* ---- figures ---- */

typedef struct size_case {
    const char *text;
    vr_hole type;
    vr_unit unit;
    size_t used; /* 0: no figure */
    int known;
    int64_t value;
    uint64_t slack;
} size_case;

static const size_case sizes[] = {
    { "130.00 MiB.", VR_HOLE_SIZE, VR_UNIT_BYTES, 10, 1, 136314880, 5243 }, /* 0.005 MiB, rounded up */
    { "98.0MB", VR_HOLE_SIZE, VR_UNIT_BYTES, 6, 1, 102760448, 52429 },
    { "98.0MB", VR_HOLE_SIZE10, VR_UNIT_BYTES, 6, 1, 98000000, 50000 },
    { "12 bytes", VR_HOLE_SIZE, VR_UNIT_BYTES, 8, 1, 12, 0 }, /* whole bytes are exact */
    { "21.95G of", VR_HOLE_SIZE, VR_UNIT_BYTES, 6, 1, 23568633037, 5368710 },
    { "-2.55G", VR_HOLE_SIZE, VR_UNIT_BYTES, 6, 1, -2738041651, 5368710 },
    { "1,39 GiB", VR_HOLE_SIZE, VR_UNIT_BYTES, 8, 1, 1492501135, 5368710 }, /* a decimal comma */
    { "1,234,567 bytes", VR_HOLE_SIZE, VR_UNIT_BYTES, 15, 1, 1234567, 0 },
    { "1,234.5 MiB", VR_HOLE_SIZE, VR_UNIT_BYTES, 11, 1, 1294467072, 52429 },
    { "6538204kB", VR_HOLE_SIZE, VR_UNIT_BYTES, 9, 1, 6695120896, 512 },
    { "17179869184.00 GiB", VR_HOLE_SIZE, VR_UNIT_BYTES, 18, 0, 0, 0 }, /* 2^64: "no limit" */
    { "99999999999 GiB", VR_HOLE_SIZE, VR_UNIT_BYTES, 15, 0, 0, 0 },
    { "18446744073709551615", VR_HOLE_BYTES, VR_UNIT_BYTES, 20, 0, 0, 0 },
    { "12 Memory", VR_HOLE_SIZE, VR_UNIT_BYTES, 0, 0, 0, 0 }, /* M is a unit, Memory is not */
    { "39.75 GiB", VR_HOLE_BYTES, VR_UNIT_BYTES, 0, 0, 0, 0 },
    { "19455 MiB", VR_HOLE_MIB, VR_UNIT_BYTES, 5, 1, 20400046080, 524288 },
    { "0.9,", VR_HOLE_NUM, VR_UNIT_MICRO, 3, 1, 900000, 50000 },
    { "4096)", VR_HOLE_INT, VR_UNIT_TOKENS, 4, 1, 4096, 0 },
    { "11.\v63 GiB", VR_HOLE_SIZE, VR_UNIT_BYTES, 10, 1, 12487617413, 5368710 }, /* cut by a terminal */
    { "GiB", VR_HOLE_SIZE, VR_UNIT_BYTES, 0, 0, 0, 0 },
    { "", VR_HOLE_INT, VR_UNIT_COUNT, 0, 0, 0, 0 },
};

static void figures_have_their_units(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_case *c = &sizes[i];
        vr_figure f = { 0 };
        assert_int_equal(vr_figure_read(vr_str_of(c->text), c->type, c->unit, &f), c->used);
        if (c->used == 0)
            continue;
        assert_int_equal(f.known, c->known);
        if (!c->known)
            continue;
        int64_t off = (int64_t)f.value * (f.negative ? -1 : 1) - c->value;
        assert_true(off >= -1 && off <= 1); /* a printed decimal is seldom a whole number of bytes */
        assert_int_equal(f.slack, c->slack);
    }
}

static void digits_without_end_are_no_figure(void **state)
{
    char many[512];
    vr_figure f;

    (void)state;
    memset(many, '9', 400);
    strcpy(many + 400, " GiB");
    assert_int_equal(vr_figure_read(vr_str_of(many), VR_HOLE_SIZE, VR_UNIT_BYTES, &f), 404);
    assert_false(f.known);
    memcpy(many, "1.", 2); /* but many decimals are only more than is needed */
    assert_int_equal(vr_figure_read(vr_str_of(many), VR_HOLE_SIZE, VR_UNIT_BYTES, &f), 404);
    assert_true(f.known);
    assert_in_range(f.value, 2 * VR_GIB - 1, 2 * VR_GIB);
}

/* ---- templates ---- */

typedef struct world {
    hook hook;
    vram_ctx *ctx;
    vr_arena arena;
} world;

static void open_world(world *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->hook), VRAM_OK);
    vr_arena_init(&w->arena, w->ctx);
}

static void close_world(world *w)
{
    vr_arena_free(&w->arena);
    vram_close(w->ctx);
    assert_int_equal(w->hook.live_bytes, 0);
}

static void templates_take_what_is_there(void **state)
{
    world w;
    vr_found_list found = { .n = 0 };
    const char *why = NULL;
    vr_str text = VR_LIT(
        "pool of 5.00 GiB allowed; Process 7 has 1.00\nGiB memory, Process 8 has 2.00 GiB memory, asked\n"
        "for 3 bytes");

    (void)state;
    open_world(&w);
    vr_template *t =
        vr_template_new(&w.arena,
                        "*Process {process_id:int} has {process:size} memory ~ {allowed:size} allowed ~ "
                        "never {free:size} there ~ asked for {request:bytes} bytes",
                        &why);
    assert_non_null(t);
    assert_null(why);
    vr_template_read(t, text, 0, &found);
    assert_int_equal(found.n, 6); /* in the order of the text; a piece that is not there says nothing */
    assert_int_equal(found.f[0].fact, VR_FACT_ALLOWED);
    assert_int_equal(found.f[1].fact, VR_FACT_PROCESS_ID);
    assert_int_equal(found.f[2].figure.value, VR_GIB);
    assert_int_equal(found.f[3].figure.value, 8);
    assert_int_equal(found.f[5].figure.value, 3);
    close_world(&w);
}

static void wrong_templates_are_told(void **state)
{
    static const char *const wrong[] = { "{request:weight}", "{nothing:size}", "{request:size", "{request}",
                                         " ~ " };
    world w;

    (void)state;
    open_world(&w);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *why = NULL;
        assert_non_null(vr_template_new(&w.arena, wrong[i], &why));
        assert_non_null(why);
    }
    close_world(&w);
}

/* ---- reading ---- */

/* Reads a text in pieces of that many bytes; 0: at once. */
static void read_text(world *w, const char *text, size_t n, size_t piece, vr_findings *out)
{
    vr_reader *r;

    open_world(w);
    assert_int_equal(vr_reader_new(&r, w->ctx, &w->arena), VRAM_OK);
    for (size_t at = 0; at < n; at += piece) {
        piece = piece == 0 ? n : piece;
        assert_int_equal(vr_reader_feed(r, text + at, n - at < piece ? n - at : piece), VRAM_OK);
    }
    assert_int_equal(vr_reader_end(r, out), VRAM_OK);
}

static void same_sign(const vr_sign *a, const vr_sign *b)
{
    assert_ptr_equal(a->row, b->row);
    assert_int_equal(a->line, b->line);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->rank, b->rank);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->facts.n, b->facts.n);
    for (size_t i = 0; i < a->facts.n; i++) {
        assert_int_equal(a->facts.f[i].id, b->facts.f[i].id);
        assert_int_equal(a->facts.f[i].value, b->facts.f[i].value);
        assert_int_equal(a->facts.f[i].line, b->facts.f[i].line);
    }
}

static void same_findings(const vr_findings *a, const vr_findings *b)
{
    assert_int_equal(a->n_events, b->n_events);
    assert_int_equal(a->n_dropped, b->n_dropped);
    assert_int_equal(a->n_seen, b->n_seen);
    assert_int_equal(a->lines, b->lines);
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->n_seen; i++)
        same_sign(&a->seen[i], &b->seen[i]);
    for (size_t i = 0; i < a->n_events; i++) {
        const vr_incident *x = &a->events[i], *y = &b->events[i];
        same_sign(&x->sign, &y->sign);
        assert_string_equal(x->block, y->block);
        assert_int_equal(x->repeats, y->repeats);
        assert_int_equal(x->n_near, y->n_near);
        for (size_t k = 0; k < x->n_near; k++)
            same_sign(&x->near[k], &y->near[k]);
    }
}

#define MESSAGE(request, gpu)                                                                                \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " request " MiB. GPU " gpu                \
    " has a total capacity of 15.60 GiB of which 41.12 MiB is free. Including non-PyTorch memory, this "     \
    "process has 15.55 GiB memory in use. Of the allocated memory 15.10 GiB is allocated by PyTorch, and "   \
    "180.31 MiB is reserved by PyTorch but unallocated.\n"
#define TRACE                                                                                                \
    "Traceback (most recent call last):\n  File \"run.py\", line 12, in main\n    model = load()\n"          \
    "  File \"lib/modeling_utils.py\", line 40, in from_pretrained\n    return cls(config)\n"

static const char *const texts[] = {
    TRACE MESSAGE("96.00", "0"),
    "[rank1]: " MESSAGE("96.00", "1") "[rank0]: " MESSAGE("32.00", "0") "plain\n",
    "\r 10%|#  \r 20%|## \r" MESSAGE("2.00", "0") "\r\n",
    "tor\033[1mch.OutOf\033[0mMemoryError: CUDA out of\n memory.\nTried to allo\033[31mcate 96.00 MiB. GPU 0 "
    "has a "
    "total \xc2\xa0 capacity of 15.60 GiB of which 41.12 MiB is free.\n",
    "{\"log\":\"" TRACE
    "\",\"stream\":\"stderr\"}\n{\"log\":\"CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 "
    "has a total capacity of 15.60 GiB\\n\"}\n",
};

static void pieces_do_not_matter(void **state)
{
    static const size_t pieces[] = { 1, 2, 7, 64 };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        world whole, cut;
        vr_findings a, b;
        read_text(&whole, texts[i], strlen(texts[i]), 0, &a);
        assert_true(a.n_events > 0);
        for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
            read_text(&cut, texts[i], strlen(texts[i]), pieces[k], &b);
            same_findings(&a, &b);
            close_world(&cut);
        }
        close_world(&whole);
    }
}

/* The window is worked on at a place that no message knows of. */
static void the_window_hides_nothing(void **state)
{
    static char text[700000];
    const char *message = TRACE MESSAGE("96.00", "0");
    size_t n = strlen(message);

    (void)state;
    for (size_t at = 262144 - 16384 - n; at < 262144 + 64; at += 199) {
        world w;
        vr_findings f;
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = i % 61 == 60 ? '\n' : (char)('a' + i % 23);
        text[at - 1] = '\n';
        memcpy(text + at, message, n);
        read_text(&w, text, sizeof text, 0, &f);
        assert_int_equal(f.n_events, 1);
        assert_int_equal(f.events[0].n_near, 1);
        assert_int_equal(f.events[0].sign.facts.n, 7);
        assert_int_equal(f.events[0].sign.facts.f[0].value, 96 * VR_MIB);
        close_world(&w);
    }
}

static void ranks_are_told_apart(void **state)
{
    world w;
    vr_findings f;
    const char *text = "[rank1]: " TRACE "[rank0]: step 4\n[rank1]: " MESSAGE(
        "96.00", "1") "[rank0]: " MESSAGE("96.00", "0") "[rank2]: " MESSAGE("64.00", "2");

    (void)state;
    read_text(&w, text, strlen(text), 0, &f);
    assert_int_equal(f.n_events, 2); /* the same figures on another card are the same again */
    assert_int_equal(f.events[0].sign.rank, 1);
    assert_int_equal(f.events[0].repeats, 1);
    assert_int_equal(f.events[1].sign.rank, 2);
    assert_int_equal(f.events[1].sign.facts.f[0].value, 64 * VR_MIB);
    close_world(&w);
}

static void floods_are_bounded(void **state)
{
    world w;
    vr_findings f;
    size_t room = 40000 * 512, n = 0;
    char *text = malloc(room);

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < 40000; i++)
        n += (size_t)snprintf(text + n, room - n,
                              "CUDA out of memory. Tried to allocate %d.00 MiB. GPU 0 has a total "
                              "capacity of 15.60 GiB of which 41.12 MiB is free.\n",
                              i % 100 + 1);
    read_text(&w, text, n, 0, &f);
    assert_int_equal(f.n_events, VR_MAX_EVENTS);
    uint64_t repeats = 0;
    for (size_t i = 0; i < f.n_events; i++)
        repeats += f.events[i].repeats;
    assert_int_equal(f.n_events + repeats + f.n_dropped, 40000); /* none is lost */
    assert_true(w.hook.peak_bytes < 12 * VR_MIB);
    assert_int_equal(f.lines, 40000);
    close_world(&w);
    free(text);
}

static void wide_characters_are_read(void **state)
{
    static const char plain[] = "ein Ger\xc3\xa4t: " MESSAGE("96.00", "0");
    char wide[2048] = "\xff\xfe";
    size_t n = 2;
    world w;
    vr_findings f;

    (void)state;
    for (const char *p = plain; *p != 0; p++) {
        bool umlaut = (uint8_t)*p == 0xC3;
        wide[n++] = umlaut ? (char)0xE4 : *p;
        wide[n++] = 0;
        p += umlaut;
    }
    read_text(&w, wide, n, 3, &f);
    assert_int_equal(f.n_events, 1);
    assert_int_equal(f.events[0].sign.facts.n, 7);
    assert_non_null(strstr(f.events[0].block, "ein Ger\xc3\xa4t"));
    assert_false(f.binary);
    assert_int_equal(f.events[0].sign.offset % 2, 0);
    assert_int_equal(wide[f.events[0].sign.offset], plain[(f.events[0].sign.offset - 2) / 2 + 1]);
    close_world(&w);
}

static void what_is_no_text_holds_nothing(void **state)
{
    static char bytes[40000];
    world w;
    vr_findings f;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    memcpy(bytes + 2000, "\0\0CUDA out of memory. Tried to allocate \0\0", 42); /* a program's own texts */
    read_text(&w, bytes, sizeof bytes, 0, &f);
    assert_true(f.binary);
    assert_int_equal(f.n_events, 0);
    close_world(&w);
    read_text(&w, "", 0, 0, &f);
    assert_int_equal(f.n_events + f.n_seen + f.lines, 0);
    close_world(&w);
}

static void a_line_without_end_is_read(void **state)
{
    size_t n = 3000000, m = strlen(MESSAGE("96.00", "0"));
    char *text = malloc(n + m);
    world w;
    vr_findings f;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    memcpy(text + n - 1000000, " " MESSAGE("96.00", "0"), m);
    read_text(&w, text, n, 0, &f);
    assert_int_equal(f.n_events, 1);
    assert_int_equal(f.events[0].sign.facts.n, 7);
    assert_true(w.hook.peak_bytes < 8 * VR_MIB);
    close_world(&w);
    free(text);
}

static void failing_memory_is_told(void **state)
{
    (void)state;
    for (size_t n = 1; n < 400; n++) {
        hook h = { .fail_at = n, .fail_after = true };
        vram_ctx *ctx = NULL;
        vr_arena a;
        vr_reader *r;
        vr_findings f;
        if (vram_open(&ctx, hook_alloc, &h) != VRAM_OK)
            continue;
        vr_arena_init(&a, ctx);
        vram_status s = vr_reader_new(&r, ctx, &a);
        for (size_t i = 0; s == VRAM_OK && i < sizeof texts / sizeof texts[0]; i++)
            s = vr_reader_feed(r, texts[i], strlen(texts[i]));
        if (s == VRAM_OK)
            s = vr_reader_end(r, &f);
        vr_arena_free(&a);
        vram_close(ctx);
        assert_int_equal(h.live_bytes, 0);
        assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
        if (s == VRAM_OK && h.n_calls < n)
            return;
    }
    fail_msg("never enough memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_have_their_units),     cmocka_unit_test(digits_without_end_are_no_figure),
        cmocka_unit_test(templates_take_what_is_there), cmocka_unit_test(wrong_templates_are_told),
        cmocka_unit_test(pieces_do_not_matter),         cmocka_unit_test(the_window_hides_nothing),
        cmocka_unit_test(ranks_are_told_apart),         cmocka_unit_test(floods_are_bounded),
        cmocka_unit_test(wide_characters_are_read),     cmocka_unit_test(what_is_no_text_holds_nothing),
        cmocka_unit_test(a_line_without_end_is_read),   cmocka_unit_test(failing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
