/* SPDX-License-Identifier: MIT
 *
 * What a run that dies says and what it really lacks; and how many cards would hold it.
 * The text is that of PyTorch 2.2 to 2.9, c10/cuda/CUDACachingAllocator.cpp. Later releases differ in the
 * last sentence only: another address of the documentation, and from about 2.10 on PYTORCH_ALLOC_CONF. */
#include "ledger/answer.h"

static const char NEVER_PERFECT[] =
    "by division: real sharding is never perfect, cards repeat some tensors and add "
    "communication buffers";

static const char *message(const vram_fit *f, vr_arena *a)
{
    const vr_live *live = &f->run.failure.live;
    return vr_text(
        a, T("CUDA out of memory. Tried to allocate "), BYTES(f->run.failure.tried),
        T(". GPU 0 has a total capacity of "), BYTES(f->device->usable.bytes), T(" of which "),
        BYTES(f->run.failure.driver_free), T(" is free. Including non-PyTorch memory, this process has "),
        BYTES(live->driver), T(" memory in use. Of the allocated memory "), BYTES(live->allocated),
        T(" is allocated by PyTorch, and "), BYTES(live->reserved - live->allocated),
        T(" is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
          "Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"));
}

/* Of the weights' bytes, in blocks as PyTorch counts what is allocated: the published run of the 7B died with
 * 11.34 GiB allocated of 15.23 GB, 80.0 %. */
static unsigned loaded_permille(const vram_fit *f, bool loading)
{
    uint64_t total = f->plan.weight_bytes, loaded = f->run.failure.live.allocated;
    if (!loading || total == 0 || loaded >= total)
        return 1000;
    return (unsigned)vr_mul_div(loaded, 1000, total);
}

vram_status vr_fit_failure(vram_fit *f)
{
    bool loading = f->run.failure.next_moment <= VR_AT_LOADED;
    f->weights_over_usable = vr_sub_floor(f->plan.weight_bytes, f->device->usable.bytes);
    if (!f->run.failed)
        return VRAM_OK;
    f->short_bytes = loading && f->weights_over_usable > 0
                         ? f->weights_over_usable
                         : vr_sub_floor(f->ledger.required, f->device->available.bytes);
    f->loaded_permille = loaded_permille(f, loading);
    f->message = message(f, &f->arena);
    f->message_version = "PyTorch 2.2 to 2.9";
    return f->message == NULL ? VRAM_ENOMEM : VRAM_OK;
}

void vr_fit_count(vram_fit *f)
{
    uint64_t overhead = f->ledger.category[VR_OVERHEAD].bytes, shared = f->ledger.required - overhead;
    uint64_t room = vr_sub_floor(f->device->available.bytes, overhead);
    f->smallest_count = 0;
    if (f->verdict == VRAM_UNKNOWN || f->ledger.partial) {
        f->count_note = "not known: not everything is counted";
        return;
    }
    if (room == 0) {
        f->count_note = "none: such a card has no room beside the runtime overhead";
        return;
    }
    f->smallest_count = f->verdict == VRAM_FITS ? 1 : shared / room + (shared % room != 0);
    f->count_note = NEVER_PERFECT;
}
