/* SPDX-License-Identifier: MIT
 * Writing a tape, and the names of categories, items and moments. Failures are sticky, so that an engine
 * writes a whole pass without looking and asks once at the end. */
#include "rehearsal/tape.h"

const char *vr_category_json(vr_category c)
{
    static const char *const names[] = {
#define X(id, json, screen) json,
        VR_CATEGORIES(X)
#undef X
    };
    return (unsigned)c < VR_CATEGORY_COUNT ? names[c] : "";
}

const char *vr_category_screen(vr_category c)
{
    static const char *const names[] = {
#define X(id, json, screen) screen,
        VR_CATEGORIES(X)
#undef X
    };
    return (unsigned)c < VR_CATEGORY_COUNT ? names[c] : "";
}

vr_category vr_item_category(vr_item i)
{
    static const vr_category categories[] = {
#define X(id, category, json, screen) VR_##category,
        VR_ITEMS(X)
#undef X
    };
    return (unsigned)i < VR_ITEM_COUNT ? categories[i] : VR_OVERHEAD;
}

const char *vr_item_json(vr_item i)
{
    static const char *const names[] = {
#define X(id, category, json, screen) json,
        VR_ITEMS(X)
#undef X
    };
    return (unsigned)i < VR_ITEM_COUNT ? names[i] : "";
}

const char *vr_item_screen(vr_item i)
{
    static const char *const names[] = {
#define X(id, category, json, screen) screen,
        VR_ITEMS(X)
#undef X
    };
    return (unsigned)i < VR_ITEM_COUNT ? names[i] : "";
}

const char *vr_moment_name(vr_moment_id m)
{
    static const char *const names[] = {
#define X(id, name) name,
        VR_MOMENTS(X)
#undef X
    };
    return (unsigned)m < VR_MOMENT_COUNT ? names[m] : "";
}

void vr_tape_init(vr_tape *t, vr_arena *arena)
{
    *t = (vr_tape){ .arena = arena, .limit = VR_TAPE_LIMIT, .status = VRAM_OK };
}

/* Room for one more element; the new room, or 0 and the status set. */
static void *room_for_one(vr_tape *t, void *old, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return old;
    size_t more = *room < 64 ? 64 : *room * 2;
    void *p = vr_arena_grow(t->arena, old, *room, more, size);
    if (p == NULL)
        t->status = VRAM_ENOMEM;
    else
        *room = more;
    return p;
}

void vr_tape_reserve(vr_tape *t, size_t events, size_t labels)
{
    vr_event *e = NULL;
    vr_str *l = NULL;
    if (t->status != VRAM_OK || events > t->limit || labels > t->limit)
        return;
    if (events > t->room)
        e = vr_arena_grow(t->arena, t->events, t->room, events, sizeof(*e));
    if (labels > t->labels_room)
        l = vr_arena_grow(t->arena, t->labels, t->labels_room, labels, sizeof(*l));
    if ((events > t->room && e == NULL) || (labels > t->labels_room && l == NULL))
        t->status = VRAM_ENOMEM;
    if (e != NULL) {
        t->events = e;
        t->room = events;
    }
    if (l != NULL) {
        t->labels = l;
        t->labels_room = labels;
    }
}

static vram_status over_limit(vr_tape *t)
{
    return vr_fail(t->arena->ctx, VRAM_ELIMIT, T("the rehearsal would need more than "), GROUPED(t->limit),
                   T(" allocations and frees"));
}

static vr_event *add_event(vr_tape *t, vr_event_kind kind)
{
    if (t->status != VRAM_OK)
        return NULL;
    if (t->n >= t->limit) {
        t->status = over_limit(t);
        return NULL;
    }
    vr_event *events = room_for_one(t, t->events, t->n, &t->room, sizeof(*events));
    if (events == NULL)
        return NULL;
    t->events = events;
    vr_event *e = &events[t->n++];
    *e = (vr_event){ .kind = (uint8_t)kind };
    return e;
}

