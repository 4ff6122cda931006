/* SPDX-License-Identifier: MIT
 *
 * What a run that dies says and what it really lacks; and how many cards would hold it.
 * The text is that of PyTorch 2.2 to 2.9, c10/cuda/CUDACachingAllocator.cpp. Later releases differ in the
 * last sentence only: another address of the documentation, and from about 2.10 on PYTORCH_ALLOC_CONF.
 * What CUDA itself refuses has no figures (C10_CUDA_CHECK, c10/cuda/CUDAException.cpp). */
#include "ledger/answer.h"

static const char NEVER_PERFECT[] =
    "by division: real sharding is never perfect, cards repeat some tensors and add "
    "communication buffers";

/* Printed only where a memory fraction is set. */
static const char *allowed_words(const vram_fit *f, vr_arena *a)
{
    const vr_alloc_conf *c = &f->workload->alloc;
    if (c->memory_fraction_permille == 0)
        return "";
    return vr_text(a, BYTES(vr_alloc_conf_allowed(c, f->device->usable.bytes)), T(" allowed; "));
}

static const char *allocator_message(const vram_fit *f, vr_arena *a)
{
    const vr_live *live = &f->run.failure.live;
    const char *allowed = allowed_words(f, a);
    if (allowed == NULL)
        return NULL;
    return vr_text(
        a, T("CUDA out of memory. Tried to allocate "), BYTES(f->run.failure.tried), T(". GPU "),
        U(f->device->facts.rank), T(" has a total capacity of "), BYTES(f->device->usable.bytes),
        T(" of which "), BYTES(f->run.failure.driver_free),
        T(" is free. Including non-PyTorch memory, this process has "), BYTES(live->driver),
        T(" memory in use. "), T(allowed), T("Of the allocated memory "), BYTES(live->allocated),
        T(" is allocated by PyTorch, and "), BYTES(live->reserved - live->allocated),
        T(" is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
          "Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"));
}

static vram_status tell_allocator(vram_fit *f)
{
    f->message = allocator_message(f, &f->arena);
    f->message_version = "PyTorch 2.2 to 2.9";
    return f->message == NULL ? VRAM_ENOMEM : VRAM_OK;
}

/* Not the allocator's: CUDA's own error for the context. What is printed when kernels find no room depends on
 * the library that loads them (CUDA error: out of memory, CUBLAS_STATUS_ALLOC_FAILED or _NOT_INITIALIZED), so
 * nothing is quoted then. */
static vram_status tell_outside(vram_fit *f)
{
    vr_tape *tape = &f->plan.tape;
    vr_item item = (vr_item)tape->events[f->run.failure.event].item;
    const vr_engine *e = f->workload->engine;
    f->run.failure.label = vr_tape_label(tape, vr_str_of(vr_item_screen(item)));
    if (e->no_room != NULL) {
        f->message = e->no_room(item, f->run.failure.tried, f->device->facts.rank, &f->arena);
        f->message_version = e->name;
        return f->message == NULL ? VRAM_ENOMEM : tape->status;
    }
    if (item == VR_ITEM_CONTEXT) {
        f->message = "CUDA error: out of memory";
        f->message_version = "PyTorch 2, its first line; from 2.8 on the class can be torch.AcceleratorError";
    }
    return tape->status;
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
    f->run.failed = f->run.failed && !f->foreign && !f->plan.sums_only && f->plan.doubt == NULL;
    if (!f->run.failed)
        return VRAM_OK;
    f->short_bytes = loading && f->weights_over_usable > 0
                         ? f->weights_over_usable
                         : vr_sub_floor(f->ledger.required, f->device->available.bytes);
    f->loaded_permille = loaded_permille(f, loading);
    f->run.failure.driver_free = vr_add_sat(f->run.failure.driver_free, f->kept_free);
    if (f->run.failure.outside)
        return tell_outside(f);
    if (!f->plan.as_stored)
        return tell_allocator(f);
    f->run.failure.label = 0; /* that it dies is sure, but not at which tensor */
    return VRAM_OK;
}

/* What each card holds for itself, however the rest is shared. */
static uint64_t on_every_card(const vr_ledger *l)
{
    return l->item[VR_ITEM_CONTEXT].bytes + l->item[VR_ITEM_KERNELS].bytes +
           l->item[VR_ITEM_WORKSPACES].bytes + l->item[VR_ITEM_POOL].bytes;
}

void vr_fit_count(vram_fit *f)
{
    uint64_t own = on_every_card(&f->ledger), shared = f->ledger.required - own;
    uint64_t room = vr_sub_floor(f->device->available.bytes, own);
    f->smallest_count = 0;
    if (f->verdict == VRAM_UNKNOWN || f->ledger.partial) {
        f->count_note = "not known: not everything is counted";
        return;
    }
    if (room == 0) {
        f->count_note = "none: such a card has no room beside CUDA's context and kernels";
        return;
    }
    f->smallest_count = f->verdict == VRAM_FITS ? 1 : shared / room + (shared % room != 0);
    f->count_note = NEVER_PERFECT;
}
