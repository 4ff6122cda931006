/* SPDX-License-Identifier: MIT
 * config.json, which is what Python's json module reads and writes, and that is more than JSON: NaN, Infinity
 * and -Infinity are numbers there (json/decoder.py, _CONSTANTS; published: "time_step_limit": [0.0,
 * Infinity]), and of a name that comes twice in an object the last one counts (json/decoder.py, JSONObject).
 * Both are undone in a copy of the same length, so that the strict reader does the rest and every offset
 * stays. Nothing else of the model may be in such words: an index and a header are strict JSON. */
#include "checkpoint/loading.h"

#include <string.h>

#define SHOWN_NAMES 8
#define N_WORDS (sizeof(words) / sizeof(words[0]))

static char *copy_of(vram_checkpoint *ck, vr_str text)
{
    char *copy = vr_arena_copy(&ck->arena, text);
    if (copy != NULL)
        ck->config_text = (vr_str){ copy, text.n };
    return copy;
}

/* ---- numbers that are none ---- */

/* What stands for them is refused wherever a setting is read: no number of ours is 1e999, none is a list. */
static const struct {
    const char *word, *instead;
} words[] = { { "NaN", "[] " }, { "Infinity", "1e999   " }, { "-Infinity", "-1e999   " } };

static size_t word_at(vr_str text, size_t at)
{
    size_t i = 0;
    vr_str rest = { text.s + at, text.n - at };
    while (i < N_WORDS && !vr_str_starts(rest, words[i].word))
        i++;
    return i;
}

vr_str vr_config_word(const vram_checkpoint *ck, uint64_t offset)
{
    size_t i = word_at(ck->config_raw, (size_t)offset);
    return i < N_WORDS ? vr_str_of(words[i].word) : (vr_str){ "", 0 };
}

/* Behind the string that opens here; one that never ends is the strict reader's to refuse. */
static size_t past_string(vr_str text, size_t at)
{
    for (at++; at < text.n && text.s[at] != '"'; at++)
        at += text.s[at] == '\\';
    return at < text.n ? at + 1 : text.n;
}

static vram_status replace_words(vram_checkpoint *ck)
{
    vr_str text = ck->config_raw;
    char *copy = NULL;
    ck->config_text = text;
    for (size_t at = 0; at < text.n;) {
        if (text.s[at] == '"') {
            at = past_string(text, at);
            continue;
        }
        size_t i = text.s[at] == 'N' || text.s[at] == 'I' || text.s[at] == '-' ? word_at(text, at) : N_WORDS;
        if (i == N_WORDS) {
            at++;
            continue;
        }
        if (copy == NULL && (copy = copy_of(ck, text)) == NULL)
            return VRAM_ENOMEM;
        memcpy(copy + at, words[i].instead, strlen(words[i].instead));
        at += strlen(words[i].word);
    }
    return VRAM_OK;
}

/* ---- names that come twice ---- */

typedef struct member {
    vr_str name;
    uint32_t object; /* its number, by opening bracket */
    uint32_t at;     /* of the name's opening quote */
} member;

typedef struct members {
    vr_arena arena; /* only for the time of the search */
    member *list;
    size_t n, room;
} members;

static vram_status add_member(members *all, vr_str raw, uint32_t object, uint32_t at)
{
    if (all->n == all->room) {
        size_t room = all->room == 0 ? 128 : all->room * 2;
        member *grown = vr_arena_grow(&all->arena, all->list, all->n, room, sizeof(*grown));
        if (grown == NULL)
            return VRAM_ENOMEM;
        all->list = grown;
        all->room = room;
    }
    member *m = &all->list[all->n++];
    *m = (member){ .object = object, .at = at };
    return vr_unescape(raw, &all->arena, &m->name) ? VRAM_OK : VRAM_ENOMEM;
}

