/* SPDX-License-Identifier: MIT
 * PYTORCH_ALLOC_CONF: what PyTorch 2.15 made of each text (AcceleratorAllocatorConfig and CUDAAllocatorConfig
 * of its libc10_cuda, asked on a device that only counts, see oracle/), and where we are stricter. */
#include "support.h"

#define ALL(n)                                                                                               \
    {                                                                                                        \
        n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n                                                       \
    }

typedef struct accepted_row {
    const char *text;
    vr_alloc_conf conf;
} accepted_row;

static const accepted_row accepted[] = {
    { "", { 0 } },
    { " ", { 0 } },
    { "backend:native", { 0 } },
    { "expandable_segments:True", { .expandable_segments = true } },
    { "expandable_segments:False", { 0 } },
    { "expandable_segments:True,expandable_segments:False", { 0 } },
    { " expandable_segments : True , max_split_size_mb : 64 ",
      { .expandable_segments = true, .max_split_bytes = 64 * VR_MIB } },
    { "expandable_segments:True,", { .expandable_segments = true } },
    { "max_split_size_mb:20", { .max_split_bytes = 20 * VR_MIB } },
    { "max_split_size_mb:64,max_split_size_mb:128", { .max_split_bytes = 128 * VR_MIB } },
    { "max_split_size_mb:-1", { 0 } },
    { "max_split_size_mb:17592186044416", { 0 } }, /* beyond what counts bytes: unlimited */
    { "max_split_size_mb:128,max_split_size_mb:-1", { 0 } },
    { "large_segment_size_mb:11", { .large_segment_bytes = 11 * VR_MIB } },
    /* read first, wherever it stands */
    { "max_split_size_mb:12,large_segment_size_mb:12",
      { .max_split_bytes = 12 * VR_MIB, .large_segment_bytes = 12 * VR_MIB } },
    { "max_non_split_rounding_mb:64", { .max_non_split_rounding = 64 * VR_MIB } },
    { "per_process_memory_fraction:0.5", { .memory_fraction_permille = 500 } },
    { "per_process_memory_fraction:1.0", { 0 } }, /* sets none */
    { "per_process_memory_fraction:1", { 0 } },
    { "per_process_memory_fraction:0.9,garbage_collection_threshold:0.8",
      { .memory_fraction_permille = 900, .gc_threshold_permille = 800 } },
    { "per_process_memory_fraction:0.125", { .memory_fraction_permille = 125 } },
    { "roundup_power2_divisions:4", { .roundup_divisions = ALL(4) } },
    { "roundup_power2_divisions:1024", { .roundup_divisions = ALL(1024) } },
    { "roundup_power2_divisions:1", { .roundup_divisions = ALL(1) } },
    { "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
      { .roundup_divisions = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8 } } },
    { "roundup_power2_divisions:[256:1,512:2,>:4,1024:16]",
      { .roundup_divisions = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 16, 4, 4, 4, 4, 4 } } },
    { "roundup_power2_divisions:[>:4]",
      { .roundup_divisions = { 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 } } },
    { "roundup_power2_divisions:[1:2,65536:4]", { .roundup_divisions = { 2, [15] = 4 } } },
    { "roundup_power2_divisions:[1024:4,256:2]",
      { .roundup_divisions = { 4, 4, 4, 4, 4, 4, 4, 4, 2, 4, 4, 0, 0, 0, 0, 0 } } },
    { "roundup_power2_divisions:[2:0]", { 0 } },
    { "roundup_power2_divisions:[]", { 0 } },
    { "roundup_power2_divisions:[64:8, 128:2 ,256:4,512:2,1024:4,>:1],expandable_segments:True",
      { .expandable_segments = true,
        .roundup_divisions = { 8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 4, 1, 1, 1, 1, 1 } } },
};

static void settings_are_read(void **state)
{
    bench *b = *state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        vr_alloc_conf got;
        if (vr_alloc_conf_parse(&got, b->ctx, vr_str_of(accepted[i].text)) != VRAM_OK)
            fail_msg("\"%s\": %s", accepted[i].text, vram_last_error(b->ctx)->text);
        const vr_alloc_conf *want = &accepted[i].conf;
        bool same =
            got.expandable_segments == want->expandable_segments &&
            got.max_split_bytes == want->max_split_bytes &&
            got.large_segment_bytes == want->large_segment_bytes &&
            got.max_non_split_rounding == want->max_non_split_rounding &&
            got.gc_threshold_permille == want->gc_threshold_permille &&
            got.memory_fraction_permille == want->memory_fraction_permille &&
            memcmp(got.roundup_divisions, want->roundup_divisions, sizeof(got.roundup_divisions)) == 0;
        if (!same)
            fail_msg("\"%s\" was read differently", accepted[i].text);
    }
    assert_int_equal(vram_warnings(b->ctx, &(const vram_warning *){ NULL }), 0);
}

