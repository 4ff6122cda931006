/* SPDX-License-Identifier: MIT
 *
 * `vram ledger --json`: schema vram.ledger/1. Each scenario has the members of vram.fit/1; a single one has
 * them at the top as well, so that one reader serves both commands. Card sizes are alternatives: one entry of
 * `devices` each.
 */
#include "report/scenario_report.h"

/* Numbers as numbers: settings keep them as they were typed. */
static void put_value(vr_json_out *o, const char *text)
{
    uint64_t value, scale;
    unsigned places = 0;

    if (!vr_parse_decimal(vr_str_of(text), &value, &scale)) {
        vr_json_put_text(o, text);
        return;
    }
    for (uint64_t s = scale; s >= 10; s /= 10)
        places++;
    vr_json_put_fixed(o, value, scale, places);
}

/* Always a list, also of one. */
static void put_sizes(vr_json_out *o, const vr_scenario_result *x)
{
    vr_json_open(o, '[');
    for (size_t i = 0; i < x->n_cards; i++)
        vr_json_put_fixed(o, x->cards[i].bytes, VR_GIB, 3);
    vr_json_close(o, ']');
}

static void put_settings(vr_json_out *o, const vr_scenario_result *x)
{
    vr_json_key(o, "workload");
    vr_json_open(o, '{');
    for (size_t i = 0; i < x->n_settings; i++) {
        const vr_scenario_setting *g = &x->settings[i];
        vr_json_key(o, vr_number_key(g->number));
        vr_json_open(o, '{');
        vr_json_key(o, "value");
        if (g->number == VR_NUM_GPU_MEMORY_GIB)
            put_sizes(o, x);
        else
            put_value(o, g->value);
        vr_json_kv_text(o, "set_by", vr_set_by_name(g->set_by));
        vr_json_close(o, '}');
    }
    vr_json_close(o, '}');
}

static void put_gpu(vr_json_out *o, vr_report *r, const vr_scenario_card *c)
{
    vr_json_key(o, "gpu");
    vr_json_open(o, '{');
    vr_json_kv_null(o, "id");
    vr_json_kv_text(o, "name", vr_scenario_size(r, c->bytes, 1));
    vr_json_kv_u64(o, "usable_bytes", c->bytes);
    vr_json_kv_u64(o, "available_bytes", c->bytes);
    vr_json_kv_text(o, "set_by", vr_set_by_name(VR_BY_USER));
    vr_json_close(o, '}');
}

/* card: the one that `fits` is about; n_cards: all of them. */
static void put_change(vr_json_out *o, const vr_scenario_result *x, const vr_scenario_lever *v, size_t card)
{
    bool fits = x->n_cards != 0;

    vr_json_open(o, '{');
    vr_json_key(o, "ids");
    vr_json_open(o, '[');
    for (size_t i = 0; i < v->n_ids; i++)
        vr_json_put_text(o, v->ids[i]);
    vr_json_close(o, ']');
    vr_json_kv_text(o, "change", v->change);
    vr_json_kv_text(o, "flag", v->option);
    vr_json_kv_u64(o, "required_bytes", v->required);
    vr_json_kv_i64(o, "saved_bytes", v->saved);
    vr_json_key(o, "fits_on");
    vr_json_open(o, '[');
    for (size_t i = 0; i < x->n_cards; i++) {
        vr_json_put_bool(o, v->fits[i]);
        fits = fits && (v->fits[i] || (card < x->n_cards && i != card));
    }
    vr_json_close(o, ']');
    vr_json_kv_bool(o, "fits", fits);
    vr_json_kv_text(o, "cost", v->cost);
    vr_json_kv_u64(o, "rank", v->rank);
    vr_json_close(o, '}');
}

static void put_verdict(vr_json_out *o, const vr_scenario_result *x, const vr_scenario_card *c)
{
    vr_json_kv_i64(o, "headroom_bytes", c->headroom);
    vr_json_kv_text(o, "verdict", vr_verdict_json(c->verdict));
    vr_json_kv_null(o, "failure");
    vr_json_key(o, "combination");
    if (c->combination != NULL)
        put_change(o, x, c->combination, (size_t)(c - x->cards));
    else
        vr_json_put_null(o);
    vr_json_kv_text(o, "combination_note", c->combination_note);
    vr_json_gpu_count(o, c->smallest_count, x->count_note);
}

static void put_device(vr_json_out *o, vr_report *r, const vr_scenario_result *x, const vr_scenario_card *c)
{
    vr_json_open(o, '{');
    vr_json_kv_text(o, "kind", "gpu");
    vr_json_kv_u64(o, "count", c != NULL ? c->count : 1);
    if (c != NULL)
        put_gpu(o, r, c);
    else
        vr_json_kv_null(o, "gpu");
    vr_json_ledger(o, &x->ledger, "share_of_weights");
    vr_json_overhead(o, &x->ledger, "share_of_weights");
    vr_json_key(o, "moments");
    vr_json_open(o, '[');
    vr_json_close(o, ']');
    vr_json_totals(o, &x->ledger);
    vr_json_kv_text(o, "least_certain_why", x->least_certain_why);
    if (c != NULL)
        put_verdict(o, x, c);
    vr_json_close(o, '}');
}

static void put_model(vr_json_out *o, const vr_scenario_result *x)
{
    vr_json_key(o, "model");
    vr_json_open(o, '{');
    vr_json_kv_text(o, "name", x->numbers.name);
    vr_json_kv_if(o, "parameters", x->numbers.given[VR_NUM_PARAMS], x->numbers.params);
    vr_json_close(o, '}');
}

static void put_members(vr_json_out *o, vr_report *r, const vram_scenario *s, const vr_scenario_result *x)
{
    put_model(o, x);
    put_settings(o, x);
    vr_json_key(o, "devices");
    vr_json_open(o, '[');
    for (size_t i = 0; i < x->n_cards; i++)
        put_device(o, r, x, &x->cards[i]);
    if (x->n_cards == 0)
        put_device(o, r, x, NULL);
    vr_json_close(o, ']');
    vr_json_kv_text(o, "verdict", vr_verdict_json(x->verdict));
    vr_json_key(o, "levers");
    vr_json_open(o, '[');
    for (size_t i = 0; i < x->n_levers; i++)
        put_change(o, x, &x->levers[i], x->n_cards);
    vr_json_close(o, ']');
    vr_json_kv_text(o, "ranked_by", s->ranked_by);
}

void vr_scenario_json(vr_report *r, const vram_scenario *s)
{
    vr_json_out o;

    vr_json_start(&o, r, "vram.ledger/1");
    if (s->n_results == 1)
        put_members(&o, r, s, &s->results[0]);
    else
        vr_json_kv_text(&o, "verdict", vr_verdict_json(s->verdict));
    vr_json_key(&o, "scenarios");
    vr_json_open(&o, '[');
    for (size_t i = 0; i < s->n_results; i++) {
        vr_json_open(&o, '{');
        put_members(&o, r, s, &s->results[i]);
        vr_json_close(&o, '}');
        vr_report_flush(r);
    }
    vr_json_close(&o, ']');
    vr_json_warnings(&o, s->ctx);
    vr_json_end(&o, r);
}
