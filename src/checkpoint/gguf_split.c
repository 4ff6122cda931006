/* SPDX-License-Identifier: MIT
 * A GGUF model in several files: what each of them says of the set, held against the set.
 * Source: llama.cpp, tools/gguf-split/gguf-split.cpp (split.no counts from 0; each file has the count of all
 * tensors) and src/llama-model-loader.cpp (a file out of place, or tensors that lack, are refused). */
#include "checkpoint/gguf.h"

#define COUNT "split.count"

/* Files that say how many there are; the first of them. */
static const vr_file *first_of(const vram_checkpoint *ck, uint64_t *count)
{
    for (size_t i = 0; i < ck->n_files; i++) {
        if (vr_metadata_u64(ck->files[i].metadata, COUNT, count) && *count > 1)
            return &ck->files[i];
    }
    return NULL;
}

static uint64_t offset_of(const vr_file *f, const char *key)
{
    return vr_metadata_get(f->metadata, key)->offset;
}

static vram_status check_count(vram_checkpoint *ck, const vr_file *f, const vr_file *first, uint64_t count)
{
    uint64_t own = 0;
    if (f->missing || (vr_metadata_u64(f->metadata, COUNT, &own) && own == count))
        return VRAM_OK;
    if (vr_metadata_get(f->metadata, COUNT) == NULL)
        return vr_fail_file(ck->ctx, VRAM_EFORMAT, f->name, T("the file has no " COUNT ", but "),
                            T(first->name), T(" says that it is one of "), U(count));
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, f->name, offset_of(f, COUNT), T(COUNT " is "), U(own),
                      T(", but "), U(count), T(" in "), T(first->name));
}

static vram_status check_place(vram_checkpoint *ck, const vr_file *f, uint64_t place, uint64_t count)
{
    uint64_t no = 0;
    if (f->missing || !vr_metadata_u64(f->metadata, "split.no", &no) || no == place)
        return VRAM_OK;
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, f->name, offset_of(f, "split.no"), T("split.no is "), U(no),
                      T(", which counts from 0, but by its name this is file "), U(place + 1), T(" of "),
                      U(count));
}

static vram_status check_tensors(vram_checkpoint *ck, const vr_file *first)
{
    static const char key[] = "split.tensors.count";
    uint64_t said = 0;
    if (ck->incomplete || !vr_metadata_u64(first->metadata, key, &said) || said == ck->n_tensors)
        return VRAM_OK;
    return vr_fail_at(ck->ctx, VRAM_EFORMAT, first->name, offset_of(first, key), T(key), T(" is "), U(said),
                      T(", but the files have "), U(ck->n_tensors), T(" tensors"));
}

vram_status vr_gguf_check_split(vram_checkpoint *ck)
{
    uint64_t count = 0;
    const vr_file *first = first_of(ck, &count);
    if (first == NULL)
        return VRAM_OK;
    for (size_t i = 0; i < ck->n_files; i++)
        VR_TRY(check_count(ck, &ck->files[i], first, count));
    if (ck->n_files < count) {
        ck->incomplete = true;
        return vr_warn(ck->ctx, first->name, T("this is one of "), U(count), T(" files, of which "),
                       U(count - ck->n_files), T(count - ck->n_files == 1 ? " is" : " are"), T(" not here"));
    }
    for (size_t i = 0; i < ck->n_files && ck->n_files == count; i++)
        VR_TRY(check_place(ck, &ck->files[i], i, count));
    return check_tensors(ck, first);
}
