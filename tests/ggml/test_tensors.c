/* SPDX-License-Identifier: MIT
 * Shapes, strides, sizes, what ggml refuses, and the order of a graph. */
#include "support.h"

#include "../support/ggml_dump.h"

static void is_shape(const vr_gg_tensor *t, vr_dtype type, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                     uint64_t ne3)
{
    assert_int_equal(t->type, type);
    assert_int_equal(t->ne[0], ne0);
    assert_int_equal(t->ne[1], ne1);
    assert_int_equal(t->ne[2], ne2);
    assert_int_equal(t->ne[3], ne3);
}

static void sizes_of_blocks(void **state)
{
    bench *b = *state;
    /* Q4_0: 32 elements are 18 bytes; a row of 96 is 54, ten of them 540 */
    vr_gg_tensor *t = vr_gg_new_2d(&b->g, VR_Q4_0, 96, 10);
    assert_int_equal(vr_gg_row_size(VR_Q4_0, 96), 54);
    assert_int_equal(t->nb[0], 18);
    assert_int_equal(t->nb[1], 54);
    assert_int_equal(t->nb[2], 540);
    assert_int_equal(vr_gg_nbytes(t), 540);
    assert_int_equal(vr_gg_nelements(t), 960);
    assert_int_equal(vr_gg_row_size(VR_Q4_0, 95), UINT64_MAX);
    /* with gaps: 3 rows of 4 floats, 32 bytes apart: 2 * 32 + 16 */
    vr_gg_tensor *x = vr_gg_new_2d(&b->g, VR_F32, 8, 3);
    vr_gg_tensor *v = vr_gg_view_2d(&b->g, x, 4, 3, 32, 0);
    assert_int_equal(vr_gg_nbytes(v), 80);
    assert_false(vr_gg_is_contiguous(v));
    assert_true(vr_gg_contiguous_rows(v));
    assert_int_equal(vr_gg_nbytes(vr_gg_new_2d(&b->g, VR_F32, 0, 7)), 0);
    assert_null(b->g.broken);
}

static void views(void **state)
{
    bench *b = *state;
    vr_gg_tensor *x = vr_gg_new_3d(&b->g, VR_F32, 8, 4, 2);
    /* a view of a view is one of the first tensor, its offset from there */
    vr_gg_tensor *v = vr_gg_view_2d(&b->g, x, 8, 2, 32, 128);
    vr_gg_tensor *w = vr_gg_view_1d(&b->g, v, 8, 32);
    assert_ptr_equal(w->view_src, x);
    assert_ptr_equal(w->src[0], v);
    assert_int_equal(w->view_offset, 160);
    /* axis 0 becomes axis 1, 1 becomes 2, 2 becomes 0 */
    vr_gg_tensor *p = vr_gg_permute(&b->g, x, 1, 2, 0, 3);
    is_shape(p, VR_F32, 2, 8, 4, 1);
    assert_int_equal(p->nb[0], 128);
    assert_int_equal(p->nb[1], 4);
    assert_int_equal(p->nb[2], 32);
    is_shape(vr_gg_transpose(&b->g, x), VR_F32, 4, 8, 2, 1);
    is_shape(vr_gg_cont_2d(&b->g, p, 16, 4), VR_F32, 16, 4, 1, 1);
    assert_null(b->g.broken);
    vr_gg_reshape_2d(&b->g, p, 16, 4);
    assert_string_equal(b->g.broken, "reshape: not contiguous");
}

/* ggml_permute takes strides through an int: 2^31 becomes -2^31. */
static void far_strides(void **state)
{
    bench *b = *state;
    vr_gg_tensor *x = vr_gg_new_4d(&b->g, VR_F32, 1u << 16, 1u << 13, 2, 1);
    vr_gg_tensor *p = vr_gg_permute(&b->g, x, 0, 2, 1, 3);
    assert_true(x->nb[2] == (uint64_t)1 << 31);
    assert_true(p->nb[1] == UINT64_C(0xffffffff80000000));
    assert_int_equal(p->nb[0], 4);
}

