/* SPDX-License-Identifier: MIT
 * Weights that stay packed while they run: what their modules take, worked out by hand; which of them are
 * packed at all; what a card makes of them. Event by event FP8 and MXFP4 are held against recorded runs in
 * test_oracle.c. */
#include "planned.h"

#define WIDTHS                                                                                               \
    "\"torch_dtype\":\"bfloat16\",\"hidden_size\":1024,\"num_hidden_layers\":1,\"num_attention_heads\":8,"   \
    "\"num_key_value_heads\":2,\"head_dim\":128,\"vocab_size\":2048,\"tie_word_embeddings\":false"
#define FP8                                                                                                  \
    ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"fmt\":\"e4m3\","   \
    "\"activation_scheme\":\"dynamic\""
#define QWEN3 "{\"model_type\":\"qwen3\",\"intermediate_size\":3072," WIDTHS FP8 "}}"
#define QWEN3_LEFT                                                                                           \
    "{\"model_type\":\"qwen3\",\"intermediate_size\":3072," WIDTHS FP8                                       \
    ",\"modules_to_not_convert\":[\"model.layers.0.mlp.gate_proj\"]}}"
#define EXPERTS                                                                                              \
    "{\"model_type\":\"qwen3_moe\",\"intermediate_size\":3072,\"num_experts\":8,\"num_experts_per_tok\":2,"  \
    "\"moe_intermediate_size\":512," WIDTHS FP8                                                              \
    ",\"modules_to_not_convert\":[\"model.layers.0.mlp.gate\"]}}"
#define OSS                                                                                                  \
    "{\"model_type\":\"gpt_oss\",\"intermediate_size\":512,\"num_local_experts\":8,"                         \
    "\"num_experts_per_tok\":2," WIDTHS ",\"quantization_config\":{\"quant_method\":\"mxfp4\","              \
    "\"modules_to_not_convert\":[\"model.layers.*.self_attn\",\"model.layers.*.mlp.router\","                \
    "\"model.embed_tokens\",\"lm_head\"]}}"

#define FOUR(q)                                                                                              \
    "{\"model_type\":\"qwen2\",\"intermediate_size\":3072,\"torch_dtype\":\"float16\",\"hidden_size\":1024," \
    "\"num_hidden_layers\":1,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"vocab_size\":2048,"       \
    "\"tie_word_embeddings\":false,\"quantization_config\":{\"bits\":4,\"group_size\":128," q "}}"
#define AWQ FOUR("\"quant_method\":\"awq\",\"version\":\"gemm\",\"zero_point\":true")
#define GPTQ FOUR("\"quant_method\":\"gptq\",\"sym\":true,\"desc_act\":false")
#define GPTQ_MOVED FOUR("\"quant_method\":\"gptq\",\"sym\":true,\"desc_act\":true")
#define GPTQ_LOPSIDED FOUR("\"quant_method\":\"gptq\",\"sym\":false,\"desc_act\":false")

#define COMPRESSED(status)                                                                                   \
    "{\"model_type\":\"llama\",\"intermediate_size\":3072," WIDTHS                                           \
    ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","       \
    "\"quantization_status\":\"" status "\",\"ignore\":[\"lm_head\"],\"config_groups\":{\"group_0\":{"       \
    "\"input_activations\":null,\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,\"type\":\"int\","      \
    "\"strategy\":\"group\",\"group_size\":128,\"symmetric\":true}}}}}"

#define ROWS UINT64_C(64)

static const vr_device_facts turing = {
    .cc_major = 7, .cc_minor = 0, .usable = UINT64_MAX, .available = UINT64_MAX
};
static const vr_device_facts ada = {
    .cc_major = 8, .cc_minor = 9, .usable = UINT64_MAX, .available = UINT64_MAX
};
static const vr_device_facts hopper = {
    .cc_major = 9, .cc_minor = 0, .usable = UINT64_MAX, .available = UINT64_MAX
};

