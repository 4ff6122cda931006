/* SPDX-License-Identifier: MIT
 * Source: llama.cpp b10470, common/fit.cpp. Layers are tried by false position: between a number that fits
 * and one that does not, where a straight line says that the margin is met. */
#include "llama/fit.h"

#include <string.h>

#define MOST_BYTES ((int64_t)1 << 50) /* of a device: 64 of them, and 1000 times one, are numbers still */
#define MOST_LAYERS 1000
#define ROUNDING 256 /* of a context that is made smaller */

/* What of its first partial layer a device has beside attention. */
typedef enum part { PART_ATTENTION, PART_UP, PART_GATE, PART_NO_EXPERTS, N_PARTS } part;

typedef struct share {
    uint32_t layers, partial; /* of them, the last ones */
    uint8_t part;             /* of the first partial one; the others have all but the experts */
    uint8_t overflow;         /* where the rest of that one goes: a device, or VR_LM_HOST */
} share;

typedef struct shares {
    share of[VR_LM_MOST_DEVICES];
} shares;

/* Bytes of each device. */
typedef struct trial {
    int64_t of[VR_LM_MOST_DEVICES];
    int64_t weights; /* of all */
} trial;

typedef struct fitting {
    vr_lm_fitted *out;
    const vr_lm *lm;
    uint32_t n_layer; /* with those that predict, where they are loaded */
    const vr_lm_device *devices;
    size_t n;
    vr_arena *a;
    const char **patterns; /* of each layer, N_PARTS each; made when they are needed */
    int64_t margins[VR_LM_MOST_DEVICES], targets[VR_LM_MOST_DEVICES];
    uint64_t least_context;
    bool experts;
} fitting;

static int64_t as_signed(uint64_t bytes)
{
    return bytes > (uint64_t)MOST_BYTES ? MOST_BYTES : (int64_t)bytes;
}

/* ---- one trial ---- */

/* The words of a trial are gone after it. */
static const char *why_not(const vr_lm_sizes *s)
{
    if (s->refused)
        return "llama.cpp does not start with these settings";
    return "the graph of this architecture, and with it what a run takes, is not known here";
}

static vram_status measure(fitting *f, trial *out, const vr_lm_params *p)
{
    vr_lm_sizes *sizes = VR_NEW(f->a, vr_lm_sizes);
    vr_lm_params measured = *p;
    vr_arena scratch;
    if (sizes == NULL)
        return VRAM_ENOMEM;
    measured.as_fit = true;
    vr_arena_init(&scratch, f->lm->model->ctx);
    vram_status s = vr_lm_measure(sizes, f->lm, &measured, f->devices, f->n, &scratch);
    vr_arena_free(&scratch);
    f->out->trials++;
    if (s != VRAM_OK)
        return s;
    if (sizes->refused || sizes->unknown || !sizes->compute_known || !sizes->context_known)
        f->out->unknown = why_not(sizes);
    out->weights = 0;
    for (size_t i = 0; i < f->n; i++) {
        const vr_lm_memory *m = &sizes->device[i];
        out->weights += as_signed(m->model);
        out->of[i] = as_signed(vr_add_sat(vr_add_sat(m->model, m->context), m->compute));
    }
    return VRAM_OK;
}

static const char *pattern_of(fitting *f, uint32_t il, uint8_t kind)
{
    static const char *const ends[N_PARTS] = {
        "\\.ffn_(gate|up|gate_up|down).*",
        "\\.ffn_(gate|gate_up|down).*",
        "\\.ffn_down.*",
        "\\.ffn_(up|down|gate_up|gate)_(ch|)exps",
    };
    const char **slot = &f->patterns[(size_t)il * N_PARTS + kind];
    if (*slot == NULL)
        *slot = vr_text(f->a, T("blk\\."), U(il), T(ends[kind]));
    return *slot;
}

static uint32_t all_layers(const fitting *f, const shares *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += s->of[i].layers;
    return n;
}

static uint32_t all_partial(const fitting *f, const shares *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += s->of[i].partial;
    return n;
}

