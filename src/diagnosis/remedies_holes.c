/* SPDX-License-Identifier: MIT
 *
 * Commands of levers with the figures of the message in them: "--max-model-len {length_that_fits}".
 */
#include "diagnosis/levers.h"

#define TOKENS_OF_A_BLOCK 16 /* of the KV cache, in vLLM and most others */
#define LEAST_LENGTH 256     /* below, the run would be of no use */
#define MILLION 1000000

static bool figure(const vr_case *c, vr_fact_id id, uint64_t *out)
{
    const vr_fact *fact = vr_finding_fact(c->d, c->f, id);

    if (fact == NULL || fact->negative)
        return false;
    *out = fact->value;
    return true;
}

/* ---- tokens ---- */

static bool in_blocks(uint64_t tokens, uint64_t *out)
{
    *out = tokens / TOKENS_OF_A_BLOCK * TOKENS_OF_A_BLOCK;
    return *out >= LEAST_LENGTH;
}

/* By the engine's own word, else by its bytes for a request of full length, else by the tokens that it holds.
 */
static bool length_that_fits(const vr_case *c, uint64_t *out)
{
    uint64_t length, needed, available, full;

    if (figure(c, VR_FACT_LENGTH_THAT_FITS, &length))
        return in_blocks(length, out);
    if (!figure(c, VR_FACT_MODEL_LENGTH, &full))
        return false;
    if (figure(c, VR_FACT_KV_NEEDED, &needed) && figure(c, VR_FACT_KV_AVAILABLE, &available))
        return available < needed && in_blocks(vr_sub_floor(vr_mul_div(full, available, needed), 1), out);
    if (figure(c, VR_FACT_KV_TOKENS, &length))
        return length < full && in_blocks(length, out);
    return false;
}

static bool put_length(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!length_that_fits(c, &n))
        return false;
    vr_put(b, U(n));
    return true;
}

/* With keys and values in half the bytes; the whole length when that is enough. */
static bool put_length_in_8_bits(const vr_case *c, vr_buf *b)
{
    uint64_t n, full;

    if (!length_that_fits(c, &n))
        return false;
    n = vr_mul_sat(n, 2);
    if (figure(c, VR_FACT_MODEL_LENGTH, &full) && n > full)
        n = full;
    vr_put(b, U(n));
    return true;
}

static bool put_half_length(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!figure(c, VR_FACT_MODEL_LENGTH, &n) || !in_blocks(n / 2, &n) || n > UINT32_MAX)
        return false;
    vr_put(b, U(n));
    return true;
}

#define MODERATE_LENGTH 8192 /* tokens; enough for most work */

/* A moderate length, where the one in force is not known to be as short already. */
static bool put_moderate(const vr_case *c, vr_buf *b, vr_fact_id in_force)
{
    uint64_t n;

    if (figure(c, in_force, &n) && n <= MODERATE_LENGTH)
        return false;
    vr_put(b, U(MODERATE_LENGTH));
    return true;
}

static bool put_some_context(const vr_case *c, vr_buf *b)
{
    return put_moderate(c, b, VR_FACT_CONTEXT);
}

static bool put_some_length(const vr_case *c, vr_buf *b)
{
    return put_moderate(c, b, VR_FACT_MODEL_LENGTH);
}

static bool put_half_ubatch(const vr_case *c, vr_buf *b)
{
    uint64_t n = 512; /* llama.cpp's own */

    (void)figure(c, VR_FACT_UBATCH, &n);
    if (n < 128 || n > UINT32_MAX)
        return false;
    vr_put(b, U(n / 2));
    return true;
}

static bool put_half_tried(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!figure(c, VR_FACT_TOKENS_TRIED, &n) || !in_blocks(n / 2, &n) || n > UINT32_MAX)
        return false;
    vr_put(b, U(n));
    return true;
}

static bool put_pool_tokens(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!figure(c, VR_FACT_KV_TOKENS, &n) || n < LEAST_LENGTH)
        return false;
    vr_put(b, U(n));
    return true;
}

/* ---- shares of a card, printed with two decimals ---- */

static void put_share(vr_buf *b, uint64_t hundredths)
{
    vr_put(b, FIXED(hundredths, 100, 2));
}

#define LARGEST_SHARE 95 /* above, the passes themselves run out */

/* The share with which a request of full length would fit, rounded up; false: not even with the largest. */
static bool put_share_for_all(const vr_case *c, vr_buf *b)
{
    uint64_t total, share, needed, available, more;

    if (!figure(c, VR_FACT_TOTAL, &total) || !figure(c, VR_FACT_UTILIZATION, &share) ||
        !figure(c, VR_FACT_KV_NEEDED, &needed) || !figure(c, VR_FACT_KV_AVAILABLE, &available) || total == 0)
        return false;
    more = vr_mul_div(vr_sub_floor(needed, available), MILLION, total);
    share = vr_add_sat(vr_add_sat(share, more), MILLION / 100 - 1) / (MILLION / 100);
    if (share > LARGEST_SHARE)
        return false;
    put_share(b, share);
    return true;
}

