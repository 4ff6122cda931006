/* SPDX-License-Identifier: MIT
 * Checkpoints made in memory from shapes: real names, real headers, data that is a hole. */
#ifndef VR_TEST_MADE_H
#define VR_TEST_MADE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "engine/engine.h"

typedef struct shape {
    const char *model_type;
    unsigned long long layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
    bool tied;
    unsigned long long window;
    const char *kinds;             /* of layers, "sf..." repeated; NULL: by the class */
    const char *dtype;             /* of the tensors; NULL: BF16 */
    const char *skip;              /* a tensor that is left out */
    const char *extra;             /* a tensor that no class knows */
    unsigned long long extra_rows; /* of it, 100 wide; 0: 1 */
    const char *other;             /* a tensor of another shape: other_rows x other_columns */
    unsigned long long other_rows, other_columns;
    const char *config; /* more members, with the comma before them */
    bool by_name;       /* the header in the order of names */
    bool no_config;
} shape;

#define MOST_TENSORS 4096

typedef struct named {
    char name[128];
    char dims[64]; /* "8,1536,2048" of a recorded tensor, which has as many rows as elements; else empty */
    char dtype[8]; /* of a recorded tensor */
    unsigned long long rows, columns;
} named_tensor;

typedef struct world {
    hook h;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    vram_workload *w;
    char config[16384];
    char *header; /* with its eight bytes of length */
    size_t n_header;
    unsigned long long n_data;
    named_tensor *list;
    size_t n;
} world;

static inline void put(world *w, unsigned long long rows, unsigned long long columns, const char *format,
                       int layer)
{
    assert_true(w->n < MOST_TENSORS);
    named_tensor *t = &w->list[w->n++];
    *t = (named_tensor){ .rows = rows, .columns = columns };
    if (layer < 0)
        snprintf(t->name, sizeof(t->name), "%s", format);
    else
        snprintf(t->name, sizeof(t->name), "model.layers.%d.%s", layer, format);
}

static inline void put_layer(world *w, const shape *s, int i)
{
    unsigned long long q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, h = s->hidden;
    bool gemma = strncmp(s->model_type, "gemma", 5) == 0, qwen2 = strcmp(s->model_type, "qwen2") == 0;
    if (strcmp(s->model_type, "phi3") == 0) {
        put(w, q + 2 * kv, h, "self_attn.qkv_proj.weight", i);
        put(w, 2 * s->ffn, h, "mlp.gate_up_proj.weight", i);
    } else {
        put(w, q, h, "self_attn.q_proj.weight", i);
        put(w, kv, h, "self_attn.k_proj.weight", i);
        put(w, kv, h, "self_attn.v_proj.weight", i);
        put(w, s->ffn, h, "mlp.gate_proj.weight", i);
        put(w, s->ffn, h, "mlp.up_proj.weight", i);
    }
    if (qwen2) {
        put(w, q, 0, "self_attn.q_proj.bias", i);
        put(w, kv, 0, "self_attn.k_proj.bias", i);
        put(w, kv, 0, "self_attn.v_proj.bias", i);
    }
    if (strcmp(s->model_type, "qwen3") == 0 || strcmp(s->model_type, "gemma3_text") == 0) {
        put(w, s->head_dim, 0, "self_attn.q_norm.weight", i);
        put(w, s->head_dim, 0, "self_attn.k_norm.weight", i);
    }
    put(w, h, q, "self_attn.o_proj.weight", i);
    put(w, h, s->ffn, "mlp.down_proj.weight", i);
    put(w, h, 0, "input_layernorm.weight", i);
    put(w, h, 0, "post_attention_layernorm.weight", i);
    if (gemma) {
        put(w, h, 0, "pre_feedforward_layernorm.weight", i);
        put(w, h, 0, "post_feedforward_layernorm.weight", i);
    }
}

static inline int by_name(const void *a, const void *b)
{
    return strcmp(((const named_tensor *)a)->name, ((const named_tensor *)b)->name);
}

static inline unsigned long long width_of(const char *dtype)
{
    return strcmp(dtype, "F32") == 0     ? 4
           : strstr(dtype, "64") != NULL ? 8
           : strstr(dtype, "F8") != NULL ? 1
                                         : 2;
}

