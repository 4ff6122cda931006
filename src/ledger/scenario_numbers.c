/* SPDX-License-Identifier: MIT
 *
 * The settings of `vram ledger`: one row each for the command line and one for where the value lies and what
 * it may be. Words of precision are bytes per parameter of the element types in checkpoint/dtype.h, without
 * the scales that quantised formats store beside them. */
#include "ledger/scenario.h"

#define ON_LEDGER "ledger"

/* In the order of VR_NUMBERS, then the rows that are no numbers. */
static const vram_option OPTIONS[] = {
    { "name", "--name", VRAM_OPT_STRING, "TEXT", NULL, NULL, "What the report calls this scenario.",
      ON_LEDGER, 0, 0 },
    { "params", "--params", VRAM_OPT_NUMBER, "N", NULL, NULL, "Parameters of the model: 7e9, 13B.", ON_LEDGER,
      0, 0 },
    { "mode", "--mode", VRAM_OPT_CHOICE, "MODE", "infer|train", "infer", "What is done with the model.",
      ON_LEDGER, 0, 0 },
    { "weight_bytes", "--weight-bytes --weights", VRAM_OPT_NUMBER, "BYTES", NULL, "2",
      "Bytes of one parameter (2, 0.5) or a word: fp32, fp16, bf16, fp8, int8, int4.", ON_LEDGER, 0, 0 },
    { "sequences", "--sequences --batch", VRAM_OPT_COUNT, "N", NULL, "1",
      "Sequences resident in the KV cache at once; in training, in one step.", ON_LEDGER, 1, 0 },
    { "context", "--context -c", VRAM_OPT_COUNT, "TOKENS", NULL, NULL, "Tokens of one sequence.", ON_LEDGER,
      1, 0 },
    { "prefill_batch", "--prefill-batch", VRAM_OPT_COUNT, "N", NULL, "1",
      "Sequences whose prompts are computed at once.", ON_LEDGER, 1, 0 },
    { "logits", "--logits", VRAM_OPT_CHOICE, "WHICH", "all|last", "all",
      "Positions whose logits are computed in a prefill.", ON_LEDGER, 0, 0 },
    { "kv_bytes_per_token", "--kv-bytes-per-token", VRAM_OPT_BYTES, "BYTES", NULL, NULL,
      "Bytes of one token in the KV cache, all layers together.", ON_LEDGER, 1, 0 },
    { "trainable", "--trainable", VRAM_OPT_NUMBER, "FRACTION", NULL, "1",
      "Share of the parameters that is trained.", ON_LEDGER, 0, 0 },
    { "overhead", "--overhead", VRAM_OPT_NUMBER, "FRACTION", NULL, NULL,
      "Runtime overhead as a share of the weights' bytes, a rule of thumb: 0.2.", ON_LEDGER, 0, 0 },
    { "layers", "--layers", VRAM_OPT_COUNT, "N", NULL, NULL, "Decoder layers.", ON_LEDGER, 1, 0 },
    { "hidden", "--hidden", VRAM_OPT_COUNT, "N", NULL, NULL, "Width of the hidden states.", ON_LEDGER, 1, 0 },
    { "vocab", "--vocab", VRAM_OPT_COUNT, "N", NULL, NULL, "Size of the vocabulary; counts the logits.",
      ON_LEDGER, 1, 0 },
    { "ffn", "--ffn", VRAM_OPT_COUNT, "N", NULL, NULL,
      "Width of the feed-forward layers (intermediate_size).", ON_LEDGER, 1, 0 },
    { "heads", "--heads", VRAM_OPT_COUNT, "N", NULL, NULL, "Attention heads.", ON_LEDGER, 1, 0 },
    { "kv_heads", "--kv-heads", VRAM_OPT_COUNT, "N", NULL, NULL,
      "Heads that keep keys and values; with --layers and --head-dim gives the KV bytes per token.",
      ON_LEDGER, 1, 0 },
    { "head_dim", "--head-dim", VRAM_OPT_COUNT, "N", NULL, "hidden / heads", "Width of one head.", ON_LEDGER,
      1, 0 },
    { "gpu_memory_gib", "--gpu-memory-gib", VRAM_OPT_NUMBER, "GIB", NULL, NULL,
      "Memory of one card in GiB; several sizes (24,80, or given again) are judged side by side.", ON_LEDGER,
      0, 0 },
    { "gpus", "--gpus", VRAM_OPT_COUNT, "N", NULL, "1", "Cards of that size that share the load.", ON_LEDGER,
      1, 0 },
    { "scenario", "--scenario", VRAM_OPT_STRING, "FILE", NULL, NULL,
      "JSON file with the same keys: one object, or {\"scenarios\": [ ... ]}.", ON_LEDGER, 0, 0 },
};