#define LARGEST_CARD (288 * VR_GIB) /* of those that vLLM runs on in data/gpus.tsv */

/* The card at most: by what the engine said of weights and cache, with half as much for what else it claims;
 * where it said nothing, the largest there is. */
static uint64_t card_at_most(const vr_case *c, uint64_t share)
{
    uint64_t weights, available;

    if (!figure(c, VR_FACT_WEIGHTS, &weights) || !figure(c, VR_FACT_KV_AVAILABLE, &available) || share == 0)
        return LARGEST_CARD;
    weights = vr_add_sat(weights, available);
    return vr_mul_div(vr_add_sat(weights, weights / 2), MILLION, share);
}

/* A share above the one in force; false where it is known not to do. */
static bool put_larger_share(const vr_case *c, vr_buf *b)
{
    uint64_t share = 90 * (MILLION / 100), needed, available, n;
    bool lacks = figure(c, VR_FACT_KV_NEEDED, &needed) && figure(c, VR_FACT_KV_AVAILABLE, &available);

    if (lacks && figure(c, VR_FACT_TOTAL, &n) && figure(c, VR_FACT_UTILIZATION, &n))
        return false; /* what put_share_for_all refused */
    (void)figure(c, VR_FACT_UTILIZATION, &share);
    if (share / (MILLION / 100) >= LARGEST_SHARE)
        return false;
    n = LARGEST_SHARE * (MILLION / 100) - share;
    if (lacks && vr_mul_div(card_at_most(c, share), n, MILLION) < vr_sub_floor(needed, available))
        return false;
    put_share(b, LARGEST_SHARE);
    return true;
}

#define LARGEST_CLAIM 98 /* of what is free at start: the engine asks for no more */

/* Of the card what is free now, rounded down; less than half of what was claimed is room for another model.
 */
static bool put_free_share(const vr_case *c, vr_buf *b)
{
    uint64_t total, left, share, claimed = 90 * (MILLION / 100);

    if (!figure(c, VR_FACT_TOTAL, &total) || !figure(c, VR_FACT_FREE, &left) || total == 0 || left > total)
        return false;
    share = vr_mul_div(left, 100, total);
    share = vr_mul_sat(share, total) > vr_mul_sat(left, 100) ? share - 1 : share; /* it is rounded half up */
    (void)figure(c, VR_FACT_UTILIZATION, &claimed);
    if (share * 2 < claimed / (MILLION / 100) || share > LARGEST_CLAIM)
        return false;
    put_share(b, share);
    return true;
}

/* Hundredths of the card that lack, rounded up; five where less lack, or it is not known. */
static uint64_t hundredths_short(const vr_case *c)
{
    uint64_t total, lack = 0;

    if (c->f->missing_known && figure(c, VR_FACT_TOTAL, &total) && total != 0)
        lack = vr_add_sat(vr_mul_div(c->f->missing_at_least, 100, total), 1);
    return lack < 5 ? 5 : lack;
}

/* Less than was claimed, by what lacks. */
static bool put_smaller_share(const vr_case *c, vr_buf *b)
{
    uint64_t share = 90 * (MILLION / 100), less = hundredths_short(c);

    (void)figure(c, VR_FACT_UTILIZATION, &share);
    share /= MILLION / 100;
    if (share > 100 || less > share || share - less < 25)
        return false;
    put_share(b, share - less);
    return true;
}

/* SGLang's share for weights and cache: just above the least that could work, else a tenth more than now. */
static bool put_larger_static(const vr_case *c, vr_buf *b)
{
    uint64_t share;

    if (figure(c, VR_FACT_SHARE_NEEDED, &share))
        share = vr_add_sat(share, 3 * (uint64_t)(MILLION / 100)) / (MILLION / 100);
    else if (figure(c, VR_FACT_STATIC_SHARE, &share))
        share = share / (MILLION / 100) < 85 ? vr_add_sat(share / (MILLION / 100), 8) : 93;
    else
        share = 93;
    if (share > LARGEST_SHARE || share < 10)
        return false;
    put_share(b, share);
    return true;
}

#define SMALLER_STATIC 8 /* hundredths: what a long prompt takes more than a short one */

static bool put_smaller_static(const vr_case *c, vr_buf *b)
{
    uint64_t share = 88 * (MILLION / 100), less = hundredths_short(c);

    (void)figure(c, VR_FACT_STATIC_SHARE, &share);
    share /= MILLION / 100;
    less = less < SMALLER_STATIC ? SMALLER_STATIC : less;
    if (share > 100 || less > share || share - less < 22)
        return false;
    put_share(b, share - less);
    return true;
}

