/* SPDX-License-Identifier: MIT
 * The JSON reader and writer on any bytes. What must hold: a refusal names a place inside; what is accepted
 * can be walked whole, each value in it is a document by itself, getters agree with the walk, and what the
 * writer makes of it reads back equal. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "../support/hook.h"
#include "base/base.h"
#include "base/json.h"

#define PIECEWISE ((size_t)2048) /* above, values are not parsed again one by one: that is quadratic */

static void check_string(vr_json v, vr_arena *a)
{
    vr_str s;
    CHECK(vr_json_str(v, a, &s));
    CHECK(s.n <= v.text.n - 2 && vr_utf8_check(s, NULL));
    const char *zero_terminated = vr_arena_copy(a, s);
    CHECK(zero_terminated != NULL);
    CHECK(vr_json_str_is(v, zero_terminated) == (strlen(zero_terminated) == s.n));
}

static void check_number(vr_json v)
{
    uint64_t u;
    double d;
    bool whole = vr_json_u64(v, &u), real = vr_json_double(v, &d);
    CHECK(!whole || real);
    if (whole)
        CHECK(fabs(d - (double)u) <= 1e-14 * (double)u);
    if (real)
        CHECK(isfinite(d) && (d >= 0 || v.text.s[0] == '-'));
}

static void check_scalar(vr_json v, vr_arena *a)
{
    uint64_t u;
    double d;
    vr_str s;
    bool b;
    if (v.type == VR_JSON_NUMBER)
        check_number(v);
    else
        CHECK(!vr_json_u64(v, &u) && !vr_json_double(v, &d));
    if (v.type == VR_JSON_STRING)
        check_string(v, a);
    else
        CHECK(!vr_json_str(v, a, &s) && s.s != NULL && s.n == 0);
    CHECK(vr_json_bool(v, &b) == (v.type == VR_JSON_TRUE || v.type == VR_JSON_FALSE));
}

static void check_get(vr_json object, vr_json key, vr_arena *a)
{
    vr_str name;
    vr_json found, other_key, value;
    CHECK(vr_json_str(key, a, &name));
    if (vr_str_find(name, ".", NULL) || (name.n != 0 && memchr(name.s, 0, name.n) != NULL))
        return;
    const char *path = vr_arena_copy(a, name);
    CHECK(path != NULL && vr_json_get(object, path, &found));
    vr_json_iter it = vr_json_each(object);
    do
        CHECK(vr_json_next_member(&it, &other_key, &value));
    while (!vr_json_str_is(other_key, path));
    CHECK(value.text.s == found.text.s && value.text.n == found.text.n && value.type == found.type);
}

static void check_value(vr_json v, vr_str within, unsigned depth, vr_arena *a)
{
    vr_json_error error;
    vr_json again, key, value;
    CHECK(depth <= VR_JSON_DEPTH && v.text.n > 0);
    CHECK(v.text.s >= within.s && v.text.s + v.text.n <= within.s + within.n);
    if (within.n <= PIECEWISE) {
        CHECK(vr_json_parse(v.text, &again, &error));
        CHECK(again.type == v.type && again.text.s == v.text.s && again.text.n == v.text.n);
    }
    check_scalar(v, a);
    vr_json_iter it = vr_json_each(v);
    if (v.type == VR_JSON_OBJECT) {
        while (vr_json_next_member(&it, &key, &value)) {
            CHECK(key.type == VR_JSON_STRING);
            check_value(key, v.text, depth, a);
            check_value(value, v.text, depth + 1, a);
            if (within.n <= PIECEWISE)
                check_get(v, key, a);
        }
    } else {
        while (vr_json_next(&it, &value))
            check_value(value, v.text, depth + 1, a);
    }
}

