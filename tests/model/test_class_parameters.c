/* SPDX-License-Identifier: MIT
 * Every configuration of the built-in catalogue against the real class: parameters, tensors of a checkpoint,
 * kind of each layer and what its cache keeps (class_parameters.tsv, made by tests/oracle/class_parameters.py
 * from transformers on the meta device). A configuration that is not understood must say so. The same of
 * small ones of classes that the catalogue lacks (more_parameters.tsv, from tests/oracle/more_classes.json).
 */
#include "model/catalogue.h"
#include "support.h"

static const char *facts_path, *missing_path, *more_path;
static bool verbose;

#define MOST_LINES 256
#define MOST_KINDS 4096

/* One group of class_parameters.tsv: the lines after "M". */
typedef struct group {
    char class_name[64];
    unsigned long long parameters, embedding, head, buffers;
    char names[16][64];
    size_t n_names;
    char attention[2048];
    char config[4096]; /* empty: the catalogue's */
    char caches[MOST_LINES][512], tensors[MOST_LINES][512];
    size_t n_caches, n_tensors;
} group;

typedef struct totals {
    size_t understood, not_understood, partly, groups;
    unsigned long long parameters;
} totals;

static size_t n_differences;

__attribute__((format(printf, 1, 2))) static void differs(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    n_differences++;
}

/* ---- reading ---- */

static void keep(char (*list)[512], size_t *n, const char *line)
{
    assert_true(*n < MOST_LINES);
    snprintf(list[(*n)++], 512, "%.511s", line);
}

static void put_name(group *g, const char *name)
{
    assert_true(g->n_names < 16);
    snprintf(g->names[g->n_names++], 64, "%.63s", name);
}

static void read_line(group *g, char *line)
{
    char name[64];
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == 'M') {
        *g = (group){ .n_names = 0 };
        assert_int_equal(sscanf(line, "M %63s %63s %llu %llu %llu %llu", name, g->class_name, &g->parameters,
                                &g->embedding, &g->head, &g->buffers),
                         6);
        put_name(g, name);
    }
    if (line[0] == 'N')
        put_name(g, line + 2);
    if (line[0] == 'A')
        snprintf(g->attention, sizeof(g->attention), "%.2000s", line + 2);
    if (line[0] == 'J')
        snprintf(g->config, sizeof(g->config), "%s", line + 2);
    if (line[0] == 'C')
        keep(g->caches, &g->n_caches, line);
    if (line[0] == 'T')
        keep(g->tensors, &g->n_tensors, line);
}

/* "1x4xtx256": how many elements of a token, or in all when there is no t. */
static uint64_t elements_of(const char *dims, bool *by_token)
{
    uint64_t n = 1;
    *by_token = false;
    for (const char *p = dims; *p != '\0' && *p != ' ';
         p += strcspn(p, "x ") + (p[strcspn(p, "x ")] == 'x')) {
        if (*p == 't')
            *by_token = true;
        else if (*p != '-')
            n *= strtoull(p, NULL, 10);
    }
    return n;
}

/* ---- one model ---- */

static bool beside_decoder(const char *name)
{
    static const char *const parts[] = { "vision", "visual", "multi_modal", "image", "audio", "connector" };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strstr(name, parts[i]) != NULL)
            return true;
    }
    return false;
}

/* Of a T line. */
static uint64_t tensor_line(const char *line, char *dims, const char **name)
{
    unsigned long long count;
    bool by_token;
    assert_int_equal(sscanf(line, "T %llu %63s", &count, dims), 2);
    *name = strrchr(line, ' ') + 1;
    return count * elements_of(dims, &by_token);
}

/* Parameters of what stands beside the decoder. */
static uint64_t of_towers(const group *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        char dims[64];
        const char *name;
        uint64_t n = tensor_line(g->tensors[i], dims, &name);
        sum += beside_decoder(name) ? n : 0;
    }
    return sum;
}

static void shape_word(const vr_declared *d, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "%s", d->n_dims == 0 ? "-" : "");
    for (size_t i = 0; i < d->n_dims; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%llu", i != 0 ? "x" : "", (unsigned long long)d->dims[i]);
}

