/* SPDX-License-Identifier: MIT
 * Kinds of caches: what they keep, to the byte, and what is known of them. Event by event they are held
 * against recorded runs in test_oracle.c. */
#include "planned.h"

static const shape plain = { .model_type = "llama",
                             .layers = 2,
                             .hidden = 256,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 64,
                             .ffn = 512,
                             .vocab = 1000 };
static const shape sliding = { .model_type = "qwen2",
                               .layers = 2,
                               .hidden = 256,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .ffn = 512,
                               .vocab = 1000,
                               .window = 48,
                               .kinds = "sf",
                               .config = ", \"use_sliding_window\": true" };
#define TOKEN (UINT64_C(2) * 2 * 64 * 2) /* of one layer: keys and values x heads x width x bytes */

static void plan_shape(planned *p, const shape *s, const char *cache, const char *const (*more)[2], size_t n)
{
    open_world(&p->w, s);
    set(&p->w, "cache", cache);
    set(&p->w, "attention", "eager");
    set_number(&p->w, "context", 100);
    set_number(&p->w, "decode", 28);
    for (size_t i = 0; i < n; i++)
        set(&p->w, more[i][0], more[i][1]);
    if (make_plan(&p->w, &ampere, &p->plan, &p->arena) != VRAM_OK)
        fail_msg("%s", vram_last_error(p->w.ctx)->text);
}

static bool is_kept(const vr_tape *t, const vr_event *e)
{
    vr_str label = t->labels[e->label];
    return vr_str_ends(label, "key cache") || vr_str_ends(label, "value cache");
}

/* Bytes of keys and values that are there at that moment; *anew: how often such were taken up to it. */
static uint64_t kept_at(const vr_tape *t, vr_moment_id at, size_t *anew)
{
    uint64_t live = 0, *bytes = calloc(t->n_blocks + 1, sizeof *bytes);
    assert_non_null(bytes);
    *anew = 0;
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_MARK && e->bytes == at)
            break;
        if (e->kind == VR_EV_ALLOC) {
            bytes[e->block] = is_kept(t, e) ? e->bytes : 0; /* numbers of blocks are given again */
            live += bytes[e->block];
            *anew += is_kept(t, e);
        }
        if (e->kind == VR_EV_RELEASE)
            live -= bytes[e->block];
    }
    free(bytes);
    return live;
}

static size_t n_live_at_end(const vr_tape *t)
{
    size_t live = 0;
    bool loaded = false;
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        loaded = loaded || (e->kind == VR_EV_MARK && e->bytes == VR_AT_LOADED);
        live += loaded && e->kind == VR_EV_ALLOC && e->item != VR_ITEM_WORKSPACES;
        live -= loaded && e->kind == VR_EV_RELEASE;
    }
    return live;
}

/* Room for prompt and generated tokens from the first on, never taken anew. */
static void room_for_all(void **state)
{
    static const char *const three[][2] = { { "sequences", "3" }, { "prefill_batch", "2" } };
    planned p;
    size_t anew;
    (void)state;
    plan_shape(&p, &plain, "static", NULL, 0);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &anew), 2 * TOKEN * 128);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &anew), 2 * TOKEN * 128);
    assert_int_equal(anew, 4);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    close_planned(&p);
    plan_shape(&p, &plain, "static", three, 2);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &anew), 3 * 2 * TOKEN * 128);
    assert_int_equal(anew, 8);
    close_planned(&p);
    plan_shape(&p, &plain, "dynamic", NULL, 0);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &anew), 2 * TOKEN * 100);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &anew), 2 * TOKEN * 128);
    assert_int_equal(anew, 4 * 29);
    close_planned(&p);
}

static void no_more_than_the_window(void **state)
{
    planned p;
    size_t anew;
    (void)state;
    plan_shape(&p, &sliding, "static", NULL, 0);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &anew), TOKEN * (48 + 128));
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &anew), TOKEN * (48 + 128));
    assert_int_equal(anew, 4);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    assert_non_null(strstr(p.plan.formula[VR_KV_CACHE], "1 sliding layer with room for 48 tokens"));
    close_planned(&p);
}

