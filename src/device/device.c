/* SPDX-License-Identifier: MIT
 * From what was asked for ("rtx-3060-12gb", "2x H100 SXM", "24GiB") to one device with its ranges.
 *
 * What an idle GPU itself holds, 5 to 9 MiB and 6.4 in the fit of the contexts, is nobody's and cannot be
 * used: it is taken off what is available unless the free bytes were read, which have it off already
 * (data/README.md). */
#include "device/gpus.h"

#define IDLE_LOW (5 * VR_MIB)
#define IDLE_NOMINAL UINT64_C(6710886) /* 6.4 MiB */
#define IDLE_HIGH (9 * VR_MIB)
#define MAX_QUERY 96 /* bytes, so that an error text holds it */
#define MAX_COUNT 4096
#define LEAST_SIZE (256 * VR_MIB)
#define MOST_SIZE (UINT64_C(64) << 40)

static vr_range available_of(const vr_range *usable, uint64_t free_bytes)
{
    if (free_bytes != 0)
        return (vr_range){ free_bytes, free_bytes, free_bytes, VR_BASIS_MEASURED };
    return (vr_range){ vr_sub_floor(usable->bytes, IDLE_NOMINAL), vr_sub_floor(usable->low, IDLE_HIGH),
                       vr_sub_floor(usable->high, IDLE_LOW), usable->basis };
}

static void settle(vram_device *d, uint64_t free_bytes)
{
    d->available = available_of(&d->usable, free_bytes);
    d->free_given = free_bytes != 0;
    d->kernels = vr_kernels(d->gpu);
    d->facts = (vr_device_facts){ .cc_major = d->gpu != NULL ? d->gpu->cc_major : 0,
                                  .cc_minor = d->gpu != NULL ? d->gpu->cc_minor : 0,
                                  .usable = d->usable.bytes,
                                  .available = d->available.bytes,
                                  .context = d->context.bytes };
}

vram_status vr_device_of_gpu(vram_device *out, const vr_gpu *gpu, uint64_t count, uint64_t free_bytes)
{
    *out = (vram_device){ .gpu = gpu, .id = gpu->id, .name = gpu->name, .count = count };
    out->usable = vr_gpu_usable(gpu);
    if (!vr_gpu_is_nvidia(gpu) || out->usable.bytes == 0)
        return VRAM_EUNSUPPORTED;
    if (free_bytes > out->usable.high)
        return VRAM_ESETTING;
    out->context = vr_gpu_context(gpu);
    settle(out, free_bytes);
    return VRAM_OK;
}

/* ---- what was asked for ---- */

