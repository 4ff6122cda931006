/* SPDX-License-Identifier: MIT
 * What runs on an NVIDIA card, and what it takes there. Source of the rows: ggml 0.20,
 * ggml/src/ggml-cuda/fattn.cu, ggml-cuda.cu. */
#include "support.h"

/* ---- attention ---- */

static vr_gg_tensor *attention(bench *b, vr_dtype k, vr_dtype v, uint64_t head, uint64_t v_head,
                               uint64_t heads, uint64_t group, uint64_t tokens, uint64_t cells)
{
    vr_gg *g = &b->g;
    vr_gg_tensor *mask = vr_gg_new_2d(g, VR_F16, cells, tokens);
    return vr_gg_flash_attn_ext(g, vr_gg_new_3d(g, VR_F32, head, tokens, heads * group),
                                vr_gg_new_3d(g, k, head, cells, heads),
                                vr_gg_new_3d(g, v, v_head, cells, heads), mask);
}

static void kernels(void **state)
{
    enum {
        NONE = VR_GG_KERNEL_NONE,
        VEC = VR_GG_KERNEL_VEC,
        TILE = VR_GG_KERNEL_TILE,
        MMA = VR_GG_KERNEL_MMA
    };
    static const struct {
        unsigned cc;
        vr_dtype k, v;
        uint64_t head, v_head, group, tokens, cells;
        vr_gg_kernel kernel;
    } rows[] = {
        { 89, VR_F16, VR_F16, 128, 128, 4, 512, 4096, VR_GG_KERNEL_MMA },
        { 89, VR_F16, VR_F16, 128, 128, 4, 1, 4096, VR_GG_KERNEL_VEC }, /* Ada, one token */
        { 89, VR_F16, VR_F16, 128, 128, 8, 1, 8192, VR_GG_KERNEL_MMA }, /* but large groups and many cells */
        { 86, VR_F16, VR_F16, 128, 128, 4, 1, 4096, VR_GG_KERNEL_MMA }, /* not before Ada */
        { 86, VR_F16, VR_F16, 128, 128, 1, 1, 4096,
          VR_GG_KERNEL_VEC }, /* unless no group can be computed at once */
        { 89, VR_Q8_0, VR_Q8_0, 128, 128, 4, 2, 4096, VR_GG_KERNEL_VEC },
        { 86, VR_Q8_0, VR_Q8_0, 128, 128, 4, 2, 4096, VR_GG_KERNEL_MMA },
        { 86, VR_Q8_0, VR_Q8_0, 128, 128, 4, 1, 4096, VR_GG_KERNEL_VEC },
        { 89, VR_Q8_0, VR_Q8_0, 128, 128, 4, 1, 4095, VR_GG_KERNEL_MMA }, /* cells are no multiple of 256 */
        { 89, VR_F16, VR_F16, 80, 80, 4, 1, 4096, VR_GG_KERNEL_MMA },     /* heads are no multiple of 64 */
        { 89, VR_F16, VR_F16, 72, 72, 1, 512, 4096, VR_GG_KERNEL_TILE },  /* no tensor cores for 40 and 72 */
        { 70, VR_F16, VR_F16, 128, 128, 4, 4, 4096,
          VR_GG_KERNEL_TILE }, /* Volta: 4 tokens x 4 heads are but 16 */
        { 70, VR_F16, VR_F16, 128, 128, 4, 5, 4096, VR_GG_KERNEL_MMA },
        { 70, VR_F16, VR_F16, 128, 128, 2, 1, 4096, VR_GG_KERNEL_VEC },
        { 61, VR_F16, VR_F16, 128, 128, 4, 512, 4096, VR_GG_KERNEL_TILE },
        { 61, VR_Q4_0, VR_Q4_0, 128, 128, 4, 2, 4096, VR_GG_KERNEL_VEC },
        { 61, VR_F16, VR_F16, 128, 128, 1, 1, 4096, VR_GG_KERNEL_VEC },
        { 61, VR_F16, VR_F16, 128, 128, 4, 1, 4096, VR_GG_KERNEL_TILE },
        { 89, VR_Q8_0, VR_F16, 128, 128, 4, 512, 4096, VR_GG_KERNEL_NONE }, /* two types */
        { 89, VR_Q5_0, VR_Q5_0, 128, 128, 4, 512, 4096, VR_GG_KERNEL_NONE },
        { 89, VR_BF16, VR_BF16, 128, 128, 4, 512, 4096, VR_GG_KERNEL_MMA },
        { 89, VR_F16, VR_F16, 100, 100, 4, 512, 4096, VR_GG_KERNEL_NONE },
        { 89, VR_F16, VR_F16, 128, 64, 4, 512, 4096, VR_GG_KERNEL_NONE },
        { 89, VR_F16, VR_F16, 192, 128, 8, 512, 4096, VR_GG_KERNEL_MMA },
        { 89, VR_F16, VR_F16, 192, 128, 4, 512, 4096, VR_GG_KERNEL_NONE },
        { 89, VR_F16, VR_F16, 576, 512, 16, 512, 4096, VR_GG_KERNEL_MMA },
        { 89, VR_F16, VR_F16, 576, 512, 1, 512, 4096, VR_GG_KERNEL_NONE },
        { 89, VR_F16, VR_F16, 512, 512, 2, 512, 4096, VR_GG_KERNEL_MMA },
        { 89, VR_F16, VR_F16, 512, 512, 2, 512, 4095, VR_GG_KERNEL_NONE },
        { 0, VR_F16, VR_F16, 128, 128, 4, 1, 4096,
          VR_GG_KERNEL_VEC }, /* a card of no known generation: as those of the recorded runs, Ada */
    };
    bench *b = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        machine_of(b, 1);
        b->m.cc = rows[i].cc;
        vr_gg_tensor *t = attention(b, rows[i].k, rows[i].v, rows[i].head, rows[i].v_head, 2, rows[i].group,
                                    rows[i].tokens, rows[i].cells);
        if (vr_gg_attention_kernel(&b->m, t) != rows[i].kernel)
            fail_msg("row %zu", i);
        assert_int_equal(b->m.backends[0].runs(&b->m, 0, t), rows[i].kernel != VR_GG_KERNEL_NONE);
    }
}