/* -ngl, -ts and -ot that say the same. */
static vram_status apply(fitting *f, vr_lm_params *p, const shares *s)
{
    uint32_t il = f->n_layer + 1 - all_layers(f, s), n = all_partial(f, s);
    vr_lm_override *list = VR_ARRAY(f->a, vr_lm_override, (size_t)n + 1);
    size_t used = 0;
    if (list == NULL)
        return VRAM_ENOMEM;
    p->n_gpu_layers = all_layers(f, s);
    for (size_t i = 0; i < f->n; i++) {
        const share *x = &s->of[i];
        if (f->n > 1)
            p->tensor_split[i] = x->layers;
        il += x->layers - x->partial;
        for (uint32_t k = 0; k < x->partial && il < f->n_layer; k++, il++) {
            list[used].pattern = pattern_of(f, il, k == 0 ? x->part : PART_NO_EXPERTS);
            list[used].device = k == 0 ? x->overflow : VR_LM_HOST;
            if (list[used++].pattern == NULL)
                return VRAM_ENOMEM;
        }
    }
    p->overrides = list;
    p->n_overrides = used;
    return VRAM_OK;
}

static vram_status try_shares(fitting *f, trial *out, const shares *s)
{
    vr_lm_params p = f->out->params;
    VR_TRY(apply(f, &p, s));
    return measure(f, out, &p);
}

/* Layers, of delta, that are about as many as fit; less than all of them, and one at least. */
static uint32_t step_of(uint32_t delta, int64_t target, int64_t low, int64_t high)
{
    int64_t guess = high == low ? 1 : delta * (target - low) / (high - low);
    if (guess < 0 || guess > delta - 1) /* it counts in unsigned numbers */
        return delta - 1;
    return guess < 1 ? 1 : (uint32_t)guess;
}

/* ---- layers from the back ---- */

static uint32_t unassigned(const fitting *f, const shares *s, size_t id)
{
    uint32_t n = f->n_layer + 1;
    for (size_t i = id + 1; i < f->n; i++)
        n -= s->of[i].layers;
    return n;
}

/* The output is the last device's first layer, and is never partial. */
static void give(const fitting *f, shares *s, size_t id, uint32_t n)
{
    share *x = &s->of[id];
    x->layers += n;
    if (f->experts)
        x->partial += id + 1 == f->n && x->partial == 0 ? n - 1 : n;
}

static vram_status narrow(fitting *f, shares *now, trial *mem, shares high, trial mem_high, size_t id)
{
    uint32_t delta = high.of[id].layers - now->of[id].layers;
    while (delta > 1 && f->out->unknown == NULL) {
        shares test = *now;
        trial got;
        give(f, &test, id, step_of(delta, f->targets[id], mem->of[id], mem_high.of[id]));
        VR_TRY(try_shares(f, &got, &test));
        if (got.of[id] <= f->targets[id]) {
            *now = test;
            *mem = got;
        } else {
            high = test;
            mem_high = got;
        }
        delta = high.of[id].layers - now->of[id].layers;
    }
    return VRAM_OK;
}

/* The margin alone is more than is free: whatever is tried there is too much. */
static bool hopeless(const fitting *f, size_t id)
{
    return f->targets[id] < 0;
}

static vram_status fill_back(fitting *f, shares *now, trial *mem)
{
    for (size_t id = f->n; id-- > 0 && f->out->unknown == NULL;) {
        shares high = *now;
        trial mem_high;
        uint32_t n = unassigned(f, now, id);
        if (n == 0 || hopeless(f, id))
            continue;
        give(f, &high, id, n);
        VR_TRY(try_shares(f, &mem_high, &high));
        if (mem_high.of[id] > f->targets[id]) {
            VR_TRY(narrow(f, now, mem, high, mem_high, id));
        } else {
            *now = high;
            *mem = mem_high;
        }
    }
    return VRAM_OK;
}

/* ---- experts from the front ---- */

/* Up to n layers without experts become whole ones of device id; *first: the device that such layers begin
 * on. */
static void convert(const fitting *f, shares *s, size_t id, size_t *first, uint32_t n)
{
    uint32_t done = 0;
    for (; *first < f->n; (*first)++) {
        share *x = &s->of[*first];
        uint32_t k = n - done < x->partial ? n - done : x->partial;
        x->layers -= k;
        x->partial -= k;
        s->of[id].layers += k;
        done += k;
        if (x->partial > 0)
            break;
    }
}

static uint32_t whole(const shares *s, size_t id)
{
    return s->of[id].layers - s->of[id].partial;
}

