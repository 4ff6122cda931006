/* SPDX-License-Identifier: MIT
 * How many patches and tokens a picture becomes: what the processors of transformers 5.24 do. A model's
 * preprocessor_config.json is not read: the limits below are those of qwen-vl-utils for Qwen2.5-VL, and from
 * memory for the others. Their arithmetic is in doubles; so is this. */
#include "model/tower.h"

#define STEEPEST 200 /* times as long as wide; smart_resize refuses more */
#define QWEN2_5_LEAST (UINT64_C(4) * 28 * 28)
#define QWEN2_5_MOST (UINT64_C(16384) * 28 * 28)
#define QWEN3_LEAST (UINT64_C(256) * 256)
#define QWEN3_MOST (UINT64_C(4096) * 4096)
#define PIXTRAL_LONGEST 1024  /* Pixtral-12B */
#define MISTRAL3_LONGEST 1540 /* Mistral-Small-3.1 */

/* ---- arithmetic ---- */

/* Rounded as IEEE 754 says, two bits of x at a time; x > 0. */
static double square_root(double x)
{
    double scale = 1;
    for (; x < 4503599627370496.0; x *= 4) /* 2^52 */
        scale /= 2;
    for (; x >= 18014398509481984.0; x /= 4) /* 2^54 */
        scale *= 2;
    uint64_t m = (uint64_t)x, root = 0, rest = 0;
    for (int i = 26; i >= -27; i--) {
        rest = rest * 4 + (i >= 0 ? (m >> (2 * i)) & 3 : 0);
        uint64_t next = root * 4 + 1;
        root *= 2;
        if (rest >= next) {
            rest -= next;
            root++;
        }
    }
    root = (root >> 1) + (root & 1);          /* 54 bits, and none is a tie */
    return (double)root / 67108864.0 * scale; /* 2^26 */
}

static uint64_t ceiling(double x)
{
    uint64_t n = (uint64_t)x;
    return (double)n < x ? n + 1 : n;
}

/* Python's round(n / factor): halves go to the even one. */
static uint64_t nearest(uint64_t n, uint64_t factor)
{
    uint64_t down = n / factor, twice = n % factor * 2;
    return twice > factor || (twice == factor && down % 2 != 0) ? down + 1 : down;
}

static uint64_t at_least_one(double parts)
{
    return parts < 1 ? 1 : (uint64_t)parts;
}

/* ---- Qwen ---- */

/* image_processing_qwen2_vl.py, smart_resize: sides are multiples of `factor`, pixels between two limits. */
static const char *smart_resize(vr_picture *out, uint64_t factor, uint64_t least, uint64_t most)
{
    double h = (double)out->height, w = (double)out->width, f = (double)factor;
    uint64_t long_side = out->height > out->width ? out->height : out->width;
    if (long_side > (out->height < out->width ? out->height : out->width) * STEEPEST)
        return "its processor refuses pictures more than 200 times as long as wide";
    uint64_t rows = nearest(out->height, factor), columns = nearest(out->width, factor);
    uint64_t pixels = rows * factor * columns * factor;
    if (pixels > most) {
        double beta = square_root(h * w / (double)most);
        rows = at_least_one(h / beta / f);
        columns = at_least_one(w / beta / f);
    } else if (pixels < least) {
        double beta = square_root((double)least / (h * w));
        rows = ceiling(h * beta / f);
        columns = ceiling(w * beta / f);
    }
    out->height = rows * factor;
    out->width = columns * factor;
    return NULL;
}

static const char *merged_picture(vr_picture *out, const vr_tower *t, uint64_t least, uint64_t most)
{
    const char *why = smart_resize(out, t->patch * t->merge, least, most);
    out->rows = out->height / t->patch;
    out->columns = out->width / t->patch;
    out->features = out->tokens = out->rows / t->merge * (out->columns / t->merge);
    return why;
}

const char *vr_picture_qwen2_5(vr_picture *out, const vr_tower *t)
{
    return merged_picture(out, t, QWEN2_5_LEAST, QWEN2_5_MOST);
}

const char *vr_picture_qwen3(vr_picture *out, const vr_tower *t)
{
    return merged_picture(out, t, QWEN3_LEAST, QWEN3_MOST);
}

/* ---- one size for all ---- */

/* Gemma 3 (pan and scan is off): mm_tokens_per_image. LLaVA: all patches, the class token is left out. */
const char *vr_picture_square(vr_picture *out, const vr_tower *t)
{
    out->width = out->height = t->image;
    out->rows = out->columns = t->image / t->patch;
    out->features = out->tokens = t->picture_tokens != 0 ? t->picture_tokens : out->rows * out->columns;
    return NULL;
}

/* ---- Pixtral ---- */

/* image_processing_pixtral.py, get_resize_output_image_size; processing_pixtral.py: each row of features ends
 * with a token of its own. Mistral 3 merges, and so its patches are larger for the processor. */
const char *vr_picture_pixtral(vr_picture *out, const vr_tower *t)
{
    bool merges = t->merge > 1;
    double longest = merges ? MISTRAL3_LONGEST : PIXTRAL_LONGEST;
    double h = (double)out->height, w = (double)out->width, ratio = (h > w ? h : w) / longest;
    uint64_t patch = t->patch * (merges ? t->merge : 1);
    if (ratio > 1) {
        out->height = at_least_one(h / ratio);
        out->width = at_least_one(w / ratio);
    }
    uint64_t rows = (out->height - 1) / patch + 1, columns = (out->width - 1) / patch + 1;
    out->height = rows * patch;
    out->width = columns * patch;
    out->rows = out->height / t->patch;
    out->columns = out->width / t->patch;
    out->features = rows * columns;
    out->tokens = out->features + rows;
    return NULL;
}

/* ---- all ---- */

const char *vr_picture_of(vr_picture *out, const vram_model *m, uint64_t width, uint64_t height)
{
    const vr_tower *t = m->tower;
    *out = (vr_picture){ .width = width, .height = height };
    if (t == NULL)
        return m->uncounted_part != NULL ? "what it does with pictures is not known" : "it sees no pictures";
    if (t->kind->picture == NULL)
        return "what its processor makes of pictures is not known";
    if (t->kind->scales && t->image < t->patch)
        return "its pictures are smaller than a patch";
    return t->kind->picture(out, t);
}

bool vr_picture_fixed(const vram_model *m)
{
    return m->tower != NULL && m->tower->kind->scales;
}
