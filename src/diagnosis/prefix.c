/* SPDX-License-Identifier: MIT
 * What stands before a message in a log: times, levels, ranks, places in the source, names of containers.
 * Each kind is a function that says how many bytes it takes; they are tried in turn until none takes any. */
#include "diagnosis/block.h"

#include <string.h>

typedef struct state {
    vr_origin *origin;
    bool after; /* a time or something in brackets was taken: a level may follow */
} state;

static char at(vr_str s, size_t i)
{
    return i < s.n ? s.s[i] : 0;
}

static vr_str from(vr_str s, size_t i)
{
    return i < s.n ? (vr_str){ s.s + i, s.n - i } : (vr_str){ s.s + s.n, 0 };
}

/* Length of what has that shape at the start of s, or 0: d is a digit, - also a stroke, T also a blank, the
 * rest stands for itself. */
static size_t shape(vr_str s, const char *of)
{
    size_t i = 0;

    for (; of[i] != 0; i++) {
        char c = at(s, i);
        bool fits = of[i] == 'd'   ? vr_is_digit(c)
                    : of[i] == '-' ? c == '-' || c == '/'
                    : of[i] == 'T' ? c == 'T' || c == ' '
                                   : c == of[i];
        if (!fits)
            return 0;
    }
    return i;
}

static size_t digits(vr_str s, size_t i)
{
    while (vr_is_digit(at(s, i)))
        i++;
    return i;
}

/* A date, a time, or both. */
static size_t time_length(vr_str s)
{
    static const char *const shapes[] = { "dddd-dd-ddTdd:dd:dd", "dd-dd dd:dd:dd", "dd:dd:dd", NULL };
    size_t n = 0;

    for (size_t i = 0; shapes[i] != NULL && n == 0; i++)
        n = shape(s, shapes[i]);
    if (n == 0)
        return 0;
    if ((at(s, n) == '.' || at(s, n) == ',') && vr_is_digit(at(s, n + 1)))
        n = digits(s, n + 1);
    if (at(s, n) == 'Z')
        n++;
    else if (shape(from(s, n), "+dd:dd") != 0 || shape(from(s, n), "-dd:dd") != 0)
        n += 6;
    else if (shape(from(s, n), "+dddd") != 0 || shape(from(s, n), "-dddd") != 0)
        n += 5;
    return n;
}

static size_t level_length(vr_str s, uint8_t *level)
{
    static const struct {
        char word[9];
        uint8_t n, level;
    } words[] = {
        { "INFO", 4, VR_LEVEL_INFO },       { "WARNING", 7, VR_LEVEL_WARNING },
        { "WARN", 4, VR_LEVEL_WARNING },    { "ERROR", 5, VR_LEVEL_ERROR },
        { "CRITICAL", 8, VR_LEVEL_ERROR },  { "FATAL", 5, VR_LEVEL_ERROR },
        { "DEBUG", 5, VR_LEVEL_DEBUG },     { "TRACE", 5, VR_LEVEL_DEBUG },
        { "info", 4, VR_LEVEL_INFO },       { "warn", 4, VR_LEVEL_WARNING },
        { "error", 5, VR_LEVEL_ERROR },     { "debug", 5, VR_LEVEL_DEBUG },
        { "warning", 7, VR_LEVEL_WARNING },
    };
    for (size_t i = 0; s.n != 0 && i < sizeof words / sizeof words[0]; i++) {
        size_t n = words[i].n;
        if (s.s[0] != words[i].word[0] || s.n < n || memcmp(s.s, words[i].word, n) != 0 ||
            vr_is_letter(at(s, n)))
            continue;
        *level = words[i].level;
        return n;
    }
    return 0;
}

static uint8_t letter_level(char c)
{
    return c == 'E' || c == 'F' ? VR_LEVEL_ERROR
           : c == 'W'           ? VR_LEVEL_WARNING
           : c == 'I'           ? VR_LEVEL_INFO
           : c == 'D'           ? VR_LEVEL_DEBUG
                                : VR_LEVEL_NONE;
}

