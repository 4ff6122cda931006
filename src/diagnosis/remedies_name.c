/* SPDX-License-Identifier: MIT
 *
 * Which model it was, by --model or the log, and what its name says of its size.
 */
#include "diagnosis/levers.h"

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* The words on both sides of a slash, as the hub names models; n 0: it is part of a path. */
static vr_str name_around(vr_str s, size_t slash)
{
    size_t from = slash, to = slash + 1;

    while (from > 0 && is_name(s.s[from - 1]))
        from--;
    while (to < s.n && is_name(s.s[to]))
        to++;
    if ((from > 0 && (s.s[from - 1] == '/' || s.s[from - 1] == '~')) || (to < s.n && s.s[to] == '/'))
        return (vr_str){ s.s, 0 };
    if (from == slash || to == slash + 1 || s.s[from] == '.' || s.s[from] == '-')
        return (vr_str){ s.s, 0 };
    return (vr_str){ s.s + from, to - from };
}

/* The first ORG/NAME of a text; n 0: none. */
static vr_str model_in(vr_str s)
{
    vr_str name = { s.s, 0 };

    for (size_t at = 0; at < s.n && name.n == 0; at++)
        if (s.s[at] == '/')
            name = name_around(s, at);
    return name;
}

/* What the last frame that loads is given. */
static bool model_of_frames(const vr_case *c, vr_str *out)
{
    const vr_incident *e = c->f->event;
    size_t at;

    for (size_t i = e != NULL ? e->n_near : 0; i > 0; i--) {
        vr_str text = vr_str_of(e->near[i - 1].text), call;
        if (!vr_str_find(text, "from_pretrained(", &at))
            continue;
        call = (vr_str){ text.s + at, text.n - at };
        *out = model_in(call);
        if (out->n != 0)
            return true;
    }
    return false;
}

/* A command is pasted into a shell: names that need quotes are not put into one. */
static bool is_typed(vr_str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!is_name(name.s[i]) && name.s[i] != '/')
            return false;
    return name.n != 0 && name.s[0] != '-';
}

bool vr_case_model(const vr_case *c, vr_str *out)
{
    if (model_of_frames(c, out))
        return true;
    for (size_t i = 0; i < c->d->found.n_seen; i++)
        if (vr_str_starts(vr_str_of(c->d->found.seen[i].row->id), "model-name")) {
            *out = model_in(vr_str_of(c->d->found.seen[i].text));
            if (out->n != 0)
                return true;
        }
    *out = vr_str_of(c->d->model);
    return is_typed(*out);
}

/* ---- "14B" ---- */

static size_t digits_of(vr_str s, uint64_t *value)
{
    size_t n = 0;

    for (*value = 0; n < s.n && n < 4 && vr_is_digit(s.s[n]); n++)
        *value = *value * 10 + (uint64_t)(s.s[n] - '0');
    return n;
}

/* "B", and the end of the name or of its part. */
static bool is_billions(vr_str s)
{
    if (s.n == 0 || (s.s[0] != 'B' && s.s[0] != 'b'))
        return false;
    return s.n == 1 || s.s[1] == '-' || s.s[1] == '_' || !is_name(s.s[1]);
}

/* Tenths of a thousand million at the start of a text: 71 of "7.1B-Instruct"; 0: none. */
static uint64_t tenths_at(vr_str s)
{
    uint64_t whole, tenth = 0;
    size_t n = digits_of(s, &whole);

    if (n != 0 && n + 1 < s.n && s.s[n] == '.' && vr_is_digit(s.s[n + 1])) {
        tenth = (uint64_t)(s.s[n + 1] - '0');
        n += 2;
    }
    return n != 0 && is_billions((vr_str){ s.s + n, s.n - n }) ? whole * 10 + tenth : 0;
}

/* The first figure of the name is of all weights; a later one may be of those in use. */
static uint64_t tenths_of(vr_str name)
{
    uint64_t n = 0;

    for (size_t i = 0; i < name.n && n == 0; i++)
        if (i == 0 || name.s[i - 1] == '-' || name.s[i - 1] == '_' || name.s[i - 1] == '/')
            n = tenths_at((vr_str){ name.s + i, name.n - i });
    return n;
}

/* Two bytes a weight, of 5 % fewer than the name says: names are rounded. */
#define BYTES_OF_TENTH UINT64_C(190000000)

bool vr_half_too_large(const vr_case *c)
{
    vr_str name;

    return c->n.has_total && vr_case_model(c, &name) &&
           vr_mul_sat(tenths_of(name), BYTES_OF_TENTH) > c->n.total;
}