/* ---- bytes ---- */

static void put_gib_up(vr_buf *b, uint64_t bytes)
{
    vr_put(b, U(vr_round_up(bytes, VR_GIB) / VR_GIB));
}

/* What the process had when it was killed was not enough, and how much would be is not known: half as much
 * again. */
static bool put_host_limit(const vr_case *c, vr_buf *b)
{
    uint64_t had = 0, limit = 0, shm = 0;
    bool known = figure(c, VR_FACT_RSS, &had);

    if (figure(c, VR_FACT_RSS_SHM, &shm))
        had = vr_add_sat(had, shm);
    known = figure(c, VR_FACT_HOST_LIMIT, &limit) || known;
    had = had > limit ? had : limit;
    if (!known || had < VR_MIB || had > UINT64_MAX / 4)
        return false;
    put_gib_up(b, had + had / 2);
    return true;
}

static bool put_host_needed(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!figure(c, VR_FACT_HOST_NEEDED, &n) || n < VR_MIB || n > UINT64_MAX / 4)
        return false;
    put_gib_up(b, n + n / 10);
    return true;
}

/* Nine tenths of the card, in whole GiB. */
static bool put_card_share(const vr_case *c, vr_buf *b)
{
    if (!c->n.has_total || c->n.total < 2 * VR_GIB)
        return false;
    vr_put(b, U(c->n.total / 10 * 9 / VR_GIB));
    return true;
}

/* Three quarters: a layer and its pass need the rest. */
static bool put_card_part(const vr_case *c, vr_buf *b)
{
    if (!c->n.has_total || c->n.total < 2 * VR_GIB)
        return false;
    vr_put(b, U(c->n.total / 4 * 3 / VR_GIB));
    return true;
}

#define SOME_OFFLOAD (8 * VR_GIB)   /* where it is not known how much lacks */
#define MOST_OFFLOAD (256 * VR_GIB) /* more is no plan */

/* Of the weights what lacks, and room for a pass; in whole GiB. */
static bool put_offload(const vr_case *c, vr_buf *b)
{
    uint64_t n = c->f->missing_known ? vr_add_sat(c->f->missing_at_least, VR_GIB) : 0;

    if (n > MOST_OFFLOAD)
        return false;
    put_gib_up(b, n > SOME_OFFLOAD ? n : SOME_OFFLOAD);
    return true;
}

#define GIB_OF_A_JOB 4 /* a file of a large template takes two to four */

static bool put_compile_jobs(const vr_case *c, vr_buf *b)
{
    uint64_t total, jobs = 2;

    if (figure(c, VR_FACT_HOST_TOTAL, &total))
        jobs = total / (GIB_OF_A_JOB * VR_GIB);
    vr_put(b, U(jobs < 1 ? 1 : jobs > 16 ? 16 : jobs));
    return true;
}

/* The stage of ZeRO in force stays where it is the third. */
static bool put_zero_stage(const vr_case *c, vr_buf *b)
{
    vr_put(b, U(vr_seen(&c->d->found, c->f->event, "opt-zero3") ? 3 : 2));
    return true;
}

static bool put_card_mib(const vr_case *c, vr_buf *b)
{
    uint64_t total;

    if (!figure(c, VR_FACT_TOTAL, &total) || total < VR_GIB)
        return false;
    vr_put(b, U(total / 10 * 9 / VR_MIB));
    return true;
}

static bool put_card_bytes(const vr_case *c, vr_buf *b)
{
    uint64_t total;

    if (!figure(c, VR_FACT_TOTAL, &total) || total < VR_GIB)
        return false;
    vr_put(b, U(total / 10 * 9));
    return true;
}

/* Metal recommends two thirds to three quarters of the memory; an eighth more leaves enough to the system. */
static bool put_metal_limit(const vr_case *c, vr_buf *b)
{
    uint64_t set;

    if (!figure(c, VR_FACT_WORKING_SET, &set) || set < 8 * VR_GIB || set > UINT64_MAX / 2)
        return false;
    vr_put(b, U((set + set / 8) / VR_MIB));
    return true;
}

/* ---- others ---- */

/* Of listed processes the one that holds most; ids stand before their shares. */
static bool put_process(const vr_case *c, vr_buf *b)
{
    const vr_fact_list *facts = &c->f->event->sign.facts;
    uint64_t most = 0, id = 0;

    for (size_t i = 0; i + 1 < facts->n; i++)
        if (facts->f[i].id == VR_FACT_PROCESS_ID && facts->f[i + 1].id == VR_FACT_PROCESS &&
            facts->f[i + 1].value > most) {
            id = facts->f[i].value;
            most = facts->f[i + 1].value;
        }
    if (id <= 1 || id > UINT32_MAX)
        return false;
    vr_put(b, U(id));
    return true;
}

