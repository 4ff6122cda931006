/* SPDX-License-Identifier: MIT
 *
 * Times in front of lines: "2024-05-01 10:20:30", "05-01 10:20:30", "10:20:30,123", "[12345.678901]".
 */
#include "diagnosis/when.h"

#define SEARCHED 96 /* bytes of a line in which its time stands */

static bool two_digits(vr_str s, size_t at, uint64_t *out)
{
    if (at + 2 > s.n || s.s[at] < '0' || s.s[at] > '9' || s.s[at + 1] < '0' || s.s[at + 1] > '9')
        return false;
    *out = (uint64_t)(s.s[at] - '0') * 10 + (uint64_t)(s.s[at + 1] - '0');
    return true;
}

static bool time_at(vr_str s, size_t at, uint64_t *seconds)
{
    uint64_t h, m, sec;

    if (!two_digits(s, at, &h) || !two_digits(s, at + 3, &m) || !two_digits(s, at + 6, &sec))
        return false;
    if (s.s[at + 2] != ':' || s.s[at + 5] != ':' || h > 23 || m > 59 || sec > 60)
        return false;
    *seconds = h * 3600 + m * 60 + sec;
    return true;
}

/* "05-01 " or "05/01T" right before a time; months are counted as of 31 days, which hours do not mind. */
static bool date_before(vr_str s, size_t at, uint64_t *days)
{
    uint64_t month, day;

    if (at < 6 || !two_digits(s, at - 6, &month) || !two_digits(s, at - 3, &day))
        return false;
    if ((s.s[at - 4] != '-' && s.s[at - 4] != '/') || month > 31 || day > 31)
        return false;
    *days = month * 31 + day;
    return true;
}

/* "[  123.456789]", as the kernel counts. */
static bool since_start(vr_str s, uint64_t *seconds)
{
    size_t i = 1, first;

    if (s.n < 4 || s.s[0] != '[')
        return false;
    while (i < s.n && s.s[i] == ' ')
        i++;
    first = i;
    while (i < s.n && s.s[i] >= '0' && s.s[i] <= '9')
        i++;
    return i > first && i < s.n && s.s[i] == '.' && vr_parse_u64((vr_str){ s.s + first, i - first }, seconds);
}

vr_log_time vr_log_time_of(vr_str s)
{
    uint64_t t, days;

    if (s.n > SEARCHED)
        s.n = SEARCHED;
    if (since_start(s, &t))
        return (vr_log_time){ VR_SINCE_START, t };
    for (size_t i = 0; i + 8 <= s.n; i++) {
        if (!time_at(s, i, &t))
            continue;
        if (date_before(s, i, &days))
            return (vr_log_time){ VR_DATE_AND_TIME, days * 86400 + t };
        return (vr_log_time){ VR_TIME_OF_DAY, t };
    }
    return (vr_log_time){ VR_NO_CLOCK, 0 };
}

bool vr_seconds_between(vr_log_time a, vr_log_time b, uint64_t *seconds)
{
    if (a.kind == VR_NO_CLOCK || a.kind != b.kind)
        return false;
    *seconds = a.seconds < b.seconds ? b.seconds - a.seconds : a.seconds - b.seconds;
    return true;
}
