/* SPDX-License-Identifier: MIT
 * Private to the transformers engine: what a block of experts computes. */
#ifndef VR_ENGINE_EXPERTS_H
#define VR_ENGINE_EXPERTS_H

#include "engine/pass.h"

/* ---- experts.c: a block of experts, of any layer that has one ---- */

/* Over p->rows; what the block reads belongs to the caller. */
vr_block vr_experts(vr_pass *p);

/* What the router leaves: a token's weights and the numbers of its experts. */
typedef struct vr_routed {
    vr_block logits, weights, indices;
    uint64_t slots;        /* tokens x experts of each */
    unsigned weight_width; /* bytes of a weight */
    /* What a loop within the block itself still names when the block returns. */
    vr_block held[6];
    unsigned n_held;
} vr_routed;

/* As vr_experts runs them: its result. */
vr_block vr_experts_run(vr_pass *p, vr_routed *r);
uint64_t vr_expert_hidden(const vr_pass *p); /* width of what experts read and give */
bool vr_experts_fused(const vr_pass *p);     /* the class has all experts in one tensor */
uint64_t vr_expert_tokens(const vr_pass *p, uint64_t expert);
/* act_fn(gate) * up of `rows` rows; `both` holds them beside each other, and goes. */
vr_block vr_expert_gate(vr_pass *p, uint64_t rows, vr_block both);
/* GptOssExperts._apply_gate, clamped on both sides; `both` stays. */
vr_block vr_expert_gate_clamped(vr_pass *p, uint64_t rows);

/* Whether storages depend on which expert takes which token, and how much more there can be. */
bool vr_loops_over_experts(const vr_pass *p); /* of any layer */
uint64_t vr_experts_above_permille(const vr_pass *p);

/* ---- experts_route.c ---- */

void vr_route(vr_pass *p, vr_routed *r);
/* A router's weight is kept in 32 bits, and so are its inputs. */
bool vr_router_wide(const vr_rules *rules, const vr_layer *l);

/* ---- experts_loop.c, experts_grouped.c: the experts themselves; the result ---- */

vr_block vr_experts_loop(vr_pass *p, vr_routed *r);
vr_block vr_experts_loop_all(vr_pass *p, const vr_routed *r);
vr_block vr_experts_at_once(vr_pass *p, const vr_routed *r);
vr_block vr_experts_grouped(vr_pass *p, const vr_routed *r);
vr_block vr_experts_batched(vr_pass *p, const vr_routed *r);

#endif
