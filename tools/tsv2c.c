/* SPDX-License-Identifier: MIT
 *
 * tsv2c TABLE IN.tsv OUT.c: turns a table of data/ into a constant C array while building.
 *
 * An empty cell means unknown and sets nothing, so the field is 0 or NULL, which the readers of the tables
 * take as unknown and never as the number 0. Everything else is strict: a column that is not in the schema
 * below, a missing column, another number of fields, a cell that is not of its column's kind, or a key that
 * comes twice stops the build with file and line. Lines before the header that start with '#' are comments.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/words.h"

enum { MAX_COLUMNS = 64, MAX_LINE = 16384 };

typedef enum kind {
    TEXT,       /* C string */
    NUMBER,     /* decimal digits; the cell "0" is refused because 0 means unknown */
    MIB,        /* the same in MiB, stored in bytes */
    CAPABILITY, /* "8.6" sets two fields; a gfx target of AMD sets none */
    YES_NO,
    CHOICE, /* one of "word=C_NAME|word=C_NAME" */
    WORDS,  /* any of "word=field|word=field", with blanks between; sets each field to true */
    MASK    /* any of "word=BITS|word=BITS", with blanks between; all their bits */
} kind;

typedef struct column {
    const char *name;
    kind kind;
    const char *field, *choices;
    bool required;
    const char *unless; /* nothing is set when this column of the row, which stands further left, is filled */
} column;

typedef struct table {
    const char *name, *header, *type, *symbol;
    const column *columns; /* ends with a NULL name; the first is the key */
} table;

static const column gpu_columns[] = {
    { "id", TEXT, "id", NULL, true },
    { "vendor", TEXT, "vendor", NULL, true },
    { "name", TEXT, "name", NULL, true },
    { "arch", TEXT, "arch", NULL, true },
    { "compute_capability", CAPABILITY, "cc_major", NULL, false },
    { "memories", NUMBER, "memories", NULL, false },
    { "unified", YES_NO, "unified", NULL, false },
    { "marketed_gb", NUMBER, "marketed_gb", NULL, false },
    { "ecc_default", CHOICE, "ecc", "on=VR_ECC_ON|off=VR_ECC_OFF", false },
    { "smi_total_mib", MIB, "smi_total_bytes", NULL, false },
    { "cuda_total_bytes", NUMBER, "cuda_total_bytes", NULL, false },
    { "cuda_total_mib", MIB, "cuda_total_bytes", NULL, false, "cuda_total_bytes" },
    { "cuda_total_min_mib", MIB, "cuda_total_low", NULL, false },
    { "cuda_total_max_mib", MIB, "cuda_total_high", NULL, false },
    { "cuda_total_os", CHOICE, "os",
      "linux=VR_OS_LINUX, .cuda_total_measured = true|tegra=VR_OS_TEGRA, .cuda_total_measured = true|"
      "metal=VR_OS_METAL, .cuda_total_measured = true|windows=VR_OS_WINDOWS|unknown=VR_OS_UNKNOWN",
      false },
    { "sm_count", NUMBER, "sm_count", NULL, false },
    { "context_bytes", NUMBER, "context_bytes", NULL, false },
    { "source", TEXT, "source", NULL, true },
    { "notes", TEXT, "notes", NULL, false },
    { NULL, TEXT, NULL, NULL, false },
};

#define SOFTCAPS "no=VR_SOFTCAP_NONE|off=VR_SOFTCAP_OFF|on=VR_SOFTCAP_ON"

