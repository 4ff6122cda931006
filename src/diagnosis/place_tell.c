/* SPDX-License-Identifier: MIT
 *
 * What a place found tells: the tensor, what is loaded and still to come, what is missing, and the changes
 * with which the run would fit that card.
 */
#include "ledger/answer.h"

#include "diagnosis/place.h"

static bool in_load(const vr_rehearsal *r)
{
    return r->failure.next_moment <= VR_AT_LOADED;
}

/* In a pass most requests have no name of their own. */
static const char *label_of(vr_seeker *s, const vr_hit *hit)
{
    const vr_tape *t = &hit->plan.tape;
    const vr_event *e = &t->events[hit->run.failure.event];
    if (hit->run.failure.label != 0)
        return vr_arena_copy(&s->d->arena, t->labels[hit->run.failure.label]);
    return vr_item_screen((vr_item)e->item);
}

static const char *matched_words(vr_seeker *s, const vr_hit *hit)
{
    const vr_live *live = &hit->run.failure.live;
    if (s->near)
        return vr_text(&s->d->arena, BYTES(live->allocated), T(" live and "), BYTES(hit->run.failure.tried),
                       T(" asked for"));
    return vr_text(&s->d->arena, BYTES(live->allocated), T(" live, "),
                   BYTES(live->reserved - live->allocated), T(" idle and "), BYTES(hit->run.failure.tried),
                   T(" asked for"));
}

static const char *assumed_words(vr_seeker *s, const vr_hit *hit)
{
    static const char other[] = "small tensors of the program beside the model";
    if (!s->near)
        return hit->assumed;
    return hit->assumed == NULL ? other : vr_text(&s->d->arena, T(hit->assumed), T(", "), T(other));
}

static const char *further_words(const vr_further *x, const vr_spot *spot, vr_arena *a)
{
    if (x->lives)
        return "the weights would all be loaded";
    if (x->matrices == 0)
        return "it would die at this tensor all the same";
    if (x->matrices == 1)
        return vr_text(a, T("this tensor at best, of "), BYTES(spot->to_come), T(" still to come"));
    return vr_text(a, T("this tensor and "), U(x->matrices - 1),
                   T(x->matrices == 2 ? " more matrix: " : " more matrices: "), BYTES(x->bytes),
                   T(" of the "), BYTES(spot->to_come), T(" to come"));
}

