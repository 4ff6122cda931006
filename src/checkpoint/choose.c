/* SPDX-License-Identifier: MIT
 * Which of several models that lie together is meant: a pattern over the names of files, and the list of what
 * there is when it does not say. */
#include "checkpoint/loading.h"

#include <string.h>

#define LISTED_MOST 40

/* ---- the pattern ---- */

static bool has_wildcard(vr_str p)
{
    return memchr(p.s, '*', p.n) != NULL || memchr(p.s, '?', p.n) != NULL;
}

/* As a shell's, but '*' also passes '/'. On a mismatch only the last '*' has to be tried again. */
static bool wildcard_matches(vr_str p, vr_str name)
{
    size_t i = 0, j = 0, star = SIZE_MAX, from = 0;
    while (j < name.n) {
        if (i < p.n && p.s[i] == '*') {
            star = i++;
            from = j;
        } else if (i < p.n && (p.s[i] == '?' || vr_lower(p.s[i]) == vr_lower(name.s[j]))) {
            i++;
            j++;
        } else if (star != SIZE_MAX) {
            i = star + 1;
            j = ++from;
        } else {
            return false;
        }
    }
    while (i < p.n && p.s[i] == '*')
        i++;
    return i == p.n;
}

static bool same_at(vr_str part, vr_str name, size_t at)
{
    for (size_t i = 0; i < part.n; i++) {
        if (vr_lower(part.s[i]) != vr_lower(name.s[at + i]))
            return false;
    }
    return true;
}

