/* SPDX-License-Identifier: MIT
 *
 * `vram fit --json`: schema vram.fit/1 as DESIGN.md lays it down. Without a card `devices` is empty and
 * `cards` holds the cards of the table, each with its verdict.
 */
#include "report/fit_report.h"
#include "report/quantised_report.h"

/* On all GPUs and beside them. */
static void put_loaded(vr_json_out *o, const vram_fit *f)
{
    uint64_t n = f->plan.n_parameters, bytes = f->plan.weight_bytes,
             width = vr_dtype_bits(f->workload->dtype) / 8;
    bool spread = f->n_ranks != 0 || (f->placement != NULL && f->placement->host_bytes != 0);

    for (size_t i = 0; i < f->n_ranks; i++) {
        n = (i == 0 ? 0 : n) + f->ranks[i].plan.n_parameters;
        bytes = (i == 0 ? 0 : bytes) + f->ranks[i].plan.weight_bytes;
    }
    if (spread) {
        uint64_t beside = vr_add_sat(f->placement->host_bytes, f->placement->disk_bytes);
        beside = vr_add_sat(beside, f->placement->host.weights);
        bytes = vr_add_sat(bytes, beside);
        n = vr_add_sat(n, width != 0 ? beside / width : 0);
    }
    vr_json_kv_if(o, "loaded_parameters", !f->model->packing.uncountable && f->model->weights_unknown == NULL,
                  n);
    vr_json_kv_if(o, "loaded_bytes", f->model->weights_unknown == NULL, bytes);
}

static void put_model(vr_json_out *o, const vram_model *m, const vram_fit *f)
{
    const vram_checkpoint *ck = m->checkpoint;

    vr_json_key(o, "model");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "name", ck->name);
    vr_json_kv_text(o, "read_from", ck->read_from);
    vr_json_kv_text(o, "evidence", vr_evidence(m));
    vr_json_kv_text(o, "architecture", m->architecture);
    vr_json_kv_text(o, "model_type", m->model_type);
    vr_json_kv_bool(o, "understood", m->family != NULL);
    vr_json_parameters(o, m);
    vr_json_kv_u64(o, "tensors", ck->n_tensors);
    vr_json_checkpoint_bytes(o, m);
    vr_json_kv_bool(o, "incomplete", ck->incomplete);
    vr_json_kv_text(o, "dtype", m->dtype != VR_DTYPE_NONE ? vr_dtype_name(m->dtype) : NULL);
    vr_json_quantization(o, m);
    put_loaded(o, f);
    vr_json_close(o, '}');
}

/* Numbers as such, flags as true and false; a default that is not known before the card is, null. */
static void put_setting(vr_json_out *o, const vram_workload *w, vr_setting s, vr_arena *a)
{
    const vram_option *row = vr_setting_option(w->engine, s);
    const char *value = vr_workload_value(w, s, a);
    uint64_t n;

    if (row->type == VRAM_OPT_COUNT && vr_parse_u64(vr_str_of(value), &n))
        vr_json_kv_u64(o, "value", n);
    else if (row->type == VRAM_OPT_BYTES && vr_parse_bytes(vr_str_of(value), &n))
        vr_json_kv_u64(o, "value", n);
    else if (row->type == VRAM_OPT_FLAG)
        vr_json_kv_bool(o, "value", vr_str_is(vr_str_of(value), "on"));
    else if (s != VR_SET_ALLOC_CONF && *value == '\0')
        vr_json_kv_null(o, "value");
    else
        vr_json_kv_text(o, "value", value);
    if (s == VR_SET_IMAGES && w->images != 0)
        vr_json_kv_u64(o, "tokens_each", w->picture.tokens);
}

static void put_engine(vr_json_out *o, vr_report *r, const vram_workload *w)
{
    vr_json_key(o, "engine");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "name", w->engine->name);
    vr_json_kv_text(o, "version", vr_workload_value(w, VR_SET_ENGINE_VERSION, &r->arena));
    vr_json_close(o, '}');
}

