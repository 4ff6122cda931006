/* SPDX-License-Identifier: MIT
 * The shape of GGUF models: what the keys say, what is assumed when they are silent, and that tensors win.
 * Rules: llama.cpp of llama-cpp-python 0.3.36, src/models/ (load_arch_hparams) and src/llama-hparams.cpp;
 * figures are worked out beside each. llama.cpp's own figures of 40 models are held by
 * tests/checkpoint/gguf_models.py.
 */
#include "../checkpoint/gguf_made.h"
#include "../checkpoint/source.h"
#include "model/model.h"

#define NAME "model.gguf"
#define F32 0

typedef struct opened {
    world *w;
    vram_model *m;
} opened;

static gguf begin(const char *arch)
{
    gguf g = { .version = 3 };
    g_start(&g);
    g_key_text(&g, "general.architecture", arch);
    return g;
}

static opened read_model(gguf *g)
{
    opened o = { new_world(), NULL };
    size_t n = 0;
    (void)g_end(g, 32, 0);
    n = g->n;
    add_bytes(o.w, NAME, g->bytes, n, n + (UINT64_C(1) << 30)); /* data: a hole */
    expect_ok(o.w, read_world(o.w, FEED_MOST));
    assert_int_equal(vram_model_new(&o.m, o.w->ck), VRAM_OK);
    assert_null(o.m->family);
    assert_true(o.m->gguf);
    assert_non_null(o.m->not_understood);
    return o;
}

static void u32s(gguf *g, const char *key, const uint32_t *v, size_t n)
{
    g_key(g, key, G_ARRAY);
    g_array(g, G_U32, n);
    for (size_t i = 0; i < n; i++)
        g_number(g, v[i], 4);
}

/* Tensors follow one another. */
static void tensor(gguf *g, uint64_t *at, const char *name, uint64_t ne0, uint64_t ne1)
{
    g_tensor(g, name, F32, ne0, ne1, *at);
    *at += (4 * ne0 * (ne1 != 0 ? ne1 : 1) + 31) / 32 * 32;
}

/* Two layers of width 64, four heads of 16, two for keys and values. */
static void plain_keys(gguf *g, const char *arch)
{
    static const struct {
        const char *name;
        uint32_t v;
    } rows[] = { { "block_count", 2 },          { "embedding_length", 64 },
                 { "context_length", 4096 },    { "feed_forward_length", 192 },
                 { "attention.head_count", 4 }, { "attention.head_count_kv", 2 } };
    char key[96];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, rows[i].name);
        g_key_u32(g, key, rows[i].v);
    }
}

static void test_plain(void **state)
{
    (void)state;
    uint64_t at = 0;
    gguf g = begin("llama");
    plain_keys(&g, "llama");
    g_key_u32(&g, "general.file_type", 15);
    g_key(&g, "tokenizer.ggml.tokens", G_ARRAY);
    g_array(&g, G_STR, 3);
    for (int i = 0; i < 3; i++)
        g_text(&g, "t");
    tensor(&g, &at, "output_norm.weight", 64, 0);
    tensor(&g, &at, "output.weight", 64, 3);
    tensor(&g, &at, "blk.0.attn_k.weight", 64, 32);
    tensor(&g, &at, "blk.0.attn_v.weight", 64, 32);
    tensor(&g, &at, "blk.1.attn_k.weight", 64, 32);
    opened o = read_model(&g);
    const vram_model *m = o.m;
    assert_true(m->shape_known && m->kv_known && m->has_head && !m->tied);
    assert_string_equal(m->architecture, "llama");
    assert_string_equal(m->file_type, "Q4_K_M");
    assert_int_equal(m->n_layers, 2);
    assert_int_equal(m->hidden, 64);
    assert_int_equal(m->heads, 4);
    assert_int_equal(m->kv_heads, 2);
    assert_int_equal(m->head_dim, 16);
    assert_int_equal(m->ffn, 192);
    assert_int_equal(m->vocab, 3);
    assert_int_equal(m->max_context, 4096);
    assert_int_equal(m->kv_bytes_per_token_16bit,
                     2 * 2 * 2 * (2 * 16)); /* layers, K and V, bytes, heads x 16 */
    assert_int_equal(n_warnings(o.w), 0);
    end_world(o.w);
}

