/* SPDX-License-Identifier: MIT
 * What of a zip file a checkpoint needs: its directory, and the bytes of one member. */
#ifndef VR_ZIP_H
#define VR_ZIP_H

#include "checkpoint/loading.h"

typedef struct vr_zip_member {
    vr_str name; /* in the directory's bytes */
    uint64_t size, packed;
    uint64_t at; /* of its local header */
    unsigned method;
    bool encrypted;
} vr_zip_member;

typedef struct vr_zip {
    uint64_t directory_at, directory_bytes, n_said;
    bool located, listed;
    vr_zip_member *members; /* as the directory has them */
    size_t n_members;
} vr_zip;

/* Reads the directory into the arena. VRAM_MORE: bytes are wanted. */
vram_status vr_zip_list(vr_zip *z, vram_checkpoint *ck, vr_input *in, vr_arena *a);
/* Unpacks a member of at most `most` bytes. *at is where its (packed) bytes begin in the file. */
vram_status vr_zip_read(vram_checkpoint *ck, vr_input *in, vr_arena *a, const vr_zip_member *m, uint64_t most,
                        const char **out, uint64_t *at);

#endif
