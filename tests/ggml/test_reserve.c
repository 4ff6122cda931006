/* SPDX-License-Identifier: MIT
 * Compute buffers worked out by hand: what takes whose memory, what keeps what, what is copied where. A float
 * is 4 bytes; the host rounds to 32, a card to 128. */
#include "support.h"

/* ---- one back end ---- */

/* A square takes its operand's memory, even an input's, when nobody else reads it. */
static void in_place(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *x = input(b, 256, 1); /* 1024 bytes */
    reserve(b, vr_gg_sqr(&b->g, vr_gg_sqr(&b->g, x)));
    assert_int_equal(b->r.bytes[0], 1024);
    assert_int_equal(b->r.n_splits, 1);
}

/* x * x reads x twice, x + 1 * x once more: nobody may write over it. */
static void read_twice(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *x = input(b, 256, 1);
    reserve(b, vr_gg_mul(&b->g, x, x));
    assert_int_equal(b->r.bytes[0], 2048);
}

/* An output is neither taken over nor given back. */
static void outputs(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *y = vr_gg_sqr(&b->g, input(b, 256, 1)); /* in the input's memory */
    vr_gg_set_output(y);
    vr_gg_tensor *z = vr_gg_norm(&b->g, vr_gg_sqr(&b->g, y)); /* 1024 to 2048, 2048 to 3072 */
    reserve(b, vr_gg_norm(&b->g, z));                         /* in the hole of 1024 to 2048 */
    assert_int_equal(b->r.bytes[0], 3072);
}

/* A view gives its memory to nobody, and another shape is another layout: x 0, a 1024; the repeated bias, 128
 * bytes, lies in x's place, and the sum, for which 896 bytes there are too few, behind a. */
static void other_layouts(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *a = vr_gg_norm(&b->g, input(b, 16, 16)), *bias = weight(b, VR_F32, 16, 1, b->pageable);
    reserve(b,
            vr_gg_add(&b->g, vr_gg_reshape_2d(&b->g, a, 32, 8), vr_gg_repeat_4d(&b->g, bias, 32, 1, 1, 1)));
    assert_int_equal(b->r.bytes[0], 3072);
}

/* mul_mat(w, x): x 0 to 4096, y 4096 to 12288. norm(y): 8192 bytes fit in no hole (x's has 4096): 12288 to
 * 20480. Then y is free too, and 256 bytes begin at 0. */
static void holes(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *w = weight(b, VR_F32, 256, 512, b->pageable), *w2 = weight(b, VR_F32, 512, 16, b->pageable);
    vr_gg_tensor *y = vr_gg_mul_mat(&b->g, w, input(b, 256, 4));
    reserve(b, vr_gg_mul_mat(&b->g, w2, vr_gg_norm(&b->g, y)));
    assert_int_equal(b->r.bytes[0], 20480);
}

/* a is only read through a view, which comes last: x 0, a 1024, c 2048, and the 384 floats of both behind,
 * for the hole of x has but 1024 bytes. Were a given back when the view was made, c would lie there and all
 * end at 3584. */
static void views_keep(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *x = input(b, 256, 1), *a = vr_gg_norm(&b->g, x);
    vr_gg_tensor *v = vr_gg_view_1d(&b->g, a, 128, 0);
    vr_gg_build_forward_expand(&b->g, v);
    reserve(b, vr_gg_concat(&b->g, vr_gg_norm(&b->g, x), v, 0));
    assert_int_equal(b->r.bytes[0], 3072 + 1536);
}

/* What goes into a cache takes nothing; the cast row before it does. */
static void into_a_cache(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *kv = cache(b, VR_F16, 64, 256, b->pageable);
    vr_gg_tensor *ids = vr_gg_input(&b->g, "ids", VR_I64, 4, 1, 1, 1); /* 32 bytes */
    reserve(b, vr_gg_set_rows(&b->g, kv, input(b, 64, 4), ids));       /* 1024 bytes */
    assert_int_equal(b->r.bytes[0], 1056);
    assert_int_equal(b->r.n_nodes, 1);
}

