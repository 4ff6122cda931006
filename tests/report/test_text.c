/* SPDX-License-Identifier: MIT
 * The screens of `vram fit` and `vram inspect`: what must be on them, and that they keep within the terminal.
 */
#include "made.h"

static page show(made *m, vram_style style)
{
    page g = { 0 };

    assert_int_equal(vram_fit_render(&m->fit, &style, page_write, &g), VRAM_OK);
    return g;
}

static void verdict_first_then_death_then_what_to_type(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    g = show(&m, (vram_style){ .columns = 80 });
    assert_int_equal(strncmp(g.p, "DOES NOT FIT", 12), 0);
    assert_has(&g, "RTX 3060 12 GB has 11.63 usable");
    assert_has(&g, "2.55 GiB (2.74 GB)");
    assert_has(&g, "80.0 % loaded");
    assert_has(&g, "model.layers.23.mlp.down_proj.weight");
    assert_has(&g, "Tried to allocate 130.00 MiB");
    assert_has(&g, "weights in 8 bits (bitsandbytes)");
    assert_has(&g, "load_in_8bit=True");
    assert_has(&g, "least certain");
    assert_lacks(&g, "gradients");
    assert_lacks(&g, "tape");
    assert_lacks(&g, "moment");
    assert_lacks(&g, "\033");
    assert_true(strstr(g.p, "down_proj") < strstr(g.p, "load_in_8bit"));
    free(g.p);
    unmake(&m);
}

/* Other hardware is one line on a terminal and names the size; a pipe gets a line for each. */
static void hardware_is_told_last(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    g = show(&m, (vram_style){ .columns = 80 });
    assert_has(&g, "or       a larger card: RTX 3090 24 GB, or 2 x RTX 3060 12 GB at best\n");
    assert_lacks(&g, "2  a larger card");
    assert_true(count_lines(&g) <= 14);
    free(g.p);
    g = show(&m, (vram_style){ .columns = 0 });
    assert_has(&g, "try      2  a larger card: RTX 3090 24 GB     15.00 GiB  other hardware\n");
    assert_has(&g, "or       2 x RTX 3060 12 GB, at best: real sharding is never perfect\n");
    free(g.p);
    m.levers[0].fits = false; /* nothing else fits: then it is what to try */
    g = show(&m, (vram_style){ .columns = 80 });
    assert_has(&g, "try      1  a larger card: RTX 3090 24 GB  15.00 GiB"); /* what is shown is numbered */
    assert_lacks(&g, "type "); /* a card is not typed into the engine */
    free(g.p);
    unmake(&m);
}

/* Of the three figures of the first line the third is the difference of the others, digit by digit. */
static void the_first_line_adds_up(void **state)
{
    static const struct {
        uint64_t usable, required;
        const char *words;
    } rows[] = {
        { 24 * VR_GIB, 24 * VR_GIB - 9026417459,
          "needs 15.59 GiB \xC2\xB7 RTX 3060 12 GB has 24.00 usable: 8.41 left" },
        { 12490457088, 16567500800, "needs 15.43 GiB \xC2\xB7 RTX 3060 12 GB has 11.63 usable: 3.80 short" },
        { 24 * VR_GIB - 5368000, 8 * VR_GIB + 5369000,
          "needs 8.01 GiB \xC2\xB7 RTX 3060 12 GB has 24.00 usable: 15.99 left" },
        { 24 * VR_GIB, 24 * VR_GIB - 1000, "24.00 usable: <0.02 short" },
        { 24 * VR_GIB, 24 * VR_GIB - 8 * VR_MIB,
          "needs 23.99 GiB \xC2\xB7 RTX 3060 12 GB has 24.00 usable: 0.01 left" },
        { 24 * VR_GIB, 24 * VR_GIB - 6 * VR_MIB,
          "needs 23.99 GiB \xC2\xB7 RTX 3060 12 GB has 24.00 usable: <0.02 short" },
    };
    made m;
    (void)state;

    make(&m);
    m.fit.run.failed = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t usable = rows[i].usable, available = usable - 6710886; /* an idle GPU's own */
        m.device.usable = (vr_range){ usable, usable, usable, VR_BASIS_TABLE };
        m.device.available = (vr_range){ available, available, available, VR_BASIS_TABLE };
        m.fit.ledger.required = m.fit.ledger.required_low = m.fit.ledger.required_high = rows[i].required;
        m.fit.headroom = vr_diff(available, rows[i].required);
        page g = show(&m, (vram_style){ .columns = 100 });
        assert_has(&g, rows[i].words);
        free(g.p);
    }
    m.device.free_given = true; /* then what is free is what counts */
    m.device.available.bytes = 10 * VR_GIB;
    m.fit.ledger.required = m.fit.ledger.required_low = m.fit.ledger.required_high = 9 * VR_GIB;
    m.fit.headroom = (int64_t)VR_GIB;
    page g = show(&m, (vram_style){ .columns = 100 });
    assert_has(&g, "needs 9.00 GiB \xC2\xB7 RTX 3060 12 GB has 10.00 free: 1.00 left");
    free(g.p);
    m.device.free_given = false;
    m.fit.kept_free = 14 * VR_GIB; /* by a memory fraction */
    g = show(&m, (vram_style){ .columns = 100 });
    assert_has(&g, "needs 9.00 GiB \xC2\xB7 RTX 3060 12 GB has 10.00 allowed: 1.00 left");
    free(g.p);
    m.fit.kept_free = 0;
    m.device.gpu = NULL;
    m.device.id = "24GiB";
    g = show(&m, (vram_style){ .columns = 100 });
    assert_has(&g, "24GiB GPU has 24.00 usable");
    free(g.p);
    m.device.count = 2;
    g = show(&m, (vram_style){ .columns = 100 });
    assert_has(&g, "2 x 24GiB have 24.00 usable each");
    free(g.p);
    unmake(&m);
}