static void results(void **state)
{
    vr_gg *g = &((bench *)*state)->g;
    vr_gg_tensor *w = vr_gg_new_2d(g, VR_Q4_0, 64, 128), *x = vr_gg_new_3d(g, VR_F32, 64, 5, 2);
    is_shape(vr_gg_mul_mat(g, w, x), VR_F32, 128, 5, 2, 1);
    vr_gg_tensor *ids = vr_gg_new_2d(g, VR_I32, 2, 5), *experts = vr_gg_new_3d(g, VR_Q4_0, 64, 96, 8);
    is_shape(vr_gg_mul_mat_id(g, experts, vr_gg_new_3d(g, VR_F32, 64, 1, 5), ids), VR_F32, 96, 2, 5, 1);
    is_shape(vr_gg_get_rows(g, w, vr_gg_new_1d(g, VR_I32, 7)), VR_F32, 64, 7, 1, 1);
    is_shape(vr_gg_glu_of(g, x, VR_GG_SWIGLU), VR_F32, 32, 5, 2, 1);
    is_shape(vr_gg_glu_split(g, x, x, VR_GG_SWIGLU), VR_F32, 64, 5, 2, 1);
    is_shape(vr_gg_concat(g, x, x, 1), VR_F32, 64, 10, 2, 1);
    is_shape(vr_gg_argsort_top_k(g, x, 3), VR_I32, 3, 5, 2, 1);
    is_shape(vr_gg_sum_rows(g, x), VR_F32, 1, 5, 2, 1);
    is_shape(vr_gg_pad(g, x, 1, 2, 3, 0), VR_F32, 65, 7, 5, 1);
    /* heads come before tokens */
    vr_gg_tensor *q = vr_gg_new_3d(g, VR_F32, 64, 5, 8), *k = vr_gg_new_3d(g, VR_F16, 64, 256, 2);
    vr_gg_tensor *mask = vr_gg_new_2d(g, VR_F16, 256, 5);
    is_shape(vr_gg_flash_attn_ext(g, q, k, k, mask), VR_F32, 64, 8, 5, 1);
    /* windows of 4 x 1 side by side over 10 x 5: 2 of them and 2 elements more */
    is_shape(vr_gg_pool_2d(g, vr_gg_new_2d(g, VR_F32, 10, 5), 4, 1, 4, 1), VR_F32, 2, 5, 1, 1);
    /* a kernel of 3 over 10 with a step of 2 and a border of 1: (10 + 2 - 3) / 2 + 1 = 5 places */
    vr_gg_tensor *kernel = vr_gg_new_3d(g, VR_F16, 3, 16, 32), *wave = vr_gg_new_2d(g, VR_F32, 10, 16);
    is_shape(vr_gg_im2col(g, kernel, wave, 2, 0, 1, 0, 1, 0, false, VR_F16), VR_F16, 48, 5, 1, 1);
    assert_null(g->broken);
}

static void states(void **state)
{
    vr_gg *g = &((bench *)*state)->g;
    /* Mamba: 2 sequences of 6 tokens, kernel 4: outputs and what the state is behind them */
    vr_gg_tensor *sx = vr_gg_new_3d(g, VR_F32, 9, 128, 2), *c = vr_gg_new_2d(g, VR_F32, 4, 128);
    is_shape(vr_gg_ssm_conv(g, sx, c), VR_F32, 128, 6, 2, 1);
    vr_gg_tensor *s = vr_gg_new_4d(g, VR_F32, 16, 1, 128, 2), *x = vr_gg_new_4d(g, VR_F32, 1, 128, 6, 2);
    vr_gg_tensor *dt = vr_gg_new_3d(g, VR_F32, 128, 6, 2), *a = vr_gg_new_2d(g, VR_F32, 16, 128);
    vr_gg_tensor *bc = vr_gg_new_4d(g, VR_F32, 16, 1, 6, 2), *ids = vr_gg_new_1d(g, VR_I32, 2);
    /* 128 * 6 * 2 outputs, 16 * 128 * 2 of the state */
    is_shape(vr_gg_ssm_scan(g, s, x, dt, a, bc, bc, ids), VR_F32, 5632, 1, 1, 1);
    /* RWKV: 4 heads of 32, 6 tokens, 2 sequences: 32 * 2 rows of state behind 6 of output */
    vr_gg_tensor *k = vr_gg_new_3d(g, VR_F32, 32, 4, 6), *st = vr_gg_new_2d(g, VR_F32, 4096, 2);
    vr_gg_tensor *tf = vr_gg_new_2d(g, VR_F32, 32, 4);
    is_shape(vr_gg_rwkv_wkv6(g, k, k, k, tf, k, st), VR_F32, 128, 70, 1, 1);
    is_shape(vr_gg_rwkv_wkv7(g, k, k, k, k, k, k, st), VR_F32, 128, 70, 1, 1);
    is_shape(vr_gg_gated_linear_attn(g, k, k, k, k, st), VR_F32, 128, 70, 1, 1);
    /* a delta net: the same with states of 32 x 32 a head, three of each sequence kept */
    vr_gg_tensor *v = vr_gg_new_4d(g, VR_F32, 32, 4, 6, 2), *gate = vr_gg_new_4d(g, VR_F32, 1, 4, 6, 2);
    vr_gg_tensor *kept = vr_gg_new_4d(g, VR_F32, 32, 32, 4, 2);
    is_shape(vr_gg_gated_delta_net(g, v, v, v, gate, gate, kept), VR_F32, 128, 76, 1, 1);
    is_shape(vr_gg_gated_delta_net_kept(g, v, v, v, gate, gate, kept, 3), VR_F32, 128, 204, 1, 1);
    assert_null(g->broken);
}