static void put_workload(vr_json_out *o, vr_report *r, const vram_fit *f)
{
    const vram_workload *w = f->workload;

    if (f->foreign)
        vr_json_kv_null(o, "engine");
    else
        put_engine(o, r, w);
    vr_json_key(o, "workload");
    vr_json_open(o, '{');
    for (size_t i = 0; i < VR_SETTING_COUNT; i++) {
        if (!vr_engine_has(w->engine, (vr_setting)i))
            continue;
        if (!vr_fit_setting_known(f, (vr_setting)i)) {
            vr_json_kv_null(o, vr_setting_key((vr_setting)i));
            continue;
        }
        vr_json_key(o, vr_setting_key((vr_setting)i));
        vr_json_open(o, '{');
        put_setting(o, w, (vr_setting)i, &r->arena);
        vr_json_kv_text(o, "set_by", vr_set_by_name((vr_set_by)w->set_by[i]));
        vr_json_close(o, '}');
    }
    vr_json_close(o, '}');
}

static void put_gpu(vr_json_out *o, const vram_device *d)
{
    vr_json_key(o, "gpu");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "id", d->id);
    vr_json_kv_text(o, "name", d->name);
    vr_json_kv_u64(o, "usable_bytes", d->usable.bytes);
    vr_json_kv_u64(o, "usable_low_bytes", d->usable.low);
    vr_json_kv_u64(o, "usable_high_bytes", d->usable.high);
    vr_json_kv_text(o, "basis", vr_basis_name((vr_basis)d->usable.basis));
    vr_json_kv_u64(o, "available_bytes", d->available.bytes);
    vr_json_kv_u64(o, "available_low_bytes", d->available.low);
    vr_json_kv_u64(o, "available_high_bytes", d->available.high);
    vr_json_kv_text(o, "available_set_by", vr_set_by_name(d->free_given ? VR_BY_USER : VR_BY_DEFAULT));
    vr_json_kv_text(o, "set_by", vr_set_by_name(VR_BY_USER));
    vr_json_close(o, '}');
}

static void put_moments(vr_json_out *o, const vr_rehearsal *run, size_t n, bool allocator)
{
    vr_json_key(o, "moments");
    vr_json_open(o, '[');
    for (size_t i = 0; i < n; i++) {
        const vr_moment *m = &run->moments[i];
        vr_json_open(o, '{');
        vr_json_kv_text(o, "name", vr_moment_name(m->id));
        vr_json_kv_if(o, "allocated_bytes", allocator, m->allocated);
        vr_json_kv_if(o, "reserved_bytes", allocator, m->reserved);
        vr_json_kv_u64(o, "driver_bytes", m->driver);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_live(vr_json_out *o, const vr_live *live)
{
    vr_json_key(o, "live");
    vr_json_open(o, '{');
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < VR_ITEM_COUNT; i++)
            if (vr_item_category((vr_item)i) == (vr_category)c)
                sum = vr_add_sat(sum, live->items[i]);
        vr_json_kv_u64(o, vr_category_json((vr_category)c), sum);
    }
    vr_json_close(o, '}');
}

/* The engine's own error: nothing is loaded, so there are no figures. */
static void put_stop(vr_json_out *o, const vram_fit *f)
{
    static const char *const figures[] = { "label",           "tried_bytes",    "requested_bytes",
                                           "allocated_bytes", "reserved_bytes", "reserved_unallocated_bytes",
                                           "free_bytes",      "short_bytes" };

    vr_json_key(o, "failure");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "moment", vr_moment_name(VR_AT_LOADED));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        vr_json_kv_null(o, figures[i]);
    vr_json_kv_u64(o, "loaded_fraction", 0);
    vr_json_kv_text(o, "message", f->stops);
    vr_json_kv_text(o, "message_version", f->workload->engine->name);
    vr_json_kv_null(o, "live");
    vr_json_close(o, '}');
}