/* "engine.py:160" with what closes it; 0: no place in a source. */
static size_t place_length(vr_str s)
{
    size_t i = 0;

    while (i < 160 && i < s.n && s.s[i] != ' ' && s.s[i] != ':' && s.s[i] != ']' && s.s[i] != '\t')
        i++;
    if (i == 0 || at(s, i) != ':' || !vr_is_digit(at(s, i + 1)))
        return 0;
    return digits(s, i + 1);
}

static void set_rank(state *st, vr_str digits_of)
{
    uint64_t n = 0;

    for (size_t i = 0; i < digits_of.n && vr_is_digit(digits_of.s[i]) && n < 1000000; i++)
        n = n * 10 + (uint64_t)(digits_of.s[i] - '0');
    st->origin->rank = (int32_t)n;
    st->origin->key = n + 1;
}

static void set_process(state *st, vr_str digits_of)
{
    uint64_t n = 0;

    for (size_t i = 0; i < digits_of.n && vr_is_digit(digits_of.s[i]) && n < UINT32_MAX; i++)
        n = n * 10 + (uint64_t)(digits_of.s[i] - '0');
    if (st->origin->key == 0)
        st->origin->key = (UINT64_C(1) << 40) + n;
}

/* The digits behind a word of s, when some stand there. */
static bool number_after(vr_str s, const char *word, vr_str *out)
{
    vr_str rest = s;
    size_t i;

    while (vr_str_find(rest, word, &i)) {
        rest = from(rest, i + vr_str_of(word).n);
        if (vr_is_digit(at(rest, 0))) {
            *out = rest;
            return true;
        }
    }
    return false;
}

static size_t closed(vr_str s, char with)
{
    for (size_t i = 1; i < s.n && i < 160; i++) {
        if (s.s[i] == with)
            return i;
    }
    return 0;
}

/* "(EngineCore_DP0 pid=12)", "(VllmWorker rank=0 pid=1)" */
static size_t in_parentheses(vr_str s, state *st)
{
    size_t end = at(s, 0) == '(' ? closed(s, ')') : 0;
    vr_str inside = { s.s + 1, end > 0 ? end - 1 : 0 }, n;

    if (end == 0 || (!number_after(inside, "pid=", &n) && !number_after(inside, "rank=", &n)))
        return 0;
    if (number_after(inside, "rank=", &n) || number_after(inside, "TP", &n))
        set_rank(st, n);
    if (number_after(inside, "pid=", &n))
        set_process(st, n);
    return end + 1;
}

static bool is_rank(vr_str inside, state *st)
{
    static const char *const words[] = { "rank", "Rank ", "default", "RANK ", "TP", "tp", NULL };

    for (size_t i = 0; words[i] != NULL; i++) {
        size_t n = vr_str_of(words[i]).n;
        if (vr_str_starts(inside, words[i]) && vr_is_digit(at(inside, n)) && digits(inside, n) == inside.n) {
            set_rank(st, from(inside, n));
            return true;
        }
    }
    if (vr_is_digit(at(inside, 0)) && at(inside, digits(inside, 0)) == ',' &&
        digits(inside, digits(inside, 0) + 1) == inside.n) { /* mpirun's "[1,3]<stderr>:" */
        set_rank(st, from(inside, digits(inside, 0) + 1));
        return true;
    }
    return false;
}

static bool is_time(vr_str inside, state *st)
{
    vr_str rank;
    size_t n = time_length(inside);

    if (n == 0 && letter_level(at(inside, 0)) != 0) /* "W1201 09:22:24.123 main.cc:12" */
        n = vr_is_digit(at(inside, 1)) ? digits(inside, 1) : 0;
    if (n == 0) /* the kernel's "[856341.770960" */
        return shape(from(inside, digits(inside, 0)), ".dddddd") != 0 || vr_str_starts(inside, "pod/");
    if (number_after(inside, " TP", &rank))
        set_rank(st, rank);
    return true;
}

/* What stands in the brackets that s begins with; *end: behind them. */
static vr_str brackets(vr_str s, size_t *end)
{
    size_t i = 1, close = at(s, 0) == '[' ? closed(s, ']') : 0;

    while (i < close && s.s[i] == ' ')
        i++;
    *end = close + 1;
    return (vr_str){ s.s + i, close > i ? close - i : 0 };
}

