/* SPDX-License-Identifier: MIT
 * The instructions of pickles, protocols 0 to 5. They only build values.
 * Source: CPython 3.11, Lib/pickle.py (what each does) and Lib/pickletools.py (what follows it). */
#include "checkpoint/pickle_machine.h"

/* ---- atoms ---- */

static const vr_pickled none = { .kind = VR_PICKLED_NONE };
static const vr_pickled yes = { .kind = VR_PICKLED_BOOL, .u.i = 1 };
static const vr_pickled no = { .kind = VR_PICKLED_BOOL };
/* None, True, False are one each; whoever changes a value asks first whether it is a container. */
#define SHARED(v) ((vr_pickled *)(uintptr_t) & (v))

static vram_status do_nothing(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)p;
    (void)a;
    return VRAM_OK;
}

static vram_status do_proto(vr_pickle *p, const vr_pickle_arg *a)
{
    if (a->u > 5)
        return BAD(p, VRAM_EUNSUPPORTED, T("the pickle has protocol "), U(a->u), T("; known are 0 to 5"));
    return VRAM_OK;
}

static vram_status do_mark(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return vr_pickle_push(p, SHARED(vr_pickle_mark));
}

static vram_status do_stop(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return vr_pickle_pop(p, &p->result);
}

static vram_status do_pop(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    if (p->stack.n > 0 && p->stack.p[p->stack.n - 1] == &vr_pickle_mark) {
        p->stack.n--; /* CPython: a POP may take a mark */
        return VRAM_OK;
    }
    vr_pickled *v;
    return vr_pickle_pop(p, &v);
}

static vram_status do_pop_mark(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled **items;
    size_t n;
    (void)a;
    return vr_pickle_pop_mark(p, &items, &n);
}

static vram_status do_dup(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v;
    (void)a;
    VR_TRY(vr_pickle_top(p, &v));
    return vr_pickle_push(p, v);
}

static vram_status do_none(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return vr_pickle_push(p, SHARED(none));
}

static vram_status do_true(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return vr_pickle_push(p, SHARED(yes));
}

static vram_status do_false(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return vr_pickle_push(p, SHARED(no));
}

static vram_status push_int(vr_pickle *p, int64_t i)
{
    vr_pickled *v;
    VR_TRY(vr_pickle_push_new(p, VR_PICKLED_INT, &v));
    v->u.i = i;
    return VRAM_OK;
}

static vram_status do_unsigned(vr_pickle *p, const vr_pickle_arg *a)
{
    return push_int(p, (int64_t)a->u);
}

static vram_status do_binint(vr_pickle *p, const vr_pickle_arg *a)
{
    return push_int(p, (int64_t)(int32_t)(uint32_t)a->u);
}

static vram_status push_bytes(vr_pickle *p, vr_pickled_kind kind, vr_str s)
{
    vr_pickled *v;
    VR_TRY(vr_pickle_push_new(p, kind, &v));
    v->u.s = s.s;
    v->n = (uint32_t)s.n; /* at most VR_MAX_PICKLE_BYTES */
    return VRAM_OK;
}

static vram_status do_text(vr_pickle *p, const vr_pickle_arg *a)
{
    return push_bytes(p, VR_PICKLED_TEXT, a->s);
}

static vram_status do_bytes(vr_pickle *p, const vr_pickle_arg *a)
{
    return push_bytes(p, VR_PICKLED_BYTES, a->s);
}

static vram_status do_other(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v;
    (void)a;
    return vr_pickle_push_new(p, VR_PICKLED_OTHER, &v);
}

/* Two's complement, little-endian. */
static vram_status do_long(vr_pickle *p, const vr_pickle_arg *a)
{
    uint64_t u = a->s.n > 0 && (unsigned char)a->s.s[a->s.n - 1] >= 0x80 ? UINT64_MAX : 0;
    if (a->s.n > 8)
        return push_bytes(p, VR_PICKLED_BYTES, a->s);
    for (size_t i = a->s.n; i-- > 0;)
        u = u << 8 | (unsigned char)a->s.s[i];
    return push_int(p, (int64_t)u);
}