/* map: NULL, none */
static void plan_four(planned *p, const char *config, const char *version, const char *map, uint64_t rows)
{
    open_config(&p->w, config);
    set(&p->w, "engine_version", version);
    set(&p->w, "dtype", "auto");
    set_number(&p->w, "context", rows);
    if (map != NULL)
        set(&p->w, "device_map", map);
    if (make_plan(&p->w, &ampere, &p->plan, &p->arena) != VRAM_OK)
        fail_msg("%s", vram_last_error(p->w.ctx)->text);
}

static void plan_on(planned *p, const char *config, const char *version, const vr_device_facts *device)
{
    open_config(&p->w, config);
    set(&p->w, "engine_version", version);
    set_number(&p->w, "context", ROWS);
    if (make_plan(&p->w, device, &p->plan, &p->arena) != VRAM_OK)
        fail_msg("%s", vram_last_error(p->w.ctx)->text);
}

/* What is taken under labels that begin so, in this order and nothing else. */
static void takes(const vr_tape *t, const char *label, const uint64_t *bytes, size_t n)
{
    size_t k = 0;
    bool running = false;
    for (size_t i = 0; i < t->n; i++) {
        const vr_event *e = &t->events[i];
        running = running || (e->kind == VR_EV_MARK && e->bytes == VR_AT_LOADED);
        if (!running || e->kind != VR_EV_ALLOC || !vr_str_starts(t->labels[e->label], label))
            continue;
        assert_true(k < n);
        assert_int_equal(e->bytes, bytes[k]);
        k++;
    }
    assert_int_equal(k, n);
}
#define TAKES(t, label, ...)                                                                                 \
    takes((t), (label), (const uint64_t[]){ __VA_ARGS__ },                                                   \
          sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

typedef struct held {
    uint64_t end, most;
} held;

/* Of an item, up to the mark; VR_MOMENT_COUNT: all the way. */
static held held_at(const vr_tape *t, vr_item item, vr_moment_id at)
{
    held h = { 0, 0 };
    uint64_t *bytes = calloc(t->n_blocks + 1, sizeof *bytes);
    assert_non_null(bytes);
    for (size_t i = 0; i < t->n && !(t->events[i].kind == VR_EV_MARK && t->events[i].bytes == at); i++) {
        const vr_event *e = &t->events[i];
        if (e->kind == VR_EV_ALLOC)
            h.end += bytes[e->block] = e->item == item ? e->bytes : 0;
        if (e->kind == VR_EV_RELEASE)
            h.end -= bytes[e->block];
        h.most = h.end > h.most ? h.end : h.most;
    }
    free(bytes);
    return h;
}

static uint64_t taken(const vr_tape *t, vr_item item)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n; i++)
        sum += t->events[i].kind == VR_EV_ALLOC && t->events[i].item == item ? t->events[i].bytes : 0;
    return sum;
}

/* act_quant: the input in 8 bits, a scale of 32 bits for each 128; then the result (finegrained_fp8.py of
 * 4.57, FP8Linear.forward). From 5.11 on the kernel quantises by itself. */
static void fp8(void **state)
{
    planned p;
    (void)state;
    plan_on(&p, QWEN3, "4.57", &ada);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj", ROWS * 1024, ROWS * 1024 / 128 * 4, ROWS * 3072 * 2);
    TAKES(&p.plan.tape, "model.layers.0.mlp.down_proj output", ROWS * 3072, ROWS * 3072 / 128 * 4,
          ROWS * 1024 * 2);
    assert_true(p.plan.counted[VR_ACTIVATIONS] && !p.plan.verified);
    assert_int_equal(p.plan.uncertain_permille, 100);
    close_planned(&p);
    plan_on(&p, QWEN3, "5.17", &ada);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj", ROWS * 3072 * 2);
    assert_int_equal(p.plan.above_permille, 0);
    close_planned(&p);
}