/* A string is a name when a colon follows. Containers are counted by their brackets. */
static vram_status list_members(members *all, vr_str text)
{
    uint32_t open[VR_JSON_DEPTH + 1] = { 0 }, objects = 0;
    size_t depth = 0;
    vr_walk w = { text.s, text.s + text.n };
    for (char c; (c = vr_walk_peek(&w)) != '\0';) {
        const char *start = w.p;
        if (c == '"') {
            vr_str raw = vr_walk_string(&w);
            if (vr_walk_peek(&w) == ':')
                VR_TRY(add_member(all, raw, open[depth], (uint32_t)(start - text.s)));
            continue;
        }
        w.p++;
        if (c == '{' || c == '[')
            open[++depth] = ++objects;
        depth -= c == '}' || c == ']';
    }
    return VRAM_OK;
}

static bool member_before(void *ud, const void *x, const void *y)
{
    const member *a = x, *b = y;
    int order;
    (void)ud;
    if (a->object != b->object)
        return a->object < b->object;
    order = vr_str_cmp(a->name, b->name);
    return order != 0 ? order < 0 : a->at < b->at;
}

static bool same_name(const member *a, const member *b)
{
    return a->object == b->object && vr_str_eq(a->name, b->name);
}

/* The member with the comma behind it: one of the same name follows, so there is a comma. */
static void blank(vr_str text, const member *m, char *copy)
{
    vr_walk w = { text.s + m->at, text.s + text.n };
    (void)vr_walk_string(&w);
    (void)vr_walk_take(&w, ':');
    (void)vr_walk_value(&w);
    (void)vr_walk_take(&w, ',');
    memset(copy + m->at, ' ', (size_t)(w.p - text.s) - m->at);
}

static vram_status warn_twice(vram_checkpoint *ck, vr_str name, size_t n)
{
    if (n <= SHOWN_NAMES)
        return vr_warn(ck->ctx, ck->config_file, T("\""), S(vr_shown(name)),
                       T("\" is there twice: the last one counts, as in Python"));
    return n > SHOWN_NAMES + 1 ? VRAM_OK : vr_warn(ck->ctx, ck->config_file, T("more names are there twice"));
}

static vram_status blank_all(vram_checkpoint *ck, const members *all)
{
    vr_str text = ck->config_text;
    char *copy = NULL;
    size_t n = 0;
    for (size_t i = 1; i < all->n; i++) {
        const member *m = &all->list[i - 1];
        if (!same_name(m, &all->list[i]))
            continue;
        if (copy == NULL && (copy = copy_of(ck, text)) == NULL)
            return VRAM_ENOMEM;
        blank(text, m, copy);
        VR_TRY(warn_twice(ck, m->name, ++n));
    }
    return VRAM_OK;
}

static vram_status last_one_counts(vram_checkpoint *ck)
{
    members all = { .list = NULL };
    vr_arena_init(&all.arena, ck->ctx);
    vram_status s = list_members(&all, ck->config_text);
    if (s == VRAM_OK)
        s = vr_sort(ck->ctx, all.list, all.n, sizeof(*all.list), member_before, NULL);
    if (s == VRAM_OK)
        s = blank_all(ck, &all);
    vr_arena_free(&all.arena);
    return s;
}

/* ---- the whole ---- */

static vram_status parse(vram_checkpoint *ck)
{
    vr_json_error e;
    if (vr_json_parse(ck->config_text, &ck->config, &e))
        return VRAM_OK;
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, ck->config_file, e.offset, T("not valid JSON: "), T(e.reason));
}

vram_status vr_config_read(vram_checkpoint *ck)
{
    VR_TRY(replace_words(ck));
    VR_TRY(parse(ck));
    if (ck->config.type != VR_JSON_OBJECT)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, ck->config_file,
                          (uint64_t)(ck->config.text.s - ck->config_text.s),
                          T("a configuration must be a JSON object"));
    VR_TRY(last_one_counts(ck));
    return parse(ck);
}
