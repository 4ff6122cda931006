/* SPDX-License-Identifier: MIT
 *
 * A command of llama.cpp or Ollama, pasted whole behind "--": its options become settings of this command,
 * those that change nothing on the card are passed over, and no word is taken for what it is not.
 */
#include <stdlib.h>
#include <string.h>

#include "pasted.h"

/* ---- words ---- */

static const char *base_name(const char *word)
{
    const char *slash = strrchr(word, '/'), *back = strrchr(word, '\\');

    if (back != NULL && (slash == NULL || back > slash))
        slash = back;
    return slash != NULL ? slash + 1 : word;
}

static bool is_variable(const char *word)
{
    size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return n > 0 && word[n] == '=' && (*word < '0' || *word > '9');
}

/* What may stand before a program and changes nothing of it. */
static bool is_prefix(const char *word)
{
    static const char *const words[] = { "sudo", "env", "nohup", "exec", "time", "command" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static bool same_program(const char *name, const char *word)
{
    size_t n = strlen(name);

    word = base_name(word);
    return strncmp(word, name, n) == 0 && (word[n] == '\0' || strcmp(word + n, ".exe") == 0);
}

/* How many of the words are the program's name; 0: it is another. */
static int named(const pasted_program *p, char **words, int n)
{
    char first[32];
    const char *second = strchr(p->name, ' ');

    if (second == NULL)
        return n >= 1 && same_program(p->name, words[0]) ? 1 : 0;
    snprintf(first, sizeof first, "%.*s", (int)(second - p->name), p->name);
    return n >= 2 && same_program(first, words[0]) && strcmp(words[1], second + 1) == 0 ? 2 : 0;
}

static const pasted_program *program_of(char **words, int n, int *length)
{
    const pasted_program *p;

    for (size_t i = 0; (p = pasted_program_at(i)) != NULL; i++)
        if ((*length = named(p, words, n)) != 0)
            return p;
    return NULL;
}

/* ---- values ---- */

bool pasted_number(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long v;

    if (*text < '0' || *text > '9')
        return false;
    v = strtoull(text, &end, 10);
    *out = v;
    return *end == '\0';
}

static const cli_row *row_of(const cli *c, const char *key)
{
    for (size_t i = 0; i < c->table.n; i++)
        if (strcmp(c->table.rows[i].option->key, key) == 0)
            return &c->table.rows[i];
    return NULL;
}

static bool says_no(const char *value)
{
    return strcmp(value, "0") == 0 || strcmp(value, "off") == 0 || strcmp(value, "false") == 0;
}

static bool says_yes(const char *value)
{
    return strcmp(value, "1") == 0 || strcmp(value, "on") == 0 || strcmp(value, "true") == 0;
}

/* Programs say 1, on or true as they like. */
static const char *spoken(const cli_row *row, const char *value)
{
    const vram_option *o = row->option;
    bool words = o->type == VRAM_OPT_CHOICE && o->choices != NULL && strstr(o->choices, "off") != NULL;

    if (o->type == VRAM_OPT_FLAG || words)
        return says_yes(value) ? "on" : says_no(value) ? "off" : value;
    return value;
}

void pasted_set(pasted *p, const char *key, const char *value)
{
    const cli_row *row = row_of(p->c, key);

    if (row != NULL)
        p->c->settings[p->c->n_settings++] = (cli_setting){ row, spoken(row, value) };
    else if (p->typed != NULL)
        cli_warning("%s of the pasted command is not taken into account", p->typed);
}

bool pasted_has(const pasted *p, const char *key)
{
    for (size_t i = 0; i < p->c->n_settings; i++)
        if (strcmp(p->c->settings[i].row->option->key, key) == 0)
            return true;
    return false;
}

void pasted_set_number(pasted *p, const char *key, uint64_t value)
{
    static char made[8][24]; /* a command line is read once */
    static size_t n;

    if (n < sizeof made / sizeof *made) {
        snprintf(made[n], sizeof made[n], "%llu", (unsigned long long)value);
        pasted_set(p, key, made[n++]);
    }
}

/* ---- messages ---- */

static void wrong(pasted *p, const char *what, const char *word)
{
    char shown[64];

    cli_error("the pasted command, word %d: %s: %s", p->at + 1, cli_short(shown, sizeof shown, word), what);
    p->status = CLI_USAGE;
}

#define KNOWN_MOST 1024

static void unknown(pasted *p, const char *word)
{
    static char text[KNOWN_MOST][48];
    static const char *known[KNOWN_MOST];
    size_t n = 0;
    char name[64];
    const char *near;

    for (size_t i = 0; i < p->program->n_flags; i++) {
        const char *list = p->program->flags[i].names;
        while (n < KNOWN_MOST && cli_word(&list, text[n], sizeof text[n])) {
            known[n] = text[n];
            n++;
        }
    }
    cli_short(name, sizeof name, word);
    name[strcspn(name, "=")] = '\0';
    near = vram_nearest(name, known, n);
    cli_error("the pasted command, word %d: %s has no option %s", p->at + 1, p->program->name, name);
    if (near != NULL)
        cli_hint("did you mean %s?", near);
    else
        cli_hint("leave it out where it is of another version");
    p->status = CLI_USAGE;
}

/* ---- options ---- */

/* llama.cpp takes --ctx_size for --ctx-size. */
static bool same_name(const char *typed, size_t n, const char *name)
{
    bool is_long = n > 2 && typed[0] == '-' && typed[1] == '-';

    for (size_t i = 0; i < n; i++) {
        char c = is_long && typed[i] == '_' ? '-' : typed[i];
        if (name[i] == '\0' || c != name[i])
            return false;
    }
    return name[n] == '\0';
}

static const pasted_flag *flag_of(const pasted_program *p, const char *typed, size_t n)
{
    char word[48];

    for (size_t i = 0; i < p->n_flags; i++) {
        const char *list = p->flags[i].names;
        while (cli_word(&list, word, sizeof word))
            if (same_name(typed, n, word))
                return &p->flags[i];
    }
    return NULL;
}

static const pasted_flag *flag_of_variable(const pasted_program *p, const char *word, size_t n)
{
    for (size_t i = 0; i < p->n_flags; i++) {
        const char *env = p->flags[i].env;
        if (env != NULL && strlen(env) == n && strncmp(env, word, n) == 0)
            return &p->flags[i];
    }
    return NULL;
}

static bool is_on_or_off(const char *word)
{
    static const char *const words[] = { "on",      "off", "auto", "1",  "0",      "true",     "false",
                                         "enabled", "-1",  "yes",  "no", "always", "disabled", "never" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static bool is_decimal(const char *word)
{
    return *word != '\0' && strspn(word, "-+0123456789.") == strlen(word);
}

/* How many of the words behind it are its own. */
static int values_of(const pasted *p, const pasted_flag *f)
{
    const char *next = p->at + 1 < p->n ? p->words[p->at + 1] : NULL;
    const char *after = p->at + 2 < p->n ? p->words[p->at + 2] : NULL;

    switch ((pasted_values)f->values) {
    case NONE:
        return 0;
    case MAYBE:
        return next != NULL && is_on_or_off(next);
    case SCALED:
        return after != NULL && is_decimal(after) ? 2 : 1;
    case TWO:
        return 2;
    default:
        return 1;
    }
}

static void preset(pasted *p, const char *list);

/* The largest of "512", "512,1024", "128-512" and so on; what follows * and + are steps. */
static uint64_t largest(const char *list)
{
    uint64_t most = 0;

    for (char before = ','; *list != '\0'; list++) {
        char *end;
        if (*list < '0' || *list > '9') {
            before = *list;
            continue;
        }
        uint64_t v = strtoull(list, &end, 10);
        if (before != '*' && before != '+' && v > most)
            most = v;
        list = end - 1;
    }
    return most;
}

static void count(pasted *p, const pasted_flag *f, const char *value)
{
    uint64_t n = largest(value), *to = f->does == PROMPT     ? &p->prompt
                                       : f->does == GENERATE ? &p->generate
                                                             : &p->depth;

    if (f->does != PAIR) {
        *to = n;
        return;
    }
    const char *comma = strchr(value, ',');
    if (comma == NULL)
        return;
    uint64_t prompt = strtoull(value, NULL, 10), generated = strtoull(comma + 1, NULL, 10);
    uint64_t sum = generated > UINT64_MAX - prompt ? UINT64_MAX : prompt + generated;
    if (sum > p->pair)
        p->pair = sum;
}

static void sequences(pasted *p, const char *value)
{
    if (strcmp(value, "-1") == 0)
        p->parallel = 0;
    else if (!pasted_number(value, &p->parallel) || p->parallel == 0)
        wrong(p, "must be a number of sequences", value);
}

static void context(pasted *p, const char *value)
{
    if (!pasted_number(value, &p->context))
        wrong(p, "must be a number of tokens", value);
    p->as_trained = p->context == 0;
}

static void set_value(pasted *p, const pasted_flag *f, const char *value)
{
    /* what its own default is stands for nothing that was typed */
    if (strcmp(value, "auto") == 0)
        return;
    pasted_set(p, f->to, value);
}

static void refuse(pasted *p, const pasted_flag *f, const char *value)
{
    if (f->does == REFUSED)
        wrong(p, f->to, p->typed);
    else if (strcmp(value, "0") != 0 && strcmp(value, "none") != 0)
        cli_warning("%s of the pasted command: %s is not counted", p->typed, f->to);
}

static void apply(pasted *p, const pasted_flag *f, const char *value)
{
    switch ((pasted_does)f->does) {
    case NOTHING:
        break;
    case SET:
        set_value(p, f, value);
        break;
    case ON:
        set_value(p, f, "");
        break;
    case DEVICES:
        if (strcmp(value, "none") == 0)
            pasted_set(p, f->to, value);
        else
            cli_warning("%s of the pasted command: the choice of devices is not counted", p->typed);
        break;
    case OFF: /* the server's own choice is none then */
        pasted_set(p, f->to, "off");
        break;
    case MODEL:
    case REPO:
        p->model = value;
        p->repo = f->does == REPO;
        break;
    case FILE_OF:
        pasted_set(p, "file", base_name(value));
        break;
    case CONTEXT:
        context(p, value);
        break;
    case PARALLEL:
        sequences(p, value);
        break;
    case PRESET:
        preset(p, f->to);
        break;
    case UNCOUNTED:
    case REFUSED:
        refuse(p, f, value);
        break;
    default:
        count(p, f, value);
    }
}

/* "-hf org/name -np 2": names and values by turns. */
static void preset(pasted *p, const char *list)
{
    static char text[16][96];
    const char *typed = p->typed;
    size_t n = 0;

    if (p->preset) {
        wrong(p, "each of these options stands for a model, and only one can be run", typed);
        return;
    }
    p->preset = true;
    while (n < sizeof text / sizeof *text && cli_word(&list, text[n], sizeof text[n]))
        n++;
    for (size_t i = 0; i < n; i++) {
        const pasted_flag *f = flag_of(p->program, text[i], strlen(text[i]));
        if (f == NULL)
            continue;
        p->typed = typed;
        apply(p, f, f->values == NONE || i + 1 == n ? "" : text[++i]);
    }
}

static void option(pasted *p, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t n = equals != NULL && word[1] == '-' ? (size_t)(equals - word) : strlen(word);
    const pasted_flag *f = flag_of(p->program, word, n);
    int values;

    if (f == NULL) {
        unknown(p, word);
        return;
    }
    p->typed = word;
    if (word[n] == '=') {
        apply(p, f, word + n + 1);
        return;
    }
    values = values_of(p, f);
    if (p->at + values >= p->n) {
        wrong(p, "needs a value", word);
        return;
    }
    /* older builds knew -fa alone */
    apply(p, f, values > 0 ? p->words[p->at + 1] : f->values == MAYBE ? "on" : "");
    p->at += values;
}

static void variable(pasted *p, const char *word)
{
    size_t n = strcspn(word, "=");
    const pasted_flag *f = flag_of_variable(p->program, word, n);
    const char *value = word + n + 1;

    if (f == NULL)
        return; /* of the program's own, or of another's */
    p->typed = word;
    if (f->values != NONE)
        apply(p, f, value);
    else if (says_yes(value))
        apply(p, f, "");
}

/* ---- the whole ---- */

static void read_words(pasted *p, int first, int options)
{
    for (p->at = first; p->at < options && p->status == CLI_YES; p->at++) {
        if (is_variable(p->words[p->at]))
            variable(p, p->words[p->at]);
    }
    for (; p->at < p->n && p->status == CLI_YES; p->at++) {
        const char *word = p->words[p->at];
        if (word[0] == '-' && word[1] != '\0')
            option(p, word);
        else if (p->program->operand != NULL)
            p->program->operand(p, word);
        else
            wrong(p, "belongs to no option", word);
    }
    p->typed = NULL;
}

/* Behind variables and the like stands the name of a program that is known. */
static int find_program(pasted *p)
{
    int length, i = 0;

    while (i < p->n && (is_variable(p->words[i]) || is_prefix(p->words[i])))
        i++;
    p->program = program_of(p->words + i, p->n - i, &length);
    return p->program == NULL ? 0 : i + length;
}

static int no_program(const pasted *p)
{
    char shown[64];

    cli_error("behind -- stands a command that is not known: %s",
              cli_short(shown, sizeof shown, p->words[0]));
    cli_hint(
        "llama-server, llama-cli, llama-bench, llama-fit-params, ollama run and others: vram help pasted");
    return CLI_USAGE;
}

static void finish(pasted *p)
{
    cli *c = p->c;

    pasted_set(p, "engine", p->program->engine);
    if (p->program->tool != NULL)
        pasted_set(p, "tool", p->program->tool);
    if (p->model == NULL)
        return;
    if (p->repo)
        c->prefers = "Q4_K_M Q8_0";
    if (c->command->model_apart)
        c->model = c->model != NULL ? c->model : p->model; /* what is typed before it wins */
    else
        c->operands[c->n_operands++] = p->model;
}

/* Of a command whose operands are text: a file or a model stands before the --, not the text behind it. */
static bool has_operand(const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (words[i][0] != '-' || words[i][1] == '\0')
            return true;
    return false;
}

int cli_paste_begins(const cli *c, int argc, char **argv)
{
    pasted p = { .c = NULL };
    int i = 1;

    while (i < argc && strcmp(argv[i], "--") != 0)
        i++;
    if (i + 1 >= argc || row_of(c, "engine") == NULL)
        return argc;
    p.words = argv + i + 1;
    p.n = argc - i - 1;
    /* one word alone is a model whose name begins with a hyphen; words of a message are none of a command */
    if (find_program(&p) != 0)
        return i;
    return p.n > 1 && (!c->command->model_apart || has_operand((const char *const *)argv + 1, i - 1)) ? i
                                                                                                      : argc;
}

int cli_paste(cli *c, int n, char **words)
{
    pasted p = { .c = c, .words = words, .n = n, .status = CLI_YES };
    int first = find_program(&p);

    if (first == 0)
        return no_program(&p);
    if (p.program->begin != NULL)
        p.program->begin(&p);
    read_words(&p, 0, first);
    if (p.status == CLI_YES && p.program->finish != NULL)
        p.program->finish(&p);
    if (p.status == CLI_YES)
        finish(&p);
    return p.status;
}
