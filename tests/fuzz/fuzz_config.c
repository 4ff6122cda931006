/* SPDX-License-Identifier: MIT
 * Any bytes as the config.json of three small checkpoints: a llama, a fused phi3, a gemma3 inside a vision
 * model; and alone. What must hold: an error names a place in config.json; a model is understood or says why
 * not, never both; what is understood keeps its bounds; the components hold every byte; a plan that counts
 * everything loads what is stored, but for trifles. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "engine/engine.h"

#define ROOM ((size_t)1 << 17)
#define KINDS 4 /* the last has no weights */

typedef struct weights {
    char bytes[ROOM];
    size_t n, at; /* of the header; of the data */
} weights;

static weights files[KINDS];

static void put(weights *w, const char *prefix, const char *name, unsigned rows, unsigned columns)
{
    size_t bytes = (size_t)rows * (columns != 0 ? columns : 1) * 2;
    char *to = w->bytes + w->n;
    int n = columns != 0
                ? snprintf(to, ROOM - w->n,
                           "%s\"%s%s\":{\"dtype\":\"BF16\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
                           w->at != 0 ? "," : "", prefix, name, rows, columns, w->at, w->at + bytes)
                : snprintf(to, ROOM - w->n,
                           "%s\"%s%s\":{\"dtype\":\"BF16\",\"shape\":[%u],\"data_offsets\":[%zu,%zu]}",
                           w->at != 0 ? "," : "", prefix, name, rows, w->at, w->at + bytes);
    w->n += (size_t)n;
    w->at += bytes;
}

/* 4 heads of 8, 2 of them with keys; hidden 32, ffn 48, vocabulary 64. */
static void put_layer(weights *w, const char *prefix, bool fused)
{
    if (fused) {
        put(w, prefix, "layers.0.self_attn.qkv_proj.weight", 64, 32);
        put(w, prefix, "layers.0.mlp.gate_up_proj.weight", 96, 32);
    } else {
        put(w, prefix, "layers.0.self_attn.q_proj.weight", 32, 32);
        put(w, prefix, "layers.0.self_attn.k_proj.weight", 16, 32);
        put(w, prefix, "layers.0.self_attn.v_proj.weight", 16, 32);
        put(w, prefix, "layers.0.mlp.gate_proj.weight", 48, 32);
        put(w, prefix, "layers.0.mlp.up_proj.weight", 48, 32);
        put(w, prefix, "layers.0.self_attn.q_norm.weight", 8, 0);
    }
    put(w, prefix, "layers.0.self_attn.o_proj.weight", 32, 32);
    put(w, prefix, "layers.0.mlp.down_proj.weight", 32, 48);
    put(w, prefix, "layers.0.input_layernorm.weight", 32, 0);
    put(w, prefix, "layers.0.post_attention_layernorm.weight", 32, 0);
}

static void make(weights *w, const char *prefix, bool fused, bool vision)
{
    w->n = 8;
    w->bytes[w->n++] = '{';
    put(w, prefix, "embed_tokens.weight", 64, 32);
    put_layer(w, prefix, fused);
    put(w, prefix, "norm.weight", 32, 0);
    put(w, "", "lm_head.weight", 64, 32);
    if (vision)
        put(w, "vision_tower.", "encoder.layers.0.weight", 8, 8);
    w->bytes[w->n++] = '}';
    for (size_t i = 0; i < 8; i++)
        w->bytes[i] = (char)((w->n - 8) >> 8 * i & 0xff);
    w->n += w->at; /* the data is zeros */
    CHECK(w->n <= ROOM);
}

static vram_status load(vram_checkpoint **ck, vram_ctx *ctx, const weights *w, const uint8_t *config,
                        size_t n)
{
    const vram_want *wants;
    vram_status s;
    CHECK(vram_checkpoint_new(ck, ctx, "fuzz") == VRAM_OK);
    if (w->n == 0)
        CHECK(vram_checkpoint_named(*ck, "config.json") == VRAM_OK);
    CHECK(vram_checkpoint_add_file(*ck, "config.json", n) == VRAM_OK);
    if (w->n != 0)
        CHECK(vram_checkpoint_add_file(*ck, "model.safetensors", w->n) == VRAM_OK);
    CHECK(vram_checkpoint_listed(*ck) == VRAM_OK);
    for (unsigned round = 0; (s = vram_checkpoint_step(*ck)) == VRAM_MORE; round++) {
        size_t n_wants = vram_checkpoint_wants(*ck, &wants);
        CHECK(round < 100);
        for (size_t i = 0; i < n_wants; i++) {
            bool is_config = strcmp(wants[i].file, "config.json") == 0;
            size_t size = is_config ? n : w->n, from = (size_t)wants[i].offset;
            CHECK(from < size);
            size_t most = wants[i].most < size - from ? (size_t)wants[i].most : size - from;
            const char *bytes = is_config ? (const char *)config : w->bytes;
            CHECK(vram_checkpoint_supply(*ck, wants[i].file, from, bytes + from, most) == VRAM_OK);
        }
    }
    return s;
}