static inline void seal(world *w, const shape *s)
{
    size_t n = 8;
    if (s->by_name)
        qsort(w->list, w->n, sizeof(*w->list), by_name);
    w->header = malloc(w->n * 320 + 64);
    assert_non_null(w->header);
    n += (size_t)sprintf(w->header + n, "{");
    for (size_t i = 0; i < w->n; i++) {
        const named_tensor *t = &w->list[i];
        const char *dtype = t->dtype[0] != '\0' ? t->dtype : s->dtype != NULL ? s->dtype : "BF16";
        unsigned long long bytes = t->rows * (t->columns != 0 ? t->columns : 1) * width_of(dtype);
        char dims[64];
        if (t->dtype[0] != '\0')
            snprintf(dims, sizeof(dims), "%s", t->dims);
        else if (t->columns != 0)
            snprintf(dims, sizeof(dims), "%llu,%llu", t->rows, t->columns);
        else
            snprintf(dims, sizeof(dims), "%llu", t->rows);
        n += (size_t)sprintf(w->header + n,
                             "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                             i != 0 ? "," : "", t->name, dtype, dims, w->n_data, w->n_data + bytes);
        w->n_data += bytes;
    }
    n += (size_t)sprintf(w->header + n, "}");
    for (size_t i = 0; i < 8; i++)
        w->header[i] = (char)((n - 8) >> 8 * i & 0xff);
    w->n_header = n;
}

static inline void drop_tensor(world *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++) {
        if (strcmp(w->list[i].name, name) == 0) {
            memmove(&w->list[i], &w->list[i + 1], (--w->n - i) * sizeof(*w->list));
            return;
        }
    }
    fail_msg("there is no %s", name);
}

static inline void change_tensor(world *w, const shape *s)
{
    size_t i = 0;
    while (i < w->n && strcmp(w->list[i].name, s->other) != 0)
        i++;
    if (i == w->n)
        put(w, 0, 0, s->other, -1);
    w->list[i].rows = s->other_rows;
    w->list[i].columns = s->other_columns;
}

static inline void make_tensors(world *w, const shape *s)
{
    w->list = calloc(MOST_TENSORS, sizeof(*w->list));
    assert_non_null(w->list);
    put(w, s->vocab, s->hidden, "model.embed_tokens.weight", -1);
    for (int i = 0; i < (int)s->layers; i++)
        put_layer(w, s, i);
    put(w, s->hidden, 0, "model.norm.weight", -1);
    if (!s->tied)
        put(w, s->vocab, s->hidden, "lm_head.weight", -1);
    if (s->extra != NULL)
        put(w, s->extra_rows != 0 ? s->extra_rows : 1, 100, s->extra, -1);
    if (s->other != NULL)
        change_tensor(w, s);
    if (s->skip != NULL)
        drop_tensor(w, s->skip);
    seal(w, s);
}

static inline void make_config(world *w, const shape *s)
{
    char kinds[2048] = "", window[64] = "null";
    size_t n = 0;
    for (unsigned long long i = 0; s->kinds != NULL && i < s->layers; i++)
        n += (size_t)snprintf(kinds + n, sizeof(kinds) - n, "%s\"%s_attention\"", i == 0 ? "" : ", ",
                              s->kinds[i % strlen(s->kinds)] == 's' ? "sliding" : "full");
    if (s->window != 0)
        snprintf(window, sizeof(window), "%llu", s->window);
    int k = snprintf(w->config, sizeof(w->config),
                     "{\"model_type\": \"%s\", \"hidden_size\": %llu, \"num_attention_heads\": %llu,"
                     " \"num_key_value_heads\": %llu, \"head_dim\": %llu, \"intermediate_size\": %llu,"
                     " \"vocab_size\": %llu, \"num_hidden_layers\": %llu, \"tie_word_embeddings\": %s,"
                     " \"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 32768,"
                     " \"sliding_window\": %s%s%s%s%s}",
                     s->model_type, s->hidden, s->heads, s->kv_heads, s->head_dim, s->ffn, s->vocab,
                     s->layers, s->tied ? "true" : "false", window, n != 0 ? ", \"layer_types\": [" : "",
                     kinds, n != 0 ? "]" : "", s->config != NULL ? s->config : "");
    assert_true(k > 0 && (size_t)k < sizeof(w->config));
}

static inline vram_status supply(world *w, const vram_want *want)
{
    bool config = strcmp(want->file, "config.json") == 0;
    const char *p = config ? w->config : w->header;
    size_t n = config ? strlen(p) : w->n_header;
    if (want->offset >= n)
        return VRAM_OK;
    uint64_t most = want->most < n - want->offset ? want->most : n - want->offset;
    return vram_checkpoint_supply(w->ck, want->file, want->offset, p + want->offset, (size_t)most);
}