/* What a class has beside what every decoder has: a word each, so that a new one is no new column. */
#define TRAITS                                                                                               \
    "tied=tied_default|embedding_scaled=embedding_scaled|local_rope=local_rope|"                             \
    "grid_rotary=grid_rotary|wide_logits=wide_logits|norm_widened=norm_widened|"                             \
    "bidirectional=reads_bidirectional|reads_pattern=reads_pattern|qk_norm=qk_norm|"                         \
    "qk_norm_whole=qk_norm_whole|parallel=parallel|embedding_multiplied=embedding_multiplied|"               \
    "residual_multiplied=residual_multiplied|logits_multiplied=logits_multiplied|"                           \
    "full_unrotated=full_unrotated|some_unrotated=some_unrotated|qk_norm_rotated=qk_norm_rotated|"           \
    "query_scaled=query_scaled|untaped=untaped|query_multiplied=query_multiplied|"                           \
    "ffn_by_layer=ffn_by_layer|multiplied_late=multiplied_late|qk_norm_after=qk_norm_after|narrow_softmax="  \
    "narrow_softmax|"                                                                                        \
    "inline_mlp=inline_mlp|"                                                                                 \
    "keeps_outputs=keeps_outputs|both_masks=both_masks|early_masks=early_masks|"                             \
    "own_rotary=own_rotary|tables_in_dict=tables_in_dict|grid_sections=grid_sections|"                       \
    "index_shared=index_shared|turned_at_once=turned_at_once|keeps_norm=keeps_norm|"                         \
    "keeps_attention=keeps_attention|head_input_scaled=head_input_scaled|"                                   \
    "values_scaled=values_scaled|shifted_softmax=shifted_softmax|"                                           \
    "scale_cast=scale_cast|alibi=alibi|alibi_wide=alibi_wide"
#define BIASES "qkv=qkv_bias|o=o_bias|mlp=mlp_bias|head=head_bias"

static const column architecture_columns[] = {
    { "model_type", TEXT, "model_type", NULL, true },
    { "wrappers", TEXT, "wrappers", NULL, false },
    { "class_name", TEXT, "class_name", NULL, true },
    { "naming", TEXT, "naming", NULL, true },
    { "norm", CHOICE, "norm",
      "rms=VR_NORM_RMS|rms_gemma=VR_NORM_RMS_GEMMA|rms_late=VR_NORM_RMS_LATE|rms_bare=VR_NORM_RMS_BARE|"
      "layer=VR_NORM_LAYER|layer_weight=VR_NORM_LAYER_WEIGHT|layer_bare=VR_NORM_LAYER_BARE|"
      "layer_cohere=VR_NORM_LAYER_COHERE|layer_1p=VR_NORM_LAYER_1P|rms_late_wide=VR_NORM_RMS_LATE_WIDE|"
      "rms_power=VR_NORM_RMS_POWER|rms_chained=VR_NORM_RMS_CHAINED",
      true },
    { "mlp", CHOICE, "mlp", "gated=VR_MLP_GATED|gated_fused=VR_MLP_GATED_FUSED|plain=VR_MLP_PLAIN", true },
    { "activation", CHOICE, "activation",
      "silu=VR_ACT_ONE|gelu=VR_ACT_ONE|gelu_tanh=VR_ACT_ONE|relu=VR_ACT_ONE|relu2=VR_ACT_RELU2|"
      "gelu_new=VR_ACT_GELU_NEW|bloom=VR_ACT_BLOOM",
      false },
    { "rope", CHOICE, "rope",
      "half=VR_ROPE_HALF|chunks=VR_ROPE_CHUNKS|half_each=VR_ROPE_HALF_EACH|half_then=VR_ROPE_HALF_THEN|"
      "half_kept=VR_ROPE_HALF_KEPT|half_returned=VR_ROPE_HALF_RETURNED|half_wide=VR_ROPE_HALF_WIDE|"
      "pairs=VR_ROPE_PAIRS|pairs_all=VR_ROPE_PAIRS_ALL|pairs_float=VR_ROPE_PAIRS_FLOAT|"
      "pairs_wide=VR_ROPE_PAIRS_WIDE|pairs_complex=VR_ROPE_PAIRS_COMPLEX",
      false },
    { "rotary_percent", NUMBER, "rotary_percent", NULL, false },
    { "traits", WORDS, NULL, TRAITS, false },
    { "taped_from", NUMBER, "taped_from", NULL, false },
    { "biases", WORDS, NULL, BIASES, false },
    { "qkv_bias_key", TEXT, "qkv_bias_key", NULL, false },
    { "o_bias_key", TEXT, "o_bias_key", NULL, false },
    { "mlp_bias_key", TEXT, "mlp_bias_key", NULL, false },
    { "attention_softcap", CHOICE, "attention_softcap", SOFTCAPS, false },
    { "final_softcap", CHOICE, "final_softcap", SOFTCAPS, false },
    { "keys", TEXT, "keys", NULL, false },
    { "only", TEXT, "only", NULL, false },
    { "vocab", NUMBER, "vocab_default", NULL, true },
    { "hidden", NUMBER, "hidden_default", NULL, true },
    { "ffn", NUMBER, "ffn_default", NULL, false },
    { "layers", NUMBER, "layers_default", NULL, true },
    { "heads", NUMBER, "heads_default", NULL, true },
    { "kv_heads", NUMBER, "kv_heads_default", NULL, false },
    { "head_dim", NUMBER, "head_dim_default", NULL, false },
    { "context", NUMBER, "context_default", NULL, false },
    { "position_offset", NUMBER, "position_offset", NULL, false },
    { "window", NUMBER, "window_default", NULL, false },
    { "window_rule", CHOICE, "window_rule",
      "attribute=VR_WINDOW_ATTRIBUTE|max_window_layers=VR_WINDOW_LAYERS|pattern=VR_WINDOW_PATTERN", true },
    { "max_window_layers", NUMBER, "max_window_layers", NULL, false },
    { "sliding_pattern", NUMBER, "sliding_pattern", NULL, false },
    { "special", TEXT, "special", NULL, false },
    { "source", TEXT, "source", NULL, true },
    { NULL, TEXT, NULL, NULL, false },
};

