/* SPDX-License-Identifier: MIT
 * Mamba-2 in plain PyTorch: mamba2_chunk_scan for a prompt, in chunks and in fp32, and
 * mamba2_selective_state_update for a single token (transformers 5,
 * models/nemotron_h/modeling_nemotron_h.py, models/granitemoehybrid). Up to some version the products of a
 * chunk are made element by element and then summed, which takes many times what the result does. */
#include "engine/recurrent.h"

#define F32 4

typedef struct sizes {
    uint64_t tokens, inner; /* there are; of them elements of x */
    uint64_t x, bc, row;    /* of whole chunks: elements of x, of B or C for each head, one a head */
    uint64_t square;        /* a row of scores within the chunk, for each head */
    uint64_t state, chunks; /* of one sequence after the other; of each */
} sizes;

static sizes sizes_of(const vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    sizes s = { .tokens = p->rows, .chunks = vr_round_up(p->q, l->chunk) / l->chunk };
    s.inner = p->rows * l->state_heads * l->state_rows;
    s.row = p->batch * s.chunks * l->chunk * l->state_heads;
    s.x = s.row * l->state_rows;
    s.bc = s.row * l->state_columns;
    s.square = s.row * l->chunk;
    s.state = p->batch * vr_layer_state_elements(l);
    return s;
}

static vr_block wide(vr_pass *p, uint64_t elements)
{
    return vr_mix(p, elements * F32, VR_STEP_SCAN);
}

static vr_block narrow(vr_pass *p, uint64_t elements)
{
    return vr_mix(p, elements * p->width, VR_STEP_SCAN);
}

/* ---- a prompt ---- */

/* What mamba2_chunk_scan holds until it returns. */
typedef struct scan {
    vr_block dt, x, a, b, c, residual, sums, causal, scores, masked, within, decay, b_decay, zeros;
    vr_block chunk_decay, out_decay, read, between, product;
} scan;

/* B or C in fp32, once for each head of its group */
static vr_block for_each_head(vr_pass *p, const sizes *s)
{
    const vr_layer *l = vr_layer_of(p);
    vr_block x = wide(p, s->tokens * l->state_groups * l->state_columns);
    vr_block all = wide(p, s->tokens * l->state_heads * l->state_columns);
    vr_drop(p, x);
    return all;
}

static void discretise(vr_pass *p, const sizes *s, scan *k)
{
    uint64_t heads = s->tokens * vr_layer_of(p)->state_heads;
    k->dt = narrow(p, heads);
    vr_replace(p, &k->dt, narrow(p, heads)); /* softplus */
    vr_replace(p, &k->dt, narrow(p, heads)); /* clamp */
    vr_block x = wide(p, s->inner), b = for_each_head(p, s), c = for_each_head(p, s);
    vr_block padded = wide(p, s->x);
    k->residual = wide(p, s->x);
    vr_drop(p, padded);
    vr_block dt = wide(p, heads);
    vr_replace(p, &x, wide(p, s->inner));
    vr_drop(p, dt);
    dt = wide(p, heads);
    vr_block a = wide(p, heads);
    vr_drop(p, dt);
    k->x = wide(p, s->x);
    k->a = wide(p, s->row);
    k->b = wide(p, s->bc);
    k->c = wide(p, s->bc);
    const vr_block held[] = { x, a, b, c };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
}

static vr_block lower(vr_pass *p, uint64_t n)
{
    vr_block ones = vr_mix(p, n * n, VR_STEP_SCAN), out = vr_mix(p, n * n, VR_STEP_SCAN);
    vr_drop(p, ones);
    return out;
}

/* masked_fill(~mask, ...) */
static vr_block filled(vr_pass *p, uint64_t n, uint64_t elements)
{
    vr_block not_mask = vr_mix(p, n * n, VR_STEP_SCAN), out = wide(p, elements);
    vr_drop(p, not_mask);
    return out;
}

/* exp(segment_sum(x)) over windows of n; `input` goes once it is spread. */
static vr_block segment_sums(vr_pass *p, uint64_t n, uint64_t elements, vr_block input)
{
    vr_block mask = lower(p, n), spread = filled(p, n, elements);
    vr_drop(p, input);
    vr_block sums = wide(p, elements);
    vr_replace(p, &mask, lower(p, n));
    vr_block out = filled(p, n, elements);
    vr_drop(p, sums);
    vr_drop(p, spread);
    vr_drop(p, mask);
    vr_replace(p, &out, wide(p, elements));
    return out;
}

/* torch.einsum: a matrix product. Operands of several chunks do not make one batch without a copy, B and C
 * not those of several sequences either; x lies head by head, as the convolution left it. */
static vr_block einsum(vr_pass *p, uint64_t a, uint64_t b, uint64_t out)
{
    vr_block left = a != 0 ? wide(p, a) : VR_NONE, right = b != 0 ? wide(p, b) : VR_NONE;
    vr_block result = wide(p, out);
    vr_gemm(p, false);
    vr_drop(p, left);
    vr_drop(p, right);
    return result;
}

