/* SPDX-License-Identifier: MIT
 * llama.cpp's rules by build: cells of caches worked out by hand from the source of that build, and which
 * rule holds on each side of the commit that changed it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "llama/builds.h"

typedef struct row {
    uint32_t build;
    bool flash, unified, hybrid, swa_full;
    uint64_t context, sequences, batch, ubatch, window;
    uint64_t n_ctx, n_stream, full, sliding, n_tokens; /* expected */
} row;

static const row rows[] = {
    /* b10470: pad256(5000) = 5120; 5120/3 = 1706 -> 1792; 3 * 1792. Window 1024 + 512 -> 1536. 512 -> 513
       tokens. */
    { 10470, true, false, false, false, 5000, 3, 2048, 512, 1024, 5376, 3, 1792, 1536, 513 },
    /* one cache: the window for each sequence, 3 * 1024 + 512 */
    { 10470, true, true, false, false, 5000, 3, 2048, 512, 1024, 5120, 1, 5120, 3584, 513 },
    { 10470, true, true, false, true, 5000, 3, 2048, 512, 1024, 5120, 1, 5120, 5120, 513 },
    /* the batch is held against 100, and only then the context padded */
    { 10470, true, false, false, false, 100, 1, 2048, 512, 0, 256, 1, 256, 256, 100 },
    /* padded after the smaller one is taken: 300 + 128 = 428 -> 512 */
    { 10470, true, false, false, false, 4096, 1, 2048, 128, 300, 4096, 1, 4096, 512, 128 },
    /* b6974: no padding; 5000 / 3 rounded down, 3 * 1666; the window as it is */
    { 6974, true, false, false, false, 5000, 3, 2048, 512, 1000, 4998, 3, 1666, 1512, 513 },
    /* b6924: rounded up, 3 * 1667 */
    { 6924, true, false, false, false, 5000, 3, 2048, 512, 1000, 5001, 3, 1667, 1512, 513 },
    /* b6867: 1667 -> 1792 with flash attention, 1696 without */
    { 6867, true, false, false, false, 5000, 3, 2048, 512, 1000, 5376, 3, 1792, 1536, 513 },
    { 6867, false, false, false, false, 5000, 3, 2048, 512, 1000, 5088, 3, 1696, 1536, 513 },
    /* b6070: one cache whatever is typed; 3 * 1000 + 512 = 3512 */
    { 6070, false, false, false, false, 5000, 3, 2048, 512, 1000, 5024, 1, 5024, 3520, 513 },
    { 5912, false, false, false, false, 5000, 3, 2048, 512, 1000, 5024, 1, 5024, 3520, 512 },
    /* b5553: beside the window a whole batch: 1000 + 2048 -> 3072 */
    { 5553, true, false, false, false, 8192, 1, 2048, 512, 1000, 8192, 1, 8192, 3072, 512 },
    { 5554, true, false, false, false, 8192, 1, 2048, 512, 1000, 8192, 1, 8192, 1536, 512 },
    /* b5428: sliding layers keep all */
    { 5428, true, false, false, false, 8192, 1, 2048, 512, 1000, 8192, 1, 8192, 8192, 512 },
    /* b4880: the context was padded before the batch was held against it: 100 -> 128 without flash attention
     */
    { 4880, false, false, false, false, 100, 1, 2048, 512, 0, 128, 1, 128, 128, 128 },
    { 4881, false, false, false, false, 100, 1, 2048, 512, 0, 128, 1, 128, 128, 100 },
    /* at least 64 rows of a mask */
    { 7255, true, false, false, false, 4096, 1, 8, 8, 0, 4096, 1, 4096, 4096, 8 },
    { 7255, true, false, false, false, 4096, 1, 8, 512, 0, 4096, 1, 4096, 4096, 64 },
    { 7256, true, false, false, false, 4096, 1, 8, 512, 0, 4096, 1, 4096, 4096, 8 },
    /* b2412 knows no micro batch, b2492 no padding, b2771 always 256 */
    { 1957, false, false, false, false, 2000, 1, 512, 128, 0, 2000, 1, 2000, 2000, 512 },
    { 2770, false, false, false, false, 2000, 1, 2048, 512, 0, 2016, 1, 2016, 2016, 512 },
    { 2771, false, false, false, false, 2000, 1, 2048, 512, 0, 2048, 1, 2048, 2048, 512 },
    /* attention beside states: one cache, then a whole one for each, then shares */
    { 6078, true, false, true, false, 4096, 4, 2048, 512, 0, 4096, 1, 4096, 4096, 512 },
    { 6079, true, false, true, false, 4096, 4, 2048, 512, 0, 4096, 4, 4096, 4096, 512 },
    { 8024, true, false, true, false, 4096, 3, 2048, 512, 0, 4608, 3, 4608, 4608, 513 },
    { 8025, true, false, true, false, 4096, 4, 2048, 512, 0, 4096, 4, 1024, 1024, 512 },
    { 8025, true, true, true, false, 4096, 4, 2048, 512, 0, 4096, 1, 4096, 4096, 512 },
    /* no -c: what the model was trained with */
    { 10470, true, false, false, false, 0, 1, 2048, 512, 0, 32768, 1, 32768, 32768, 512 },
};