typedef enum form {
    FORM_TEXT,
    FORM_TRAIN,
    FORM_ALL,
    FORM_COUNT,
    FORM_PARAMS,
    FORM_BYTES,
    FORM_RATIO,
    FORM_CARDS
} form;

#define WHERE(field) offsetof(vr_numbers, field), sizeof(((vr_numbers *)NULL)->field)
#define A_COUNT "must be a whole number from 1 on, like 4096 or 16K"
#define A_SHARE "must be a share from 0 to 1, like 0.01 or 1%"

/* Where a setting's value lies, how it is read, what is wrong otherwise. In the order of VR_NUMBERS. */
static const struct row {
    form form;
    size_t at, size;
    uint64_t most; /* of a ratio: largest value */
    const char *wanted;
} ROWS[VR_NUMBER_COUNT] = {
    { FORM_TEXT, WHERE(name), 0, "must be a text of 1 to 80 bytes" },
    { FORM_PARAMS, WHERE(params), 0, "must be a whole number from 1 on, like 7e9 or 13B" },
    { FORM_TRAIN, WHERE(train), 0, "must be infer or train" },
    { FORM_RATIO, WHERE(weight_bytes), 16,
      "must be more than 0 and at most 16 bytes, or one of fp32, fp16, bf16, fp8, int8, int4" },
    { FORM_COUNT, WHERE(sequences), 0, A_COUNT },
    { FORM_COUNT, WHERE(context), 0, A_COUNT },
    { FORM_COUNT, WHERE(prefill_batch), 0, A_COUNT },
    { FORM_ALL, WHERE(logits_all), 0, "must be all or last" },
    { FORM_BYTES, WHERE(kv_bytes_per_token), 0, "must be a size from 1 byte on, like 524288 or 512KiB" },
    { FORM_RATIO, WHERE(trainable), 1, A_SHARE },
    { FORM_RATIO, WHERE(overhead), 100, "must be a share of the weights from 0 to 100, like 0.2 or 20%" },
    { FORM_COUNT, WHERE(layers), 0, A_COUNT },
    { FORM_COUNT, WHERE(hidden), 0, A_COUNT },
    { FORM_COUNT, WHERE(vocab), 0, A_COUNT },
    { FORM_COUNT, WHERE(ffn), 0, A_COUNT },
    { FORM_COUNT, WHERE(heads), 0, A_COUNT },
    { FORM_COUNT, WHERE(kv_heads), 0, A_COUNT },
    { FORM_COUNT, WHERE(head_dim), 0, A_COUNT },
    { FORM_CARDS, WHERE(card_bytes), 0,
      "must be a size in GiB above 0 and at most 1000000, or a list like 24,80" },
    { FORM_COUNT, WHERE(gpus), 0, A_COUNT },
};

static const struct word {
    const char *word;
    vr_ratio bytes;
} WORDS[] = {
    { "fp32", { 4, 1 } }, { "fp16", { 2, 1 } }, { "bf16", { 2, 1 } },
    { "fp8", { 1, 1 } },  { "int8", { 1, 1 } }, { "int4", { 5, 10 } },
};

const vram_option *vram_scenario_options(size_t *n)
{
    *n = sizeof(OPTIONS) / sizeof(OPTIONS[0]);
    return OPTIONS;
}

const char *vr_number_key(vr_number n)
{
    return OPTIONS[n].key;
}

vr_str vr_number_flag(vr_number n)
{
    vr_str flags = vr_str_of(OPTIONS[n].flags), first = { NULL, 0 };
    vr_str_split(&flags, ' ', &first);
    return first;
}

bool vr_number_of_key(vr_str key, vr_number *out)
{
    for (unsigned i = 0; i < VR_NUMBER_COUNT; i++) {
        if (vr_str_is(key, OPTIONS[i].key)) {
            *out = (vr_number)i;
            return true;
        }
    }
    return false;
}

#define LONGEST_KEY 32

