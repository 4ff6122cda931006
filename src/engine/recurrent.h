/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: what recurrent mixers share. The kernels that a card could have
 * (flash-linear-attention, mamba-ssm, causal-conv1d) are taken for not installed, as pip leaves them: then
 * the classes compute in plain PyTorch, on the CPU and on the card alike. */
#ifndef VR_ENGINE_RECURRENT_H
#define VR_ENGINE_RECURRENT_H

#include "engine/pass.h"

vr_block vr_mix(vr_pass *p, uint64_t bytes, vr_step step); /* one of its storages */

/* ---- recurrent_delta.c ---- */

/* The gated delta rule; the caller holds *state, the new one, and `groups` until it returns. */
vr_block vr_delta_chunks(vr_pass *p, vr_block *state, vr_block groups[2]);
vr_block vr_delta_step(vr_pass *p, vr_block *state, vr_block groups[2]);

/* ---- recurrent_ssm.c ---- */

/* Mamba-2's scan; the caller holds *state, all of the prompt's, until it returns. In fp32 for a prompt, in
 * the model's dtype for a single token. */
vr_block vr_ssm_chunks(vr_pass *p, vr_block *state);
vr_block vr_ssm_step(vr_pass *p);

#endif
