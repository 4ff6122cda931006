/* SPDX-License-Identifier: MIT
 * Architectures whose graphs were held against llama.cpp's own: sizes of buffers, nodes and splits of all
 * recorded cases agree to the byte (tests/llama/placed_cases.py, and what tests/oracle records). */
#include "llama/place.h"

bool vr_lm_held(vr_str arch)
{
    static const char *const names[] = { "deepseek2", "falcon-h1", "gemma2",     "gemma3", "gpt-oss",
                                         "llama",     "mamba",     "nemotron_h", "phi3",   "qwen2",
                                         "qwen3",     "qwen3moe",  "qwen3next" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (vr_str_is(arch, names[i]))
            return true;
    }
    return false;
}
