/* SPDX-License-Identifier: MIT
 * Private to the room: rows of settings. Each engine's file owns its rows; what several engines have is
 * written once in options.c and stands in the list of each. Known words of other tools are aliases. */
#ifndef VR_OPTIONS_H
#define VR_OPTIONS_H

#include "engine/engine.h"

#define VR_MOST_TOKENS                                                                                       \
    (UINT64_C(1) << 40) /* beyond: surely a slip; products are checked where they are made */

typedef struct vr_word {
    const char *text; /* the first of a value is the one that is shown */
    uint8_t value;
} vr_word;

typedef struct vr_option_row {
    vram_option option;
    vr_setting setting; /* VR_SETTING_COUNT: the engine itself */
    vram_status (*set)(vram_workload *w, const vram_option *o, vr_str value);
    const char *(*show)(const vram_workload *w, vr_arena *a); /* what `set` would take again */
} vr_option_row;

/* VRAM_ESETTING: "--option 'value': must be ..." */
vram_status vr_option_refuse(vram_workload *w, const vram_option *o, vr_str value, const char *expected);
vram_status vr_option_word(vram_workload *w, const vram_option *o, vr_str value, const vr_word *words,
                           uint8_t *field);
const char *vr_option_word_text(const vr_word *words, uint8_t value);
vram_status vr_option_count(vram_workload *w, const vram_option *o, vr_str value, uint64_t *field);
/* A share such as 0.92, in thousandths; more than 0 and no more than 1. */
vram_status vr_option_share(vram_workload *w, const vram_option *o, vr_str value, uint32_t *field);
const char *vr_option_share_text(uint32_t permille, vr_arena *a);
/* "" as of a flag on the command line, "on" or "off" */
vram_status vr_option_flag(vram_workload *w, const vram_option *o, vr_str value, bool *field);
const char *vr_option_flag_text(bool value);

/* A setting that is one field: what reads a value into it and what shows it, both for a row. */
#define VR_OPTION(name, read, text)                                                                          \
    static vram_status set_##name(vram_workload *w, const vram_option *o, vr_str value)                      \
    {                                                                                                        \
        return read;                                                                                         \
    }                                                                                                        \
    static const char *show_##name(const vram_workload *w, vr_arena *a)                                      \
    {                                                                                                        \
        (void)a;                                                                                             \
        return text;                                                                                         \
    }
#define VR_OPTION_COUNT(name, field)                                                                         \
    VR_OPTION(name, vr_option_count(w, o, value, &w->field), vr_text(a, U(w->field)))
#define VR_OPTION_WORDS(name, words, field)                                                                  \
    VR_OPTION(name, vr_option_word(w, o, value, words, &w->field), vr_option_word_text(words, w->field))
#define VR_OPTION_FLAG(name, field)                                                                          \
    VR_OPTION(name, vr_option_flag(w, o, value, &w->field), vr_option_flag_text(w->field))

static inline bool vr_is_open(const vram_workload *w, vr_setting s)
{
    return w->set_by[s] != VR_BY_USER;
}

/* What several engines have. */
extern const vr_option_row vr_row_dtype, vr_row_kv_dtype, vr_row_host_memory;

#endif
