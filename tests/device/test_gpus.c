/* SPDX-License-Identifier: MIT
 * The table of cards: that its facts hold together, that the rules for cards without a log give what the logs
 * of the others show, and that the formula of the context meets what was measured (data/gpus/cuda_context.tsv
 * of the data folder: total less free with an idle context, headless Linux, which is 6.4 MiB over the
 * process's own figure). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/gpus.h"

static FILE *measurements;

static const vr_gpu *card(const char *id)
{
    size_t n;
    const vr_gpu *g = vr_gpus(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(g[i].id, id) == 0)
            return &g[i];
    fail_msg("no card %s", id);
    return NULL;
}

static bool lies_within(uint64_t x, const vr_range *r)
{
    return x >= r->low && x <= r->high;
}

static void facts_hold_together(void **state)
{
    size_t n, measured = 0;
    const vr_gpu *g = vr_gpus(&n);
    (void)state;
    assert_int_equal(n, 265);
    for (size_t i = 0; i < n; i++) {
        uint64_t box = g[i].marketed_gb * VR_GIB / (g[i].memories != 0 ? g[i].memories : 1);
        uint64_t shown = g[i].smi_total_bytes, total = g[i].cuda_total_bytes;
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(g[i].id, g[k].id);
        assert_non_null(g[i].source);
        assert_true(box == 0 || (shown <= box && g[i].cuda_total_high <= g[i].marketed_gb * VR_GIB));
        assert_true(shown == 0 || (total <= shown && g[i].cuda_total_high <= shown));
        assert_true(total == 0 || (g[i].cuda_total_low / VR_MIB <= total / VR_MIB &&
                                   total / VR_MIB <= g[i].cuda_total_high / VR_MIB));
        assert_true(!g[i].cuda_total_measured || total != 0);
        assert_true(g[i].cc_major == 0 || vr_gpu_is_nvidia(&g[i]));
        measured += g[i].cuda_total_measured;
    }
    assert_true(measured > 100);
}

static void usable_totals(void **state)
{
    size_t n, known = 0;
    const vr_gpu *g = vr_gpus(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        vr_range u = vr_gpu_usable(&g[i]), c = vr_gpu_context(&g[i]);
        uint64_t box = g[i].marketed_gb * VR_GIB;
        assert_true(u.low <= u.bytes && u.bytes <= u.high);
        assert_true(u.bytes == 0 || box == 0 || u.high <= box);
        assert_true(u.bytes == 0 || box == 0 || u.low > box / 100 * (g[i].memories != 0 ? 45 : 65));
        assert_true(c.low <= c.bytes && c.bytes <= c.high && c.high <= VR_GIB);
        known += u.bytes != 0;
    }
    assert_true(known > 230);
}

/* Each Linux log of an NVIDIA card lies within what the rule would say of that card without it: that is where
 * the rule's figures come from, so this holds table and rule together. Exempt is what the rule leaves out. */
static void rules_meet_the_logs(void **state)
{
    size_t n, compared = 0;
    const vr_gpu *g = vr_gpus(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        vr_range r = vr_gpu_derived(&g[i]);
        if (!g[i].cuda_total_measured || !vr_gpu_is_nvidia(&g[i]) || r.bytes == 0)
            continue;
        if (!lies_within(g[i].cuda_total_bytes, &r))
            fail_msg("%s: %llu MiB, rule %llu to %llu", g[i].id,
                     (unsigned long long)(g[i].cuda_total_bytes / VR_MIB),
                     (unsigned long long)(r.low / VR_MIB), (unsigned long long)(r.high / VR_MIB));
        compared++;
    }
    assert_true(compared > 70);
}

