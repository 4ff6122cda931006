/* SPDX-License-Identifier: MIT
 * Any bytes as the head of a GGUF file, behind eight that settings and cards are drawn from: the whole
 * answers of llama.cpp and Ollama on no card, one, two or three, with what is sought. What must hold: each
 * step answers or says why not, in words; memory is bounded and given back. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "vram.h"

#define NAME "model.gguf"
#define HOLE (UINT64_C(1) << 40) /* of data that is never read */
#define MOST_BYTES (256u << 20)
#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static uint64_t drawn; /* what is left to draw from */

static const char *draw(const char *const *list)
{
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    const char *one = list[drawn % n];
    drawn = drawn / n ^ drawn << 57;
    return one;
}

static void set(vram_workload *w, const char *key, const char *const *values)
{
    const char *value = draw(values);
    if (*value != '\0')
        CHECK(vram_workload_set(w, key, value) == VRAM_OK);
}

static void set_places(vram_workload *w)
{
    set(w, "tensor_split", LIST("", "", "1,3", "0,1", "1,0,2"));
    set(w, "split_mode", LIST("", "", "row", "none", "tensor"));
    set(w, "main_gpu", LIST("", "", "1", "63"));
    set(w, "override_tensor",
        LIST("", "", "exps=CPU", ".*=CUDA1", "(a|b)+(k|v)=CPU,out=CUDA0", "blk\\.[0-9]\\.=CUDA2"));
    set(w, "n_cpu_moe", LIST("", "", "1", "1000000"));
    set(w, "no_kv_offload", LIST("", "", "on"));
    set(w, "no_op_offload", LIST("", "", "on"));
}

static vram_workload *workload(vram_ctx *ctx, bool ollama)
{
    vram_workload *w;
    CHECK(vram_workload_new(&w, ctx, ollama ? "ollama" : "llama.cpp") == VRAM_OK);
    set(w, "engine_version", ollama ? LIST("", "0.5", "0.12", "0.30") : LIST("", "b2500", "b4000", "b6000"));
    set(w, "context", LIST("", "1", "5000", "10M"));
    set(w, "sequences", LIST("", "", "3", "256"));
    set(w, "n_gpu_layers", LIST("", "", "0", "1", "4294967295"));
    set(w, "ubatch_size", LIST("", "", "1", "77", "4194304"));
    set(w, "flash_attn", LIST("", "", "on", "off"));
    if (ollama) {
        set(w, "kv_cache_type", LIST("", "", "q8_0", "f32"));
        return w;
    }
    set(w, "cache_type_k", LIST("", "", "q8_0", "q4_0"));
    set(w, "cache_type_v", LIST("", "", "q8_0", "f32"));
    set(w, "tool", LIST("", "", "cli", "bench", "fit-params"));
    set(w, "kv_unified", LIST("", "", "on"));
    set(w, "swa_full", LIST("", "", "on"));
    set(w, "embedding", LIST("", "", "", "on"));
    set(w, "pooling", LIST("", "", "none", "mean", "rank"));
    set_places(w);
    return w;
}

static size_t cards(const vram_device *out[3], vram_ctx *ctx)
{
    size_t n = (size_t)(drawn % 4);
    for (size_t i = 0; i < n; i++) {
        vram_device *d;
        const char *card = draw(LIST("24GiB", "rtx-3060-12gb", "300MiB", "2GiB"));
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

static void judge(vram_ctx *ctx, const vram_model *m, bool ollama)
{
    const vram_style text = { .format = VRAM_TEXT, .verbose = 1 }, json = { .format = VRAM_JSON };
    const vram_device *list[3];
    vram_fit *f;
    vram_workload *w = workload(ctx, ollama);
    const char *goal =
        draw(LIST("", "", "ngl", "context", "sequences", "experts", "cache", "ubatch", "split"));
    size_t n = cards(list, ctx);
    if (*goal != '\0' && n != 0)
        CHECK(vram_workload_solve(w, goal) == VRAM_OK);
    vram_status s = vram_fit_new(&f, m, w, list, n);
    if (s == VRAM_OK) {
        CHECK(vram_fit_render(f, &text, ignore, NULL) == VRAM_OK);
        CHECK(vram_fit_render(f, &json, ignore, NULL) == VRAM_OK);
    } else {
        said(ctx, s);
    }
}

static vram_status load(vram_checkpoint **ck, vram_ctx *ctx, const uint8_t *head, size_t n)
{
    const vram_want *wants;
    vram_status s;
    CHECK(vram_checkpoint_new(ck, ctx, "fuzz") == VRAM_OK);
    CHECK(vram_checkpoint_add_file(*ck, NAME, n + HOLE) == VRAM_OK);
    CHECK(vram_checkpoint_listed(*ck) == VRAM_OK);
    while ((s = vram_checkpoint_step(*ck)) == VRAM_MORE) {
        CHECK(vram_checkpoint_wants(*ck, &wants) == 1);
        if (wants[0].offset + wants[0].least > n)
            return VRAM_EIO;
        size_t from = (size_t)wants[0].offset, most = n - from;
        most = wants[0].most < most ? (size_t)wants[0].most : most;
        CHECK(vram_checkpoint_supply(*ck, NAME, from, head + from, most) == VRAM_OK);
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_checkpoint *ck;
    vram_model *m;
    if (size < 8)
        return 0;
    memcpy(&drawn, data, 8);
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    vram_status s = load(&ck, ctx, data + 8, size - 8);
    if (s == VRAM_OK)
        s = vram_model_new(&m, ck);
    if (s == VRAM_OK)
        for (int ollama = 0; ollama < 2; ollama++)
            judge(ctx, m, ollama != 0);
    vram_close(ctx);
    CHECK(h.peak_bytes < MOST_BYTES);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
