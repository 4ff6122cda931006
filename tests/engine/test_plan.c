/* SPDX-License-Identifier: MIT
 * Plans of all kinds: what is loaded and how, what is counted, workspaces, quantised weights, properties that
 * hold for every tape, limits, and the failure of any allocation. */
#include "engine/loading.h"
#include "made.h"
#include "rehearsal/rehearsal.h"

static const shape tiny = { .model_type = "llama",
                            .layers = 3,
                            .hidden = 64,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 16,
                            .ffn = 128,
                            .vocab = 256,
                            .tied = false };

typedef struct made {
    world w;
    vr_plan plan;
    vr_arena a;
    vram_status status;
} made;

typedef const char *const settings[][2];

static void make(made *p, const shape *s, const char *const (*sets)[2], const vr_device_facts *device)
{
    open_world(&p->w, s);
    for (size_t i = 0; sets != NULL && sets[i][0] != NULL; i++)
        set(&p->w, sets[i][0], sets[i][1]);
    p->status = make_plan(&p->w, device != NULL ? device : &ampere, &p->plan, &p->a);
}

static void done(made *p)
{
    vr_arena_free(&p->a);
    close_world(&p->w);
}

static bool label_is(const vr_tape *t, const vr_event *e, const char *text)
{
    return vr_str_is(t->labels[e->label], text);
}

/* The nth allocation of an item, or NULL. */
static const vr_event *nth(const vr_tape *t, vr_item item, size_t n)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->events[i].kind == VR_EV_ALLOC && t->events[i].item == item && n-- == 0)
            return &t->events[i];
    }
    return NULL;
}

static const vr_event *labelled(const vr_tape *t, const char *text)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->events[i].kind == VR_EV_ALLOC && label_is(t, &t->events[i], text))
            return &t->events[i];
    }
    return NULL;
}

static void rehearse(made *p, vr_rehearsal *run)
{
    vr_alloc_conf conf = { 0 };
    vr_stage stage = { .alloc = &conf, .available = UINT64_MAX };
    vr_arena scratch;
    vr_arena_init(&scratch, p->w.ctx);
    assert_int_equal(vr_rehearse(run, &p->plan.tape, &stage, &scratch), VRAM_OK);
    vr_arena_free(&scratch);
}

/* ---- loading ---- */

#define LOOK (2 * VR_MIB) /* the segment that stays of looking at the card before the map is made */

static shape wordy(void)
{
    shape s = tiny;
    s.vocab = 65536;
    return s;
}

/* Version 5 loads in natural order after one block of everything; the head of an untied model counts. */
static void device_map(void **state)
{
    settings sets = { { "device_map", "auto" }, { NULL, NULL } };
    shape s = wordy();
    made p;
    (void)state;
    make(&p, &s, sets, NULL);
    assert_int_equal(nth(&p.plan.tape, VR_ITEM_WARMUP, 0)->bytes, 8);
    const vr_event *warm = nth(&p.plan.tape, VR_ITEM_WARMUP, 1);
    assert_non_null(warm);
    assert_int_equal(warm->bytes, p.plan.weight_bytes - LOOK);
    assert_int_equal(warm[1].kind, VR_EV_RELEASE);
    assert_true(label_is(&p.plan.tape, nth(&p.plan.tape, VR_ITEM_PARAMETERS, 0), "lm_head.weight"));
    assert_true(
        label_is(&p.plan.tape, nth(&p.plan.tape, VR_ITEM_PARAMETERS, 1), "model.embed_tokens.weight"));
    assert_true(label_is(&p.plan.tape, nth(&p.plan.tape, VR_ITEM_PARAMETERS, 2),
                         "model.layers.0.input_layernorm.weight"));
    assert_false(p.plan.verified);
    done(&p);
}

/* Version 4: the head is left out of the block even when it is not tied; tensors are converted on the card.
 */
static void device_map_of_4(void **state)
{
    settings sets = { { "device_map", "auto" }, { "engine_version", "4.57" }, { NULL, NULL } };
    settings early = { { "device_map", "auto" }, { "engine_version", "4.49" }, { NULL, NULL } };
    shape s = wordy();
    made p;
    (void)state;
    make(&p, &s, sets, NULL);
    assert_int_equal(nth(&p.plan.tape, VR_ITEM_WARMUP, 1)->bytes,
                     p.plan.weight_bytes - s.vocab * 64 * 4 - LOOK);
    const vr_event *stored = nth(&p.plan.tape, VR_ITEM_PARAMETERS, 0);
    assert_true(label_is(&p.plan.tape, stored, "lm_head.weight"));
    assert_int_equal(stored[0].bytes, s.vocab * 64 * 2); /* bfloat16, as stored */
    assert_int_equal(stored[1].bytes, s.vocab * 64 * 4); /* float32, the default */
    assert_int_equal(stored[2].kind, VR_EV_RELEASE);
    done(&p);
    make(&p, &s, early, NULL);
    assert_null(nth(&p.plan.tape, VR_ITEM_WARMUP, 1));
    done(&p);
}

