/* SPDX-License-Identifier: MIT
 *
 * The ledger: what was live at the peak of a rehearsal, by category. `runtime_overhead` is the sum of its
 * items, and all items together are the driver's figure; nothing here is a remainder. */
#include "ledger/answer.h"

/* Bases from the most to the least certain. */
static unsigned doubt(uint8_t basis)
{
    static const uint8_t by_basis[VR_BASIS_COUNT] = {
        [VR_BASIS_EXACT] = 0,   [VR_BASIS_MEASURED] = 1, [VR_BASIS_SIMULATED] = 2,   [VR_BASIS_TABLE] = 3,
        [VR_BASIS_FORMULA] = 4, [VR_BASIS_ASSUMED] = 5,  [VR_BASIS_NOT_COUNTED] = 6,
    };
    return basis < VR_BASIS_COUNT ? by_basis[basis] : 6;
}

/* Of overhead by item; other items have their category's. */
static uint8_t item_basis(const vr_ledger *l, const vr_scene *s, vr_item i)
{
    vr_device_facts facts = vr_facts_of(s->device);
    switch (i) {
    case VR_ITEM_CONTEXT:
        return s->device != NULL ? s->device->context.basis : VR_BASIS_ASSUMED;
    case VR_ITEM_KERNELS:
        return s->device != NULL ? s->device->kernels.basis : VR_BASIS_ASSUMED;
    case VR_ITEM_POOL:
    case VR_ITEM_PROCESS:
        return VR_BASIS_ASSUMED;
    case VR_ITEM_WORKSPACES:
        return facts.cc_major != 0 ? VR_BASIS_TABLE : VR_BASIS_ASSUMED;
    default:
        return vr_item_category(i) == VR_OVERHEAD ? VR_BASIS_SIMULATED
                                                  : l->category[vr_item_category(i)].basis;
    }
}

static const char *item_formula(vr_item i, uint8_t basis)
{
    switch (i) {
    case VR_ITEM_CONTEXT:
        return basis == VR_BASIS_TABLE || basis == VR_BASIS_MEASURED
                   ? "measured on this card"
                   : "from multiprocessors x threads of each";
    case VR_ITEM_KERNELS:
        return "kernels loaded with the first matrix product";
    case VR_ITEM_WORKSPACES:
        return "cuBLAS's workspaces, by compute capability";
    case VR_ITEM_POOL:
        return "kernels, their libraries and what they put aside while matrices are multiplied";
    case VR_ITEM_PROCESS:
        return "what a process has beside its buffers";
    case VR_ITEM_ROUNDING:
        return "what the blocks hold beyond what was asked for";
    case VR_ITEM_IDLE:
        return "taken by the allocator and not in use at the peak";
    default:
        return NULL;
    }
}

static bool always_there(vr_item i)
{
    return i == VR_ITEM_CONTEXT || i == VR_ITEM_ROUNDING || i == VR_ITEM_IDLE;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

typedef struct peaks {
    const vr_tape *tape; /* of the nominal one */
    const vr_live *nominal, *low, *high;
    bool verified;
} peaks;

/* Overhead first has its items, other items have the basis of their category. */
static void fill_item(vr_ledger *out, const vr_scene *s, const peaks *p, vr_item i)
{
    vr_figure *f = &out->item[i];
    if (!s->here->plan.counted[vr_item_category(i)])
        return;
    f->bytes = p->nominal->items[i];
    f->low = least(f->bytes, p->low->items[i]);
    f->high = most(f->bytes, p->high->items[i]);
    f->counted = f->high > 0 || always_there(i);
    f->basis = item_basis(out, s, i);
    f->verified = p->verified && f->basis == VR_BASIS_SIMULATED;
    f->formula = item_formula(i, f->basis);
}

static void fill_items(vr_ledger *out, const vr_scene *s, const peaks *p, bool overhead)
{
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        if ((vr_item_category((vr_item)i) == VR_OVERHEAD) == overhead)
            fill_item(out, s, p, (vr_item)i);
    }
}

static uint64_t sum_of(const vr_live *live, const vr_plan *p, int category)
{
    uint64_t sum = 0;
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        if ((int)vr_item_category((vr_item)i) == category && p->counted[category])
            sum += live->items[i];
    }
    return sum;
}

static const char *overhead_in_words(const vr_ledger *l, vr_arena *a)
{
    const char *words = "";
    for (int i = 0; i < VR_ITEM_COUNT && words != NULL; i++) {
        if (vr_item_category((vr_item)i) == VR_OVERHEAD && l->item[i].bytes > 0)
            words = vr_text(a, T(words), T(*words != '\0' ? " + " : ""), T(vr_item_screen((vr_item)i)),
                            T(" "), BYTES(l->item[i].bytes));
    }
    return words;
}