/* Heads and widths that the tensors contradict, another number of layers, another vocabulary. */
static void test_tensors_win(void **state)
{
    (void)state;
    uint64_t at = 0;
    gguf g = begin("llama");
    plain_keys(&g, "llama");
    g_key_u32(&g, "llama.vocab_size", 100);
    tensor(&g, &at, "token_embd.weight", 64, 7);
    tensor(&g, &at, "blk.0.attn_k.weight", 64, 16);
    tensor(&g, &at, "blk.0.attn_v.weight", 64, 16);
    tensor(&g, &at, "blk.1.attn_k.weight", 64, 16);
    tensor(&g, &at, "blk.1.attn_v.weight", 64, 16);
    tensor(&g, &at, "blk.2.attn_k.weight", 64, 16);
    tensor(&g, &at, "blk.2.attn_v.weight", 64, 16);
    opened o = read_model(&g);
    assert_int_equal(o.m->vocab, 7);
    assert_int_equal(o.m->n_layers, 3);
    assert_true(o.m->tied);
    assert_int_equal(o.m->kv_bytes_per_token_16bit, 3 * 2 * 2 * 16);
    assert_true(
        has_warning(o.w, NAME, "llama.vocab_size would be 100, the tensor token_embd.weight makes it 7"));
    assert_true(has_warning(o.w, NAME, "llama.block_count would be 2, the tensor blk.2.attn_"));
    assert_true(has_warning(o.w, NAME, "would be 32, the tensor blk.0.attn_k.weight makes it 16"));
    assert_int_equal(n_warnings(o.w), 3); /* of the cache the first layer's only */
    end_world(o.w);
}

/* By its own number for each layer; a layer without heads for keys keeps nothing. */
static void test_layers_differ(void **state)
{
    (void)state;
    static const uint32_t kv[] = { 2, 0, 4 }, ff[] = { 10, 20, 10 };
    gguf g = begin("deci");
    g_key_u32(&g, "deci.block_count", 3);
    g_key_u32(&g, "deci.embedding_length", 64);
    g_key_u32(&g, "deci.attention.head_count", 4);
    u32s(&g, "deci.attention.head_count_kv", kv, 3);
    u32s(&g, "deci.feed_forward_length", ff, 3);
    g_tensor(&g, "output_norm.weight", F32, 64, 0, 0);
    opened o = read_model(&g);
    /* block_count cannot be held against tensors here: none is of a layer */
    assert_int_equal(o.m->n_layers, 3);
    assert_false(o.m->has_head ||
                 o.m->tied);            /* without embeddings there is nothing that a head could share */
    assert_int_equal(o.m->kv_heads, 0); /* not one number */
    assert_int_equal(o.m->ffn, 0);
    assert_int_equal(o.m->layers[0].key_elements, 2 * 16);
    assert_int_equal(o.m->layers[1].attention, VR_ATTENTION_NONE);
    assert_int_equal(o.m->layers[2].value_elements, 4 * 16);
    assert_int_equal(o.m->kv_bytes_per_token_16bit, 2 * 2 * (2 + 4) * 16);
    end_world(o.w);
}

/* One file of a set says nothing of the layers and the head that lie in the others, unless it has more. */
static void test_incomplete(void **state)
{
    (void)state;
    for (unsigned layer = 0; layer < 8; layer += 7) {
        char name[32];
        uint64_t at = 0;
        gguf g = begin("llama");
        plain_keys(&g, "llama");
        g_key_number(&g, "split.no", G_U16, 0, 2);
        g_key_number(&g, "split.count", G_U16, 3, 2);
        g_key_u32(&g, "general.file_type", 1024 + 15); /* llama.h: LLAMA_FTYPE_GUESSED and Q4_K_M */
        snprintf(name, sizeof name, "blk.%u.attn_k.weight", layer);
        tensor(&g, &at, "token_embd.weight", 64, 7);
        tensor(&g, &at, name, 64, 32);
        opened o = read_model(&g);
        assert_true(o.w->ck->incomplete);
        assert_int_equal(o.m->n_layers, layer == 0 ? 2 : 8);
        assert_false(o.m->tied);
        assert_string_equal(o.m->file_type, "Q4_K_M");
        assert_int_equal(has_warning(o.w, NAME, "llama.block_count would be 2"), layer != 0);
        end_world(o.w);
    }
}