/* One of something is not several. */
static void one_is_not_many(void **state)
{
    static const char *const wrong[] = { "1 tokens", "1 sequences", "1 layers",
                                         "1 heads",  "1 tensors",   "1 files" };
    made m;
    page g = { 0 };
    vram_style plain = { .columns = 0 };
    (void)state;

    make(&m);
    m.workload.context = m.workload.decode = 1;
    m.model.heads = m.model.max_context = 1;
    m.checkpoint.incomplete = true;
    m.checkpoint.n_missing_tensors = 1;
    m.file.missing = true;
    assert_int_equal(vram_fit_render(&m.fit, &plain, page_write, &g), VRAM_OK);
    assert_int_equal(vram_inspect_render(&m.model, &plain, page_write, &g), VRAM_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_lacks(&g, wrong[i]);
    assert_has(&g, "set by you: 1 token");
    assert_has(&g, "1 token generated");
    assert_has(&g, "(1 tensor)");
    assert_has(&g, "1 layer of width 3,584; 1 head of 128");
    free(g.p);
    unmake(&m);
}

/* U+202E turns the direction, U+2028 ends a line, U+200B is nothing, U+009B starts a sequence of a terminal.
 */
static void names_are_shown_harmless(void **state)
{
    static const char name[] = "a\xE2\x80\xAE"
                               "b\xE2\x80\xA8"
                               "c\xE2\x80\x8B"
                               "d\xC2\x9B"
                               "e\xFF"
                               "f";
    made m;
    page g = { 0 };
    vram_style text = { .columns = 80, .tensors = true }, json = { .format = VRAM_JSON, .tensors = true };
    (void)state;

    make(&m);
    m.tensors[0].name = vr_str_of(name);
    m.checkpoint.name = name;
    m.model.architecture = name;
    m.labels[1] = vr_str_of(name);
    assert_int_equal(vram_inspect_render(&m.model, &text, page_write, &g), VRAM_OK);
    assert_int_equal(vram_fit_render(&m.fit, &text, page_write, &g), VRAM_OK);
    assert_has(&g, "a?b?c?d?e?f");
    assert_lacks(&g, "\xE2\x80\xAE");
    assert_lacks(&g, "\xC2\x9B");
    assert_lacks(&g, "\xFF");
    free(g.p);
    g = (page){ 0 };
    assert_int_equal(vram_inspect_render(&m.model, &json, page_write, &g), VRAM_OK);
    assert_has(&g, "\"a\\u202eb\\u2028c\\u200bd\\u009be\xEF\xBF\xBD"
                   "f\"");
    free(g.p);
    unmake(&m);
}

static void it_keeps_within_the_terminal(void **state)
{
    static const unsigned widths[] = { 80, 100, 120, 200 };
    made m;
    page g;
    (void)state;

    make(&m);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        g = show(&m, (vram_style){ .columns = widths[i] });
        assert_within(&g, widths[i]);
        free(g.p);
        g = show(&m, (vram_style){ .columns = widths[i], .verbose = 1 });
        assert_within(&g, widths[i]);
        free(g.p);
    }
    g = show(&m, (vram_style){ .columns = 200 });
    assert_true(count_lines(&g) <= 14);
    free(g.p);
    unmake(&m);
}

static void a_pipe_gets_plain_lines(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    g = show(&m, (vram_style){ .columns = 0, .verbose = 1 });
    assert_true(is_ascii(&g));
    assert_has(&g, "\nweights ");
    assert_has(&g, "\nKV cache ");
    assert_has(&g, MESSAGE);
    free(g.p);
    unmake(&m);
}