static bool in_word(vr_str name, size_t at)
{
    char c = at < name.n ? vr_lower(name.s[at]) : ' ';
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The better it matches the higher: the whole name; whole words of it, so that F16 is not BF16 and Q4_K not
 * Q4_K_M; a part. 0: not at all. */
static unsigned part_matches(vr_str part, vr_str name)
{
    unsigned best = 0;
    for (size_t at = 0; part.n > 0 && at + part.n <= name.n; at++) {
        if (!same_at(part, name, at))
            continue;
        bool begins = at == 0 || !in_word(name, at - 1), ends = !in_word(name, at + part.n);
        unsigned found = !begins || !ends ? 1 : part.n == name.n ? 3 : 2;
        best = found > best ? found : best;
    }
    return best;
}

static unsigned match(vr_str pattern, vr_str name, vr_str folder)
{
    vr_str base = { name.s + folder.n, name.n - folder.n };
    if (has_wildcard(pattern))
        return wildcard_matches(pattern, name) || wildcard_matches(pattern, base);
    return part_matches(pattern, name);
}

/* A projector beside a model is meant only when nothing else matches. */
size_t vr_choose(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    vr_str pattern = vr_str_of(l->chosen);
    unsigned best = 0;
    size_t n = 0;
    for (size_t i = 0; i < l->n_inputs; i++) {
        const vr_input *in = &l->inputs[i];
        if (!in->weights)
            continue;
        unsigned found = 2 * match(pattern, vr_str_of(in->name), in->kind.folder);
        found -= found > 0 && vr_set_is_projector(&l->sets[in->set]);
        if (found == 0 || found < best)
            continue;
        for (size_t k = 0; found > best && k < l->n_sets; k++)
            l->sets[k].matches = false;
        best = found;
        l->sets[in->set].matches = true;
    }
    for (size_t i = 0; i < l->n_sets; i++)
        n += l->sets[i].matches;
    return n;
}

/* ---- what there is ---- */

typedef struct listed {
    const vr_set *set;
    vr_str name;
} listed;

static bool smaller(void *ud, const void *x, const void *y)
{
    (void)ud;
    return ((const listed *)x)->set->bytes < ((const listed *)y)->set->bytes;
}

/* Of the first file, without the shard's number: folder, stem and variant. A quantisation's folder is only
 * tidiness. */
static vr_str name_of(const vr_set *s)
{
    const vr_kind *k = &s->first->kind;
    const char *from = k->ext == VR_FILES_GGUF ? k->stem.s : k->folder.s;
    vr_str end = k->variant.n != 0 && k->variant.s > k->stem.s ? k->variant : k->stem;
    return (vr_str){ from, (size_t)(end.s + end.n - from) };
}

static vram_status list_of(listed **out, vram_checkpoint *ck, const vr_set *const *sets, size_t n)
{
    listed *list = VR_ARRAY(&ck->arena, listed, n);
    if (list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        list[i] = (listed){ sets[i], name_of(sets[i]) };
    *out = list;
    return vr_sort(ck->ctx, list, n, sizeof(*list), smaller, NULL);
}

/* What the names begin with alike, up to a dash, a dot or a slash. */
static size_t alike(const listed *list, size_t n)
{
    size_t same = n < 2 ? 0 : list[0].name.n;
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;
        while (k < same && k < list[i].name.n && list[i].name.s[k] == list[0].name.s[k])
            k++;
        same = k;
    }
    while (same > 0 && memchr("-./", list[0].name.s[same - 1], 3) == NULL)
        same--;
    return same < 6 ? 0 : same;
}

/* As download pages count. */
static vr_piece size_number(uint64_t bytes)
{
    return bytes >= VR_GB / 100 ? FIXED(bytes, VR_GB, 2)
           : bytes >= 1000000   ? FIXED(bytes, 1000000, 1)
                                : U(bytes);
}

static const char *size_unit(uint64_t bytes)
{
    return bytes >= VR_GB / 100 ? " GB" : bytes >= 1000000 ? " MB" : " bytes";
}

static const char *list_text(vram_checkpoint *ck, const listed *list, size_t n)
{
    static const char *const tails[] = { ".safetensors", ".bin", "", ".gguf" };
    size_t skip = alike(list, n);
    const char *text = skip == 0 ? "" : vr_text(&ck->arena, S(((vr_str){ list[0].name.s, skip })), T("*: "));
    for (size_t i = 0; i < n && i < LISTED_MOST && text != NULL; i++) {
        const vr_set *s = list[i].set;
        vr_str rest = { list[i].name.s + skip, list[i].name.n - skip };
        text = vr_text(&ck->arena, T(text), T(i == 0 ? "" : ", "), S(vr_shown(rest)),
                       T(skip == 0 ? tails[s->first->kind.ext] : ""), T(" "), size_number(s->bytes),
                       T(size_unit(s->bytes)), T(s->n > 1 ? " in " : ""), s->n > 1 ? U(s->n) : T(""),
                       T(s->n > 1 ? " files" : ""));
    }
    if (n > LISTED_MOST && text != NULL)
        text = vr_text(&ck->arena, T(text), T(" and "), U(n - LISTED_MOST), T(" more"));
    return text;
}

/* A shell and --file take it as it is. */
static bool plain_word(vr_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = vr_lower(s.s[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' &&
            (i == 0 || memchr("-./", c, 3) == NULL))
            return false;
    }
    return s.n > 0;
}

/* What to type for one of them: the one that most people take, otherwise the smallest. */
static const char *example_of(vram_checkpoint *ck, const listed *list, size_t n)
{
    size_t skip = alike(list, n), best = 0;
    for (size_t i = 0; i < n; i++) {
        vr_str rest = { list[i].name.s + skip, list[i].name.n - skip };
        if (vr_str_ends(rest, "Q4_K_M") ||
            (vr_set_is_projector(list[best].set) && !vr_set_is_projector(list[i].set)))
            best = i;
    }
    vr_str word = { list[best].name.s + skip, list[best].name.n - skip };
    if (!plain_word(word))
        return "choose one with --file PATTERN";
    return vr_text(&ck->arena, T("choose one with --file PATTERN, such as --file "), S(word));
}

vram_status vr_choose_fail(vram_checkpoint *ck, const vr_set *const *sets, size_t n, const char *what)
{
    const vr_loading *l = ck->loading;
    listed *list;
    VR_TRY(list_of(&list, ck, sets, n));
    const char *text = list_text(ck, list, n);
    if (text == NULL)
        return VRAM_ENOMEM;
    vram_status s = what != NULL
                        ? vr_fail_file(ck->ctx, VRAM_ESETTING, ck->name, U(n), T(what), T(text))
                        : vr_fail_file(ck->ctx, VRAM_ESETTING, ck->name, T("no weight file matches \""),
                                       S(vr_shown(vr_str_of(l->chosen))), T("\"; there is "), T(text));
    const char *hint = n == 1 ? "without --file it is taken" : example_of(ck, list, n);
    if (hint == NULL)
        return VRAM_ENOMEM;
    vr_hint(ck->ctx, hint);
    return s;
}

/* ---- by size ---- */

vram_status vr_choose_by_size(vram_checkpoint *ck, vr_set **sets, size_t n)
{
    size_t nth = ck->loading->by_size - 1;
    listed *list;
    VR_TRY(list_of(&list, ck, (const vr_set *const *)sets, n));
    ck->choices = VR_ARRAY(&ck->arena, vram_choice, n);
    if (ck->choices == NULL)
        return VRAM_ENOMEM;
    size_t skip = alike(list, n);
    nth = nth < n ? nth : n - 1;
    for (size_t i = 0; i < n; i++) {
        vr_str rest = { list[i].name.s + skip, list[i].name.n - skip };
        ck->choices[i] = (vram_choice){ vr_arena_copy(&ck->arena, rest), list[i].set->bytes, i == nth };
        if (ck->choices[i].name == NULL)
            return VRAM_ENOMEM;
        ck->loading->sets[list[i].set - ck->loading->sets].taken = i == nth;
    }
    ck->n_choices = n;
    return VRAM_OK;
}