static void put_failure(vr_json_out *o, const vram_fit *f)
{
    const vr_rehearsal *run = &f->run;
    const vr_live *live = &run->failure.live;
    const vr_tape *tape = &f->plan.tape;
    bool allocator = !f->plan.outside_only;

    if (f->stops != NULL) {
        put_stop(o, f);
        return;
    }
    if (!run->failed) {
        vr_json_kv_null(o, "failure");
        return;
    }
    vr_json_key(o, "failure");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "moment", vr_moment_name((vr_moment_id)run->failure.next_moment));
    vr_json_key(o, "label");
    vr_json_put_str(o, run->failure.label < tape->n_labels ? tape->labels[run->failure.label] : VR_LIT(""));
    vr_json_kv_u64(o, "tried_bytes", run->failure.tried);
    vr_json_kv_u64(o, "requested_bytes", run->failure.requested);
    vr_json_kv_if(o, "allocated_bytes", allocator, live->allocated);
    vr_json_kv_if(o, "reserved_bytes", allocator, live->reserved);
    vr_json_kv_if(o, "reserved_unallocated_bytes", allocator, vr_sub_floor(live->reserved, live->allocated));
    vr_json_kv_u64(o, "free_bytes", run->failure.driver_free);
    vr_json_key(o, "loaded_fraction");
    vr_json_put_fixed(o, f->loaded_permille, 1000, 3);
    vr_json_kv_u64(o, "short_bytes", f->short_bytes);
    vr_json_kv_text(o, "message", f->message);
    vr_json_kv_text(o, "message_version", f->message_version);
    put_live(o, live);
    vr_json_close(o, '}');
}

/* What the engine takes whatever is asked for; null of one that takes what it needs. */
static void put_pool(vr_json_out *o, const vr_plan *p)
{
    if (p->pool == NULL) {
        vr_json_kv_null(o, "pool");
        return;
    }
    vr_json_key(o, "pool");
    vr_json_open(o, '{');
    vr_json_kv_u64(o, "claim_bytes", p->claim);
    vr_json_kv_u64(o, "cache_most_bytes", p->pool_most);
    vr_json_kv_known(o, "cache_most_tokens", p->pool_tokens);
    vr_json_kv_text(o, "words", p->pool);
    vr_json_close(o, '}');
}

/* Without a GPU the computer's memory is the one device. */
static bool is_host(const vram_fit *f)
{
    return f->device != NULL && f->device->host;
}

static void put_headroom(vr_json_out *o, const vram_fit *f)
{
    if (is_host(f) && f->device->available.bytes == UINT64_MAX)
        vr_json_kv_null(o, "headroom_bytes");
    else
        vr_json_kv_i64(o, "headroom_bytes", f->headroom);
}

static void put_host_buffers(vr_json_out *o, const vr_host_share *h)
{
    vr_json_kv_if(o, "compute_bytes", h->activations_counted, h->compute);
    vr_json_kv_u64(o, "output_bytes", h->output);
    vr_json_kv_u64(o, "pinned_bytes", h->pinned);
}

static void put_which(vr_json_out *o, const vram_fit *f)
{
    vr_json_kv_text(o, "kind", is_host(f) ? "host" : "gpu");
    vr_json_kv_u64(o, "count", f->device != NULL ? f->device->count : 1);
    if (f->device != NULL)
        vr_json_kv_u64(o, "rank", f->device->facts.rank);
    if (f->device != NULL && !is_host(f))
        put_gpu(o, f->device);
    else
        vr_json_kv_null(o, "gpu");
}

/* How it fits there. */
static void put_fitting(vr_json_out *o, const vram_fit *f)
{
    put_headroom(o, f);
    if (is_host(f) && f->placement != NULL && f->placement->unknown == NULL)
        put_host_buffers(o, &f->placement->host);
    vr_json_kv_if(o, "weights_at_least_bytes", f->plan.weights_at_least != 0, f->plan.weights_at_least);
    vr_json_kv_u64(o, "weights_over_usable_bytes", f->weights_over_usable);
    put_failure(o, f);
}

static void put_device(vr_json_out *o, vr_report *r, const vram_fit *f)
{
    const vr_rehearsal *whole = f->run.failed ? &f->needs : &f->run;

    vr_json_open(o, '{');
    put_which(o, f);
    vr_json_ledger(o, &f->ledger, NULL);
    vr_json_overhead(o, &f->ledger, NULL);
    put_moments(o, whole, vr_fit_rehearsed(f) ? whole->n_moments : 0, !f->plan.outside_only);
    vr_json_kv_if(o, "peak_allocated_bytes", vr_fit_rehearsed(f) && !f->plan.outside_only,
                  whole->peak_allocated);
    vr_json_totals(o, &f->ledger);
    if (f->plan.sums_only)
        put_pool(o, &f->plan);
    if (f->device != NULL)
        put_fitting(o, f);
    if (f->placement != NULL && f->placement->unknown == NULL && f->device != NULL)
        vr_json_kv_text(o, "holds", vr_fit_pieces(r, f, (uint16_t)f->device->facts.rank));
    vr_json_close(o, '}');
}

