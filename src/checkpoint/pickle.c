/* SPDX-License-Identifier: MIT
 * The pickle machine, protocols 0 to 5: a stack, a memo, and instructions that only build values.
 * Source: CPython 3.11, Lib/pickle.py (instructions and what they do) and Lib/pickletools.py (their
 * arguments). Bounds: values, stack and memo grow with the bytes read and have ceilings; nothing recurses. */
#include "checkpoint/pickle.h"

#include <string.h>

/* ---- errors ---- */

uint64_t vr_pickle_place(const vr_pickle *p, uint64_t at)
{
    return p->place_unknown ? p->file_offset : p->file_offset + at;
}

#define BAD(p, code, ...) vr_fail_at((p)->ctx, (code), (p)->file, vr_pickle_place((p), (p)->at), __VA_ARGS__)

static vram_status too_many(vr_pickle *p, const char *what, uint64_t most)
{
    return BAD(p, VRAM_ELIMIT, T("the pickle has over "), GROUPED(most), T(what));
}

/* ---- values ---- */

static const vr_pickled none = { .kind = VR_PICKLED_NONE };
static const vr_pickled yes = { .kind = VR_PICKLED_BOOL, .u.i = 1 };
static const vr_pickled no = { .kind = VR_PICKLED_BOOL };
static const vr_pickled mark = { .kind = VR_PICKLED_OTHER }; /* known by its address */
/* None, True, False are one each; whoever changes a value asks first whether it is a container. */
#define SHARED(v) ((vr_pickled *)(uintptr_t) & (v))

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

static vram_status grow_list(vr_pickle *p, vr_pickled_list *l, size_t least)
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

static vram_status list_add(vr_pickle *p, vr_pickled_list *l, vr_pickled *v)
{
    if (l->n == l->room)
        VR_TRY(grow_list(p, l, l->n + 1));
    l->p[l->n++] = v;
    return VRAM_OK;
}

static vram_status push(vr_pickle *p, vr_pickled *v)
{
    if (p->stack.n == VR_MAX_PICKLE_STACK)
        return too_many(p, " values on its stack", VR_MAX_PICKLE_STACK);
    return list_add(p, &p->stack, v);
}

static vram_status count_values(vr_pickle *p, size_t n)
{
    if (n > VR_MAX_PICKLED - p->n_values)
        return too_many(p, " values", VR_MAX_PICKLED);
    p->n_values += n;
    return VRAM_OK;
}