/* The block leaves 1.2 GiB of the card (issue 37436 of transformers), before 5.2 of what is free and not idle
 * already. */
static void warmup_is_cut(void **state)
{
    settings sets = { { "device_map", "auto" }, { NULL, NULL } };
    settings of_4 = { { "device_map", "auto" }, { "engine_version", "4.57" }, { NULL, NULL } };
    shape s = { .model_type = "llama",
                .layers = 32,
                .hidden = 4096,
                .heads = 32,
                .kv_heads = 32,
                .head_dim = 128,
                .ffn = 11008,
                .vocab = 32000 };
    made p;
    (void)state;
    make(&p, &s, sets, NULL);
    assert_int_equal(nth(&p.plan.tape, VR_ITEM_WARMUP, 1)->spare, 1288490188);
    assert_true(nth(&p.plan.tape, VR_ITEM_WARMUP, 1)->of_total);
    done(&p);
    make(&p, &s, of_4, NULL);
    assert_int_equal(nth(&p.plan.tape, VR_ITEM_WARMUP, 1)->spare, 1288490188 + LOOK);
    assert_false(nth(&p.plan.tape, VR_ITEM_WARMUP, 1)->of_total);
    done(&p);
}

/* Trifles: a small tensor that the class does not have, a norm that the checkpoint does not have. */
static void undeclared_and_missing(void **state)
{
    shape s = tiny;
    made p;
    (void)state;
    s.extra = "model.layers.0.mystery.weight";
    s.skip = "model.layers.1.input_layernorm.weight";
    make(&p, &s, NULL, NULL);
    assert_int_equal(p.status, VRAM_OK);
    assert_null(p.plan.refused);
    assert_true(warned(&p.w, "1 tensor of the checkpoint is not part of LlamaForCausalLM"));
    assert_true(warned(&p.w, "model.layers.0.mystery.weight"));
    assert_true(warned(&p.w, "model.layers.1.input_layernorm.weight"));
    assert_null(labelled(&p.plan.tape, "model.layers.0.mystery.weight"));
    assert_non_null(labelled(&p.plan.tape, "model.layers.1.input_layernorm.weight"));
    assert_int_equal(p.plan.weight_bytes, p.w.n_data - 100 * 2 + 64 * 2);
    assert_int_equal(p.plan.basis[VR_WEIGHTS], VR_BASIS_ASSUMED);
    assert_non_null(strstr(p.plan.formula[VR_WEIGHTS], "1 tensor is not stored"));
    for (int c = 0; c < VR_CATEGORY_COUNT; c++)
        assert_true(p.plan.counted[c]);
    done(&p);
}

/* ---- a checkpoint that is not of the class ---- */

/* What is stored is counted, nothing else, and the reason says what and where. */
static void expect_refused(const shape *s, const char *first, const char *second)
{
    vr_rehearsal run;
    made p;
    make(&p, s, NULL, NULL);
    if (p.status != VRAM_OK)
        fail_msg("%s", vram_last_error(p.w.ctx)->text);
    if (p.plan.refused == NULL || strstr(p.plan.refused, first) == NULL ||
        strstr(p.plan.refused, second) == NULL)
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"",
                 p.plan.refused != NULL ? p.plan.refused : "(nothing)", first, second);
    assert_false(p.plan.counted[VR_KV_CACHE]);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_string_equal(p.plan.why_not[VR_KV_CACHE], p.plan.refused);
    assert_true(p.plan.counted[VR_WEIGHTS]);
    assert_false(p.plan.verified);
    assert_int_equal(p.plan.weight_bytes, p.w.n_data);
    rehearse(&p, &run);
    assert_int_equal(run.n_moments, 2);
    done(&p);
}