typedef struct refused_row {
    const char *text;
    const char *says; /* part of the error */
} refused_row;

static const refused_row refused[] = {
    /* PyTorch refuses these too */
    { "expandable_segments:true", "expandable_segments must be True or False, not 'true'" },
    { "expandable_segments:True,,max_split_size_mb:64", "unknown allocator setting ''" },
    { ",", "unknown allocator setting ''" },
    { "max_split_size_mb:19",
      "max_split_size_mb must be a number of MiB, at least large_segment_size_mb (20 unless set), not '19'" },
    { "max_split_size_mb:20,large_segment_size_mb:24", "max_split_size_mb must be" },
    { "max_split_size_mb:99999999999999999999", "not '99999999999999999999'" },
    { "max_split_size_mb", "needs a colon and a value" },
    { "max_split_size_mb=128", "unknown allocator setting 'max_split_size_mb=128'" },
    { "large_segment_size_mb:10", "large_segment_size_mb must be a number of MiB above 10" },
    { "max_non_split_rounding_mb:19", "max_non_split_rounding_mb must be" },
    { "garbage_collection_threshold:0", "must lie between 0 and 1, not '0'" },
    { "garbage_collection_threshold:1.0", "must lie between 0 and 1" },
    { "garbage_collection_threshold:-0.5", "must lie between 0 and 1" },
    { "per_process_memory_fraction:1.1", "must be above 0 and at most 1" },
    { "roundup_power2_divisions:0", "needs powers of two as divisions, not '0'" },
    { "roundup_power2_divisions:3", "needs powers of two as divisions" },
    { "roundup_power2_divisions:[3:2]", "needs powers of two as boundaries in MiB" },
    { "roundup_power2_divisions:[0:2]", "needs powers of two as boundaries in MiB" },
    { "roundup_power2_divisions:[2:3]", "needs powers of two as divisions, not '3'" },
    { "roundup_power2_divisions:[256:1,", "needs a ]" },
    { "roundup_power2_divisions:[256:1", "needs a ]" },
    { "roundup_power2_divisions:[", "needs a ]" },
    { "backend:foo", "must be native or cudaMallocAsync, not 'foo'" },
    { "foo:1", "unknown allocator setting 'foo'" },
    { "expandable_segments:True max_split_size_mb:64",
      "must be parted by commas, before 'max_split_size_mb:64'" },
    /* PyTorch lets these pass: 128, no memory at all, a division by luck */
    { "max_split_size_mb:128MB", "not '128MB'" },
    { "per_process_memory_fraction:0", "must be above 0" },
    { "roundup_power2_divisions:[256]", "needs pairs" },
    { "expandable_segments True", "needs a colon" },
    /* all that is cut */
    { "max_split_size_mb:", "not ''" },
    { "pinned_num_register_threads:", "needs a value" },
    { "expandable_segments_reserve_by_class:[a:0.5", "needs a ]" },
};

static void mistakes_are_named(void **state)
{
    bench *b = *state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        vr_alloc_conf conf = { .max_split_bytes = 4711 };
        vram_status status = vr_alloc_conf_parse(&conf, b->ctx, vr_str_of(refused[i].text));
        const char *text = vram_last_error(b->ctx)->text;
        if (status != VRAM_ESETTING || strstr(text, refused[i].says) == NULL)
            fail_msg("\"%s\": status %d, %s", refused[i].text, (int)status, text);
        assert_int_equal(conf.max_split_bytes, 4711);
    }
    vr_alloc_conf conf;
    assert_int_equal(vr_alloc_conf_parse(&conf, b->ctx, VR_LIT("nonsense:1")), VRAM_ESETTING);
    assert_non_null(strstr(vram_last_error(b->ctx)->text, "expandable_segments, max_split_size_mb"));
    assert_non_null(strstr(vram_last_error(b->ctx)->text, "and backend"));
}

static void other_backends_are_not_this_allocator(void **state)
{
    bench *b = *state;
    vr_alloc_conf conf;
    assert_int_equal(vr_alloc_conf_parse(&conf, b->ctx, VR_LIT("backend:cudaMallocAsync")),
                     VRAM_EUNSUPPORTED);
    assert_non_null(strstr(vram_last_error(b->ctx)->text, "cudaMallocAsync"));
    assert_int_equal(
        vr_alloc_conf_parse(&conf, b->ctx, VR_LIT("expandable_segments:True,backend:hipMallocAsync")),
        VRAM_EUNSUPPORTED);
}

