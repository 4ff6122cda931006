/* SPDX-License-Identifier: MIT
 * Small checkpoints in memory for the tests of src/model: a config.json and one safetensors file, through the
 * public interface; and directories on disk for real configurations. */
#ifndef VR_TEST_MODEL_SUPPORT_H
#define VR_TEST_MODEL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "model/model.h"

typedef struct tensor {
    char name[128];
    const char *dtype;
    uint64_t rows, columns; /* columns 0: one dimension */
} tensor;

#define MOST_TENSORS 256
#define MOST_FILES 2
#define MOST_BYTES ((size_t)4 << 20)

/* A source of two files. Zeroed to begin with; the files must outlive the context. */
typedef struct source {
    tensor tensors[MOST_TENSORS];
    size_t n_tensors;
    const char *config;  /* NULL: no config.json */
    size_t config_bytes; /* 0: up to the NUL */
    char *weights;
    size_t n_weights;
} source;

static inline void add(source *s, const char *dtype, uint64_t rows, uint64_t columns, const char *prefix,
                       int layer, const char *name)
{
    tensor *t = &s->tensors[s->n_tensors++];
    *t = (tensor){ .dtype = dtype, .rows = rows, .columns = columns };
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    else
        snprintf(t->name, sizeof t->name, "%slayers.%d.%s", prefix, layer, name);
}

typedef struct shape {
    const char *prefix;
    int layers;
    uint64_t hidden, heads, kv, head_dim, ffn, vocab;
    bool fused, head, qk_norm;
} shape;

static inline void add_layer(source *s, const shape *d, int i)
{
    const char *t = "BF16";
    uint64_t q = d->heads * d->head_dim, kv = d->kv * d->head_dim;
    if (d->fused) {
        add(s, t, q + 2 * kv, d->hidden, d->prefix, i, "self_attn.qkv_proj.weight");
        add(s, t, 2 * d->ffn, d->hidden, d->prefix, i, "mlp.gate_up_proj.weight");
    } else {
        add(s, t, q, d->hidden, d->prefix, i, "self_attn.q_proj.weight");
        add(s, t, kv, d->hidden, d->prefix, i, "self_attn.k_proj.weight");
        add(s, t, kv, d->hidden, d->prefix, i, "self_attn.v_proj.weight");
        add(s, t, d->ffn, d->hidden, d->prefix, i, "mlp.gate_proj.weight");
        add(s, t, d->ffn, d->hidden, d->prefix, i, "mlp.up_proj.weight");
    }
    add(s, t, d->hidden, q, d->prefix, i, "self_attn.o_proj.weight");
    add(s, t, d->hidden, d->ffn, d->prefix, i, "mlp.down_proj.weight");
    add(s, t, d->hidden, 0, d->prefix, i, "input_layernorm.weight");
    add(s, t, d->hidden, 0, d->prefix, i, "post_attention_layernorm.weight");
    if (d->qk_norm) {
        add(s, t, d->head_dim, 0, d->prefix, i, "self_attn.q_norm.weight");
        add(s, t, d->head_dim, 0, d->prefix, i, "self_attn.k_norm.weight");
    }
}

static inline void add_decoder(source *s, const shape *d)
{
    add(s, "BF16", d->vocab, d->hidden, d->prefix, -1, "embed_tokens.weight");
    for (int i = 0; i < d->layers; i++)
        add_layer(s, d, i);
    add(s, "BF16", d->hidden, 0, d->prefix, -1, "norm.weight");
    if (d->head)
        add(s, "BF16", d->vocab, d->hidden,
            strcmp(d->prefix, "language_model.model.") == 0 ? "language_model." : "", -1, "lm_head.weight");
}

static inline size_t width_of(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0               ? 4
           : dtype[0] == 'U' || dtype[0] == 'I' || strncmp(dtype, "F8", 2) == 0 ? 1
                                                                                : 2;
}