/* ---- several ---- */

/* w1 on the first card, w2 on the second: x is copied to one, y to the other. */
static vr_gg_tensor *two_cards(bench *b)
{
    machine_of(b, 2);
    vr_gg_tensor *w1 = weight(b, VR_F32, 64, 128, b->card[0]), *w2 = weight(b, VR_F32, 128, 32, b->card[1]);
    vr_gg_tensor *y = vr_gg_mul_mat(&b->g, w1, input(b, 64, 4)); /* x 1024 bytes, y 2048 */
    return vr_gg_mul_mat(&b->g, w2, y);                          /* 512 */
}

static void copies(void **state)
{
    bench *b = *state;
    reserve(b, two_cards(b));
    assert_int_equal(b->r.n_splits, 2);
    assert_int_equal(b->r.bytes[2], 1024);
    assert_int_equal(b->r.bytes[0], 1024 + 2048);
    assert_int_equal(b->r.bytes[1], 2048 + 512);
}

/* With a pipeline there are four of each that is copied, and of each input. */
static void pipeline(void **state)
{
    bench *b = *state;
    vr_gg_tensor *z = two_cards(b);
    b->m.copies = 4;
    reserve(b, z);
    assert_int_equal(b->r.bytes[2], 4 * 1024);
    assert_int_equal(b->r.bytes[0], 4 * 1024 + 2048);
    assert_int_equal(b->r.bytes[1], 4 * 2048 + 512);
    assert_int_equal(b->g.leafs[2]->flags, VR_GG_INPUT); /* no output outside of the reserve */
}

/* A reserved graph is as before, so that it can be reserved again. */
static void again(void **state)
{
    bench *b = *state;
    vr_gg_tensor *z = two_cards(b), *y = z->src[1];
    reserve(b, z);
    assert_ptr_equal(z->src[1], y);
    vr_gg_reserved first = b->r;
    reserve(b, z);
    assert_memory_equal(&first, &b->r, sizeof(first));
    vr_gg_reset(&b->g);
    reserve(b, two_cards(b));
    assert_memory_equal(&first, &b->r, sizeof(first));
}

/* Weights in pinned memory: from 32 tokens on a card fetches them. */
static void offload(void **state)
{
    static const struct {
        uint64_t tokens;
        bool wanted, pinned;
        uint64_t card, host;
    } rows[] = {
        /* w 32768, x 8192, y 16384 on the card */
        { 32, true, true, 32768 + 8192 + 16384, 8192 },
        { 32, true, false, 32768 + 8192 + 16384, 8192 }, /* pageable is the host's too */
        { 31, true, true, 0, 7936 + 15872 },
        { 32, false, true, 0, 8192 + 16384 },
    };
    bench *b = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_gg_reset(&b->g);
        machine_of(b, 1);
        b->m.op_offload = rows[i].wanted;
        vr_gg_tensor *w = weight(b, VR_F32, 64, 128, rows[i].pinned ? b->pinned : b->pageable);
        reserve(b, vr_gg_mul_mat(&b->g, w, input(b, 64, rows[i].tokens)));
        assert_int_equal(b->r.bytes[0], rows[i].card);
        assert_int_equal(b->r.bytes[1], rows[i].host);
    }
}

/* Each weight that is fetched begins a split, so that the memory of the one before is used again: w1 0 to
 * 16384, x behind it to 24576, y to 32768; w2 takes w1's place, z x's. */
static void fetched_one_by_one(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    vr_gg_tensor *w1 = weight(b, VR_F32, 64, 64, b->pinned), *w2 = weight(b, VR_F32, 64, 64, b->pinned);
    reserve(b, vr_gg_mul_mat(&b->g, w2, vr_gg_mul_mat(&b->g, w1, input(b, 64, 32))));
    assert_int_equal(b->r.n_splits, 2);
    assert_int_equal(b->r.bytes[0], 32768);
}