static const column naming_columns[] = {
    { "name", TEXT, "name", NULL, true },     { "prefix", TEXT, "prefix", NULL, true },
    { "head", TEXT, "head", NULL, true },     { "transposed", YES_NO, "transposed", NULL, true },
    { "model", TEXT, "model", NULL, true },   { "layer", TEXT, "layer", NULL, true },
    { "source", TEXT, "source", NULL, true }, { NULL, TEXT, NULL, NULL, false },
};

static const column catalogue_columns[] = {
    { "name", TEXT, "name", NULL, true },        { "repo", TEXT, "repo", NULL, true },
    { "aliases", TEXT, "aliases", NULL, false }, { "lacks", TEXT, "lacks", NULL, false },
    { "note", TEXT, "note", NULL, false },       { "config", TEXT, "config", NULL, true },
    { "source", TEXT, "source", NULL, true },    { NULL, TEXT, NULL, NULL, false },
};

#define X(id, word, meaning) word "=VR_MEMORY_" #id "|"
static const char memories[] = VR_MEMORIES(X);
#undef X
#define X(id, word, meaning) word "=VR_PHASE_" #id "|"
static const char phases[] = VR_PHASES(X);
#undef X
#define X(id, word, meaning) word "=VR_CAUSE_" #id "|"
static const char causes[] = VR_CAUSES(X);
#undef X
#define X(id, word, meaning) word "=VR_CERTAINTY_" #id "|"
static const char certainties[] = VR_CERTAINTIES(X);
#undef X
#define X(id, word, meaning) word "=VR_PROGRAM_" #id "|"
static const char programs[] = VR_PROGRAMS(X);
#undef X
#define X(id, word) word "=VR_TEXT_" #id "|"
static const char text_kinds[] = VR_TEXT_KINDS(X);
#undef X

#define X(id, word, meaning) word "=VR_COST_" #id "|"
static const char costs[] = VR_COSTS(X);
#undef X
#define X(id, word) word "=VR_BIT(VR_IF_" #id ")|"
static const char circumstance_bits[] = VR_CIRCUMSTANCES(X);
#undef X