/* What the load_arch_hparams of each does with attention.sliding_window, which may be absent. */
static void test_sliding(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        const char *layers; /* of the first eight: F full, S sliding */
        int said;           /* the key; -1: absent */
        uint32_t window, n_layers, pattern;
    } rows[] = {
        { "gemma2", "SFSFSFSF", 512, 512, 8, 0 },
        { "gemma2", "SFSFSFSF", -1, 4096, 8, 0 },
        { "gemma3", "SSSSSFSS", 512, 512, 8, 0 },
        { "gemma3", "FFFFFFFF", -1, 0, 8, 0 },
        { "gemma3", "SSFSSFSS", 512, 512, 8, 3 },
        { "gemma3", "SSSSSSSS", 512, 512, 8, UINT32_MAX }, /* 0: all */
        { "gpt-oss", "SFSFSFSF", 512, 512, 8, 0 },
        { "cohere2", "SSSFSSSF", 512, 512, 8, 0 },
        { "cohere2moe", "FSSSFSSS", 512, 512, 8, 0 },
        { "exaone-moe", "SSSFSSSF", 128, 128, 8, 0 },
        { "exaone4", "FFFFFFFF", 512, 0, 30, 0 }, /* only the one of 64 layers */
        { "exaone4", "SSSFSSSF", -1, 4096, 64, 0 },
        { "llama4", "SSSFSSSF", 512, 8192, 8, 0 },
        { "llama4", "SSSFSSSF", -1, 8192, 8, 0 },
        { "llama4", "FFFFFFFF", 0, 0, 8, 0 },
        { "smallthinker", "FSSSFSSS", 512, 4096, 8, 0 },
        { "smallthinker", "FFFFFFFF", -1, 0, 8, 0 },
        { "laguna", "FSSSFSSS", 512, 512, 8, 0 },
        { "lfm2", "SSSSSSSS", 512, 512, 8, 0 },
        { "llama", "FFFFFFFF", 512, 0, 8, 0 }, /* has no use for it */
        { "phi3", "FFFFFFFF", 512, 0, 8, 2 },  /* nor for a pattern */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char key[96];
        gguf g = begin(rows[i].arch);
        snprintf(key, sizeof key, "%s.block_count", rows[i].arch);
        g_key_u32(&g, key, rows[i].n_layers);
        snprintf(key, sizeof key, "%s.attention.sliding_window", rows[i].arch);
        if (rows[i].said >= 0)
            g_key_u32(&g, key, (uint32_t)rows[i].said);
        snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", rows[i].arch);
        if (rows[i].pattern != 0)
            g_key_u32(&g, key, rows[i].pattern == UINT32_MAX ? 0 : rows[i].pattern);
        snprintf(key, sizeof key, "%s.attention.head_count", rows[i].arch);
        g_key_u32(&g, key, 4);
        g_tensor(&g, "output_norm.weight", F32, 64, 0, 0);
        opened o = read_model(&g);
        assert_int_equal(o.m->n_layers, rows[i].n_layers);
        for (size_t k = 0; k < 8; k++) {
            bool slides = rows[i].layers[k] == 'S';
            if (o.m->layers[k].window != (slides ? rows[i].window : 0))
                fail_msg("row %zu, layer %zu: window %u", i, k, (unsigned)o.m->layers[k].window);
            assert_int_equal(o.m->layers[k].attention, slides ? VR_ATTENTION_SLIDING : VR_ATTENTION_FULL);
        }
        end_world(o.w);
    }
}

