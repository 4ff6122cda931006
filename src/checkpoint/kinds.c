/* SPDX-License-Identifier: MIT
 * What a file of a listing is, by its name alone: weights of a set, an index, a configuration, or what holds
 * no weights that are counted here.
 * Names: transformers 5.24 utils/__init__.py (WEIGHTS_NAME and its neighbours) and trainer.py (TRAINER_STATE,
 * OPTIMIZER_NAME, SCHEDULER_NAME, rng_state); diffusers 0.35 utils/constants.py and
 * pipelines/pipeline_loading_utils.py (variant_file_re, variant_index_re and their legacy forms);
 * huggingface_hub serialization/_base.py ("model{suffix}.safetensors", suffix "-00001-of-00004"); llama.cpp
 * llama_split_path ("%s-%05d-of-%05d.gguf"); peft utils/constants.py; meta-llama/llama
 * ("consolidated.00.pth"). */
#include "checkpoint/kinds.h"

#include <string.h>

/* ---- words ---- */

static bool ends_case(vr_str s, const char *tail)
{
    size_t n = strlen(tail);
    if (s.n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (vr_lower(s.s[s.n - n + i]) != tail[i])
            return false;
    }
    return true;
}

static vr_str cut(vr_str s, size_t from_end)
{
    return (vr_str){ s.s, s.n - from_end };
}

/* Where the last c of s is; false: there is none. */
static bool last_of(vr_str s, char c, size_t *at)
{
    for (size_t i = s.n; i-- > 0;) {
        if (s.s[i] == c) {
            *at = i;
            return true;
        }
    }
    return false;
}

bool vr_name_leads_out(vr_str name)
{
    vr_str rest = name, part;
    while (vr_str_split(&rest, '/', &part)) {
        if (vr_str_is(part, "..") || vr_str_is(part, ".") || part.n == 0)
            return true; /* an empty part: "/etc", "a//b", "a/" */
    }
    return false;
}

/* ---- what holds no weights of ours ---- */

static const struct {
    const char *head, *tail, *why; /* of the name without its folder */
} no_weights[] = {
    { "optimizer", ".pt", VR_WHY_TRAINING },
    { "optimizer", ".bin", VR_WHY_TRAINING },
    { "scheduler", ".pt", VR_WHY_TRAINING },
    { "scheduler", ".bin", VR_WHY_TRAINING },
    { "scaler", ".pt", VR_WHY_TRAINING },
    { "rng_state", ".pth", VR_WHY_TRAINING },
    { "random_states", ".pkl", VR_WHY_TRAINING },
    { "training_args", ".bin", VR_WHY_TRAINING },
    { "", "_optim_states.pt", VR_WHY_TRAINING },
    { "openvino", ".bin", "OpenVINO" },
    { "imatrix", ".gguf", "importance matrix, no weights" },
    { "", ".imatrix.gguf", "importance matrix, no weights" },
    { "tf_model", ".h5", "TensorFlow" },
    { "", ".h5", "Keras" },
    { "", ".keras", "Keras" },
    { "", ".msgpack", "Flax" },
    { "", ".onnx", "ONNX" },
    { "", ".onnx_data", "ONNX" },
    { "", ".onnx.data", "ONNX" },
    { "", ".pb", "TensorFlow or ONNX" },
    { "", ".tflite", "TensorFlow" },
    { "", ".ot", "rust-bert" },
    { "", ".pdparams", "Paddle" },
    { "", ".nemo", "NeMo" },
    { "", ".mlmodel", "Core ML" },
};

static const char *why_no_weights(vr_str name, vr_str base)
{
    if (vr_str_find(name, ".mlpackage/", NULL) || vr_str_find(name, ".mlmodelc/", NULL))
        return "Core ML";
    for (size_t i = 0; i < sizeof(no_weights) / sizeof(no_weights[0]); i++) {
        if (vr_str_starts(base, no_weights[i].head) && ends_case(base, no_weights[i].tail))
            return no_weights[i].why;
    }
    return NULL;
}

/* ---- weights ---- */

static const struct {
    const char *tail;
    uint8_t ext; /* vr_family_of_files */
} tails[] = { { ".safetensors", VR_FILES_SAFETENSORS },
              { ".gguf", VR_FILES_GGUF },
              { ".bin", VR_FILES_BIN },
              { ".pt", VR_FILES_PT },
              { ".pth", VR_FILES_PT },
              { ".ckpt", VR_FILES_PT } };

static bool digits(vr_str s, size_t at, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = at; i < at + n; i++) {
        if (s.s[i] < '0' || s.s[i] > '9')
            return false;
        v = v * 10 + (uint32_t)(s.s[i] - '0');
    }
    *out = v;
    return true;
}

/* Takes "-00001-of-00004" off the end of the stem. */
static bool take_number(vr_kind *k)
{
    const size_t n = sizeof("-00001-of-00004") - 1;
    vr_str s = k->stem;
    if (s.n <= n || s.s[s.n - n] != '-' || memcmp(s.s + s.n - n + 6, "-of-", 4) != 0 ||
        !digits(s, s.n - n + 1, 5, &k->number) || !digits(s, s.n - n + 10, 5, &k->of) || k->number == 0 ||
        k->number > k->of) {
        k->number = k->of = 0;
        return false;
    }
    k->digits = s.s + s.n - n + 1;
    k->stem = cut(s, n);
    k->numbered = true;
    return true;
}