#define X(id, word) word "=VR_LANGUAGE_" #id "|"
static const char languages[] = VR_LANGUAGES(X);
#undef X

/* Masks of all words, and names for sets of programs. */
#define X(id, word, meaning) word "=VR_BIT(VR_PROGRAM_" #id ")|"
static const char program_bits[] = VR_PROGRAMS(X) "torch=VR_TORCH_PROGRAMS|hf=VR_HF_PROGRAMS|";
#undef X
#define X(id, word, meaning) word "=VR_BIT(VR_CAUSE_" #id ")|"
static const char cause_bits[] = VR_CAUSES(X);
#undef X
#define X(id, word, meaning) word "=VR_BIT(VR_PHASE_" #id ")|"
static const char phase_bits[] = VR_PHASES(X);
#undef X
#define X(id, word, meaning) word "=VR_BIT(VR_MEMORY_" #id ")|"
static const char memory_bits[] = VR_MEMORIES(X);
#undef X

static const column remedy_columns[] = {
    { "id", TEXT, "id", NULL, true },
    { "group", TEXT, "group", NULL, true },
    { "programs", MASK, "programs", program_bits, false },
    { "causes", MASK, "causes", cause_bits, true },
    { "phases", MASK, "phases", phase_bits, false },
    { "memories", MASK, "memories", memory_bits, false },
    { "when", MASK, "when", circumstance_bits, false },
    { "unless", MASK, "unless", circumstance_bits, false },
    { "says", TEXT, "says", NULL, false },
    { "change", TEXT, "change", NULL, true },
    { "language", CHOICE, "language", languages, true },
    { "command", TEXT, "command", NULL, true },
    { "gain", TEXT, "gain", NULL, false },
    { "cost", CHOICE, "cost", costs, true },
    { "cost_in_words", TEXT, "cost_in_words", NULL, false },
    { "rank", NUMBER, "rank", NULL, true },
    { "source", TEXT, "source", NULL, true },
    { NULL, TEXT, NULL, NULL, false },
};

static const column text_columns[] = {
    { "id", TEXT, "id", NULL, true },
    { "kind", CHOICE, "kind", text_kinds, true },
    { "anchor", TEXT, "anchor", NULL, true },
    { "needs", TEXT, "needs", NULL, false },
    { "template", TEXT, "wants", NULL, false },
    { "program", CHOICE, "program", programs, false },
    { "memory", CHOICE, "memory", memories, false },
    { "phase", CHOICE, "phase", phases, false },
    { "cause", CHOICE, "cause", causes, false },
    { "certainty", CHOICE, "certainty", certainties, false },
    { "rank", NUMBER, "rank", NULL, true },
    { "versions", TEXT, "versions", NULL, false },
    { "meaning", TEXT, "meaning", NULL, false },
    { "example", TEXT, "example", NULL, false },
    { "source", TEXT, "source", NULL, true },
    { NULL, TEXT, NULL, NULL, false },
};

/* What people say they saw proves nothing. */
#define UNPROVEN "unknown=VR_CERTAINTY_UNKNOWN|possible=VR_CERTAINTY_POSSIBLE|likely=VR_CERTAINTY_LIKELY"

static const column symptom_columns[] = {
    { "id", TEXT, "id", NULL, true },
    { "words", TEXT, "words", NULL, true },
    { "without", TEXT, "without", NULL, false },
    { "program", CHOICE, "program", programs, false },
    { "memory", CHOICE, "memory", memories, false },
    { "phase", CHOICE, "phase", phases, false },
    { "cause", CHOICE, "cause", causes, true },
    { "sub_cause", TEXT, "sub_cause", NULL, false },
    { "certainty", CHOICE, "certainty", UNPROVEN, true },
    { "rank", NUMBER, "rank", NULL, false },
    { "summary", TEXT, "summary", NULL, true },
    { "why", TEXT, "why", NULL, true },
    { "tell", TEXT, "tell", NULL, true },
    { "tell_why", TEXT, "tell_why", NULL, true },
    { NULL, TEXT, NULL, NULL, false },
};