/* What is recorded is verified; what is not has a band, or is not counted. */
static void what_is_known(void **state)
{
    static const struct {
        const char *setting[1][2];
        bool counted, verified;
    } cases[] = {
        { { { "attention", "eager" } }, true, true },
        { { { "attention", "sdpa" } }, true, false }, /* each step has a mask: another kernel */
        { { { "attention", "flash" } }, false, false },
        { { { "engine_version", "5.16" } }, false, false },
        { { { "engine_version", "5.24" } }, true, true },
    };
    planned p;
    size_t anew;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_shape(&p, &plain, "static", cases[i].setting, 1);
        assert_int_equal(p.plan.counted[VR_ACTIVATIONS], cases[i].counted);
        assert_int_equal(p.plan.verified, cases[i].verified);
        assert_true(p.plan.counted[VR_KV_CACHE]);
        close_planned(&p);
    }
    plan_shape(&p, &sliding, "static", cases[2].setting, 1);
    assert_int_equal(kept_at(&p.plan.tape, VR_MOMENT_COUNT, &anew), TOKEN * (48 + 128));
    close_planned(&p);
    plan_shape(&p, &sliding, "static", NULL, 0); /* qwen2 is not among those recorded */
    assert_false(p.plan.verified);
    close_planned(&p);
}

static uint64_t most_of(const vr_tape *t, const char *words)
{
    uint64_t most = 0;
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_ALLOC && vr_str_is(t->labels[e->label], words) && e->bytes > most)
            most = e->bytes;
    }
    return most;
}

/* Each sequence runs and is kept once for each beam, from the prompt on; the cache is taken anew after each
 * call, of a window only what the next token sees. */
static void beams(void **state)
{
    static const char *const four[][2] = { { "beams", "4" }, { "sequences", "3" } };
    planned p;
    size_t anew;
    (void)state;
    plan_shape(&p, &plain, "dynamic", four, 2);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &anew), 12 * 2 * TOKEN * 100);
    assert_int_equal(anew, 4 + 4);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &anew), 12 * 2 * TOKEN * 128);
    assert_int_equal(anew, (4 + 4) * 29);
    assert_int_equal(most_of(&p.plan.tape, "scores of beams"), 12 * 1000 * 4);
    assert_int_equal(most_of(&p.plan.tape, "tokens of beams"), 3 * 12 * (100 + 28 + 1) * 8);
    assert_int_equal(most_of(&p.plan.tape, "lm_head output"), 12 * 1000 * 2);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    assert_false(p.plan.verified);
    assert_true(p.plan.uncertain_permille > 0);
    close_planned(&p);
    plan_shape(&p, &sliding, "dynamic", four, 2);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &anew), 12 * TOKEN * (47 + 100));
    close_planned(&p);
    plan_shape(&p, &sliding, "static", four, 2);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &anew), 12 * TOKEN * (48 + 128));
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    close_planned(&p);
}

static void beams_that_are_not_known(void **state)
{
    static const char *const early[][2] = { { "beams", "2" }, { "engine_version", "4.57" } };
    static const char *const many[][2] = { { "beams", "65536" }, { "sequences", "1000000000000" } };
    planned p;
    size_t anew;
    (void)state;
    plan_shape(&p, &plain, "dynamic", early, 2);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_int_equal(kept_at(&p.plan.tape, VR_MOMENT_COUNT, &anew), 2 * TOKEN * 128 * 2 * 2); /* in fp32 */
    close_planned(&p);
    open_world(&p.w, &plain);
    for (size_t i = 0; i < 2; i++)
        set(&p.w, many[i][0], many[i][1]);
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ELIMIT);
    close_planned(&p);
    open_world(&p.w, &plain);
    set(&p.w, "beams", "2");
    set(&p.w, "logits", "all");
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ESETTING);
    close_planned(&p);
}