/* "consolidated.00.pth": one file of each rank; how many there are, no name says. */
static void take_rank(vr_kind *k)
{
    uint32_t rank;
    if (k->ext == VR_FILES_PT && k->stem.n > 3 && k->stem.s[k->stem.n - 3] == '.' &&
        digits(k->stem, k->stem.n - 2, 2, &rank)) {
        k->stem = cut(k->stem, 3);
        k->numbered = true;
    }
}

static bool is_variant_word(vr_str word)
{
    static const char *const words[] = { "fp16", "bf16", "fp32", "fp8", "ema", "non_ema" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (vr_str_is(word, words[i]))
            return true;
    }
    return false;
}

static bool is_loaders_stem(vr_str stem)
{
    return vr_str_is(stem, "model") || vr_str_is(stem, "pytorch_model") ||
           vr_str_is(stem, "diffusion_pytorch_model");
}

/* "model.fp16": behind the stems of the loaders any word is a variant, behind others the known ones. */
static void take_variant(vr_kind *k)
{
    size_t dot;
    if ((k->ext != VR_FILES_SAFETENSORS && k->ext != VR_FILES_BIN) || !last_of(k->stem, '.', &dot))
        return;
    vr_str before = { k->stem.s, dot }, word = { k->stem.s + dot + 1, k->stem.n - dot - 1 };
    vr_kind whole = { .stem = before };
    (void)take_number(&whole);
    if (word.n == 0 || !(is_variant_word(word) || is_loaders_stem(whole.stem)))
        return;
    k->variant = word;
    k->stem = before;
}

static bool take_tail(vr_kind *k)
{
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (!ends_case(k->stem, tails[i].tail))
            continue;
        k->ext = tails[i].ext;
        k->stem = cut(k->stem, strlen(tails[i].tail));
        return true;
    }
    return false;
}

/* ---- index files ---- */

/* "model.safetensors.index.json", "model.safetensors.index.fp16.json", "model.fp16.safetensors.index.json" */
static bool take_index(vr_str base, vr_kind *k)
{
    size_t at;
    if (!vr_str_ends(base, ".json") || !vr_str_find(base, ".index.", &at))
        return false;
    const size_t word_at = at + sizeof(".index.") - 1, json = sizeof(".json") - 1;
    k->stem = (vr_str){ base.s, at };
    if (base.n - word_at > json) {
        k->variant = (vr_str){ base.s + word_at, base.n - word_at - json };
    } else if (base.n - word_at != json - 1) {
        return false;
    }
    if (!take_tail(k) || (k->ext != VR_FILES_SAFETENSORS && k->ext != VR_FILES_BIN))
        return false;
    if (k->variant.n == 0)
        take_variant(k);
    k->role = VR_ROLE_INDEX;
    k->numbered = true;
    return true;
}

/* ---- the whole ---- */

static const struct {
    const char *base;
    uint8_t role; /* vr_file_role */
    bool root_only;
} sides[] = { { "config.json", VR_ROLE_CONFIG, false },
              { "model_index.json", VR_ROLE_PIPELINE, true },
              { "modules.json", VR_ROLE_MODULES, true },
              { "adapter_config.json", VR_ROLE_ADAPTER, false } };

static bool is_side(vr_str base, vr_kind *k)
{
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
        if (vr_str_is(base, sides[i].base) && (k->folder.n == 0 || !sides[i].root_only)) {
            k->role = sides[i].role;
            return true;
        }
    }
    return false;
}

bool vr_kind_of(vr_str name, vr_kind *k)
{
    size_t slash;
    vr_str base = name;
    *k = (vr_kind){ .folder = { name.s, 0 } };
    if (last_of(name, '/', &slash)) {
        k->folder.n = slash + 1;
        base = (vr_str){ name.s + slash + 1, name.n - slash - 1 };
    }
    if (is_side(base, k) || take_index(base, k))
        return true;
    *k = (vr_kind){ .folder = k->folder, .stem = base, .why = why_no_weights(name, base) };
    k->role = k->why != NULL ? VR_ROLE_OTHER : VR_ROLE_WEIGHTS;
    if (k->why != NULL)
        return true;
    if (!take_tail(k))
        return false;
    take_rank(k);
    (void)take_number(k);
    take_variant(k);
    if (!k->numbered) /* "model-00001-of-00002.fp16", the older form */
        (void)take_number(k);
    return true;
}

void vr_kind_of_named(vr_str name, vr_kind *k)
{
    bool known = vr_kind_of(name, k);
    vr_str folder = k->folder;
    if (known && (k->role == VR_ROLE_WEIGHTS || k->role == VR_ROLE_INDEX))
        return;
    if (vr_str_ends(name, ".json")) {
        *k = (vr_kind){ .folder = folder, .role = VR_ROLE_CONFIG };
        return;
    }
    *k = (vr_kind){ .folder = folder, .stem = { name.s + folder.n, name.n - folder.n }, .ext = VR_FILES_PT };
    (void)take_tail(k);
}

bool vr_kind_is(const vr_kind *k, const char *stem)
{
    return vr_str_is(k->stem, stem);
}
