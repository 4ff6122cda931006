/* SPDX-License-Identifier: MIT
 * A small model for tests: llama, some layers of width 64, 4 heads of 16 of which 2 are for keys and values,
 * feed-forward 128, 256 tokens in the vocabulary, all in F32, no head of its own. */
#ifndef VR_TEST_SMALL_MODEL_H
#define VR_TEST_SMALL_MODEL_H

#include "../checkpoint/gguf_made.h"
#include "../checkpoint/source.h"
#include "llama/llama.h"

typedef struct small {
    world *w;
    vram_model *m;
    const vr_lm *lm;
} small;

static inline void small_tensor(gguf *g, uint64_t *at, const char *name, uint64_t ne0, uint64_t ne1)
{
    g_tensor(g, name, 0, ne0, ne1, *at);
    *at += (4 * ne0 * (ne1 != 0 ? ne1 : 1) + 31) / 32 * 32;
}

static inline void small_layer(gguf *g, uint64_t *at, uint32_t il)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } rows[] = { { "attn_norm", 64, 0 },  { "attn_q", 64, 64 },      { "attn_k", 64, 32 },
                 { "attn_v", 64, 32 },    { "attn_output", 64, 64 }, { "ffn_norm", 64, 0 },
                 { "ffn_gate", 64, 128 }, { "ffn_up", 64, 128 },     { "ffn_down", 128, 64 } };
    char name[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", (unsigned)il, rows[i].name);
        small_tensor(g, at, name, rows[i].ne0, rows[i].ne1);
    }
}

static inline small small_model(uint32_t layers, uint32_t trained)
{
    small s = { new_world(), NULL, NULL };
    const char *why = NULL;
    gguf g = { .version = 3 };
    uint64_t at = 0;
    g_start(&g);
    g_key_text(&g, "general.architecture", "llama");
    g_key_u32(&g, "llama.block_count", layers);
    g_key_u32(&g, "llama.embedding_length", 64);
    g_key_u32(&g, "llama.context_length", trained);
    g_key_u32(&g, "llama.feed_forward_length", 128);
    g_key_u32(&g, "llama.attention.head_count", 4);
    g_key_u32(&g, "llama.attention.head_count_kv", 2);
    small_tensor(&g, &at, "token_embd.weight", 64, 256);
    small_tensor(&g, &at, "output_norm.weight", 64, 0);
    for (uint32_t il = 0; il < layers; il++)
        small_layer(&g, &at, il);
    (void)g_end(&g, 32, 0);
    add_bytes(s.w, "model.gguf", g.bytes, g.n, g.n + (size_t)at);
    expect_ok(s.w, read_world(s.w, FEED_MOST));
    assert_int_equal(vram_model_new(&s.m, s.w->ck), VRAM_OK);
    assert_int_equal(vr_lm_of(&s.lm, &why, s.m, &s.w->ctx->arena), VRAM_OK);
    assert_non_null(s.lm);
    return s;
}

#endif