static void all_types(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    b->m.past.cache_types_mix = true;
    vr_gg_tensor *t = attention(b, VR_Q8_0, VR_Q5_1, 128, 128, 2, 4, 512, 4096);
    assert_int_equal(vr_gg_attention_kernel(&b->m, t), VR_GG_KERNEL_MMA);
    assert_null(b->g.broken);
    /* slopes: a group is not computed at once, so one query takes the kernel for few */
    b->m.cc = 86;
    t = attention(b, VR_F16, VR_F16, 128, 128, 2, 4, 1, 4096);
    assert_int_equal(vr_gg_attention_kernel(&b->m, t), VR_GG_KERNEL_MMA);
    vr_gg_flash_attn_ext_set_bias(t);
    assert_int_equal(vr_gg_attention_kernel(&b->m, t), VR_GG_KERNEL_VEC);
}

/* Behind the result, 512 * 4 * 8 * 10 = 163840 bytes, keys and values as F16: 512 * 256 * 2 elements each; of
 * 576 keys are also the values. */
static void room_for_f16(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    vr_gg_tensor *t = attention(b, VR_Q8_0, VR_Q8_0, 512, 512, 2, 4, 10, 256);
    assert_int_equal(vr_gg_nbytes(t), 163840);
    assert_int_equal(vr_gg_compute_size(&b->m, b->card[0], t), 163840 + 2 * 524288);
    assert_int_equal(vr_gg_compute_size(&b->m, b->pinned, t), 163840);
    b->m.past.f16_in_pool = true;
    assert_int_equal(vr_gg_compute_size(&b->m, b->card[0], t), 163840);
    b->m.past.f16_in_pool = false;
    t = attention(b, VR_F16, VR_F16, 512, 512, 2, 4, 10, 256);
    assert_int_equal(vr_gg_compute_size(&b->m, b->card[0], t), 163840);
    t = attention(b, VR_Q8_0, VR_Q8_0, 128, 128, 2, 4, 1, 256); /* the kernel for few reads Q8_0 */
    assert_int_equal(vr_gg_compute_size(&b->m, b->card[0], t), 4096);
    vr_gg *g = &b->g;
    vr_gg_tensor *k = vr_gg_new_3d(g, VR_Q8_0, 576, 256, 1);
    vr_gg_tensor *v = vr_gg_view_3d(g, k, 512, 256, 1, k->nb[1], k->nb[2], 0);
    t = vr_gg_flash_attn_ext(g, vr_gg_new_3d(g, VR_F32, 576, 10, 16), k, v, vr_gg_new_2d(g, VR_F16, 256, 10));
    /* 512 * 16 * 10 floats, 576 * 256 halves */
    assert_int_equal(vr_gg_compute_size(&b->m, b->card[0], t), 327680 + 294912);
    assert_null(g->broken);
}