/* from_pretrained: "size mismatch", whatever the parameter. */
static void other_shapes(void **state)
{
    static const struct {
        const char *model_type, *name;
        unsigned long long rows, columns;
        const char *stored, *wanted;
    } rows[] = {
        { "llama", "model.norm.weight", UINT64_C(1) << 34, 0, "[17179869184]", "[64]" },
        { "llama", "model.norm.weight", 64, 1, "[64, 1]", "[64]" },
        { "llama", "model.layers.2.post_attention_layernorm.weight", 63, 0, "[63]", "[64]" },
        { "llama", "lm_head.weight", 255, 64, "[255, 64]", "[256, 64]" },
        { "llama", "lm_head.weight", UINT64_C(1) << 27, 64, "[134217728, 64]", "[256, 64]" },
        { "qwen2", "model.layers.1.self_attn.q_proj.bias", UINT64_C(1) << 30, 0, "[1073741824]", "[64]" },
        { "qwen2", "model.layers.1.self_attn.k_proj.bias", 1, 0, "[1]", "[32]" },
        { "gemma2", "model.layers.0.pre_feedforward_layernorm.weight", 65, 0, "[65]", "[64]" },
        { "gemma2", "model.layers.2.post_feedforward_layernorm.weight", 65, 0, "[65]", "[64]" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        shape s = tiny;
        char place[128];
        s.model_type = rows[i].model_type;
        s.window = strcmp(s.model_type, "gemma2") == 0 ? 64 : 0;
        s.other = rows[i].name;
        s.other_rows = rows[i].rows;
        s.other_columns = rows[i].columns;
        snprintf(place, sizeof(place), "%s in model.safetensors is %s", rows[i].name, rows[i].stored);
        expect_refused(&s, place, rows[i].wanted);
    }
}

/* Every declared parameter of every class, none left out: one row more is one too many. */
static void any_shape(void **state)
{
    static const char *const models[] = { "llama", "mistral", "qwen2",      "qwen3",
                                          "phi3",  "gemma2",  "gemma3_text" };
    (void)state;
    for (size_t k = 0; k < 7; k++) {
        shape s = tiny;
        world all;
        s.model_type = models[k];
        s.window = strcmp(models[k], "llama") != 0 ? 64 : 0;
        s.tied = strncmp(models[k], "gemma", 5) == 0;
        make_world(&all, &s);
        for (size_t i = 0; i < all.n; i++) {
            made p;
            s.other = all.list[i].name;
            s.other_rows = all.list[i].rows + 1;
            s.other_columns = all.list[i].columns;
            make(&p, &s, NULL, NULL);
            assert_int_equal(p.status, VRAM_OK);
            if (p.plan.counted[VR_KV_CACHE] || p.plan.counted[VR_ACTIVATIONS])
                fail_msg("%s: %s with a row more is taken for true", models[k], s.other);
            done(&p);
        }
        free(all.header);
        free(all.list);
    }
}

/* config.json overruled by the tensors: a class built from it does not load them. */
static void sizes_of_config(void **state)
{
    shape s = tiny;
    (void)state;
    s.other = "model.embed_tokens.weight";
    s.other_rows = 300;
    s.other_columns = 64;
    expect_refused(&s, "vocab_size is 256 by config.json", "makes it 300");
}

static void tied_head(void **state)
{
    shape s = tiny;
    made p;
    (void)state;
    s.tied = true;
    s.other = "lm_head.weight";
    s.other_rows = 500;
    s.other_columns = 64;
    expect_refused(&s, "lm_head.weight in model.safetensors is [500, 64]", "[256, 64]");
    s.other_rows = 256;
    make(&p, &s, NULL, NULL);
    assert_null(p.plan.refused);
    assert_true(warned(&p.w, "counted once"));
    assert_int_equal(p.plan.weight_bytes, p.w.n_data - 256 * 64 * 2);
    done(&p);
    /* modeling_utils.py, tie_weights: where only the head is stored, the embeddings are tied to it */
    s.skip = "model.embed_tokens.weight";
    make(&p, &s, NULL, NULL);
    assert_null(p.plan.refused);
    assert_int_equal(p.plan.weight_bytes, p.w.n_data);
    done(&p);
}

static void other_dtypes(void **state)
{
    shape s = tiny;
    made p;
    (void)state;
    s.dtype = "I64";
    expect_refused(&s, "model.embed_tokens.weight in model.safetensors is I64", "floating numbers");
    s.dtype = "F64"; /* is converted as it comes in */
    make(&p, &s, NULL, NULL);
    assert_null(p.plan.refused);
    assert_int_equal(p.plan.weight_bytes, p.w.n_data / 4);
    done(&p);
}

static void half_a_checkpoint(void **state)
{
    static const char *const skipped[] = { "model.layers.1.mlp.up_proj.weight", "lm_head.weight",
                                           "model.embed_tokens.weight" };
    shape s = tiny;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        s.skip = skipped[i];
        expect_refused(&s, "1 tensor of LlamaForCausalLM is not in the checkpoint", skipped[i]);
    }
    s.skip = NULL;
    s.config = ",\"num_hidden_layers\": 200"; /* the last one counts */
    expect_refused(&s, "1,773 tensors of LlamaForCausalLM are not in the checkpoint",
                   "model.layers.3.self_attn.q_proj.weight");
    s.config = ",\"model_type\": \"phi3\"";
    expect_refused(&s, "tensors of Phi3ForCausalLM are not in", "model.layers.0.self_attn.qkv_proj.weight");
}