static vram_status tell_expandable(vr_seeker *s, const vr_hit *hit)
{
    vr_further further;
    vr_spot *spot = &s->f->spot;
    if (!in_load(&hit->run))
        return VRAM_OK;
    VR_TRY(vr_seek_expandable(&further, s, hit));
    if (!further.known)
        return VRAM_OK;
    spot->expandable_label = further.next;
    spot->expandable = further_words(&further, spot, &s->d->arena);
    return spot->expandable != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* ---- what would fit ---- */

vram_status vr_add_sized(vr_seeker *s, const vr_remedy *r)
{
    vr_finding *f = s->f;
    if (f->remedies == NULL)
        f->remedies = VR_ARRAY(&s->d->arena, vr_remedy, VR_MAX_REMEDIES);
    if (f->remedies == NULL || r->change == NULL || r->command == NULL)
        return VRAM_ENOMEM;
    if (f->n_remedies < VR_MAX_REMEDIES)
        f->remedies[f->n_remedies++] = *r;
    return VRAM_OK;
}

static vram_status add_lever(vr_seeker *s, const vr_lever *v)
{
    return vr_add_sized(s, &(vr_remedy){ .id = v->ids[0],
                                         .change = v->change,
                                         .command = v->flag,
                                         .cost = v->cost,
                                         .sized = true,
                                         .needs = v->required,
                                         .fits = v->fits });
}

/* Of two changes, one about how pieces lie together: that is no answer to people who read beside it that too
 * little is idle, so others come first. */
static bool is_of_segments(const vr_lever *v)
{
    static const char id[] = "expandable_segments";
    return v->ids[1] != NULL && (vr_str_is(vr_str_of(v->ids[0]), id) || vr_str_is(vr_str_of(v->ids[1]), id));
}

static bool is_offered(const vr_lever *v, bool fits, bool segments)
{
    return v->flag != NULL && v->fits == fits && (segments || !is_of_segments(v));
}

/* Only what is enough and can be typed; where nothing is, what comes nearest says so by its figure. */
static vram_status add_levers(vr_seeker *s, const vram_fit *fit)
{
    static const struct {
        bool fits, segments;
    } turns[] = { { true, false }, { true, true }, { false, false }, { false, true } };
    for (size_t t = 0; t < sizeof turns / sizeof *turns && s->f->n_remedies == 0; t++)
        for (size_t i = 0; i < fit->n_levers && (turns[t].fits || s->f->n_remedies == 0); i++)
            if (is_offered(&fit->levers[i], turns[t].fits, turns[t].segments))
                VR_TRY(add_lever(s, &fit->levers[i]));
    return VRAM_OK;
}

/* ---- the cause ---- */

/* Figures that one place of the run has and no other, with nothing assumed or with idle bytes to some KiB. */
static bool is_sure(const vr_seeker *s)
{
    const vr_spot *spot = &s->f->spot;
    const vr_bounds *idle = &s->figures.idle;
    return spot->places == 1 && !s->near && (spot->assumed == NULL || idle->high - idle->low < VR_MIB);
}

/* Weights that exceed the whole card leave no other reading. */
void vr_conclude_load(vr_seeker *s, const vram_fit *fit, bool sure)
{
    vr_finding *f = s->f;
    if (f->phase == VR_PHASE_UNKNOWN || sure)
        f->phase = VR_PHASE_LOAD;
    if (fit->weights_over_usable == 0)
        return;
    f->memory = VR_MEMORY_GPU;
    f->cause = VR_CAUSE_WEIGHTS;
    f->certainty = sure ? VR_CERTAINTY_CERTAIN : VR_CERTAINTY_LIKELY;
    f->summary = "the weights alone are larger than the card";
}

/* Reasons for a cause that the run contradicts. */
static void drop_reasons(vr_finding *f, const char *about)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n_evidence; i++)
        if (!vr_str_find(vr_str_of(f->evidence[i].text), about, NULL))
            f->evidence[kept++] = f->evidence[i];
    f->n_evidence = kept;
}

/* More lacks than lies idle, so how it lies is not the matter. */
static vram_status weigh_idle(bool *little, vr_seeker *s)
{
    vr_spot *spot = &s->f->spot;
    *little = spot->short_bytes > s->figures.idle.high;
    for (size_t i = 0; i < s->f->n_remedies && *little; i++)
        *little = !vr_str_is(vr_str_of(s->f->remedies[i].id), "expandable_segments");
    if (!*little)
        return VRAM_OK;
    spot->expandable = vr_text(&s->d->arena, BYTES(spot->short_bytes), T(" lack, "),
                               BYTES(vr_bounds_middle(s->figures.idle)), T(" is idle"));
    return spot->expandable != NULL ? VRAM_OK : VRAM_ENOMEM;
}

/* What the text left open; all weights are there by then, whatever it made likely of them. */
static void conclude_pass(vr_seeker *s, const vr_hit *hit, bool idle_is_little)
{
    vr_finding *f = s->f;
    const vr_event *e = &hit->plan.tape.events[hit->run.failure.event];
    bool loaded = f->cause == VR_CAUSE_WEIGHTS && f->certainty != VR_CERTAINTY_CERTAIN;
    if (f->phase == VR_PHASE_UNKNOWN || (loaded && f->phase == VR_PHASE_LOAD))
        f->phase = VR_PHASE_FORWARD;
    bool pieces = idle_is_little && vr_str_is(vr_str_of(f->sub_cause), "fragmentation");
    if (f->cause != VR_CAUSE_UNKNOWN && !loaded && !pieces)
        return;
    if (pieces)
        drop_reasons(f, "in one piece");
    if (loaded)
        drop_reasons(f, "loading");
    bool kept = vr_item_category((vr_item)e->item) == VR_KV_CACHE;
    f->cause = kept ? VR_CAUSE_KV_CACHE : VR_CAUSE_ACTIVATIONS;
    f->certainty = VR_CERTAINTY_LIKELY;
    f->sub_cause = NULL;
    f->summary = kept ? "the weights are loaded; the KV cache finds no room"
                      : "the weights are loaded; a pass finds no room";
}

