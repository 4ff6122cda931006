/* SPDX-License-Identifier: MIT */
#include "diagnosis/findings.h"

struct vr_reader {
    vr_arena *arena;
    vr_findings out;
};

vram_status vr_reader_new(vr_reader **out, vram_ctx *ctx, vr_arena *a)
{
    (void)ctx;
    *out = VR_NEW(a, vr_reader);
    if (*out == NULL)
        return VRAM_ENOMEM;
    (*out)->arena = a;
    return VRAM_OK;
}

vram_status vr_reader_file(vr_reader *r, vr_str name)
{
    (void)r;
    (void)name;
    return VRAM_OK;
}

vram_status vr_reader_feed(vr_reader *r, const void *bytes, size_t n)
{
    (void)bytes;
    r->out.bytes += n;
    return VRAM_OK;
}

vram_status vr_reader_end(vr_reader *r, vr_findings *out)
{
    *out = r->out;
    return VRAM_OK;
}
