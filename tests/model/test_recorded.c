/* SPDX-License-Identifier: MIT
 * What transformers 5.24 makes of 112 configurations, most of them partly silent, against what we make of
 * them: recorded.tsv, made by record_configs.py. */
#include "support.h"

#define FIELDS 18

static const char *table;

static size_t split(char *line, char **fields)
{
    size_t n = 0;
    for (char *at = line; at != NULL && n < FIELDS; n++) {
        fields[n] = at;
        at = n + 1 < FIELDS ? strchr(at, '\t') : NULL;
        if (at != NULL)
            *at++ = '\0';
    }
    return n;
}

static void compare_windows(const vram_model *m, const char *windows)
{
    for (uint64_t i = 0; i < m->n_layers; i++) {
        char *end;
        assert_int_equal(m->layers[i].window, strtoull(windows, &end, 10));
        assert_true(*end == (i + 1 < m->n_layers ? ',' : '\0'));
        windows = end + 1;
    }
}

static void compare(const vram_model *m, char **f)
{
    const uint64_t ours[] = { m->n_layers,   m->hidden, m->heads,    m->kv_heads,          m->head_dim,
                              m->rotary_dim, m->ffn,    m->vocab,    m->max_context,       m->tied,
                              m->qkv_bias,   m->o_bias, m->mlp_bias, m->attention_softcap, m->final_softcap };
    static const char *const names[] = {
        "layers",  "hidden", "heads",    "kv_heads", "head_dim", "rotary_dim",        "ffn",          "vocab",
        "context", "tied",   "qkv_bias", "o_bias",   "mlp_bias", "attention_softcap", "final_softcap"
    };
    if (m->family == NULL)
        fail_msg("%s: %s", f[FIELDS - 1], m->not_understood);
    assert_string_equal(m->family->model_type, f[0]);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (ours[i] != strtoull(f[i + 1], NULL, 10))
            fail_msg("%s: %s is %llu, transformers has %s", f[FIELDS - 1], names[i],
                     (unsigned long long)ours[i], f[i + 1]);
    compare_windows(m, f[16]);
}

static void as_transformers(void **state)
{
    static char line[8192];
    unsigned rows = 0;
    (void)state;
    FILE *in = fopen(table, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL) {
        char *f[FIELDS];
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || strncmp(line, "family\t", 7) == 0)
            continue;
        assert_int_equal(split(line, f), FIELDS);
        world w = { 0 };
        add(&w.s, "BF16", 8, 0, "model.", 0, "something.else");
        open_world(&w, f[FIELDS - 1]);
        assert_int_equal(w.status, VRAM_OK);
        compare(w.m, f);
        close_world(&w);
        rows++;
    }
    fclose(in);
    assert_int_equal(rows, 112);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_transformers) };
    if (argc != 2)
        return 2;
    table = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