static void tell_missing(vr_seeker *s, const vram_fit *fit)
{
    vr_spot *spot = &s->f->spot;
    if (s->rank < fit->n_ranks)
        fit = &fit->ranks[s->rank];
    spot->short_bytes = fit->short_bytes;
    spot->weights_alone = fit->weights_over_usable != 0 && spot->short_bytes == fit->weights_over_usable;
    if (spot->short_bytes == 0)
        return;
    s->f->missing_known = true;
    s->f->missing_at_least = spot->short_bytes;
    s->f->missing_note = spot->weights_alone ? "of the weights alone" : "of what the whole run needs";
}

bool vr_is_refusal(vram_status s)
{
    return s == VRAM_ESETTING || s == VRAM_EUNSUPPORTED || s == VRAM_ELIMIT;
}

/* The card of the message among others like it, which are empty. */
static const vram_device **cards_of(vr_seeker *s, uint64_t available)
{
    const vram_device **cards = VR_ARRAY(&s->d->arena, const vram_device *, s->cards);
    vram_device *others = VR_NEW(&s->d->arena, vram_device);
    if (cards == NULL || others == NULL)
        return NULL;
    *others = *s->card;
    for (size_t i = 0; i < s->cards; i++)
        cards[i] = i == s->rank ? s->card : others;
    /* Windows lends a process more than the card has; what fits is what the card has. */
    vr_card_leaves(s->card, available < s->card->usable.bytes ? available : s->card->usable.bytes);
    return cards;
}

vram_status vr_tell_fit(const vram_fit **out, vr_seeker *s, const vram_workload *asked, uint64_t available)
{
    vram_fit *fit;
    const vram_device **cards = cards_of(s, available);
    *out = NULL;
    if (cards == NULL)
        return VRAM_ENOMEM;
    vram_status status = vram_fit_new(&fit, s->model, asked, cards, s->cards);
    if (status != VRAM_OK)
        return vr_is_refusal(status) ? VRAM_OK : status;
    *out = fit;
    tell_missing(s, fit);
    return add_levers(s, fit);
}

/* The label stands in the headline. */
static void tell_evidence(vr_seeker *s)
{
    const vr_spot *spot = &s->f->spot;
    vr_arena *a = &s->d->arena;
    const char *with = spot->assumed == NULL ? "" : vr_text(a, T(", "), T(spot->assumed));
    const char *where =
        spot->places == 1 ? "there and nowhere else" : vr_text(a, T("at "), U(spot->places), T(" places"));
    if (with == NULL || where == NULL)
        return;
    vr_lead_with(s->d, s->f, vr_text(a, T("the figures are those of this model's run "), T(where), T(with)));
}

/* As vram fit counts it, of the weights' bytes. */
static uint32_t loaded_permille(const vr_hit *hit)
{
    uint64_t loaded = hit->run.failure.live.allocated, all = hit->plan.weight_bytes;
    return all == 0 || loaded >= all ? 1000 : (uint32_t)vr_mul_div(loaded, 1000, all);
}

vram_status vr_tell_place(vr_seeker *s, const vr_hit *hit)
{
    vr_spot *spot = &s->f->spot;
    const vram_fit *fit;
    s->card->usable.bytes = s->card->facts.usable = hit->usable;
    spot->found = true;
    spot->places = hit->places;
    spot->label = label_of(s, hit);
    spot->matched = matched_words(s, hit);
    spot->assumed = assumed_words(s, hit);
    if (spot->label == NULL || spot->matched == NULL)
        return VRAM_ENOMEM;
    if (in_load(&hit->run))
        spot->to_come = vr_sub_floor(hit->plan.weight_bytes, hit->run.failure.live.items[VR_ITEM_PARAMETERS]);
    VR_TRY(tell_expandable(s, hit));
    tell_evidence(s);
    VR_TRY(vr_tell_fit(&fit, s, hit->asked, hit->available));
    spot->loaded_permille = in_load(&hit->run) ? loaded_permille(hit) : 0;
    if (in_load(&hit->run)) {
        if (fit != NULL)
            vr_conclude_load(s, fit, is_sure(s));
        return VRAM_OK;
    }
    bool little;
    VR_TRY(weigh_idle(&little, s));
    conclude_pass(s, hit, little);
    return VRAM_OK;
}
