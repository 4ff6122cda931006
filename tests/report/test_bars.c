/* SPDX-License-Identifier: MIT
 * Bars, paragraphs and words of the reports. */
#include "made.h"

typedef struct sheet {
    made m;
    page page;
    vram_style style;
    vr_report r;
} sheet;

static void begin(sheet *s, unsigned columns)
{
    make(&s->m);
    s->page = (page){ 0 };
    s->style = (vram_style){ .columns = columns };
    vr_report_start(&s->r, s->m.ctx, &s->style, page_write, &s->page);
}

static void end(sheet *s, const char *expected)
{
    assert_int_equal(vr_report_end(&s->r), VRAM_OK);
    assert_string_equal(s->page.p != NULL ? s->page.p : "", expected);
    free(s->page.p);
    unmake(&s->m);
}

static void a_bar_crosses_the_edge(void **state)
{
    sheet s;
    uint64_t edge = 6;
    (void)state;

    begin(&s, 80);
    vr_scale scale = vr_scale_of(11, 10, &edge, 1);
    vr_bar(&s.r, &scale, 0, 8);
    end(&s, "██████│██  ");
}

static void a_bar_begins_where_the_last_ended(void **state)
{
    sheet s;
    (void)state;

    begin(&s, 80);
    vr_scale scale = vr_scale_of(4, 32, NULL, 0);
    vr_bar(&s.r, &scale, 12, 28);
    end(&s, " ▐█▌");
}

static void nothing_is_blank_and_little_shows(void **state)
{
    sheet s;
    (void)state;

    begin(&s, 80);
    vr_scale scale = vr_scale_of(4, UINT64_MAX, NULL, 0);
    vr_bar(&s.r, &scale, 0, 0);
    vr_bar(&s.r, &scale, 0, 1);
    vr_bar(&s.r, &scale, UINT64_MAX - 1, UINT64_MAX);
    end(&s, "    "
            "▏   "
            "   ▕");
}

static void edges_are_sorted_and_kept(void **state)
{
    sheet s;
    const uint64_t edges[] = { 80, 0, 24 }, parts[] = { 13, 32, 3 };
    (void)state;

    begin(&s, 80);
    vr_scale scale = vr_scale_of(42, 48, edges, 3);
    assert_int_equal(scale.n_edges, 2);
    assert_int_equal(scale.full, 80);
    vr_bar_marks(&s.r, &scale, parts, "WK+", 3);
    end(&s, "WWWWWWKKKKKK|KKKKKKKKKK++                |");
}

static void every_mark_has_a_cell(void **state)
{
    sheet s;
    const uint64_t parts[] = { 40, 0, 1, 1 };
    (void)state;

    begin(&s, 80);
    vr_scale scale = vr_scale_of(10, 100, NULL, 0);
    vr_bar_marks(&s.r, &scale, parts, "WGK+", 4); /* K and + are a tenth of a cell each */
    end(&s, "WWWWK+    ");
}

static void an_edge_beyond_all_ends_the_bar(void **state)
{
    sheet s;
    const uint64_t edge = 100;
    (void)state;

    begin(&s, 80);
    vr_scale scale = vr_scale_of(6, 1, &edge, 1);
    vr_bar(&s.r, &scale, 0, 50);
    end(&s, "██▌  │");
}

static void paragraphs_hang(void **state)
{
    sheet s;
    (void)state;

    begin(&s, 20);
    vr_para(&s.r, VR_INK_BOLD, "head", 6, "one two three four five");
    end(&s, "head  one two three\n"
            "      four five\n");
}

static void a_pipe_is_not_wrapped(void **state)
{
    sheet s;
    (void)state;

    begin(&s, 0);
    vr_para(&s.r, VR_INK_BOLD, "head", 6, "one two three four five six seven eight nine ten eleven twelve");
    end(&s, "head  one two three four five six seven eight nine ten eleven twelve\n");
}

static void words(void **state)
{
    sheet s;
    (void)state;

    begin(&s, 80);
    assert_string_equal(vr_gib(&s.r, 0), "0");
    assert_string_equal(vr_gib(&s.r, 1), "<0.01");
    assert_string_equal(vr_gib(&s.r, WEIGHTS), "14.19");
    assert_string_equal(vr_gib_signed(&s.r, -(int64_t)VR_GIB), "1.00");
    assert_true(vr_magnitude(INT64_MIN) == UINT64_C(1) << 63);
    assert_string_equal(vr_card_name(&s.r, "NVIDIA GeForce RTX 3060", 12), "RTX 3060 12 GB");
    assert_string_equal(vr_card_name(&s.r, "NVIDIA A100-SXM4-80GB", 80), "A100-SXM4-80GB");
    assert_string_equal(vr_card_name(&s.r, "24GiB", 0), "24GiB");
    end(&s, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_crosses_the_edge),
        cmocka_unit_test(a_bar_begins_where_the_last_ended),
        cmocka_unit_test(nothing_is_blank_and_little_shows),
        cmocka_unit_test(edges_are_sorted_and_kept),
        cmocka_unit_test(every_mark_has_a_cell),
        cmocka_unit_test(an_edge_beyond_all_ends_the_bar),
        cmocka_unit_test(paragraphs_hang),
        cmocka_unit_test(a_pipe_is_not_wrapped),
        cmocka_unit_test(words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