/* Edit distance (Levenshtein), one row at a time. */
static unsigned distance(vr_str a, vr_str b)
{
    unsigned row[LONGEST_KEY + 1];
    for (unsigned j = 0; j <= b.n; j++)
        row[j] = j;
    for (size_t i = 0; i < a.n; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < b.n; j++) {
            unsigned change = corner + (a.s[i] != b.s[j]);
            unsigned step = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            corner = row[j + 1];
            row[j + 1] = change < step ? change : step;
        }
    }
    return row[b.n];
}

const char *vr_number_nearest(vr_str key)
{
    const char *best = NULL;
    unsigned nearest = 4; /* more than three slips is another word */
    if (key.n == 0 || key.n > LONGEST_KEY)
        return NULL;
    for (unsigned i = 0; i < VR_NUMBER_COUNT; i++) {
        unsigned d = distance(key, vr_str_of(OPTIONS[i].key));
        if (d < nearest && d < key.n) {
            nearest = d;
            best = OPTIONS[i].key;
        }
    }
    return best;
}

/* "1%" is a hundredth of "1". */
static bool parse_ratio(vr_str text, vr_ratio *out)
{
    bool percent = text.n > 1 && text.s[text.n - 1] == '%';
    if (percent)
        text.n--;
    uint64_t value, scale;
    if (!vr_parse_decimal(text, &value, &scale) || (percent && !vr_mul(scale, 100, &scale)))
        return false;
    *out = (vr_ratio){ value, scale };
    return true;
}

static bool parse_weight_bytes(vr_str text, vr_ratio *out)
{
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
        if (vr_str_is(text, WORDS[i].word)) {
            *out = WORDS[i].bytes;
            return true;
        }
    }
    return vr_parse_decimal(text, &out->value, &out->scale) && out->value > 0;
}

/* Of a model's name: 7B, 1.5B, 350M. Always decimal. */
static uint64_t params_unit(char letter)
{
    switch (letter) {
    case 'k':
    case 'K':
        return 1000;
    case 'm':
    case 'M':
        return 1000000;
    case 'b':
    case 'B':
        return VR_GB;
    case 't':
    case 'T':
        return 1000 * VR_GB;
    default:
        return 0;
    }
}

static bool parse_params(vr_str text, uint64_t *out)
{
    uint64_t value, scale, unit = text.n > 1 ? params_unit(text.s[text.n - 1]) : 0;
    if (unit == 0)
        return vr_parse_count(text, out) && *out > 0;
    text.n--;
    if (!vr_parse_decimal(text, &value, &scale))
        return false;
    *out = vr_mul_div(value, unit, scale);
    return *out > 0 && *out != UINT64_MAX;
}

static bool parse_card(vr_str text, uint64_t *bytes)
{
    uint64_t value, scale;
    if (!vr_parse_decimal(text, &value, &scale))
        return false;
    *bytes = vr_mul_div(value, VR_GIB, scale);
    return *bytes > 0 && *bytes <= 1000000 * VR_GIB;
}

static bool parse_cards(vr_numbers *n, vr_str list, const char **why)
{
    vr_str word;
    while (vr_str_split(&list, ',', &word)) {
        uint64_t bytes;
        while (word.n > 0 && word.s[0] == ' ')
            word = (vr_str){ word.s + 1, word.n - 1 };
        if (!parse_card(word, &bytes))
            return false;
        if (n->n_cards == VR_SCENARIO_CARDS) {
            *why = "takes at most 16 sizes";
            return false;
        }
        n->card_bytes[n->n_cards++] = bytes;
    }
    return true;
}

static bool parse_choice(vr_str text, const char *yes, const char *no, bool *out)
{
    *out = vr_str_is(text, yes);
    return *out || vr_str_is(text, no);
}

static bool in_bounds(vr_number what, vr_ratio r)
{
    return r.scale != 0 && r.value <= vr_mul_sat(r.scale, ROWS[what].most);
}

static bool parse(vr_numbers *n, vr_number what, vr_str value, const char **why)
{
    void *at = (char *)n + ROWS[what].at;
    switch (ROWS[what].form) {
    case FORM_TEXT:
        return value.n > 0 && value.n <= 80;
    case FORM_TRAIN:
        return parse_choice(value, "train", "infer", at);
    case FORM_ALL:
        return parse_choice(value, "all", "last", at);
    case FORM_COUNT:
        return vr_parse_count(value, at) && *(uint64_t *)at > 0;
    case FORM_PARAMS:
        return parse_params(value, at);
    case FORM_BYTES:
        return vr_parse_bytes(value, at) && *(uint64_t *)at > 0;
    case FORM_RATIO:
        return (what == VR_NUM_WEIGHT_BYTES ? parse_weight_bytes(value, at) : parse_ratio(value, at)) &&
               in_bounds(what, *(vr_ratio *)at);
    case FORM_CARDS:
        return parse_cards(n, value, why);
    }
    return false;
}