/* What stands beside the decoder is not described by this configuration. */
static bool is_partly(const char *name, const vram_model *m)
{
    const vr_catalogue_row *row = vr_catalogue_find(vr_str_of(name));
    return m->uncounted_part != NULL || (row != NULL && row->lacks != NULL);
}

/* ---- tensors of another form ---- */

/* Tensors that checkpoints of the class would have otherwise than is declared, as words of their names on
 * both sides. All others are compared, and of these that both sides hold as many elements. */
static const struct {
    const char *model; /* names of the catalogue begin so */
    const char *recorded[2], *declared[3], *why;
    bool one_for_one; /* as many tensors, not as many elements */
} otherwise[] = {
    { "kimi-k2.",
      { "vision_tower.encoder.blocks.{}.wqkv." },
      { ".attn.q_proj.", ".attn.k_proj.", ".attn.v_proj." },
      "queries, keys and values of the tower lie in one tensor",
      false },
    { "kimi-k2.",
      { "vision_tower.patch_embed.pos_emb." },
      { "vision_tower.patch_embed.pos_emb." },
      "positions in three dimensions",
      false },
    { "qwen3.5-",
      { ".mlp.experts." },
      { ".mlp.experts." },
      "published with the experts of a layer in one tensor, written by the class with each apart",
      false },
    { "qwen3.6-", { ".mlp.experts." }, { ".mlp.experts." }, "the same", false },
    { "qwen3-vl-235b-",
      { ".mlp.experts." },
      { ".mlp.experts." },
      "published with the inputs of experts first, written by the class with them last",
      false },
    { "qwen3-vl-30b-", { ".mlp.experts." }, { ".mlp.experts." }, "the same", false },
    { "deepseek-v4-",
      { ".ffn.gate.tid2eid", ".ffn.gate.bias" },
      { ".mlp.gate.e_score_correction_bias" },
      "the first layers look their experts up in a table and have no bias",
      true },
};
#define N_OTHERWISE (sizeof(otherwise) / sizeof(otherwise[0]))
static bool is_needed[N_OTHERWISE];

static bool is_of(size_t row, const char *model)
{
    return strncmp(model, otherwise[row].model, strlen(otherwise[row].model)) == 0;
}

static bool has_word(const char *const *words, size_t n, const char *name)
{
    for (size_t i = 0; i < n && words[i] != NULL; i++) {
        if (strstr(name, words[i]) != NULL)
            return true;
    }
    return false;
}

/* The row that the tensor is of, or N_OTHERWISE. */
static size_t row_of_recorded(const char *model, const char *name)
{
    size_t i = 0;
    while (i < N_OTHERWISE && !(is_of(i, model) && has_word(otherwise[i].recorded, 2, name)))
        i++;
    return i;
}

static size_t row_of_declared(const char *model, const vr_declared *d)
{
    char name[256];
    size_t i = 0;
    snprintf(name, sizeof(name), "%.*s", (int)d->name.n, d->name.s);
    while (i < N_OTHERWISE && !(is_of(i, model) && has_word(otherwise[i].declared, 3, name)))
        i++;
    return i;
}

static bool has_rows(const char *model)
{
    for (size_t i = 0; i < N_OTHERWISE; i++) {
        if (is_of(i, model))
            return true;
    }
    return false;
}

/* *all: those of another form too. */
static uint64_t declared_like(const char *name, const vram_model *m, const char *dims, uint64_t *all)
{
    bool rows = has_rows(name);
    uint64_t n = 0;
    *all = 0;
    for (size_t i = 0; i < m->n_declared; i++) {
        char own[64];
        shape_word(&m->declared[i], own, sizeof(own));
        if (!vr_param_is_stored(m->declared[i].kind) || strcmp(own, dims) != 0)
            continue;
        ++*all;
        n += !rows || row_of_declared(name, &m->declared[i]) == N_OTHERWISE;
    }
    return n;
}

/* Tensors of that shape in the checkpoint. */
static uint64_t recorded_like(const char *name, const group *g, const vram_model *m, const char *dims,
                              uint64_t *all)
{
    uint64_t n = 0;
    *all = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        char own[64];
        const char *pattern;
        unsigned long long count;
        tensor_line(g->tensors[i], own, &pattern);
        sscanf(g->tensors[i], "T %llu", &count);
        if ((is_partly(name, m) && beside_decoder(pattern)) || strcmp(own, dims) != 0)
            continue;
        *all += count;
        n += row_of_recorded(name, pattern) == N_OTHERWISE ? count : 0;
    }
    return n;
}