static vr_figure host_figure(bool counted, uint8_t basis, bool verified, uint64_t bytes)
{
    if (!counted)
        return (vr_figure){ .basis = VR_BASIS_NOT_COUNTED };
    return (vr_figure){
        .counted = true, .bytes = bytes, .low = bytes, .high = bytes, .basis = basis, .verified = verified
    };
}

/* Of an engine that says what it takes of host memory in all. */
static void whole_host(vr_ledger *l, const vr_host_share *h)
{
    uint64_t work = vr_add_sat(h->compute, h->output);

    *l = (vr_ledger){ .least_certain = -1 };
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        l->category[c] = host_figure(c != VR_OVERHEAD, VR_BASIS_EXACT, false, 0);
    l->category[VR_WEIGHTS] = host_figure(true, VR_BASIS_EXACT, h->verified, h->weights);
    l->category[VR_KV_CACHE] = host_figure(h->kv_counted, h->kv_basis, h->verified, h->kv);
    l->category[VR_ACTIVATIONS] = host_figure(h->activations_counted, h->compute_basis, h->verified, work);
    l->category[VR_WEIGHTS].formula = h->words;
    l->category[VR_OVERHEAD].formula = "what the process takes beside its buffers is not known";
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        l->required = vr_add_sat(l->required, l->category[c].bytes);
    l->required_low = l->required_high = l->required;
    l->partial = true;
}

static const vr_ledger *host_ledger(vr_report *r, const vram_fit *f, vr_ledger *l)
{
    uint64_t bytes = f->placement->host_bytes;
    const vr_figure none = { .counted = true, .basis = VR_BASIS_EXACT };

    *l = (vr_ledger){ .required = bytes, .required_low = bytes, .required_high = bytes, .least_certain = -1 };
    for (size_t c = 0; c < VR_CATEGORY_COUNT; c++)
        l->category[c] = none;
    l->category[VR_WEIGHTS].bytes = l->category[VR_WEIGHTS].low = l->category[VR_WEIGHTS].high = bytes;
    l->category[VR_WEIGHTS].formula = vr_fit_pieces(r, f, VR_ON_HOST);
    return l;
}

/* What an engine keeps there beside the cards, or weights that the cards have no room for. */
static void put_host(vr_json_out *o, vr_report *r, const vram_fit *f)
{
    vr_ledger l;
    bool told = f->placement != NULL && f->placement->host.told;
    uint64_t given = f->workload->host_memory;

    if (f->placement == NULL || f->placement->unknown != NULL ||
        (!told && vr_add_sat(f->placement->host_bytes, f->placement->disk_bytes) == 0))
        return;
    vr_json_open(o, '{');
    vr_json_kv_text(o, "kind", "host");
    vr_json_kv_u64(o, "count", 1);
    vr_json_kv_null(o, "gpu");
    if (told)
        whole_host(&l, &f->placement->host);
    vr_json_ledger(o, told ? &l : host_ledger(r, f, &l), NULL);
    vr_json_totals(o, &l);
    if (told)
        put_host_buffers(o, &f->placement->host);
    if (given != 0)
        vr_json_kv_i64(o, "headroom_bytes", vr_diff(given, l.required));
    else
        vr_json_kv_null(o, "headroom_bytes");
    vr_json_kv_u64(o, "disk_bytes", f->placement->disk_bytes);
    vr_json_kv_u64(o, "layers", f->placement->layers_off);
    vr_json_kv_text(o, "holds", vr_fit_pieces(r, f, VR_ON_HOST));
    vr_json_close(o, '}');
}