static const column symptom_word_columns[] = {
    { "name", TEXT, "name", NULL, true },
    { "words", TEXT, "words", NULL, true },
    { NULL, TEXT, NULL, NULL, false },
};

static const column vocabulary_columns[] = {
    { "model", TEXT, "model", NULL, true },    { "words", NUMBER, "words", NULL, true },
    { "width", NUMBER, "width", NULL, false }, { "source", TEXT, "source", NULL, true },
    { NULL, TEXT, NULL, NULL, false },
};

static const table tables[] = {
    { "vocabularies", "diagnosis/texts.h", "vr_vocabulary", "vr_vocabulary_table", vocabulary_columns },
    { "remedies", "diagnosis/levers.h", "vr_lever_row", "vr_remedy_table", remedy_columns },
    { "error_texts", "diagnosis/texts.h", "vr_text_row", "vr_error_text_table", text_columns },
    { "log_signs", "diagnosis/texts.h", "vr_text_row", "vr_log_sign_table", text_columns },
    { "symptoms", "diagnosis/symptoms.h", "vr_symptom", "vr_symptom_table", symptom_columns },
    { "symptom_words", "diagnosis/symptoms.h", "vr_symptom_word", "vr_symptom_word_table",
      symptom_word_columns },
    { "gpus", "device/gpus.h", "vr_gpu", "vr_gpu_table", gpu_columns },
    { "architectures", "model/families.h", "vr_family", "vr_family_table", architecture_columns },
    { "namings", "model/families.h", "vr_naming", "vr_naming_table", naming_columns },
    { "catalogue", "model/catalogue.h", "vr_catalogue_row", "vr_catalogue_table", catalogue_columns },
};

typedef struct keys {
    char **names;
    size_t n, room;
} keys;

static const char *input_name, *output_name;
static unsigned long line_number;

static void stop(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%lu: ", input_name, line_number);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (output_name != NULL)
        remove(output_name); /* no half table may look like a finished one */
    exit(1);
}

static void *grown(void *p, size_t bytes)
{
    p = realloc(p, bytes);
    if (p == NULL)
        stop("out of memory");
    return p;
}

static unsigned long long number(const char *cell, const char *column_name)
{
    char *end = NULL;
    if (cell[0] == '\0' || strspn(cell, "0123456789") != strlen(cell))
        stop("column %s: \"%s\" is not a number", column_name, cell);
    errno = 0;
    unsigned long long value = strtoull(cell, &end, 10);
    if (errno != 0)
        stop("column %s: %s is too large", column_name, cell);
    if (value == 0)
        stop("column %s: 0 would read as unknown; leave the cell empty", column_name);
    return value;
}

