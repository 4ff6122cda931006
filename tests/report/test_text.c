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
