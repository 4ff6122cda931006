/* SPDX-License-Identifier: MIT */
#include "diagnosis/texts.h"

#define X(id, word, meaning) { word, meaning },
const vr_term vr_memory_words[] = { VR_MEMORIES(X) };
const vr_term vr_phase_words[] = { VR_PHASES(X) };
const vr_term vr_cause_words[] = { VR_CAUSES(X) };
const vr_term vr_certainty_words[] = { VR_CERTAINTIES(X) };
const vr_term vr_program_words[] = { VR_PROGRAMS(X) };
#undef X

const vr_text_row *vr_text_row_at(size_t i)
{
    return i < vr_error_text_table_n ? &vr_error_text_table[i]
                                     : &vr_log_sign_table[i - vr_error_text_table_n];
}
