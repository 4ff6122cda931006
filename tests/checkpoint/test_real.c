/* SPDX-License-Identifier: MIT
 * Directories of real models, with the names and shapes of the published ones and holes for data. They are
 * made from data/configs by tools/make_checkpoint.py, both in the folder named by VRAM_DATA, otherwise in
 * ../shared beside the source. Figures: data/configs/total_size.tsv, which agrees with what the publishers'
 * indexes say.
 *
 *   test_real SOURCE-ROOT */
#define _XOPEN_SOURCE 700

#include "source.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vram_io.h"

static char data_dir[1024], made[1024];

/* Paths are quoted for the shell; none has a quote in it. */
static bool make(const char *config, const char *options)
{
    char command[3 * PATH_MAX];
    snprintf(
        command, sizeof(command),
        "rm -rf '%s' && python3 '%s/tools/make_checkpoint.py' '%s/data/configs/%s.json' '%s' %s >/dev/null",
        made, data_dir, data_dir, config, made, options);
    return system(command) == 0;
}

typedef struct opened {
    hook memory;
    vram_io *io;
    vram_ctx *ctx;
    vram_checkpoint *ck;
} opened;

static opened *open_made(void)
{
    opened *o = calloc(1, sizeof(*o));
    assert_non_null(o);
    assert_int_equal(vram_io_new(&o->io), VRAM_OK);
    assert_int_equal(vram_open(&o->ctx, hook_alloc, &o->memory), VRAM_OK);
    if (vram_io_open_path(&o->ck, o->io, o->ctx, made) != VRAM_OK)
        fail_msg("%s", vram_last_error(o->ctx)->text);
    return o;
}

static void close_made(opened *o)
{
    vram_close(o->ctx);
    vram_io_free(o->io);
    assert_int_equal(o->memory.live_blocks, 0);
    free(o);
}

static size_t count_missing(const vram_checkpoint *ck)
{
    size_t n = 0;
    for (size_t i = 0; i < ck->n_files; i++)
        n += ck->files[i].missing;
    return n;
}

static void test_qwen_7b(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        size_t files, tensors, missing, missing_tensors;
        bool incomplete;
        uint64_t promised;
    } rows[] = {
        { "", 4, 339, 0, 0, false, UINT64_C(15231233024) },
        { "--single", 1, 339, 0, 0, false, 0 },
        { "--no-index", 4, 339, 0, 0, false, 0 },
        { "--drop-shard 2", 4, 217, 1, 122, true, UINT64_C(15231233024) },
        { "--drop-shard 2 --no-index", 4, 217, 1, 0, true, 0 },
        { "--drop-shard 4 --no-index", 4, 338, 1, 0, true, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(make("Qwen--Qwen2.5-7B-Instruct", rows[i].options));
        opened *o = open_made();
        const vram_checkpoint *ck = o->ck;
        assert_int_equal(ck->n_files, rows[i].files);
        assert_int_equal(count_missing(ck), rows[i].missing);
        assert_int_equal(ck->incomplete, rows[i].incomplete);
        assert_int_equal(ck->promised_bytes, rows[i].promised);
        assert_int_equal(ck->n_missing_tensors, rows[i].missing_tensors);
        assert_int_equal(ck->n_tensors, rows[i].tensors);
        if (!rows[i].incomplete) {
            assert_int_equal(ck->tensor_bytes, UINT64_C(15231233024));
            assert_int_equal(ck->elements, UINT64_C(7615616512));
            const vr_tensor *t = vr_checkpoint_find(ck, VR_LIT("model.layers.23.mlp.down_proj.weight"));
            assert_non_null(t);
            assert_int_equal(t->end - t->begin, 135790592); /* 3584 x 18944 x 2 */
        }
        close_made(o);
    }
}

/* Every model whose size is known, to the byte. */
static void test_sizes(void **state)
{
    (void)state;
    char path[PATH_MAX + 64], line[2048], config[512];
    snprintf(path, sizeof(path), "%s/data/configs/total_size.tsv", data_dir);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        char *bytes = strchr(line, '\t'), *slash = strchr(line, '/');
        if (line[0] == '#' || bytes == NULL || slash == NULL)
            continue;
        snprintf(config, sizeof(config), "%.*s--%.*s", (int)(slash - line), line, (int)(bytes - slash - 1),
                 slash + 1);
        assert_true(make(config, ""));
        opened *o = open_made();
        if (o->ck->tensor_bytes != strtoull(bytes + 1, NULL, 10))
            fail_msg("%s: %llu bytes", config, (unsigned long long)o->ck->tensor_bytes);
        assert_true(o->ck->has_config);
        close_made(o);
        n++;
    }
    fclose(f);
    assert_true(n >= 37);
}

/* 90,427 tensors in 135 files (deepseek-ai/DeepSeek-V3; its 61 layers without the one for multi-token
 * prediction). */
static void test_deepseek_v3(void **state)
{
    (void)state;
    assert_true(make("deepseek-ai--DeepSeek-V3", ""));
    opened *o = open_made();
    const vram_checkpoint *ck = o->ck;
    assert_int_equal(ck->n_files, 135);
    assert_int_equal(ck->n_tensors, 90427);
    assert_int_equal(ck->tensor_bytes, UINT64_C(673150611808));
    assert_int_equal(ck->promised_bytes, ck->tensor_bytes);
    /* A budget instead of a clock: what is fetched, what is allocated, how often. */
    assert_true(vram_io_bytes(o->io) < UINT64_C(23000000));
    assert_true(o->memory.peak_bytes < 14000000);
    assert_true(o->memory.n_calls < 40);
    print_message("%llu bytes fetched, %zu allocated in %zu calls\n",
                  (unsigned long long)vram_io_bytes(o->io), o->memory.peak_bytes, o->memory.n_calls);
    close_made(o);
}

/* 0: there; 77 or 1: the test ends with that. */
static int find_data(const char *root)
{
    char tool[PATH_MAX + 64];
    const char *data = getenv("VRAM_DATA");
    snprintf(data_dir, sizeof(data_dir), "%s%s", data != NULL ? data : root,
             data != NULL ? "" : "/../shared");
    snprintf(tool, sizeof(tool), "%s/tools/make_checkpoint.py", data_dir);
    if (access(tool, R_OK) == 0)
        return 0;
    printf("%s: no %s\n", data != NULL ? "failed" : "skipped", tool);
    return data != NULL ? 1 : 77;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen_7b),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_deepseek_v3),
    };
    char base[1000], command[PATH_MAX];
    const char *tmp = getenv("TMPDIR");
    int data = argc == 2 ? find_data(argv[1]) : 2;
    if (data != 0)
        return data;
    snprintf(base, sizeof(base), "%s/vram-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(base) == NULL)
        return 1;
    snprintf(made, sizeof(made), "%s/model", base);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -rf '%s'", base);
    return system(command) == 0 ? failed : 1;
}
