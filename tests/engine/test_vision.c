/* SPDX-License-Identifier: MIT
 * Patches and tokens of pictures against what the processors of transformers make of them
 * (pictures.tsv, recorded by record_pictures.py), and sizes that nobody has. */
#include "facts.h"

#include "model/tower.h"

#include <stdio.h>

typedef struct kind {
    const char *name;
    vr_tower tower;
} kind;

static const kind kinds[] = {
    { "qwen2_5_vl", { .kind = &vr_tower_qwen2_5_vl, .patch = 14, .merge = 2 } },
    { "qwen3_vl", { .kind = &vr_tower_qwen3_vl, .patch = 16, .merge = 2 } },
    { "pixtral", { .kind = &vr_tower_pixtral, .patch = 16, .merge = 1 } },
    { "mistral3", { .kind = &vr_tower_pixtral, .patch = 14, .merge = 2 } },
};

static const vr_tower *tower_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i].tower;
    }
    fail_msg("no tower %s", name);
    return NULL;
}

static void recorded_pictures(void **state)
{
    FILE *in = fopen(VRAM_PICTURES, "r");
    char line[256], name[32];
    unsigned long long n[6];
    size_t rows = 0;
    (void)state;
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        if (sscanf(line, "%31s %llu %llu %llu %llu %llu %llu", name, &n[0], &n[1], &n[2], &n[3], &n[4],
                   &n[5]) != 7)
            continue;
        vram_model m = { .tower = tower_of(name) };
        vr_picture p;
        assert_null(vr_picture_of(&p, &m, n[0], n[1]));
        if (p.columns != n[2] || p.rows != n[3] || p.features != n[4] || p.tokens != n[5])
            fail_msg("%s %llu x %llu: %llu x %llu patches, %llu tokens; ours %llu x %llu, %llu", name, n[0],
                     n[1], n[2], n[3], n[5], (unsigned long long)p.columns, (unsigned long long)p.rows,
                     (unsigned long long)p.tokens);
        rows++;
    }
    fclose(in);
    assert_true(rows > 600);
}

/* LLaVA-1.5 and Gemma 3: the same whatever the picture's size. */
static void fixed_pictures(void **state)
{
    static const vr_tower clip = { .kind = &vr_tower_clip, .patch = 14, .image = 336 };
    static const vr_tower siglip = {
        .kind = &vr_tower_siglip, .patch = 14, .image = 896, .picture_tokens = 256
    };
    const vram_model llava = { .tower = &clip }, gemma = { .tower = &siglip };
    vr_picture p;
    (void)state;
    assert_true(vr_picture_fixed(&llava) && vr_picture_fixed(&gemma));
    assert_null(vr_picture_of(&p, &llava, 1, 65536));
    assert_int_equal(p.tokens, 576);
    assert_null(vr_picture_of(&p, &gemma, 4000, 3000));
    assert_int_equal(p.tokens, 256);
    assert_int_equal(p.rows, 64);
}

static void refused_pictures(void **state)
{
    static const vr_tower tiny = { .kind = &vr_tower_clip, .patch = 14, .image = 13 };
    static const vr_tower unknown = { .kind = &vr_tower_llama4, .patch = 14, .image = 336 };
    const vram_model none = { .tower = NULL }, small = { .tower = &tiny }, other = { .tower = &unknown },
                     qwen = { .tower = tower_of("qwen3_vl") };
    vr_picture p;
    (void)state;
    assert_non_null(vr_picture_of(&p, &none, 10, 10));
    assert_non_null(vr_picture_of(&p, &small, 10, 10));
    assert_non_null(vr_picture_of(&p, &other, 10, 10));
    assert_non_null(vr_picture_of(&p, &qwen, 1, 201));
    assert_null(vr_picture_of(&p, &qwen, 1, 200));
    assert_non_null(vr_picture_of(&p, &qwen, 65536, 327));
    assert_false(vr_picture_fixed(&none) || vr_picture_fixed(&qwen));
}

static void settings(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "1024",
        "1024x",
        "x768",
        "0x768",
        "1024x0",
        "65537x1",
        "1x65537",
        "-1x5",
        "1e3x5",
        "5x5x5",
        "99999999999999999999x1",
        "1024 x 768",
    };
    vram_ctx *ctx;
    hook h = { 0 };
    vram_workload *w;
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    assert_int_equal(vram_workload_new(&w, ctx, NULL), VRAM_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(vram_workload_set(w, "image_size", bad[i]), VRAM_ESETTING);
    assert_int_equal(vram_workload_set(w, "images", "65537"), VRAM_ESETTING);
    assert_int_equal(vram_workload_set(w, "images", "-1"), VRAM_ESETTING);
    assert_int_equal(vram_workload_set(w, "images", "2"), VRAM_OK);
    assert_int_equal(vram_workload_set(w, "image_size", "1024x768"), VRAM_OK);
    assert_int_equal(w->image_width, 1024);
    assert_int_equal(w->image_height, 768);
    vram_close(ctx);
}

static void plan_of_pictures(vr_plan *plan, world *w, vr_arena *a, const char *name)
{
    static const char *const keys[][2] = { { "sequences", "3" }, { "prefill_batch", "2" },
                                           { "images", "2" },    { "image_size", "448x512" },
                                           { "context", "700" }, { "decode", "2" } };
    facts *f = read_facts(facts_folder(), name);
    open_facts(w, f);
    set(w, "dtype", "bf16");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        set(w, keys[i][0], keys[i][1]);
    assert_int_equal(make_plan(w, &ampere, plan, a), VRAM_OK);
    free(f);
}

/* Several batches: what one's tower gave goes with its logits, and at the end all but weights and workspaces
 * is given back. What fails within the tower is named by its block. */
static void batches_of_pictures(void **state)
{
    static const char *const names[] = { "qwen2_5_vl-sdpa-image-5.24.0.tsv",
                                         "qwen3_vl-sdpa-image-5.24.0.tsv" };
    (void)state;
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        world w;
        vr_arena a;
        vr_plan plan;
        size_t blocks = 0, live = 0, loaded = 0;
        plan_of_pictures(&plan, &w, &a, names[k]);
        for (size_t i = 0; i < plan.tape.n; i++) {
            const vr_event *e = &plan.tape.events[i];
            live += e->kind == VR_EV_ALLOC && e->item != VR_ITEM_WORKSPACES;
            live -= e->kind == VR_EV_RELEASE;
            loaded = e->kind == VR_EV_MARK && e->bytes == VR_AT_LOADED ? live : loaded;
            blocks += e->kind == VR_EV_ALLOC && e->item == VR_ITEM_VISION &&
                      vr_str_is(plan.tape.labels[e->label], "model.visual.blocks.1");
        }
        assert_int_equal(live, loaded);
        assert_true(blocks > 20);
        assert_true(plan.counted[VR_ACTIVATIONS] && !plan.verified);
        vr_arena_free(&a);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_pictures),   cmocka_unit_test(fixed_pictures),
        cmocka_unit_test(refused_pictures),    cmocka_unit_test(settings),
        cmocka_unit_test(batches_of_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
