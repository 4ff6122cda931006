/* SPDX-License-Identifier: MIT
 * The context: the allocator hook, the last error, the warnings and the objects made from it.
 * Setting an error never allocates: its texts live in fixed rooms of the context, so out of memory can be
 * reported. Texts quote hostile input (tensor names, file names), so control characters and ill-formed UTF-8
 * become '?' here and no report can be made to drive a terminal. */
#include "base/internal.h"

#include <string.h>

#define WARNING_TEXT ((size_t)512)
/* More would be one damaged file repeating itself, and comparing them is quadratic. */
#define WARNINGS_MAX ((size_t)200)

static const char OUT_OF_MEMORY[] = "out of host memory";

/* Appends what fits, keeping one byte for the NUL; false when something was cut. */
static bool append(char *out, size_t room, size_t *at, vr_str s)
{
    size_t n = s.n < room - 1 - *at ? s.n : room - 1 - *at;
    if (n != 0)
        memmove(out + *at, s.s, n);
    *at += n;
    return n == s.n;
}

/* Ends a cut text in "..." without splitting a character. */
static size_t shorten(char *out, size_t n)
{
    n = n < 3 ? 0 : n - 3;
    while (n > 0 && ((unsigned char)out[n] & 0xC0) == 0x80)
        n--;
    memcpy(out + n, "...", 3);
    return n + 3;
}

/* The pieces as clean text in a fixed room. */
static void render(char *out, size_t room, const vr_piece *p, size_t n)
{
    size_t at = 0;
    bool whole = true;
    for (size_t i = 0; i < n && whole; i++) {
        char digits[VR_PIECE_ROOM];
        whole = append(out, room, &at, vr_piece_text(&p[i], digits));
    }
    if (!whole)
        at = shorten(out, at);
    out[vr_utf8_clean(out, at)] = '\0';
}

static void render_name(char *out, size_t room, const char *name)
{
    render(out, room, &(vr_piece){ .kind = VR_P_STR, .str = vr_str_of(name) }, 1);
}

vram_status vr_fail_pieces(struct vram_ctx *ctx, vram_status code, const char *file, const uint64_t *offset,
                           const vr_piece *p, size_t n)
{
    /* Rendered aside first: a piece may quote the error that is being replaced. */
    char text[sizeof ctx->error_text], name[sizeof ctx->error_file];
    render(text, sizeof text, p, n);
    render_name(name, sizeof name, file);
    memcpy(ctx->error_text, text, sizeof text);
    memcpy(ctx->error_file, name, sizeof name);
    ctx->error = (vram_error){
        .code = code,
        .text = ctx->error_text,
        .file = file != NULL ? ctx->error_file : NULL,
        .has_offset = offset != NULL,
        .offset = offset != NULL ? *offset : 0,
    };
    return code;
}

void vr_out_of_memory(struct vram_ctx *ctx)
{
    ctx->error = (vram_error){ .code = VRAM_ENOMEM, .text = OUT_OF_MEMORY };
}

void vr_hint(struct vram_ctx *ctx, const char *hint)
{
    char text[sizeof ctx->error_hint];
    render_name(text, sizeof text, hint);
    memcpy(ctx->error_hint, text, sizeof text);
    ctx->error.hint = hint != NULL ? ctx->error_hint : NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool warned(const struct vram_ctx *ctx, const char *file, const char *text)
{
    for (size_t i = 0; i < ctx->n_warnings; i++) {
        if (same_text(ctx->warnings[i].text, text) && same_text(ctx->warnings[i].file, file))
            return true;
    }
    return false;
}

static bool warning_room(struct vram_ctx *ctx)
{
    if (ctx->n_warnings < ctx->warnings_room)
        return true;
    size_t room = ctx->warnings_room == 0 ? 8 : ctx->warnings_room * 2;
    vram_warning *grown = vr_arena_grow(&ctx->arena, ctx->warnings, ctx->n_warnings, room, sizeof *grown);
    if (grown == NULL)
        return false;
    ctx->warnings = grown;
    ctx->warnings_room = room;
    return true;
}

static vram_status add_warning(struct vram_ctx *ctx, const char *file, const char *text)
{
    if (!warning_room(ctx))
        return VRAM_ENOMEM;
    vram_warning w = { vr_arena_copy(&ctx->arena, vr_str_of(text)), NULL };
    if (file != NULL)
        w.file = vr_arena_copy(&ctx->arena, vr_str_of(file));
    if (w.text == NULL || (file != NULL && w.file == NULL))
        return VRAM_ENOMEM;
    ctx->warnings[ctx->n_warnings++] = w;
    return VRAM_OK;
}

vram_status vr_warn_pieces(struct vram_ctx *ctx, const char *file, const vr_piece *p, size_t n)
{
    char text[WARNING_TEXT], name[sizeof ctx->error_file];
    render(text, sizeof text, p, n);
    render_name(name, sizeof name, file);
    const char *named = file != NULL ? name : NULL;
    if (ctx->n_warnings > WARNINGS_MAX || warned(ctx, named, text))
        return VRAM_OK;
    if (ctx->n_warnings == WARNINGS_MAX)
        return add_warning(ctx, NULL, "further warnings are left out");
    return add_warning(ctx, named, text);
}

void *vr_ctx_realloc(struct vram_ctx *ctx, void *p, size_t old_size, size_t new_size)
{
    if (new_size == 0) {
        if (p != NULL)
            ctx->alloc(ctx->ud, p, old_size, 0);
        return NULL;
    }
    void *q = ctx->alloc(ctx->ud, p, p != NULL ? old_size : 0, new_size);
    if (q == NULL)
        vr_out_of_memory(ctx);
    return q;
}

void vr_object_register(struct vram_ctx *ctx, vr_object *o, void (*release)(vr_object *))
{
    o->release = release;
    o->next = ctx->objects;
    ctx->objects = o;
}

vram_status vram_open(vram_ctx **out, vram_alloc_fn alloc, void *ud)
{
    if (out == NULL)
        return VRAM_ESETTING;
    *out = NULL;
    if (alloc == NULL)
        return VRAM_ESETTING;
    vram_ctx *ctx = alloc(ud, NULL, 0, sizeof *ctx);
    if (ctx == NULL)
        return VRAM_ENOMEM;
    *ctx = (vram_ctx){ .alloc = alloc, .ud = ud, .error = { .code = VRAM_OK, .text = "no error" } };
    vr_arena_init(&ctx->arena, ctx);
    *out = ctx;
    return VRAM_OK;
}

void vram_close(vram_ctx *ctx)
{
    if (ctx == NULL)
        return;
    while (ctx->objects != NULL) {
        vr_object *o = ctx->objects;
        ctx->objects = o->next;
        o->release(o);
    }
    vr_arena_free(&ctx->arena);
    ctx->alloc(ctx->ud, ctx, sizeof *ctx, 0);
}

/* ctx NULL: what vram_open could not make. */
const vram_error *vram_last_error(const vram_ctx *ctx)
{
    static const vram_error no_context = { .code = VRAM_ENOMEM, .text = OUT_OF_MEMORY };
    return ctx != NULL ? &ctx->error : &no_context;
}

int vram_exit_status(vram_status code)
{
    switch (code) {
#define X(name, value, text, exit_status)                                                                    \
    case VRAM_##name:                                                                                        \
        return exit_status;
        VRAM_STATUSES(X)
#undef X
    }
    return 5; /* a number that is no status is an internal error */
}

size_t vram_warnings(const vram_ctx *ctx, const vram_warning **out)
{
    *out = ctx->warnings;
    return ctx->n_warnings;
}