/* Writes the safetensors file: length, header, and room for the data. */
static inline void seal(source *s)
{
    char *text = malloc(MOST_BYTES);
    size_t n = 8, at = 0;
    assert_non_null(text);
    memset(text, 0, 8);
    n += (size_t)sprintf(text + n, "{");
    for (size_t i = 0; i < s->n_tensors; i++) {
        const tensor *t = &s->tensors[i];
        size_t bytes = (size_t)t->rows * (size_t)(t->columns != 0 ? t->columns : 1) * width_of(t->dtype);
        n += (size_t)sprintf(text + n, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu", i != 0 ? "," : "",
                             t->name, t->dtype, (unsigned long long)t->rows);
        if (t->columns != 0)
            n += (size_t)sprintf(text + n, ",%llu", (unsigned long long)t->columns);
        n += (size_t)sprintf(text + n, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    n += (size_t)sprintf(text + n, "}");
    for (size_t i = 0; i < 8; i++)
        text[i] = (char)((n - 8) >> 8 * i & 0xff);
    assert_true(n + at <= MOST_BYTES);
    memset(text + n, 0, at);
    s->weights = text;
    s->n_weights = n + at;
}

static inline void supply_all(vram_checkpoint *ck, const source *s)
{
    const vram_want *w;
    size_t n = vram_checkpoint_wants(ck, &w);
    for (size_t i = 0; i < n; i++) {
        if (w[i].kind == VRAM_WANT_LISTING)
            continue;
        bool config = strcmp(w[i].file, "config.json") == 0;
        const char *p = config ? s->config : s->weights;
        size_t size = config ? (s->config_bytes != 0 ? s->config_bytes : strlen(p)) : s->n_weights;
        if (w[i].offset >= size)
            continue;
        uint64_t most = w[i].most < size - w[i].offset ? w[i].most : size - w[i].offset;
        vram_checkpoint_supply(ck, w[i].file, w[i].offset, p + w[i].offset, (size_t)most);
    }
}

static inline vram_status load(vram_checkpoint **out, vram_ctx *ctx, const source *s)
{
    vram_status status = vram_checkpoint_new(out, ctx, "small");
    if (status == VRAM_OK && s->config != NULL)
        status = vram_checkpoint_add_file(*out, "config.json",
                                          s->config_bytes != 0 ? s->config_bytes : strlen(s->config));
    if (status == VRAM_OK && s->weights != NULL)
        status = vram_checkpoint_add_file(*out, "model.safetensors", s->n_weights);
    if (status == VRAM_OK)
        status = vram_checkpoint_listed(*out);
    for (unsigned round = 0; status == VRAM_OK && round < 100; round++) {
        status = vram_checkpoint_step(*out);
        if (status != VRAM_MORE)
            return status;
        supply_all(*out, s);
        status = VRAM_OK;
    }
    return status;
}

/* A context, a checkpoint and its model. */
typedef struct world {
    hook h;
    vram_ctx *ctx;
    source s;
    vram_checkpoint *ck;
    vram_model *m;
    vram_status status;
} world;

static inline void open_world(world *w, const char *config)
{
    w->s.config = config;
    if (w->s.n_tensors != 0 && w->s.weights == NULL)
        seal(&w->s);
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->h), VRAM_OK);
    assert_int_equal(load(&w->ck, w->ctx, &w->s), VRAM_OK);
    w->status = vram_model_new(&w->m, w->ck);
}

static inline void close_world(world *w)
{
    vram_close(w->ctx);
    assert_int_equal(w->h.live_bytes, 0);
    assert_int_equal(w->h.live_blocks, 0);
    free(w->s.weights);
}

static inline bool warned(const vram_ctx *ctx, const char *part)
{
    const vram_warning *list;
    size_t n = vram_warnings(ctx, &list);
    for (size_t i = 0; i < n; i++)
        if (strstr(list[i].text, part) != NULL)
            return true;
    return false;
}

#endif
