/* SPDX-License-Identifier: MIT
 * Settings: every row of the table, its aliases, what is refused and how, what is filled in. */
#include "made.h"

/* ---- values ---- */

static void values(void **state)
{
    static const struct {
        const char *key, *value, *shown; /* shown NULL: refused */
        vr_setting setting;
    } rows[] = {
        { "context", "16K", "16384", VR_SET_CONTEXT },
        { "context", "16k", "16000", VR_SET_CONTEXT },
        { "context", "0", NULL, VR_SET_CONTEXT },
        { "context", "-1", NULL, VR_SET_CONTEXT },
        { "context", "many", NULL, VR_SET_CONTEXT },
        { "context", "1e300", NULL, VR_SET_CONTEXT },
        { "sequences", "8", "8", VR_SET_SEQUENCES },
        { "sequences", "0", NULL, VR_SET_SEQUENCES },
        { "prefill_batch", "1", "1", VR_SET_PREFILL_BATCH },
        { "decode", "0", "0", VR_SET_DECODE },
        { "decode", "128", "128", VR_SET_DECODE },
        { "dtype", "bf16", "bf16", VR_SET_DTYPE },
        { "dtype", "torch.bfloat16", "bf16", VR_SET_DTYPE },
        { "dtype", "half", "fp16", VR_SET_DTYPE },
        { "dtype", "float32", "fp32", VR_SET_DTYPE },
        { "dtype", "auto", "bf16", VR_SET_DTYPE },
        { "dtype", "int8", NULL, VR_SET_DTYPE },
        { "dtype", "float64", NULL, VR_SET_DTYPE },
        { "kv_cache_dtype", "auto", "auto", VR_SET_KV_DTYPE },
        { "kv_cache_dtype", "fp8", NULL, VR_SET_KV_DTYPE },
        { "attention", "sdpa", "sdpa", VR_SET_ATTENTION },
        { "attention", "eager", "eager", VR_SET_ATTENTION },
        { "attention", "flash_attention_2", "flash", VR_SET_ATTENTION },
        { "attention", "flex", NULL, VR_SET_ATTENTION },
        { "logits", "all", "all", VR_SET_LOGITS },
        { "logits", "first", NULL, VR_SET_LOGITS },
        { "device_map", "auto", "auto", VR_SET_DEVICE_MAP },
        { "device_map", "balanced", "balanced", VR_SET_DEVICE_MAP },
        { "device_map", "cuda:0", NULL, VR_SET_DEVICE_MAP },
        { "quantization", "bnb-4bit", "bnb-4bit", VR_SET_WEIGHT_QUANT },
        { "quantization", "awq", NULL, VR_SET_WEIGHT_QUANT },
        { "alloc_conf", "expandable_segments:True", "expandable_segments:True", VR_SET_ALLOC_CONF },
        { "alloc_conf", "expandable_segments", NULL, VR_SET_ALLOC_CONF },
        { "engine", "transformers", NULL, VR_SETTING_COUNT },
        { "engine_version", "4.57.6", "4.57", VR_SET_ENGINE_VERSION },
        { "engine_version", "v5.24", "5.24", VR_SET_ENGINE_VERSION },
        { "engine_version", "5.24+torch2.15", "5.24+torch2.15", VR_SET_ENGINE_VERSION },
        { "engine_version", "5.24+torch-2.9.1", "5.24+torch2.9", VR_SET_ENGINE_VERSION },
        { "engine_version", "5", NULL, VR_SET_ENGINE_VERSION },
        { "engine_version", "4.30", NULL, VR_SET_ENGINE_VERSION },
        { "engine_version", "5.24+jax", NULL, VR_SET_ENGINE_VERSION },
        { "engine_version", "5.24+torch1.13", NULL, VR_SET_ENGINE_VERSION },
        { "engine_version", "", NULL, VR_SET_ENGINE_VERSION },
        { "no_such_thing", "1", NULL, VR_SETTING_COUNT },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        vram_workload *r;
        vr_arena a;
        open_world(&w, &small_llama);
        vr_arena_init(&a, w.ctx);
        set(&w, "engine", "transformers");
        vram_status s = vram_workload_set(w.w, rows[i].key, rows[i].value);
        if (rows[i].setting == VR_SETTING_COUNT) {
            assert_int_equal(s, strcmp(rows[i].key, "engine") == 0 ? VRAM_OK : VRAM_ESETTING);
        } else if (rows[i].shown == NULL) {
            assert_int_equal(s, VRAM_ESETTING);
            assert_int_equal(vram_last_error(w.ctx)->code, VRAM_ESETTING);
        } else {
            assert_int_equal(s, VRAM_OK);
            assert_int_equal(vr_workload_resolve(&r, w.w, w.m, &a), VRAM_OK);
            assert_string_equal(vr_workload_value(r, rows[i].setting, &a), rows[i].shown);
            assert_int_equal(r->set_by[rows[i].setting], VR_BY_USER);
        }
        vr_arena_free(&a);
        close_world(&w);
    }
}