/* "12", "-12L"; "00" and "01" are False and True since protocol 1 had no instructions for them. */
static vram_status do_decimal(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_str s = a->s;
    uint64_t u = 0;
    if (vr_str_is(s, "00") || vr_str_is(s, "01"))
        return vr_pickle_push(p, vr_str_is(s, "01") ? SHARED(yes) : SHARED(no));
    bool minus = s.n > 0 && s.s[0] == '-';
    s = (vr_str){ s.s + minus, s.n - minus };
    s.n -= s.n > 0 && s.s[s.n - 1] == 'L';
    if (!vr_parse_u64(s, &u) || u > INT64_MAX)
        return do_other(p, a);
    return push_int(p, minus ? -(int64_t)u : (int64_t)u);
}

/* 'text' or "text" */
static vram_status do_quoted(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_str s = a->s;
    if (s.n < 2 || (s.s[0] != '\'' && s.s[0] != '"') || s.s[s.n - 1] != s.s[0])
        return BAD(p, VRAM_EFORMAT, T("the pickle has a string without quotes"));
    return push_bytes(p, VR_PICKLED_TEXT, (vr_str){ s.s + 1, s.n - 2 });
}

/* ---- containers ---- */

static vram_status do_empty_list(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v;
    (void)a;
    return vr_pickle_push_new(p, VR_PICKLED_LIST, &v);
}

static vram_status do_empty_tuple(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v;
    (void)a;
    return vr_pickle_push_new(p, VR_PICKLED_TUPLE, &v);
}

static vram_status do_empty_dict(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v;
    (void)a;
    VR_TRY(vr_pickle_push_new(p, VR_PICKLED_DICT, &v));
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
    VR_TRY(vr_pickle_pop_mark(p, &items, &n));
    VR_TRY(vr_pickle_new(p, kind, &v));
    VR_TRY(vr_pickle_set_items(p, v, items, n));
    v->pairs = kind == VR_PICKLED_DICT;
    return v->pairs && n % 2 != 0 ? odd_pairs(p) : vr_pickle_push(p, v);
}

static vram_status do_list(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return from_mark(p, VR_PICKLED_LIST);
}

static vram_status do_tuple(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return from_mark(p, VR_PICKLED_TUPLE);
}

static vram_status do_dict(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return from_mark(p, VR_PICKLED_DICT);
}

/* TUPLE1 to TUPLE3: a->u of them. */
static vram_status do_tuple_of(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v, *items[3];
    for (size_t i = (size_t)a->u; i-- > 0;)
        VR_TRY(vr_pickle_pop(p, &items[i]));
    VR_TRY(vr_pickle_new(p, VR_PICKLED_TUPLE, &v));
    VR_TRY(vr_pickle_set_items(p, v, items, (size_t)a->u));
    return vr_pickle_push(p, v);
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
    return v->pairs == pairs ? vr_pickle_add_items(p, v, items, n) : VRAM_OK;
}

static vram_status do_append(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v, *to;
    (void)a;
    VR_TRY(vr_pickle_pop(p, &v));
    VR_TRY(vr_pickle_top(p, &to));
    return give(p, to, &v, 1, false);
}

static vram_status give_marked(vr_pickle *p, bool pairs)
{
    vr_pickled *to, **items;
    size_t n;
    VR_TRY(vr_pickle_pop_mark(p, &items, &n));
    VR_TRY(vr_pickle_top(p, &to));
    return give(p, to, items, n, pairs);
}

static vram_status do_appends(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return give_marked(p, false);
}

static vram_status do_setitem(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *pair[2], *to;
    (void)a;
    VR_TRY(vr_pickle_pop(p, &pair[1]));
    VR_TRY(vr_pickle_pop(p, &pair[0]));
    VR_TRY(vr_pickle_top(p, &to));
    return give(p, to, pair, 2, true);
}

static vram_status do_setitems(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return give_marked(p, true);
}

/* ---- the memo ---- */