/* An element-wise result takes the attention's place and gives back the F16 behind it: x and the mask, 2048
 * each, q 4096 to 6144, the attention with 2048 + 2 * 32768 to 73728. The product of 32768 bytes then begins
 * at 8192. */
static void room_is_given_back(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    vr_gg *g = &b->g;
    vr_gg_tensor *w = weight(b, VR_F32, 64, 64, b->card[0]), *up = weight(b, VR_F32, 64, 1024, b->card[0]);
    vr_gg_tensor *q = vr_gg_reshape_3d(g, vr_gg_mul_mat(g, w, input(b, 64, 8)), 64, 4, 2);
    const uint64_t kv[] = { 64, 256, 1, 1 };
    vr_gg_tensor *k = vr_gg_placed(g, "k", VR_Q8_0, kv, b->card[0], false);
    vr_gg_tensor *v = vr_gg_placed(g, "v", VR_Q8_0, kv, b->card[0], false);
    vr_gg_tensor *a = vr_gg_flash_attn_ext(g, q, k, v, vr_gg_input(g, "mask", VR_F16, 256, 4, 1, 1));
    reserve(b, vr_gg_mul_mat(g, up, vr_gg_sqr(g, a)));
    assert_int_equal(b->r.n_splits, 1);
    assert_int_equal(b->r.bytes[0], 73728);
    assert_int_equal(b->r.bytes[1], 4096);
}

/* ---- sizes ---- */

/* Ten rows of 96 elements of Q4_0 are 540 bytes; to a multiple of 512 lack 416 elements, 13 blocks of 18
 * bytes, once. */
static void row_padding(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    vr_gg_tensor *t = vr_gg_new_2d(&b->g, VR_Q4_0, 96, 10);
    assert_int_equal(vr_gg_alloc_size(&b->m.bufts[b->card[0]], t), 540 + 234);
    assert_int_equal(vr_gg_alloc_size(&b->m.bufts[b->pinned], t), 540);
    t = vr_gg_new_2d(&b->g, VR_F32, 96, 10);
    assert_int_equal(vr_gg_alloc_size(&b->m.bufts[b->card[0]], t), 3840);
    t = vr_gg_new_2d(&b->g, VR_Q4_0, 1024, 10);
    assert_int_equal(vr_gg_alloc_size(&b->m.bufts[b->card[0]], t), 5760);
}

/* ---- operations ---- */

static bool runs(const bench *b, const vr_gg_tensor *t)
{
    return b->m.backends[0].runs(&b->m, 0, t);
}

