/* SPDX-License-Identifier: MIT
 * Recorded runs of real transformers (tests/oracle/facts, written by tests/oracle/trace_transformers.py), and the plan
 * of this library for the same model and workload. */
#ifndef VR_TEST_FACTS_H
#define VR_TEST_FACTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "engine/engine.h"

#define MOST_EVENTS 4096
#define MOST_OPS 256

typedef struct fact_event {
    char kind; /* 'A', 'F', '=' */
    uint64_t bytes;
    unsigned storage; /* counted from 0 by allocation */
    unsigned op;
    char place[24];
} fact_event;

typedef struct facts {
    char name[96];
    char ops[MOST_OPS][160];
    fact_event events[MOST_EVENTS];
    size_t n;
    char model_type[32], version[32], implementation[16], dtype[16], logits[8], kinds[8];
    unsigned long long hidden, heads, kv_heads, head_dim, ffn, vocab, tied, layers, batch, tokens, decode, window;
} facts;

static inline void read_header(facts *f, const char *line)
{
    static const struct {
        const char *key;
        size_t at;
    } numbers[] = {
        { "hidden", offsetof(facts, hidden) },     { "heads", offsetof(facts, heads) },
        { "kv_heads", offsetof(facts, kv_heads) }, { "head_dim", offsetof(facts, head_dim) },
        { "ffn", offsetof(facts, ffn) },           { "vocab", offsetof(facts, vocab) },
        { "tied", offsetof(facts, tied) },         { "layers", offsetof(facts, layers) },
        { "batch", offsetof(facts, batch) },       { "tokens", offsetof(facts, tokens) },
        { "decode", offsetof(facts, decode) },     { "window", offsetof(facts, window) },
    }, words[] = {
        { "model_type", offsetof(facts, model_type) }, { "transformers", offsetof(facts, version) },
        { "implementation", offsetof(facts, implementation) }, { "dtype", offsetof(facts, dtype) },
        { "logits", offsetof(facts, logits) }, { "layer_kinds", offsetof(facts, kinds) },
    };
    char key[32], value[64];
    if (sscanf(line, "# %31s %31s", key, value) != 2)
        return;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(key, numbers[i].key) == 0)
            sscanf(value, "%llu", (unsigned long long *)(void *)((char *)f + numbers[i].at));
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(key, words[i].key) == 0)
            strcpy((char *)f + words[i].at, value);
    }
}

static inline void read_event(facts *f, const char *line, unsigned *n_storages)
{
    fact_event *e = &f->events[f->n];
    unsigned op;
    unsigned long long bytes;
    char name[160];
    if (sscanf(line, "O %u %159s", &op, name) == 2) {
        assert_true(op < MOST_OPS);
        strcpy(f->ops[op], name);
        return;
    }
    assert_true(f->n < MOST_EVENTS);
    *e = (fact_event){ .kind = line[0] };
    if (sscanf(line, "A %llu %u", &bytes, &e->op) == 2) {
        e->bytes = bytes;
        e->storage = (*n_storages)++;
    } else if (sscanf(line, "F %u", &e->storage) != 1) {
        assert_int_equal(line[0], '=');
        snprintf(e->place, sizeof(e->place), "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
    }
    f->n++;
}

static inline facts *read_facts(const char *path)
{
    facts *f = calloc(1, sizeof(*f));
    FILE *in = fopen(path, "r");
    char line[256];
    unsigned n_storages = 0;
    assert_non_null(f);
    if (in == NULL)
        fail_msg("%s is not there", path);
    snprintf(f->name, sizeof(f->name), "%s", strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path);
    while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        if (line[0] == '#')
            read_header(f, line);
        else
            read_event(f, line, &n_storages);
    }
    if (in != NULL)
        fclose(in);
    return f;
}

/* ---- a model that exists as a configuration only ---- */

typedef struct world {
    hook h;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    vram_workload *w; /* as set */
    char config[4096];
} world;