static uint8_t overhead_basis(const vr_ledger *l)
{
    uint8_t basis = VR_BASIS_EXACT;
    for (int i = 0; i < VR_ITEM_COUNT; i++) {
        const vr_figure *f = &l->item[i];
        if (vr_item_category((vr_item)i) == VR_OVERHEAD && f->counted && doubt(f->basis) > doubt(basis))
            basis = f->basis;
    }
    return basis;
}

static bool grows_later(const vr_tape *t, int category, size_t after)
{
    for (size_t i = after + 1; i < t->n; i++) {
        if (t->events[i].kind == VR_EV_ALLOC && (int)vr_item_category((vr_item)t->events[i].item) == category)
            return true;
    }
    return false;
}

/* The plan's formula is for a cache that is full; where the peak comes before, the ledger holds what is there
 * then. */
static vram_status tell_cache(vr_figure *f, const peaks *p, uint64_t full, vr_arena *texts)
{
    const char *all;
    if (f->formula == NULL || !grows_later(p->tape, VR_KV_CACHE, p->nominal->event))
        return VRAM_OK;
    f->basis = VR_BASIS_SIMULATED;
    all = full != 0 ? vr_text(texts, T("in all "), BYTES(full), T(", ")) : "";
    if (all != NULL && f->bytes == 0)
        f->formula =
            vr_text(texts, T(f->formula), T("; "), T(all), T("nothing of that yet at the fullest point"));
    else if (all != NULL)
        f->formula = vr_text(texts, T(f->formula), T("; "), T(all), T("of that "), BYTES(f->bytes),
                             T(" at the fullest point"));
    return all == NULL || f->formula == NULL ? VRAM_ENOMEM : VRAM_OK;
}

static vram_status fill_category(vr_ledger *out, const vr_plan *plan, const peaks *p, int c, vr_arena *texts)
{
    vr_figure *f = &out->category[c];
    if (!plan->counted[c]) {
        *f = (vr_figure){ .basis = VR_BASIS_NOT_COUNTED, .formula = plan->why_not[c] };
        return VRAM_OK;
    }
    *f = (vr_figure){ .counted = true, .bytes = sum_of(p->nominal, plan, c), .verified = p->verified };
    f->low = least(f->bytes, sum_of(p->low, plan, c));
    f->high = most(f->bytes, sum_of(p->high, plan, c));
    f->basis = c == VR_OVERHEAD ? overhead_basis(out) : plan->basis[c];
    if (f->basis == VR_BASIS_EXACT && f->low != f->high) /* what is there when it is fullest varies */
        f->basis = VR_BASIS_SIMULATED;
    if (plan->outside_only) /* by no allocator that was replayed: a table or a default is not what was held */
        f->verified = f->verified && (f->basis == VR_BASIS_EXACT || f->basis == VR_BASIS_SIMULATED);
    f->formula = c == VR_OVERHEAD ? overhead_in_words(out, texts) : plan->formula[c];
    if (c == VR_OVERHEAD && f->formula == NULL)
        return VRAM_ENOMEM;
    return c == VR_KV_CACHE ? tell_cache(f, p, plan->kv_full, texts) : VRAM_OK;
}

static void add_up(vr_ledger *out, const vr_plan *p, const vr_live *low, const vr_live *high)
{
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        out->required += out->category[c].bytes;
        out->required_low += sum_of(low, p, c);
        out->required_high += sum_of(high, p, c);
        out->partial = out->partial || !out->category[c].counted;
    }
    out->required_low = least(out->required, out->required_low);
    out->required_high = most(out->required, out->required_high);
}

/* What is not counted, otherwise the widest band; -1 when every figure is certain. */
static int least_certain(const vr_ledger *l)
{
    int widest = -1;
    uint64_t width = 0;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        const vr_figure *f = &l->category[c];
        if (!f->counted)
            return c;
        if (f->high - f->low > width) {
            width = f->high - f->low;
            widest = c;
        }
    }
    return widest;
}

vram_status vr_ledger_new(vr_ledger *out, const vr_scene *s, const vr_tape *tape, const vr_live *nominal,
                          const vr_live *low, const vr_live *high, vr_arena *texts)
{
    const vr_plan *plan = &s->here->plan;
    peaks p = { .tape = tape, .nominal = nominal, .low = low, .high = high };
    p.verified = plan->verified && vr_alloc_conf_verified(&s->workload->alloc);
    *out = (vr_ledger){ .required = 0 };
    fill_items(out, s, &p, true);
    for (int c = 0; c < VR_CATEGORY_COUNT; c++)
        VR_TRY(fill_category(out, plan, &p, c, texts));
    fill_items(out, s, &p, false);
    add_up(out, plan, low, high);
    out->least_certain = least_certain(out);
    return VRAM_OK;
}
