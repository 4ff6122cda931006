/* SPDX-License-Identifier: MIT
 * Real configurations: parameter counts of every dense model against data/configs/total_size.tsv (three of
 * its figures are the publishers' own), cache sizes against published ones, and every other configuration
 * read without a guess. Checkpoints are made by tools/make_checkpoint.py of the data folder: real names and
 * shapes, data a hole. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static char data[3072]; /* the folder with data/ and tools/ */
static char work[64] = "/tmp/vram-test-XXXXXX";

typedef struct directory {
    hook h;
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    void *blocks[256];
    size_t n_blocks;
} directory;

static void supply_from_disk(directory *d, const char *folder)
{
    const vram_want *w;
    size_t n = vram_checkpoint_wants(d->ck, &w);
    for (size_t i = 0; i < n; i++) {
        char path[4096];
        if (w[i].kind == VRAM_WANT_LISTING)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, w[i].file);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        assert_int_equal(fseek(f, (long)w[i].offset, SEEK_SET), 0);
        size_t most = w[i].most < ((size_t)16 << 20) ? (size_t)w[i].most : (size_t)16 << 20;
        char *p = malloc(most + 1);
        assert_non_null(p);
        assert_true(d->n_blocks < sizeof d->blocks / sizeof *d->blocks);
        d->blocks[d->n_blocks++] = p;
        size_t got = fread(p, 1, most, f);
        fclose(f);
        vram_checkpoint_supply(d->ck, w[i].file, w[i].offset, p, got);
    }
}

static void list_directory(directory *d, const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            assert_int_equal(vram_checkpoint_add_file(d->ck, e->d_name, (uint64_t)st.st_size), VRAM_OK);
    }
    closedir(dir);
    assert_int_equal(vram_checkpoint_listed(d->ck), VRAM_OK);
}

static void open_directory(directory *d, const char *folder)
{
    vram_status s;
    *d = (directory){ 0 };
    assert_int_equal(vram_open(&d->ctx, hook_alloc, &d->h), VRAM_OK);
    assert_int_equal(vram_checkpoint_new(&d->ck, d->ctx, folder), VRAM_OK);
    list_directory(d, folder);
    while ((s = vram_checkpoint_step(d->ck)) == VRAM_MORE)
        supply_from_disk(d, folder);
    assert_int_equal(s, VRAM_OK);
    assert_int_equal(vram_model_new(&d->m, d->ck), VRAM_OK);
}

static void close_directory(directory *d)
{
    vram_close(d->ctx);
    assert_int_equal(d->h.live_bytes, 0);
    for (size_t i = 0; i < d->n_blocks; i++)
        free(d->blocks[i]);
}

static void path_of_config(char *path, size_t n, const char *model)
{
    char name[256];
    size_t k = 0;
    for (; *model != '\0' && k + 3 < sizeof name; model++) {
        if (*model == '/')
            name[k++] = '-';
        name[k++] = *model == '/' ? '-' : *model;
    }
    name[k] = '\0';
    snprintf(path, n, "%s/data/configs/%s.json", data, name);
}

static void make(directory *d, const char *model, const char *options)
{
    char config[4096], command[8192];
    path_of_config(config, sizeof config, model);
    snprintf(command, sizeof command,
             "rm -rf %s/c && python3 '%s/tools/make_checkpoint.py' '%s' %s/c %s >%s/log", work, data, config,
             work, options, work);
    assert_int_equal(system(command), 0);
    char folder[128];
    snprintf(folder, sizeof folder, "%s/c", work);
    open_directory(d, folder);
}

/* What the class has, from the model's facts alone. */
static uint64_t parameters(const vram_model *m)
{
    const vr_family *f = m->family;
    uint64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, h = m->hidden;
    uint64_t layer = h * (q + 2 * kv) + q * h + 3 * h * m->ffn + 2 * h;
    layer += m->qkv_bias ? q + 2 * kv : 0;
    layer += m->o_bias ? h : 0;
    layer += m->mlp_bias ? 2 * m->ffn + h : 0;
    layer += f->qk_norm ? 2 * m->head_dim : 0;
    layer += m->modules[VR_MODULE_POST_MLP].n != 0 ? 2 * h : 0;
    return m->n_layers * layer + m->vocab * h * (m->tied ? 1 : 2) + h;
}

static bool is_dense(const char *model)
{
    char path[4096], text[8192];
    path_of_config(path, sizeof path, model);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return strstr(text, "num_experts") == NULL && strstr(text, "num_local_experts") == NULL;
}