static inline void supply_config(world *w)
{
    const vram_want *wants;
    size_t n = vram_checkpoint_wants(w->ck, &wants);
    for (size_t i = 0; i < n; i++) {
        if (wants[i].kind == VRAM_WANT_RANGE)
            assert_int_equal(vram_checkpoint_supply(w->ck, wants[i].file, 0, w->config, strlen(w->config)), VRAM_OK);
    }
}

static inline void open_config(world *w)
{
    vram_status s;
    assert_int_equal(vram_open(&w->ctx, hook_alloc, &w->h), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&w->ck, w->ctx, "config"), VRAM_OK);
    assert_int_equal(vram_checkpoint_add_file(w->ck, "config.json", strlen(w->config)), VRAM_OK);
    assert_int_equal(vram_checkpoint_listed(w->ck), VRAM_OK);
    while ((s = vram_checkpoint_step(w->ck)) == VRAM_MORE)
        supply_config(w);
    assert_int_equal(s, VRAM_OK);
    assert_int_equal(vram_model_new(&w->m, w->ck), VRAM_OK);
    if (w->m->not_understood != NULL)
        fail_msg("%s", w->m->not_understood);
    assert_int_equal(vram_workload_new(&w->w, w->ctx, NULL), VRAM_OK);
}

static inline void close_world(world *w)
{
    vram_close(w->ctx);
    assert_int_equal(w->h.live_blocks, 0);
    assert_int_equal(w->h.live_bytes, 0);
}

static inline void write_config(world *w, const facts *f)
{
    char kinds[256] = "", window[64] = "";
    size_t n = 0;
    for (const char *k = f->kinds; *k != '\0'; k++)
        n += (size_t)snprintf(kinds + n, sizeof(kinds) - n, "%s\"%s_attention\"", n == 0 ? "" : ", ",
                              *k == 's' ? "sliding" : "full");
    snprintf(window, sizeof(window), f->window != 0 ? "%llu" : "null", f->window);
    snprintf(w->config, sizeof(w->config),
             "{\"model_type\": \"%s\", \"hidden_size\": %llu, \"num_attention_heads\": %llu,"
             " \"num_key_value_heads\": %llu, \"head_dim\": %llu, \"intermediate_size\": %llu, \"vocab_size\": %llu,"
             " \"num_hidden_layers\": %llu, \"tie_word_embeddings\": %s, \"torch_dtype\": \"bfloat16\","
             " \"sliding_window\": %s%s%s%s}",
             f->model_type, f->hidden, f->heads, f->kv_heads, f->head_dim, f->ffn, f->vocab, f->layers,
             f->tied ? "true" : "false", window, strncmp(f->model_type, "gemma", 5) == 0 ? ", \"layer_types\": [" : "",
             strncmp(f->model_type, "gemma", 5) == 0 ? kinds : "", strncmp(f->model_type, "gemma", 5) == 0 ? "]" : "");
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

/* The same model and workload; sdpa's plain products are what a card before Ampere takes for bfloat16. */
static inline void plan_facts(world *w, const facts *f, vr_plan *plan, vr_arena *a)
{
    bool math = strcmp(f->implementation, "math") == 0;
    vr_device_facts device = { .cc_major = math ? 7 : 8, .cc_minor = math ? 5 : 6, .usable = UINT64_MAX,
                               .available = UINT64_MAX };
    vram_workload *resolved;
    write_config(w, f);
    open_config(w);
    set(w, "engine_version", f->version);
    set(w, "attention", math ? "sdpa" : f->implementation);
    set(w, "dtype", f->dtype);
    set(w, "logits", f->logits);
    set_number(w, "context", f->tokens);
    set_number(w, "sequences", f->batch);
    set_number(w, "decode", f->decode);
    vr_arena_init(a, w->ctx);
    assert_int_equal(vr_workload_resolve(&resolved, w->w, w->m, a), VRAM_OK);
    if (w->w->engine->plan(plan, w->m, resolved, &device, a) != VRAM_OK)
        fail_msg("%s: %s", f->name, vram_last_error(w->ctx)->text);
}

#endif