/* Most bytes of keys and values that are live at once up to that moment, and how often they came back to the
 * card on a stream of their own. */
static uint64_t most_kept(const vr_tape *t, vr_moment_id until, size_t *came_back)
{
    uint64_t live = 0, most = 0, *bytes = calloc(t->n_blocks + 1, sizeof *bytes);
    assert_non_null(bytes);
    *came_back = 0;
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_MARK && e->bytes == until)
            break;
        if (e->kind == VR_EV_ALLOC) {
            bytes[e->block] = is_kept(t, e) ? e->bytes : 0;
            live += bytes[e->block];
            *came_back += e->stream != 0;
        }
        if (e->kind == VR_EV_RELEASE)
            live -= bytes[e->block];
        most = live > most ? live : most;
    }
    free(bytes);
    return most;
}

/* Three layers: while one runs the next comes back; behind the last one the first waits for the next token.
 */
static void offloaded(void **state)
{
    static const char *const two[][2] = { { "sequences", "2" }, { "prefill_batch", "1" } };
    shape three = plain;
    planned p;
    size_t n;
    (void)state;
    three.layers = 3;
    plan_shape(&p, &three, "offloaded", NULL, 0);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &n), TOKEN * 100);
    assert_int_equal(most_kept(&p.plan.tape, VR_AT_PREFILL, &n), 2 * TOKEN * 100); /* the first, the last */
    assert_int_equal(n, 2);
    /* the last layer's new keys and values and its old values, and the first layer's */
    assert_int_equal(most_kept(&p.plan.tape, VR_AT_DECODE, &n), TOKEN * (128 + 128) + TOKEN / 2 * 127);
    assert_int_equal(n, 2 + 28 * 3 * 2);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    assert_false(p.plan.verified);
    assert_true(p.plan.counted[VR_ACTIVATIONS]);
    assert_non_null(strstr(p.plan.formula[VR_KV_CACHE], "in pinned host memory"));
    close_planned(&p);
    plan_shape(&p, &three, "offloaded_static", NULL, 0);
    assert_int_equal(most_kept(&p.plan.tape, VR_AT_DECODE, &n), 2 * TOKEN * 128);
    assert_int_equal(n, 2 + 28 * 3 * 2);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    close_planned(&p);
    plan_shape(&p, &three, "offloaded", two, 2); /* each batch has a cache and a stream */
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &n), 2 * TOKEN * 128);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    close_planned(&p);
}

/* A dynamic cache offloads windows too, a static one leaves them on the card. */
static void offloaded_windows(void **state)
{
    shape all = sliding;
    planned p;
    size_t n;
    (void)state;
    plan_shape(&p, &sliding, "offloaded", NULL, 0);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &n), TOKEN * 47); /* the first layer's window */
    close_planned(&p);
    plan_shape(&p, &sliding, "offloaded_static", NULL, 0);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &n), TOKEN * 48);
    /* the only one that goes comes back while the one before it runs */
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &n), TOKEN * 48);
    assert_int_equal(most_kept(&p.plan.tape, VR_AT_DECODE, &n), TOKEN * (48 + 128));
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    close_planned(&p);
    all.kinds = "ss";
    open_world(&p.w, &all);
    set(&p.w, "cache", "offloaded_static");
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(p.w.ctx)->text, "slide"));
    close_planned(&p);
}

/* Before caches had layers, and with beams, only what lies on the card is known. */
static void offloaded_but_not_known(void **state)
{
    static const char *const cases[][2][2] = {
        { { "engine_version", "4.55" }, { "dtype", "bf16" } },
        { { "beams", "2" }, { "dtype", "bf16" } },
    };
    shape three = plain;
    planned p;
    size_t n;
    (void)state;
    three.layers = 3;
    for (size_t i = 0; i < 2; i++) {
        plan_shape(&p, &three, "offloaded", cases[i], 2);
        assert_false(p.plan.counted[VR_ACTIVATIONS]);
        assert_true(p.plan.counted[VR_KV_CACHE]);
        assert_int_equal(kept_at(&p.plan.tape, VR_MOMENT_COUNT, &n), 2 * TOKEN * 128 * (i + 1));
        close_planned(&p);
    }
}

