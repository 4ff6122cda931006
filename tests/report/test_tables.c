/* SPDX-License-Identifier: MIT
 * The screens of `vram ledger` and `vram gpus`. The four scenarios are Llama-2-7B's: 7e9 parameters, 2
 * tensors x 32 layers x 32 heads x 128 x 2 B = 512 KiB of KV a token; 17.6, 47.6, 35.9 and 104.3 GiB in all.
 */
#include "made.h"

static const char FOUR[] =
    "{\"scenarios\": ["
    "{\"name\": \"serve x1 FP16\", \"params\": 7e9, \"context\": 4096, \"kv_bytes_per_token\": 524288,"
    " \"overhead\": 0.2},"
    "{\"name\": \"serve x16 FP16\", \"params\": 7e9, \"context\": 4096, \"sequences\": 16,"
    " \"kv_bytes_per_token\": 524288, \"overhead\": 0.2},"
    "{\"name\": \"serve x16 INT4\", \"params\": 7e9, \"weight_bytes\": 0.5, \"context\": 4096, "
    "\"sequences\": 16,"
    " \"kv_bytes_per_token\": 524288, \"overhead\": 0.2},"
    "{\"name\": \"train mixed Adam\", \"params\": 7e9, \"mode\": \"train\"}]}";

typedef struct room {
    hook memory;
    vram_ctx *ctx;
    vram_scenario *scenario;
} room;

static void open_room(room *o, const char *json, const char *cards)
{
    memset(o, 0, sizeof *o);
    assert_int_equal(vram_open(&o->ctx, hook_alloc, &o->memory), VRAM_OK);
    assert_int_equal(vram_scenario_new(&o->scenario, o->ctx), VRAM_OK);
    assert_int_equal(vram_scenario_read(o->scenario, "four.json", json, strlen(json)), VRAM_OK);
    if (cards != NULL)
        assert_int_equal(vram_scenario_set(o->scenario, "gpu_memory_gib", cards), VRAM_OK);
    assert_int_equal(vram_scenario_solve(o->scenario), VRAM_OK);
}

static void close_room(room *o)
{
    vram_close(o->ctx);
    assert_int_equal(o->memory.live_blocks, 0);
}

static page show(room *o, vram_style style)
{
    page g = { 0 };

    assert_int_equal(vram_scenario_render(o->scenario, &style, page_write, &g), VRAM_OK);
    return g;
}

static void four_side_by_side(void **state)
{
    room o;
    page g;
    (void)state;

    open_room(&o, FOUR, "24,80");
    g = show(&o, (vram_style){ .columns = 80 });
    assert_int_equal(strncmp(g.p, "DOES NOT FIT  1 of 4 fit 24 GiB, 3 fit 80 GiB", 45), 0);
    assert_has(&g, "over what is counted");
    assert_has(&g, "17.65\n");
    assert_has(&g, "47.65\n");
    assert_has(&g, "35.91\n");
    assert_has(&g, "104.31\n");
    assert_has(&g, "train mixed Adam WWWGGG|OOOOOOOOOOOOO|OOOOOO  no, 80.31 short   no, 24.31 short");
    assert_has(&g, "W weights");
    assert_has(&g, "real sharding is never perfect");
    assert_within(&g, 80);
    free(g.p);
    close_room(&o);
}

static void every_width(void **state)
{
    static const unsigned widths[] = { 80, 100, 132, 200 };
    room o;
    (void)state;

    open_room(&o, FOUR, "24,80");
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (int verbose = 0; verbose < 2; verbose++) {
            page g = show(&o, (vram_style){ .columns = widths[i], .verbose = verbose });
            assert_within(&g, widths[i]);
            free(g.p);
        }
    }
    page g = show(&o, (vram_style){ .columns = 0, .verbose = 1 });
    assert_true(is_ascii(&g));
    free(g.p);
    close_room(&o);
}

static void one_alone(void **state)
{
    room o;
    page g;
    (void)state;

    open_room(&o, "{\"params\": 7e9, \"context\": 4096, \"sequences\": 16, \"kv_bytes_per_token\": 524288}",
              "24");
    g = show(&o, (vram_style){ .columns = 80 });
    assert_int_equal(strncmp(g.p, "DOES NOT FIT  45.04 GiB of what is counted", 42), 0);
    assert_has(&g, "counted: activations and runtime overhead");
    assert_has(&g, "runtime overhead");
    assert_has(&g, "parameters x");
    assert_has(&g, "one change at a time");
    assert_lacks(&g, "gradients");
    assert_within(&g, 80);
    free(g.p);
    close_room(&o);
}

static void without_a_card_nothing_is_judged(void **state)
{
    room o;
    page g;
    (void)state;

    open_room(&o, "{\"params\": 7e9}", NULL);
    g = show(&o, (vram_style){ .columns = 80 });
    assert_int_equal(strncmp(g.p, "13.04 GiB of what is counted", 28), 0);
    assert_lacks(&g, "FIT");
    free(g.p);
    close_room(&o);
}

/* A pipe without cards has nothing to say after the table; a terminal has the bars. */
static void several_without_a_card(void **state)
{
    room o;
    page g;
    (void)state;

    open_room(&o, FOUR, NULL);
    g = show(&o, (vram_style){ .columns = 0 });
    assert_lacks(&g, "\n\n");
    assert_lacks(&g, "serve x1 FP16\n");
    assert_int_equal(count_lines(&g), 7); /* verdict, heads, four rows, what -v adds */
    free(g.p);
    g = show(&o, (vram_style){ .columns = 80 });
    assert_lacks(&g, "\n\n");
    assert_lacks(&g, " \n");
    assert_has(&g, "serve x1 FP16    WWW");
    free(g.p);
    close_room(&o);
}

