/* SPDX-License-Identifier: MIT
 * Values of a pickle and the stack they lie on. What grows does so with the bytes read, up to ceilings.
 * Values are never freed one by one: they go with the arena. */
#include "checkpoint/pickle_machine.h"

#include <string.h>

/* ---- errors ---- */

uint64_t vr_pickle_place(const vr_pickle *p, uint64_t at)
{
    return p->place_unknown ? p->file_offset : p->file_offset + at;
}

static vram_status too_many(vr_pickle *p, const char *what, uint64_t most)
{
    return BAD(p, VRAM_ELIMIT, T("the pickle has over "), GROUPED(most), T(what));
}

/* ---- values ---- */

const vr_pickled vr_pickle_mark = { .kind = VR_PICKLED_OTHER };

vr_str vr_pickled_text(const vr_pickled *v)
{
    return v->kind == VR_PICKLED_TEXT ? (vr_str){ v->u.s, v->n } : (vr_str){ NULL, 0 };
}

bool vr_pickled_u64(const vr_pickled *v, uint64_t *out)
{
    if (v->kind != VR_PICKLED_INT || v->u.i < 0)
        return false;
    *out = (uint64_t)v->u.i;
    return true;
}

bool vr_pickled_is(const vr_pickled *v, const char *module, const char *name)
{
    return v->kind == VR_PICKLED_GLOBAL && vr_str_is(vr_pickled_text(v->u.items[1]), name) &&
           vr_str_is(vr_pickled_text(v->u.items[0]), module);
}

vram_status vr_pickle_grow(vr_pickle *p, vr_pickled_list *l, size_t least)
{
    size_t room = l->room == 0 ? 16 : l->room;
    while (room < least)
        room *= 2;
    vr_pickled **grown = vr_arena_grow(p->arena, l->p, l->room, room, sizeof(vr_pickled *));
    if (grown == NULL)
        return VRAM_ENOMEM;
    l->p = grown;
    l->room = room;
    return VRAM_OK;
}

vram_status vr_pickle_add(vr_pickle *p, vr_pickled_list *l, vr_pickled *v)
{
    if (l->n == l->room)
        VR_TRY(vr_pickle_grow(p, l, l->n + 1));
    l->p[l->n++] = v;
    return VRAM_OK;
}

vram_status vr_pickle_push(vr_pickle *p, vr_pickled *v)
{
    if (p->stack.n == VR_MAX_PICKLE_STACK)
        return too_many(p, " values on its stack", VR_MAX_PICKLE_STACK);
    return vr_pickle_add(p, &p->stack, v);
}

vram_status vr_pickle_count(vr_pickle *p, size_t n)
{
    if (n > VR_MAX_PICKLED - p->n_values)
        return too_many(p, " values", VR_MAX_PICKLED);
    p->n_values += n;
    return VRAM_OK;
}

/* Values are cut from blocks, which double: most pickles are small, some have millions. */
vram_status vr_pickle_new(vr_pickle *p, vr_pickled_kind kind, vr_pickled **out)
{
    VR_TRY(vr_pickle_count(p, 1));
    if (p->blocks_left == 0) {
        size_t room = p->n_values < 16 ? 16 : p->n_values < 4096 ? p->n_values : 4096;
        p->blocks = VR_ARRAY(p->arena, vr_pickled, room);
        if (p->blocks == NULL)
            return VRAM_ENOMEM;
        p->blocks_left = room;
    }
    p->blocks_left--;
    *out = p->blocks++;
    (*out)->kind = (uint8_t)kind;
    (*out)->at = (uint32_t)p->at;
    return VRAM_OK;
}

vram_status vr_pickle_push_new(vr_pickle *p, vr_pickled_kind kind, vr_pickled **out)
{
    VR_TRY(vr_pickle_new(p, kind, out));
    return vr_pickle_push(p, *out);
}

/* All items of a new value. */
vram_status vr_pickle_set_items(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n)
{
    if (n == 0)
        return VRAM_OK;
    VR_TRY(vr_pickle_count(p, n));
    v->u.items = VR_ARRAY(p->arena, vr_pickled *, n);
    if (v->u.items == NULL)
        return VRAM_ENOMEM;
    memcpy(v->u.items, items, n * sizeof(*items));
    v->n = v->room = (uint32_t)n;
    return VRAM_OK;
}

vram_status vr_pickle_add_items(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n)
{
    VR_TRY(vr_pickle_count(p, n));
    if (n > v->room - v->n) {
        vr_pickled_list l = { v->u.items, v->n, v->room };
        VR_TRY(vr_pickle_grow(p, &l, v->n + n));
        v->u.items = l.p;
        v->room = (uint32_t)l.room;
    }
    if (n > 0)
        memcpy(v->u.items + v->n, items, n * sizeof(*items));
    v->n += (uint32_t)n;
    return VRAM_OK;
}

/* ---- the stack ---- */

vram_status vr_pickle_pop(vr_pickle *p, vr_pickled **out)
{
    if (p->stack.n == 0 || p->stack.p[p->stack.n - 1] == &vr_pickle_mark)
        return BAD(p, VRAM_EFORMAT, T("the pickle takes a value that is not there"));
    *out = p->stack.p[--p->stack.n];
    return VRAM_OK;
}

vram_status vr_pickle_top(vr_pickle *p, vr_pickled **out)
{
    VR_TRY(vr_pickle_pop(p, out));
    p->stack.n++;
    return VRAM_OK;
}

/* What lies above the last mark, which goes too; valid until the next push. */
vram_status vr_pickle_pop_mark(vr_pickle *p, vr_pickled ***items, size_t *n)
{
    size_t at = p->stack.n;
    while (at > 0 && p->stack.p[at - 1] != &vr_pickle_mark)
        at--;
    if (at == 0)
        return BAD(p, VRAM_EFORMAT, T("the pickle takes values up to a mark that is not there"));
    *items = p->stack.p + at;
    *n = p->stack.n - at;
    p->stack.n = at - 1;
    return VRAM_OK;
}
