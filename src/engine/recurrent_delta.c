/* SPDX-License-Identifier: MIT
 * The gated delta rule in plain PyTorch: torch_chunk_gated_delta_rule for a prompt, in chunks of 64 tokens
 * and in fp32, torch_recurrent_gated_delta_rule for a single token (transformers 5,
 * models/qwen3_next/modeling_qwen3_next.py). A variable of theirs holds what it names until it is assigned
 * anew or the function returns. */
#include "engine/recurrent.h"

#define F32 4
/* Chunks take and give the same storages one after the other, so that the allocator soon does the same again
 * for each: of a long prompt so many are written, and one more when their number is odd. */
#define MOST_CHUNKS 32
#define BATCHED_FROM 9 /* matrices; fewer are solved one by one (aten BatchLinearAlgebra.cpp, CUDA) */

/* Elements of what the rule works on. */
typedef struct sizes {
    uint64_t keys, values, heads;                /* of the tokens there are: heads x dimension, heads alone */
    uint64_t padded_keys, padded_values, padded; /* of whole chunks */
    uint64_t square;                             /* a row of scores within the chunk for each token */
    uint64_t chunks, state;
} sizes;

static sizes sizes_of(const vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    sizes s = { .heads = p->rows * l->state_heads, .chunks = vr_round_up(p->q, l->chunk) / l->chunk };
    s.keys = s.heads * l->state_rows;
    s.values = s.heads * l->state_columns;
    s.padded = p->batch * l->state_heads * s.chunks * l->chunk;
    s.padded_keys = s.padded * l->state_rows;
    s.padded_values = s.padded * l->state_columns;
    s.square = s.padded * l->chunk;
    s.state = p->batch * vr_layer_state_elements(l);
    return s;
}

static vr_block wide(vr_pass *p, uint64_t elements)
{
    return vr_mix(p, elements * F32, VR_STEP_SCAN);
}

static vr_block product(vr_pass *p, uint64_t elements)
{
    vr_block out = wide(p, elements);
    vr_gemm(p, false);
    return out;
}

/* ---- before the rule ---- */

typedef struct inputs {
    vr_block q, k, v, beta; /* in fp32, head by head */
} inputs;

static vr_block repeated(vr_pass *p, uint64_t elements)
{
    const vr_layer *l = vr_layer_of(p);
    return l->state_heads != l->state_groups ? vr_mix(p, elements * p->width, VR_STEP_SCAN) : VR_NONE;
}

/* x * rsqrt((x * x).sum() + eps) */
static void l2norm(vr_pass *p, vr_block *x, uint64_t elements, uint64_t rows)
{
    vr_block square = wide(p, elements), root = wide(p, rows);
    vr_drop(p, square);
    vr_replace(p, &root, wide(p, rows));
    vr_replace(p, &root, wide(p, rows));
    vr_block out = wide(p, elements);
    vr_drop(p, root);
    vr_drop(p, *x);
    *x = out;
}

/* Queries and keys once for each value head: within the rule, or before it and held by its caller. */
static inputs widen(vr_pass *p, const sizes *s, vr_block groups[2])
{
    inputs in;
    groups[0] = repeated(p, s->keys);
    groups[1] = repeated(p, s->keys);
    in.q = wide(p, s->keys);
    in.k = wide(p, s->keys);
    in.v = wide(p, s->values);
    in.beta = wide(p, s->heads);
    for (int i = 0; i < 2 && p->rules->groups_inside; i++) {
        vr_drop(p, groups[i]);
        groups[i] = VR_NONE;
    }
    l2norm(p, &in.q, s->keys, s->heads);
    l2norm(p, &in.k, s->keys, s->heads);
    vr_replace(p, &in.q, wide(p, s->keys)); /* by the root of the key dimension */
    return in;
}

/* ---- chunks ---- */

/* What torch_chunk_gated_delta_rule holds until it returns. */
typedef struct chunked {
    vr_block q, k, v, beta, decay, v_beta, k_beta, mask, sums, pairs, system, scores, decayed, values, keys;
    vr_block chunk_decay, out, fresh, read;
} chunked;

static void pad(vr_pass *p, const sizes *s, inputs *in, chunked *c)
{
    c->q = wide(p, s->padded_keys);
    c->k = wide(p, s->padded_keys);
    c->v = wide(p, s->padded_values);
    vr_drop(p, in->q);
    vr_drop(p, in->k);
    vr_drop(p, in->v);
    c->beta = wide(p, s->padded);
    c->decay = wide(p, s->padded);
    vr_drop(p, in->beta);
}

static void mask_of_chunk(vr_pass *p, chunked *c)
{
    uint64_t n = (uint64_t)vr_layer_of(p)->chunk * vr_layer_of(p)->chunk;
    vr_block ones = vr_mix(p, n, VR_STEP_SCAN);
    c->mask = vr_mix(p, n, VR_STEP_SCAN);
    vr_drop(p, ones);
}

static vr_block decayed_scores(vr_pass *p, const sizes *s)
{
    vr_block plain = product(p, s->square), out = wide(p, s->square);
    vr_drop(p, plain);
    return out;
}

/* x * exp(...).unsqueeze(-1) */
static vr_block scaled_by_exp(vr_pass *p, uint64_t elements, uint64_t rows)
{
    vr_block e = wide(p, rows), out = wide(p, elements);
    vr_drop(p, e);
    return out;
}

