/* SPDX-License-Identifier: MIT
 * Shared by the files of src/base only. */
#ifndef VR_BASE_INTERNAL_H
#define VR_BASE_INTERNAL_H

#include "base/base.h"

/* Present in gcc and clang for every 64-bit target and for wasm32 (compiler-rt). */
__extension__ typedef unsigned __int128 vr_u128;

#define VR_PIECE_ROOM 48 /* 20 digits, point, 18 decimals, a unit of 6 */
#define VR_DECIMALS_MAX 18u

/* The text of one piece: a borrowed slice, or written into room. */
vr_str vr_piece_text(const vr_piece *p, char room[VR_PIECE_ROOM]);
/* value / unit; n of the result 0 when unit is 0. */
vr_str vr_fixed_text(uint64_t value, uint64_t unit, unsigned decimals, char room[VR_PIECE_ROOM]);

/* A decimal number as digits * 10^exponent; digits has no trailing zeros, 0 has exponent 0. */
typedef struct vr_decimal {
    uint64_t digits;
    int64_t exponent;
    bool exact; /* false: more significant digits than uint64_t holds were dropped */
} vr_decimal;
/* Length of the number at the start of s (digits, a fraction, an exponent; no sign), or 0. */
size_t vr_decimal_scan(vr_str s, vr_decimal *out);
/* digits * 10^exponent when that is a whole number that fits. */
bool vr_decimal_whole(const vr_decimal *d, uint64_t *out);
/* 10^n for n <= 19, else 0. */
uint64_t vr_pow10(uint64_t n);

/* Length of the well-formed UTF-8 character at p (1 to 4), or 0. */
size_t vr_utf8_length(const char *p, const char *end);
/* Writes the code point, returns 1 to 4. */
size_t vr_utf8_put(uint32_t code, char out[4]);

/* The comma and line that a new value needs before it. */
struct vr_json_out;
void vr_json_separate(struct vr_json_out *o);

void vr_out_of_memory(struct vram_ctx *ctx);

#endif
