/* SPDX-License-Identifier: MIT
 * Which format a weight file has: by its bytes, whatever it is called. What is none of ours is refused with
 * what it is: people who cloned without Git LFS, or whose download was an error page, should be told so.
 * Signatures: git-lfs docs/spec.md; HDF5 format specification II.A; RFC 1952; ggml's former magics,
 * llama.cpp convert_legacy_llama.py; the rest from the formats' own files here. */
#include "checkpoint/loading.h"

#include <string.h>

/* safetensors last: its mark, a brace behind eight bytes of length, is the weakest. */
static const vr_format *const formats[] = {
    &vr_format_gguf,
    &vr_format_torch,
    &vr_format_safetensors,
};

#define MARK(text) text, sizeof(text) - 1

static const struct {
    const char *bytes;
    size_t n;
    vram_status code;
    const char *what, *hint;
} others[] = {
    { MARK("version https:/"), VRAM_EFORMAT, "this is a Git LFS pointer, not the weights",
      "run \"git lfs pull\" in that directory" },
    { MARK("<!DOCTYPE"), VRAM_EFORMAT, "this is a web page, not weights; a failed download?", NULL },
    { MARK("<!doctype"), VRAM_EFORMAT, "this is a web page, not weights; a failed download?", NULL },
    { MARK("<html"), VRAM_EFORMAT, "this is a web page, not weights; a failed download?", NULL },
    { MARK("<?xml"), VRAM_EFORMAT, "this is XML, not weights; a failed download?", NULL },
    { MARK("\x89HDF\r\n\x1a\n"), VRAM_EUNSUPPORTED, "this is an HDF5 file (Keras), which is not read",
      "most models are also published as safetensors" },
    { MARK("\x1f\x8b"), VRAM_EUNSUPPORTED, "this is compressed with gzip", "unpack it first" },
    { MARK("\x93NUMPY"), VRAM_EUNSUPPORTED, "this is a NumPy array, not a checkpoint", NULL },
    { MARK("\x80\x02"), VRAM_EUNSUPPORTED, "this is a Python pickle, but not one of torch.save", NULL },
    { MARK("\x80\x03"), VRAM_EUNSUPPORTED, "this is a Python pickle, but not one of torch.save", NULL },
    { MARK("\x80\x04"), VRAM_EUNSUPPORTED, "this is a Python pickle, but not one of torch.save", NULL },
    { MARK("\x80\x05"), VRAM_EUNSUPPORTED, "this is a Python pickle, but not one of torch.save", NULL },
    { MARK("lmgg"), VRAM_EUNSUPPORTED,
      "this is a GGML file from before GGUF, which today's llama.cpp does not load",
      "look for the model as GGUF" },
    { MARK("fmgg"), VRAM_EUNSUPPORTED,
      "this is a GGMF file from before GGUF, which today's llama.cpp does not load",
      "look for the model as GGUF" },
    { MARK("tjgg"), VRAM_EUNSUPPORTED,
      "this is a GGJT file from before GGUF, which today's llama.cpp does not load",
      "look for the model as GGUF" },
};

static vram_status refuse_other(vram_checkpoint *ck, const vr_input *in, const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (n < others[i].n || memcmp(head, others[i].bytes, others[i].n) != 0)
            continue;
        vram_status s = vr_fail_at(ck->ctx, others[i].code, in->name, 0, T(others[i].what));
        if (others[i].hint != NULL)
            vr_hint(ck->ctx, others[i].hint);
        return s;
    }
    return VRAM_OK;
}

static const vr_format *find(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (formats[i]->is(head, n))
            return formats[i];
    }
    return NULL;
}

static vram_status unknown(vram_checkpoint *ck, vr_input *in, const unsigned char *head, size_t n)
{
    VR_TRY(refuse_other(ck, in, head, n));
    if (n == 0)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0, T("the file is empty"));
    if (!vr_str_ends(vr_str_of(in->name), ".safetensors"))
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, 0,
                          T("the file begins like no format of weights that is known"));
    in->format = &vr_format_safetensors; /* its reader knows best what is wrong with it */
    return VRAM_OK;
}

const char *vr_file_format(const vr_file *f)
{
    return f->format != NULL ? f->format->name : NULL;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

vram_status vr_format_probe(vram_checkpoint *ck, vr_input *in)
{
    unsigned char head[VR_SNIFF_BYTES];
    size_t n = (size_t)at_most(in->size, sizeof(head));
    bool known = false;
    if (in->format == NULL) {
        bool waits = vr_fault_waits(ck);
        VR_TRY(vr_want_first(ck, in, n, &known));
        if (!known)
            return VRAM_MORE;
        vr_view_copy(&in->view, 0, (char *)head, n);
        in->format = find(head, n);
        if (in->format == NULL && waits)
            return VRAM_MORE;
        if (in->format == NULL)
            VR_TRY(unknown(ck, in, head, n));
    }
    return in->format->probe(ck, in);
}
