/* SPDX-License-Identifier: MIT
 *
 * Engines that size their KV cache at start refuse in tokens: so many need so many bytes. The model's own
 * bytes of as many tokens confirm model, type and share of a card, and say which settings fit the pool.
 */
#include "diagnosis/place.h"

#define BLOCK 16 /* tokens, in which vLLM counts */
#define MOST_SPLITS 16
#define LEAST_TOKENS 256

typedef struct pool {
    vr_seeker *s;
    const vram_workload *w; /* one request, of the engine of the message */
    const char *engine;
    uint64_t length, splits;
    vr_bounds needed, has;
    bool fp8;
} pool;

/* What is kept of so many tokens and what the weights are, on all cards together. */
static vram_status sums(uint64_t *kept, uint64_t *weights, const pool *p, uint64_t tokens, bool fp8)
{
    vr_seeker *s = p->s;
    vr_plan plan = { .stops = NULL };
    vr_device_facts facts = { .usable = UINT64_MAX };
    vram_workload *one = vr_workload_copy(p->w, &s->d->arena), *w;
    *kept = *weights = 0;
    if (one == NULL)
        return VRAM_ENOMEM;
    vr_arena_reset(&s->plans);
    one->context = tokens;
    one->set_by[VR_SET_CONTEXT] = VR_BY_USER;
    if (fp8) {
        one->kv_dtype = VR_KV_FP8;
        one->set_by[VR_SET_KV_DTYPE] = VR_BY_USER;
    }
    VR_TRY(vr_workload_resolve(&w, one, s->model, &s->plans));
    VR_TRY(w->engine->plan(&plan, s->model, w, &facts, &s->plans));
    *weights = plan.weight_bytes;
    for (size_t i = 0; i < plan.tape.n && plan.counted[VR_KV_CACHE]; i++) {
        const vr_event *e = &plan.tape.events[i];
        if (vr_item_category((vr_item)e->item) == VR_KV_CACHE)
            *kept = vr_add_sat(*kept, e->bytes);
    }
    return plan.tape.status;
}

static vram_status kept(uint64_t *bytes, const pool *p, uint64_t tokens, bool fp8)
{
    uint64_t weights;
    return sums(bytes, &weights, p, tokens, fp8);
}

/* The first of these that the message agrees with. */
static vram_status confirm(bool *found, pool *p)
{
    static const bool types[] = { false, true };
    for (size_t t = 0; t < 2; t++) {
        uint64_t bytes;
        VR_TRY(kept(&bytes, p, p->length, types[t]));
        for (uint64_t n = 1; n <= MOST_SPLITS && bytes != 0; n *= 2) {
            if (!vr_bounds_have(p->needed, bytes / n))
                continue;
            p->splits = n;
            p->fp8 = types[t];
            *found = true;
            return VRAM_OK;
        }
    }
    *found = false;
    return VRAM_OK;
}

/* ---- what fits ---- */

/* The longest request that the pool holds, in whole blocks; 0: none. */
static vram_status longest(uint64_t *tokens, const pool *p, bool fp8)
{
    uint64_t low = 0, high = p->length / BLOCK, bytes, room = 0;
    vr_bounds told = vr_bounds_of(p->s->f, VR_FACT_LENGTH_THAT_FITS);
    if (told.known && fp8 == p->fp8 && told.low < p->length) { /* the engine knows its pool to the byte */
        *tokens = told.low;
        return VRAM_OK;
    }
    if (told.known)
        VR_TRY(kept(&room, p, told.low, p->fp8));
    room = told.known ? room / p->splits : p->has.low;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        VR_TRY(kept(&bytes, p, middle * BLOCK, fp8));
        if (bytes / p->splits <= room)
            low = middle;
        else
            high = middle - 1;
    }
    *tokens = low * BLOCK;
    return VRAM_OK;
}

static bool is_sglang(const pool *p)
{
    return vr_str_is(vr_str_of(p->engine), "sglang");
}

static const char *length_flag(const pool *p)
{
    return is_sglang(p) ? "--context-length " : "--max-model-len ";
}

static vram_status offer(const pool *p, const char *id, bool fp8)
{
    vr_arena *a = &p->s->d->arena;
    uint64_t tokens, bytes;
    const char *cache =
        fp8 && !p->fp8 ? is_sglang(p) ? "--kv-cache-dtype fp8_e5m2" : "--kv-cache-dtype fp8" : "";
    VR_TRY(longest(&tokens, p, fp8));
    if (tokens < LEAST_TOKENS)
        return VRAM_OK;
    VR_TRY(kept(&bytes, p, tokens, fp8));
    bool whole = tokens >= p->length / BLOCK * BLOCK;
    const char *between = *cache != '\0' && !whole ? " " : "";
    vr_remedy r = { .id = id, .sized = true, .fits = true, .needs = bytes / p->splits };
    r.change = vr_text(a, T("requests of up to "), GROUPED(whole ? p->length : tokens), T(" tokens"),
                       T(fp8 && !p->fp8 ? ", with keys and values in 8 bits" : ""));
    r.command = whole ? vr_text(a, T(cache)) : vr_text(a, T(cache), T(between), T(length_flag(p)), U(tokens));
    r.cost = fp8 && !p->fp8 ? "a small loss of quality" : "shorter requests";
    return vr_add_sized(p->s, &r);
}

