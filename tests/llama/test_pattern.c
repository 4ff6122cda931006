/* SPDX-License-Identifier: MIT
 * Patterns of tensor overrides: what is found and what is not is as ECMA-262 has it, worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/hook.h"
#include "llama/pattern.h"

typedef struct row {
    const char *pattern, *name;
    int found; /* -1: the pattern is not understood */
} row;

static const char LONG_NAME[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";

static const row rows[] = {
    { "exps", "blk.3.ffn_up_exps.weight", 1 },
    { "exps", "blk.3.ffn_up.weight", 0 },
    { "\\.ffn_(up|down|gate|gate_up)_(ch|)exps", "blk.0.ffn_gate_up_exps.weight", 1 },
    { "\\.ffn_(up|down|gate|gate_up)_(ch|)exps", "blk.0.ffn_down_chexps.weight", 1 },
    { "\\.ffn_(up|down|gate|gate_up)_(ch|)exps", "blk.0.ffn_up_shexp.weight", 0 },
    { "blk\\.(1[0-9]|2[0-3])\\.", "blk.17.attn_q.weight", 1 },
    { "blk\\.(1[0-9]|2[0-3])\\.", "blk.24.attn_q.weight", 0 },
    { "blk\\.(?:[4-9]|1\\d)\\.ffn_.*_exps", "blk.12.ffn_up_exps.weight", 1 },
    { "blk\\.(?:[4-9]|1\\d)\\.ffn_.*_exps", "blk.3.ffn_up_exps.weight", 0 },
    { "^output", "output.weight", 1 },
    { "^output", "blk.0.attn_output.weight", 0 },
    { "weight$", "output.weight", 1 },
    { "bias$", "output.weight", 0 },
    { "", "anything", 1 },
    { "blk\\.1\\.", "blk.11.blk.1.x", 1 }, /* not where it begins to look alike */
    { "aab", "aaab", 1 },
    { "aa*b", "xab", 1 },
    { "()*ab", "xab", 1 },
    { "b?ab", "xab", 1 },
    { "a|b\\d", "xb7", 1 },
    { "ab|^c", "xab", 1 },
    { "ab|^c", "xc", 0 },
    { "a.c", "abc", 1 },
    { "a\\.c", "abc", 0 },
    { "ab*c", "ac", 1 },
    { "ab+c", "ac", 0 },
    { "ab?c", "abbc", 0 },
    { "ab{2}c", "abbc", 1 },
    { "ab{2}c", "abc", 0 },
    { "ab{2,3}c", "abbbc", 1 },
    { "ab{2,3}c", "abbbbc", 0 },
    { "ab{2,}c", "abbbbc", 1 },
    { "ab{0}c", "ac", 1 },
    { "ab{0}c", "abc", 0 },
    { "(ab){0,2}c", "ababc", 1 },
    { "^(ab){0,1}c", "ababc", 0 },
    { "^(a|b)*c$", "abbac", 1 },
    { "^(a|b)*?c$", "abdac", 0 },
    { "^((a{1,2}){2}){2}$", "aaaaaaaa", 1 },
    { "^((a{1,2}){2}){2}$", "aaa", 0 },
    { "[^.]+\\.weight", "x.weight", 1 },
    { "^[^.]+$", "a.b", 0 },
    { "[]a]", "a", 0 }, /* [] is empty in ECMAScript */
    { "[a\\-z]b", "-b", 1 },
    { "[a\\-z]b", "cb", 0 },
    { "[\\w.]+:", "a.b:", 1 },
    { "\\bffn\\b", "blk.0.ffn.x", 1 },
    { "\\bffn\\b", "blk.0.ffn_up", 0 },
    { "\\Bup", "ffn_up", 1 },
    { "\\D\\d\\s\\S", "a1 b", 1 },
    { "(a*)*(a*)*(a*)*c", LONG_NAME, 0 },
    { "(((((((((((a+)+)+)+)+)+)+)+)+)+)+)c", LONG_NAME, 0 },
    { "a|", "b", 1 },
    { "ab|c", "xc", 1 }, /* what a match begins with is not what the pattern begins with */
    { "a(b|c)|d", "d", 1 },
    { "ab?c", "ac", 1 },
    { "ab*", "a", 1 },
    { "ab{0,1}c", "ac", 1 },
    { "a[|]b", "a|b", 1 },
    { "a\\|b", "a|b", 1 },
    { "blk\\.1\\.(a|b)", "blk.1.b", 1 },
    { "blk\\.1\\.(a|b)", "blk.11.b", 0 },
    { "(", "x", -1 },
    { ")", "x", -1 },
    { "[", "x", -1 },
    { "[z-a]", "x", -1 },
    { "*", "x", -1 },
    { "a{", "x", -1 },
    { "a{3,2}", "x", -1 },
    { "a{99999}", "x", -1 },
    { "(a{900}){900}", "x", -1 },
    { "(?=x)", "x", -1 },
    { "(?!x)", "x", -1 },
    { "(a)\\1", "aa", -1 },
    { "\\", "x", -1 },
    { "[[:alpha:]]", "x", -1 },
};

static void finds(void **state)
{
    vram_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct vr_pattern *p = NULL;
        const char *why = NULL;
        assert_int_equal(vr_lm_pattern(&p, &why, rows[i].pattern, &ctx->arena), VRAM_OK);
        int found = p == NULL ? -1 : vr_lm_pattern_found(p, vr_str_of(rows[i].name));
        if (found != rows[i].found)
            print_error("'%s' in '%s': %d\n", rows[i].pattern, rows[i].name, found);
        assert_int_equal(found, rows[i].found);
        assert_int_equal(why == NULL, p != NULL);
    }
}

/* However deep, however long: an answer. */
static void bounded(void **state)
{
    vram_ctx *ctx = *state;
    static char text[20001];
    const struct vr_pattern *p = NULL;
    const char *why = NULL;
    memset(text, '(', 20000);
    assert_int_equal(vr_lm_pattern(&p, &why, text, &ctx->arena), VRAM_OK);
    assert_null(p);
    memset(text, 'a', 20000);
    assert_int_equal(vr_lm_pattern(&p, &why, text, &ctx->arena), VRAM_OK);
    assert_null(p);
    memset(text, '|', 20000);
    assert_int_equal(vr_lm_pattern(&p, &why, text, &ctx->arena), VRAM_OK);
    assert_null(p);
}

static int set_up(void **state)
{
    static hook h;
    vram_ctx *ctx = NULL;
    *state = vram_open(&ctx, hook_alloc, &h) == VRAM_OK ? ctx : NULL;
    return *state == NULL;
}

static int tear_down(void **state)
{
    vram_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