/* Colour changes nothing but the colour. */
static void colour_only_colours(void **state)
{
    made m;
    page plain, coloured;
    size_t n = 0;
    (void)state;

    make(&m);
    plain = show(&m, (vram_style){ .columns = 80 });
    coloured = show(&m, (vram_style){ .columns = 80, .colour = true });
    assert_has(&coloured, "\033[1;31mDOES NOT FIT");
    for (size_t i = 0; i < coloured.n; i++) {
        if (coloured.p[i] == '\033')
            while (coloured.p[i] != 'm')
                i++;
        else
            coloured.p[n++] = coloured.p[i];
    }
    coloured.p[n] = '\0';
    assert_string_equal(coloured.p, plain.p);
    free(plain.p);
    free(coloured.p);
    unmake(&m);
}

static void what_fits_is_short(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    make_it_fit(&m);
    g = show(&m, (vram_style){ .columns = 80 });
    assert_int_equal(strncmp(g.p, "FITS", 4), 0);
    assert_has(&g, " left");
    assert_lacks(&g, "Tried to allocate");
    assert_lacks(&g, "try ");
    free(g.p);
    unmake(&m);
}

static void details_name_the_three_ways_of_counting(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    make_it_fit(&m);
    g = show(&m, (vram_style){ .columns = 80, .verbose = 1 });
    assert_has(&g, "allocated");
    assert_has(&g, "reserved");
    assert_has(&g, "nvidia-smi");
    assert_has(&g, "CUDA context");
    assert_has(&g, "idle in the allocator");
    free(g.p);
    unmake(&m);
}

static void what_is_not_counted_is_never_zero(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    make_it_fit(&m);
    m.fit.ledger.category[VR_KV_CACHE] =
        (vr_figure){ .basis = VR_BASIS_NOT_COUNTED, .formula = "the type is not known" };
    m.fit.ledger.partial = true;
    m.fit.verdict = VRAM_UNKNOWN;
    m.fit.verdict_reason = "the KV cache is not counted";
    g = show(&m, (vram_style){ .columns = 80 });
    assert_int_equal(strncmp(g.p, "UNKNOWN", 7), 0);
    assert_has(&g, "not counted");
    assert_has(&g, "the type is not known");
    assert_lacks(&g, "KV cache              0");
    free(g.p);
    unmake(&m);
}

static void without_a_card_the_cards_are_named(void **state)
{
    made m;
    page g;
    (void)state;

    make(&m);
    make_it_fit(&m);
    for (size_t i = 0; i < 3; i++)
        m.cards[i] = (struct vr_card){ .gpu = &m.gpu,
                                       .verdict = i == 0 ? VRAM_DOES_NOT_FIT : VRAM_FITS,
                                       .required = m.fit.ledger.required,
                                       .headroom = i == 0 ? -1000000000 : 1000000000 };
    m.fit.device = NULL;
    m.fit.cards = m.cards;
    m.fit.n_cards = 3;
    g = show(&m, (vram_style){ .columns = 80 });
    assert_has(&g, "fits on  RTX 3060 12 GB (0.93 left), RTX 3060 12 GB (0.93 left)");
    assert_has(&g, "not on   RTX 3060 12 GB (0.93 short)");
    free(g.p);
    unmake(&m);
}

static void a_failing_writer_is_told(void **state)
{
    made m;
    page g = { .fail_after = 10 };
    vram_style style = { .columns = 80 };
    (void)state;

    make(&m);
    assert_int_equal(vram_fit_render(&m.fit, &style, page_write, &g), VRAM_EIO);
    free(g.p);
    unmake(&m);
}

/* The n-th allocation fails, for each n: a clean refusal, nothing leaked. */
static void every_allocation_can_fail(void **state)
{
    made m;
    (void)state;

    for (int format = VRAM_TEXT; format <= VRAM_JSON; format++) {
        vram_status s = VRAM_ENOMEM;
        for (size_t n = 1; s != VRAM_OK && n < 1000; n++) {
            page g = { 0 };
            vram_style style = { .format = (vram_format)format, .columns = 80, .verbose = 1 };
            make(&m);
            m.memory.fail_at = m.memory.n_calls + n;
            s = vram_fit_render(&m.fit, &style, page_write, &g);
            assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
            m.memory.fail_at = 0;
            free(g.p);
            unmake(&m);
        }
        assert_int_equal(s, VRAM_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdict_first_then_death_then_what_to_type),
        cmocka_unit_test(hardware_is_told_last),
        cmocka_unit_test(the_first_line_adds_up),
        cmocka_unit_test(one_is_not_many),
        cmocka_unit_test(names_are_shown_harmless),
        cmocka_unit_test(it_keeps_within_the_terminal),
        cmocka_unit_test(a_pipe_gets_plain_lines),
        cmocka_unit_test(colour_only_colours),
        cmocka_unit_test(what_fits_is_short),
        cmocka_unit_test(details_name_the_three_ways_of_counting),
        cmocka_unit_test(what_is_not_counted_is_never_zero),
        cmocka_unit_test(without_a_card_the_cards_are_named),
        cmocka_unit_test(a_failing_writer_is_told),
        cmocka_unit_test(every_allocation_can_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