/* The size as it was given, so that the figure beside it adds up. */
static void a_size_with_a_fraction(void **state)
{
    room o;
    page g;
    (void)state;

    open_room(&o, "{\"params\": 7e9}", "11.63");
    g = show(&o, (vram_style){ .columns = 0 });
    assert_has(&g, "13.04 GiB of what is counted; 11.63 GiB: no, 1.41 short");
    free(g.p);
    close_room(&o);
    open_room(&o, FOUR, "11.63,24");
    g = show(&o, (vram_style){ .columns = 80 });
    assert_has(&g, "11.63 GiB  --");
    assert_within(&g, 80);
    free(g.p);
    close_room(&o);
}

static void json_of_several_and_of_one(void **state)
{
    room o;
    page g;
    vr_json doc, v;
    vr_json_error error;
    (void)state;

    open_room(&o, FOUR, "24,80");
    g = show(&o, (vram_style){ .format = VRAM_JSON });
    assert_true(vr_json_parse((vr_str){ g.p, g.n }, &doc, &error));
    assert_true(vr_json_get(doc, "schema", &v) && vr_json_str_is(v, "vram.ledger/1"));
    assert_true(vr_json_get(doc, "verdict", &v) && vr_json_str_is(v, "does_not_fit"));
    assert_false(vr_json_get(doc, "devices", &v));
    free(g.p);
    close_room(&o);
    open_room(&o, "{\"params\": 7e9}", "24");
    g = show(&o, (vram_style){ .format = VRAM_JSON });
    assert_true(vr_json_parse((vr_str){ g.p, g.n }, &doc, &error));
    assert_true(vr_json_get(doc, "devices", &v) && v.type == VR_JSON_ARRAY);
    assert_true(vr_json_get(doc, "scenarios", &v) && v.type == VR_JSON_ARRAY);
    free(g.p);
    close_room(&o);
}

static void every_allocation_can_fail(void **state)
{
    (void)state;

    for (int format = VRAM_TEXT; format <= VRAM_JSON; format++) {
        vram_status s = VRAM_ENOMEM;
        for (size_t n = 1; s != VRAM_OK && n < 1000; n++) {
            room o;
            page g = { 0 };
            vram_style style = { .format = (vram_format)format, .columns = 80, .verbose = 1 };
            open_room(&o, FOUR, "24,80");
            o.memory.fail_at = o.memory.n_calls + n;
            s = vram_scenario_render(o.scenario, &style, page_write, &g);
            assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
            o.memory.fail_at = 0;
            free(g.p);
            close_room(&o);
        }
        assert_int_equal(s, VRAM_OK);
    }
}

/* ---- cards ---- */

static page show_gpus(const char *search, vram_style style, vram_status expected)
{
    hook memory = { 0 };
    vram_ctx *ctx;
    page g = { 0 };

    assert_int_equal(vram_open(&ctx, hook_alloc, &memory), VRAM_OK);
    assert_int_equal(vram_gpus_render(ctx, search, &style, page_write, &g), expected);
    vram_close(ctx);
    assert_int_equal(memory.live_blocks, 0);
    return g;
}

/* nvidia-smi shows 12288 MiB for it, CUDA 12,490,457,088 bytes. */
static void three_sizes_of_a_card(void **state)
{
    page g;
    (void)state;

    g = show_gpus("3060 12gb", (vram_style){ .columns = 80 }, VRAM_OK);
    assert_has(&g, "rtx-3060-12gb      12       12.00   11.63   NVIDIA GeForce RTX 3060");
    assert_within(&g, 80);
    free(g.p);
    g = show_gpus("3060 12gb", (vram_style){ .format = VRAM_JSON }, VRAM_OK);
    assert_has(&g, "\"bytes\": 12490457088");
    free(g.p);
    g = show_gpus("!!!", (vram_style){ .columns = 80 }, VRAM_ENOTFOUND);
    assert_null(g.p);
    g = show_gpus("7900 xtx", (vram_style){ .format = VRAM_JSON },
                  VRAM_OK); /* listed, its context not known */
    assert_has(&g, "\"context\": null");
    free(g.p);
    g = show_gpus("no such card", (vram_style){ .columns = 80 }, VRAM_ENOTFOUND);
    assert_null(g.p);
}

static void all_cards(void **state)
{
    page g;
    (void)state;

    g = show_gpus(NULL, (vram_style){ .columns = 0 }, VRAM_OK);
    assert_true(is_ascii(&g));
    assert_true(count_lines(&g) > 100);
    free(g.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_side_by_side),
        cmocka_unit_test(every_width),
        cmocka_unit_test(one_alone),
        cmocka_unit_test(without_a_card_nothing_is_judged),
        cmocka_unit_test(several_without_a_card),
        cmocka_unit_test(a_size_with_a_fraction),
        cmocka_unit_test(json_of_several_and_of_one),
        cmocka_unit_test(every_allocation_can_fail),
        cmocka_unit_test(three_sizes_of_a_card),
        cmocka_unit_test(all_cards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