vram_status vr_numbers_set(vr_numbers *n, vr_number what, vr_str value, vr_arena *a, const char **why)
{
    vr_numbers with = *n; /* a value that fails leaves no trace */
    *why = ROWS[what].wanted;
    if (!parse(&with, what, value, why))
        return VRAM_ESETTING;
    *n = with;
    if (ROWS[what].form == FORM_TEXT) {
        n->name = vr_arena_copy(a, value);
        if (n->name == NULL)
            return VRAM_ENOMEM;
    }
    n->given[what] = true;
    n->set_by[what] = VR_BY_USER;
    n->offset[what] = UINT64_MAX;
    return VRAM_OK;
}

void vr_numbers_merge(vr_numbers *n, const vr_numbers *other, bool wins)
{
    for (unsigned i = 0; i < VR_NUMBER_COUNT; i++) {
        if (!other->given[i] || (n->given[i] && !wins))
            continue;
        memcpy((char *)n + ROWS[i].at, (const char *)other + ROWS[i].at, ROWS[i].size);
        if (i == VR_NUM_GPU_MEMORY_GIB)
            n->n_cards = other->n_cards;
        n->given[i] = true;
        n->set_by[i] = other->set_by[i];
        n->offset[i] = other->offset[i];
    }
}

uint64_t vr_ratio_of(uint64_t x, vr_ratio ratio)
{
    return ratio.scale == 0 ? 0 : vr_mul_div(x, ratio.value, ratio.scale);
}

vr_piece vr_ratio_piece(vr_ratio ratio)
{
    unsigned places = 0;
    if (ratio.scale == 0)
        return T("not given");
    while (ratio.value % 10 == 0 && ratio.scale >= 10) {
        ratio.value /= 10;
        ratio.scale /= 10;
    }
    for (uint64_t s = ratio.scale; s >= 10; s /= 10)
        places++;
    return FIXED(ratio.value, ratio.scale, places);
}

static const char *cards_value(const vr_numbers *n, vr_arena *a)
{
    const char *list = "";
    for (size_t i = 0; i < n->n_cards && list != NULL; i++) {
        uint64_t bytes = n->card_bytes[i];
        unsigned places = bytes % VR_GIB == 0 ? 0 : 2;
        list = vr_text(a, T(list), T(i > 0 ? ", " : ""), FIXED(bytes, VR_GIB, places));
    }
    return list;
}

const char *vr_numbers_value(const vr_numbers *n, vr_number what, vr_arena *a)
{
    const void *at = (const char *)n + ROWS[what].at;
    switch (ROWS[what].form) {
    case FORM_TEXT:
        return n->name;
    case FORM_TRAIN:
        return n->train ? "train" : "infer";
    case FORM_ALL:
        return n->logits_all ? "all" : "last";
    case FORM_COUNT:
    case FORM_PARAMS:
    case FORM_BYTES:
        return vr_text(a, U(*(const uint64_t *)at));
    case FORM_RATIO:
        return vr_text(a, vr_ratio_piece(*(const vr_ratio *)at));
    case FORM_CARDS:
        return cards_value(n, a);
    }
    return "";
}

vram_status vr_number_fail(const vram_scenario *s, const vr_numbers *n, vr_number what, const char *reason)
{
    bool by_user = n->given[what] && n->set_by[what] == VR_BY_USER;
    if (s->file != NULL && by_user && n->offset[what] != UINT64_MAX)
        return vr_fail_at(s->ctx, VRAM_EFORMAT, s->file, n->offset[what], T(OPTIONS[what].key), T(" "),
                          T(reason));
    if (s->file != NULL && !by_user)
        return vr_fail_file(s->ctx, VRAM_EFORMAT, s->file, T(OPTIONS[what].key), T(" "), T(reason));
    return vr_fail(s->ctx, VRAM_ESETTING, S(vr_number_flag(what)), T(" "), T(reason));
}