/* Of one layer's keys or values: 4 bits a number, a scale and a shift of 2 bytes for each 64. */
static void quantized(void **state)
{
    static const char *const two_bits[][2] = { { "cache_bits", "2" },
                                               { "cache_group_size", "32" },
                                               { "cache_residual_length", "8" } };
    planned p;
    size_t n;
    (void)state;
    plan_shape(&p, &plain, "quantized", NULL, 0);
    /* 2 heads x 64 x 100 tokens = 12,800 numbers: 6,400 bytes and 200 groups x 4 bytes */
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &n), 4 * (6400 + 800));
    assert_int_equal(n, 4 * 3);
    /* and 28 tokens as they are, fewer than 128 */
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &n), 4 * (6400 + 800) + 2 * TOKEN * 28);
    assert_int_equal(n, 4 * 3 + 4 * 28);
    assert_int_equal(most_of(&p.plan.tape, "model.layers.1.self_attn keys from the cache"), TOKEN / 2 * 128);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    assert_true(p.plan.counted[VR_ACTIVATIONS]);
    assert_false(p.plan.verified);
    assert_non_null(strstr(p.plan.formula[VR_KV_CACHE], "packed in 4 bits"));
    close_planned(&p);
    plan_shape(&p, &plain, "quantized", two_bits, 3);
    /* after 24 of 28 tokens all is packed: 15,872 numbers, 3,968 bytes and 496 groups x 4 */
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &n), 4 * (3968 + 1984) + 2 * TOKEN * 4);
    assert_int_equal(n, 4 * 3 * (1 + 3) + 4 * (28 - 3));
    close_planned(&p);
    plan_shape(&p, &plain, "quantized", (const char *const[][2]){ { "beams", "2" } }, 1);
    assert_false(p.plan.counted[VR_ACTIVATIONS]); /* a longer wait for the order of beams */
    close_planned(&p);
}

/* One byte each and a scale of 4 bytes; for each token all of a layer in 32 bits. */
static void quantized_to_fp8(void **state)
{
    static const char *const fp8[][2] = { { "cache_backend", "fp8" }, { "engine_version", "5.24" } };
    planned p;
    size_t n;
    (void)state;
    plan_shape(&p, &plain, "quantized", fp8, 2);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &n), 4 * (12800 + 4));
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &n), 4 * (128 * 128 + 4));
    assert_int_equal(n, 4 * 2 + 4 * 28);
    assert_int_equal(most_of(&p.plan.tape, "packing of keys or values"), 128 * 128 * 4);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    assert_false(p.plan.verified);
    close_planned(&p);
}

static void refused(const shape *s, const char *const (*settings)[2], size_t n, const char *words)
{
    world w;
    vr_plan plan;
    vr_arena arena;
    open_world(&w, s);
    set_number(&w, "context", 100);
    for (size_t i = 0; i < n; i++)
        set(&w, settings[i][0], settings[i][1]);
    assert_int_equal(make_plan(&w, &ampere, &plan, &arena), VRAM_ESETTING);
    if (strstr(vram_last_error(w.ctx)->text, words) == NULL)
        fail_msg("%s", vram_last_error(w.ctx)->text);
    vr_arena_free(&arena);
    close_world(&w);
}

