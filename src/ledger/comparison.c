/* SPDX-License-Identifier: MIT
 *
 * `vram fit --engine all`: one fit for each engine, of the same workload as far as the engine has its
 * settings. */
#include "ledger/comparison.h"
#include "engine/kv_rules.h"

static void release(vr_object *self)
{
    vr_arena arena = ((vram_comparison *)(void *)self)->arena;
    vr_arena_free(&arena);
}

static vram_status make(vram_comparison **out, const vram_model *m, const vram_workload *w)
{
    vr_arena arena;
    vr_arena_init(&arena, m->ctx);
    vram_comparison *c = VR_NEW(&arena, vram_comparison);
    if (c == NULL) {
        vr_arena_free(&arena);
        return VRAM_ENOMEM;
    }
    c->ctx = m->ctx;
    c->arena = arena;
    c->model = m;
    c->asked = w;
    vr_object_register(m->ctx, &c->object, release);
    *out = c;
    return VRAM_OK;
}

/* Settings that this engine lacks are as if nobody had set them. */
static void leave_to(vram_workload *w, const vr_engine *e)
{
    w->engine = e;
    w->engine_given = true;
    for (int s = 0; s < VR_SETTING_COUNT; s++) {
        if (!vr_engine_has(e, (vr_setting)s))
            w->set_by[s] = VR_BY_DEFAULT;
    }
    if (!vr_engine_has(e, VR_SET_ALLOC_CONF)) {
        w->alloc = (vr_alloc_conf){ 0 };
        w->alloc_text = NULL;
    }
    if (!vr_engine_has(e, VR_SET_KV_DTYPE))
        w->kv_dtype = VR_KV_AS_MODEL;
    if (!vr_engine_has(e, VR_SET_DTYPE)) {
        w->dtype = VR_DTYPE_NONE;
        w->dtype_auto = false;
    }
    if (!vr_engine_has(e, VR_SET_DEVICE_MAP))
        w->device_map = VR_MAP_NONE;
    if (!vr_engine_has(e, VR_SET_WEIGHT_QUANT))
        w->weight_quant = VR_QUANT_NONE;
}

static bool is_refusal(vram_status s)
{
    return s == VRAM_ESETTING || s == VRAM_EUNSUPPORTED || s == VRAM_ELIMIT;
}

static vram_status fit_in(vr_compared *to, vram_comparison *c, const vr_engine *e,
                          const vram_device *const *devices, size_t n)
{
    vram_workload *w = vr_workload_copy(c->asked, &c->arena);
    if (w == NULL)
        return VRAM_ENOMEM;
    to->engine = e;
    w->compared = true;
    leave_to(w, e);
    vram_status s = e->version(w, vr_str_of(e->default_version));
    if (s == VRAM_OK)
        s = vram_fit_new(&to->fit, c->model, w, devices, n);
    if (!is_refusal(s))
        return s;
    to->fit = NULL;
    to->refused = vr_arena_copy(&c->arena, vr_str_of(vram_last_error(c->ctx)->text));
    return to->refused == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static int rank(vram_verdict v)
{
    static const int ranks[] = {
        [VRAM_FITS] = 0, [VRAM_TIGHT] = 1, [VRAM_UNKNOWN] = 2, [VRAM_DOES_NOT_FIT] = 3
    };
    return ranks[v];
}

static void take_best(vram_comparison *c)
{
    c->verdict = VRAM_DOES_NOT_FIT;
    for (size_t i = 0; i < c->n; i++) {
        vram_verdict v = c->list[i].fit != NULL ? c->list[i].fit->verdict : VRAM_UNKNOWN;
        if (rank(v) < rank(c->verdict))
            c->verdict = v;
    }
}

static void take_least(vram_comparison *c)
{
    const vram_workload *w = NULL;
    bool slides = false;
    for (uint64_t i = 0; i < c->model->n_layers && c->model->layers != NULL; i++)
        slides = slides || c->model->layers[i].window != 0;
    for (size_t i = 0; i < c->n; i++)
        w = c->list[i].fit != NULL ? c->list[i].fit->workload : w;
    if (slides && w != NULL && c->model->kv_known)
        c->least_kv = vr_least_kept(c->model, w->context, w->sequences, 2, 4);
}

vram_status vram_comparison_new(vram_comparison **out, const vram_model *m, const vram_workload *w,
                                const vram_device *const *devices, size_t n)
{
    vram_comparison *c;
    size_t n_engines;
    const vr_engine *const *engines = vr_engines(&n_engines);
    if (w->engine_given || w->set_by[VR_SET_ENGINE_VERSION] == VR_BY_USER)
        return vr_fail(m->ctx, VRAM_ESETTING, T("a comparison takes every engine in its own version"));
    VR_TRY(make(&c, m, w));
    c->list = VR_ARRAY(&c->arena, vr_compared, n_engines);
    if (c->list == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < n_engines; i++)
        VR_TRY(fit_in(&c->list[i], c, engines[i], devices, n));
    c->n = n_engines;
    take_best(c);
    take_least(c);
    *out = c;
    return VRAM_OK;
}

vram_verdict vram_comparison_verdict(const vram_comparison *c)
{
    return c->verdict;
}
