/* SPDX-License-Identifier: MIT
 * Recorded runs of real transformers (tests/oracle/facts, written by tests/oracle/trace_transformers.py), and
 * the plan of this library for the same model and workload. */
#ifndef VR_TEST_FACTS_H
#define VR_TEST_FACTS_H

#include "made.h"

#include <dirent.h>
#include <stdlib.h>

#define MOST_EVENTS 32768
#define MOST_OPS 512
#define MOST_SETTINGS 16

typedef struct fact_event {
    char kind; /* 'A', 'F', '=' */
    uint64_t bytes;
    unsigned storage; /* counted from 0 by allocation */
    unsigned op;
    char place[24];
} fact_event;

typedef struct facts {
    char name[96], folder[256];
    char ops[MOST_OPS][240];
    fact_event events[MOST_EVENTS];
    size_t n;
    char case_name[48], model_type[32], version[32], implementation[32], dtype[16], logits[8], experts[16],
        routing[16];
    char config[16384];
    unsigned long long batch, tokens, decode, patches /* of all pictures */, beams;
    bool encodes;
    struct {
        char key[32], value[64];
    } settings[MOST_SETTINGS]; /* of our workload: whatever else the run was made with */
    size_t n_settings;
} facts;

static inline void read_setting(facts *f, const char *line)
{
    assert_true(f->n_settings < MOST_SETTINGS);
    assert_int_equal(sscanf(line, "# workload %31s %63[^\n]", f->settings[f->n_settings].key,
                            f->settings[f->n_settings].value),
                     2);
    f->n_settings++;
}

static inline void read_header(facts *f, const char *line)
{
    static const struct {
        const char *key;
        size_t at;
    } numbers[] = {
        { "batch", offsetof(facts, batch) },
        { "tokens", offsetof(facts, tokens) },
        { "decode", offsetof(facts, decode) },
    }, words[] = {
        { "case", offsetof(facts, case_name) }, { "model_type", offsetof(facts, model_type) },
        { "transformers", offsetof(facts, version) }, { "implementation", offsetof(facts, implementation) },
        { "dtype", offsetof(facts, dtype) }, { "logits", offsetof(facts, logits) },
        { "experts", offsetof(facts, experts) }, { "routing", offsetof(facts, routing) },
    };
    char key[32], value[32];
    if (sscanf(line, "# %31s %31s", key, value) != 2)
        return;
    if (strcmp(key, "config") == 0) {
        assert_true(strlen(line) < sizeof(f->config));
        snprintf(f->config, sizeof(f->config), "%s", line + strlen("# config "));
    }
    if (strcmp(key, "workload") == 0)
        read_setting(f, line);
    f->encodes = f->encodes || strcmp(key, "encoder") == 0;
    if (strcmp(key, "generate") == 0)
        sscanf(line, "# generate {\"num_beams\": %llu", &f->beams);
    if (strcmp(key, "inputs") == 0)
        sscanf(line, "# inputs {\"pixel_values\": {\"shape\": [%llu,", &f->patches);
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
    char name[240];
    if (line[0] == '#') {
        read_header(f, line);
    } else if (sscanf(line, "O %u %239s", &op, name) == 2) {
        assert_true(op < MOST_OPS);
        strcpy(f->ops[op], name);
    } else if (line[0] == '=') {
        fact_event *e = add_event(f, '=');
        snprintf(e->place, sizeof(e->place), "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
    } else if (strchr("PBS", line[0]) == NULL) { /* those of order-*.tsv */
        read_words(f, line, n_storages);
    }
}

static inline facts *read_facts(const char *folder, const char *name)
{
    static char line[sizeof(((facts *)0)->config)];
    facts *f = calloc(1, sizeof(*f));
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *in = fopen(path, "r");
    unsigned n_storages = 0;
    assert_non_null(f);
    if (in == NULL)
        fail_msg("%s is not there", path);
    snprintf(f->name, sizeof(f->name), "%.90s", name);
    snprintf(f->folder, sizeof(f->folder), "%s", folder);
    while (in != NULL && fgets(line, sizeof(line), in) != NULL)
        read_line(f, line, &n_storages);
    if (in != NULL)
        fclose(in);
    return f;
}

/* ---- the same model and workload here ---- */

/* "float32", "8x1536x2048" as a header of safetensors says it. */
static inline void put_recorded(world *w, const char *name, const char *dtype, const char *dims)
{
    static const char *const words[][2] = {
        { "bfloat16", "BF16" }, { "float16", "F16" }, { "float32", "F32" }, { "int64", "I64" }
    };
    assert_true(w->n < MOST_TENSORS);
    named_tensor *t = &w->list[w->n++];
    *t = (named_tensor){ .rows = 1 };
    snprintf(t->name, sizeof(t->name), "%s", name);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(dtype, words[i][0]) == 0)
            strcpy(t->dtype, words[i][1]);
    }
    if (t->dtype[0] == '\0')
        fail_msg("%s is of %s", name, dtype);
    if (strcmp(dims, "-") == 0)
        return;
    snprintf(t->dims, sizeof(t->dims), "%s", dims);
    for (char *p = t->dims; p != NULL; p = strchr(p, 'x')) {
        unsigned long long n;
        if (*p == 'x')
            *p++ = ',';
        assert_int_equal(sscanf(p, "%llu", &n), 1);
        t->rows *= n;
    }
}

