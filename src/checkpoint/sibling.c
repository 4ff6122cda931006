/* SPDX-License-Identifier: MIT
 * The projector that llama.cpp loads beside a model of a repository: of the files that do not count the one
 * that lies nearest to the model, then the one whose name says the nearest number of bits.
 *
 * Source: llama.cpp b10470, common/download.cpp (find_best_sibling, extract_quant_bits). */
#include "checkpoint/checkpoint.h"

/* Slashes of the folders that both lie in; false: the other does not lie in one of the model's folders. */
static bool depth_of(vr_str model, vr_str other, size_t *depth)
{
    size_t last = other.n;
    while (last > 0 && other.s[last - 1] != '/')
        last--;
    *depth = 0;
    for (size_t i = 0; i < last; i++) {
        if (i >= model.n || model.s[i] != other.s[i])
            return false;
        *depth += other.s[i] == '/';
    }
    return true;
}

static bool is_of_tag(char c)
{
    return vr_is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* "model-Q4_K_M.gguf" is 4; "mmproj-BF16.gguf" 16; 0: none is said. */
static uint64_t bits_of(vr_str name)
{
    size_t end = name.n - 5, first;                                                /* without ".gguf" */
    if (end >= 15 && vr_str_find((vr_str){ name.s + end - 15, 15 }, "-of-", NULL)) /* -00001-of-00003 */
        end -= 15;
    for (first = end; first > 0 && is_of_tag(name.s[first - 1]);)
        first--;
    if (first == 0 || (name.s[first - 1] != '-' && name.s[first - 1] != '.'))
        return 0;
    uint64_t bits = 0;
    while (first < end && !vr_is_digit(name.s[first]))
        first++;
    for (; first < end && vr_is_digit(name.s[first]) && bits < 1000000; first++)
        bits = bits * 10 + (uint64_t)(name.s[first] - '0');
    return bits;
}

const char *vram_checkpoint_projector(const vram_checkpoint *ck)
{
    const char *best = NULL;
    size_t best_depth = 0;
    uint64_t best_apart = 0;
    vr_str model = vr_str_of(ck->n_files > 0 ? ck->files[0].name : NULL);
    for (size_t i = 0; i < ck->n_left_out && vr_str_ends(model, ".gguf"); i++) {
        vr_str name = vr_str_of(ck->left_out[i].name);
        size_t depth;
        if (!vr_str_ends(name, ".gguf") || !vr_str_find(name, "mmproj", NULL) ||
            !depth_of(model, name, &depth))
            continue;
        uint64_t a = bits_of(name), b = bits_of(model), apart = a > b ? a - b : b - a;
        if (best != NULL && (depth < best_depth || (depth == best_depth && apart >= best_apart)))
            continue;
        best = ck->left_out[i].name;
        best_depth = depth;
        best_apart = apart;
    }
    return best;
}