static inline vram_status read_world(world *w)
{
    vram_status s;
    const vram_want *wants;
    while ((s = vram_checkpoint_step(w->ck)) == VRAM_MORE) {
        size_t n = vram_checkpoint_wants(w->ck, &wants);
        for (size_t i = 0; i < n; i++) {
            s = wants[i].kind == VRAM_WANT_RANGE ? supply(w, &wants[i]) : VRAM_OK;
            if (s != VRAM_OK)
                return s;
        }
    }
    return s;
}

/* Everything up to the model and an empty workload; a failing allocation hook makes it fail anywhere. */
static inline vram_status open_objects(world *w, const shape *s)
{
    vram_status status = vram_open(&w->ctx, hook_alloc, &w->h);
    if (status != VRAM_OK) {
        w->ctx = NULL;
        return status;
    }
    status = vram_checkpoint_new(&w->ck, w->ctx, "made");
    if (status == VRAM_OK && !s->no_config)
        status = vram_checkpoint_add_file(w->ck, "config.json", strlen(w->config));
    if (status == VRAM_OK)
        status = vram_checkpoint_add_file(w->ck, "model.safetensors", w->n_header + w->n_data);
    if (status == VRAM_OK)
        status = vram_checkpoint_listed(w->ck);
    if (status == VRAM_OK)
        status = read_world(w);
    if (status == VRAM_OK)
        status = vram_model_new(&w->m, w->ck);
    return status == VRAM_OK ? vram_workload_new(&w->w, w->ctx, NULL) : status;
}

static inline void make_world(world *w, const shape *s)
{
    *w = (world){ .h = { 0 } };
    make_config(w, s);
    make_tensors(w, s);
}

static inline void open_made(world *w, const shape *s)
{
    if (open_objects(w, s) != VRAM_OK)
        fail_msg("%s", vram_last_error(w->ctx)->text);
}

static inline void open_world(world *w, const shape *s)
{
    make_world(w, s);
    open_made(w, s);
}

static inline void close_objects(world *w)
{
    if (w->ctx != NULL)
        vram_close(w->ctx);
    w->ctx = NULL;
    assert_int_equal(w->h.live_blocks, 0);
    assert_int_equal(w->h.live_bytes, 0);
}

static inline void close_world(world *w)
{
    close_objects(w);
    free(w->header);
    free(w->list);
}

static inline void set(world *w, const char *key, const char *value)
{
    if (vram_workload_set(w->w, key, value) != VRAM_OK)
        fail_msg("%s %s: %s", key, value, vram_last_error(w->ctx)->text);
}

static inline void set_number(world *w, const char *key, unsigned long long value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", value);
    set(w, key, text);
}

static inline vram_status make_plan(world *w, const vr_device_facts *device, vr_plan *plan, vr_arena *a)
{
    vram_workload *resolved;
    vr_arena_init(a, w->ctx);
    vram_status s = vr_workload_resolve(&resolved, w->w, w->m, a);
    return s == VRAM_OK ? w->w->engine->plan(plan, w->m, resolved, device, a) : s;
}

/* A repository of which only config.json is there. */
static inline void open_config_alone(world *w)
{
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->h), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "made"), VRAM_OK);
    assert_int_equal(vram_checkpoint_add_file(w->ck, "config.json", strlen(w->config)), VRAM_OK);
    assert_int_equal(vram_checkpoint_listed(w->ck), VRAM_OK);
    if (read_world(w) != VRAM_OK || vram_model_new(&w->m, w->ck) != VRAM_OK)
        fail_msg("%s", vram_last_error(w->ctx)->text);
    if (w->m->family == NULL)
        fail_msg("%s", w->m->not_understood);
    assert_int_equal(vram_workload_new(&w->w, w->ctx, NULL), VRAM_OK);
}

static inline bool warned(const world *w, const char *part)
{
    const vram_warning *list;
    size_t n = vram_warnings(w->ctx, &list);
    for (size_t i = 0; i < n; i++) {
        if (strstr(list[i].text, part) != NULL)
            return true;
    }
    return false;
}

static const shape small_llama = { .model_type = "llama",
                                   .layers = 2,
                                   .hidden = 64,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 16,
                                   .ffn = 128,
                                   .vocab = 256,
                                   .tied = true };

/* A card of the Ampere generation with no limit. */
static const vr_device_facts ampere = {
    .cc_major = 8, .cc_minor = 6, .usable = UINT64_MAX, .available = UINT64_MAX
};

#endif