/* Numbers that are no whole uint64_t are written as strings of their text: the writer has no doubles. */
static void write_scalar(vr_json_out *o, vr_json v, vr_arena *a)
{
    uint64_t u;
    vr_str s = v.text;
    if (v.type == VR_JSON_NULL)
        vr_json_put_null(o);
    else if (v.type == VR_JSON_TRUE || v.type == VR_JSON_FALSE)
        vr_json_put_bool(o, v.type == VR_JSON_TRUE);
    else if (v.type == VR_JSON_NUMBER && vr_json_u64(v, &u))
        vr_json_put_u64(o, u);
    else {
        CHECK(v.type == VR_JSON_NUMBER || vr_json_str(v, a, &s));
        vr_json_put_str(o, s);
    }
}

static void write_value(vr_json_out *o, vr_json v, vr_arena *a)
{
    vr_json key, value;
    vr_str name;
    vr_json_iter it = vr_json_each(v);
    if (v.type == VR_JSON_OBJECT) {
        vr_json_open(o, '{');
        while (vr_json_next_member(&it, &key, &value)) {
            CHECK(vr_json_str(key, a, &name));
            const char *text = vr_arena_copy(a, name);
            CHECK(text != NULL);
            vr_json_key(o, text); /* ends at a NUL in the name */
            write_value(o, value, a);
        }
        vr_json_close(o, '}');
    } else if (v.type == VR_JSON_ARRAY) {
        vr_json_open(o, '[');
        while (vr_json_next(&it, &value))
            write_value(o, value, a);
        vr_json_close(o, ']');
    } else {
        write_scalar(o, v, a);
    }
}

static void same_scalar(vr_json v, vr_json w, vr_arena *a)
{
    uint64_t x, y;
    vr_str s = v.text, t;
    if (v.type == VR_JSON_NUMBER && vr_json_u64(v, &x)) {
        CHECK(vr_json_u64(w, &y) && x == y);
        return;
    }
    if (v.type != VR_JSON_NUMBER && v.type != VR_JSON_STRING) {
        CHECK(v.type == w.type);
        return;
    }
    CHECK(v.type == VR_JSON_NUMBER || vr_json_str(v, a, &s));
    CHECK(vr_json_str(w, a, &t) && vr_str_eq(s, t));
}

static void same_value(vr_json v, vr_json w, vr_arena *a)
{
    vr_json v_key, v_value, w_key, w_value;
    vr_str s, t;
    vr_json_iter i = vr_json_each(v), k = vr_json_each(w);
    if (v.type == VR_JSON_OBJECT) {
        CHECK(w.type == VR_JSON_OBJECT);
        while (vr_json_next_member(&i, &v_key, &v_value)) {
            CHECK(vr_json_next_member(&k, &w_key, &w_value));
            CHECK(vr_json_str(v_key, a, &s) && vr_json_str(w_key, a, &t));
            CHECK(vr_str_eq((vr_str){ s.s, t.n }, t) && (s.n == t.n || s.s[t.n] == '\0'));
            same_value(v_value, w_value, a);
        }
        CHECK(!vr_json_next_member(&k, &w_key, &w_value));
    } else if (v.type == VR_JSON_ARRAY) {
        CHECK(w.type == VR_JSON_ARRAY);
        while (vr_json_next(&i, &v_value)) {
            CHECK(vr_json_next(&k, &w_value));
            same_value(v_value, w_value, a);
        }
        CHECK(!vr_json_next(&k, &w_value));
    } else {
        same_scalar(v, w, a);
    }
}

static void check_document(vram_ctx *ctx, vr_str text)
{
    vr_json v, w;
    vr_json_error error = { NULL, 0 };
    if (!vr_json_parse(text, &v, &error)) {
        CHECK(error.reason != NULL && error.offset <= text.n);
        return;
    }
    vr_arena a;
    vr_buf b;
    vr_json_out o;
    vr_arena_init(&a, ctx);
    check_value(v, text, 0, &a);
    vr_buf_init(&b, ctx, SIZE_MAX);
    vr_json_begin(&o, &b);
    write_value(&o, v, &a);
    CHECK(!b.failed);
    CHECK(vr_json_parse((vr_str){ b.p, b.n }, &w, &error));
    same_value(v, w, &a);
    vr_buf_free(&b);
    vr_arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    check_document(ctx, (vr_str){ (const char *)data, size });
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
