/* SPDX-License-Identifier: MIT
 * Files whose keys say something else than their tensors: llama.cpp loads none of them ("has wrong shape",
 * "wrong number of tensors", "key not found"), so no figure is told. */
#include <string.h>

#include "small.h"

typedef struct contradiction {
    const char *what; /* stands in the sentence */
    uint32_t layers, width, words, words_told;
    bool context;
    uint64_t norm, bias; /* lengths; bias 0: none */
} contradiction;

static opened made(const contradiction *c)
{
    gguf g = { .version = 3 };
    uint64_t at = 0;
    g_start(&g);
    g_key_text(&g, "general.architecture", "llama");
    g_key_u32(&g, "llama.block_count", c->layers);
    g_key_u32(&g, "llama.embedding_length", c->width);
    if (c->context)
        g_key_u32(&g, "llama.context_length", 4096);
    g_key_u32(&g, "llama.feed_forward_length", 128);
    g_key_u32(&g, "llama.attention.head_count", 4);
    g_key_u32(&g, "llama.attention.head_count_kv", 2);
    g_key_u32(&g, "llama.vocab_size", c->words_told);
    tensor(&g, &at, "token_embd.weight", 64, c->words);
    tensor(&g, &at, "output_norm.weight", c->norm, 0);
    if (c->bias != 0)
        tensor(&g, &at, "blk.1.attn_k.bias", c->bias, 0);
    add_layers(&g, &at, 4);
    return open_file(&g, (size_t)at);
}

static void expect_unknown(const opened *o, const char *what)
{
    const vr_lm_device device = { VR_GIB, 89 };
    vr_lm_params p = plain();
    vr_lm_sizes s;
    assert_non_null(o->lm->disagrees);
    assert_non_null(strstr(o->lm->disagrees, what));
    expect_ok(o->w, vr_lm_measure(&s, o->lm, &p, &device, 1, &o->w->ctx->arena));
    assert_true(s.unknown);
    assert_string_equal(s.why, o->lm->disagrees);
    assert_false(s.compute_known || s.context_known || s.device[0].model != 0);
}

static void test_contradictions(void **state)
{
    static const contradiction cases[] = {
        { "embedding_length", 4, 128, 256, 256, true, 64, 0 },
        { "vocab_size", 4, 64, 256, 300, true, 64, 0 },
        { "block_count", 3, 64, 256, 256, true, 64, 0 },
        { "block_count", 5, 64, 256, 256, true, 64, 0 },
        { "block_count", 513, 64, 256, 256, true, 64, 0 },
        { "context_length", 4, 64, 256, 256, false, 64, 0 },
        { "output_norm.weight", 4, 64, 256, 256, true, 32, 0 },
        { "attn_k.bias", 4, 64, 256, 256, true, 64, 64 },
        { "attn_k.bias", 4, 64, 256, 256, true, 64, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened o = made(&cases[i]);
        expect_unknown(&o, cases[i].what);
        end_world(o.w);
    }
}

static void test_agreement(void **state)
{
    const contradiction none = { NULL, 4, 64, 256, 256, true, 64, 32 };
    (void)state;
    opened o = made(&none);
    assert_null(o.lm->disagrees);
    end_world(o.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_agreement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
