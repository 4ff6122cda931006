/* SPDX-License-Identifier: MIT
 * The pickle machine: takes an instruction with what follows it, and runs it. Nothing recurses. */
#include "checkpoint/pickle_machine.h"

#include <string.h>

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

static vram_status take_argument(vr_pickle *p, const vr_pickle_op *op, size_t *at, vr_pickle_arg *a)
{
    switch ((vr_pickle_shape)op->shape) {
    case VR_PICKLE_NUMBER:
        return take_number(p, at, op->size, &a->u);
    case VR_PICKLE_COUNTED:
        return take_counted(p, at, op->size, &a->s);
    case VR_PICKLE_LINES:
        VR_TRY(take_line(p, at, &a->s));
        return take_line(p, at, &a->s2);
    case VR_PICKLE_LINE:
        return take_line(p, at, &a->s);
    case VR_PICKLE_FIXED:
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
    const vr_pickle_op *op = &vr_pickle_ops[(unsigned char)p->text[p->at]];
    size_t at = p->at + 1;
    vr_pickle_arg a = { 0, { NULL, 0 }, { NULL, 0 } };
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