/* ---- the table ---- */

static bool has_flag(const char *key, const char *flag)
{
    const vram_option *row;
    for (size_t i = 0; (row = vram_workload_option(i)) != NULL; i++) {
        vr_str rest = vr_str_of(row->flags), word;
        while (strcmp(row->key, key) == 0 && vr_str_split(&rest, ' ', &word)) {
            if (vr_str_is(word, flag))
                return true;
        }
    }
    return false;
}

static void flags(void **state)
{
    static const char *const known[][2] = {
        { "context", "--context" },
        { "context", "-c" },
        { "context", "--max-model-len" },
        { "context", "--ctx-size" },
        { "context", "--num-ctx" },
        { "sequences", "--sequences" },
        { "sequences", "--max-num-seqs" },
        { "sequences", "-np" },
        { "dtype", "--dtype" },
        { "dtype", "--torch-dtype" },
        { "attention", "--attention" },
        { "attention", "--attn-implementation" },
        { "logits", "--logits" },
        { "device_map", "--device-map" },
        { "decode", "--decode" },
        { "prefill_batch", "--prefill-batch" },
        { "alloc_conf", "--alloc-conf" },
        { "kv_cache_dtype", "--kv-cache-dtype" },
        { "engine", "--engine" },
        { "engine_version", "--engine-version" },
        { "quantization", "--quantization" },
    };
    const vram_option *row;
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        assert_true(has_flag(known[i][0], known[i][1]));
    for (size_t i = 0; (row = vram_workload_option(i)) != NULL; i++) {
        size_t k = strlen(row->help);
        assert_true(k > 10 && row->help[k - 1] == '.'); /* one sentence */
        assert_true(row->type != VRAM_OPT_CHOICE || row->choices != NULL);
        assert_non_null(strstr(row->commands, "fit"));
    }
}

/* Every setting has a row, a key and a value that reads back. */
static void settings(void **state)
{
    world w;
    vram_workload *r;
    vr_arena a;
    (void)state;
    open_world(&w, &small_llama);
    vr_arena_init(&a, w.ctx);
    assert_int_equal(vr_workload_resolve(&r, w.w, w.m, &a), VRAM_OK);
    for (int s = 0; s < VR_SETTING_COUNT; s++) {
        size_t found = 0;
        const vram_option *row;
        const char *value = vr_workload_value(r, (vr_setting)s, &a);
        for (size_t i = 0; (row = vram_workload_option(i)) != NULL; i++)
            found += strcmp(row->key, vr_setting_key((vr_setting)s)) == 0;
        assert_int_equal(found, 1);
        if (!vr_engine_has(r->engine, (vr_setting)s))
            continue;
        assert_true(value[0] != '\0' || s == VR_SET_ALLOC_CONF || s == VR_SET_HOST_MEMORY ||
                    s == VR_SET_IMAGE_SIZE || s == VR_SET_ASSISTANT || s == VR_SET_ASSISTANT_TOKENS ||
                    (s >= VR_SET_CACHE_BACKEND && s <= VR_SET_CACHE_RESIDUAL));
        if (value[0] != '\0')
            assert_int_equal(vram_workload_set(w.w, vr_setting_key((vr_setting)s), value), VRAM_OK);
    }
    vr_arena_free(&a);
    close_world(&w);
}

/* ---- what is filled in ---- */

typedef struct filled {
    world w;
    vr_arena a;
    vram_workload *r;
    vram_status status;
} filled;

static void fill(filled *f, const shape *s, const char *const (*sets)[2])
{
    open_world(&f->w, s);
    vr_arena_init(&f->a, f->w.ctx);
    for (size_t i = 0; sets != NULL && sets[i][0] != NULL; i++)
        set(&f->w, sets[i][0], sets[i][1]);
    f->status = vr_workload_resolve(&f->r, f->w.w, f->w.m, &f->a);
}