/* A node that is pinned to a card runs there; llama-fit-params forgets that. */
static void pins(void **state)
{
    bench *b = *state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        vr_gg_reset(&b->g);
        machine_of(b, 2);
        b->m.measured = forgotten != 0;
        vr_gg_tensor *y = vr_gg_mul_mat(&b->g, weight(b, VR_F32, 64, 64, b->card[0]), input(b, 64, 1));
        vr_gg_tensor *n = vr_gg_norm(&b->g, y);
        n->backend = 1;
        reserve(b, n);
        assert_int_equal(b->r.n_splits, forgotten ? 1 : 2);
        assert_int_equal(b->r.bytes[1], forgotten ? 0 : 256 + 256);
        assert_int_equal(n->backend, forgotten ? 0 : 1); /* where it ran */
    }
}

/* Attention with sinks on the host: older builds left all of it to the CPU; later ones fetch them, which
 * begins a split. */
static void sinks(void **state)
{
    bench *b = *state;
    vr_gg *g = &b->g;
    for (int older = 0; older < 2; older++) {
        vr_gg_reset(g);
        machine_of(b, 1);
        b->m.past.sinks_decide = older != 0;
        vr_gg_tensor *w = weight(b, VR_F32, 64, 128, b->card[0]);
        vr_gg_tensor *q = vr_gg_reshape_3d(g, vr_gg_mul_mat(g, w, input(b, 64, 4)), 64, 4, 2);
        vr_gg_tensor *k =
            vr_gg_placed(g, "k", VR_F16, (const uint64_t[]){ 64, 256, 1, 1 }, b->card[0], false);
        vr_gg_tensor *a = vr_gg_flash_attn_ext(g, q, k, k, vr_gg_input(g, "mask", VR_F16, 256, 4, 1, 1));
        vr_gg_flash_attn_ext_add_sinks(a, weight(b, VR_F32, 2, 1, b->pinned));
        reserve(b, a);
        assert_int_equal(a->backend, older);
        assert_int_equal(b->r.n_splits, 2);
    }
}

/* Two tokens' worth of 40 weights on the host, added up on the card: each is fetched. In builds with a limit
 * a split that is full ends; without, too, at the first 30. */
static void many_inputs(void **state)
{
    static const struct {
        unsigned limit;
        size_t splits;
    } rows[] = { { 0, 2 }, { 30, 2 }, { 10, 4 } };
    bench *b = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_gg_reset(&b->g);
        machine_of(b, 1);
        b->m.past.split_inputs = rows[i].limit;
        vr_gg_tensor *w = weight(b, VR_F32, 64, 64, b->card[0]);
        vr_gg_tensor *t = vr_gg_mul_mat(&b->g, w, input(b, 64, 2)); /* the first input of 40 */
        for (int k = 1; k < 40; k++)
            t = vr_gg_add(&b->g, t, input(b, 64, 2));
        reserve(b, t);
        assert_int_equal(b->r.n_splits, rows[i].splits);
    }
}

/* A node of two new inputs in a split of 9: the older builds stop there. */
static void one_input_too_many(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    b->m.past.split_inputs = 10;
    vr_gg_tensor *t = vr_gg_mul_mat(&b->g, weight(b, VR_F32, 64, 64, b->card[0]), input(b, 64, 2));
    for (int k = 1; k < 9; k++)
        t = vr_gg_add(&b->g, t, input(b, 64, 2));
    vr_gg_build_forward_expand(&b->g,
                               vr_gg_add(&b->g, t, vr_gg_mul(&b->g, input(b, 64, 2), input(b, 64, 2))));
    assert_int_equal(vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch), VRAM_EUNSUPPORTED);
    b->m.past.split_inputs = 0;
    assert_int_equal(vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch), VRAM_OK);
}