static void put_devices(vr_json_out *o, vr_report *r, const vram_fit *f)
{
    vr_json_key(o, "devices");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_ranks; i++)
        put_device(o, r, &f->ranks[i]);
    if (f->device != NULL && f->n_ranks == 0)
        put_device(o, r, f);
    put_host(o, r, f);
    vr_json_close(o, ']');
}

static void put_lever(vr_json_out *o, const vr_lever *v)
{
    vr_json_open(o, '{');
    vr_json_key(o, "ids");
    vr_json_open(o, '[');
    for (size_t i = 0; i < 2 && v->ids[i] != NULL; i++)
        vr_json_put_text(o, v->ids[i]);
    vr_json_close(o, ']');
    vr_json_kv_text(o, "change", v->change);
    vr_json_kv_text(o, "flag", v->flag);
    vr_json_kv_text(o, "option", v->option);
    vr_json_kv_u64(o, "required_bytes", v->required);
    vr_json_kv_i64(o, "saved_bytes", v->saved);
    vr_json_kv_bool(o, "fits", v->fits);
    vr_json_kv_text(o, "cost", v->cost);
    vr_json_kv_text(o, "basis", vr_basis_name((vr_basis)v->basis));
    vr_json_kv_u64(o, "rank", v->rank);
    vr_json_close(o, '}');
}

static void put_levers(vr_json_out *o, const vram_fit *f)
{
    vr_json_key(o, "levers");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_levers; i++)
        put_lever(o, &f->levers[i]);
    vr_json_close(o, ']');
    vr_json_kv_text(o, "ranked_by", f->ranked_by);
    vr_json_gpu_count(o, f->smallest_count, f->count_note);
}

static void put_cards(vr_json_out *o, const vram_fit *f)
{
    vr_json_key(o, "cards");
    vr_json_open(o, '[');
    for (size_t i = 0; i < f->n_cards; i++) {
        const struct vr_card *c = &f->cards[i];
        vr_json_open(o, '{');
        vr_json_kv_text(o, "id", c->gpu->id);
        vr_json_kv_text(o, "name", c->gpu->name);
        vr_json_kv_text(o, "verdict", vr_verdict_json(c->verdict));
        vr_json_kv_u64(o, "required_bytes", c->required);
        vr_json_kv_i64(o, "headroom_bytes", c->headroom);
        vr_json_close(o, '}');
    }
    vr_json_close(o, ']');
}

static void put_fit(vr_json_out *o, vr_report *r, const vram_fit *f)
{
    put_model(o, f->model, f);
    put_workload(o, r, f);
    put_devices(o, r, f);
    if (f->device == NULL) {
        vr_json_key(o, "needs");
        put_device(o, r, f);
        put_cards(o, f);
    }
    vr_json_kv_text(o, "verdict", vr_verdict_json(f->verdict));
    vr_json_kv_text(o, "verdict_reason", f->verdict_reason);
    vr_json_kv_text(o, "engine_says", f->says);
    put_levers(o, f);
    vr_fit_solver_json(o, f);
}

void vr_fit_json(vr_report *r, const vram_fit *f)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.fit/1");
    put_fit(&o, r, f);
    vr_json_warnings(&o, f->ctx);
    vr_json_end(&o, r);
}

/* ---- every engine ---- */

static void put_compared(vr_json_out *o, vr_report *r, const vr_compared *x)
{
    vr_json_open(o, '{');
    vr_json_kv_text(o, "name", x->engine->name);
    vr_json_kv_text(o, "refused", x->refused);
    if (x->fit != NULL) {
        vr_json_kv_known(o, "kv_bytes_per_token", x->fit->plan.kv_token);
        put_fit(o, r, x->fit);
    }
    vr_json_close(o, '}');
}

void vr_comparison_json(vr_report *r, const vram_comparison *c)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.fit/1");
    vr_json_key(&o, "engines");
    vr_json_open(&o, '[');
    for (size_t i = 0; i < c->n; i++)
        put_compared(&o, r, &c->list[i]);
    vr_json_close(&o, ']');
    vr_json_kv_text(&o, "verdict", vr_verdict_json(c->verdict));
    vr_json_kv_known(&o, "least_kv_bytes", c->least_kv);
    vr_json_warnings(&o, c->ctx);
    vr_json_end(&o, r);
}