/* "[rank3]:", "[INFO]", "[engine.py:160]", "[2026-12-01 09:22:24]" and what else stands in brackets first. */
static size_t in_brackets(vr_str s, state *st)
{
    size_t end;
    uint8_t level = st->origin->level;
    vr_str inside = brackets(s, &end);

    if (inside.n == 0)
        return 0;
    bool known = is_rank(inside, st) || is_time(inside, st) || place_length(inside) != 0 ||
                 level_length(inside, &level) == inside.n;
    if (!known)
        return 0;
    st->origin->level = level;
    st->after = true;
    if (vr_str_starts(from(s, end), "<stderr>") || vr_str_starts(from(s, end), "<stdout>"))
        end += 8;
    return at(s, end) == ':' ? end + 1 : end;
}

static size_t container_stream(vr_str s)
{
    bool stream = vr_str_starts(s, "stderr ") || vr_str_starts(s, "stdout ");

    return stream && (at(s, 7) == 'F' || at(s, 7) == 'P') && (at(s, 8) == ' ' || s.n == 8) ? 8 : 0;
}

static size_t begins_with_time(vr_str s, state *st)
{
    size_t n = time_length(s);

    if (n == 0)
        return 0;
    st->after = true;
    while (at(s, n) == ' ' && (at(s, n + 1) == '-' || at(s, n + 1) == '|') && at(s, n + 2) == ' ')
        n += 2;
    if (at(s, n) == ':')
        n++;
    if (at(s, n) == ' ' && container_stream(from(s, n + 1)) != 0)
        n += 1 + container_stream(from(s, n + 1));
    return n;
}

/* Behind a level: what loggers put between it and the rest. */
static size_t past_marks(vr_str s, size_t i)
{
    while (at(s, i) == ' ' || at(s, i) == ':' || at(s, i) == '-' || at(s, i) == '|')
        i++;
    return i;
}

/* A level counts as a prefix when a logger's words stand before or behind it. */
static size_t begins_with_level(vr_str s, state *st)
{
    uint8_t level = 0;
    size_t n = level_length(s, &level);

    if (n == 0 && st->after && letter_level(at(s, 0)) != 0 && at(s, 1) == ' ') {
        level = letter_level(at(s, 0));
        n = 1;
    }
    size_t rest = past_marks(s, n);
    if (n == 0 || rest == n)
        return 0;
    vr_str behind = from(s, rest);
    bool logged = st->after || time_length(behind) != 0 || at(behind, 0) == '[' || place_length(behind) != 0;
    bool word = s.s[0] >= 'a'; /* "error: " may be of the message */
    if (st->origin->level == VR_LEVEL_NONE && (logged || !word))
        st->origin->level = level; /* taken off or not, a record begins here; the first logger says of what */
    if (!logged)
        return 0;
    st->after = true;
    return rest - 1;
}

/* "llm_engine.py:275] " behind a level or a time */
static size_t begins_with_place(vr_str s, state *st)
{
    size_t n = st->after ? place_length(s) : 0;

    if (n == 0 || (at(s, n) != ']' && at(s, n) != ':'))
        return 0;
    return n + 1;
}

/* "E1201 09:22:24.123456  1234 main.cc:12] " */
static size_t glog(vr_str s, state *st)
{
    size_t n = letter_level(at(s, 0)) != 0 ? shape(from(s, 1), "dddd dd:dd:dd") : 0, pid;

    if (n == 0)
        return 0;
    n = digits(s, n + 2 < s.n && s.s[n + 1] == '.' ? n + 2 : n + 1);
    while (at(s, n) == ' ')
        n++;
    pid = n;
    n = digits(s, n);
    if (n > pid)
        set_process(st, from(s, pid));
    st->origin->level = letter_level(s.s[0]);
    st->after = true;
    return n > pid ? n : pid;
}

static size_t word_end(vr_str s, size_t i)
{
    while (i < s.n && s.s[i] != ' ')
        i++;
    return i;
}

/* "Dec  1 09:22:24 host kernel: " */
static size_t syslog_time(vr_str s, state *st)
{
    size_t i = 3;

    if (!vr_is_letter(at(s, 0)) || !vr_is_letter(at(s, 1)) || !vr_is_letter(at(s, 2)) || at(s, 3) != ' ')
        return 0;
    while (at(s, i) == ' ' && i < 6)
        i++;
    size_t day = digits(s, i);
    if (day == i || shape(from(s, day), " dd:dd:dd") == 0)
        return 0;
    size_t host = word_end(s, day + 10), process = word_end(s, host + 1);
    if (host >= s.n || at(s, process - 1) != ':')
        return 0;
    st->after = true;
    return process;
}