uint32_t vr_tape_label(vr_tape *t, vr_str label)
{
    if (t->status != VRAM_OK)
        return 0;
    if (t->n_labels >= t->limit || t->n_labels >= UINT32_MAX) {
        t->status = over_limit(t);
        return 0;
    }
    vr_str *labels = room_for_one(t, t->labels, t->n_labels, &t->labels_room, sizeof(*labels));
    if (labels == NULL)
        return 0;
    t->labels = labels;
    if (t->n_labels == 0)
        labels[t->n_labels++] = (vr_str){ NULL, 0 }; /* number 0: none */
    labels[t->n_labels++] = label;
    return (uint32_t)t->n_labels - 1;
}

/* A block number that is not in use; false: the tape has failed. */
static bool take_number(vr_tape *t, uint32_t *number)
{
    if (t->n_spare > 0) {
        *number = t->spare[--t->n_spare];
        t->held[*number] = true;
        return true;
    }
    bool *held = room_for_one(t, t->held, t->n_blocks, &t->held_room, sizeof(*held));
    if (held == NULL)
        return false;
    t->held = held;
    *number = t->n_blocks++;
    held[*number] = true;
    return true;
}

uint32_t vr_tape_alloc_on(vr_tape *t, uint64_t bytes, vr_item item, uint32_t label, uint8_t stream,
                          uint8_t pool)
{
    uint32_t number;
    if (t->status != VRAM_OK || !take_number(t, &number))
        return 0;
    vr_event *e = add_event(t, VR_EV_ALLOC);
    if (e == NULL)
        return 0;
    e->item = (uint8_t)item;
    e->stream = stream;
    e->pool = pool;
    e->block = number;
    e->label = label;
    e->bytes = bytes;
    return number;
}

uint32_t vr_tape_alloc(vr_tape *t, uint64_t bytes, vr_item item, uint32_t label)
{
    return vr_tape_alloc_on(t, bytes, item, label, 0, 0);
}

uint32_t vr_tape_alloc_cut(vr_tape *t, uint64_t bytes, vr_item item, uint32_t label, uint32_t spare,
                           bool of_total)
{
    uint32_t number = vr_tape_alloc(t, bytes, item, label);
    if (t->status == VRAM_OK) {
        t->events[t->n - 1].spare = spare & 0x7fffffff;
        t->events[t->n - 1].of_total = of_total;
    }
    return number;
}

void vr_tape_release(vr_tape *t, uint32_t block)
{
    if (t->status != VRAM_OK)
        return;
    if (block >= t->n_blocks || !t->held[block]) {
        t->status = vr_fail(t->arena->ctx, VRAM_EINTERNAL, T("block "), U(block),
                            T(" is released but not held, event "), U(t->n));
        return;
    }
    uint32_t *spare = room_for_one(t, t->spare, t->n_spare, &t->spare_room, sizeof(*spare));
    vr_event *e = spare != NULL ? add_event(t, VR_EV_RELEASE) : NULL;
    if (e == NULL)
        return;
    t->spare = spare;
    spare[t->n_spare++] = block;
    t->held[block] = false;
    e->block = block;
}

static void take_outside(vr_tape *t, vr_event_kind kind, vr_item item, uint64_t bytes, uint32_t permille)
{
    vr_event *e = add_event(t, kind);
    if (e != NULL) {
        e->item = (uint8_t)item;
        e->bytes = bytes;
        e->spare = (permille <= 1000 ? permille : 1000) & 0x7fffffffU;
    }
}

void vr_tape_outside(vr_tape *t, vr_item item, uint64_t bytes)
{
    take_outside(t, VR_EV_OUTSIDE, item, bytes, 0);
}

void vr_tape_about(vr_tape *t, vr_item item, uint64_t bytes, uint32_t permille)
{
    take_outside(t, VR_EV_ABOUT, item, bytes, permille);
}

void vr_tape_empty_cache(vr_tape *t)
{
    (void)add_event(t, VR_EV_EMPTY_CACHE);
}

void vr_tape_mark(vr_tape *t, vr_moment_id m)
{
    vr_event *e = add_event(t, VR_EV_MARK);
    if (e != NULL)
        e->bytes = m;
}