/* Every other key of PyTorch 2.15, and what is warned about. */
static void what_changes_nothing_is_warned_about(void **state)
{
    bench *b = *state;
    static const char *const texts[] = {
        "release_lock_on_cudamalloc:True",
        "release_lock_on_hipmalloc:True",
        "pinned_use_background_threads:True",
        "pinned_use_cuda_host_register:True",
        "pinned_use_hip_host_register:True",
        "pinned_num_register_threads:8",
        "pinned_reserve_segment_size_mb:64",
        "pinned_free_catch_all:True",
        "expandable_segments_reserve:0.5",
        "expandable_segments_reserve_by_class:[capture:0.25,workspace:40G]",
        "throw_on_cudamalloc_oom:True",
        "graph_capture_record_stream_reuse:True",
        "garbage_collection_threshold:0.8", /* without a fraction */
        "per_process_memory_fraction:0.12345",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        const vram_warning *warnings;
        vr_alloc_conf conf;
        assert_int_equal(vr_alloc_conf_parse(&conf, b->ctx, vr_str_of(texts[i])), VRAM_OK);
        assert_int_equal(vram_warnings(b->ctx, &warnings), i + 1);
        assert_memory_equal(strstr(warnings[i].text, "allocator setting ") != NULL ? warnings[i].text + 18
                                                                                   : warnings[i].text,
                            texts[i], strcspn(texts[i], ":"));
        vr_alloc_conf_parse(&conf, b->ctx, vr_str_of(texts[i])); /* once is enough */
        assert_int_equal(vram_warnings(b->ctx, &warnings), i + 1);
    }
    vr_alloc_conf conf;
    vr_alloc_conf_parse(&conf, b->ctx, VR_LIT("per_process_memory_fraction:0.12345"));
    assert_int_equal(conf.memory_fraction_permille, 123);
}

static void defaults_and_verified_settings(void **state)
{
    bench *b = *state;
    static const struct {
        const char *text;
        bool is_default;
    } rows[] = {
        { "", true },
        { "expandable_segments:True", false },
        { "max_split_size_mb:128", false },
        { "max_split_size_mb:-1", true },
        { "large_segment_size_mb:20", true },
        { "large_segment_size_mb:24", false },
        { "max_non_split_rounding_mb:64", true }, /* nothing without max_split_size_mb */
        { "roundup_power2_divisions:1", true },
        { "roundup_power2_divisions:[1:0,>:1]", true },
        { "roundup_power2_divisions:[1:0,>:2]", false },
        { "garbage_collection_threshold:0.8", true }, /* nothing without a fraction */
        { "per_process_memory_fraction:0.8", false },
        { "pinned_num_register_threads:8", true },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vr_alloc_conf conf;
        assert_int_equal(vr_alloc_conf_parse(&conf, b->ctx, vr_str_of(rows[i].text)), VRAM_OK);
        assert_int_equal(vr_alloc_conf_is_default(&conf), rows[i].is_default);
        assert_int_equal(vr_alloc_conf_verified(&conf), rows[i].is_default);
    }
}

/* Anything goes in: an answer or an error, and every prefix of a good text too. */
static void noise(void **state)
{
    bench *b = *state;
    static const char letters[] = ",:[]> \t0129.-xTrueFalse";
    static const char good[] =
        "roundup_power2_divisions:[64:8,128:2,>:4],per_process_memory_fraction:0.5,max_split_size_mb:64";
    uint64_t random = 1;
    vr_alloc_conf conf;
    for (size_t n = 0; n < sizeof(good); n++)
        (void)vr_alloc_conf_parse(&conf, b->ctx, (vr_str){ good, n });
    for (int i = 0; i < 20000; i++) {
        char text[sizeof(good)];
        memcpy(text, good, sizeof(good));
        for (int k = 0; k < 3; k++)
            text[next_random(&random) % (sizeof(good) - 1)] =
                letters[next_random(&random) % (sizeof(letters) - 1)];
        vram_status status = vr_alloc_conf_parse(&conf, b->ctx, (vr_str){ text, sizeof(good) - 1 });
        assert_true(status == VRAM_OK || status == VRAM_ESETTING);
    }
}

static vram_status parse_with_warnings(vram_ctx *ctx)
{
    vr_alloc_conf conf;
    return vr_alloc_conf_parse(&conf, ctx,
                               VR_LIT("pinned_free_catch_all:True,garbage_collection_threshold:0.8888"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(survives_failures(parse_with_warnings) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(settings_are_read),
        TEST(mistakes_are_named),
        TEST(other_backends_are_not_this_allocator),
        TEST(what_changes_nothing_is_warned_about),
        TEST(defaults_and_verified_settings),
        TEST(noise),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
