/* SPDX-License-Identifier: MIT
 *
 * Which levers are in force already, by what the log says of its settings: they are no answer.
 */
#include "diagnosis/levers.h"

/* Levers, by group or id, that are in force when the log has that option. */
static const struct in_force {
    const char *lever, *option;
} in_force[] = {
    { "eager", "opt-eager" },
    { "checkpointing", "opt-checkpointing" },
    { "cache_quantized", "opt-kv-8bit" },
    { "dtype_16bit", "opt-bf16" },
    { "dtype_16bit", "opt-fp16" },
    { "bf16", "opt-bf16" },
    { "bf16", "opt-fp16" },
    { "weights_4bit", "opt-4bit" },
    { "weights_4bit", "opt-quantised-4bit" },
    { "weights_8bit", "opt-4bit" },
    { "weights_8bit", "opt-quantised-4bit" },
    { "weights_8bit", "opt-8bit" },
    { "dtype_16bit", "opt-4bit" },
    { "dtype_16bit", "opt-8bit" },
    { "dtype_16bit", "opt-quantised-4bit" },
    { "lora", "opt-lora" },
    { "qlora", "opt-4bit" },
    { "growth_of_arena", "opt-growth" },
    { "no_grad", "opt-no-grad" },
    { "novram", "opt-lowvram" },
    { "expandable_segments", "opt-expandable" },
    { "shard2", "opt-zero2" },
    { "shard2", "opt-zero3" },
    { "ds-shard3", "opt-zero3" },
    { "trainer-zero3", "opt-zero3" },
    { "ds-offload", "opt-offload" },
    { "trainer-offload", "opt-offload" },
};

static bool by_option(const vr_case *c, const vr_lever_row *row)
{
    for (size_t i = 0; i < sizeof in_force / sizeof in_force[0]; i++)
        if ((vr_str_is(vr_str_of(row->group), in_force[i].lever) ||
             vr_str_is(vr_str_of(row->id), in_force[i].lever)) &&
            vr_seen(&c->d->found, c->f->event, in_force[i].option))
            return true;
    return false;
}

/* ---- the setting itself, as commands, configurations and engines print it ---- */

/* "max_num_seqs" and "32" of "--max-num-seqs 32"; the dash of short options is a part of the name. */
typedef struct setting {
    vr_str name, value;
    bool is_number, less_is_more; /* a smaller number in force is as good */
    bool more_is_more;            /* a larger one is */
    uint64_t number;
} setting;

static bool is_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static bool is_between(char c)
{
    return c == ' ' || c == '=' || c == ':' || c == '\'' || c == '"';
}

static bool ends_value(char c)
{
    return c == ' ' || c == ',' || c == ')' || c == '}' || c == '\'' || c == '"' || c == '\n';
}

static char folded(char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

static bool same_name(vr_str a, vr_str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (folded(a.s[i]) != folded(b.s[i]))
            return false;
    return true;
}

/* Two dashes in front are no part of a name; one is, of a short option. */
static vr_str without_dashes(vr_str name)
{
    return vr_str_starts(name, "--") ? (vr_str){ name.s + 2, name.n - 2 } : name;
}

static size_t length_of(vr_str text, size_t at, bool (*of)(char), bool wanted)
{
    size_t n = 0;

    while (at + n < text.n && of(text.s[at + n]) == wanted)
        n++;
    return n;
}

/* The first "name value" of a text from `at` on; false: none. *end is behind the name. */
static bool next_setting(vr_str text, size_t *at, setting *out)
{
    size_t name, between;

    *at += length_of(text, *at, is_of_name, false);
    name = length_of(text, *at, is_of_name, true);
    if (name == 0)
        return false;
    out->name = without_dashes((vr_str){ text.s + *at, name });
    *at += name;
    between = length_of(text, *at, is_between, true);
    out->value = (vr_str){ text.s + *at + between,
                           between == 0 ? 0 : length_of(text, *at + between, ends_value, false) };
    return true;
}

static bool can_be_said(const vr_lever_row *row)
{
    return row->language == VR_LANGUAGE_FLAGS || row->language == VR_LANGUAGE_PYTHON ||
           row->language == VR_LANGUAGE_JSON || row->language == VR_LANGUAGE_ENVIRONMENT;
}

static bool less_is_more(const char *group)
{
    static const char *const groups[] = { "prefill", "half_sequences", "half_context", "graphs",
                                          "workers", "eval_batch",     "gpu_layers" };

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (vr_str_is(vr_str_of(group), groups[i]))
            return true;
    return false;
}

/* What a lever sets first. Of a call the first argument that has a name. */
static bool setting_of(const vr_lever_row *row, const char *command, setting *out)
{
    vr_str text = vr_str_of(command);
    size_t at = 0;

    if (!can_be_said(row))
        return false;
    if (row->language == VR_LANGUAGE_PYTHON &&
        (!vr_str_find(text, "(", &at) || !vr_str_find(text, "=", NULL)))
        return false;
    while (next_setting(text, &at, out) && out->value.n == 0)
        ;
    out->is_number = vr_parse_u64(out->value, &out->number);
    out->less_is_more = less_is_more(row->group);
    out->more_is_more = row->cost == VR_COST_HARDWARE;
    return out->name.n > 1 && out->value.n != 0;
}

static bool has_value(const setting *wanted, const setting *there)
{
    uint64_t n;

    if (wanted->is_number && wanted->less_is_more && vr_parse_u64(there->value, &n))
        return n <= wanted->number;
    if (wanted->is_number && wanted->more_is_more && vr_parse_u64(there->value, &n))
        return n >= wanted->number;
    return same_name(wanted->value, there->value);
}

/* The text sets the same to the same. */
static bool is_set_in(const char *text, const setting *wanted)
{
    vr_str s = vr_str_of(text);
    setting there;
    size_t at = 0;

    while (next_setting(s, &at, &there))
        if (same_name(there.name, wanted->name) && there.value.n != 0 && has_value(wanted, &there))
            return true;
    return false;
}

static bool by_setting(const vr_case *c, const vr_lever_row *row, const char *command)
{
    const vr_incident *e = c->f->event;
    setting wanted = { 0 };

    if (!setting_of(row, command, &wanted))
        return false;
    for (size_t i = 0; i < c->d->found.n_seen; i++)
        if (is_set_in(c->d->found.seen[i].text, &wanted))
            return true;
    for (size_t i = 0; e != NULL && i < e->n_near; i++)
        if (is_set_in(e->near[i].text, &wanted))
            return true;
    return false;
}

bool vr_in_force(const vr_case *c, const vr_lever_row *row, const char *command)
{
    return by_option(c, row) || by_setting(c, row, command);
}