/* Picklers remember each value once and number the memo as they go: a place is below the number of values. */
static vram_status do_put(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *v;
    VR_TRY(vr_pickle_top(p, &v));
    if (a->u > p->n_values + 1)
        return BAD(p, VRAM_EFORMAT, T("the pickle remembers a value at place "), U(a->u),
                   T(" of its memo, which cannot have so many yet"));
    if (a->u >= p->memo.room)
        VR_TRY(vr_pickle_grow(p, &p->memo, (size_t)a->u + 1));
    if (a->u >= p->memo.n)
        p->memo.n = (size_t)a->u + 1;
    p->memo.p[a->u] = v;
    return VRAM_OK;
}

static vram_status do_memoize(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickle_arg next = *a;
    next.u = p->memo.n;
    return do_put(p, &next);
}

static vram_status do_get(vr_pickle *p, const vr_pickle_arg *a)
{
    if (a->u >= p->memo.n || p->memo.p[a->u] == NULL)
        return BAD(p, VRAM_EFORMAT, T("the pickle takes place "), U(a->u), T(" of its memo, which is empty"));
    return vr_pickle_push(p, p->memo.p[a->u]);
}

/* In protocol 0 the place stands in decimal digits. */
static vram_status decimal_place(vr_pickle *p, const vr_pickle_arg *a, vr_pickle_arg *out)
{
    *out = *a;
    return vr_parse_u64(a->s, &out->u)
               ? VRAM_OK
               : BAD(p, VRAM_EFORMAT, T("the pickle's place in the memo is no number"));
}

static vram_status do_put_line(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickle_arg place;
    VR_TRY(decimal_place(p, a, &place));
    return do_put(p, &place);
}

static vram_status do_get_line(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickle_arg place;
    VR_TRY(decimal_place(p, a, &place));
    return do_get(p, &place);
}

/* ---- what would be imported and called ---- */

static vram_status push_global(vr_pickle *p, vr_pickled *module, vr_pickled *name)
{
    vr_pickled *v, *both[2] = { module, name };
    VR_TRY(vr_pickle_push_new(p, VR_PICKLED_GLOBAL, &v));
    VR_TRY(vr_pickle_set_items(p, v, both, 2));
    return vr_pickle_add(p, &p->globals, v);
}

static vram_status do_global(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *both[2];
    const vr_str texts[2] = { a->s, a->s2 };
    for (int i = 0; i < 2; i++) {
        VR_TRY(vr_pickle_new(p, VR_PICKLED_TEXT, &both[i]));
        both[i]->u.s = texts[i].s;
        both[i]->n = (uint32_t)texts[i].n;
    }
    return push_global(p, both[0], both[1]);
}

static vram_status do_stack_global(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *module, *name;
    (void)a;
    VR_TRY(vr_pickle_pop(p, &name));
    VR_TRY(vr_pickle_pop(p, &module));
    if (name->kind != VR_PICKLED_TEXT || module->kind != VR_PICKLED_TEXT)
        return BAD(p, VRAM_EFORMAT, T("the pickle names a class by something that is no text"));
    return push_global(p, module, name);
}

static vram_status push_call(vr_pickle *p, vr_pickled *callee, vr_pickled *args)
{
    VR_TRY(vr_pickle_count(p, 1));
    vr_pickled_call *c = VR_NEW(p->arena, vr_pickled_call);
    if (c == NULL)
        return VRAM_ENOMEM;
    c->value.kind = VR_PICKLED_CALL;
    c->value.at = (uint32_t)p->at;
    c->callee = callee;
    c->args = args;
    return vr_pickle_push(p, &c->value);
}

/* REDUCE and NEWOBJ */
static vram_status do_reduce(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *callee, *args;
    (void)a;
    VR_TRY(vr_pickle_pop(p, &args));
    VR_TRY(vr_pickle_pop(p, &callee));
    return push_call(p, callee, args);
}

static vram_status do_newobj_ex(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *keywords;
    VR_TRY(vr_pickle_pop(p, &keywords));
    return do_reduce(p, a);
}