/* Values are cut from blocks, which double: most pickles are small, some have millions. */
static vram_status new_value(vr_pickle *p, vr_pickled_kind kind, vr_pickled **out)
{
    VR_TRY(count_values(p, 1));
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

static vram_status push_new(vr_pickle *p, vr_pickled_kind kind, vr_pickled **out)
{
    VR_TRY(new_value(p, kind, out));
    return push(p, *out);
}

/* All items of a new value. */
static vram_status set_items(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n)
{
    if (n == 0)
        return VRAM_OK;
    VR_TRY(count_values(p, n));
    v->u.items = VR_ARRAY(p->arena, vr_pickled *, n);
    if (v->u.items == NULL)
        return VRAM_ENOMEM;
    memcpy(v->u.items, items, n * sizeof(*items));
    v->n = v->room = (uint32_t)n;
    return VRAM_OK;
}

static vram_status add_items(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n)
{
    VR_TRY(count_values(p, n));
    if (n > v->room - v->n) {
        vr_pickled_list l = { v->u.items, v->n, v->room };
        VR_TRY(grow_list(p, &l, v->n + n));
        v->u.items = l.p;
        v->room = (uint32_t)l.room;
    }
    if (n > 0)
        memcpy(v->u.items + v->n, items, n * sizeof(*items));
    v->n += (uint32_t)n;
    return VRAM_OK;
}

/* ---- the stack ---- */

static vram_status pop(vr_pickle *p, vr_pickled **out)
{
    if (p->stack.n == 0 || p->stack.p[p->stack.n - 1] == &mark)
        return BAD(p, VRAM_EFORMAT, T("the pickle takes a value that is not there"));
    *out = p->stack.p[--p->stack.n];
    return VRAM_OK;
}

static vram_status top(vr_pickle *p, vr_pickled **out)
{
    VR_TRY(pop(p, out));
    p->stack.n++;
    return VRAM_OK;
}

/* What lies above the last mark, which goes too; valid until the next push. */
static vram_status pop_mark(vr_pickle *p, vr_pickled ***items, size_t *n)
{
    size_t at = p->stack.n;
    while (at > 0 && p->stack.p[at - 1] != &mark)
        at--;
    if (at == 0)
        return BAD(p, VRAM_EFORMAT, T("the pickle takes values up to a mark that is not there"));
    *items = p->stack.p + at;
    *n = p->stack.n - at;
    p->stack.n = at - 1;
    return VRAM_OK;
}

/* ---- instructions ---- */

/* What follows the instruction's byte. */
typedef struct arg {
    uint64_t u;
    vr_str s, s2;
} arg;

typedef vram_status (*run)(vr_pickle *p, const arg *a);

static vram_status do_nothing(vr_pickle *p, const arg *a)
{
    (void)p;
    (void)a;
    return VRAM_OK;
}

static vram_status do_proto(vr_pickle *p, const arg *a)
{
    if (a->u > 5)
        return BAD(p, VRAM_EUNSUPPORTED, T("the pickle has protocol "), U(a->u), T("; known are 0 to 5"));
    return VRAM_OK;
}

static vram_status do_mark(vr_pickle *p, const arg *a)
{
    (void)a;
    return push(p, SHARED(mark));
}

static vram_status do_stop(vr_pickle *p, const arg *a)
{
    (void)a;
    return pop(p, &p->result);
}

static vram_status do_pop(vr_pickle *p, const arg *a)
{
    (void)a;
    if (p->stack.n > 0 && p->stack.p[p->stack.n - 1] == &mark) {
        p->stack.n--; /* CPython: a POP may take a mark */
        return VRAM_OK;
    }
    vr_pickled *v;
    return pop(p, &v);
}

static vram_status do_pop_mark(vr_pickle *p, const arg *a)
{
    vr_pickled **items;
    size_t n;
    (void)a;
    return pop_mark(p, &items, &n);
}

static vram_status do_dup(vr_pickle *p, const arg *a)
{
    vr_pickled *v;
    (void)a;
    VR_TRY(top(p, &v));
    return push(p, v);
}

static vram_status do_none(vr_pickle *p, const arg *a)
{
    (void)a;
    return push(p, SHARED(none));
}

static vram_status do_true(vr_pickle *p, const arg *a)
{
    (void)a;
    return push(p, SHARED(yes));
}

static vram_status do_false(vr_pickle *p, const arg *a)
{
    (void)a;
    return push(p, SHARED(no));
}

static vram_status push_int(vr_pickle *p, int64_t i)
{
    vr_pickled *v;
    VR_TRY(push_new(p, VR_PICKLED_INT, &v));
    v->u.i = i;
    return VRAM_OK;
}

static vram_status do_unsigned(vr_pickle *p, const arg *a)
{
    return push_int(p, (int64_t)a->u);
}

static vram_status do_binint(vr_pickle *p, const arg *a)
{
    return push_int(p, (int64_t)(int32_t)(uint32_t)a->u);
}

static vram_status push_bytes(vr_pickle *p, vr_pickled_kind kind, vr_str s)
{
    vr_pickled *v;
    VR_TRY(push_new(p, kind, &v));
    v->u.s = s.s;
    v->n = (uint32_t)s.n; /* at most VR_MAX_PICKLE_BYTES */
    return VRAM_OK;
}

static vram_status do_text(vr_pickle *p, const arg *a)
{
    return push_bytes(p, VR_PICKLED_TEXT, a->s);
}

static vram_status do_bytes(vr_pickle *p, const arg *a)
{
    return push_bytes(p, VR_PICKLED_BYTES, a->s);
}

static vram_status do_other(vr_pickle *p, const arg *a)
{
    vr_pickled *v;
    (void)a;
    return push_new(p, VR_PICKLED_OTHER, &v);
}

/* Two's complement, little-endian. */
static vram_status do_long(vr_pickle *p, const arg *a)
{
    uint64_t u = a->s.n > 0 && (unsigned char)a->s.s[a->s.n - 1] >= 0x80 ? UINT64_MAX : 0;
    if (a->s.n > 8)
        return push_bytes(p, VR_PICKLED_BYTES, a->s);
    for (size_t i = a->s.n; i-- > 0;)
        u = u << 8 | (unsigned char)a->s.s[i];
    return push_int(p, (int64_t)u);
}

/* "12", "-12L"; "00" and "01" are False and True since protocol 1 had no instructions for them. */
static vram_status do_decimal(vr_pickle *p, const arg *a)
{
    vr_str s = a->s;
    uint64_t u = 0;
    if (vr_str_is(s, "00") || vr_str_is(s, "01"))
        return push(p, vr_str_is(s, "01") ? SHARED(yes) : SHARED(no));
    bool minus = s.n > 0 && s.s[0] == '-';
    s = (vr_str){ s.s + minus, s.n - minus };
    s.n -= s.n > 0 && s.s[s.n - 1] == 'L';
    if (!vr_parse_u64(s, &u) || u > INT64_MAX)
        return do_other(p, a);
    return push_int(p, minus ? -(int64_t)u : (int64_t)u);
}

/* 'text' or "text" */
static vram_status do_quoted(vr_pickle *p, const arg *a)
{
    vr_str s = a->s;
    if (s.n < 2 || (s.s[0] != '\'' && s.s[0] != '"') || s.s[s.n - 1] != s.s[0])
        return BAD(p, VRAM_EFORMAT, T("the pickle has a string without quotes"));
    return push_bytes(p, VR_PICKLED_TEXT, (vr_str){ s.s + 1, s.n - 2 });
}

/* ---- containers ---- */

static vram_status do_empty_list(vr_pickle *p, const arg *a)
{
    vr_pickled *v;
    (void)a;
    return push_new(p, VR_PICKLED_LIST, &v);
}

static vram_status do_empty_tuple(vr_pickle *p, const arg *a)
{
    vr_pickled *v;
    (void)a;
    return push_new(p, VR_PICKLED_TUPLE, &v);
}

static vram_status do_empty_dict(vr_pickle *p, const arg *a)
{
    vr_pickled *v;
    (void)a;
    VR_TRY(push_new(p, VR_PICKLED_DICT, &v));
    v->pairs = true;
    return VRAM_OK;
}

static vram_status odd_pairs(vr_pickle *p)
{
    return BAD(p, VRAM_EFORMAT, T("the pickle gives a dictionary a key without a value"));
}

static vram_status from_mark(vr_pickle *p, vr_pickled_kind kind)
{
    vr_pickled *v, **items;
    size_t n;
    VR_TRY(pop_mark(p, &items, &n));
    VR_TRY(new_value(p, kind, &v));
    VR_TRY(set_items(p, v, items, n));
    v->pairs = kind == VR_PICKLED_DICT;
    return v->pairs && n % 2 != 0 ? odd_pairs(p) : push(p, v);
}

static vram_status do_list(vr_pickle *p, const arg *a)
{
    (void)a;
    return from_mark(p, VR_PICKLED_LIST);
}

static vram_status do_tuple(vr_pickle *p, const arg *a)
{
    (void)a;
    return from_mark(p, VR_PICKLED_TUPLE);
}

static vram_status do_dict(vr_pickle *p, const arg *a)
{
    (void)a;
    return from_mark(p, VR_PICKLED_DICT);
}

/* TUPLE1 to TUPLE3: a->u of them. */
static vram_status do_tuple_of(vr_pickle *p, const arg *a)
{
    vr_pickled *v, *items[3];
    for (size_t i = (size_t)a->u; i-- > 0;)
        VR_TRY(pop(p, &items[i]));
    VR_TRY(new_value(p, VR_PICKLED_TUPLE, &v));
    VR_TRY(set_items(p, v, items, (size_t)a->u));
    return push(p, v);
}

/* What the pickle gives to something that takes no items (a call whose class is not known may take any). */
static vram_status give(vr_pickle *p, vr_pickled *v, vr_pickled *const *items, size_t n, bool pairs)
{
    if (pairs && n % 2 != 0)
        return odd_pairs(p);
    bool takes = v->kind == VR_PICKLED_CALL || v->kind == (pairs ? VR_PICKLED_DICT : VR_PICKLED_LIST);
    if (!takes)
        return BAD(p, VRAM_EFORMAT, T("the pickle gives items to something that is no "),
                   T(pairs ? "dictionary" : "list"));
    if (v->kind == VR_PICKLED_CALL && v->n == 0)
        v->pairs = pairs;
    return v->pairs == pairs ? add_items(p, v, items, n) : VRAM_OK;
}

static vram_status do_append(vr_pickle *p, const arg *a)
{
    vr_pickled *v, *to;
    (void)a;
    VR_TRY(pop(p, &v));
    VR_TRY(top(p, &to));
    return give(p, to, &v, 1, false);
}

static vram_status give_marked(vr_pickle *p, bool pairs)
{
    vr_pickled *to, **items;
    size_t n;
    VR_TRY(pop_mark(p, &items, &n));
    VR_TRY(top(p, &to));
    return give(p, to, items, n, pairs);
}

static vram_status do_appends(vr_pickle *p, const arg *a)
{
    (void)a;
    return give_marked(p, false);
}

static vram_status do_setitem(vr_pickle *p, const arg *a)
{
    vr_pickled *pair[2], *to;
    (void)a;
    VR_TRY(pop(p, &pair[1]));
    VR_TRY(pop(p, &pair[0]));
    VR_TRY(top(p, &to));
    return give(p, to, pair, 2, true);
}

static vram_status do_setitems(vr_pickle *p, const arg *a)
{
    (void)a;
    return give_marked(p, true);
}

/* ---- the memo ---- */

/* Picklers remember each value once and number the memo as they go: a place is below the number of values. */
static vram_status do_put(vr_pickle *p, const arg *a)
{
    vr_pickled *v;
    VR_TRY(top(p, &v));
    if (a->u > p->n_values + 1)
        return BAD(p, VRAM_EFORMAT, T("the pickle remembers a value at place "), U(a->u),
                   T(" of its memo, which cannot have so many yet"));
    if (a->u >= p->memo.room)
        VR_TRY(grow_list(p, &p->memo, (size_t)a->u + 1));
    if (a->u >= p->memo.n)
        p->memo.n = (size_t)a->u + 1;
    p->memo.p[a->u] = v;
    return VRAM_OK;
}

static vram_status do_memoize(vr_pickle *p, const arg *a)
{
    arg next = *a;
    next.u = p->memo.n;
    return do_put(p, &next);
}

static vram_status do_get(vr_pickle *p, const arg *a)
{
    if (a->u >= p->memo.n || p->memo.p[a->u] == NULL)
        return BAD(p, VRAM_EFORMAT, T("the pickle takes place "), U(a->u), T(" of its memo, which is empty"));
    return push(p, p->memo.p[a->u]);
}

/* In protocol 0 the place stands in decimal digits. */
static vram_status decimal_place(vr_pickle *p, const arg *a, arg *out)
{
    *out = *a;
    return vr_parse_u64(a->s, &out->u)
               ? VRAM_OK
               : BAD(p, VRAM_EFORMAT, T("the pickle's place in the memo is no number"));
}

static vram_status do_put_line(vr_pickle *p, const arg *a)
{
    arg place;
    VR_TRY(decimal_place(p, a, &place));
    return do_put(p, &place);
}

static vram_status do_get_line(vr_pickle *p, const arg *a)
{
    arg place;
    VR_TRY(decimal_place(p, a, &place));
    return do_get(p, &place);
}

/* ---- what would be imported and called ---- */

static vram_status push_global(vr_pickle *p, vr_pickled *module, vr_pickled *name)
{
    vr_pickled *v, *both[2] = { module, name };
    VR_TRY(push_new(p, VR_PICKLED_GLOBAL, &v));
    VR_TRY(set_items(p, v, both, 2));
    return list_add(p, &p->globals, v);
}

static vram_status do_global(vr_pickle *p, const arg *a)
{
    vr_pickled *both[2];
    const vr_str texts[2] = { a->s, a->s2 };
    for (int i = 0; i < 2; i++) {
        VR_TRY(new_value(p, VR_PICKLED_TEXT, &both[i]));
        both[i]->u.s = texts[i].s;
        both[i]->n = (uint32_t)texts[i].n;
    }
    return push_global(p, both[0], both[1]);
}

static vram_status do_stack_global(vr_pickle *p, const arg *a)
{
    vr_pickled *module, *name;
    (void)a;
    VR_TRY(pop(p, &name));
    VR_TRY(pop(p, &module));
    if (name->kind != VR_PICKLED_TEXT || module->kind != VR_PICKLED_TEXT)
        return BAD(p, VRAM_EFORMAT, T("the pickle names a class by something that is no text"));
    return push_global(p, module, name);
}

static vram_status push_call(vr_pickle *p, vr_pickled *callee, vr_pickled *args)
{
    VR_TRY(count_values(p, 1));
    vr_pickled_call *c = VR_NEW(p->arena, vr_pickled_call);
    if (c == NULL)
        return VRAM_ENOMEM;
    c->value.kind = VR_PICKLED_CALL;
    c->value.at = (uint32_t)p->at;
    c->callee = callee;
    c->args = args;
    return push(p, &c->value);
}

/* REDUCE and NEWOBJ */
static vram_status do_reduce(vr_pickle *p, const arg *a)
{
    vr_pickled *callee, *args;
    (void)a;
    VR_TRY(pop(p, &args));
    VR_TRY(pop(p, &callee));
    return push_call(p, callee, args);
}

static vram_status do_newobj_ex(vr_pickle *p, const arg *a)
{
    vr_pickled *keywords;
    VR_TRY(pop(p, &keywords));
    return do_reduce(p, a);
}

static vram_status call_marked(vr_pickle *p, vr_pickled *callee, vr_pickled *const *items, size_t n)
{
    vr_pickled *args;
    VR_TRY(new_value(p, VR_PICKLED_TUPLE, &args));
    VR_TRY(set_items(p, args, items, n));
    return push_call(p, callee, args);
}

/* The class lies under the arguments. */
static vram_status do_obj(vr_pickle *p, const arg *a)
{
    vr_pickled **items;
    size_t n;
    (void)a;
    VR_TRY(pop_mark(p, &items, &n));
    if (n == 0)
        return BAD(p, VRAM_EFORMAT, T("the pickle makes an object of no class"));
    return call_marked(p, items[0], items + 1, n - 1);
}

static vram_status do_inst(vr_pickle *p, const arg *a)
{
    vr_pickled **items, *callee, *args;
    size_t n;
    VR_TRY(pop_mark(p, &items, &n));
    VR_TRY(new_value(p, VR_PICKLED_TUPLE, &args));
    VR_TRY(set_items(p, args, items, n));
    VR_TRY(do_global(p, a));
    VR_TRY(pop(p, &callee));
    return push_call(p, callee, args);
}

static vram_status do_build(vr_pickle *p, const arg *a)
{
    vr_pickled *state, *v;
    (void)a;
    VR_TRY(pop(p, &state));
    VR_TRY(top(p, &v));
    if (v->kind == VR_PICKLED_CALL)
        ((vr_pickled_call *)(void *)v)->state = state;
    return VRAM_OK;
}

static vram_status do_binpersid(vr_pickle *p, const arg *a)
{
    vr_pickled *id, *v;
    (void)a;
    VR_TRY(pop(p, &id));
    VR_TRY(push_new(p, VR_PICKLED_PERSISTENT, &v));
    VR_TRY(set_items(p, v, &id, 1));
    return list_add(p, &p->persistents, v);
}

static vram_status do_persid(vr_pickle *p, const arg *a)
{
    VR_TRY(push_bytes(p, VR_PICKLED_TEXT, a->s));
    return do_binpersid(p, a);
}

static vram_status do_buffer(vr_pickle *p, const arg *a)
{
    (void)a;
    return BAD(p, VRAM_EUNSUPPORTED,
               T("the pickle has buffers outside of it, which torch.save never writes"));
}

/* ---- the table ---- */

enum shape { NOTHING, NUMBER, COUNTED, LINE, LINES, FIXED };

/* size: bytes of the number, or of the length before a text; FIXED: the number is that itself. */
static const struct op {
    run run;
    uint8_t shape, size;
} ops[256] = {
    ['('] = { do_mark, NOTHING, 0 },
    [')'] = { do_empty_tuple, NOTHING, 0 },
    ['.'] = { do_stop, NOTHING, 0 },
    ['0'] = { do_pop, NOTHING, 0 },
    ['1'] = { do_pop_mark, NOTHING, 0 },
    ['2'] = { do_dup, NOTHING, 0 },
    ['B'] = { do_bytes, COUNTED, 4 },
    ['C'] = { do_bytes, COUNTED, 1 },
    ['F'] = { do_other, LINE, 0 },
    ['G'] = { do_other, NUMBER, 8 },
    ['I'] = { do_decimal, LINE, 0 },
    ['J'] = { do_binint, NUMBER, 4 },
    ['K'] = { do_unsigned, NUMBER, 1 },
    ['L'] = { do_decimal, LINE, 0 },
    ['M'] = { do_unsigned, NUMBER, 2 },
    ['N'] = { do_none, NOTHING, 0 },
    ['P'] = { do_persid, LINE, 0 },
    ['Q'] = { do_binpersid, NOTHING, 0 },
    ['R'] = { do_reduce, NOTHING, 0 },
    ['S'] = { do_quoted, LINE, 0 },
    ['T'] = { do_text, COUNTED, 4 },
    ['U'] = { do_text, COUNTED, 1 },
    ['V'] = { do_text, LINE, 0 },
    ['X'] = { do_text, COUNTED, 4 },
    [']'] = { do_empty_list, NOTHING, 0 },
    ['a'] = { do_append, NOTHING, 0 },
    ['b'] = { do_build, NOTHING, 0 },
    ['c'] = { do_global, LINES, 0 },
    ['d'] = { do_dict, NOTHING, 0 },
    ['e'] = { do_appends, NOTHING, 0 },
    ['g'] = { do_get_line, LINE, 0 },
    ['h'] = { do_get, NUMBER, 1 },
    ['i'] = { do_inst, LINES, 0 },
    ['j'] = { do_get, NUMBER, 4 },
    ['l'] = { do_list, NOTHING, 0 },
    ['o'] = { do_obj, NOTHING, 0 },
    ['p'] = { do_put_line, LINE, 0 },
    ['q'] = { do_put, NUMBER, 1 },
    ['r'] = { do_put, NUMBER, 4 },
    ['s'] = { do_setitem, NOTHING, 0 },
    ['t'] = { do_tuple, NOTHING, 0 },
    ['u'] = { do_setitems, NOTHING, 0 },
    ['}'] = { do_empty_dict, NOTHING, 0 },
    [0x80] = { do_proto, NUMBER, 1 },
    [0x81] = { do_reduce, NOTHING, 0 },
    [0x82] = { do_other, NUMBER, 1 },
    [0x83] = { do_other, NUMBER, 2 },
    [0x84] = { do_other, NUMBER, 4 },
    [0x85] = { do_tuple_of, FIXED, 1 },
    [0x86] = { do_tuple_of, FIXED, 2 },
    [0x87] = { do_tuple_of, FIXED, 3 },
    [0x88] = { do_true, NOTHING, 0 },
    [0x89] = { do_false, NOTHING, 0 },
    [0x8a] = { do_long, COUNTED, 1 },
    [0x8b] = { do_long, COUNTED, 4 },
    [0x8c] = { do_text, COUNTED, 1 },
    [0x8d] = { do_text, COUNTED, 8 },
    [0x8e] = { do_bytes, COUNTED, 8 },
    [0x8f] = { do_empty_list, NOTHING, 0 },
    [0x90] = { do_appends, NOTHING, 0 },
    [0x91] = { do_list, NOTHING, 0 },
    [0x92] = { do_newobj_ex, NOTHING, 0 },
    [0x93] = { do_stack_global, NOTHING, 0 },
    [0x94] = { do_memoize, NOTHING, 0 },
    [0x95] = { do_nothing, NUMBER, 8 },
    [0x96] = { do_bytes, COUNTED, 8 },
    [0x97] = { do_buffer, NOTHING, 0 },
    [0x98] = { do_buffer, NOTHING, 0 },
};

/* ---- arguments; VRAM_MORE: not all of it is known ---- */

/* n: bytes that the instruction needs. */
static vram_status missing(vr_pickle *p, uint64_t n)
{
    if (n > p->most - p->at)
        return BAD(p, VRAM_EFORMAT, T("the pickle goes on beyond its end; cut download?"));
    return VRAM_MORE;
}

static vram_status take_number(vr_pickle *p, size_t *at, size_t size, uint64_t *out)
{
    *out = 0;
    if (size > p->n - *at)
        return missing(p, *at - p->at + size);
    for (size_t i = size; i-- > 0;)
        *out = *out << 8 | (unsigned char)p->text[*at + i];
    *at += size;
    return VRAM_OK;
}

static vram_status take_counted(vr_pickle *p, size_t *at, size_t size, vr_str *out)
{
    uint64_t n = 0, end = 0;
    VR_TRY(take_number(p, at, size, &n));
    if (!vr_add(n, *at - p->at, &end))
        end = UINT64_MAX;
    if (n > p->n - *at)
        return missing(p, end);
    *out = (vr_str){ p->text + *at, (size_t)n };
    *at += (size_t)n;
    return VRAM_OK;
}

static vram_status take_line(vr_pickle *p, size_t *at, vr_str *out)
{
    const char *start = p->text + *at, *end = memchr(start, '\n', p->n - *at);
    if (end == NULL)
        return missing(p, p->n - p->at + 1);
    *out = (vr_str){ start, (size_t)(end - start) };
    *at += out->n + 1;
    return VRAM_OK;
}

static vram_status take_argument(vr_pickle *p, const struct op *op, size_t *at, arg *a)
{
    switch ((enum shape)op->shape) {
    case NUMBER:
        return take_number(p, at, op->size, &a->u);
    case COUNTED:
        return take_counted(p, at, op->size, &a->s);
    case LINES:
        VR_TRY(take_line(p, at, &a->s));
        return take_line(p, at, &a->s2);
    case LINE:
        return take_line(p, at, &a->s);
    case FIXED:
        a->u = op->size;
        return VRAM_OK;
    default:
        return VRAM_OK;
    }
}

static vram_status step(vr_pickle *p)
{
    if (p->at == p->n)
        return missing(p, 1);
    const struct op *op = &ops[(unsigned char)p->text[p->at]];
    size_t at = p->at + 1;
    arg a = { 0, { NULL, 0 }, { NULL, 0 } };
    if (op->run == NULL)
        return BAD(p, VRAM_EFORMAT, T("the pickle has the unknown instruction "),
                   U((unsigned char)p->text[p->at]));
    VR_TRY(take_argument(p, op, &at, &a));
    VR_TRY(op->run(p, &a));
    p->at = at;
    return VRAM_OK;
}

vram_status vr_pickle_read(vr_pickle *p)
{
    p->result = NULL;
    p->stack.n = p->memo.n = 0;
    if (p->memo.room > 0)
        memset(p->memo.p, 0, p->memo.room * sizeof(vr_pickled *));
    while (p->result == NULL)
        VR_TRY(step(p));
    return VRAM_OK;
}
