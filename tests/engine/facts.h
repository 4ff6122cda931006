/* SPDX-License-Identifier: MIT
 * Recorded runs of real transformers (tests/oracle/facts, written by tests/oracle/trace_transformers.py), and
 * the plan of this library for the same model and workload. */
#ifndef VR_TEST_FACTS_H
#define VR_TEST_FACTS_H

#include "made.h"

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
    unsigned long long hidden, heads, kv_heads, head_dim, ffn, vocab, tied, layers, batch, tokens, decode,
        window;
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

static inline fact_event *add_event(facts *f, char kind)
{
    assert_true(f->n < MOST_EVENTS);
    f->events[f->n] = (fact_event){ .kind = kind };
    return &f->events[f->n++];
}

/* "1048576:12 -3 ..." */
static inline void read_words(facts *f, char *line, unsigned *n_storages)
{
    for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        unsigned long long bytes = 0;
        fact_event *e = add_event(f, word[0] == '-' ? 'F' : 'A');
        if (word[0] == '-') {
            assert_int_equal(sscanf(word, "-%u", &e->storage), 1);
            continue;
        }
        assert_int_equal(sscanf(word, "%llu:%u", &bytes, &e->op), 2);
        e->bytes = bytes;
        e->storage = (*n_storages)++;
    }
}

static inline void read_line(facts *f, char *line, unsigned *n_storages)
{
    unsigned op;
    char name[160];
    if (line[0] == '#') {
        read_header(f, line);
    } else if (sscanf(line, "O %u %159s", &op, name) == 2) {
        assert_true(op < MOST_OPS);
        strcpy(f->ops[op], name);
    } else if (line[0] == '=') {
        fact_event *e = add_event(f, '=');
        snprintf(e->place, sizeof(e->place), "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
    } else if (line[0] != 'P' && line[0] != 'B') { /* those of order-*.tsv */
        read_words(f, line, n_storages);
    }
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
    snprintf(f->name, sizeof(f->name), "%.90s", strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path);
    while (in != NULL && fgets(line, sizeof(line), in) != NULL)
        read_line(f, line, &n_storages);
    if (in != NULL)
        fclose(in);
    return f;
}

/* ---- the same model and workload here ---- */

static inline shape shape_of(const facts *f)
{
    return (shape){ .model_type = f->model_type,
                    .layers = f->layers,
                    .hidden = f->hidden,
                    .heads = f->heads,
                    .kv_heads = f->kv_heads,
                    .head_dim = f->head_dim,
                    .ffn = f->ffn,
                    .vocab = f->vocab,
                    .tied = f->tied != 0,
                    .window = f->window,
                    .kinds = strncmp(f->model_type, "gemma", 5) == 0 ? f->kinds : NULL };
}

/* sdpa's plain products are what a card before Ampere takes for bfloat16. */
static inline void plan_facts(world *w, const facts *f, vr_plan *plan, vr_arena *a)
{
    bool math = strcmp(f->implementation, "math") == 0;
    vr_device_facts device = ampere;
    shape s = shape_of(f);
    if (math)
        device.cc_major = 7;
    open_world(w, &s);
    set(w, "engine_version", f->version);
    set(w, "attention", math ? "sdpa" : f->implementation);
    set(w, "dtype", f->dtype);
    set(w, "logits", f->logits);
    set_number(w, "context", f->tokens);
    set_number(w, "sequences", f->batch);
    set_number(w, "decode", f->decode);
    if (make_plan(w, &device, plan, a) != VRAM_OK)
        fail_msg("%s: %s", f->name, vram_last_error(w->ctx)->text);
}

#endif