/* Up to a hundredth of the bytes is a trifle; layers that predict further tokens are left out by all. */
static void more_than_the_class(void **state)
{
    static const struct {
        const char *name, *config;
        unsigned long long rows;
        bool refused;
    } rows[] = {
        { "model.layers.0.mlp.experts.0.up_proj.weight", NULL, UINT64_C(1) << 26, true },
        { "visual.blocks.0.attn.qkv.weight", NULL, 100, true },
        { "model.layers.3.mlp.up_proj.weight", NULL, 100, true },
        { "model.layers.3.mlp.up_proj.weight", ",\"num_nextn_predict_layers\": 1", 100, false },
        { "model.layers.4.mlp.up_proj.weight", ",\"num_nextn_predict_layers\": 1", 100, true },
        { "mtp.layers.0.mlp.up_proj.weight", NULL, 100, false },
        { "model.layers.0.self_attn.rotary_emb.inv_freq", NULL, 100, false },
        { "visual.blocks.0.attn.qkv.weight", NULL, 10, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        shape s = tiny;
        made p;
        s.extra = rows[i].name;
        s.extra_rows = rows[i].rows;
        s.config = rows[i].config;
        if (rows[i].refused) {
            expect_refused(&s, "the checkpoint is not of LlamaForCausalLM", rows[i].name);
            continue;
        }
        make(&p, &s, NULL, NULL);
        assert_null(p.plan.refused);
        assert_int_equal(p.plan.weight_bytes, p.w.n_data - rows[i].rows * 100 * 2);
        done(&p);
    }
}

/* torch.set_default_dtype takes floating types of 16 bits and more. */
static void dtype_of_no_parameter(void **state)
{
    static const char *const words[] = { "int8", "float8_e4m3fn", "int64", "bool", "torch.float8_e5m2" };
    settings four = { { "engine_version", "4.57" }, { NULL, NULL } };
    settings given = { { "dtype", "fp16" }, { NULL, NULL } };
    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        shape s = tiny;
        char config[64];
        made p;
        snprintf(config, sizeof(config), ",\"dtype\": \"%s\"", words[i]);
        s.config = config;
        make(&p, &s, NULL, NULL);
        assert_int_equal(p.status, VRAM_EUNSUPPORTED);
        const vram_error *e = vram_last_error(p.w.ctx);
        assert_string_equal(e->file, "config.json");
        assert_int_equal(e->offset, strstr(p.w.config, "\"dtype\"") + strlen("\"dtype\": ") - p.w.config);
        assert_non_null(strstr(e->text, words[i]));
        done(&p);
        make(&p, &s, given, NULL);
        assert_int_equal(p.status, VRAM_OK);
        done(&p);
        make(&p, &s, four, NULL); /* float32 unless told otherwise */
        assert_int_equal(p.status, VRAM_OK);
        done(&p);
    }
}

/* 2 B become 4, embeddings that are tied stay one storage. */
static void load_dtype(void **state)
{
    settings sets = { { "dtype", "float32" }, { NULL, NULL } };
    shape s = tiny;
    made p;
    (void)state;
    s.tied = true;
    make(&p, &s, sets, NULL);
    assert_int_equal(p.plan.weight_bytes, 2 * p.w.n_data);
    assert_int_equal(p.plan.n_parameters, p.w.n_data / 2);
    assert_null(labelled(&p.plan.tape, "lm_head.weight"));
    done(&p);
}

/* ---- what is not understood ---- */

static void unknown_class(void **state)
{
    shape s = tiny;
    vr_rehearsal run;
    made p;
    (void)state;
    s.model_type = "zzz";
    make(&p, &s, NULL, NULL);
    assert_int_equal(p.status, VRAM_OK);
    assert_int_equal(p.plan.weight_bytes, p.w.n_data);
    assert_false(p.plan.counted[VR_KV_CACHE]);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_non_null(p.plan.why_not[VR_KV_CACHE]);
    assert_true(p.plan.counted[VR_WEIGHTS]);
    assert_false(p.plan.verified);
    rehearse(&p, &run);
    assert_int_equal(run.n_moments, 2); /* context, loaded */
    assert_int_equal(run.peak.items[VR_ITEM_PARAMETERS], p.w.n_data);
    done(&p);
}

static void quantised_checkpoint(void **state)
{
    shape s = tiny;
    vr_rehearsal run;
    made p;
    (void)state;
    vr_device_facts ada = { .cc_major = 8, .cc_minor = 9, .usable = UINT64_MAX, .available = UINT64_MAX };
    settings before = { { "engine_version", "4.57" }, { NULL, NULL } };
    s.dtype = "F8_E4M3";
    make(&p, &s, NULL, NULL); /* 8.6 cannot do with FP8 */
    assert_int_equal(p.plan.weight_bytes, 2 * p.w.n_data);
    assert_non_null(strstr(p.plan.notice, "unpacked to 16 bits"));
    assert_null(p.plan.stops);
    done(&p);
    make(&p, &s, before, NULL);
    assert_non_null(strstr(p.plan.stops, "compute capability >= 8.9"));
    done(&p);
    make(&p, &s, NULL, &ada);
    assert_int_equal(p.status, VRAM_OK);
    assert_int_equal(p.plan.weight_bytes, p.w.n_data);
    assert_string_equal(p.plan.notice, "");
    assert_true(p.plan.counted[VR_KV_CACHE]);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    rehearse(&p, &run);
    assert_int_equal(run.peak.items[VR_ITEM_KV], UINT64_C(2) * 3 * 2 * 16 * 2 * 4096);
    done(&p);
}

