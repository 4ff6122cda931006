/* SPDX-License-Identifier: MIT
 * The built-in catalogue: every row can be read, every name is one model's; and where the whole
 * configurations are at hand (VRAM_DATA), a row says the same as the configuration that it was made from. */
#include <sys/stat.h>

#include "model/catalogue.h"
#include "support.h"

static char data[3072]; /* the folder with data/configs; "": there is none */

typedef struct opened {
    hook h;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
} opened;

static void open_row(opened *o, const char *name)
{
    *o = (opened){ 0 };
    assert_int_equal(vram_open(&o->ctx, hook_alloc, &o->h), VRAM_OK);
    if (vram_checkpoint_catalogue(&o->ck, o->ctx, name) != VRAM_OK || vram_model_new(&o->m, o->ck) != VRAM_OK)
        fail_msg("%s: %s", name, vram_last_error(o->ctx)->text);
}

static void close_row(opened *o)
{
    vram_close(o->ctx);
    assert_int_equal(o->h.live_blocks, 0);
}

static void every_row(void **state)
{
    size_t n;
    const vr_catalogue_row *row = vr_catalogue(&n);
    (void)state;
    assert_true(n > 140);
    for (size_t i = 0; i < n; i++) {
        opened o;
        open_row(&o, row[i].name);
        assert_string_equal(o.ck->name, row[i].repo);
        assert_ptr_equal(o.ck->catalogue, &row[i]);
        assert_true(o.ck->config_only);
        if (o.m->family == NULL)
            assert_non_null(o.m->not_understood);
        assert_true((o.m->weights_unknown != NULL) == (o.m->checkpoint->n_tensors == 0));
        if (row[i].lacks != NULL && o.m->family != NULL)
            assert_non_null(o.m->weights_unknown);
        close_row(&o);
    }
}

/* metadata.total_size of the publishers' indexes; DeepSeek-V3 without its layers that predict further tokens,
 * as tests/checkpoint/test_real.c has it. */
