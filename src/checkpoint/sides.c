/* SPDX-License-Identifier: MIT
 * The small JSON files beside the weights that say what folders and files are: model_index.json of diffusers,
 * modules.json of sentence-transformers, adapter_config.json of PEFT. Strict JSON, a few KB. */
#include "checkpoint/loading.h"

static vram_status parse(vram_checkpoint *ck, const vr_input *in, vr_str text, vr_json_type type,
                         vr_json *root)
{
    vr_json_error e;
    if (!vr_json_parse(text, root, &e))
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, e.offset, T("not valid JSON: "), T(e.reason));
    if (root->type != type)
        return vr_fail_at(ck->ctx, VRAM_EFORMAT, in->name, (uint64_t)(root->text.s - text.s),
                          T(type == VR_JSON_ARRAY ? "such a file must be a JSON array"
                                                  : "such a file must be a JSON object"));
    return VRAM_OK;
}

static vram_status read_adapter(vram_checkpoint *ck, vr_str text)
{
    vr_loading *l = ck->loading;
    VR_TRY(parse(ck, l->adapter, text, VR_JSON_OBJECT, &ck->adapter_config));
    ck->adapter_text = text;
    ck->adapter_file = l->adapter->name;
    ck->has_adapter = true;
    return VRAM_OK;
}

static vram_status read_all(vram_checkpoint *ck, const vr_str *texts)
{
    vr_loading *l = ck->loading;
    vr_json root;
    if (l->adapter != NULL)
        VR_TRY(read_adapter(ck, texts[0]));
    if (l->pipeline != NULL) {
        VR_TRY(parse(ck, l->pipeline, texts[1], VR_JSON_OBJECT, &root));
        VR_TRY(vr_parts_pipeline(ck, root, texts[1].s));
    }
    if (l->modules != NULL) {
        VR_TRY(parse(ck, l->modules, texts[2], VR_JSON_ARRAY, &root));
        VR_TRY(vr_parts_modules(ck, root, texts[2].s));
    }
    l->sides_read = true;
    return VRAM_OK;
}

vram_status vr_sides_read(vram_checkpoint *ck)
{
    vr_loading *l = ck->loading;
    vr_input *const inputs[] = { l->adapter, l->pipeline, l->modules };
    vr_str texts[3] = { { NULL, 0 } };
    if (l->sides_read)
        return VRAM_OK;
    for (size_t i = 0; i < 3; i++) {
        vram_status s = inputs[i] != NULL ? vr_whole_text(ck, inputs[i], &texts[i]) : VRAM_OK;
        if (s < 0)
            return s;
    }
    return vr_fault_waits(ck) ? VRAM_MORE : read_all(ck, texts);
}