/* "name-1  | " of docker compose */
static size_t compose(vr_str s, state *st)
{
    size_t i = 0, name;

    (void)st;
    while (i < 64 && (vr_is_letter(at(s, i)) || vr_is_digit(at(s, i)) || at(s, i) == '-' || at(s, i) == '_' ||
                      at(s, i) == '.'))
        i++;
    name = i;
    while (i < 96 && at(s, i) == ' ')
        i++;
    return name != 0 && i != name && at(s, i) == '|' && (at(s, i + 1) == ' ' || i + 1 == s.n) ? i + 1 : 0;
}

/* "1.06.520.077 E " of llama.cpp */
static size_t ggml_time(vr_str s, state *st)
{
    size_t n = digits(s, 0), rest = n == 0 || n > 4 ? 0 : shape(from(s, n), ".dd.ddd.ddd ");

    if (rest == 0 || letter_level(at(s, n + rest)) == 0 || at(s, n + rest + 1) != ' ')
        return 0;
    st->origin->level = letter_level(at(s, n + rest));
    return n + rest + 1;
}

/* Go's time=... level=... msg="..." */
static size_t logfmt(vr_str s, state *st)
{
    size_t i, level;

    if (!vr_str_starts(s, "time=") || !vr_str_find(s, " msg=", &i))
        return 0;
    if (vr_str_find((vr_str){ s.s, i }, " level=", &level))
        level_length(from(s, level + 7), &st->origin->level);
    return at(s, i + 5) == '"' ? i + 6 : i + 5;
}

static size_t json_text(vr_str s)
{
    static const char *const names[] = { "\"log\":",  "\"message\":", "\"msg\":",
                                         "\"text\":", "\"line\":",    NULL };
    size_t i;

    if (!vr_str_starts(s, "{\""))
        return 0;
    for (size_t k = 0; names[k] != NULL; k++) {
        if (!vr_str_find(s, names[k], &i))
            continue;
        i += vr_str_of(names[k]).n;
        while (at(s, i) == ' ')
            i++;
        return at(s, i) == '"' ? i + 1 : 0;
    }
    return 0;
}

/* "> " and "| " of quoted text; a table's row ends in its line, too. */
static size_t quote(vr_str s)
{
    size_t i = 0;

    if (at(s, 0) == '|')
        return at(s, s.n - 1) != '|' && (s.n == 1 || s.s[1] == ' ') ? 1 : 0;
    while (at(s, i) == '>' || at(s, i) == '`' || (at(s, i) == ' ' && at(s, i + 1) == '>'))
        i++;
    return i;
}

static size_t (*const by_word[])(vr_str, state *) = { glog,        begins_with_level, begins_with_place,
                                                      syslog_time, compose,           logfmt };

/* What may begin with that byte, in the order in which it is tried. */
static size_t one_prefix(vr_str s, state *st)
{
    char c = at(s, 0);
    size_t n = 0;

    switch (c) {
    case '(':
        return in_parentheses(s, st);
    case '[':
        return in_brackets(s, st);
    case '{':
        return json_text(s);
    case '>':
    case '`':
    case '|':
    case ' ':
        return quote(s);
    default:
        break;
    }
    if (vr_is_digit(c)) {
        n = begins_with_time(s, st);
        n = n != 0 ? n : ggml_time(s, st);
    }
    for (size_t k = 0; k < sizeof by_word / sizeof by_word[0] && n == 0; k++)
        n = by_word[k](s, st);
    return n;
}

size_t vr_prefix(vr_str s, size_t keep, vr_origin *origin)
{
    state st = { origin, false };
    size_t taken = 0;

    for (int rounds = 0; rounds < 12; rounds++) {
        size_t n = one_prefix(from(s, taken), &st);
        if (n == 0 || n > keep - taken)
            break;
        taken += n;
        if (taken < keep && at(s, taken) == ' ')
            taken++;
        origin->prefixed = true;
    }
    return taken;
}