/* (a * b).sum() */
static vr_block summed(vr_pass *p, uint64_t product, uint64_t out)
{
    vr_block each = wide(p, product), result = wide(p, out);
    vr_drop(p, each);
    return result;
}

static vr_block contracted(vr_pass *p, uint64_t product, uint64_t a, uint64_t b, uint64_t out)
{
    return p->rules->ssm_products ? einsum(p, a, b, out) : summed(p, product, out);
}

static void within_chunks(vr_pass *p, const sizes *s, scan *k)
{
    const vr_layer *l = vr_layer_of(p);
    bool copies = p->batch * s->chunks > 1;
    k->sums = wide(p, s->row);
    k->causal = segment_sums(p, l->chunk, s->square, VR_NONE);
    k->scores =
        contracted(p, s->square * l->state_columns, copies ? s->bc : 0, copies ? s->bc : 0, s->square);
    if (p->rules->ssm_products)
        k->masked = wide(p, s->square);
    else
        k->masked = summed(p, s->square, s->square);
    k->within = contracted(p, s->square * l->state_rows, s->chunks > 1 ? s->x : 0, 0, s->x);
    vr_block difference = wide(p, s->row);
    k->decay = wide(p, s->row);
    vr_drop(p, difference);
    k->b_decay = wide(p, s->bc);
}

/* The states between chunks; the last of them is the new one, a view of all. */
static vr_block between_chunks(vr_pass *p, const sizes *s, scan *k)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t n = s->chunks + 1, heads = p->batch * l->state_heads;
    bool copies = p->batch * s->chunks > 1;
    vr_block each = contracted(p, s->x * l->state_columns, s->chunks > 1 ? s->x : 0, copies ? s->bc : 0,
                               s->state * s->chunks);
    k->zeros = wide(p, s->state);
    vr_block all = wide(p, s->state * n);
    vr_drop(p, each);
    k->chunk_decay = segment_sums(p, n, heads * n * n, wide(p, heads * n));
    vr_block next = contracted(p, s->state * n * n, 0, p->batch > 1 ? s->state * n : 0, s->state * n);
    vr_drop(p, all);
    return next;
}

static vr_block read_states(vr_pass *p, const sizes *s, scan *k)
{
    bool copies = p->batch * s->chunks > 1;
    k->out_decay = wide(p, s->row);
    if (p->rules->ssm_products) {
        k->read = einsum(p, copies ? s->bc : 0, s->chunks > 1 ? s->state * s->chunks : 0, s->x);
        k->between = wide(p, s->x);
    } else {
        k->product = wide(p, s->x * vr_layer_of(p)->state_columns);
        vr_block sum = wide(p, s->x);
        k->between = wide(p, s->x);
        vr_drop(p, sum);
    }
    vr_block out = wide(p, s->x);
    if (p->rules->ssm_products)
        vr_replace(p, &out, wide(p, s->x)); /* contiguous() */
    vr_replace(p, &out, wide(p, s->x));     /* and what D takes of the input */
    return out;
}

vr_block vr_ssm_chunks(vr_pass *p, vr_block *state)
{
    sizes s = sizes_of(p);
    scan k = { .read = VR_NONE, .product = VR_NONE };
    discretise(p, &s, &k);
    within_chunks(p, &s, &k);
    *state = between_chunks(p, &s, &k);
    vr_block out = read_states(p, &s, &k);
    const vr_block held[] = { k.dt,     k.x,       k.a,       k.b,           k.c,        k.residual, k.sums,
                              k.causal, k.scores,  k.masked,  k.within,      k.decay,    k.b_decay,  k.zeros,
                              k.read,   k.between, k.product, k.chunk_decay, k.out_decay };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return out;
}

/* ---- a single token ---- */

vr_block vr_ssm_step(vr_pass *p)
{
    const vr_layer *l = vr_layer_of(p);
    uint64_t x = p->rows * l->state_heads * l->state_rows, bc = p->rows * l->state_heads * l->state_columns;
    uint64_t state = p->batch * vr_layer_state_elements(l);
    vr_block dt = narrow(p, x);
    vr_replace(p, &dt, narrow(p, x)); /* softplus */
    vr_block wider = wide(p, x), decay = wide(p, state);
    vr_drop(p, wider);
    vr_replace(p, &decay, wide(p, state)); /* exp */
    vr_block b = narrow(p, bc), db = narrow(p, state), dbx = narrow(p, state);
    vr_block kept = wide(p, state), next = wide(p, state);
    vr_drop(p, kept);
    vr_block c = narrow(p, bc);
    vr_replace(p, &next, narrow(p, state)); /* in C's dtype */
    vr_block read = narrow(p, x);
    vr_gemm(p, false);
    vr_block skip = narrow(p, x), out = narrow(p, x);
    const vr_block held[] = { skip, read, dt, b, decay, db, dbx, next, c };
    vr_drop_all(p, held, sizeof(held) / sizeof(held[0]));
    return out;
}