/* Twice the cards hold half of the cache each, and half of the weights, whose room the cache gets. */
static vram_status offer_cards(const pool *p)
{
    vr_arena *a = &p->s->d->arena;
    uint64_t bytes, weights, cards = p->splits * 2;
    VR_TRY(sums(&bytes, &weights, p, p->length, p->fp8));
    vr_remedy r = { .id = "tensor_parallel", .sized = true, .needs = bytes / cards };
    r.fits = r.needs <= vr_add_sat(p->has.low, weights / cards);
    if (!r.fits || cards > MOST_SPLITS)
        return VRAM_OK;
    r.change = vr_text(a, T("the model over "), U(cards), T(" cards"));
    r.command = vr_text(a, T(is_sglang(p) ? "--tp " : "--tensor-parallel-size "), U(cards));
    r.cost = "other hardware";
    return vr_add_sized(p->s, &r);
}

static vram_status offer_all(const pool *p)
{
    if (!p->has.known)
        return VRAM_OK;
    VR_TRY(offer(p, "context_length", p->fp8));
    if (!p->fp8)
        VR_TRY(offer(p, "cache_fp8", true));
    return offer_cards(p);
}

/* ---- the answer ---- */

static const char *splits_words(const pool *p, vr_arena *a)
{
    if (p->splits == 1)
        return NULL;
    return vr_text(a, T("split over "), U(p->splits), T(" cards"));
}

static vram_status tell(const pool *p, uint64_t bytes)
{
    vr_finding *f = p->s->f;
    vr_spot *spot = &f->spot;
    vr_arena *a = &p->s->d->arena;
    uint64_t own = bytes / p->splits;
    spot->found = true;
    spot->places = 1;
    spot->label = vr_text(a, T("KV cache of one request of "), GROUPED(p->length), T(" tokens"));
    spot->matched =
        vr_text(a, GROUPED(p->length), T(" tokens of this model take "), BYTES(own),
                T(p->fp8 ? " in 8 bits" : " in 16 bits"), T(p->needed.known ? ", as the message says" : ""));
    spot->assumed = splits_words(p, a);
    if (spot->label == NULL || spot->matched == NULL)
        return VRAM_ENOMEM;
    vr_lead_with(p->s->d, f, vr_text(&p->s->d->arena, T(spot->matched)));
    if (p->has.known && own > p->has.high) {
        spot->short_bytes = own - vr_bounds_middle(p->has);
        f->missing_known = true;
        f->missing_at_least = spot->short_bytes;
        f->missing_note = "of the pool, for one request of full length";
    }
    return offer_all(p);
}

static vram_status tell_other(const pool *p)
{
    uint64_t bytes;
    vr_arena *a = &p->s->d->arena;
    VR_TRY(kept(&bytes, p, p->length, false));
    if (bytes == 0)
        p->s->f->spot.not_found = "what this model keeps of a token is not known";
    else
        p->s->f->spot.not_found =
            vr_text(a, GROUPED(p->length), T(" tokens of this model take "), BYTES(bytes),
                    T(" in 16 bits, and the message says "), BYTES(vr_bounds_middle(p->needed)),
                    T(": another model or another type of cache"));
    return p->s->f->spot.not_found != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* What the pool has in bytes: as printed, or by its tokens. */
static vram_status room_of(pool *p)
{
    vr_bounds tokens = vr_bounds_of(p->s->f, VR_FACT_KV_TOKENS);
    uint64_t bytes;
    p->has = vr_bounds_of(p->s->f, VR_FACT_KV_AVAILABLE);
    if (p->has.known || !tokens.known)
        return VRAM_OK;
    VR_TRY(kept(&bytes, p, tokens.low, false));
    p->has = (vr_bounds){ bytes != 0, bytes, bytes };
    return VRAM_OK;
}

vram_status vr_seek_pool(bool *is_one, vr_seeker *s)
{
    pool p = { .s = s, .splits = 1 };
    vr_bounds length = vr_bounds_of(s->f, VR_FACT_MODEL_LENGTH);
    uint64_t bytes;
    bool found = true;
    p.needed = vr_bounds_of(s->f, VR_FACT_KV_NEEDED);
    *is_one = length.known && length.low >= BLOCK && length.low <= UINT32_MAX &&
              (p.needed.known || vr_bounds_of(s->f, VR_FACT_KV_TOKENS).known);
    if (!*is_one)
        return VRAM_OK;
    p.length = length.low;
    s->f->spot.tried = true;
    p.engine = s->f->program == VR_PROGRAM_SGLANG ? "sglang" : "vllm";
    VR_TRY(vr_workload_of_engine(&p.w, s, p.engine));
    if (p.needed.known)
        VR_TRY(confirm(&found, &p));
    if (!found)
        return tell_other(&p);
    VR_TRY(room_of(&p));
    VR_TRY(kept(&bytes, &p, p.length, p.fp8));
    return bytes != 0 ? tell(&p, bytes) : tell_other(&p);
}