static vram_status call_marked(vr_pickle *p, vr_pickled *callee, vr_pickled *const *items, size_t n)
{
    vr_pickled *args;
    VR_TRY(vr_pickle_new(p, VR_PICKLED_TUPLE, &args));
    VR_TRY(vr_pickle_set_items(p, args, items, n));
    return push_call(p, callee, args);
}

/* The class lies under the arguments. */
static vram_status do_obj(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled **items;
    size_t n;
    (void)a;
    VR_TRY(vr_pickle_pop_mark(p, &items, &n));
    if (n == 0)
        return BAD(p, VRAM_EFORMAT, T("the pickle makes an object of no class"));
    return call_marked(p, items[0], items + 1, n - 1);
}

static vram_status do_inst(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled **items, *callee, *args;
    size_t n;
    VR_TRY(vr_pickle_pop_mark(p, &items, &n));
    VR_TRY(vr_pickle_new(p, VR_PICKLED_TUPLE, &args));
    VR_TRY(vr_pickle_set_items(p, args, items, n));
    VR_TRY(do_global(p, a));
    VR_TRY(vr_pickle_pop(p, &callee));
    return push_call(p, callee, args);
}

static vram_status do_build(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *state, *v;
    (void)a;
    VR_TRY(vr_pickle_pop(p, &state));
    VR_TRY(vr_pickle_top(p, &v));
    if (v->kind == VR_PICKLED_CALL)
        ((vr_pickled_call *)(void *)v)->state = state;
    return VRAM_OK;
}

static vram_status do_binpersid(vr_pickle *p, const vr_pickle_arg *a)
{
    vr_pickled *id, *v;
    (void)a;
    VR_TRY(vr_pickle_pop(p, &id));
    VR_TRY(vr_pickle_push_new(p, VR_PICKLED_PERSISTENT, &v));
    VR_TRY(vr_pickle_set_items(p, v, &id, 1));
    return vr_pickle_add(p, &p->persistents, v);
}

static vram_status do_persid(vr_pickle *p, const vr_pickle_arg *a)
{
    VR_TRY(push_bytes(p, VR_PICKLED_TEXT, a->s));
    return do_binpersid(p, a);
}

static vram_status do_buffer(vr_pickle *p, const vr_pickle_arg *a)
{
    (void)a;
    return BAD(p, VRAM_EUNSUPPORTED,
               T("the pickle has buffers outside of it, which torch.save never writes"));
}

/* ---- the table ---- */