/* attention.sliding_window_pattern: which layers, one by one. */
static void test_sliding_listed(void **state)
{
    (void)state;
    gguf g = begin("gemma4");
    g_key_u32(&g, "gemma4.block_count", 3);
    g_key_u32(&g, "gemma4.attention.sliding_window", 128);
    g_key_u32(&g, "gemma4.attention.head_count", 4);
    g_key_u32(&g, "gemma4.attention.key_length", 32);
    g_key_u32(&g, "gemma4.attention.value_length", 32);
    g_key_u32(&g, "gemma4.attention.key_length_swa", 16);
    g_key_u32(&g, "gemma4.attention.value_length_swa", 8);
    g_key(&g, "gemma4.attention.sliding_window_pattern", G_ARRAY);
    g_array(&g, G_BOOL, 3);
    g_bytes(&g, "\1\0\1", 3);
    g_tensor(&g, "output_norm.weight", F32, 64, 0, 0);
    opened o = read_model(&g);
    assert_int_equal(o.m->layers[0].attention, VR_ATTENTION_SLIDING);
    assert_int_equal(o.m->layers[1].attention, VR_ATTENTION_FULL);
    assert_int_equal(o.m->layers[2].window, 128);
    assert_int_equal(o.m->layers[0].key_elements, 4 * 16);
    assert_int_equal(o.m->layers[0].value_elements, 4 * 8);
    assert_int_equal(o.m->layers[1].key_elements, 4 * 32);
    end_world(o.w);
}

/* DeepSeek: a vector of kv_lora_rank + rope of each token, no values; files from before had both in full. */
static void test_latent(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        uint64_t at = 0;
        gguf g = begin("deepseek2");
        g_key_u32(&g, "deepseek2.block_count", 1);
        g_key_u32(&g, "deepseek2.embedding_length", 64);
        g_key_u32(&g, "deepseek2.attention.head_count", 4);
        g_key_u32(&g, "deepseek2.attention.head_count_kv", before ? 4 : 1);
        g_key_u32(&g, "deepseek2.attention.key_length", before ? 24 : 40);
        g_key_u32(&g, "deepseek2.attention.value_length", before ? 16 : 32);
        if (!before) {
            g_key_u32(&g, "deepseek2.attention.key_length_mla", 24);
            g_key_u32(&g, "deepseek2.attention.value_length_mla", 16);
        }
        tensor(&g, &at, "blk.0.attn_kv_a_mqa.weight", 64, 40);
        tensor(&g, &at, before ? "blk.0.attn_kv_b.weight" : "blk.0.attn_k_b.weight", 32, 160);
        opened o = read_model(&g);
        assert_int_equal(o.m->head_dim, 24);
        assert_int_equal(o.m->layers[0].key_elements, before ? 4 * 24 : 40);
        assert_int_equal(o.m->layers[0].value_elements, before ? 4 * 16 : 0);
        assert_int_equal(n_warnings(o.w), 0);
        end_world(o.w);
    }
}

/* (conv - 1) x (inner + 2 x groups x state) + state x inner, 4 bytes each. */
static void test_recurrent(void **state)
{
    (void)state;
    uint64_t at = 0;
    gguf g = begin("nemotron_h");
    static const uint32_t kv[] = { 0, 0, 2 };
    g_key_u32(&g, "nemotron_h.block_count", 3);
    g_key_u32(&g, "nemotron_h.embedding_length", 64);
    g_key_u32(&g, "nemotron_h.attention.head_count", 4);
    u32s(&g, "nemotron_h.attention.head_count_kv", kv, 3);
    g_key_u32(&g, "nemotron_h.ssm.conv_kernel", 4);
    g_key_u32(&g, "nemotron_h.ssm.inner_size", 128);
    g_key_u32(&g, "nemotron_h.ssm.state_size", 16);
    g_key_u32(&g, "nemotron_h.ssm.group_count", 2);
    tensor(&g, &at, "blk.0.ssm_in.weight", 64, 8);
    tensor(&g, &at, "blk.1.ffn_up.weight", 64, 8);
    tensor(&g, &at, "blk.2.attn_k.weight", 64, 32);
    opened o = read_model(&g);
    uint64_t bytes = 4 * (3 * (128 + 2 * 2 * 16) + 16 * 128);
    assert_int_equal(o.m->layers[0].state_bytes, bytes);
    assert_int_equal(o.m->layers[0].attention, VR_ATTENTION_NONE);
    assert_int_equal(o.m->layers[1].state_bytes, 0);
    assert_int_equal(o.m->layers[1].attention, VR_ATTENTION_NONE);
    assert_int_equal(o.m->layers[2].attention, VR_ATTENTION_FULL);
    assert_int_equal(o.m->state_bytes, bytes);
    assert_int_equal(o.m->kv_bytes_per_token_16bit, 2 * 2 * 2 * 16);
    end_world(o.w);
}