static void put_text(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c > 0x7e || c == '?') /* '?': no trigraphs */
            fprintf(out, "\\%03o", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_capability(FILE *out, const char *cell, const char *name)
{
    if (strncmp(cell, "gfx", 3) == 0)
        return;
    char copy[32];
    if (strlen(cell) >= sizeof copy)
        stop("column %s: \"%s\" is too long", name, cell);
    strcpy(copy, cell);
    char *dot = strchr(copy, '.');
    if (dot == NULL || strspn(dot + 1, "0123456789") != strlen(dot + 1) || dot[1] == '\0')
        stop("column %s: \"%s\" is neither like 8.6 nor a gfx target", name, cell);
    *dot = '\0';
    fprintf(out, " .cc_major = %llu, .cc_minor = %lu,", number(copy, name), strtoul(dot + 1, NULL, 10));
}

static void put_choice(FILE *out, const char *cell, const column *c)
{
    size_t n = strlen(cell);
    for (const char *at = c->choices; at != NULL; at = strchr(at, '|')) {
        if (*at == '|')
            at++;
        if (strncmp(at, cell, n) == 0 && at[n] == '=') {
            const char *value = at + n + 1;
            fprintf(out, " .%s = %.*s,", c->field, (int)strcspn(value, "|"), value);
            return;
        }
    }
    stop("column %s: \"%s\" is not one of %s", c->name, cell, c->choices);
}

/* One word of a cell. */
static void put_word(FILE *out, const char *word, size_t n, const column *c)
{
    for (const char *at = c->choices; at != NULL; at = strchr(at, '|')) {
        if (*at == '|')
            at++;
        if (strncmp(at, word, n) == 0 && at[n] == '=') {
            fprintf(out, " .%.*s = true,", (int)strcspn(at + n + 1, "|"), at + n + 1);
            return;
        }
    }
    stop("column %s: \"%.*s\" is not one of %s", c->name, (int)n, word, c->choices);
}

/* The bits of one word of a cell. */
static void put_bits(FILE *out, const char *word, size_t n, const column *c)
{
    for (const char *at = c->choices; at != NULL; at = strchr(at, '|')) {
        if (*at == '|')
            at++;
        if (strncmp(at, word, n) == 0 && at[n] == '=') {
            fprintf(out, " | %.*s", (int)strcspn(at + n + 1, "|"), at + n + 1);
            return;
        }
    }
    stop("column %s: \"%.*s\" is not one of %s", c->name, (int)n, word, c->choices);
}

static void put_mask(FILE *out, const char *cell, const column *c)
{
    fprintf(out, " .%s = 0", c->field);
    while (*cell != '\0') {
        size_t n = strcspn(cell, " ");
        put_bits(out, cell, n, c);
        cell += n;
        cell += *cell == ' ' ? 1 : 0;
    }
    fputc(',', out);
}

static void put_words(FILE *out, const char *cell, const column *c)
{
    while (*cell != '\0') {
        size_t n = strcspn(cell, " ");
        put_word(out, cell, n, c);
        cell += n;
        cell += *cell == ' ' ? 1 : 0;
    }
}

static void put_cell(FILE *out, const column *c, const char *cell)
{
    switch (c->kind) {
    case TEXT:
        fprintf(out, " .%s = ", c->field);
        put_text(out, cell);
        fputc(',', out);
        break;
    case NUMBER:
        fprintf(out, " .%s = %llu,", c->field, number(cell, c->name));
        break;
    case MIB:
        if (number(cell, c->name) > UINT64_MAX >> 20)
            stop("column %s: %s MiB are too many", c->name, cell);
        fprintf(out, " .%s = UINT64_C(%llu),", c->field, number(cell, c->name) << 20);
        break;
    case CAPABILITY:
        put_capability(out, cell, c->name);
        break;
    case YES_NO:
        if (strcmp(cell, "yes") != 0 && strcmp(cell, "no") != 0)
            stop("column %s: \"%s\" is neither yes nor no", c->name, cell);
        fprintf(out, " .%s = %s,", c->field, cell[0] == 'y' ? "true" : "false");
        break;
    case CHOICE:
        put_choice(out, cell, c);
        break;
    case WORDS:
        put_words(out, cell, c);
        break;
    case MASK:
        put_mask(out, cell, c);
        break;
    }
}

/* Splits in place; returns the number of fields. */
static size_t split(char *line, char **fields)
{
    size_t n = 0;
    for (char *at = line; at != NULL; n++) {
        if (n == MAX_COLUMNS)
            stop("more than %d fields", MAX_COLUMNS);
        fields[n] = at;
        at = strchr(at, '\t');
        if (at != NULL)
            *at++ = '\0';
    }
    return n;
}

static size_t read_header(const table *t, char *line, const column **order)
{
    char *fields[MAX_COLUMNS];
    size_t n = split(line, fields), n_schema = 0;
    for (const column *c = t->columns; c->name != NULL; c++)
        n_schema++;
    for (size_t i = 0; i < n; i++) {
        const column *c = t->columns;
        while (c->name != NULL && strcmp(c->name, fields[i]) != 0)
            c++;
        if (c->name == NULL)
            stop("unknown column \"%s\"", fields[i]);
        for (size_t k = 0; k < i; k++)
            if (order[k] == c)
                stop("column \"%s\" comes twice", c->name);
        order[i] = c;
    }
    if (n != n_schema)
        stop("%zu columns, the table %s has %zu", n, t->name, n_schema);
    return n;
}

static void remember(keys *k, const char *name)
{
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->names[i], name) == 0)
            stop("\"%s\" is there twice", name);
    if (k->n == k->room) {
        k->room = k->room != 0 ? 2 * k->room : 64;
        k->names = grown(k->names, k->room * sizeof *k->names);
    }
    k->names[k->n] = grown(NULL, strlen(name) + 1);
    strcpy(k->names[k->n++], name);
}

