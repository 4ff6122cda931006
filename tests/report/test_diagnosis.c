/* SPDX-License-Identifier: MIT
 * The screens of `vram explain` of diagnoses made by hand: what stands in the first lines, what gives way
 * where there is no room, what is told of nothing.
 */
#include "made.h"
#include "report/diagnosis_report.h"

typedef struct world {
    hook memory;
    vram_ctx *ctx;
    vr_text_row row;
    vr_fact facts[5];
    vr_incident event;
    vr_finding list[2];
    vr_reason evidence[1];
    vr_futile futile[2];
    vr_remedy remedies[2];
    const char *files[1];
    struct vram_diagnosis d;
} world;

/* 12 GB card, 7B model: figures that users have published. */
static void make_diagnosis(world *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->memory), VRAM_OK);
    w->row = (vr_text_row){ .id = "row", .meaning = "PyTorch asked for more" };
    w->facts[0] =
        (vr_fact){ .id = VR_FACT_REQUEST, .value = 130 * VR_MIB, .slack = 5243, .text = "130.00 MiB" };
    w->facts[1] = (vr_fact){ .id = VR_FACT_GPU, .value = 0, .text = "0" };
    w->facts[2] = (vr_fact){ .id = VR_FACT_PROCESS_ID, .value = 77, .text = "77" };
    w->facts[3] = (vr_fact){ .id = VR_FACT_PROCESS, .value = VR_GIB, .text = "1.00 GiB" };
    w->facts[4] = (vr_fact){ .id = VR_FACT_BUDGET, .value = 5, .negative = true, .text = "-5 bytes" };
    w->event.sign = (vr_sign){ .row = &w->row, .line = 12, .rank = 3, .text = "CUDA out of memory" };
    w->event.sign.facts = (vr_fact_list){ w->facts, 5 };
    w->evidence[0] = (vr_reason){ "The card is full", 12, 0 };
    w->futile[0] = (vr_futile){ "expandable_segments", "0.9 % of the card is idle" };
    w->futile[1] = (vr_futile){ "a smaller batch", "weights do not depend on it" };
    w->remedies[0] = (vr_remedy){ .id = "a",
                                  .change = "weights in 8 bits",
                                  .command = "load_in_8bit=True",
                                  .sized = true,
                                  .needs = 9 * VR_GIB,
                                  .fits = true };
    w->remedies[1] = (vr_remedy){ .id = "b", .change = "another card", .gain = "all", .cost = "money" };
    w->list[0] = (vr_finding){ .event = &w->event,
                               .memory = VR_MEMORY_GPU,
                               .phase = VR_PHASE_LOAD,
                               .cause = VR_CAUSE_WEIGHTS,
                               .certainty = VR_CERTAINTY_CERTAIN,
                               .summary = "The weights alone are larger than the card",
                               .evidence = w->evidence,
                               .n_evidence = 1,
                               .missing_known = true,
                               .missing_at_least = WEIGHTS - USABLE,
                               .missing_note = "of the weights alone",
                               .futile = w->futile,
                               .n_futile = 2,
                               .remedies = w->remedies,
                               .n_remedies = 2 };
    w->list[1] = w->list[0];
    w->list[1].cause = VR_CAUSE_UNKNOWN;
    w->list[1].certainty = VR_CERTAINTY_UNKNOWN;
    w->files[0] = "train.log";
    w->d = (struct vram_diagnosis){ .ctx = w->ctx, .list = w->list, .n = 1 };
    w->d.found = (vr_findings){ .files = w->files, .n_files = 1, .bytes = 5000, .lines = 40 };
}

static void unmake_diagnosis(world *w)
{
    vram_close(w->ctx);
    assert_int_equal(w->memory.live_blocks, 0);
}

static page show(world *w, vram_style style)
{
    page g = { 0 };

    assert_int_equal(vram_diagnosis_render(&w->d, &style, page_write, &g), VRAM_OK);
    return g;
}

static void five_lines_answer(void **state)
{
    world w;
    page g;
    (void)state;

    make_diagnosis(&w);
    g = show(&w, (vram_style){ .columns = 0 });
    assert_has(&g,
               "WEIGHTS (certain): the weights alone are larger than the card\n"
               "ran out     memory of GPU 0, loading weights (line 12)\n"
               "missing     at least 2.55 GiB (2.74 GB) of the weights alone; 130.00 MiB is only the last "
               "piece asked for\n"
               "won't help  expandable_segments (0.9 % of the card is idle); a smaller batch\n"
               "type        load_in_8bit=True   weights in 8 bits: 9.00 GiB, fits\n"
               "or          another card   all\n");
    free(g.p);
    unmake_diagnosis(&w);
}