static void test_no_models(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *type, *text;
    } rows[] = {
        { "clip", NULL, "multimodal projector (mmproj)" },
        { "clip", "mmproj", "multimodal projector (mmproj)" },
        { "llama", "adapter", "an adapter (LoRA)" },
        { "imatrix", NULL, "an importance matrix" },
        { "llama", "model", "llama.cpp and ollama run GGUF files" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vr_component *parts = NULL;
        size_t n = 0;
        gguf g = begin(rows[i].arch);
        if (rows[i].type != NULL)
            g_key_text(&g, "general.type", rows[i].type);
        g_tensor(&g, "v.blk.0.attn_k.weight", F32, 64, 2, 0);
        opened o = read_model(&g);
        assert_non_null(strstr(o.m->not_understood, rows[i].text));
        assert_false(o.m->shape_known);
        assert_int_equal(vr_model_components(o.m, &o.m->arena, &parts, &n), VRAM_OK);
        assert_int_equal(n, 1);
        assert_string_equal(parts[0].name, "vision tower");
        end_world(o.w);
    }
}

/* As the files of a split model after the first. */
static void test_no_architecture(void **state)
{
    (void)state;
    gguf g = { .version = 3 };
    g_start(&g);
    g_key_u32(&g, ".block_count", 2);
    g_tensor(&g, "blk.0.attn_k.weight", F32, 64, 2, 0);
    opened o = read_model(&g);
    assert_null(o.m->architecture);
    assert_false(o.m->shape_known || o.m->kv_known);
    end_world(o.w);
}

/* Numbers beyond reason, of another kind, or none: no shape, and no harm. */
static void test_absurd(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        unsigned type;
        uint64_t v;
        bool known;
    } rows[] = {
        { "llama.block_count", G_U64, UINT64_MAX, false },
        { "llama.block_count", G_U32, 0, false },
        { "llama.block_count", G_I64, UINT64_MAX, false }, /* -1 */
        { "llama.block_count", G_F64, 0, false },
        { "llama.embedding_length", G_U64, UINT64_C(1) << 40, false },
        { "llama.attention.key_length", G_U64, UINT64_MAX, false },
        { "llama.vocab_size", G_U64, UINT64_MAX, false },
        { "llama.nextn_predict_layers", G_U64, 2, false },
        { "llama.attention.head_count", G_U64, UINT64_MAX, true },
        { "llama.attention.sliding_window", G_U64, UINT64_MAX, true },
        { "llama.ssm.inner_size", G_U64, UINT64_MAX, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gguf g = begin("llama");
        if (strcmp(rows[i].key, "llama.block_count") != 0)
            g_key_u32(&g, "llama.block_count", 2);
        g_key_number(&g, rows[i].key, rows[i].type, rows[i].v, rows[i].type == G_U32 ? 4 : 8);
        g_tensor(&g, "output_norm.weight", F32, 64, 0, 0);
        opened o = read_model(&g);
        assert_int_equal(o.m->shape_known, rows[i].known);
        assert_int_equal(o.m->n_layers, rows[i].known ? 2 : 0);
        end_world(o.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incomplete),      cmocka_unit_test(test_plain),
        cmocka_unit_test(test_tensors_win),     cmocka_unit_test(test_layers_differ),
        cmocka_unit_test(test_sliding),         cmocka_unit_test(test_sliding_listed),
        cmocka_unit_test(test_latent),          cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_no_models),       cmocka_unit_test(test_absurd),
        cmocka_unit_test(test_no_architecture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