static void counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const row *x = &rows[i];
        vr_lm lm = { .n_ctx_train = 32768, .n_swa = (uint32_t)x->window, .causal = true };
        vr_lm_params p = { .n_ctx = x->context, .n_batch = x->batch, .n_ubatch = x->ubatch };
        vr_lm_rules r;
        vr_lm_cells c;
        p.n_seq_max = x->sequences;
        p.flash_attn = x->flash;
        p.kv_unified = x->unified;
        p.swa_full = x->swa_full;
        vr_lm_rules_of(&r, x->build);
        vr_lm_cells_of(&c, &r, &lm, &p, x->hybrid);
        bool ok = c.n_ctx == x->n_ctx && c.n_stream == x->n_stream && c.full == x->full &&
                  c.sliding == x->sliding && c.n_tokens == x->n_tokens;
        if (!ok)
            print_error("row %zu (b%u): n_ctx %llu streams %llu full %llu sliding %llu tokens %llu\n", i,
                        x->build, (unsigned long long)c.n_ctx, (unsigned long long)c.n_stream,
                        (unsigned long long)c.full, (unsigned long long)c.sliding,
                        (unsigned long long)c.n_tokens);
        assert_true(ok);
    }
}

/* Hostile counts: no wrap, no division by zero. */
static void saturates(void **state)
{
    (void)state;
    static const uint32_t builds[] = { 0, 1957, 6071, 6868, 6925, 6975, 10470, UINT32_MAX };
    vr_lm lm = { .n_ctx_train = UINT32_MAX, .n_swa = UINT32_MAX };
    vr_lm_params p = { .n_ctx = UINT64_MAX, .n_batch = UINT64_MAX, .n_ubatch = UINT64_MAX };
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        vr_lm_rules r;
        vr_lm_cells c;
        vr_lm_rules_of(&r, builds[i]);
        p.n_seq_max = 0;
        vr_lm_cells_of(&c, &r, &lm, &p, false);
        assert_true(c.n_ctx >= UINT32_MAX && c.n_seq_max == 1);
        p.n_seq_max = UINT64_MAX;
        vr_lm_cells_of(&c, &r, &lm, &p, false);
        assert_true(c.n_seq_max == UINT64_MAX);
    }
}

#define SIDES(build, field, before, since)                                                                   \
    do {                                                                                                     \
        vr_lm_rules r;                                                                                       \
        vr_lm_rules_of(&r, (build)-1);                                                                       \
        assert_int_equal(r.field, before);                                                                   \
        vr_lm_rules_of(&r, build);                                                                           \
        assert_int_equal(r.field, since);                                                                    \
    } while (0)

static void changes(void **state)
{
    (void)state;
    SIDES(2413, default_batch, 512, 2048);
    SIDES(2771, flash, 0, 1);
    SIDES(3087, default_ctx, 512, 0);
    SIDES(4014, default_ctx, 0, 4096);
    SIDES(7407, default_ctx, 4096, 0);
    SIDES(7407, fits, 0, 1);
    SIDES(5137, mla_values, 0, 1);
    SIDES(7832, mla_values, 1, 0);
    SIDES(6071, set_rows, 0, 1);
    SIDES(6325, all_layers, 0, 1);
    SIDES(6325, flash_auto, 0, 1);
    SIDES(6925, slots, 1, 4);
    SIDES(7467, output_first, 0, 1);
    SIDES(7819, embd_input, 0, 1);
    SIDES(8619, rotated, 0, 1);
    SIDES(9410, mask_f16, 0, 1);
    SIDES(9460, server_outputs, 0, 1);
    SIDES(9489, flash_copy, 0, 1);
    SIDES(9489, compute, VR_LM_COMPUTE_NEAR, VR_LM_COMPUTE_EXACT);
    SIDES(9890, row_split, 1, 0);
    SIDES(10247, split_inputs, 30, 0);
    SIDES(10568, rope_part, 0, 1);
    SIDES(10588, compute, VR_LM_COMPUTE_EXACT, VR_LM_COMPUTE_NEAR);
    SIDES(VR_LM_V0_5, compute, VR_LM_COMPUTE_NEAR, VR_LM_COMPUTE_EXACT);
    SIDES(VR_LM_NEWEST, inputs_last, 0, 1);
    SIDES(VR_LM_LATER, compute, VR_LM_COMPUTE_EXACT, VR_LM_COMPUTE_NEAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(saturates),
        cmocka_unit_test(changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