/* Four streams of 96 for 5 tokens: 4 * 4 + 2 * 4 mixes a token. */
static void streams(void **state)
{
    vr_gg *g = &((bench *)*state)->g;
    vr_gg_tensor *mixes = vr_gg_new_2d(g, VR_F32, 24, 5), *scale = vr_gg_new_1d(g, VR_F32, 3);
    vr_gg_tensor *comb = vr_gg_dsv4_hc_comb(g, mixes, scale, vr_gg_new_1d(g, VR_F32, 24));
    is_shape(comb, VR_F32, 4, 4, 5, 1);
    vr_gg_tensor *x = vr_gg_new_3d(g, VR_F32, 96, 4, 5), *post = vr_gg_new_2d(g, VR_F32, 4, 5);
    vr_gg_tensor *one = vr_gg_dsv4_hc_pre(g, x, post);
    is_shape(one, VR_F32, 96, 5, 1, 1);
    is_shape(vr_gg_dsv4_hc_post(g, one, x, post, comb), VR_F32, 96, 4, 5, 1);
    assert_null(g->broken);
    vr_gg_dsv4_hc_pre(g, x, vr_gg_new_2d(g, VR_F32, 4, 6));
    assert_string_equal(g->broken, "dsv4_hc_pre: weights");
}

/* ---- rules ---- */

static void refusals(void **state)
{
    bench *b = *state;
    vr_gg *g = &b->g;
    machine_of(b, 0);
    vr_gg_tensor *x = vr_gg_new_2d(g, VR_F32, 64, 4);
    vr_gg_tensor *t = vr_gg_mul_mat(g, vr_gg_new_2d(g, VR_F32, 63, 4), x);
    assert_string_equal(g->broken, "mul_mat: shapes differ");
    vr_gg_add(g, t, vr_gg_new_1d(g, VR_F32, 3)); /* goes on; the first one stays */
    assert_string_equal(g->broken, "mul_mat: shapes differ");
    vr_gg_build_forward_expand(g, t);
    assert_int_equal(g->n_nodes, 0);
    assert_int_equal(vr_gg_reserve(&b->r, g, &b->m, &b->scratch), VRAM_EUNSUPPORTED);
    assert_non_null(strstr(vram_last_error(b->ctx)->text, "mul_mat: shapes differ"));
    vr_gg_reset(g);
    vr_gg_mul(g, NULL, NULL);
    assert_string_equal(g->broken, "an operand is missing");
    vr_gg_reset(g);
    vr_gg_view_1d(g, vr_gg_new_1d(g, VR_F32, 8), 8, 4);
    assert_string_equal(g->broken, "view: beyond its source");
    vr_gg_reset(g);
    vr_gg_new_1d(g, VR_Q4_0, 33);
    assert_string_equal(g->broken, "new: rows of no whole blocks");
}

