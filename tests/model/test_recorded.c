/* SPDX-License-Identifier: MIT
 * What transformers 5.24 makes of 112 configurations, most of them partly silent, against what we make of
 * them: recorded.tsv, made by record_configs.py. And of those that say nothing but their class:
 * class_defaults.tsv, made by tests/oracle/class_defaults.py. */
#include "support.h"

#define FIELDS 18

static const char *table, *defaults_table;

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

/* ---- configurations that are silent ---- */

/* Rows whose figures are not the class's, or that are not understood without more. */
static const struct {
    const char *model_type, *why;
} apart[] = {
    { "mt5", "version 4's default: published files have a head of their own" },
    { "glm4_moe", "the class's default has heads of no whole width" },
    { "deepseek_v2", "by default a token takes no expert" },
    { "granitemoehybrid", "which layers attend is not said" },
    { "nemotron_h", "what the layers are is not said" },
};
static bool is_needed[sizeof apart / sizeof *apart];

/* States that checkpoints hold are no parameters. */
static uint64_t parameters_of(const vram_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n_declared; i++) {
        uint8_t kind = m->declared[i].kind;
        if (kind <= VR_PARAM_CONV)
            n += m->declared[i].elements;
    }
    return n;
}

static bool agrees(const char *what, const char *model_type, uint64_t ours, const char *recorded)
{
    if (strcmp(recorded, "-") == 0 || ours == strtoull(recorded, NULL, 10))
        return true;
    print_message("%s: %s of %llu, transformers has %s\n", model_type, what, (unsigned long long)ours,
                  recorded);
    return false;
}

/* f: type, parameters, layers, sliding layers, window */
static bool has_layers(const vram_model *m, char **f)
{
    uint64_t sliding = 0, window = 0;
    for (uint64_t i = 0; i < m->n_layers; i++) {
        bool slides = m->layers[i].attention == VR_ATTENTION_SLIDING;
        sliding += slides;
        window = slides ? m->layers[i].window : window;
    }
    return agrees("layers", f[0], m->n_layers, f[2]) && agrees("sliding layers", f[0], sliding, f[3]) &&
           agrees("window", f[0], window, f[4]);
}

static void check_defaults(char **f)
{
    char config[128];
    size_t i = 0;
    world w = { 0 };
    snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", f[0]);
    open_world(&w, config);
    assert_int_equal(w.status, VRAM_OK);
    bool understood = w.m->family != NULL && w.m->not_understood == NULL;
    bool same = understood && agrees("parameters", f[0], parameters_of(w.m), f[1]);
    if (understood && !has_layers(w.m, f))
        fail_msg("the layers of %s are not the class's", f[0]);
    while (i < sizeof apart / sizeof *apart && strcmp(apart[i].model_type, f[0]) != 0)
        i++;
    if (i < sizeof apart / sizeof *apart)
        is_needed[i] = !same;
    else if (!same)
        fail_msg("%s is not as the class: %s", f[0], w.m->not_understood != NULL ? w.m->not_understood : "");
    close_world(&w);
}

static void class_defaults(void **state)
{
    static char line[256];
    unsigned rows = 0;
    (void)state;
    FILE *in = fopen(defaults_table, "r");
    assert_non_null(in);
    for (; fgets(line, sizeof line, in) != NULL;) {
        char *f[FIELDS];
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        assert_int_equal(split(line, f), 5);
        check_defaults(f);
        rows++;
    }
    fclose(in);
    assert_true(rows >= 75);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (!is_needed[i])
            fail_msg("%s is as the class: %s is no excuse", apart[i].model_type, apart[i].why);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_transformers), cmocka_unit_test(class_defaults) };
    if (argc != 3)
        return 2;
    table = argv[1];
    defaults_table = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