static vr_str trimmed(vr_str s)
{
    while (s.n != 0 && (s.s[0] == ' ' || s.s[0] == '\t'))
        s = (vr_str){ s.s + 1, s.n - 1 };
    while (s.n != 0 && (s.s[s.n - 1] == ' ' || s.s[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* Takes "2x" or "2 x " off the front; "7900 xtx" and "7900xtx" are names. */
static vram_status take_count(vram_ctx *ctx, vr_str *query, uint64_t *count)
{
    size_t digits = 0, at;
    uint64_t n;
    *count = 1;
    while (digits < query->n && vr_is_digit(query->s[digits]))
        digits++;
    for (at = digits; at < query->n && query->s[at] == ' ';)
        at++;
    if (at + 1 >= query->n || (query->s[at] != 'x' && query->s[at] != 'X') ||
        (at != digits && query->s[at + 1] != ' '))
        return VRAM_OK;
    if (!vr_parse_u64((vr_str){ query->s, digits }, &n) || n > MAX_COUNT)
        return VRAM_OK;
    if (n == 0)
        return vr_fail(ctx, VRAM_ESETTING, T("the count in \""), S(*query), T("\" is 0"));
    *count = n;
    *query = trimmed((vr_str){ query->s + at + 1, query->n - at - 1 });
    return VRAM_OK;
}

typedef enum size_kind { NO_SIZE, AS_SAID, ON_THE_BOX } size_kind;

static bool ends_folded(vr_str s, const char *end)
{
    size_t n = strlen(end);
    for (size_t i = 0; i < n && n <= s.n; i++)
        if ((s.s[s.n - n + i] | 0x20) != end[i])
            return false;
    return n <= s.n;
}

/* "24GiB" is meant exactly; "24GB" and "24G" are the figure on a box, which counts in binary. A number
 * without a unit is part of a name ("3060"). */
static size_kind size_of(vr_str query, uint64_t *bytes)
{
    static const char *const box[] = { "gb", "g" }, *const exact[] = { "gib", "mib", "tib", "mb" };
    char text[MAX_QUERY + 8];
    if (query.n == 0 || query.n > MAX_QUERY || !vr_is_digit(query.s[0]))
        return NO_SIZE;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (ends_folded(query, exact[i]))
            return vr_parse_bytes(query, bytes) ? AS_SAID : NO_SIZE;
    for (size_t i = 0; i < sizeof box / sizeof *box; i++) {
        if (!ends_folded(query, box[i]))
            continue;
        size_t n = query.n - strlen(box[i]);
        memcpy(text, query.s, n);
        memcpy(text + n, "GiB", 3);
        return vr_parse_bytes((vr_str){ text, n + 3 }, bytes) ? ON_THE_BOX : NO_SIZE;
    }
    return NO_SIZE;
}

static vram_status device_of_size(vram_device *d, vr_str query, size_kind kind, uint64_t bytes,
                                  uint64_t free_bytes)
{
    vram_ctx *ctx = d->ctx;
    if (bytes < LEAST_SIZE || bytes > MOST_SIZE)
        return vr_fail(ctx, VRAM_ESETTING, T("\""), S(query), T("\" is no size of a GPU: "), BYTES(bytes));
    if (free_bytes > bytes)
        return vr_fail(ctx, VRAM_ESETTING, T("the free memory, "), GROUPED(free_bytes),
                       T(" bytes, is more than the GPU has, "), GROUPED(bytes));
    d->id = vr_arena_copy(&d->arena, query);
    d->name = vr_text(&d->arena, T("GPU of "), S(query));
    if (d->id == NULL || d->name == NULL)
        return VRAM_ENOMEM;
    /* Cards from 12 GB on without ECC report 96.3 to 99.4 % of the box (data/gpus.tsv), a few less. */
    d->usable = (vr_range){ bytes, kind == ON_THE_BOX ? vr_mul_div(bytes, 965, 1000) : bytes, bytes,
                            VR_BASIS_ASSUMED };
    d->context = vr_context_of_size(bytes);
    settle(d, free_bytes);
    return VRAM_OK;
}

/* "none": all stays in the computer's memory, where no CUDA takes any. */
static vram_status device_of_host(vram_device *d, uint64_t free_bytes)
{
    uint64_t bytes = free_bytes != 0 ? free_bytes : UINT64_MAX;
    d->id = "none";
    d->name = "no GPU";
    d->host = true;
    d->usable = d->available = (vr_range){ bytes, bytes, bytes, VR_BASIS_ASSUMED };
    d->free_given = free_bytes != 0;
    d->facts = (vr_device_facts){ .host = true, .usable = bytes, .available = bytes };
    return VRAM_OK;
}

static const char *list_of(vr_arena *a, const vr_found *f)
{
    const char *text = f->n != 0 ? f->gpu[0]->id : "";
    for (size_t i = 1; i < f->n && text != NULL; i++)
        text = vr_text(a, T(text), T(", "), T(f->gpu[i]->id));
    if (text != NULL && f->match == VR_MATCH_SEVERAL && f->total > f->n)
        text = vr_text(a, T(text), T(" and "), U(f->total - f->n), T(" more"));
    return text;
}

static vram_status not_found(vram_ctx *ctx, vr_arena *a, vr_str query, const vr_found *f)
{
    const char *list = list_of(a, f);
    if (list == NULL)
        return VRAM_ENOMEM;
    if (f->match == VR_MATCH_SEVERAL) {
        vr_fail(ctx, VRAM_ESETTING, T("\""), S(query), T("\" could be "), T(list));
        vr_hint(ctx, "name one of them, or give the size: --gpu 24GiB");
        return VRAM_ESETTING;
    }
    const char *hint =
        vr_text(a, T("nearest: "), T(list), T("; \"vram gpus\" lists all; or give the size: --gpu 24GiB"));
    if (hint == NULL)
        return VRAM_ENOMEM;
    vr_fail(ctx, VRAM_ESETTING, T("no GPU is called \""), S(query), T("\""));
    vr_hint(ctx, hint);
    return VRAM_ESETTING;
}

/* Every engine of today is rehearsed on CUDA: its context, its driver, its kernels. An answer for another
 * maker's card would be CUDA's figures under a wrong name. */
static vram_status not_modelled(vram_ctx *ctx, const vr_gpu *g)
{
    vr_fail(ctx, VRAM_EUNSUPPORTED, T("the memory of "), T(g->vendor), T(" GPUs is not modelled yet ("),
            T(g->id), T("): engines are known here as they run on CUDA, which NVIDIA cards have"));
    vr_hint(ctx, "\"vram gpus\" lists this card and its sizes, but no verdict can be given for it");
    return VRAM_EUNSUPPORTED;
}

static vram_status no_total(vram_ctx *ctx, const vr_gpu *g)
{
    vr_fail(ctx, VRAM_ESETTING, T("no log tells how much memory "), T(g->id), T(" gives to programs"));
    vr_hint(ctx, "give the size that programs see, e.g. --gpu 15.5GiB");
    return VRAM_ESETTING;
}

static vram_status device_of_name(vram_device *d, vr_str query, uint64_t free_bytes)
{
    vr_found f;
    vr_gpu_find(&f, query);
    if (f.match != VR_MATCH_ONE)
        return not_found(d->ctx, &d->arena, query, &f);
    vram_device found;
    const vr_gpu *g = f.gpu[0];
    vram_status s = vr_device_of_gpu(&found, g, d->count, free_bytes);
    if (s == VRAM_EUNSUPPORTED)
        return vr_gpu_is_nvidia(g) ? no_total(d->ctx, g) : not_modelled(d->ctx, g);
    if (s != VRAM_OK)
        return vr_fail(d->ctx, VRAM_ESETTING, T("the free memory, "), GROUPED(free_bytes),
                       T(" bytes, is more than "), T(g->id), T(" has, "), GROUPED(found.usable.high));
    found.object = d->object;
    found.ctx = d->ctx;
    found.arena = d->arena;
    *d = found;
    return VRAM_OK;
}

static vram_status fill(vram_device *d, const char *query, uint64_t free_bytes)
{
    uint64_t bytes = 0;
    vr_str q = trimmed(vr_str_of(query));
    if (q.n == 0 || q.n > MAX_QUERY)
        return vr_fail(d->ctx, VRAM_ESETTING,
                       T(q.n == 0 ? "no GPU is named" : "the name of the GPU is too long"));
    VR_TRY(take_count(d->ctx, &q, &d->count));
    if (vr_str_is(q, "none") && d->count == 1)
        return device_of_host(d, free_bytes);
    size_kind kind = size_of(q, &bytes);
    return kind != NO_SIZE ? device_of_size(d, q, kind, bytes, free_bytes) : device_of_name(d, q, free_bytes);
}

static void release(vr_object *self)
{
    vr_arena a = ((vram_device *)(void *)self)->arena;
    vr_arena_free(&a);
}

vram_status vram_device_new(vram_device **out, vram_ctx *ctx, const char *query, uint64_t free_bytes)
{
    vr_arena a;
    vr_arena_init(&a, ctx);
    vram_device *d = VR_NEW(&a, vram_device);
    if (d == NULL)
        return VRAM_ENOMEM;
    d->ctx = ctx;
    d->arena = a;
    vram_status s = fill(d, query, free_bytes);
    if (s != VRAM_OK) {
        a = d->arena;
        vr_arena_free(&a);
        return s;
    }
    vr_object_register(ctx, &d->object, release);
    *out = d;
    return VRAM_OK;
}
