/* SPDX-License-Identifier: MIT
 *
 * The tables data/error_texts.tsv and data/log_signs.tsv: what programs print, a row each. data/README.md
 * says what may stand in the columns, the language of templates included.
 */
#ifndef VR_TEXTS_H
#define VR_TEXTS_H

#include "base/base.h"
#include "diagnosis/words.h"

#define X(id, word, meaning) VR_MEMORY_##id,
typedef enum vr_memory { VR_MEMORIES(X) VR_MEMORY_COUNT } vr_memory;
#undef X
#define X(id, word, meaning) VR_PHASE_##id,
typedef enum vr_phase_id { VR_PHASES(X) VR_PHASE_COUNT } vr_phase_id;
#undef X
#define X(id, word, meaning) VR_CAUSE_##id,
typedef enum vr_cause { VR_CAUSES(X) VR_CAUSE_COUNT } vr_cause;
#undef X
#define X(id, word, meaning) VR_CERTAINTY_##id,
typedef enum vr_certainty { VR_CERTAINTIES(X) VR_CERTAINTY_COUNT } vr_certainty;
#undef X
#define X(id, word, meaning) VR_PROGRAM_##id,
typedef enum vr_program { VR_PROGRAMS(X) VR_PROGRAM_COUNT } vr_program;
#undef X
#define X(id, word) VR_TEXT_##id,
typedef enum vr_text_kind { VR_TEXT_KINDS(X) VR_TEXT_KIND_COUNT } vr_text_kind;
#undef X

/* A word of the lists above and what it means; made from them. */
typedef struct vr_term {
    const char *word, *meaning;
} vr_term;
extern const vr_term vr_memory_words[], vr_phase_words[], vr_cause_words[], vr_certainty_words[],
    vr_program_words[];

typedef struct vr_text_row {
    const char *id;
    uint8_t kind; /* vr_text_kind */
    /* " | "-separated alternatives, lower case, at least 5 bytes each. A blank stands for any white space,
     * line ends included. */
    const char *anchor;
    const char *needs; /* NULL; or a text that the block, behind "=" the line, must hold as well */
    const char *wants; /* the template, " ~ "-separated pieces; or NULL */
    uint8_t program, memory, phase, cause, certainty; /* what the text says by itself; 0: nothing */
    uint32_t rank;        /* how specific, 1 to 99: of hits in one block the highest is the event */
    const char *versions; /* in words, or NULL */
    const char *meaning;  /* one sentence: what the text says, units resolved; or NULL */
    const char *example;  /* our own; "\n" in it is a line end */
    const char *source;
} vr_text_row;

extern const vr_text_row vr_error_text_table[], vr_log_sign_table[];
extern const size_t vr_error_text_table_n, vr_log_sign_table_n;

/* data/vocabularies.tsv: the words of a model's vocabulary, and its width; 0: no matter. */
typedef struct vr_vocabulary {
    const char *model, *source;
    uint32_t words, width;
} vr_vocabulary;
extern const vr_vocabulary vr_vocabulary_table[];
extern const size_t vr_vocabulary_table_n;

/* Both tables as one: errors first. */
#define VR_TEXT_ROWS (vr_error_text_table_n + vr_log_sign_table_n)
const vr_text_row *vr_text_row_at(size_t i);

#endif
