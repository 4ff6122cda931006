/* SPDX-License-Identifier: MIT
 * Scenario files of `vram ledger` on any bytes. What must hold: a refusal has a text, the file and a place
 * inside; what is accepted and solved keeps the ledger's invariants on every scenario and card; the first
 * line taken as the value of a setting is refused or used, and nothing leaks either way. */
#include "fuzz.h"

#include <string.h>

#include "../support/hook.h"
#include "ledger/scenario.h"

static void check_ledger(const vr_ledger *l)
{
    uint64_t sum = 0, low = 0, high = 0;
    for (int c = 0; c < VR_CATEGORY_COUNT; c++) {
        const vr_figure *f = &l->category[c];
        CHECK(f->low <= f->bytes && f->bytes <= f->high);
        CHECK(f->counted || (f->bytes == 0 && f->basis == VR_BASIS_NOT_COUNTED));
        CHECK(f->formula != NULL);
        CHECK(vr_add(sum, f->bytes, &sum) && vr_add(low, f->low, &low) && vr_add(high, f->high, &high));
    }
    CHECK(sum == l->required && low == l->required_low && high == l->required_high);
    CHECK(l->least_certain >= 0 && l->least_certain < VR_CATEGORY_COUNT);
}

static void check_card(const vr_scenario_result *r, size_t i)
{
    const vr_scenario_card *c = &r->cards[i];
    CHECK(c->available / c->bytes == c->count);
    CHECK((c->verdict == VRAM_FITS) == (r->ledger.required_high <= c->available));
    CHECK((c->verdict == VRAM_DOES_NOT_FIT) == (r->ledger.required_low > c->available));
    CHECK(c->headroom == vr_diff(c->available, r->ledger.required));
    CHECK(c->smallest_count >= 1 && r->verdict >= c->verdict);
    CHECK(vr_mul_sat(c->smallest_count, c->bytes) >= r->ledger.required);
    CHECK(vr_mul_sat(c->smallest_count - 1, c->bytes) < r->ledger.required);
    if (c->combination != NULL) {
        CHECK(c->verdict != VRAM_FITS && c->combination->n_ids > 0 && c->combination->fits[i]);
        CHECK(c->combination->change != NULL && c->combination->option != NULL &&
              c->combination->cost != NULL);
    }
    CHECK(c->verdict == VRAM_FITS || (c->combination == NULL) == (c->combination_note != NULL));
}

static void check_result(const vr_scenario_result *r)
{
    check_ledger(&r->ledger);
    CHECK(r->ledger.required > 0 && r->n_cards <= VR_SCENARIO_CARDS);
    for (size_t i = 0; i < r->n_cards; i++)
        check_card(r, i);
    for (size_t i = 0; i < r->n_levers; i++) {
        CHECK(r->levers[i].rank == i + 1 && r->levers[i].n_ids == 1 && r->levers[i].saved > 0);
        CHECK(r->levers[i].required < r->ledger.required);
    }
    for (size_t i = 0; i < r->n_settings; i++)
        CHECK(r->settings[i].value != NULL);
}

static void check_refusal(const vram_ctx *ctx, vram_status status, size_t size)
{
    const vram_error *e = vram_last_error(ctx);
    CHECK(status < 0 && e->code == status && e->text != NULL && e->text[0] != '\0');
    CHECK(status == VRAM_EFORMAT || status == VRAM_ELIMIT);
    CHECK(e->file != NULL && (!e->has_offset || e->offset <= size));
}

static void check_solved(vram_ctx *ctx, vram_scenario *s, size_t size)
{
    vram_status status = vram_scenario_solve(s);
    if (status != VRAM_OK) {
        check_refusal(ctx, status, size);
        return;
    }
    CHECK(s->n_results >= 1 && s->n_results <= VR_SCENARIOS_MAX);
    for (size_t i = 0; i < s->n_results; i++) {
        check_result(&s->results[i]);
        CHECK(s->results[i].verdict <= vram_scenario_verdict(s));
    }
}

/* The first line as the value of a setting that its length chooses. */
static void check_setting(vram_ctx *ctx, const uint8_t *data, size_t size)
{
    char value[128];
    vram_scenario *s;
    size_t n = 0;
    while (n < size && n + 1 < sizeof(value) && data[n] != '\n') {
        value[n] = (char)data[n];
        n++;
    }
    value[n] = '\0';
    CHECK(vram_scenario_new(&s, ctx) == VRAM_OK);
    for (unsigned i = 0; i < VR_NUMBER_COUNT; i++) {
        vram_status status = vram_scenario_set(s, vr_number_key((vr_number)i), value);
        CHECK(status == VRAM_OK || status == VRAM_ESETTING);
        CHECK(s->flags.given[i] == (status == VRAM_OK));
    }
    vram_status status = vram_scenario_solve(s);
    CHECK(status == VRAM_OK || status == VRAM_ESETTING);
    if (status == VRAM_OK)
        check_result(&s->results[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hook h = { 0 };
    vram_ctx *ctx;
    vram_scenario *s;
    CHECK(vram_open(&ctx, hook_alloc, &h) == VRAM_OK);
    CHECK(vram_scenario_new(&s, ctx) == VRAM_OK);
    vram_status status = vram_scenario_read(s, "fuzz.json", data, size);
    if (status == VRAM_OK)
        check_solved(ctx, s, size);
    else
        check_refusal(ctx, status, size);
    check_setting(ctx, data, size);
    vram_close(ctx);
    CHECK(h.live_bytes == 0 && h.live_blocks == 0);
    return 0;
}