static bool put_model(const vr_case *c, vr_buf *b)
{
    vr_str name;

    if (!vr_case_model(c, &name))
        return false;
    vr_put(b, S(name));
    return true;
}

static bool put_alloc_variable(const vr_case *c, vr_buf *b)
{
    const char *name = "PYTORCH_CUDA_ALLOC_CONF";

    if (vr_case_says(c, "npu out of memory"))
        name = "PYTORCH_NPU_ALLOC_CONF";
    else if (vr_holds(c, VR_IF_TORCH_NEW))
        name = "PYTORCH_ALLOC_CONF";
    else if (vr_holds(c, VR_IF_AMD))
        name = "PYTORCH_HIP_ALLOC_CONF";
    vr_put(b, T(name));
    return true;
}

/* transformers and its kin renamed the argument in 4.56. */
static bool put_dtype_argument(const vr_case *c, vr_buf *b)
{
    vr_put(b, T(vr_holds(c, VR_IF_TRANSFORMERS_OLD) ? "torch_dtype" : "dtype"));
    return true;
}

static bool put_half_sequences(const vr_case *c, vr_buf *b)
{
    uint64_t n;

    if (!figure(c, VR_FACT_SEQUENCES, &n) || n < 2 || n > UINT32_MAX)
        return false;
    vr_put(b, U(n / 2));
    return true;
}

static const struct hole {
    const char *name;
    bool (*put)(const vr_case *c, vr_buf *b); /* false: the figure is not there */
} holes[] = {
    { "length_that_fits", put_length },
    { "length_in_8_bits", put_length_in_8_bits },
    { "smaller_context", vr_put_smaller_context },
    { "context_in_8_bits", vr_put_context_in_8_bits },
    { "offload_gib", put_offload },
    { "compile_jobs", put_compile_jobs },
    { "share_of_layers", vr_put_share_of_layers },
    { "zero_stage", put_zero_stage },
    { "some_context", put_some_context },
    { "some_length", put_some_length },
    { "half_length", put_half_length },
    { "card_share", put_card_share },
    { "card_part", put_card_part },
    { "card_mib", put_card_mib },
    { "card_bytes", put_card_bytes },
    { "metal_limit", put_metal_limit },
    { "half_ubatch", put_half_ubatch },
    { "half_sequences", put_half_sequences },
    { "half_tried", put_half_tried },
    { "pool_tokens", put_pool_tokens },
    { "share_for_all", put_share_for_all },
    { "larger_share", put_larger_share },
    { "smaller_share", put_smaller_share },
    { "free_share", put_free_share },
    { "larger_static", put_larger_static },
    { "smaller_static", put_smaller_static },
    { "host_limit", put_host_limit },
    { "host_needed", put_host_needed },
    { "process", put_process },
    { "model", put_model },
    { "alloc_variable", put_alloc_variable },
    { "dtype", put_dtype_argument },
    { "fewer_layers", vr_put_fewer_layers },
};

/* "{name}" at the start of text; other braces are of the command's own language. */
static bool hole_at(vr_str text, size_t *length)
{
    size_t n = 1;

    if (text.n == 0 || text.s[0] != '{')
        return false;
    while (n < text.n && ((text.s[n] >= 'a' && text.s[n] <= 'z') || text.s[n] == '_' || text.s[n] == '8'))
        n++;
    *length = n + 1;
    return n > 1 && n < text.n && text.s[n] == '}';
}

static bool fill(const vr_case *c, vr_buf *b, vr_str name)
{
    for (size_t i = 0; i < sizeof holes / sizeof holes[0]; i++)
        if (vr_str_is(name, holes[i].name))
            return holes[i].put(c, b);
    return false;
}

static bool fill_all(const vr_case *c, vr_buf *b, vr_str text)
{
    while (text.n != 0) {
        size_t n = 1;
        if (!hole_at(text, &n)) {
            n = 1;
            while (n < text.n && text.s[n] != '{')
                n++;
            vr_put_bytes(b, text.s, n);
        } else if (!fill(c, b, (vr_str){ text.s + 1, n - 2 })) {
            return false;
        }
        text = (vr_str){ text.s + n, text.n - n };
    }
    return !b->failed;
}

const char *vr_filled(const vr_case *c, const char *command)
{
    vr_buf b;
    const char *out = NULL;

    vr_buf_init(&b, c->d->ctx, 2048);
    if (fill_all(c, &b, vr_str_of(command)))
        out = vr_arena_copy(&c->d->arena, (vr_str){ b.p, b.n });
    if (b.failed && c->d->ctx->error.code == VRAM_ENOMEM) /* not: longer than a command should be */
        c->d->arena.starved = true;
    vr_buf_free(&b);
    return out;
}