/* What the checkpoint leaves as it is runs as everywhere: with a workspace, and nothing quantised. */
static void left_alone(void **state)
{
    planned p;
    (void)state;
    plan_on(&p, QWEN3_LEFT, "4.57", &ada);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj", ROWS * 3072 * 2);
    TAKES(&p.plan.tape, "model.layers.0.self_attn.q_proj", ROWS * 1024, ROWS * 1024 / 128 * 4,
          ROWS * 1024 * 2);
    close_planned(&p);
}

/* Below compute capability 8.9 from 5.0 on it is unpacked, and every layer a plain one. */
static void unpacked(void **state)
{
    planned p;
    (void)state;
    plan_on(&p, QWEN3, "5.17", &ampere);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj output", ROWS * 3072 * 2);
    assert_true(p.plan.counted[VR_ACTIVATIONS] && !p.plan.verified);
    close_planned(&p);
    plan_on(&p, OSS, "5.17", &turing);
    assert_true(p.plan.counted[VR_ACTIVATIONS] && taken(&p.plan.tape, VR_ITEM_CONVERSION) == 0);
    close_planned(&p);
}

/* On Hopper DeepGEMM may be taken: a copy of the input, its absolute values in 16 and in 32 bits. In qwen3's
 * MLP before down_proj: 2 x (3 x 1024 + 3072) + 8 x 3072 bytes a token instead of 2 x (3 x 1024 + 3 x 3072).
 */
static void deepgemm(void **state)
{
    planned p;
    (void)state;
    plan_on(&p, QWEN3, "5.17", &hopper);
    assert_int_equal(p.plan.above_permille, (36864 - 24576) * 1000 / 24576);
    close_planned(&p);
    plan_on(&p, QWEN3, "4.57", &hopper);
    assert_int_equal(p.plan.above_permille, 0);
    close_planned(&p);
}

/* 2 of 8 experts a token: 128 rows; gate and up beside each other, then down; no copies of weights. Of a
 * version whose experts were not read nothing is counted. */
static void fp8_experts(void **state)
{
    planned p;
    (void)state;
    plan_on(&p, EXPERTS, "5.17", &ada);
    TAKES(&p.plan.tape, "model.layers.0.mlp.experts gate and up", 2 * ROWS * 1024 * 2);
    TAKES(&p.plan.tape, "model.layers.0.mlp.experts down", 2 * ROWS * 1024 * 2);
    close_planned(&p);
    plan_on(&p, EXPERTS, "5.6", &ada);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_true(p.plan.counted[VR_KV_CACHE]);
    close_planned(&p);
}

static size_t loaded(const vr_tape *t, const char *label, uint64_t *bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n && !(t->events[i].kind == VR_EV_MARK && t->events[i].bytes == VR_AT_LOADED);
         i++) {
        const vr_event *e = &t->events[i];
        if (e->kind != VR_EV_ALLOC || !vr_str_is(t->labels[e->label], label))
            continue;
        *bytes = e->bytes;
        n++;
    }
    return n;
}

/* FP8Experts: all experts of a layer in one tensor, their scales in another; before, linear layers of each.
 */
static void merged(void **state)
{
    planned p;
    uint64_t bytes = 0;
    (void)state;
    plan_on(&p, EXPERTS, "5.17", &ada);
    assert_int_equal(loaded(&p.plan.tape, "model.layers.0.mlp.experts.gate_up_proj", &bytes), 1);
    assert_int_equal(bytes, 8 * 1024 * 1024);
    assert_int_equal(loaded(&p.plan.tape, "model.layers.0.mlp.experts.gate_up_proj_scale_inv", &bytes), 1);
    assert_int_equal(bytes, 8 * 8 * 8 * 4);
    assert_int_equal(taken(&p.plan.tape, VR_ITEM_PARAMETERS), p.w.m->checkpoint->tensor_bytes);
    assert_int_equal(p.plan.n_parameters, p.w.m->declared_parameters);
    close_planned(&p);
    plan_on(&p, EXPERTS, "4.57", &ada);
    assert_int_equal(loaded(&p.plan.tape, "model.layers.0.mlp.experts.7.up_proj.weight", &bytes), 1);
    assert_int_equal(bytes, 512 * 1024);
    assert_int_equal(taken(&p.plan.tape, VR_ITEM_PARAMETERS), p.w.m->checkpoint->tensor_bytes);
    close_planned(&p);
}

