/* SPDX-License-Identifier: MIT
 * Strict JSON (RFC 8259) without a tree: a slice is validated once, then walked. And a writer. */
#ifndef VR_JSON_H
#define VR_JSON_H

#include "base/base.h"

#define VR_JSON_DEPTH 64

typedef enum vr_json_type {
    VR_JSON_NULL,
    VR_JSON_TRUE,
    VR_JSON_FALSE,
    VR_JSON_NUMBER,
    VR_JSON_STRING,
    VR_JSON_ARRAY,
    VR_JSON_OBJECT
} vr_json_type;

/* A value inside a validated document; text.s points into the caller's bytes (a string's slice includes its
 * quotes). */
typedef struct vr_json {
    vr_json_type type;
    vr_str text;
} vr_json;

/* Why a document is refused: a constant sentence and the byte offset from the document's start. */
typedef struct vr_json_error {
    const char *reason;
    size_t offset;
} vr_json_error;

/* Whole document: strict grammar, UTF-8, no lone surrogates, no control characters, depth <= VR_JSON_DEPTH,
 * nothing but white space after. After this, the functions below need no further checks. Linear time, no
 * allocation. */
bool vr_json_parse(vr_str document, vr_json *out, vr_json_error *error);

typedef struct vr_json_iter {
    const char *p, *end;
    bool first;
} vr_json_iter;

vr_json_iter vr_json_each(vr_json container);        /* array or object; anything else is empty */
bool vr_json_next(vr_json_iter *it, vr_json *value); /* array */
bool vr_json_next_member(vr_json_iter *it, vr_json *key, vr_json *value); /* object; key is a string value */

/* First member of that name (compared after unescaping); false when absent or not an object. Path: "a.b"
 * descends. */
bool vr_json_get(vr_json object, const char *path, vr_json *out);

/* Exact or refused: false for fractions, negatives, or over 2^64-1; 1e3 and 4096.0 are whole. */
bool vr_json_u64(vr_json v, uint64_t *out);
bool vr_json_double(vr_json v, double *out); /* any number; correct to a few ulp, not for bytes */
bool vr_json_bool(vr_json v, bool *out);
/* The string's bytes: borrowed when it has no escapes, otherwise unescaped into the arena (ENOMEM: returns
 * false with out->s NULL; not a string: returns false with the empty slice). */
bool vr_json_str(vr_json v, vr_arena *a, vr_str *out);
bool vr_json_str_is(vr_json v, const char *zero_terminated);

/* Validates UTF-8 (no overlong forms, no surrogates); false and the offset of the first bad byte otherwise.
 */
bool vr_utf8_check(vr_str s, size_t *bad);

/* ---- writer: two-space indentation, no line end after the document; the buffer's sticky failure is the only
 * error ---- */

typedef struct vr_json_out {
    vr_buf *buf;
    unsigned depth;
    bool first, after_key;
} vr_json_out;

void vr_json_begin(vr_json_out *o, vr_buf *buf);
void vr_json_open(vr_json_out *o, char bracket);  /* '{' or '[' */
void vr_json_close(vr_json_out *o, char bracket); /* '}' or ']' */
void vr_json_key(vr_json_out *o, const char *key);
void vr_json_key_str(vr_json_out *o, vr_str key);
/* Escaped, also what a terminal must not get (vr_utf8_shown); ill-formed bytes become U+FFFD. */
void vr_json_put_str(vr_json_out *o, vr_str s);
void vr_json_put_text(vr_json_out *o, const char *zero_terminated); /* NULL writes null */
void vr_json_put_u64(vr_json_out *o, uint64_t v);
void vr_json_put_i64(vr_json_out *o, int64_t v);
void vr_json_put_fixed(vr_json_out *o, uint64_t value, uint64_t unit,
                       unsigned decimals); /* unit 0 writes null */
/* The shortest that reads back as the same number, of single precision if it was; NaN and infinities are
 * strings. */
void vr_json_put_double(vr_json_out *o, double v, bool single);
void vr_json_put_bool(vr_json_out *o, bool v);
void vr_json_put_null(vr_json_out *o);
/* key and value in one */
void vr_json_kv_text(vr_json_out *o, const char *key, const char *zero_terminated);
void vr_json_kv_u64(vr_json_out *o, const char *key, uint64_t v);
void vr_json_kv_i64(vr_json_out *o, const char *key, int64_t v);
void vr_json_kv_bool(vr_json_out *o, const char *key, bool v);
void vr_json_kv_null(vr_json_out *o, const char *key);
void vr_json_kv_if(vr_json_out *o, const char *key, bool known, uint64_t v); /* or null */
void vr_json_kv_known(vr_json_out *o, const char *key, uint64_t v);          /* null for 0 */

#endif