/* ---- bitsandbytes: n + 4 x rows, and n / 2 + 4 n / 64 + 64 a linear layer; the rest stays in 16 bits ----
 */

static void bitsandbytes(void **state)
{
    settings eight = { { "quantization", "bnb-8bit" }, { NULL, NULL } };
    settings four = { { "quantization", "bnb-4bit" }, { NULL, NULL } };
    settings twice = { { "quantization", "bnb-4bit-dq" }, { NULL, NULL } };
    uint64_t attention = 64 * 64 + 2 * 32 * 64 + 64 * 64, mlp = 3 * 128 * 64, n = 3 * (attention + mlp);
    uint64_t rows = 3 * (64 + 32 + 32 + 64 + 128 + 128 + 64), rest = (2 * 256 * 64 + 7 * 64) * 2;
    made p;
    (void)state;
    make(&p, &tiny, eight, NULL);
    assert_int_equal(p.plan.weight_bytes, n + 4 * rows + rest);
    assert_int_equal(p.plan.basis[VR_WEIGHTS], VR_BASIS_FORMULA);
    assert_int_equal(p.plan.basis[VR_ACTIVATIONS], VR_BASIS_FORMULA);
    done(&p);
    make(&p, &tiny, four, NULL);
    assert_int_equal(p.plan.weight_bytes, n / 2 + n / 64 * 4 + 3 * 7 * 64 + rest);
    assert_false(p.plan.verified);
    assert_true(p.plan.uncertain_permille > 0);
    done(&p);
    make(&p, &tiny, twice, NULL); /* a scale is a byte; an offset, and a scale of up to 256 of them */
    assert_int_equal(p.plan.weight_bytes, n / 2 + n / 64 + 3 * 7 * (64 + 4 + 4) + rest);
    done(&p);
    assert_int_equal(vr_bnb_packed(VR_QUANT_BNB_4BIT, 15),
                     8); /* functional.py, quantize_4bit: (n + 1) // 2 */
    assert_int_equal(vr_bnb_packed(VR_QUANT_BNB_4BIT_DQ, 15), 8);
    assert_int_equal(vr_bnb_packed(VR_QUANT_BNB_8BIT, 15), 15);
}

/* ---- workspaces (ATen/cuda/CublasHandlePool.cpp) ---- */

static void workspaces(void **state)
{
    static const struct {
        unsigned major;
        const char *version;
        uint64_t blas, lt; /* 0: none */
    } rows[] = {
        { 8, "5.17", 8519680, 1048576 },       { 9, "5.17", 33554432, 1048576 },
        { 12, "5.17", 8519680, 1048576 },      { 12, "5.17+torch2.11", 33554432, 1048576 },
        { 10, "5.17+torch2.13", 33554432, 0 }, { 8, "5.17+torch2.13", 8519680, 0 },
        { 0, "5.17", 8519680, 1048576 },
    };
    shape s = tiny;
    (void)state;
    s.model_type = "qwen2"; /* whose q, k and v have a bias: cublasLt */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        settings sets = { { "engine_version", rows[i].version }, { NULL, NULL } };
        vr_device_facts card = { .cc_major = rows[i].major };
        made p;
        make(&p, &s, sets, &card);
        const vr_event *first = nth(&p.plan.tape, VR_ITEM_WORKSPACES, 0),
                       *second = nth(&p.plan.tape, VR_ITEM_WORKSPACES, 1);
        assert_int_equal(first->bytes, rows[i].blas);
        assert_int_equal(first[-1].kind, VR_EV_OUTSIDE); /* kernels, at the same moment */
        assert_true(rows[i].lt == 0 ? second == NULL : second->bytes == rows[i].lt);
        assert_null(nth(&p.plan.tape, VR_ITEM_WORKSPACES, 2));
        done(&p);
    }
}

/* PyTorch 2.15 keeps none: each product takes and gives back its own. */
static void workspace_by_call(void **state)
{
    settings sets = { { "engine_version", "5.24+torch2.15" }, { NULL, NULL } };
    made p;
    (void)state;
    make(&p, &tiny, sets, NULL);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(nth(&p.plan.tape, VR_ITEM_WORKSPACES, i)[1].kind, VR_EV_RELEASE);
    done(&p);
}

/* ---- verified, and not ---- */