/* torch.linalg.solve_triangular: cuBLAS is given a list of matrices, an arange of addresses for each side. */
static vr_block solved(vr_pass *p, const sizes *s, uint64_t elements)
{
    uint64_t matrices = p->batch * vr_layer_of(p)->state_heads * s->chunks;
    vr_block out = wide(p, elements);
    if (matrices < BATCHED_FROM)
        return out;
    vr_block a = vr_take_at(p, matrices * 8, VR_ITEM_HIDDEN, VR_PLACE_SOLVER);
    vr_block b = vr_take_at(p, matrices * 8, VR_ITEM_HIDDEN, VR_PLACE_SOLVER);
    vr_drop(p, b);
    vr_drop(p, a);
    return out;
}

static void within_chunks(vr_pass *p, const sizes *s, chunked *c)
{
    c->v_beta = wide(p, s->padded_values);
    c->k_beta = wide(p, s->padded_keys);
    mask_of_chunk(p, c);
    c->sums = wide(p, s->padded);
    c->pairs = wide(p, s->square);
    vr_replace(p, &c->pairs, wide(p, s->square)); /* masked */
    vr_replace(p, &c->pairs, wide(p, s->square)); /* exp */
    c->system = decayed_scores(p, s);
    c->scores = decayed_scores(p, s);
    c->decayed = scaled_by_exp(p, s->padded_keys, s->padded);
    c->values = solved(p, s, s->padded_values);
    c->keys = solved(p, s, s->padded_keys);
}

static void between_chunks(vr_pass *p, const sizes *s, chunked *c, vr_block *state)
{
    vr_block q, k, rest;
    *state = wide(p, s->state);
    c->out = wide(p, s->padded_values);
    q = scaled_by_exp(p, s->padded_keys, s->padded);
    vr_drop(p, c->q);
    c->q = q;
    rest = wide(p, s->padded);
    vr_replace(p, &rest, wide(p, s->padded));
    k = wide(p, s->padded_keys);
    vr_drop(p, rest);
    vr_drop(p, c->k);
    c->k = k;
    c->chunk_decay = wide(p, s->padded / vr_layer_of(p)->chunk);
}

/* One chunk after the other. */
static void scan_chunk(vr_pass *p, const sizes *s, chunked *c, vr_block *state)
{
    uint64_t values = s->padded_values / s->chunks;
    vr_block known = product(p, values), fresh = wide(p, values);
    vr_drop(p, known);
    vr_drop(p, c->fresh);
    c->fresh = fresh;
    vr_replace(p, &c->read, product(p, values));
    vr_block within = product(p, values), sum = wide(p, values);
    vr_drop(p, within);
    vr_drop(p, sum);
    vr_block kept = wide(p, s->state), update = product(p, s->state), next = wide(p, s->state);
    vr_drop(p, kept);
    vr_drop(p, update);
    vr_drop(p, *state);
    *state = next;
}

static void drop_chunked(vr_pass *p, const chunked *c)
{
    const vr_block held[] = { c->q,       c->k,      c->v,    c->beta,        c->decay,  c->v_beta,
                              c->k_beta,  c->mask,   c->sums, c->pairs,       c->system, c->scores,
                              c->decayed, c->values, c->keys, c->chunk_decay, c->fresh,  c->read };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
}

vr_block vr_delta_chunks(vr_pass *p, vr_block *state, vr_block groups[2])
{
    sizes s = sizes_of(p);
    inputs in = widen(p, &s, groups);
    chunked c = { .fresh = VR_NONE, .read = VR_NONE };
    pad(p, &s, &in, &c);
    within_chunks(p, &s, &c);
    between_chunks(p, &s, &c, state);
    uint64_t written = s.chunks <= MOST_CHUNKS ? s.chunks : MOST_CHUNKS + s.chunks % 2;
    for (uint64_t i = 0; i < written; i++)
        scan_chunk(p, &s, &c, state);
    if (s.chunks > 1) /* reshaped by a copy: the solver left columns */
        vr_replace(p, &c.out, wide(p, s.padded_values));
    vr_block out = vr_mix(p, s.values * p->width, VR_STEP_SCAN);
    vr_drop(p, c.out);
    drop_chunked(p, &c);
    return out;
}

/* ---- a single token ---- */

vr_block vr_delta_step(vr_pass *p, vr_block *state, vr_block groups[2])
{
    sizes s = sizes_of(p);
    inputs in = widen(p, &s, groups);
    vr_block out = wide(p, s.values), decay = wide(p, s.heads);
    vr_block kept = wide(p, s.state), by_key = wide(p, s.state), memory = wide(p, s.values);
    vr_drop(p, by_key);
    vr_block delta = wide(p, s.values);
    vr_replace(p, &delta, wide(p, s.values)); /* times beta */
    vr_block update = wide(p, s.state);
    *state = wide(p, s.state);
    vr_drop(p, update);
    vr_drop(p, kept);
    vr_block by_query = wide(p, s.state), read = wide(p, s.values);
    vr_drop(p, by_query);
    vr_drop(p, read);
    vr_block narrow = vr_mix(p, s.values * p->width, VR_STEP_SCAN);
    const vr_block held[] = { out, in.q, in.k, in.v, decay, in.beta, memory, delta };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return narrow;
}
