/* SPDX-License-Identifier: MIT
 *
 * Which levers of data/remedies.tsv apply to a finding: the best few, the cheapest first.
 */
#include <string.h>

#include "diagnosis/levers.h"

_Static_assert(VR_PROGRAM_COUNT <= 64 && VR_IF_COUNT <= 64 && VR_PHASE_COUNT <= 64 && VR_CAUSE_COUNT <= 64,
               "masks of levers have 64 bits");

#define X(id, word, meaning) { word, meaning },
const vr_term vr_cost_words[] = { VR_COSTS(X) };
#undef X

typedef struct choice {
    const vr_lever_row *row;
    const char *command;
} choice;

typedef struct chosen {
    choice list[VR_MAX_REMEDIES];
    size_t n, room; /* room: what is left of the finding's list */
} chosen;

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && vr_str_is(vr_str_of(a), b);
}

/* What a rehearsal has tried: where it is not among its levers it does not help. */
static bool was_rehearsed(const vr_case *c, const char *group)
{
    static const char *const tried[] = { "dtype_16bit",    "resume",         "twice",
                                         "weights_8bit",   "weights_4bit",   "half_context",
                                         "half_sequences", "attention_sdpa", "cache_quantized",
                                         "cache_offloaded" };

    if (!c->f->spot.found || c->f->n_remedies == 0 || !c->f->remedies[0].sized)
        return false;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        if (same(tried[i], group))
            return true;
    return false;
}

/* Sized levers of a rehearsal stand there before, under ids that are groups here. */
static bool is_taken(const vr_case *c, const vr_lever_row *row)
{
    for (size_t i = 0; i < c->f->n_remedies; i++)
        if (same(c->f->remedies[i].id, row->group) || same(c->f->remedies[i].id, row->id))
            return true;
    return was_rehearsed(c, row->group);
}

/* Where a lever of the same group is that is not worse; or the place of the group's worse one, to be
 * replaced. */
static bool has_better(const chosen *c, const vr_lever_row *row, size_t *worse)
{
    *worse = c->n;
    for (size_t i = 0; i < c->n; i++)
        if (same(c->list[i].row->group, row->group)) {
            *worse = i;
            return c->list[i].row->rank <= row->rank;
        }
    return false;
}

static void take_out(chosen *c, size_t at)
{
    c->n--;
    memmove(&c->list[at], &c->list[at + 1], (c->n - at) * sizeof c->list[0]);
}

/* The list stays sorted by rank; the last of a full one falls out. */
static void put_in(chosen *c, choice new)
{
    size_t at = c->n;

    if (c->n == c->room && (at == 0 || c->list[at - 1].row->rank <= new.row->rank))
        return;
    if (c->n == c->room)
        at = --c->n;
    for (; at > 0 && c->list[at - 1].row->rank > new.row->rank; at--)
        c->list[at] = c->list[at - 1];
    c->list[at] = new;
    c->n++;
}

static void consider(const vr_case *c, chosen *list, const vr_lever_row *row)
{
    const char *command;
    size_t worse;

    if (!vr_lever_applies(c, row) || is_taken(c, row) || has_better(list, row, &worse))
        return;
    command = vr_filled(c, row->command);
    if (command == NULL || vr_in_force(c, row, command))
        return;
    if (worse < list->n)
        take_out(list, worse);
    put_in(list, (choice){ row, command });
}

static bool is_cheaper(const vr_lever_row *a, const vr_lever_row *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->rank < b->rank;
}

static void append(const vr_case *k, vr_finding *f, choice c)
{
    const char *gain = c.row->gain != NULL ? vr_filled(k, c.row->gain) : NULL;

    f->remedies[f->n_remedies++] = (vr_remedy){
        .id = c.row->id,
        .change = c.row->change,
        .command = c.command,
        .cost = c.row->cost_in_words != NULL ? c.row->cost_in_words : vr_cost_words[c.row->cost].meaning,
        .gain = gain,
        .is_done = c.row->language == VR_LANGUAGE_WORDS,
    };
}

/* Cheapest first. */
static void append_all(const vr_case *k, vr_finding *f, chosen *c)
{
    while (c->n != 0) {
        size_t best = 0;
        for (size_t i = 1; i < c->n; i++)
            if (is_cheaper(c->list[i].row, c->list[best].row))
                best = i;
        append(k, f, c->list[best]);
        take_out(c, best);
    }
}

static vram_status judge_remedies(const vr_case *c)
{
    chosen list = { { { NULL, NULL } }, 0, 0 };

    if (c->f->remedies == NULL)
        c->f->remedies = VR_ARRAY(&c->d->arena, vr_remedy, VR_MAX_REMEDIES);
    if (c->f->remedies == NULL)
        return VRAM_ENOMEM;
    list.room = c->f->n_remedies < VR_MAX_REMEDIES ? VR_MAX_REMEDIES - c->f->n_remedies : 0;
    for (size_t i = 0; i < vr_remedy_table_n && list.room != 0; i++)
        consider(c, &list, &vr_remedy_table[i]);
    append_all(c, c->f, &list);
    return VRAM_OK;
}

vram_status vr_diagnose_remedies(struct vram_diagnosis *d, vr_finding *f)
{
    vr_case c;

    vr_case_of(&c, d, f);
    VR_TRY(judge_remedies(&c));
    vr_judge_futile(&c);
    if (f->certainty != VR_CERTAINTY_CERTAIN || f->n_remedies == 0)
        vr_judge_tell(&c);
    return VRAM_OK;
}
