/* SPDX-License-Identifier: MIT
 * Any bytes as a config.json without weights, of every special kind: the whole way to the reports of all
 * engines, on no card, one or several. What must hold: each step answers or says why not, in words; nothing
 * leaks. Settings and cards are drawn from the bytes, so that an input says everything. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "vram.h"

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static uint64_t drawn; /* what is left to draw from */

/* FNV-1a */
static uint64_t hash(const uint8_t *data, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static const char *draw(const char *const *list)
{
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    const char *one = list[drawn % n];
    drawn /= n;
    return one;
}

static void set(vram_workload *w, const char *key, const char *const *values)
{
    const char *value = draw(values);
    if (*value != '\0')
        CHECK(vram_workload_set(w, key, value) == VRAM_OK);
}

/* Most of what belongs to one kind of generating alone is refused with another. */
static void set_generating(vram_workload *w, const vram_model *m)
{
    const char *cache = draw(LIST("", "", "static", "offloaded", "offloaded_static", "quantized"));
    const char *how = draw(LIST("", "", "", "beams", "prompt_lookup_num_tokens", "assistant_model"));
    set(w, "cache", (const char *const[]){ cache, NULL });
    if (strcmp(cache, "quantized") == 0) {
        set(w, "cache_backend", LIST("", "", "fp8"));
        set(w, "cache_bits", LIST("", "2", "8"));
        set(w, "cache_group_size", LIST("", "1", "65536"));
        set(w, "cache_residual_length", LIST("", "2", "1000000"));
    }
    if (*how == '\0')
        return;
    set(w, how, LIST("1", "3", "65536"));
    if (strcmp(how, "assistant_model") != 0)
        return;
    set(w, "num_assistant_tokens", LIST("", "1", "65536"));
    CHECK(vram_workload_assist(w, m) == VRAM_OK); /* itself */
}

static vram_workload *workload(vram_ctx *ctx, const char *engine, const vram_model *m)
{
    vram_workload *w;
    CHECK(vram_workload_new(&w, ctx, engine) == VRAM_OK);
    set(w, "context", LIST("16", "1", "300", "1M"));
    set(w, "sequences", LIST("1", "3", "40"));
    if (engine == NULL) /* of several engines only what all have */
        return w;
    set(w, "engine_version", LIST("", "4.57", "5.2", "5.24"));
    set(w, "attention", LIST("", "sdpa", "eager", "flash"));
    set(w, "device_map", LIST("", "auto", "balanced_low_0", "sequential", "cuda"));
    set(w, "decode", LIST("", "1", "70", "1000000000"));
    set(w, "prefill_batch", LIST("", "2"));
    set(w, "host_memory", LIST("", "1MiB"));
    set(w, "logits", LIST("", "all"));
    set(w, "quantization", LIST("", "", "bnb-4bit", "bnb-8bit", "dequantize"));
    set(w, "images", LIST("", "", "", "2"));
    set(w, "experts_implementation", LIST("", "eager", "batched_mm"));
    set(w, "expert_load", LIST("", "same"));
    set_generating(w, m);
    return w;
}

static size_t cards(const vram_device *out[3], vram_ctx *ctx)
{
    size_t n = (size_t)(drawn % 4);
    drawn /= 4;
    for (size_t i = 0; i < n; i++) {
        vram_device *d;
        const char *card = draw(LIST("rtx-3060-12gb", "1GiB", "2xh100-sxm-80gb"));
        CHECK(vram_device_new(&d, ctx, card, 0) == VRAM_OK);
        out[i] = d;
    }
    return n;
}

static int ignore(void *ud, const void *bytes, size_t n)
{
    (void)ud;
    return memchr(bytes, '\0', n) != NULL;
}

static void said(vram_ctx *ctx, vram_status s)
{
    const vram_error *e = vram_last_error(ctx);
    CHECK(s == VRAM_EUNSUPPORTED || s == VRAM_ELIMIT || s == VRAM_ESETTING || s == VRAM_EFORMAT);
    CHECK(e->code == s && *e->text != '\0');
}

static void judge(vram_ctx *ctx, const vram_model *m)
{
    const vram_style text = { .format = VRAM_TEXT, .verbose = 1 }, json = { .format = VRAM_JSON };
    const vram_device *list[3];
    vram_fit *f;
    vram_comparison *c;
    CHECK(vram_inspect_render(m, &text, ignore, NULL) == VRAM_OK);
    CHECK(vram_inspect_render(m, &json, ignore, NULL) == VRAM_OK);
    size_t n = cards(list, ctx);
    vram_status s = vram_fit_new(&f, m, workload(ctx, "transformers", m), list, n);
    if (s == VRAM_OK) {
        CHECK(vram_fit_render(f, &text, ignore, NULL) == VRAM_OK);
        CHECK(vram_fit_render(f, &json, ignore, NULL) == VRAM_OK);
    } else {
        said(ctx, s);
    }
    s = vram_comparison_new(&c, m, workload(ctx, NULL, m), list, n);
    if (s == VRAM_OK)
        CHECK(vram_comparison_render(c, &json, ignore, NULL) == VRAM_OK);
    else
        said(ctx, s);
}

static vram_status load(vram_checkpoint **ck, vram_ctx *ctx, const uint8_t *config, size_t n)
{
    const vram_want *wants;
    vram_status s;
    CHECK(vram_checkpoint_new(ck, ctx, "fuzz") == VRAM_OK);
    CHECK(vram_checkpoint_named(*ck, "config.json") == VRAM_OK);
    CHECK(vram_checkpoint_add_file(*ck, "config.json", n) == VRAM_OK);
    CHECK(vram_checkpoint_listed(*ck) == VRAM_OK);
    while ((s = vram_checkpoint_step(*ck)) == VRAM_MORE) {
        size_t n_wants = vram_checkpoint_wants(*ck, &wants);
        CHECK(n_wants == 1 && wants[0].offset < n);
        size_t from = (size_t)wants[0].offset, most = n - from;
        most = wants[0].most < most ? (size_t)wants[0].most : most;
        CHECK(vram_checkpoint_supply(*ck, "config.json", from, config + from, most) == VRAM_OK);
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    drawn = hash(data, size);
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    vram_status s = load(&ck, ctx, data, size);
    if (s == VRAM_OK)
        s = vram_model_new(&m, ck);
    if (s == VRAM_OK)
        judge(ctx, m);
    else
        CHECK(vram_last_error(ctx)->code == s);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