static void quantized_but_refused(void **state)
{
    static const char *const settings[][2] = {
        { "cache", "quantized" },
        { "cache_bits", "8" },
        { "cache", "quantized" },
        { "cache_bits", "2" },
        { "cache_residual_length", "4" },
        { "cache", "quantized" },
        { "cache_group_size", "96" },
        { "cache_backend", "fp8" },
        { "cache", "quantized" },
        { "engine_version", "5.24" },
        { "cache_bits", "4" },
    };
    static const char *const early[][2] = { { "engine_version", "4.57" } };
    planned p;
    (void)state;
    refused(&plain, settings, 2, "2 or 4 bits");
    refused(&plain, settings + 3, 1, "--cache-bits: the cache is not a quantised one");
    refused(&plain, settings + 4, 1, "--residual-length: the cache is not a quantised one");
    refused(&plain, settings + 5, 2, "no multiple of groups of 96");
    refused(&plain, settings + 7, 2, "5.24 and newer");
    refused(&plain, settings + 7, 4, "takes no bits");
    refused(&sliding, settings, 1, "other kinds than full attention");
    plan_shape(&p, &sliding, "quantized", early,
               1); /* no check then; what is kept of a window is not known */
    assert_false(p.plan.counted[VR_KV_CACHE]);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    close_planned(&p);
}

/* Each call computes the next token and the drafts, whose keys and values stay in the storages until the next
 * call makes them anew. */
static void drafts(void **state)
{
    static const char *const ten[][2] = { { "prompt_lookup_num_tokens", "10" } };
    planned p;
    size_t n;
    (void)state;
    plan_shape(&p, &plain, "dynamic", ten, 1);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_PREFILL, &n), 2 * TOKEN * 110);
    assert_int_equal(kept_at(&p.plan.tape, VR_AT_DECODE, &n), 2 * TOKEN * (128 + 10));
    assert_int_equal(n, 4 * 29);
    assert_int_equal(most_of(&p.plan.tape, "lm_head output"), 11 * 1000 * 2);
    assert_int_equal(most_of(&p.plan.tape, "scores of drafts"), 11 * 1000 * 4);
    assert_int_equal(n_live_at_end(&p.plan.tape), 0);
    assert_true(p.plan.counted[VR_ACTIVATIONS]);
    assert_false(p.plan.verified);
    assert_non_null(strstr(p.plan.formula[VR_ACTIVATIONS], "10 drafted tokens more"));
    close_planned(&p);
    plan_shape(&p, &sliding, "dynamic", ten, 1);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_int_equal(kept_at(&p.plan.tape, VR_MOMENT_COUNT, &n), 2 * TOKEN * 138);
    close_planned(&p);
    plan_shape(&p, &plain, "static", ten, 1);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    close_planned(&p);
}

static void drafts_that_are_refused(void **state)
{
    static const char *const with[][2] = {
        { "prompt_lookup_num_tokens", "3" }, { "sequences", "2" },
        { "prompt_lookup_num_tokens", "3" }, { "beams", "2" },
        { "prompt_lookup_num_tokens", "3" }, { "logits", "all" },
        { "prompt_lookup_num_tokens", "3" }, { "cache", "quantized" },
    };
    static const char *const words[] = { "one sequence at a time", "with beams", "not --logits all",
                                         "nothing can be cut off" };
    (void)state;
    for (size_t i = 0; i < 4; i++)
        refused(&plain, with + 2 * i, 2, words[i]);
}

static size_t times(const vr_tape *t, const char *label)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->events[i].kind == VR_EV_ALLOC && vr_str_is(t->labels[t->events[i].label], label);
    return n;
}