/* Merging on the card: its parts are there beside the last result, each a byte. */
static void merged_on_the_card(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, EXPERTS);
    set(&p.w, "engine_version", "5.17");
    set(&p.w, "device_map", "cuda");
    set_number(&p.w, "context", ROWS);
    if (make_plan(&p.w, &ada, &p.plan, &p.arena) != VRAM_OK)
        fail_msg("%s", vram_last_error(p.w.ctx)->text);
    held h = held_at(&p.plan.tape, VR_ITEM_PARAMETERS, VR_MOMENT_COUNT);
    assert_int_equal(h.end, p.w.m->checkpoint->tensor_bytes);
    assert_true(h.most - h.end <= 2 * 8 * 512 * 1024);
    close_planned(&p);
}

/* matmul_ogs (kernels-community/gpt-oss-triton-kernels): gates times ups of all rows, then all rows with the
 * sums of the tokens behind them in one storage. */
static void mxfp4(void **state)
{
    planned p;
    (void)state;
    plan_on(&p, OSS, "5.17", &ada);
    TAKES(&p.plan.tape, "model.layers.0.mlp.experts activation", 2 * ROWS * 512 * 2);
    TAKES(&p.plan.tape, "model.layers.0.mlp.experts down", (2 * ROWS + ROWS) * 1024 * 2);
    /* biases in 32 bits: 8 x (1024 + 1024) x 2 bytes more than they are stored as */
    assert_int_equal(taken(&p.plan.tape, VR_ITEM_PARAMETERS), p.w.m->checkpoint->tensor_bytes + 8 * 2048 * 2);
    assert_int_equal(taken(&p.plan.tape, VR_ITEM_CONVERSION), 0);
    close_planned(&p);
}

/* HopperMXValueLayout.swizzle_data: at most the packed numbers themselves, in the other order, three quarters
 * of them done, the lower half of the last, and of its upper half four at once beside the numbers shifted. */
static void swizzled(void **state)
{
    planned p;
    uint64_t n = 8 * 1024 * 1024 / 2;
    (void)state;
    plan_on(&p, OSS, "5.17", &hopper);
    held h = held_at(&p.plan.tape, VR_ITEM_CONVERSION, VR_MOMENT_COUNT);
    assert_int_equal(h.end, 0);
    assert_int_equal(h.most, n + n + 3 * n + n + 4 * n + n / 4);
    close_planned(&p);
}

/* AutoAWQ: from 1,024 rows on the matrix in 16 bits, under a label of its own; a bias is added in a storage
 * of its own (WQLinearMMFunction.forward). */
static void awq(void **state)
{
    planned p;
    (void)state;
    plan_four(&p, AWQ, "4.57", NULL, 1024);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj", 1024 * 3072 * 2);
    TAKES(&p.plan.tape, "model.layers.0.self_attn.q_proj", 1024 * 1024 * 2, 1024 * 1024 * 2);
    TAKES(&p.plan.tape, "weight in 16 bits", 1024 * 1024 * 2, 1024 * 256 * 2, 1024 * 256 * 2, 1024 * 1024 * 2,
          1024 * 3072 * 2, 1024 * 3072 * 2, 3072 * 1024 * 2);
    assert_int_equal(p.plan.above_permille, 0);
    close_planned(&p);
    plan_four(&p, AWQ, "4.57", NULL, ROWS);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj", ROWS * 3072 * 2);
    assert_int_equal(p.plan.above_permille, 8 * 3072 * 1000 / (3 * 1024 + 3 * 3072));
    close_planned(&p);
}