static void parameter_counts(void **state)
{
    char path[4096], line[1024], model[256];
    unsigned long long bytes;
    unsigned checked = 0, published = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/data/configs/total_size.tsv", data);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        directory d;
        if (line[0] == '#' || sscanf(line, "%255s %llu", model, &bytes) != 2 || !is_dense(model))
            continue;
        make(&d, model, "");
        if (d.m->family == NULL)
            fail_msg("%s: %s", model, d.m->not_understood);
        if (d.ck->tensor_bytes != bytes || parameters(d.m) * 2 != bytes || d.ck->elements * 2 != bytes)
            fail_msg("%s: %llu bytes, headers %llu, model %llu", model, bytes,
                     (unsigned long long)d.ck->tensor_bytes, (unsigned long long)parameters(d.m) * 2);
        assert_int_equal(vram_warnings(d.ctx, &(const vram_warning *){ NULL }), 0);
        published += bytes == 15231233024 || bytes == 16060522496 || bytes == 14483464192;
        checked++;
        close_directory(&d);
    }
    fclose(f);
    printf("%u dense models agree\n", checked);
    assert_true(checked >= 32 && published >= 3);
}

static void a_shard_is_missing(void **state)
{
    (void)state;
    for (unsigned shard = 1; shard <= 4; shard++) {
        directory d;
        char options[64];
        snprintf(options, sizeof options, "--drop-shard %u%s", shard, shard == 4 ? " --no-index" : "");
        make(&d, "Qwen/Qwen2.5-7B-Instruct", options);
        assert_non_null(d.m->family);
        assert_int_equal(d.m->n_layers, 28);
        assert_int_equal(d.m->kv_bytes_per_token_16bit, 57344); /* 56 KiB */
        assert_true(d.ck->incomplete);
        close_directory(&d);
    }
}

static char *read_config(const char *path)
{
    char *text = calloc(1, (size_t)8 << 20);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, ((size_t)8 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static bool wears_a_known_name(const char *text)
{
    static const char key[] = "\n \"model_type\": \""; /* the outermost one */
    const char *at = strstr(text, key);
    at = at != NULL ? at + sizeof key - 1 : "";
    return vr_family_find((vr_str){ at, strcspn(at, "\"") }) != NULL;
}

/* Without tensors to contradict: known rows are understood, all others are refused with a reason. */
static void every_configuration(void **state)
{
    char folder[4096], path[8192];
    unsigned understood = 0, not_known = 0;
    (void)state;
    snprintf(folder, sizeof folder, "%s/data/configs", data);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        world w = { 0 };
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        char *text = read_config(path);
        open_world(&w, text);
        assert_int_equal(w.status, VRAM_OK);
        const char *why = w.m->not_understood;
        bool unstated = why != NULL && strstr(why, "does not state") != NULL;
        if ((w.m->family != NULL) != wears_a_known_name(text) && !unstated)
            fail_msg("%s: %s", e->d_name, w.m->not_understood != NULL ? w.m->not_understood : "understood");
        understood += w.m->family != NULL;
        not_known += w.m->family == NULL && w.m->not_understood != NULL;
        close_world(&w);
        free(text);
    }
    closedir(dir);
    printf("%u understood, %u not\n", understood, not_known);
    assert_true(understood >= 60 && understood + not_known >= 150);
}

/* Cache bytes of one token in 16 bits: Llama 3.1 8B 128 KiB (the model's card and every paper on GQA),
 * Qwen2.5 1.5B 112 MiB for 4,096 tokens, as measured. */
static void cache_of_one_token(void **state)
{
    static const struct {
        const char *model;
        uint64_t bytes;
    } cases[] = {
        { "meta-llama/Llama-3.1-8B-Instruct", 131072 },
        { "meta-llama/Llama-3.3-70B-Instruct", 327680 },
        { "meta-llama/Llama-2-7b-hf", 524288 },
        { "Qwen/Qwen2.5-1.5B-Instruct", UINT64_C(112) * 1024 * 1024 / 4096 },
        { "Qwen/Qwen3-8B", 147456 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = { 0 };
        char path[4096];
        path_of_config(path, sizeof path, cases[i].model);
        char *text = read_config(path);
        add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
        open_world(&w, text);
        assert_int_equal(w.m->kv_bytes_per_token_16bit, cases[i].bytes);
        close_world(&w);
        free(text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts),
        cmocka_unit_test(a_shard_is_missing),
        cmocka_unit_test(every_configuration),
        cmocka_unit_test(cache_of_one_token),
    };
    const char *given = getenv("VRAM_DATA");
    struct stat st;
    char probe[4096], command[128];
    if (argc != 2)
        return 2;
    snprintf(data, sizeof data, "%s%s", given != NULL ? given : argv[1], given != NULL ? "" : "/../shared");
    snprintf(probe, sizeof probe, "%s/data/configs/total_size.tsv", data);
    if (stat(probe, &st) != 0) {
        printf("%s: there is no %s\n", given != NULL ? "failed" : "skipped", probe);
        return given != NULL ? 1 : 77;
    }
    if (mkdtemp(work) == NULL)
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", work);
    return system(command) != 0 || failed != 0;
}