/* A second model on the card: its weights, its cache, and what it computes before each call of the other. */
static void assisted(void **state)
{
    shape small = plain;
    world helper;
    planned p;
    size_t n;
    (void)state;
    small.layers = 1;
    open_world(&helper, &small);
    open_world(&p.w, &plain);
    set(&p.w, "attention", "eager");
    set(&p.w, "assistant_model", "small");
    set(&p.w, "num_assistant_tokens", "5");
    set_number(&p.w, "context", 100);
    set_number(&p.w, "decode", 28);
    assert_int_equal(vram_workload_assist(p.w.w, helper.m), VRAM_OK);
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_OK);
    const vr_tape *t = &p.plan.tape;
    assert_int_equal(times(t, "assistant model.embed_tokens.weight"), 1);
    assert_int_equal(times(t, "model.embed_tokens.weight"), 1);
    /* two layers of the one with its draft, and one layer of the other, which never reads its last token */
    assert_int_equal(kept_at(t, VR_AT_PREFILL, &n), 2 * TOKEN * 105 + TOKEN * 104);
    assert_int_equal(kept_at(t, VR_AT_DECODE, &n), 2 * TOKEN * 133 + TOKEN * 132);
    assert_int_equal(most_of(t, "scores of drafts"), 6 * 1000 * 4);
    assert_int_equal(times(t, "assistant model.layers.0.mlp.down_proj output"), 29 * 2);
    assert_int_equal(n_live_at_end(t), 0);
    assert_true(p.plan.counted[VR_ACTIVATIONS]);
    assert_false(p.plan.verified);
    assert_non_null(strstr(p.plan.formula[VR_WEIGHTS], "parameters of the assistant"));
    close_planned(&p);
    close_world(&helper);
}

static void assistants_that_are_refused(void **state)
{
    static const char *const with[][2] = {
        { "assistant_model", "small" },      { "sequences", "1" }, /* and it was not read */
        { "num_assistant_tokens", "3" },     { "sequences", "1" }, /* of none */
        { "prompt_lookup_num_tokens", "3" }, { "assistant_model", "" },
    };
    static const char *const words[] = { "was not read", "there is no --assistant", "not from both" };
    (void)state;
    for (size_t i = 0; i < 3; i++)
        refused(&plain, with + 2 * i, 2, words[i]);
}

/* What the assistant computes is not known: neither is what both do. */
static void assistants_that_are_not_known(void **state)
{
    shape other_words = plain;
    other_words.vocab++;
    const struct {
        const shape *helper;
        const char *why;
    } cases[] = { { &sliding, "other layers than full attention" }, { &other_words, "another vocabulary" } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world helper;
        planned p;
        open_world(&helper, cases[i].helper);
        open_world(&p.w, &plain);
        set(&p.w, "engine_version", "5.17");
        set(&p.w, "assistant_model", "small");
        assert_int_equal(vram_workload_assist(p.w.w, helper.m), VRAM_OK);
        assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_OK);
        assert_false(p.plan.counted[VR_ACTIVATIONS]);
        assert_non_null(strstr(p.plan.why_not[VR_ACTIVATIONS], cases[i].why));
        assert_false(p.plan.counted[VR_KV_CACHE]);
        assert_true(p.plan.counted[VR_WEIGHTS]);
        close_planned(&p);
        close_world(&helper);
    }
}

static void of_transformers_alone(void **state)
{
    world w;
    (void)state;
    open_world(&w, &plain);
    assert_int_equal(vram_workload_set(w.w, "cache_residual_length", "1"), VRAM_ESETTING);
    assert_int_equal(vram_workload_set(w.w, "cache_backend", "hqq"), VRAM_ESETTING);
    assert_int_equal(vram_workload_set(w.w, "cache", "sliding"), VRAM_ESETTING);
    set(&w, "engine", "vllm");
    assert_int_equal(vram_workload_set(w.w, "cache", "static"), VRAM_ESETTING);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_for_all),
        cmocka_unit_test(no_more_than_the_window),
        cmocka_unit_test(what_is_known),
        cmocka_unit_test(beams),
        cmocka_unit_test(beams_that_are_not_known),
        cmocka_unit_test(offloaded),
        cmocka_unit_test(offloaded_windows),
        cmocka_unit_test(offloaded_but_not_known),
        cmocka_unit_test(quantized),
        cmocka_unit_test(quantized_to_fp8),
        cmocka_unit_test(quantized_but_refused),
        cmocka_unit_test(drafts),
        cmocka_unit_test(drafts_that_are_refused),
        cmocka_unit_test(assisted),
        cmocka_unit_test(assistants_that_are_refused),
        cmocka_unit_test(assistants_that_are_not_known),
        cmocka_unit_test(of_transformers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
