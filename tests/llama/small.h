/* SPDX-License-Identifier: MIT
 * A model small enough to be worked out by hand.
 *
 * llama, 4 layers or some other number of width 64, 4 heads of 16 of which 2 are for keys and values,
 * feed-forward 128, 256 tokens in the vocabulary, all in F32, no head of its own. */
#ifndef VR_TEST_SMALL_H
#define VR_TEST_SMALL_H

#include "../checkpoint/gguf_made.h"
#include "../checkpoint/source.h"
#include "llama/place.h"

#define NAME "model.gguf"
#define F32 0

typedef struct opened {
    world *w;
    vram_model *m;
    const vr_lm *lm;
} opened;

static inline void tensor(gguf *g, uint64_t *at, const char *name, uint64_t ne0, uint64_t ne1)
{
    g_tensor(g, name, F32, ne0, ne1, *at);
    *at += (4 * ne0 * (ne1 != 0 ? ne1 : 1) + 31) / 32 * 32;
}

static inline void add_layers(gguf *g, uint64_t *at, uint32_t n)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1;
    } rows[] = { { "attn_norm", 64, 0 },  { "attn_q", 64, 64 },      { "attn_k", 64, 32 },
                 { "attn_v", 64, 32 },    { "attn_output", 64, 64 }, { "ffn_norm", 64, 0 },
                 { "ffn_gate", 64, 128 }, { "ffn_up", 64, 128 },     { "ffn_down", 128, 64 } };
    char name[64];
    for (uint32_t il = 0; il < n; il++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            snprintf(name, sizeof name, "blk.%u.%s.weight", (unsigned)il, rows[i].name);
            tensor(g, at, name, rows[i].ne0, rows[i].ne1);
        }
    }
}

static inline void add_keys(gguf *g, uint32_t layers, uint32_t heads, uint32_t trained)
{
    g_start(g);
    g_key_text(g, "general.architecture", "llama");
    g_key_u32(g, "llama.block_count", layers);
    g_key_u32(g, "llama.embedding_length", 64);
    g_key_u32(g, "llama.context_length", trained);
    g_key_u32(g, "llama.feed_forward_length", 128);
    g_key_u32(g, "llama.attention.head_count", heads);
    g_key_u32(g, "llama.attention.head_count_kv", 2);
}

static inline opened open_file(gguf *g, size_t data)
{
    opened o = { new_world(), NULL, NULL };
    const char *why = NULL;
    (void)g_end(g, 32, 0);
    add_bytes(o.w, NAME, g->bytes, g->n, g->n + data);
    expect_ok(o.w, read_world(o.w, FEED_MOST));
    assert_int_equal(vram_model_new(&o.m, o.w->ck), VRAM_OK);
    assert_int_equal(vr_lm_of(&o.lm, &why, o.m, &o.w->ctx->arena), VRAM_OK);
    assert_non_null(o.lm);
    return o;
}

static inline opened small_model_of(uint32_t layers, uint32_t trained)
{
    gguf g = { .version = 3 };
    uint64_t at = 0;
    add_keys(&g, layers, 4, trained);
    tensor(&g, &at, "token_embd.weight", 64, 256);
    tensor(&g, &at, "output_norm.weight", 64, 0);
    add_layers(&g, &at, layers);
    return open_file(&g, (size_t)at);
}

static inline opened small_model(void)
{
    return small_model_of(4, 4096);
}

static inline vr_lm_params plain(void)
{
    return (vr_lm_params){ .build = 10470,
                           .n_ctx = 1024,
                           .n_batch = 512,
                           .n_ubatch = 128,
                           .n_seq_max = 1,
                           .type_k = VR_F16,
                           .type_v = VR_F16,
                           .flash_attn = true,
                           .offload_kqv = true,
                           .op_offload = true,
                           .n_gpu_layers = UINT64_MAX };
}

#endif