static void verified(void **state)
{
    static const struct {
        const char *key, *value;
        unsigned major;
        bool verified;
    } rows[] = {
        { "attention", "sdpa", 8, true },
        { "attention", "eager", 8, true },
        { "attention", "flash", 8, false },
        { "attention", "sdpa", 9, false },
        { "attention", "sdpa", 7, false },
        { "engine_version", "4.57", 8, true },
        { "engine_version", "5.24", 8, true },
        { "engine_version", "5.12", 8, false },
        { "engine_version", "4.53", 8, false },
        { "dtype", "float16", 8, false },
        { "dtype", "float32", 8, false },
        { "device_map", "auto", 8, false },
        { "decode", "3", 8, true },
        { "decode", "100000", 8, false },
        { "quantization", "bnb-8bit", 8, false },
        { "engine_version", "5.17+torch2.13", 8, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        settings sets = { { "dtype", "bf16" }, { rows[i].key, rows[i].value }, { NULL, NULL } };
        vr_device_facts card = { .cc_major = rows[i].major };
        made p;
        make(&p, &tiny, sets, &card);
        assert_int_equal(p.status, VRAM_OK);
        if (p.plan.verified != rows[i].verified)
            fail_msg("%s %s on %u.x: verified %d", rows[i].key, rows[i].value, rows[i].major,
                     p.plan.verified);
        assert_int_equal(p.plan.uncertain_permille == 0, p.plan.verified);
        done(&p);
    }
}

/* Of generate(), which has positions for each sequence, one at a time only; a plain pass as recorded. */
static void several_sequences(void **state)
{
    static const char *const cases[][3][2] = {
        { { "sequences", "3" }, { "logits", "all" }, { NULL, NULL } },
        { { "sequences", "3" }, { "prefill_batch", "1" }, { NULL, NULL } },
        { { "sequences", "3" }, { NULL, NULL } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        made p;
        make(&p, &tiny, cases[i], NULL);
        assert_int_equal(p.plan.verified, i != 2);
        done(&p);
    }
}

static void window_is_not_verified(void **state)
{
    settings sets = { { "context", "100" }, { NULL, NULL } };
    settings eager = { { "context", "100" }, { "attention", "eager" }, { NULL, NULL } };
    shape s = tiny;
    made p;
    (void)state;
    s.model_type = "mistral";
    s.window = 64;
    make(&p, &s, sets, NULL); /* with a mask CUDA takes another kernel than the recorded one */
    assert_false(p.plan.verified);
    done(&p);
    make(&p, &s, eager, NULL);
    assert_true(p.plan.verified);
    done(&p);
}

static void formulas(void **state)
{
    settings sets = { { "sequences", "2" }, { NULL, NULL } };
    made p;
    (void)state;
    make(&p, &tiny, sets, NULL);
    assert_string_equal(p.plan.formula[VR_KV_CACHE],
                        "3 layers x 2 (K,V) x 2 heads x 16 x 2 B x 4,096 tokens x 2 sequences");
    assert_non_null(strstr(p.plan.formula[VR_WEIGHTS], " parameters x 2 B (bfloat16)"));
    assert_non_null(strstr(p.plan.formula[VR_ACTIVATIONS], "2 x 4,096 tokens"));
    for (int c = 0; c < VR_CATEGORY_COUNT; c++)
        assert_true(p.plan.counted[c]);
    done(&p);
}

/* ---- properties of every tape ---- */

static uint64_t kv_at(const vr_tape *t, vr_moment_id at)
{
    uint64_t *held = calloc(t->n_blocks, sizeof(*held)), sum = 0;
    assert_non_null(held);
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_ALLOC && e->item == VR_ITEM_KV)
            sum += held[e->block] = e->bytes;
        if (e->kind == VR_EV_RELEASE) {
            assert_true(sum >= held[e->block]);
            sum -= held[e->block];
            held[e->block] = 0;
        }
        if (e->kind == VR_EV_MARK && e->bytes == at)
            break;
    }
    free(held);
    return sum;
}

/* More context never needs fewer bytes of keys and values; several batches keep them all. */
static void kv_grows(void **state)
{
    static const char *const contexts[] = { "1", "2", "63", "64", "65", "128", "1000", "4096" };
    uint64_t last = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        settings sets = {
            { "context", contexts[i] }, { "sequences", "5" }, { "prefill_batch", "2" }, { NULL, NULL }
        };
        made p;
        make(&p, &tiny, sets, NULL);
        uint64_t kv = kv_at(&p.plan.tape, VR_AT_PREFILL);
        assert_int_equal(kv, UINT64_C(5) * 3 * 2 * 2 * 16 * 2 * strtoull(contexts[i], NULL, 10));
        assert_true(kv > last);
        last = kv;
        done(&p);
    }
}

/* memory_models: a sliding layer keeps the whole prompt until the next token, and window tokens from then on.
 */