/* The tensors a checkpoint of that class has: order-*.tsv of the same case and version. */
static inline void put_stored(world *w, const facts *f)
{
    char path[512], line[512], name[128], dtype[16], dims[64];
    snprintf(path, sizeof(path), "%s/order-%s-%s.tsv", f->folder, f->case_name, f->version);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        fail_msg("%s is not there", path);
    while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        if (sscanf(line, "S %127s %15s %63s", name, dtype, dims) == 3)
            put_recorded(w, name, dtype, dims);
    }
    if (in != NULL)
        fclose(in);
}

static inline bool is_packed(const facts *f)
{
    return strstr(f->config, "quantization_config") != NULL;
}

/* With the very config.json that the real class was made from. */
static inline void open_facts(world *w, const facts *f)
{
    static const shape recorded = { .dtype = NULL };
    *w = (world){ .h = { 0 } };
    strcpy(w->config, f->config);
    if (is_packed(f)) { /* its tensors follow from the configuration */
        open_config_alone(w);
        set(w, "engine_version", f->version);
        return;
    }
    w->list = calloc(MOST_TENSORS, sizeof(*w->list));
    assert_non_null(w->list);
    put_stored(w, f);
    assert_true(w->n > 0);
    seal(w, &recorded);
    open_made(w, &recorded);
    set(w, "engine_version", f->version);
}

/* sdpa's plain products are what a card before Ampere takes for bfloat16. */
static inline void plan_facts(world *w, const facts *f, vr_plan *plan, vr_arena *a)
{
    bool math = strcmp(f->implementation, "math") == 0;
    vr_device_facts device = ampere;
    if (math)
        device.cc_major = 7;
    if (is_packed(f)) /* below, FP8 is unpacked */
        device.cc_minor = 9;
    open_facts(w, f);
    set(w, "attention", math ? "sdpa" : f->implementation);
    set(w, "dtype", f->dtype);
    set(w, "logits", f->logits);
    set_number(w, "context", f->tokens);
    set_number(w, "sequences", f->batch);
    set_number(w, "decode", f->decode);
    w->w->experts = strcmp(f->experts, "eager") == 0        ? VR_EXPERTS_EAGER
                    : strcmp(f->experts, "batched_mm") == 0 ? VR_EXPERTS_BATCHED
                                                            : VR_EXPERTS_GROUPED;
    w->w->expert_load = strcmp(f->routing, "first") == 0 ? VR_LOAD_SAME : VR_LOAD_EVEN;
    for (size_t i = 0; i < f->n_settings; i++)
        set(w, f->settings[i].key, f->settings[i].value);
    if (make_plan(w, &device, plan, a) != VRAM_OK)
        fail_msg("%s: %s", f->name, vram_last_error(w->ctx)->text);
}

/* ---- all of them ---- */

/* VRAM_ORACLE_FACTS: another folder of facts; VRAM_ORACLE_ONLY: the names that contain this. */
static inline const char *facts_folder(void)
{
    const char *other = getenv("VRAM_ORACLE_FACTS");
    return other != NULL && other[0] != '\0' ? other : VRAM_FACTS;
}

/* Calls for each file of the folder, orders or runs; says how many. */
static inline size_t each_facts(bool orders, void (*call)(const char *folder, const char *name, void *),
                                void *user)
{
    const char *only = getenv("VRAM_ORACLE_ONLY"), *folder = facts_folder();
    DIR *d = opendir(folder);
    size_t n = 0;
    if (d == NULL)
        fail_msg("%s is not there", folder);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        bool is_order = strncmp(e->d_name, "order-", 6) == 0;
        if (strstr(e->d_name, ".tsv") == NULL || is_order != orders ||
            (only != NULL && strstr(e->d_name, only) == NULL))
            continue;
        call(folder, e->d_name, user);
        n++;
    }
    closedir(d);
    return n;
}

/* The folder of this repository, whole. */
static inline bool all_facts(void)
{
    return getenv("VRAM_ORACLE_ONLY") == NULL && getenv("VRAM_ORACLE_FACTS") == NULL;
}

#endif