static bool overruled(const column *const *order, char *const *fields, size_t i)
{
    for (size_t k = 0; order[i]->unless != NULL && k < i; k++)
        if (strcmp(order[k]->name, order[i]->unless) == 0)
            return fields[k][0] != '\0';
    return false;
}

static void put_row(FILE *out, const table *t, const column *const *order, size_t n, char *line, keys *seen)
{
    char *fields[MAX_COLUMNS];
    size_t got = split(line, fields);
    if (got != n)
        stop("%zu fields, the header has %zu", got, n);
    fputs("    {", out);
    for (size_t i = 0; i < n; i++) {
        if (fields[i][0] == '\0' && order[i]->required)
            stop("column %s must not be empty", order[i]->name);
        if (fields[i][0] != '\0' && !overruled(order, fields, i))
            put_cell(out, order[i], fields[i]);
        if (order[i] == t->columns)
            remember(seen, fields[i]);
    }
    fputs(" },\n", out);
}

/* The next line without its end; false at the end of the file. */
static bool next_line(FILE *in, char *line)
{
    if (fgets(line, MAX_LINE, in) == NULL)
        return false;
    line_number++;
    size_t n = strlen(line);
    if (n == 0 || line[n - 1] != '\n')
        stop("the line is over %d characters, holds a zero byte or lacks its end", MAX_LINE - 2);
    line[n - 1] = '\0';
    for (const char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 && *c != '\t')
            stop("control character %d", *c);
    return true;
}

static void convert(const table *t, FILE *in, FILE *out)
{
    static char line[MAX_LINE];
    const column *order[MAX_COLUMNS];
    size_t n = 0;
    keys seen = { NULL, 0, 0 };
    const char *base = strrchr(input_name, '/');
    fprintf(out, "/* Made from %s by tools/tsv2c.c. */\n#include \"%s\"\n\nconst %s %s[] = {\n",
            base != NULL ? base + 1 : input_name, t->header, t->type, t->symbol);
    while (next_line(in, line)) {
        if (n == 0 && line[0] == '#')
            continue;
        if (n == 0)
            n = read_header(t, line, order);
        else
            put_row(out, t, order, n, line, &seen);
    }
    if (seen.n == 0)
        stop("no rows");
    fprintf(out, "};\nconst size_t %s_n = %zu;\n", t->symbol, seen.n);
    for (size_t i = 0; i < seen.n; i++)
        free(seen.names[i]);
    free(seen.names);
}

int main(int argc, char **argv)
{
    const table *t = NULL;
    for (size_t i = 0; argc == 4 && i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].name, argv[1]) == 0)
            t = &tables[i];
    if (t == NULL) {
        fputs("usage: tsv2c TABLE IN.tsv OUT.c\n", stderr);
        return 2;
    }
    input_name = argv[2];
    FILE *in = fopen(argv[2], "rb"), *out = NULL;
    if (in == NULL)
        stop("not readable");
    out = fopen(argv[3], "wb");
    if (out == NULL)
        stop("cannot write %s", argv[3]);
    output_name = argv[3];
    convert(t, in, out);
    fclose(in);
    if (fclose(out) != 0)
        stop("cannot write %s", argv[3]);
    return 0;
}