static vram_status narrow_experts(fitting *f, shares *now, trial *mem, size_t *first, shares high,
                                  trial mem_high, size_t id)
{
    uint32_t delta = whole(&high, id) - whole(now, id);
    while (delta > 1 && f->out->unknown == NULL) {
        shares test = *now;
        size_t test_first = *first;
        trial got;
        convert(f, &test, id, &test_first, step_of(delta, f->targets[id], mem->of[id], mem_high.of[id]));
        VR_TRY(try_shares(f, &got, &test));
        if (got.of[id] <= f->targets[id]) {
            *now = test;
            *mem = got;
            *first = test_first;
        } else {
            high = test;
            mem_high = got;
        }
        delta = whole(&high, id) - whole(now, id);
    }
    return VRAM_OK;
}

static bool within(const fitting *f, const trial *mem, size_t id)
{
    bool next = id + 1 == f->n || mem->of[id + 1] < f->targets[id + 1];
    return mem->of[id] < f->targets[id] && next;
}

static vram_status try_part(fitting *f, shares *now, trial *mem, size_t *first, const shares *test,
                            size_t test_first, size_t id, bool *kept)
{
    trial got;
    VR_TRY(try_shares(f, &got, test));
    *kept = within(f, &got, id);
    if (*kept) {
        *now = *test;
        *mem = got;
        *first = test_first;
    }
    return VRAM_OK;
}

/* A piece of one more layer: what is left of it overflows to the next device. */
static vram_status add_part(fitting *f, shares *now, trial *mem, size_t *first, size_t id)
{
    shares test = *now;
    size_t test_first = *first;
    bool kept;
    if (test.of[*first].layers <= (id + 1 < f->n ? 0u : 1u) || test.of[*first].partial == 0)
        return VRAM_OK;
    test.of[test_first].layers--;
    test.of[test_first].partial--;
    test.of[id].layers++;
    test.of[id].partial++;
    if (test.of[test_first].partial == 0)
        test_first++;
    test.of[id].part = PART_UP;
    if (id + 1 < f->n)
        test.of[id].overflow = (uint8_t)(id + 1);
    VR_TRY(try_part(f, now, mem, first, &test, test_first, id, &kept));
    test.of[id].part = kept ? PART_GATE : PART_ATTENTION;
    return try_part(f, now, mem, first, &test, test_first, id, &kept);
}

static vram_status fill_front(fitting *f, shares *now, trial *mem)
{
    size_t first = f->n;
    while (first > 0 && now->of[first - 1].layers > 0)
        first--;
    for (size_t id = 0; id <= first && first < f->n && f->out->unknown == NULL; id++) {
        shares high = *now;
        trial mem_high;
        if (hopeless(f, id))
            continue;
        for (size_t j = first; j < f->n; j++) {
            uint32_t moved = j + 1 < f->n ? high.of[j].layers : high.of[j].layers - 1;
            high.of[id].layers += moved;
            high.of[j].layers -= moved;
            high.of[j].partial = 0;
        }
        VR_TRY(try_shares(f, &mem_high, &high));
        if (mem_high.of[id] > f->targets[id]) {
            VR_TRY(narrow_experts(f, now, mem, &first, high, mem_high, id));
        } else {
            *now = high;
            *mem = mem_high;
            first = f->n - 1;
        }
        if (first < f->n)
            VR_TRY(add_part(f, now, mem, &first, id));
    }
    return VRAM_OK;
}

/* What is left over on all devices when every expert is in host memory. */
static vram_status surplus_without_experts(fitting *f, int64_t *out)
{
    vr_lm_params p = f->out->params;
    const vr_lm_override none = { "blk\\.\\d+\\.ffn_(up|down|gate_up|gate)_(ch|)exps", VR_LM_HOST };
    trial mem;
    p.overrides = &none;
    p.n_overrides = 1;
    VR_TRY(measure(f, &mem, &p));
    *out = 0;
    for (size_t i = 0; i < f->n; i++)
        *out += f->targets[i] - mem.of[i];
    return VRAM_OK;
}

static vram_status fit_layers(fitting *f)
{
    shares now = { 0 };
    trial mem;
    int64_t surplus = 0;
    for (size_t i = 0; i < f->n; i++)
        now.of[i] = (share){ .part = PART_NO_EXPERTS, .overflow = VR_LM_HOST };
    f->patterns = VR_ARRAY(f->a, const char *, (size_t)f->n_layer *N_PARTS + 1);
    if (f->patterns == NULL)
        return VRAM_ENOMEM;
    if (f->experts)
        VR_TRY(surplus_without_experts(f, &surplus));
    VR_TRY(try_shares(f, &mem, &now));
    VR_TRY(fill_back(f, &now, &mem));
    if (f->experts && surplus > 0)
        VR_TRY(fill_front(f, &now, &mem));
    if (f->out->unknown != NULL)
        return VRAM_OK;
    f->out->changed = true;
    return apply(f, &f->out->params, &now);
}

