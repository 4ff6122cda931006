/* SPDX-License-Identifier: MIT
 *
 * Sizes that give a tensor away.
 */
#include "diagnosis/causes.h"

#define STEP (INT64_C(2) << 20) /* PyTorch takes whole steps for pieces above 10 MiB */

/* Printed in MiB, or as bytes: a size in GiB has a hundredth of a GiB of room, in which any table fits. */
bool vr_embedding_sized(vr_span request)
{
    if (!request.known || request.high - request.low > STEP / 8)
        return false;
    for (size_t i = 0; i < vr_vocabulary_table_n; i++)
        for (int64_t bytes = 2; bytes <= 4; bytes += 2) {
            const vr_vocabulary *v = &vr_vocabulary_table[i];
            int64_t table = (int64_t)v->words * v->width * bytes;
            if (v->width != 0 && table <= request.high && request.low - table < STEP)
                return true;
        }
    return false;
}

static uint64_t odd_part(uint64_t x)
{
    while (x != 0 && x % 2 == 0)
        x /= 2;
    return x;
}

/* Most sizes of tensors are multiples of large powers of two, and so are some vocabularies: the number of
 * tokens counts only when it is no such multiple, as widths of models are. */
bool vr_logits_sized(uint64_t bytes)
{
    for (size_t i = 0; i < vr_vocabulary_table_n; i++)
        for (uint64_t width = 2; width <= 4; width += 2) {
            uint64_t row = vr_vocabulary_table[i].words * width, tokens = bytes / row;
            if (bytes % row == 0 && tokens > 64 && odd_part(tokens) > 100)
                return true;
        }
    return false;
}