/* What a row names is there on both sides. */
static void check_row(const char *name, const group *g, const vram_model *m, size_t row)
{
    uint64_t recorded = 0, declared = 0;
    bool by_number = otherwise[row].one_for_one;
    for (size_t i = 0; i < g->n_tensors; i++) {
        char dims[64];
        const char *pattern;
        unsigned long long count;
        uint64_t elements = tensor_line(g->tensors[i], dims, &pattern);
        sscanf(g->tensors[i], "T %llu", &count);
        bool counts = !is_partly(name, m) || !beside_decoder(pattern);
        if (counts && row_of_recorded(name, pattern) == row)
            recorded += by_number ? count : elements;
    }
    for (size_t i = 0; i < m->n_declared; i++) {
        if (vr_param_is_stored(m->declared[i].kind) && row_of_declared(name, &m->declared[i]) == row)
            declared += by_number ? 1 : m->declared[i].elements;
    }
    if (recorded != declared)
        differs("%s: %llu %s like %s, we declare %llu", name, (unsigned long long)recorded,
                by_number ? "tensors" : "elements", otherwise[row].recorded[0], (unsigned long long)declared);
}

/* As many tensors of each shape. */
static void check_tensors(const char *name, const group *g, const vram_model *m)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        char dims[64];
        const char *pattern;
        uint64_t all_recorded, all_declared;
        tensor_line(g->tensors[i], dims, &pattern);
        uint64_t wanted = recorded_like(name, g, m, dims, &all_recorded);
        uint64_t ours = declared_like(name, m, dims, &all_declared);
        size_t row = row_of_recorded(name, pattern);
        if (is_partly(name, m) && beside_decoder(pattern))
            continue;
        if (row < N_OTHERWISE)
            is_needed[row] = is_needed[row] || all_recorded != all_declared;
        if (ours != wanted)
            differs("%s: %llu tensors of %s like %s, we declare %llu", name, (unsigned long long)wanted, dims,
                    pattern, (unsigned long long)ours);
    }
    for (size_t i = 0; i < N_OTHERWISE; i++) {
        if (is_of(i, name))
            check_row(name, g, m, i);
    }
}

static bool same_kind(const vr_layer *l, const char *kind, size_t n)
{
    static const struct {
        const char *word;
        uint8_t a, b;
    } kinds[] = {
        { "full_attention", VR_ATTENTION_FULL, VR_ATTENTION_LATENT },
        { "attention", VR_ATTENTION_FULL, VR_ATTENTION_LATENT },
        { "sliding_attention", VR_ATTENTION_SLIDING, VR_ATTENTION_SLIDING },
        { "chunked_attention", VR_ATTENTION_CHUNKED, VR_ATTENTION_CHUNKED },
        { "linear_attention", VR_ATTENTION_RECURRENT, VR_ATTENTION_RECURRENT },
        { "mamba", VR_ATTENTION_RECURRENT, VR_ATTENTION_RECURRENT },
        { "moe", VR_ATTENTION_NONE, VR_ATTENTION_NONE },
        { "mlp", VR_ATTENTION_NONE, VR_ATTENTION_NONE },
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].word) == n && memcmp(kinds[i].word, kind, n) == 0)
            return l->attention == kinds[i].a || l->attention == kinds[i].b;
    }
    return true; /* a kind of one class: its tensors and its cache are compared */
}

/* "3*sliding_attention full_attention ..." */
static void check_kinds(const char *name, const group *g, const vram_model *m)
{
    uint64_t layer = 0;
    for (const char *p = g->attention; *p != '\0'; p += *p == ' ') {
        char *kind;
        unsigned long times = strtoul(p, &kind, 10);
        times = kind == p ? 1 : times;
        kind += *kind == '*';
        size_t n = strcspn(kind, " ");
        for (; times > 0; times--, layer++) {
            if (layer >= m->n_layers || !same_kind(&m->layers[layer], kind, n))
                differs("%s: layer %llu is %.*s", name, (unsigned long long)layer, (int)n, kind);
        }
        p = kind + n;
    }
    assert_true(layer == 0 || layer == m->n_layers);
}

