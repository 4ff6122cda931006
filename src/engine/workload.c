/* SPDX-License-Identifier: MIT
 * What the user wants to run. What is left open is filled from the model and from the engine's defaults of
 * its version. */
#include "engine/engine.h"

#define DEFAULT_CONTEXT 4096
#define SPEECH_PROMPT 4     /* start, language, task, no timestamps (generation_whisper.py) */
#define DEFAULT_PIXELS 1024 /* of a side, where a model takes pictures as they are */

/* ---- the object ---- */

static void release(vr_object *self)
{
    vr_arena a = ((vram_workload *)(void *)self)->arena;
    vr_arena_free(&a);
}

vram_status vram_workload_new(vram_workload **out, vram_ctx *ctx, const char *engine)
{
    size_t n;
    const vr_engine *e = engine == NULL ? vr_engines(&n)[0] : vr_engine_find(vr_str_of(engine));
    if (e == NULL)
        return vr_fail(ctx, VRAM_ESETTING, T("--engine '"), T(engine),
                       T("': must be one of " VR_ENGINE_NAMES));
    vr_arena a;
    vr_arena_init(&a, ctx);
    vram_workload *w = VR_NEW(&a, vram_workload);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->ctx = ctx;
    w->arena = a;
    w->engine = e;
    w->engine_given = engine != NULL;
    vr_object_register(ctx, &w->object, release);
    VR_TRY(e->version(w, vr_str_of(e->default_version)));
    *out = w;
    return VRAM_OK;
}

vram_status vram_workload_solve(vram_workload *w, const char *what)
{
    const char *words = "";
    for (int g = 0; g < VR_GOAL_COUNT && words != NULL; g++) {
        const char *word = vr_goal_word((vr_goal)g);
        if (vr_str_is(vr_str_of(what), word)) {
            w->solve = (uint8_t)(g + 1);
            return VRAM_OK;
        }
        words = vr_text(&w->ctx->arena, T(words), T(g > 0 ? "|" : ""), T(word));
    }
    if (words == NULL)
        return VRAM_ENOMEM;
    return vr_fail(w->ctx, VRAM_ESETTING, T("--solve '"), T(what), T("': must be one of "), T(words));
}

vram_workload *vr_workload_copy(const vram_workload *w, vr_arena *a)
{
    vram_workload *copy = VR_NEW(a, vram_workload);
    if (copy != NULL)
        *copy = *w;
    return copy;
}

/* ---- what the user left open ---- */

/* llama.cpp is what runs GGUF files; its options may have been set before it was known to be the engine. */
static vram_status choose_engine(vram_workload *w, const vram_model *m)
{
    if (w->engine_given || !m->gguf || m->foreign || w->engine == &vr_engine_llamacpp)
        return VRAM_OK;
    w->engine = &vr_engine_llamacpp;
    w->set_by[VR_SET_ENGINE_VERSION] = VR_BY_DEFAULT;
    return w->engine->version(w, vr_str_of(w->engine->default_version));
}

/* A transcription: what is said is told until the decoder's positions are used up. */
static void fill_transcription(vram_workload *w, const vram_model *m)
{
    w->context = m->max_context < SPEECH_PROMPT ? m->max_context : SPEECH_PROMPT;
    w->set_by[VR_SET_CONTEXT] = VR_BY_MODEL;
    if (w->set_by[VR_SET_DECODE] == VR_BY_USER)
        return;
    w->decode = m->max_context - w->context;
    w->set_by[VR_SET_DECODE] = VR_BY_MODEL;
}

static void fill_context(vram_workload *w, const vram_model *m)
{
    if (w->set_by[VR_SET_CONTEXT] == VR_BY_USER)
        return;
    if (m->source_positions != 0 && vr_engine_has(w->engine, VR_SET_DECODE)) {
        fill_transcription(w, m);
        return;
    }
    w->context = DEFAULT_CONTEXT;
    if (m->max_context != 0 && m->max_context < w->context) {
        w->context = m->max_context;
        w->set_by[VR_SET_CONTEXT] = VR_BY_MODEL;
    }
}

static vram_status fill_sequences(vram_workload *w)
{
    if (w->sequences == 0)
        w->sequences = 1;
    if (w->prefill_batch == 0)
        w->prefill_batch = w->sequences;
    if (w->prefill_batch > w->sequences)
        return vr_fail(w->ctx, VRAM_ESETTING, T("--prefill-batch "), U(w->prefill_batch),
                       T(" is more than --sequences "), U(w->sequences));
    return VRAM_OK;
}

static vram_status refuse_images(const vram_workload *w, const vram_model *m, const char *why)
{
    return vr_fail(w->ctx, VRAM_ESETTING, T("--images "), U(w->images), T(": "),
                   T(m->architecture != NULL ? m->architecture : "this model"), T(": "), T(why));
}

static vram_status too_many_images(const vram_workload *w)
{
    uint64_t tokens = w->images * w->picture.tokens;
    vram_status s = vr_fail(w->ctx, VRAM_ESETTING, T("--images "), U(w->images), T(": pictures of "),
                            GROUPED(w->picture.tokens), T(" tokens are more than the context of "),
                            GROUPED(w->context), T(" tokens, of which they are a part"));
    vr_hint(w->ctx, vr_text(&w->ctx->arena, T("give --context "), U(tokens), T(" and what the text takes")));
    return s;
}

/* A model that scales every picture to one size has that; others have what the user says, or an assumption.
 */
static vram_status fill_images(vram_workload *w, const vram_model *m)
{
    uint64_t assumed = DEFAULT_PIXELS;
    w->sees = m->tower != NULL;
    if (w->images == 0)
        return VRAM_OK;
    if (w->image_width == 0 && vr_picture_fixed(m)) {
        assumed = m->tower->image;
        w->set_by[VR_SET_IMAGE_SIZE] = VR_BY_MODEL;
    }
    if (w->image_width == 0)
        w->image_width = w->image_height = assumed;
    const char *why = vr_picture_of(&w->picture, m, w->image_width, w->image_height);
    if (why != NULL)
        return refuse_images(w, m, why);
    return w->picture.tokens > w->context / w->images ? too_many_images(w) : VRAM_OK;
}

static vram_status check_length(const vram_workload *w, const vram_model *m)
{
    uint64_t longest = vr_add_sat(w->context, w->decode);
    if (m->max_context == 0 || longest <= m->max_context)
        return VRAM_OK;
    return vr_warn(w->ctx, NULL, GROUPED(longest), T(" tokens are more than the "), GROUPED(m->max_context),
                   T(" that the model was made for"),
                   T(m->learned_positions ? ": its table of positions ends there, and such a run stops with "
                                            "an error"
                                          : ""));
}

vram_status vr_workload_resolve(vram_workload **out, const vram_workload *w, const vram_model *m, vr_arena *a)
{
    vram_workload *r = vr_workload_copy(w, a);
    if (r == NULL)
        return VRAM_ENOMEM;
    VR_TRY(choose_engine(r, m));
    VR_TRY(vr_workload_check(r));
    fill_context(r, m);
    VR_TRY(fill_sequences(r));
    if (vr_engine_has(r->engine, VR_SET_IMAGES))
        VR_TRY(fill_images(r, m));
    VR_TRY(r->engine->defaults(r, m));
    VR_TRY(check_length(r, m));
    if (r->prepared == NULL && r->engine->prepare != NULL) /* a lever's workload comes with it */
        VR_TRY(r->engine->prepare(r, m, a));
    *out = r;
    return VRAM_OK;
}