static void operations(void **state)
{
    bench *b = *state;
    machine_of(b, 2);
    vr_gg *g = &b->g;
    vr_gg_tensor *x = vr_gg_new_2d(g, VR_F32, 256, 8), *ids = vr_gg_new_1d(g, VR_I32, 8);
    assert_true(runs(b, vr_gg_mul_mat(g, vr_gg_new_2d(g, VR_IQ4_XS, 256, 8), x)));
    assert_false(runs(b, vr_gg_mul_mat(g, vr_gg_new_2d(g, VR_TQ1_0, 256, 8), x)));
    assert_false(runs(b, vr_gg_mul_mat(g, vr_gg_new_2d(g, VR_Q4_0, 256, 8), vr_gg_cast(g, x, VR_F16))));
    assert_true(runs(b, vr_gg_get_rows(g, vr_gg_new_2d(g, VR_MXFP4, 512, 8), ids)));
    assert_false(runs(b, vr_gg_get_rows(g, vr_gg_new_2d(g, VR_MXFP4, 288, 8), ids)));
    assert_true(runs(b, vr_gg_set_rows(g, vr_gg_new_2d(g, VR_IQ4_NL, 256, 64), x, ids)));
    assert_false(runs(b, vr_gg_set_rows(g, vr_gg_new_2d(g, VR_Q6_K, 256, 64), x, ids)));
    assert_true(runs(b, vr_gg_cast(g, x, VR_BF16)));
    assert_true(runs(b, vr_gg_cast(g, x, VR_Q5_1)));
    assert_false(runs(b, vr_gg_cast(g, x, VR_Q4_K)));
    assert_false(runs(b, vr_gg_cast(g, vr_gg_new_2d(g, VR_IQ4_NL, 256, 8), VR_F32)));
    assert_true(runs(b, vr_gg_cast(g, ids, VR_F32)));
    assert_true(
        runs(b, vr_gg_concat(g, vr_gg_new_2d(g, VR_Q8_0, 64, 8), vr_gg_new_2d(g, VR_Q8_0, 64, 8), 1)));
    assert_false(runs(b, vr_gg_add(g, vr_gg_new_1d(g, VR_BF16, 8), vr_gg_new_1d(g, VR_F32, 8))));
    assert_false(runs(b, vr_gg_repeat_4d(g, ids, 8, 2, 1, 1)));
    /* a silu wants its operand packed, a norm but its rows */
    vr_gg_tensor *v = vr_gg_view_2d(g, x, 128, 8, 1024, 0);
    assert_false(runs(b, vr_gg_unary_of(g, v, VR_GG_SILU)));
    assert_true(runs(b, vr_gg_rms_norm(g, v)));
    assert_null(g->broken);
}

/* A card does not touch what lies on another. */
static void other_cards(void **state)
{
    bench *b = *state;
    machine_of(b, 2);
    vr_gg_tensor *x = input(b, 64, 2);
    assert_true(runs(b, vr_gg_mul_mat(&b->g, weight(b, VR_F32, 64, 64, b->card[0]), x)));
    assert_false(runs(b, vr_gg_mul_mat(&b->g, weight(b, VR_F32, 64, 64, b->card[1]), x)));
    assert_true(runs(b, vr_gg_mul_mat(&b->g, weight(b, VR_F32, 64, 64, b->pinned), x)));
    assert_true(b->m.backends[0].reads(&b->m, 0, b->card[0]));
    assert_false(b->m.backends[0].reads(&b->m, 0, b->card[1]));
    assert_false(b->m.backends[0].reads(&b->m, 0, b->pinned));
    assert_true(b->m.backends[2].reads(&b->m, 2, b->pageable));
    assert_false(b->m.backends[2].reads(&b->m, 2, b->card[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels),     TEST(all_types),  TEST(room_for_f16), TEST(room_is_given_back),
        TEST(row_padding), TEST(operations), TEST(other_cards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
