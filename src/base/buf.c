/* SPDX-License-Identifier: MIT
 * Growing text buffer with a ceiling. Writers do not check each call: the first failure sticks and later
 * calls do nothing; whoever hands the text on looks at `failed` once. */
#include "base/internal.h"

#include <string.h>

#define FIRST_ROOM ((size_t)256)

void vr_buf_init(vr_buf *b, struct vram_ctx *ctx, size_t limit)
{
    *b = (vr_buf){ .ctx = ctx, .limit = limit < SIZE_MAX / 4 ? limit : SIZE_MAX / 4 };
}

void vr_buf_free(vr_buf *b)
{
    if (b->p != NULL)
        vr_ctx_realloc(b->ctx, b->p, b->room, 0);
    b->p = NULL;
    b->n = b->room = 0;
}

static bool make_room(vr_buf *b, size_t n)
{
    if (n > b->limit - b->n) {
        vr_fail(b->ctx, VRAM_ELIMIT, T("a text would be longer than its limit of "), GROUPED(b->limit),
                T(" bytes"));
        return false;
    }
    size_t need = b->n + n + 1; /* cannot overflow: limit is at most SIZE_MAX / 4 */
    if (need <= b->room)
        return true;
    size_t room = b->room == 0 ? FIRST_ROOM : b->room * 2;
    if (room < need)
        room = need;
    char *p = vr_ctx_realloc(b->ctx, b->p, b->room, room);
    if (p == NULL)
        return false;
    b->p = p;
    b->room = room;
    return true;
}

void vr_put_bytes(vr_buf *b, const void *p, size_t n)
{
    if (b->failed)
        return;
    if (!make_room(b, n)) {
        b->failed = true;
        return;
    }
    if (n != 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void vr_put_repeat(vr_buf *b, const char *what, size_t times)
{
    size_t n = strlen(what);
    for (size_t i = 0; n != 0 && i < times && !b->failed; i++)
        vr_put_bytes(b, what, n);
}

void vr_put_pieces(vr_buf *b, const vr_piece *p, size_t n)
{
    char room[VR_PIECE_ROOM];
    for (size_t i = 0; i < n; i++) {
        vr_str s = vr_piece_text(&p[i], room);
        vr_put_bytes(b, s.s, s.n);
    }
}