/* marlin_scratch.cuh: sums in 32 bits, 64 rows of 256 columns of each multiprocessor, fewer of fewer rows;
 * with desc_act a copy of the input. Without a device map, or a zero point, other kernels run. */
static void marlin(void **state)
{
    planned p;
    (void)state;
    plan_four(&p, GPTQ, "5.17", "cuda", 100);
    TAKES(&p.plan.tape, "model.layers.0.mlp.down_proj output", 100 * 1024 * 2, 132 * 64 * 256 * 4);
    assert_int_equal(p.plan.uncertain_permille, 300);
    close_planned(&p);
    plan_four(&p, AWQ, "5.17", "cuda", 20);
    TAKES(&p.plan.tape, "model.layers.0.mlp.down_proj output", 20 * 1024 * 2, 132 * 32 * 256 * 4);
    close_planned(&p);
    plan_four(&p, GPTQ_MOVED, "4.57", "cuda", 100);
    TAKES(&p.plan.tape, "model.layers.0.mlp.down_proj output", 100 * 1024 * 2, 132 * 64 * 256 * 4,
          100 * 3072 * 2);
    close_planned(&p);
    plan_four(&p, GPTQ, "5.17", NULL, 100);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    assert_non_null(strstr(p.plan.why_not[VR_ACTIVATIONS], "--device-map cuda"));
    close_planned(&p);
    plan_four(&p, GPTQ_LOPSIDED, "5.17", "cuda", 100);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    close_planned(&p);
}

/* add_decompress_hook: what is stored in 4 bits is there in 16 from the first pass on. A layer's matrices:
 * 1024 x (1024 + 256 + 256 + 1024) and 3 x 1024 x 3072. */
static void unpacked_for_good(void **state)
{
    planned p;
    uint64_t n = 1024 * 2560 + 3 * 1024 * 3072;
    (void)state;
    plan_on(&p, COMPRESSED("compressed"), "5.17", &ampere);
    assert_int_equal(held_at(&p.plan.tape, VR_ITEM_PARAMETERS, VR_AT_LOADED).end,
                     p.w.m->checkpoint->tensor_bytes);
    assert_int_equal(held_at(&p.plan.tape, VR_ITEM_PARAMETERS, VR_AT_PREFILL).end,
                     p.w.m->checkpoint->tensor_bytes + n * 2 - n / 2);
    TAKES(&p.plan.tape, "model.layers.0.mlp.gate_proj output", ROWS * 3072 * 2);
    assert_non_null(strstr(p.plan.notice, "unpacked to 16 bits before the first pass"));
    close_planned(&p);
    plan_on(&p, COMPRESSED("frozen"), "5.17", &ampere);
    assert_false(p.plan.counted[VR_ACTIVATIONS]);
    close_planned(&p);
}

/* quantizers/auto.py: a second method is an error. */
static void twice(void **state)
{
    planned p;
    (void)state;
    open_config(&p.w, GPTQ);
    set(&p.w, "quantization", "bnb-4bit");
    assert_int_equal(make_plan(&p.w, &ampere, &p.plan, &p.arena), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(p.w.ctx)->text, "quantised already"));
    close_planned(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8),
        cmocka_unit_test(left_alone),
        cmocka_unit_test(unpacked),
        cmocka_unit_test(deepgemm),
        cmocka_unit_test(fp8_experts),
        cmocka_unit_test(mxfp4),
        cmocka_unit_test(swizzled),
        cmocka_unit_test(awq),
        cmocka_unit_test(marlin),
        cmocka_unit_test(twice),
        cmocka_unit_test(unpacked_for_good),
        cmocka_unit_test(merged),
        cmocka_unit_test(merged_on_the_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