/* Totals from places that the table was not made from (memory reported by torch or in issues). */
static void totals_read_elsewhere(void **state)
{
    static const struct {
        const char *id;
        uint64_t low, high; /* bytes */
    } cases[] = {
        { "rtx-3060-12gb", 12490457088, 12490457088 },
        { "rtx-6000-ada-48gb", 50865307648, 50865307648 },
        { "t4-16gb", 15843721216, 15843721216 }, /* 14.76 GiB, drivers of 2023 */
        { "b200-sxm-180gb", UINT64_C(182633) << 20, UINT64_C(182633) << 20 },
        { "a100-sxm-80gb", UINT64_C(7915) * 1024 * 1024 * 1024 / 100,
          UINT64_C(7915) * 1024 * 1024 * 1024 / 100 },
        { "h200-sxm-141gb", UINT64_C(13980) * 1024 * 1024 * 1024 / 100,
          UINT64_C(13980) * 1024 * 1024 * 1024 / 100 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vr_range u = vr_gpu_usable(card(cases[i].id));
        assert_true(lies_within(cases[i].low, &u) && lies_within(cases[i].high, &u));
    }
}

/* nvidia-smi's figure for one process, read by others: InvokeAI 9413, unsloth-zoo 1053 and 8669, llama.cpp
 * 23604. */
static void contexts_read_elsewhere(void **state)
{
    static const struct {
        const char *id;
        uint64_t mib;
    } cases[] = { { "rtx-3060-12gb", 102 },     { "rtx-3090-24gb", 256 },
                  { "rtx-6000-ada-48gb", 426 }, { "rtx-pro-6000-blackwell-maxq-96gb", 555 },
                  { "b200-sxm-180gb", 606 },    { "a100-sxm-80gb", 430 },
                  { "titan-v-12gb", 319 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vr_range c = vr_gpu_context(card(cases[i].id));
        if (!lies_within(cases[i].mib * VR_MIB, &c))
            fail_msg("%s", cases[i].id);
    }
    assert_int_equal(vr_gpu_context(card("rtx-3060-12gb")).bytes, 106905600);
    assert_int_equal(vr_gpu_context(card("rtx-3060-12gb")).basis, VR_BASIS_TABLE);
    assert_int_equal(vr_gpu_context(card("rtx-4090-24gb")).basis, VR_BASIS_FORMULA);
    /* 29.08 - 6.4 MiB + 1938.2 B x 40 multiprocessors x 1,024 threads: no reading of a T4 to hold it against
     */
    assert_int_equal(vr_gpu_context(card("t4-16gb")).bytes / VR_MIB, 98);
    assert_int_equal(vr_gpu_context(card("t4-16gb")).basis, VR_BASIS_FORMULA);
    assert_int_equal(vr_gpu_context(card("rtx-5090-laptop-24gb")).basis, VR_BASIS_ASSUMED);
}

/* Fields of one row; returns their number. */
static size_t fields_of(char *line, char **fields, size_t room)
{
    size_t n = 0;
    for (char *at = line; at != NULL && n < room; n++) {
        fields[n] = at;
        at = strchr(at, '\t');
        if (at != NULL)
            *at++ = '\0';
    }
    return n;
}

static void formula_meets_the_measurements(void **state)
{
    char line[4096], *f[16];
    unsigned consumer = 0;
    (void)state;
    while (fgets(line, sizeof line, measurements) != NULL) {
        if (fields_of(line, f, 16) < 5 || strcmp(f[4], "linux") != 0 ||
            strncmp(f[3], "bare CUDA context (total minus free", 35) != 0)
            continue;
        const vr_gpu *g = card(f[0]);
        uint64_t whole = vr_gpu_context(g).bytes + 6710886, read = strtoull(f[2], NULL, 10) * VR_MIB;
        if (whole > read + 4 * VR_MIB || read > whole + 4 * VR_MIB)
            fail_msg("%s: %s MiB read, %llu by formula", f[0], f[2], (unsigned long long)(whole / VR_MIB));
        consumer += !vr_gpu_has_hbm(g);
    }
    assert_int_equal(consumer, 17); /* the cards of the fit */
}

/* With the source root as argument: only what needs the data folder. */
static int run_on_measurements(const char *root)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(formula_meets_the_measurements) };
    const char *given = getenv("VRAM_DATA");
    char path[4096];
    snprintf(path, sizeof path, "%s%s/data/gpus/cuda_context.tsv", given != NULL ? given : root,
             given != NULL ? "" : "/../shared");
    measurements = fopen(path, "r");
    if (measurements == NULL) {
        printf("%s: there is no %s\n", given != NULL ? "failed" : "skipped", path);
        return given != NULL ? 1 : 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fclose(measurements);
    return failed;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_hold_together),     cmocka_unit_test(usable_totals),
        cmocka_unit_test(rules_meet_the_logs),     cmocka_unit_test(totals_read_elsewhere),
        cmocka_unit_test(contexts_read_elsewhere),
    };
    return argc > 1 ? run_on_measurements(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