/* ---- the context ---- */

static int64_t sum(const fitting *f, const int64_t *of)
{
    int64_t all = 0;
    for (size_t i = 0; i < f->n; i++)
        all += of[i];
    return all;
}

/* With several devices whole layers go astray: half a layer, of experts a sixth, for each and one more. */
static int64_t set_aside(const fitting *f, const trial *full)
{
    int64_t layer = full->weights / (f->n_layer != 0 ? (int64_t)f->n_layer : 1);
    return f->n > 1 ? (int64_t)(f->n + 1) * layer / (f->experts ? 6 : 2) : 0;
}

/* Interpolated between the context that the model was trained with and the least one. */
static vram_status shrink_context(fitting *f, const trial *full, bool *done)
{
    uint64_t trained = f->lm->n_ctx_train, least = f->least_context;
    int64_t target = sum(f, f->targets), used = sum(f, full->of);
    trial mem;
    if (target >= used || f->out->params.n_ctx != 0 || trained <= least)
        return VRAM_OK;
    target -= set_aside(f, full);
    f->out->params.n_ctx = least;
    f->out->changed = true;
    VR_TRY(measure(f, &mem, &f->out->params));
    int64_t at_least = sum(f, mem.of);
    if (target <= at_least || used <= at_least)
        return VRAM_OK;
    uint64_t context =
        least + vr_mul_div(trained - least, (uint64_t)(target - at_least), (uint64_t)(used - at_least));
    context -= context % ROUNDING;
    f->out->params.n_ctx = context > least ? context : least;
    *done = f->n == 1;
    return VRAM_OK;
}

/* ---- the whole ---- */

static bool meets(const fitting *f, const trial *mem)
{
    for (size_t i = 0; i < f->n; i++) {
        if (mem->of[i] > f->targets[i])
            return false;
    }
    return true;
}

static const char *typed(const vr_lm_params *p, size_t n)
{
    bool split = false;
    for (size_t i = 0; i < n; i++)
        split = split || p->tensor_split[i] > 0;
    if (p->n_gpu_layers != UINT64_MAX)
        return "-ngl was given, so --fit leaves the layers where they are";
    if (n > 1 && split)
        return "-ts was given, so --fit leaves the layers where they are";
    if (n > 1 && p->split_mode == VR_LM_SPLIT_ROW)
        return "--fit does not change what -sm row does";
    if (p->n_overrides != 0 || p->n_cpu_moe != 0)
        return "tensors were placed by hand, so --fit leaves the layers where they are";
    return NULL;
}

vram_status vr_lm_fit(vr_lm_fitted *out, const vr_lm *lm, const vr_lm_params *p, const vr_lm_device *devices,
                      size_t n, const uint64_t *margins, uint64_t least_context, vr_arena *a)
{
    fitting f = { .out = out, .lm = lm, .devices = devices, .n = n, .a = a, .least_context = least_context };
    trial full;
    bool done = false;
    *out = (vr_lm_fitted){ .params = *p };
    f.experts = lm->n_expert > 0;
    f.n_layer = p->load_mtp ? lm->n_layer_all : lm->n_layer;
    if (n == 0 || n > VR_LM_MOST_DEVICES || p->split_mode == VR_LM_SPLIT_TENSOR || f.n_layer > MOST_LAYERS) {
        out->left = n == 0 ? NULL : "--fit does nothing here";
        return VRAM_OK;
    }
    for (size_t i = 0; i < n; i++) {
        f.margins[i] = as_signed(margins[i]);
        f.targets[i] = as_signed(devices[i].free_bytes) - f.margins[i];
    }
    VR_TRY(measure(&f, &full, p));
    if (out->unknown != NULL || meets(&f, &full))
        return VRAM_OK;
    VR_TRY(shrink_context(&f, &full, &done));
    if (out->unknown != NULL || done)
        return VRAM_OK;
    out->left = typed(p, n);
    return out->left != NULL ? VRAM_OK : fit_layers(&f);
}
