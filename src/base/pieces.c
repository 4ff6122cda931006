/* SPDX-License-Identifier: MIT
 * Text from numbers without printf: independent of the locale, and decimals are exact because they come from
 * integers, never from a double. */
#include "base/internal.h"

#include <string.h>

/* Writes the digits so that they end before `end`; at least `least` of them. */
static char *digits_before(char *end, uint64_t v, unsigned least)
{
    for (unsigned n = 0; v != 0 || n < least; n++) {
        *--end = (char)('0' + v % 10);
        v /= 10;
    }
    return end;
}

static vr_str from(const char *start, const char *end)
{
    return (vr_str){ start, (size_t)(end - start) };
}

static vr_str grouped_text(uint64_t v, char room[VR_PIECE_ROOM])
{
    char *end = room + VR_PIECE_ROOM, *p = end;
    for (unsigned n = 0; v != 0 || n == 0; n++) {
        if (n != 0 && n % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + v % 10);
        v /= 10;
    }
    return from(p, end);
}

static vr_str signed_text(int64_t i, char room[VR_PIECE_ROOM])
{
    char *end = room + VR_PIECE_ROOM;
    uint64_t magnitude = i < 0 ? UINT64_C(0) - (uint64_t)i : (uint64_t)i;
    char *p = digits_before(end, magnitude, 1);
    if (i < 0)
        *--p = '-';
    return from(p, end);
}

/* half_even: an exact tie goes to the even digit, as printf("%.2f") does; otherwise up. Writes before `end`.
 */
static char *fixed_before(char *end, uint64_t value, uint64_t unit, unsigned decimals, bool half_even)
{
    uint64_t whole = value / unit, scale = vr_pow10(decimals);
    vr_u128 scaled = (vr_u128)(value % unit) * scale;
    uint64_t part = (uint64_t)(scaled / unit), rest = (uint64_t)(scaled % unit);
    uint64_t missing = unit - rest;
    bool odd = decimals == 0 ? whole % 2 == 1 : part % 2 == 1;
    if (rest > missing || (rest == missing && (odd || !half_even)))
        part++;
    if (part == scale) {
        part = 0;
        whole++;
    }
    if (decimals != 0) {
        end = digits_before(end, part, decimals);
        *--end = '.';
    }
    return digits_before(end, whole, 1);
}

vr_str vr_fixed_text(uint64_t value, uint64_t unit, unsigned decimals, char room[VR_PIECE_ROOM])
{
    char *end = room + VR_PIECE_ROOM;
    if (unit == 0)
        return VR_LIT("");
    if (decimals > VR_DECIMALS_MAX)
        decimals = VR_DECIMALS_MAX;
    return from(fixed_before(end, value, unit, decimals, false), end);
}

/* format_size of PyTorch's c10/cuda/CUDACachingAllocator.cpp: two decimals of size / unit as a double, so
 * ties go to even (1.125 GiB prints 1.12). The double is exact below 2^53 bytes; above, this text is the
 * exact one. */
static vr_str bytes_text(uint64_t v, char room[VR_PIECE_ROOM])
{
    static const struct {
        uint64_t most, unit;
        char name[7];
    } units[] = {
        { VR_KIB, 1, " bytes" },
        { VR_MIB, VR_KIB, " KiB" },
        { VR_GIB, VR_MIB, " MiB" },
        { UINT64_MAX, VR_GIB, " GiB" },
    };
    size_t i = 0;
    while (v > units[i].most)
        i++;
    char *end = room + VR_PIECE_ROOM;
    size_t name_length = strlen(units[i].name);
    char *p = end - name_length;
    memcpy(p, units[i].name, name_length);
    return from(fixed_before(p, v, units[i].unit, units[i].unit == 1 ? 0 : 2, true), end);
}

vr_str vr_piece_text(const vr_piece *p, char room[VR_PIECE_ROOM])
{
    char *end = room + VR_PIECE_ROOM;
    vr_str text;
    switch (p->kind) {
    case VR_P_STR:
        return p->str;
    case VR_P_U64:
        return from(digits_before(end, p->u, 1), end);
    case VR_P_GROUPED:
        return grouped_text(p->u, room);
    case VR_P_I64:
        return signed_text(p->i, room);
    case VR_P_FIXED:
        text = vr_fixed_text(p->u, p->unit, p->decimals, room);
        return text.n != 0 ? text : VR_LIT("?");
    case VR_P_BYTES:
        return bytes_text(p->u, room);
    }
    return VR_LIT("");
}

const char *vr_text_pieces(vr_arena *a, const vr_piece *p, size_t n)
{
    char room[VR_PIECE_ROOM];
    size_t total = 1;
    for (size_t i = 0; i < n; i++) {
        size_t length = vr_piece_text(&p[i], room).n;
        total = length > SIZE_MAX - total ? SIZE_MAX : total + length;
    }
    char *text = vr_arena_alloc(a, total);
    size_t at = 0;
    for (size_t i = 0; text != NULL && i < n; i++) {
        vr_str s = vr_piece_text(&p[i], room);
        if (s.n != 0)
            memcpy(text + at, s.s, s.n);
        at += s.n;
    }
    return text;
}
