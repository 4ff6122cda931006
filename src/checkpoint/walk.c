/* SPDX-License-Identifier: MIT
 * The rarer steps of the cursor over validated JSON. */
#include "checkpoint/walk.h"

#include <string.h>

#define SHOWN_BYTES 160

static void pass_container(vr_walk *w)
{
    size_t depth = 0;
    while (w->p < w->end) {
        char c = *w->p;
        if (c == '"') {
            (void)vr_walk_string(w);
            continue;
        }
        w->p++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return;
    }
}

static void pass_scalar(vr_walk *w)
{
    while (w->p < w->end && *w->p != ',' && *w->p != '}' && *w->p != ']' && (unsigned char)*w->p > ' ')
        w->p++;
}

vr_str vr_walk_value(vr_walk *w)
{
    char c = vr_walk_peek(w);
    const char *start = w->p;
    if (c == '"')
        (void)vr_walk_string(w);
    else if (c == '{' || c == '[')
        pass_container(w);
    else
        pass_scalar(w);
    return (vr_str){ start, (size_t)(w->p - start) };
}

vr_str vr_shown(vr_str raw)
{
    if (raw.n <= SHOWN_BYTES)
        return raw;
    size_t n = SHOWN_BYTES;
    while (n > 0 && ((unsigned char)raw.s[n] & 0xc0) == 0x80)
        n--;
    return (vr_str){ raw.s, n };
}

bool vr_unescape(vr_str raw, vr_arena *a, vr_str *out)
{
    if (memchr(raw.s, '\\', raw.n) == NULL) {
        *out = raw;
        return true;
    }
    /* With its quotes it is a JSON string value, as json.h wants it. */
    vr_json value = { VR_JSON_STRING, { raw.s - 1, raw.n + 2 } };
    return vr_json_str(value, a, out);
}
