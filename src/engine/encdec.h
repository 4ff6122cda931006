/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: runs of an encoder and a decoder. The prompt goes to the encoder, and
 * the decoder starts with one token; where the encoder hears speech, the prompt is the decoder's. */
#ifndef VR_ENCDEC_H
#define VR_ENCDEC_H

#include "engine/pass.h"

typedef struct vr_encdec_group {
    uint64_t sequences;
    uint64_t source; /* tokens of the encoder */
    uint64_t past;   /* tokens that the decoder has seen */
    vr_kv *own, *cross;
    vr_block encoded, logits;
} vr_encdec_group;

/* One call of the encoder; its last hidden states are the caller's. */
vr_block vr_t5_encode(vr_pass *p, uint64_t sequences, uint64_t tokens);
vr_block vr_whisper_encode(vr_pass *p, uint64_t sequences);
/* One call of the decoder, of T5 with one token; its logits replace the group's. */
void vr_t5_decode(vr_pass *p, vr_encdec_group *g);
void vr_whisper_decode(vr_pass *p, vr_encdec_group *g, uint64_t tokens);

/* torch.cat of what is there and what is new, which goes; the first time of the new alone. tokens: in all. */
void vr_encdec_keep(vr_pass *p, vr_kv *kv, vr_block k, vr_block v, uint64_t tokens);

uint64_t vr_encoded_tokens(const vr_pass *p); /* of a sequence, that the encoder reads */
uint64_t vr_decoder_prompt(const vr_pass *p); /* tokens of the decoder's first call */

/* The whole run. *skipped: the caches grow by several tokens at a time. */
vram_status vr_encdec_run(vr_pass *p, bool *skipped);

#endif
