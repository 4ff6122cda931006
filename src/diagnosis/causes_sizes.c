/* SPDX-License-Identifier: MIT
 *
 * Sizes that give a tensor away.
 */
#include "diagnosis/causes.h"

/* Words and width of tables of models in use: config.json's vocab_size and hidden_size. */
static const struct {
    uint32_t words, width;
} tables[] = {
    { 32000, 2048 },  { 32000, 4096 },  { 32000, 5120 },  { 32000, 6656 },  { 32000, 8192 },
    { 32064, 3072 },  { 50257, 1600 },  { 50280, 2560 },  { 50304, 2560 },  { 50432, 6144 },
    { 64000, 4096 },  { 64000, 7168 },  { 65024, 4096 },  { 65024, 4544 },  { 92544, 4096 },
    { 92544, 6144 },  { 100352, 5120 }, { 102400, 2048 }, { 102400, 4096 }, { 102400, 5120 },
    { 128256, 2048 }, { 128256, 3072 }, { 128256, 4096 }, { 128256, 8192 }, { 128256, 16384 },
    { 129280, 7168 }, { 151552, 4096 }, { 151936, 1536 }, { 151936, 2048 }, { 151936, 2560 },
    { 151936, 4096 }, { 151936, 5120 }, { 152064, 3584 }, { 152064, 5120 }, { 152064, 8192 },
    { 200064, 3072 }, { 201088, 2880 }, { 202048, 5120 }, { 250880, 4096 }, { 256000, 2048 },
    { 256000, 2304 }, { 256000, 3072 }, { 256000, 3584 }, { 256000, 4608 }, { 256000, 8192 },
    { 262208, 2560 }, { 262208, 3840 }, { 262208, 5376 },
};

#define STEP (INT64_C(2) << 20) /* PyTorch takes whole steps for pieces above 10 MiB */

/* Printed in MiB, or as bytes: a size in GiB has a hundredth of a GiB of room, in which any table fits. */
bool vr_embedding_sized(vr_span request)
{
    if (!request.known || request.high - request.low > STEP / 8)
        return false;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (int64_t bytes = 2; bytes <= 4; bytes += 2) {
            int64_t table = (int64_t)tables[i].words * tables[i].width * bytes;
            if (table <= request.high && request.low - table < STEP)
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

/* Sizes of vocabularies in use. */
static const uint32_t vocabularies[] = { 32000,  32064,  50257,  50272,  51865,  64128,  92416,
                                         92544,  100352, 102400, 126464, 128256, 129280, 131072,
                                         151552, 151936, 152064, 154880, 163840, 200064, 201088,
                                         248320, 250880, 256000, 262144, 262208 };

/* Most sizes of tensors are multiples of large powers of two, and so are some vocabularies: the number of
 * tokens counts only when it is no such multiple, as widths of models are. */
bool vr_logits_sized(uint64_t bytes)
{
    for (size_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0]; i++)
        for (uint64_t width = 2; width <= 4; width += 2) {
            uint64_t row = vocabularies[i] * width, tokens = bytes / row;
            if (bytes % row == 0 && tokens > 64 && odd_part(tokens) > 100)
                return true;
        }
    return false;
}
