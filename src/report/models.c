/* SPDX-License-Identifier: MIT
 *
 * What the rows of the catalogue say, each read as `vram inspect` reads it, in a context of its own: what is
 * to be warned of in one of them belongs to no list.
 */
#include "report/models_report.h"

static bool matches(const vr_catalogue_row *row, const char *search, bool *any)
{
    vr_str rest = vr_str_of(search), word;

    while (vr_str_split(&rest, ' ', &word)) {
        *any = *any || word.n != 0;
        if (word.n != 0 && !vr_str_holds(vr_str_of(row->name), word) &&
            !vr_str_holds(vr_str_of(row->repo), word) && !vr_str_holds(vr_str_of(row->aliases), word))
            return false;
    }
    return true;
}

static vram_status keep(const char **out, vr_arena *a, const char *text)
{
    *out = text != NULL ? vr_arena_copy(a, vr_str_of(text)) : NULL;
    return text == NULL || *out != NULL ? VRAM_OK : VRAM_ENOMEM;
}

static vram_status tell(vr_built_in *out, vr_arena *a, const vram_model *m)
{
    bool known = m->weights_unknown == NULL;

    out->parameters = m->packing.uncountable ? 0 : m->parameters;
    out->weights = known ? m->checkpoint->tensor_bytes : 0;
    out->max_context = m->max_context;
    out->kv_per_token = m->kv_bytes_per_token_16bit;
    VR_TRY(keep(&out->model_type, a, m->model_type));
    VR_TRY(keep(&out->quantisation, a, m->packing.title));
    return keep(&out->not_known, a, m->weights_unknown);
}

static vram_status read_row(vr_built_in *out, vr_arena *a)
{
    vram_ctx *own = NULL;
    vram_checkpoint *ck = NULL;
    vram_model *m = NULL;
    vram_status s = vram_open(&own, a->ctx->alloc, a->ctx->ud);

    if (s != VRAM_OK)
        return s;
    s = vram_checkpoint_catalogue(&ck, own, out->row->name);
    if (s == VRAM_OK)
        s = vram_model_new(&m, ck);
    if (s == VRAM_OK)
        s = tell(out, a, m);
    else
        s = vram_fail(a->ctx, vram_last_error(own));
    vram_close(own);
    return s;
}

vram_status vr_built_in_search(const char *search, vr_arena *a, vr_built_in **out, size_t *n)
{
    size_t rows;
    const vr_catalogue_row *row = vr_catalogue(&rows);
    bool any = search == NULL;

    *n = 0;
    *out = VR_ARRAY(a, vr_built_in, rows);
    if (*out == NULL)
        return VRAM_ENOMEM;
    for (size_t i = 0; i < rows; i++) {
        if ((search == NULL || matches(&row[i], search, &any)) && any)
            (*out)[(*n)++].row = &row[i];
    }
    return VRAM_OK;
}

vram_status vr_built_in_read(vr_built_in *models, size_t n, vr_arena *a)
{
    for (size_t i = 0; i < n; i++)
        VR_TRY(read_row(&models[i], a));
    return VRAM_OK;
}