static void check_layer(const vr_layer *l)
{
    bool windowed = l->attention == VR_ATTENTION_SLIDING || l->attention == VR_ATTENTION_CHUNKED;
    CHECK(windowed == (l->window != 0));
    CHECK(l->heads <= 65536 && l->kv_heads <= 65536 && l->ffn <= 1 << 24 && l->expert_ffn <= 1 << 24);
    CHECK(l->rotary_dim <= l->key_dim);
    CHECK(l->experts_used <= l->experts && (l->mlp != VR_MLP_EXPERTS || l->moe != NULL));
    CHECK(vr_layer_kv_elements(l) < UINT64_C(1) << 40 && vr_layer_state_elements(l) < UINT64_MAX);
}

/* What a table's row alone makes of it. */
static void check_plain(const vram_model *m)
{
    CHECK(m->heads >= 1 && m->heads <= 65536 && m->kv_heads >= 1 && m->heads % m->kv_heads == 0);
    CHECK(m->head_dim >= 1 && m->head_dim <= 65536 && m->rotary_dim <= m->head_dim);
    CHECK(m->kv_bytes_per_token_16bit == m->n_layers * m->kv_heads * m->head_dim * 4);
}

static void check_understood(const vram_model *m)
{
    CHECK(m->n_layers >= 1 && m->n_layers <= 4096 && m->layers != NULL && m->n_encoder <= 4096);
    CHECK(m->hidden >= 1 && m->hidden <= 1 << 24 && m->vocab >= 1 && m->vocab <= 1 << 28);
    CHECK(m->ffn <= 1 << 24 && m->max_context <= UINT64_C(1) << 40);
    /* T5's positions are relative, and layers that attend to nothing have none */
    bool relative = m->structure == VR_ENCODER_DECODER && m->source_positions == 0;
    CHECK(relative ? m->max_context == 0 : m->max_context != 0 || m->heads == 0);
    CHECK(m->prefix != NULL && m->head_name != NULL && m->architecture != NULL && m->model_type != NULL);
    if (m->family->special == NULL)
        check_plain(m);
    for (uint64_t i = 0; i < m->n_layers; i++)
        check_layer(&m->layers[i]);
    for (uint64_t i = 0; i < m->n_encoder; i++)
        check_layer(&m->encoder[i]);
}

static void check_components(vram_ctx *ctx, const vram_model *m)
{
    vr_arena a;
    vr_component *c;
    size_t n;
    uint64_t bytes = 0;
    vr_arena_init(&a, ctx);
    CHECK(vr_model_components(m, &a, &c, &n) == VRAM_OK);
    for (size_t i = 0; i < n; i++)
        bytes += c[i].bytes;
    CHECK(bytes == m->checkpoint->tensor_bytes);
    vr_arena_free(&a);
}

#define HEAD (64 * 32) /* the second copy of a tied one is not loaded */

static void check_loaded(const vram_model *m, const vr_plan *p)
{
    uint64_t stored = m->parameters, trifle = stored / 20;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        if (!p->counted[c])
            return;
    }
    CHECK(m->family != NULL && m->contradicted == NULL && p->refused == NULL);
    CHECK(p->n_parameters <= stored + trifle);
    CHECK(p->n_parameters + trifle + (m->tied ? HEAD : 0) >= stored);
}

static void check_plan(vram_ctx *ctx, const vram_model *m)
{
    vram_workload *w, *resolved;
    vr_plan plan;
    vr_arena a;
    CHECK(vram_workload_new(&w, ctx, NULL) == VRAM_OK);
    CHECK(vram_workload_set(w, "context", "16") == VRAM_OK);
    vr_arena_init(&a, ctx);
    vram_status s = vr_workload_resolve(&resolved, w, m, &a);
    if (s == VRAM_OK)
        s = w->engine->plan(&plan, m, resolved, NULL, &a);
    if (s == VRAM_OK)
        check_loaded(m, &plan);
    else
        CHECK(s == VRAM_EUNSUPPORTED || s == VRAM_ELIMIT);
    vr_arena_free(&a);
}

static void try_config(const weights *w, const uint8_t *config, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    vram_status s = load(&ck, ctx, w, config, size);
    if (s == VRAM_OK)
        s = vram_model_new(&m, ck);
    if (s == VRAM_OK) {
        CHECK((m->family != NULL) == (m->not_understood == NULL));
        if (m->family != NULL)
            check_understood(m);
        else
            CHECK(m->n_layers == 0 && m->kv_bytes_per_token_16bit == 0 && m->layers == NULL);
        check_components(ctx, m);
        check_plan(ctx, m);
    } else {
        const vram_error *e = vram_last_error(ctx);
        CHECK(e->file != NULL && strcmp(e->file, "config.json") == 0);
        CHECK(!e->has_offset || e->offset <= size);
    }
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (files[0].n == 0) {
        make(&files[0], "model.", false, false);
        make(&files[1], "model.", true, false);
        make(&files[2], "language_model.model.", false, true);
    }
    for (size_t i = 0; i < KINDS; i++)
        try_config(&files[i], data, size);
    return 0;
}