/* What all caches hold, by the name of their tensors. */
static uint64_t kept(const group *g, const char *word, bool of_token)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->n_caches; i++) {
        unsigned long long count;
        assert_int_equal(sscanf(g->caches[i], "C %llu", &count), 1);
        for (const char *p = strstr(g->caches[i], word); p != NULL; p = strstr(p + 1, word)) {
            bool by_token;
            uint64_t n = elements_of(p + strlen(word), &by_token);
            sum += by_token == of_token ? count * n : 0;
        }
    }
    return sum;
}

static void check_cache(const char *name, const group *g, const vram_model *m)
{
    uint64_t token = 0, conv = 0, state = 0, encoded = 0;
    assert_true(g->n_caches > 0);
    for (uint64_t i = 0; i < m->n_layers; i++) {
        bool latent = m->layers[i].attention == VR_ATTENTION_LATENT; /* 5.24 does not expand it */
        encoded +=
            m->source_positions * m->layers[i].cross_heads * (m->layers[i].key_dim + m->layers[i].value_dim);
        token += latent ? vr_layer_latent_elements(&m->layers[i]) : vr_layer_kv_elements(&m->layers[i]);
        conv += vr_layer_conv_elements(&m->layers[i]);
        state += vr_layer_state_elements(&m->layers[i]);
    }
    uint64_t keys = kept(g, " keys=", true) + kept(g, " values=", true);
    if (token != keys)
        differs("%s keeps %llu elements of a token, ours %llu", name, (unsigned long long)keys,
                (unsigned long long)token);
    if (encoded != kept(g, " keys=", false) + kept(g, " values=", false))
        differs("%s keeps other elements of its encoder than %llu", name, (unsigned long long)encoded);
    for (size_t i = 0; i < g->n_caches && g->config[0] != '\0'; i++) { /* states are counted in 32 bits */
        const char *at = strstr(g->caches[i], " recurrent_states=");
        if (at != NULL && strncmp(at + 18 + strcspn(at + 18, " :"), ":f32", 4) != 0)
            differs("%s: a recurrent state is not in fp32: %s", name, g->caches[i]);
    }
    if (conv != kept(g, " conv_states=", false) || state != kept(g, " recurrent_states=", false))
        differs("%s keeps %llu + %llu elements of a sequence, ours %llu + %llu", name,
                (unsigned long long)kept(g, " conv_states=", false),
                (unsigned long long)kept(g, " recurrent_states=", false), (unsigned long long)conv,
                (unsigned long long)state);
}

static void check_understood(const char *name, const group *g, const vram_model *m)
{
    bool partly = is_partly(name, m);
    uint64_t wanted = g->parameters - (partly ? of_towers(g) : 0);
    if (m->declared_parameters != wanted)
        differs("%s: %s has %llu parameters, ours %llu", name, g->class_name, (unsigned long long)wanted,
                (unsigned long long)m->declared_parameters);
    check_tensors(name, g, m);
    check_kinds(name, g, m);
    check_cache(name, g, m);
}

static void open_row(world *w, char **text, const char *name)
{
    vr_arena a;
    const vr_catalogue_row *row = vr_catalogue_find(vr_str_of(name));
    vram_ctx *ctx;
    if (row == NULL)
        fail_msg("there is no %s in the catalogue", name);
    assert_int_equal(vram_open(&ctx, hook_alloc, &w->h), VRAM_OK);
    vr_arena_init(&a, ctx);
    vr_str config = vr_catalogue_config(row, &a);
    *text = strndup(config.s, config.n);
    assert_non_null(*text);
    vr_arena_free(&a);
    vram_close(ctx);
    open_world(w, *text);
    assert_int_equal(w->status, VRAM_OK);
}