static void done(filled *f)
{
    vr_arena_free(&f->a);
    close_world(&f->w);
}

static void defaults(void **state)
{
    filled f;
    (void)state;
    fill(&f, &small_llama, NULL);
    assert_int_equal(f.status, VRAM_OK);
    assert_int_equal(f.r->context, 4096);
    assert_int_equal(f.r->sequences, 1);
    assert_int_equal(f.r->prefill_batch, 1);
    assert_int_equal(f.r->dtype, VR_BF16);
    assert_int_equal(f.r->set_by[VR_SET_DTYPE], VR_BY_MODEL);
    assert_int_equal(f.r->logits, VR_LOGITS_LAST);
    assert_string_equal(vr_workload_value(f.r, VR_SET_ENGINE_VERSION, &f.a), "5.17");
    assert_int_equal(f.r->set_by[VR_SET_ENGINE_VERSION], VR_BY_DEFAULT);
    done(&f);
}

/* Before version 5 weights became fp32 unless a dtype was given; "auto" takes the stored one in every
 * version. */
static void dtype_by_version(void **state)
{
    static const char *const old[][2] = { { "engine_version", "4.57" }, { NULL, NULL } };
    static const char *const old_auto[][2] = { { "engine_version", "4.57" },
                                               { "dtype", "auto" },
                                               { NULL, NULL } };
    filled f;
    (void)state;
    fill(&f, &small_llama, old);
    assert_int_equal(f.r->dtype, VR_F32);
    assert_int_equal(f.r->set_by[VR_SET_DTYPE], VR_BY_DEFAULT);
    done(&f);
    fill(&f, &small_llama, old_auto);
    assert_int_equal(f.r->dtype, VR_BF16);
    done(&f);
}

/* gemma2 caps its scores, which sdpa cannot: refused from 5.21 on, eager unless told otherwise. */
static void gemma2_attention(void **state)
{
    static const char *const newest[][2] = { { "engine_version", "5.24" }, { NULL, NULL } };
    static const char *const asked[][2] = { { "engine_version", "5.24" },
                                            { "attention", "sdpa" },
                                            { NULL, NULL } };
    shape s = small_llama;
    filled f;
    (void)state;
    s.model_type = "gemma2";
    s.window = 4096;
    fill(&f, &s, newest);
    assert_int_equal(f.r->attention, VR_IMPL_EAGER);
    done(&f);
    fill(&f, &s, asked);
    assert_int_equal(f.status, VRAM_ESETTING);
    done(&f);
    fill(&f, &s, NULL);
    assert_int_equal(f.r->attention, VR_IMPL_SDPA);
    done(&f);
}

static void contradictions(void **state)
{
    static const char *const batch[][2] = { { "sequences", "2" }, { "prefill_batch", "3" }, { NULL, NULL } };
    static const char *const long_context[][2] = { { "context", "40000" }, { NULL, NULL } };
    filled f;
    (void)state;
    fill(&f, &small_llama, batch);
    assert_int_equal(f.status, VRAM_ESETTING);
    done(&f);
    fill(&f, &small_llama, long_context); /* of a model made for 32,768 */
    assert_int_equal(f.status, VRAM_OK);
    assert_true(warned(&f.w, "40,000 tokens are more than the 32,768"));
    done(&f);
}

static void newer_than_known(void **state)
{
    filled f;
    static const char *const future[][2] = { { "engine_version", "7.1" }, { NULL, NULL } };
    (void)state;
    fill(&f, &small_llama, future);
    assert_true(warned(&f.w, "newer than what is known"));
    done(&f);
}

static void engines(void **state)
{
    world w;
    vram_workload *other;
    (void)state;
    open_world(&w, &small_llama);
    assert_int_equal(vram_workload_new(&other, w.ctx, "transformers"), VRAM_OK);
    assert_int_equal(vram_workload_new(&other, w.ctx, "no-such-engine"), VRAM_ESETTING);
    assert_null(vr_engine_find(VR_LIT("no-such-engine")));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),           cmocka_unit_test(flags),
        cmocka_unit_test(settings),         cmocka_unit_test(defaults),
        cmocka_unit_test(dtype_by_version), cmocka_unit_test(gemma2_attention),
        cmocka_unit_test(contradictions),   cmocka_unit_test(newer_than_known),
        cmocka_unit_test(engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