const vr_pickle_op vr_pickle_ops[256] = {
    ['('] = { do_mark, VR_PICKLE_NOTHING, 0 },
    [')'] = { do_empty_tuple, VR_PICKLE_NOTHING, 0 },
    ['.'] = { do_stop, VR_PICKLE_NOTHING, 0 },
    ['0'] = { do_pop, VR_PICKLE_NOTHING, 0 },
    ['1'] = { do_pop_mark, VR_PICKLE_NOTHING, 0 },
    ['2'] = { do_dup, VR_PICKLE_NOTHING, 0 },
    ['B'] = { do_bytes, VR_PICKLE_COUNTED, 4 },
    ['C'] = { do_bytes, VR_PICKLE_COUNTED, 1 },
    ['F'] = { do_other, VR_PICKLE_LINE, 0 },
    ['G'] = { do_other, VR_PICKLE_NUMBER, 8 },
    ['I'] = { do_decimal, VR_PICKLE_LINE, 0 },
    ['J'] = { do_binint, VR_PICKLE_NUMBER, 4 },
    ['K'] = { do_unsigned, VR_PICKLE_NUMBER, 1 },
    ['L'] = { do_decimal, VR_PICKLE_LINE, 0 },
    ['M'] = { do_unsigned, VR_PICKLE_NUMBER, 2 },
    ['N'] = { do_none, VR_PICKLE_NOTHING, 0 },
    ['P'] = { do_persid, VR_PICKLE_LINE, 0 },
    ['Q'] = { do_binpersid, VR_PICKLE_NOTHING, 0 },
    ['R'] = { do_reduce, VR_PICKLE_NOTHING, 0 },
    ['S'] = { do_quoted, VR_PICKLE_LINE, 0 },
    ['T'] = { do_text, VR_PICKLE_COUNTED, 4 },
    ['U'] = { do_text, VR_PICKLE_COUNTED, 1 },
    ['V'] = { do_text, VR_PICKLE_LINE, 0 },
    ['X'] = { do_text, VR_PICKLE_COUNTED, 4 },
    [']'] = { do_empty_list, VR_PICKLE_NOTHING, 0 },
    ['a'] = { do_append, VR_PICKLE_NOTHING, 0 },
    ['b'] = { do_build, VR_PICKLE_NOTHING, 0 },
    ['c'] = { do_global, VR_PICKLE_LINES, 0 },
    ['d'] = { do_dict, VR_PICKLE_NOTHING, 0 },
    ['e'] = { do_appends, VR_PICKLE_NOTHING, 0 },
    ['g'] = { do_get_line, VR_PICKLE_LINE, 0 },
    ['h'] = { do_get, VR_PICKLE_NUMBER, 1 },
    ['i'] = { do_inst, VR_PICKLE_LINES, 0 },
    ['j'] = { do_get, VR_PICKLE_NUMBER, 4 },
    ['l'] = { do_list, VR_PICKLE_NOTHING, 0 },
    ['o'] = { do_obj, VR_PICKLE_NOTHING, 0 },
    ['p'] = { do_put_line, VR_PICKLE_LINE, 0 },
    ['q'] = { do_put, VR_PICKLE_NUMBER, 1 },
    ['r'] = { do_put, VR_PICKLE_NUMBER, 4 },
    ['s'] = { do_setitem, VR_PICKLE_NOTHING, 0 },
    ['t'] = { do_tuple, VR_PICKLE_NOTHING, 0 },
    ['u'] = { do_setitems, VR_PICKLE_NOTHING, 0 },
    ['}'] = { do_empty_dict, VR_PICKLE_NOTHING, 0 },
    [0x80] = { do_proto, VR_PICKLE_NUMBER, 1 },
    [0x81] = { do_reduce, VR_PICKLE_NOTHING, 0 },
    [0x82] = { do_other, VR_PICKLE_NUMBER, 1 },
    [0x83] = { do_other, VR_PICKLE_NUMBER, 2 },
    [0x84] = { do_other, VR_PICKLE_NUMBER, 4 },
    [0x85] = { do_tuple_of, VR_PICKLE_FIXED, 1 },
    [0x86] = { do_tuple_of, VR_PICKLE_FIXED, 2 },
    [0x87] = { do_tuple_of, VR_PICKLE_FIXED, 3 },
    [0x88] = { do_true, VR_PICKLE_NOTHING, 0 },
    [0x89] = { do_false, VR_PICKLE_NOTHING, 0 },
    [0x8a] = { do_long, VR_PICKLE_COUNTED, 1 },
    [0x8b] = { do_long, VR_PICKLE_COUNTED, 4 },
    [0x8c] = { do_text, VR_PICKLE_COUNTED, 1 },
    [0x8d] = { do_text, VR_PICKLE_COUNTED, 8 },
    [0x8e] = { do_bytes, VR_PICKLE_COUNTED, 8 },
    [0x8f] = { do_empty_list, VR_PICKLE_NOTHING, 0 },
    [0x90] = { do_appends, VR_PICKLE_NOTHING, 0 },
    [0x91] = { do_list, VR_PICKLE_NOTHING, 0 },
    [0x92] = { do_newobj_ex, VR_PICKLE_NOTHING, 0 },
    [0x93] = { do_stack_global, VR_PICKLE_NOTHING, 0 },
    [0x94] = { do_memoize, VR_PICKLE_NOTHING, 0 },
    [0x95] = { do_nothing, VR_PICKLE_NUMBER, 8 },
    [0x96] = { do_bytes, VR_PICKLE_COUNTED, 8 },
    [0x97] = { do_buffer, VR_PICKLE_NOTHING, 0 },
    [0x98] = { do_buffer, VR_PICKLE_NOTHING, 0 },
};