/* Sizes that no number holds are the largest, and reserving them is refused. */
static void endless(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *x = input(b, UINT64_MAX / 8, UINT64_MAX / 8);
    assert_true(vr_gg_nbytes(x) == UINT64_MAX);
    vr_gg_build_forward_expand(&b->g, vr_gg_sqr(&b->g, x));
    assert_int_equal(vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch), VRAM_EUNSUPPORTED);
}

static uint64_t dice;

static uint64_t roll(uint64_t sides)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (dice >> 33) % sides;
}

static vr_gg_tensor *any(const bench *b)
{
    if (roll(50) == 0)
        return NULL;
    return b->g.n_tensors == 0 ? NULL : b->g.tensors[roll(b->g.n_tensors)];
}

static uint64_t any_length(void)
{
    static const uint64_t odd[] = { 0, 1, 2, 3, 32, 64, 128, 256, 512, UINT64_MAX, UINT64_C(1) << 40 };
    return odd[roll(roll(20) == 0 ? COUNT(odd) : 9)];
}

static void any_call(bench *b)
{
    vr_gg *g = &b->g;
    vr_gg_tensor *x = any(b), *y = any(b), *z = any(b);
    vr_dtype t = roll(3) == 0 ? (vr_dtype)(1 + roll(VR_DTYPE_COUNT - 1)) : VR_F32;
    uint64_t n = any_length(), m = any_length();
    switch (roll(34)) {
    case 0:
        vr_gg_input(g, "x", t, n, m, any_length() & 7, 1);
        break;
    case 1:
        vr_gg_placed(g, "w", t, (const uint64_t[]){ n, m, 1, 1 }, (uint8_t)roll(b->m.n_bufts), roll(2) == 0);
        break;
    case 2:
        vr_gg_view_3d(g, x, n, m, 1, n * 4, m * 4, roll(100));
        break;
    case 3:
        vr_gg_reshape_3d(g, x, n, m, 1);
        break;
    case 4:
        vr_gg_permute(g, x, (int)roll(4), (int)roll(4), 2, 3);
        break;
    case 5:
        vr_gg_set_rows(g, x, y, z);
        break;
    case 6:
        vr_gg_mul_mat_id(g, x, y, z);
        break;
    case 7:
        vr_gg_flash_attn_ext(g, x, y, z, any(b));
        break;
    case 8:
        vr_gg_concat(g, x, y, (int)roll(5) - 1);
        break;
    case 9:
        vr_gg_ssm_scan(g, x, y, z, any(b), any(b), any(b), any(b));
        break;
    case 10:
        vr_gg_gated_delta_net(g, x, y, z, any(b), any(b), any(b));
        break;
    case 11:
        vr_gg_rwkv_wkv7(g, x, y, z, any(b), any(b), any(b), any(b));
        break;
    case 12:
        vr_gg_im2col(g, x, y, n, m, n, m, n, m, roll(2) == 0, t);
        break;
    case 13:
        vr_gg_argsort_top_k(g, x, n);
        break;
    case 14:
        vr_gg_cast(g, x, t);
        break;
    case 15:
        vr_gg_cpy(g, x, y);
        break;
    case 16:
        vr_gg_glu_split(g, x, y, VR_GG_SWIGLU);
        break;
    case 17:
        vr_gg_soft_max_ext(g, x, y, false);
        break;
    case 18:
        vr_gg_rope(g, x, y, NULL);
        break;
    case 19:
        vr_gg_lightning_indexer(g, x, y, z, any(b));
        break;
    case 20:
        vr_gg_ssm_conv(g, x, y);
        break;
    case 21:
        vr_gg_get_rows(g, x, y);
        break;
    case 22:
        vr_gg_solve_tri(g, x, y);
        break;
    case 23:
        vr_gg_repeat_4d(g, x, n, m, n, m);
        break;
    case 24:
        vr_gg_cont_4d(g, x, n, m, 1, 1);
        break;
    case 25:
        vr_gg_pad(g, x, n, m, 0, 0);
        break;
    case 26:
        vr_gg_add_inplace(g, x, y);
        break;
    case 27:
        vr_gg_transpose(g, x);
        break;
    case 28:
        vr_gg_unary_of(g, x, VR_GG_SILU);
        break;
    case 29:
        vr_gg_mul_mat(g, x, y);
        break;
    case 30:
        vr_gg_top_k(g, x, n);
        break;
    case 31:
        vr_gg_diag(g, x);
        break;
    default:
        vr_gg_add(g, x, y);
        break;
    }
}