static void published_sizes(void **state)
{
    static const struct {
        const char *name;
        uint64_t bytes, tensors; /* 0: not looked at */
    } sizes[] = {
        { "gpt-oss-20b", UINT64_C(13761264768), 459 },
        { "gpt-oss-120b", UINT64_C(65248815744), 687 },
        { "deepseek-v3", UINT64_C(673150611808), 90427 },
        { "qwen2.5-7b", UINT64_C(15231233024), 339 },
        { "llama-3.1-8b-instruct", UINT64_C(16060522496), 291 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        opened o;
        open_row(&o, sizes[i].name);
        if (o.m->checkpoint->tensor_bytes != sizes[i].bytes || o.m->checkpoint->n_tensors != sizes[i].tensors)
            fail_msg("%s: %llu bytes in %zu tensors", sizes[i].name,
                     (unsigned long long)o.m->checkpoint->tensor_bytes, o.m->checkpoint->n_tensors);
        close_row(&o);
    }
}

static void is_row(const char *name, const vr_catalogue_row *row)
{
    char upper[128];
    size_t n = strlen(name);
    assert_true(n < sizeof upper);
    for (size_t i = 0; i <= n; i++)
        upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
    assert_ptr_equal(vr_catalogue_find(vr_str_of(name)), row);
    assert_ptr_equal(vr_catalogue_find(vr_str_of(upper)), row);
    assert_string_equal(vram_catalogue_name(name), row->name);
}

static void every_name(void **state)
{
    size_t n;
    const vr_catalogue_row *row = vr_catalogue(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        char aliases[512];
        is_row(row[i].name, &row[i]);
        is_row(row[i].repo, &row[i]);
        snprintf(aliases, sizeof aliases, "%s", row[i].aliases != NULL ? row[i].aliases : "");
        for (char *word = strtok(aliases, " "); word != NULL; word = strtok(NULL, " "))
            is_row(word, &row[i]);
        if (i != 0)
            assert_true(strcmp(row[i - 1].name, row[i].name) < 0);
        for (const char *c = row[i].name; *c != '\0'; c++) /* a bare word: no path, no repository */
            assert_true((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || strchr("-._", *c) != NULL);
    }
    assert_null(vr_catalogue_find(vr_str_of("")));
    assert_null(vr_catalogue_find(vr_str_of("qwen3")));
    assert_null(vram_catalogue_name("no-such-model"));
}

static void near_names(void **state)
{
    static const char *const pairs[][2] = { { "qwen3-33b", "qwen3-32b" },
                                            { "Llama3.1-8B", "llama-3.1-8b" },
                                            { "qwen3:32b", "qwen3-32b" },
                                            { "gpt_oss_20b", "gpt-oss-20b" },
                                            { "mixtral", "mixtral-8x22b-v0.1" } };
    vram_ctx *ctx;
    hook h = { 0 };
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(vram_catalogue_near(ctx, pairs[i][0]), pairs[i][1]);
    assert_null(vram_catalogue_near(ctx, "bert-base-uncased"));
    assert_null(vram_catalogue_near(ctx, ""));
    vram_checkpoint *ck;
    assert_int_equal(vram_checkpoint_catalogue(&ck, ctx, "bert"), VRAM_ENOTFOUND);
    vram_close(ctx);
    assert_int_equal(h.live_blocks, 0);
}

static void repetitions(void **state)
{
    static const struct {
        const char *packed, *text;
    } cases[] = {
        { "{\"a\":[1,2]}", "{\"a\":[1,2]}" },
        { "[*3(1)]", "[1,1,1]" },
        { "[0,*2(1,\"a\"),3]", "[0,1,\"a\",1,\"a\",3]" },
        { "[*2([*2({\"x\":1}),2])]", "[[{\"x\":1},{\"x\":1},2],[{\"x\":1},{\"x\":1},2]]" },
        { "[\"*2(a)\",\"\\\\\\\"*2(\"]", "[\"*2(a)\",\"\\\\\\\"*2(\"]" },
    };
    vram_ctx *ctx;
    hook h = { 0 };
    vr_arena a;
    (void)state;
    assert_int_equal(vram_open(&ctx, hook_alloc, &h), VRAM_OK);
    vr_arena_init(&a, ctx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const vr_catalogue_row row = { .config = cases[i].packed };
        vr_str text = vr_catalogue_config(&row, &a);
        assert_int_equal(text.n, strlen(cases[i].text));
        assert_memory_equal(text.s, cases[i].text, text.n);
    }
    vr_arena_free(&a);
    vram_close(ctx);
}

/* ---- against the whole configurations ---- */

static char *read_whole(const char *repo)
{
    char path[4096], name[256];
    size_t k = 0;
    for (; *repo != '\0' && k + 3 < sizeof name; repo++) {
        if (*repo == '/')
            name[k++] = '-';
        name[k++] = *repo == '/' ? '-' : *repo;
    }
    name[k] = '\0';
    snprintf(path, sizeof path, "%s/data/configs/%s.json", data, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    char *text = calloc(1, (size_t)8 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, ((size_t)8 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void same_text(const char *what, const char *model, const char *a, const char *b)
{
    if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0))
        fail_msg("%s: %s is %s, by the whole configuration %s", model, what, a != NULL ? a : "-",
                 b != NULL ? b : "-");
}

static void same_numbers(const char *model, const vram_model *a, const vram_model *b)
{
#define SAME(field)                                                                                          \
    if (a->field != b->field)                                                                                \
    fail_msg("%s: " #field " is %llu, by the whole configuration %llu", model, (unsigned long long)a->field, \
             (unsigned long long)b->field)
    SAME(n_layers);
    SAME(hidden);
    SAME(heads);
    SAME(kv_heads);
    SAME(head_dim);
    SAME(ffn);
    SAME(vocab);
    SAME(max_context);
    SAME(n_predict_layers);
    SAME(rotary_dim);
    SAME(experts);
    SAME(experts_used);
    SAME(expert_ffn);
    SAME(state_bytes);
    SAME(tied);
    SAME(dtype);
    SAME(quantised);
    SAME(attention_softcap);
    SAME(final_softcap);
    SAME(parameters);
    SAME(declared_parameters);
    SAME(n_declared);
    SAME(kv_bytes_per_token_16bit);
    SAME(packing.group_size);
    SAME(packing.bits_low);
    SAME(packing.bits_high);
    SAME(checkpoint->tensor_bytes);
    SAME(checkpoint->n_tensors);
#undef SAME
}

static void same_facts(const char *model, const vram_model *a, const vram_model *b)
{
    assert_int_equal(a->family == NULL, b->family == NULL);
    if (a->family != NULL) /* a setting may have made a row of its own */
        assert_memory_equal(a->family, b->family, sizeof *a->family);
    same_text("the class", model, a->architecture, b->architecture);
    same_text("model_type", model, a->model_type, b->model_type);
    same_text("what is not understood", model, a->not_understood, b->not_understood);
    same_text("what is not known", model, a->weights_unknown, b->weights_unknown);
    same_text("the quantisation", model, a->packing.title, b->packing.title);
    same_numbers(model, a, b);
    for (uint64_t i = 0; i < a->n_layers; i++)
        if (memcmp(&a->layers[i], &b->layers[i], sizeof a->layers[i]) != 0)
            fail_msg("%s: layer %llu differs", model, (unsigned long long)i);
    for (size_t i = 0; i < a->n_declared; i++) {
        assert_true(vr_str_eq(a->declared[i].name, b->declared[i].name));
        assert_memory_equal(a->declared[i].dims, b->declared[i].dims, sizeof a->declared[i].dims);
        assert_int_equal(a->declared[i].kind, b->declared[i].kind);
    }
}

static void as_published(void **state)
{
    size_t n, compared = 0;
    const vr_catalogue_row *row = vr_catalogue(&n);
    (void)state;
    if (data[0] == '\0')
        skip();
    for (size_t i = 0; i < n; i++) {
        opened o;
        world w = { 0 };
        char *text = row[i].note == NULL && row[i].lacks == NULL ? read_whole(row[i].repo) : NULL;
        if (text == NULL)
            continue;
        open_row(&o, row[i].name);
        open_world(&w, text);
        assert_int_equal(w.status, VRAM_OK);
        same_facts(row[i].name, o.m, w.m);
        compared++;
        close_world(&w);
        close_row(&o);
        free(text);
    }
    printf("%zu rows say what the whole configurations say\n", compared);
    assert_true(compared > 110);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),  cmocka_unit_test(published_sizes), cmocka_unit_test(every_name),
        cmocka_unit_test(near_names), cmocka_unit_test(repetitions),     cmocka_unit_test(as_published),
    };
    const char *given = getenv("VRAM_DATA");
    struct stat st;
    char probe[4096];
    if (argc != 2)
        return 2;
    snprintf(data, sizeof data, "%s%s", given != NULL ? given : argv[1], given != NULL ? "" : "/../shared");
    snprintf(probe, sizeof probe, "%s/data/configs/total_size.tsv", data);
    if (stat(probe, &st) != 0) {
        if (given != NULL)
            return 1;
        data[0] = '\0';
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
