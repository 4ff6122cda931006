/* SPDX-License-Identifier: MIT
 *
 * The tables data/symptoms.tsv and data/symptom_words.tsv: what people see, in plain words, and what it
 * points to. data/README.md says how words are matched.
 */
#ifndef VR_SYMPTOMS_H
#define VR_SYMPTOMS_H

#include "diagnosis/texts.h"

typedef struct vr_symptom {
    const char *id;
    const char
        *words; /* groups between " + ", all of which must be there; in one " | " between alternatives */
    const char *without; /* alternatives none of which may be there; or NULL */
    uint8_t program, memory, phase, cause, certainty;
    const char *sub_cause;
    uint32_t rank; /* of rows with as many groups the highest counts */
    const char *summary, *why;
    const char *tell, *tell_why; /* the command that would tell, and what it tells */
} vr_symptom;

/* Words that stand for the same: "@name" in the other table. */
typedef struct vr_symptom_word {
    const char *name, *words;
} vr_symptom_word;

extern const vr_symptom vr_symptom_table[];
extern const size_t vr_symptom_table_n;
extern const vr_symptom_word vr_symptom_word_table[];
extern const size_t vr_symptom_word_table_n;

#define VR_SYMPTOMS_TOLD 3

/* The rows that fit what was said, best first; at most VR_SYMPTOMS_TOLD, each of another cause. Time grows
 * with the words, of which the first 256 count. *n is 0 when none fits. */
vram_status vr_symptoms_of(vr_arena *a, const char *said, const vr_symptom **out, size_t *n);

#endif