static void filled(void **state)
{
    bench *b = *state;
    machine_of(b, 0);
    vr_gg_tensor *t = vr_gg_fill(&b->g, input(b, 256, 1));
    reserve(b, t);
    assert_int_equal(b->r.bytes[0], 1024);
    b->m.past.fill_apart = true;
    reserve(b, t);
    assert_int_equal(b->r.bytes[0], 2048);
}

/* What no card can compute is left to the CPU, with copies there and back. */
static void unsupported_node(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    vr_gg_tensor *w = weight(b, VR_F32, 100, 100, b->card[0]);
    vr_gg_tensor *x = vr_gg_mul_mat(&b->g, w, input(b, 100, 7)); /* 2800 bytes, on the card 2816 */
    vr_gg_tensor *c = vr_gg_new_2d(&b->g, VR_F32, 4, 100);
    c->buft = b->card[0];
    c->weight = true;
    /* a convolution over 100 channels: cards want a multiple of 128 */
    vr_gg_tensor *y = vr_gg_ssm_conv(&b->g, vr_gg_cont(&b->g, vr_gg_transpose(&b->g, x)), c);
    reserve(b, vr_gg_mul_mat(&b->g, w, y));
    assert_int_equal(b->r.n_splits, 3);
}

static void lost(void **state)
{
    bench *b = *state;
    machine_of(b, 1);
    vr_gg_tensor *kv = cache(b, VR_Q4_K, 256, 256, b->card[0]); /* no card writes Q4_K */
    vr_gg_tensor *ids = vr_gg_input(&b->g, "ids", VR_I64, 4, 1, 1, 1);
    vr_gg_build_forward_expand(&b->g, vr_gg_set_rows(&b->g, kv, input(b, 256, 4), ids));
    assert_int_equal(vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch), VRAM_EUNSUPPORTED);
    assert_non_null(strstr(vram_last_error(b->ctx)->text, "can compute it"));
}

static void too_many_cards(void **state)
{
    bench *b = *state;
    memset(&b->m, 0, sizeof(b->m));
    uint8_t card = 0;
    for (unsigned i = 0; i < 2 * VR_GG_MAX_BACKENDS; i++)
        vr_gg_add_cuda(&b->m, "CUDA", &card);
    assert_int_equal(card, VR_GG_NOWHERE); /* the last one had no room */
    vr_gg_add_cpu(&b->m, &b->pinned, &b->pageable);
    vr_gg_build_forward_expand(&b->g, vr_gg_sqr(&b->g, input(b, 8, 1)));
    assert_int_equal(vr_gg_reserve(&b->r, &b->g, &b->m, &b->scratch), VRAM_EUNSUPPORTED);
}

/* ---- memory ---- */

static vram_status whole_run(vram_ctx *ctx)
{
    bench b = { .ctx = ctx };
    vr_arena_init(&b.arena, ctx);
    vr_arena_init(&b.scratch, ctx);
    vr_gg_init(&b.g, &b.arena);
    vr_gg_tensor *z = two_cards(&b);
    for (unsigned i = 0; i < 2000; i++)
        z = vr_gg_norm(&b.g, z);
    vr_gg_build_forward_expand(&b.g, z);
    b.m.copies = 4;
    vram_status status = vr_gg_reserve(&b.r, &b.g, &b.m, &b.scratch);
    vr_arena_free(&b.arena);
    vr_arena_free(&b.scratch);
    return status;
}

static void no_memory(void **state)
{
    (void)state;
    assert_true(fail_every_allocation(whole_run, false) > 10);
    assert_true(fail_every_allocation(whole_run, true) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(in_place),
        TEST(read_twice),
        TEST(outputs),
        TEST(other_layouts),
        TEST(holes),
        TEST(views_keep),
        TEST(into_a_cache),
        TEST(copies),
        TEST(pipeline),
        TEST(again),
        TEST(offload),
        TEST(fetched_one_by_one),
        TEST(pins),
        TEST(unsupported_node),
        TEST(lost),
        TEST(too_many_cards),
        TEST(sinks),
        TEST(many_inputs),
        TEST(one_input_too_many),
        TEST(filled),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