static void sliding_cache(void **state)
{
    settings sets = { { "context", "100" }, { "decode", "2" }, { NULL, NULL } };
    shape s = tiny;
    made p;
    (void)state;
    s.model_type = "mistral";
    s.window = 64;
    make(&p, &s, sets, NULL);
    uint64_t token = 2 * 16 * 2, window_tensors = 3 * 8;
    assert_int_equal(kv_at(&p.plan.tape, VR_AT_PREFILL), 3 * 2 * 100 * token + window_tensors);
    assert_int_equal(kv_at(&p.plan.tape, VR_AT_DECODE), 3 * 2 * 64 * token + window_tensors);
    done(&p);
}

/* Everything that is not a parameter, a buffer or a workspace is gone at the end, and nothing was freed
 * twice. */
static void nothing_is_left(const made *p)
{
    const vr_tape *t = &p->plan.tape;
    uint8_t *item = calloc(t->n_blocks, 1);
    assert_non_null(item);
    memset(item, 255, t->n_blocks);
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_ALLOC) {
            assert_int_equal(item[e->block], 255);
            assert_true(e->bytes > 0);
            item[e->block] = e->item;
        } else if (e->kind == VR_EV_RELEASE) {
            assert_int_not_equal(item[e->block], 255);
            item[e->block] = 255;
        }
    }
    for (uint32_t i = 0; i < t->n_blocks; i++)
        assert_true(item[i] == 255 || item[i] == VR_ITEM_PARAMETERS || item[i] == VR_ITEM_BUFFERS ||
                    item[i] == VR_ITEM_WORKSPACES);
    free(item);
}

static void every_combination(void **state)
{
    static const char *const models[] = { "llama", "mistral", "qwen2",      "qwen3",
                                          "phi3",  "gemma2",  "gemma3_text" };
    static const char *const versions[] = { "4.48", "4.53", "4.55", "4.56", "5.0",
                                            "5.3",  "5.17", "5.20", "5.24" };
    static const char *const kernels[] = { "sdpa", "eager", "flash" };
    static const char *const dtypes[] = { "bf16", "fp16", "fp32" };
    static const unsigned cards[] = { 7, 8, 9 };
    size_t n = 0;
    (void)state;
    for (size_t i = 0; i < 7 * 9 * 3 * 3 * 3; i++) {
        shape s = tiny;
        settings sets = { { "engine_version", versions[i / 7 % 9] },
                          { "attention", kernels[i / 63 % 3] },
                          { "dtype", dtypes[i / 189 % 3] },
                          { "context", "90" },
                          { "decode", "3" },
                          { "sequences", i % 2 != 0 ? "3" : "1" },
                          { "logits", i % 3 != 0 ? "all" : "last" },
                          { NULL, NULL } };
        vr_device_facts card = { .cc_major = cards[i / 567 % 3] };
        vr_rehearsal run;
        made p;
        s.model_type = models[i % 7];
        s.window = i % 4 != 0 && strcmp(s.model_type, "llama") != 0 ? 64
                   : strncmp(s.model_type, "gemma", 5) == 0         ? 4096
                                                                    : 0;
        make(&p, &s, sets, &card);
        if (p.status == VRAM_ESETTING) { /* gemma2 with sdpa */
            done(&p);
            continue;
        }
        assert_int_equal(p.status, VRAM_OK);
        nothing_is_left(&p);
        rehearse(&p, &run);
        assert_int_equal(run.n_moments, VR_MOMENT_COUNT);
        n++;
        done(&p);
    }
    assert_true(n > 1600);
}

/* ---- limits ---- */