static void check_model(const char *name, const group *g, totals *t)
{
    world *w = calloc(1, sizeof(*w));
    char *text;
    assert_non_null(w);
    open_row(w, &text, name);
    if (w->m->uncounted_part == NULL) /* what the row itself says of its configuration */
        w->m->uncounted_part = vr_catalogue_find(vr_str_of(name))->lacks;
    if (w->m->family == NULL) {
        assert_non_null(w->m->not_understood);
        t->not_understood++;
        if (verbose)
            print_message("%s (%s): %s\n", name, g->class_name, w->m->not_understood);
    } else {
        check_understood(name, g, w->m);
        t->parameters += g->parameters;
        t->understood++;
        t->partly += w->m->uncounted_part != NULL;
        if (verbose)
            print_message("%s (%s): %llu parameters%s%s\n", name, g->class_name,
                          (unsigned long long)w->m->declared_parameters,
                          w->m->uncounted_part != NULL ? " without the " : "",
                          w->m->uncounted_part != NULL ? w->m->uncounted_part : "");
    }
    close_world(w);
    free(text);
    free(w);
}

/* ---- the tests ---- */

/* A configuration that stands among the facts: all of it must be understood. */
static void check_own(const group *g, totals *t)
{
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    open_world(w, g->config);
    assert_int_equal(w->status, VRAM_OK);
    if (w->m->family == NULL)
        fail_msg("%s: %s", g->names[0], w->m->not_understood);
    check_understood(g->names[0], g, w->m);
    t->understood++;
    close_world(w);
    free(w);
}

static void check_group(const group *g, totals *t)
{
    for (size_t i = 0; i < g->n_names && g->config[0] == '\0'; i++)
        check_model(g->names[i], g, t);
    if (g->config[0] != '\0')
        check_own(g, t);
    t->groups++;
}

static void check_groups(const char *path, totals *t)
{
    FILE *in = fopen(path, "r");
    group *g = calloc(1, sizeof(*g));
    char line[4096];
    assert_true(in != NULL && g != NULL);
    while (fgets(line, sizeof(line), in) != NULL) {
        if (line[0] == 'M' && g->n_names > 0)
            check_group(g, t);
        read_line(g, line);
    }
    check_group(g, t);
    fclose(in);
    free(g);
}

static void every_class(void **state)
{
    totals t = { 0 };
    (void)state;
    check_groups(facts_path, &t);
    print_message(
        "%zu configurations of %zu classes and sizes alike, %zu of them without their towers; %zu not "
        "understood\n",
        t.understood, t.groups, t.partly, t.not_understood);
    assert_int_equal(n_differences, 0);
    assert_true(t.understood >= 143); /* a ratchet: today's number, not to fall */
    for (size_t i = 0; i < N_OTHERWISE; i++) {
        if (!is_needed[i])
            fail_msg("%s: nothing is declared otherwise any more (%s)", otherwise[i].model, otherwise[i].why);
    }
}

static void more_classes(void **state)
{
    totals t = { 0 };
    (void)state;
    check_groups(more_path, &t);
    print_message("%zu configurations of classes beyond the catalogue alike\n", t.understood);
    assert_int_equal(n_differences, 0);
}

static bool named_in(const char *path, const char *name)
{
    FILE *in = fopen(path, "r");
    char line[4096], first[64], second[64];
    bool found = false;
    assert_non_null(in);
    while (!found && fgets(line, sizeof(line), in) != NULL) {
        int n = sscanf(line, "%63s %63s", first, second);
        found = n >= 1 && (strcmp(first, name) == 0 || (n == 2 && strchr("MN", first[0]) != NULL &&
                                                        first[1] == '\0' && strcmp(second, name) == 0));
    }
    fclose(in);
    return found;
}

/* No row of the catalogue is forgotten: it has facts, or a reason why there are none. */
static void every_row(void **state)
{
    size_t n;
    const vr_catalogue_row *rows = vr_catalogue(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        if (!named_in(facts_path, rows[i].name) && !named_in(missing_path, rows[i].name))
            fail_msg("%s is in neither table: tests/oracle/class_parameters.py", rows[i].name);
    }
}

/* test_class_parameters [-v] FACTS MISSING MORE */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_class), cmocka_unit_test(more_classes),
                                        cmocka_unit_test(every_row) };
    verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    if (argc != 4 + verbose)
        return 2;
    facts_path = argv[1 + verbose];
    missing_path = argv[2 + verbose];
    more_path = argv[3 + verbose];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