/* Nothing is wider than the terminal, and the answer keeps its lines down to 60 columns. */
static void a_narrow_terminal_gets_the_same_lines(void **state)
{
    static const unsigned widths[] = { 60, 80, 120, 200 };
    world w;
    (void)state;

    make_diagnosis(&w);
    w.d.n = 2;
    w.d.n_follow = 3;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        page g = show(&w, (vram_style){ .columns = widths[i] });
        assert_within(&g, widths[i]);
        assert_has(&g, "\ntype        load_in_8bit=True");
        assert_true(count_lines(&g) <= 12);
        free(g.p);
        g = show(&w, (vram_style){ .columns = widths[i], .verbose = 1 });
        assert_within(&g, widths[i]);
        assert_has(&g, "136,314,880 bytes");
        assert_has(&g, "cost: money");
        free(g.p);
    }
    unmake_diagnosis(&w);
}

static void others_take_a_line_each(void **state)
{
    world w;
    page g;
    (void)state;

    make_diagnosis(&w);
    w.d.n = 2;
    g = show(&w, (vram_style){ .columns = 0 });
    assert_has(&g, "\nalso        line 12: CANNOT TELL: the weights alone");
    free(g.p);
    unmake_diagnosis(&w);
}

/* More memory would not change what is no shortage. */
static void no_shortage_lacks_nothing(void **state)
{
    world w;
    page g;
    (void)state;

    make_diagnosis(&w);
    w.list[0].cause = VR_CAUSE_NOT_CAPACITY;
    w.list[0].memory = VR_MEMORY_ON_CHIP;
    g = show(&w, (vram_style){ .columns = 0 });
    assert_has(&g, "NO SHORTAGE (certain)");
    assert_has(&g, "missing     nothing: more memory would not change it\n");
    assert_lacks(&g, "last piece");
    free(g.p);
    unmake_diagnosis(&w);
}

static void json_has_exact_bytes(void **state)
{
    world w;
    page g;
    (void)state;

    make_diagnosis(&w);
    g = show(&w, (vram_style){ .format = VRAM_JSON });
    assert_has(&g, "\"request_bytes\": 136314880");
    assert_has(&g, "\"budget_bytes\": -5");
    assert_has(&g, "\"process_id\": 77");
    assert_has(&g, "\"bytes\": 1073741824");
    assert_has(&g, "\"missing_at_least_bytes\": 2740775936");
    assert_has(&g, "\"process_rank\": 3");
    assert_has(&g, "\"shares\": null");
    assert_has(&g, "\"place\": null");
    free(g.p);
    unmake_diagnosis(&w);
}

static void nothing_says_what_to_do(void **state)
{
    world w;
    page g;
    (void)state;

    make_diagnosis(&w);
    w.d.n = 0;
    g = show(&w, (vram_style){ .columns = 80 });
    assert_has(&g, "NOTHING RECOGNISED: 40 lines (5 KB) read");
    assert_has(&g, "2>&1 | vram explain");
    assert_within(&g, 80);
    free(g.p);
    unmake_diagnosis(&w);
}

/* No allocation is missed, and a reader that closes ends it. */
static void failures_are_told(void **state)
{
    world w;
    (void)state;

    for (size_t n = 1; n < 40; n++) {
        static const vram_style styles[] = { { .columns = 80, .verbose = 1 }, { .format = VRAM_JSON } };
        page g = { 0 };
        vram_status s;
        make_diagnosis(&w);
        w.memory.fail_at = w.memory.n_calls + n;
        s = vram_diagnosis_render(&w.d, &styles[n % 2], page_write, &g);
        assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
        free(g.p);
        unmake_diagnosis(&w);
    }
    make_diagnosis(&w);
    page g = { .fail_after = 10 };
    assert_int_equal(vram_diagnosis_render(&w.d, &(vram_style){ .columns = 80 }, page_write, &g), VRAM_EIO);
    free(g.p);
    unmake_diagnosis(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_lines_answer),       cmocka_unit_test(a_narrow_terminal_gets_the_same_lines),
        cmocka_unit_test(others_take_a_line_each), cmocka_unit_test(no_shortage_lacks_nothing),
        cmocka_unit_test(json_has_exact_bytes),    cmocka_unit_test(nothing_says_what_to_do),
        cmocka_unit_test(failures_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