/* Whatever is called on whatever, nothing breaks: a file decides shapes. */
static void hostile_calls(void **state)
{
    bench *b = *state;
    machine_of(b, 2);
    size_t sound = 0;
    for (unsigned round = 0; round < 3000; round++) {
        dice = round;
        vr_gg_reset(&b->g);
        for (uint64_t n = 2 + roll(12); n > 0; n--) {
            any_call(b);
            if (roll(2) == 0)
                b->g.broken = NULL; /* so that some go on to be reserved */
        }
        vr_gg_build_forward_expand(&b->g, any(b));
        vram_status status = vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch);
        assert_true(status == VRAM_OK || status == VRAM_EUNSUPPORTED);
        sound += status == VRAM_OK;
        vr_arena_reset(&b->scratch);
    }
    assert_true(sound > 100);
}

/* ---- order ---- */

static void order(void **state)
{
    bench *b = *state;
    vr_gg *g = &b->g;
    machine_of(b, 0);
    vr_gg_tensor *w = weight(b, VR_F32, 64, 64, b->pageable), *x = input(b, 64, 2);
    vr_gg_tensor *y = vr_gg_mul_mat(g, w, x), *late = input(b, 64, 2);
    vr_gg_tensor *v = vr_gg_view_1d(g, y, 64, 256), *k = vr_gg_cast(g, v, VR_F16);
    vr_gg_tensor *z = vr_gg_add(g, vr_gg_sqr(g, late), y);
    z->name = "z";
    vr_gg_build_forward_expand(g, k);
    vr_gg_build_forward_expand(g, z);
    vr_gg_build_forward_expand(g, k); /* is there already */
    assert_int_equal(vr_gg_reserve(&b->r, g, &b->m, &b->scratch), VRAM_OK);
    char text[2048] = { 0 };
    FILE *f = tmpfile();
    assert_non_null(f);
    dump_graph(f, g, &b->m);
    rewind(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    assert_true(n > 0);
    fclose(f);
    assert_string_equal(text, "leaf 0 w f32 [64,64,1,1] nb[4,256,16384,16384] - weight@CPU\n"
                              "leaf 1 x f32 [64,2,1,1] nb[4,256,512,512] I\n"
                              "leaf 2 x f32 [64,2,1,1] nb[4,256,512,512] I\n"
                              "node 0 MUL_MAT - f32 [64,2,1,1] nb[4,256,512,512] - src=l0,l1 be=CPU\n"
                              "node 1 VIEW - f32 [64,1,1,1] nb[4,256,256,256] - view=n0+256 src=n0 be=CPU\n"
                              "node 2 CPY - f16 [64,1,1,1] nb[2,128,128,128] - src=n1,n2 be=CPU\n"
                              "node 3 SQR - f32 [64,2,1,1] nb[4,256,512,512] - src=l2 be=CPU\n"
                              "node 4 ADD z f32 [64,2,1,1] nb[4,256,512,512] - src=n3,n0 be=CPU\n");
}

/* A chain as deep as a graph may be; the first node's input is the only memory. */
static void deep(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *t = input(b, 8, 1);
    for (unsigned i = 1; i < 300000; i++)
        t = vr_gg_sqr(&b->g, t);
    reserve(b, t);
    assert_int_equal(b->g.n_nodes, 299999);
    assert_int_equal(b->r.bytes[0], 32);
}

static void too_many(void **state)
{
    bench *b = *state;
    vr_gg_tensor *t = input(b, 8, 1);
    for (unsigned i = 0; i < VR_GG_MOST_TENSORS; i++)
        t = vr_gg_sqr(&b->g, t);
    assert_string_equal(b->g.broken, "more tensors than a graph may have");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sizes_of_blocks), TEST(views),         TEST(far_strides), TEST(results),
        TEST(states),          TEST(streams),       TEST(refusals),    TEST(endless),
        TEST(order),           TEST(hostile_calls), TEST(deep),        TEST(too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
