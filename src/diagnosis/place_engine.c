/* SPDX-License-Identifier: MIT
 *
 * The workload of the engine that printed a message, where the user named none.
 */
#include "diagnosis/place.h"

vram_status vr_workload_of_engine(const vram_workload **out, vr_seeker *s, const char *engine)
{
    const vram_workload *asked = s->asked;
    vram_workload *w;
    *out = asked;
    if (asked->engine_given && vr_str_is(vr_str_of(asked->engine->name), engine))
        return VRAM_OK;
    VR_TRY(vram_workload_new(&w, s->d->ctx, engine));
    w->dtype = asked->dtype;
    w->dtype_auto = asked->dtype_auto;
    w->set_by[VR_SET_DTYPE] = asked->set_by[VR_SET_DTYPE];
    *out = w;
    return VRAM_OK;
}

/* NULL: none here runs as that does; "": what the user named, or the default. */
static const char *engine_of(uint8_t program)
{
    switch (program) {
    case VR_PROGRAM_VLLM:
        return "vllm";
    case VR_PROGRAM_SGLANG:
        return "sglang";
    case VR_PROGRAM_OLLAMA:
        return "ollama";
    case VR_PROGRAM_LLAMACPP:
    case VR_PROGRAM_KOBOLDCPP:
        return "llama.cpp";
    default:
        return "";
    }
}

vram_status vr_workload_of_program(const vram_workload **out, vr_seeker *s)
{
    const vram_workload *asked = s->asked;
    const char *name = engine_of(s->f->program);
    const vr_engine *engine = *name != '\0' ? vr_engine_find(vr_str_of(name)) : NULL;
    *out = asked;
    if (asked->engine_given || engine == asked->engine)
        return VRAM_OK;
    if (engine == NULL) {
        *out = vr_runs_otherwise(s->f) ? NULL : asked;
        return VRAM_OK;
    }
    vram_workload *w = vr_workload_copy(asked, &s->d->arena);
    if (w == NULL)
        return VRAM_ENOMEM;
    w->engine = engine;
    w->engine_given = true;
    w->prepared = NULL;
    *out = w;
    return w->engine->version(w, vr_str_of(w->engine->default_version));
}