static void absurd_sizes(void **state)
{
    static const struct {
        const char *const sets[4][2];
        const char *text;
    } rows[] = {
        { { { "context", "1000000000000" }, { "attention", "eager" }, { NULL, NULL } }, "over the limit" },
        { { { "sequences", "1000000000000" }, { "context", "1000000000000" }, { NULL, NULL } },
          "over the limit" },
        { { { "decode", "1000000000000" }, { "sequences", "1000000000" }, { NULL, NULL } },
          "over the limit" },
        { { { "sequences", "10000000" }, { "prefill_batch", "1" }, { NULL, NULL } }, "batches of prompts" },
        { { { "sequences", "2000" }, { "prefill_batch", "1" }, { "decode", "100" } }, "batches of prompts" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        made p;
        make(&p, &tiny, rows[i].sets, NULL);
        assert_int_equal(p.status, VRAM_ELIMIT);
        assert_non_null(strstr(vram_last_error(p.w.ctx)->text, rows[i].text));
        done(&p);
    }
}

/* A million tokens are generated in larger steps, so that the tape stays small and ends at the right length.
 */
static void many_tokens(void **state)
{
    settings sets = { { "decode", "1M" }, { NULL, NULL } };
    made p;
    (void)state;
    make(&p, &tiny, sets, NULL);
    assert_true(p.plan.tape.n < 150000);
    assert_int_equal(p.plan.basis[VR_KV_CACHE], VR_BASIS_SIMULATED);
    assert_int_equal(kv_at(&p.plan.tape, VR_AT_DECODE), UINT64_C(3) * 2 * 2 * 16 * 2 * (4096 + 1048576));
    assert_false(p.plan.verified);
    done(&p);
}

/* Many batches one after the other: at least so many steps, and under three million events. */
static void many_batches(void **state)
{
    settings sets = {
        { "decode", "1000" }, { "sequences", "500" }, { "prefill_batch", "1" }, { NULL, NULL }
    };
    made p;
    (void)state;
    make(&p, &tiny, sets, NULL);
    assert_int_equal(p.status, VRAM_OK);
    assert_true(p.plan.tape.n < 2600000);
    assert_int_equal(kv_at(&p.plan.tape, VR_AT_DECODE), UINT64_C(500) * 3 * 2 * 2 * 16 * 2 * (4096 + 1000));
    done(&p);
}

/* What resolve prepared and what a plan makes for itself are the same. */
static void prepared_or_not(void **state)
{
    static const char *const types[] = { "llama", "zzz" };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        shape s = tiny;
        world w;
        vr_arena a;
        vram_workload *shared, *alone;
        vr_plan x, y;
        s.model_type = types[i];
        open_world(&w, &s);
        vr_arena_init(&a, w.ctx);
        assert_int_equal(vr_workload_resolve(&shared, w.w, w.m, &a), VRAM_OK);
        assert_non_null(shared->prepared);
        alone = vr_workload_copy(shared, &a);
        alone->prepared = NULL;
        assert_int_equal(w.w->engine->plan(&x, w.m, shared, &ampere, &a), VRAM_OK);
        assert_int_equal(w.w->engine->plan(&y, w.m, alone, &ampere, &a), VRAM_OK);
        assert_int_equal(x.tape.n, y.tape.n);
        assert_memory_equal(x.tape.events, y.tape.events, x.tape.n * sizeof(*x.tape.events));
        vr_arena_free(&a);
        close_world(&w);
    }
}

/* ---- the n-th allocation fails ---- */

static vram_status try_all(world *w, const char *device_map)
{
    vr_plan plan;
    vr_arena a;
    vram_status s = open_objects(w, &tiny);
    if (s == VRAM_OK)
        s = vram_workload_set(w->w, "device_map", device_map);
    if (s == VRAM_OK)
        s = vram_workload_set(w->w, "alloc_conf", "expandable_segments:True");
    if (s == VRAM_OK)
        s = vram_workload_set(w->w, "decode", "3");
    if (s == VRAM_OK) {
        s = make_plan(w, &ampere, &plan, &a);
        vr_arena_free(&a);
    }
    return s;
}

static void every_allocation_fails_once(void **state)
{
    static const char *const maps[] = { "none", "auto" };
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        world w;
        vram_status s = VRAM_ENOMEM;
        size_t n = 0;
        make_world(&w, &tiny);
        while (s != VRAM_OK) {
            w.h = (hook){ .fail_at = ++n };
            s = try_all(&w, maps[m]);
            assert_true(s == VRAM_OK || s == VRAM_ENOMEM);
            assert_true(s == VRAM_OK || w.ctx == NULL || vram_last_error(w.ctx)->code == VRAM_ENOMEM);
            close_objects(&w);
        }
        assert_true(n > 5);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_map),
        cmocka_unit_test(device_map_of_4),
        cmocka_unit_test(warmup_is_cut),
        cmocka_unit_test(undeclared_and_missing),
        cmocka_unit_test(other_shapes),
        cmocka_unit_test(any_shape),
        cmocka_unit_test(sizes_of_config),
        cmocka_unit_test(tied_head),
        cmocka_unit_test(other_dtypes),
        cmocka_unit_test(half_a_checkpoint),
        cmocka_unit_test(more_than_the_class),
        cmocka_unit_test(dtype_of_no_parameter),
        cmocka_unit_test(load_dtype),
        cmocka_unit_test(unknown_class),
        cmocka_unit_test(quantised_checkpoint),
        cmocka_unit_test(bitsandbytes),
        cmocka_unit_test(workspaces),
        cmocka_unit_test(workspace_by_call),
        cmocka_unit_test(verified),
        cmocka_unit_test(several_sequences),
        cmocka_unit_test(window_is_not_verified),
        cmocka_unit_test(formulas),
        cmocka_unit_test(kv_grows),
        cmocka_unit_test(sliding_cache),
        cmocka_unit_test(every_combination),
        cmocka_unit_test(absurd_sizes),
        cmocka_unit_test(many_tokens),
        cmocka_unit_test(many_batches),
        cmocka_unit_test(prepared_or_not),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
