/* SPDX-License-Identifier: MIT
 *
 * Arithmetic on the figures of one message: spans, sums and the rules that follow from them.
 */
#include "diagnosis/arithmetic.h"

#define END ((INT64_C(1) << 62) - 1) /* two of them still add up */
#define MIB_OF(n) ((int64_t)(n) * (int64_t)VR_MIB)

/* Context and libraries of one process on a card take between these; communicators and graphs come on top. */
#define OWN_LEAST MIB_OF(50)
#define OWN_MOST MIB_OF(1126)
/* A process with nothing but a context and a little more. */
#define SIBLING_LEAST MIB_OF(200)
#define SIBLING_MOST MIB_OF(1331)
#define SIBLING_PIDS 256 /* processes of one launch have numbers near to each other */

#define OUTSIDE_SMALL MIB_OF(1331) /* three quarters of lone processes are below */

static int64_t within(int64_t x)
{
    return x > END ? END : x < -END ? -END : x;
}

static int64_t of_unsigned(uint64_t x)
{
    return x > (uint64_t)END ? END : (int64_t)x;
}

static vr_span exactly(int64_t x)
{
    return (vr_span){ .known = true, .low = x, .high = x };
}

vr_span vr_span_of(const vr_fact *fact)
{
    int64_t value, slack;

    if (fact == NULL)
        return (vr_span){ 0 };
    value = of_unsigned(fact->value);
    slack = of_unsigned(fact->slack);
    if (fact->negative)
        value = -value;
    return (vr_span){ .known = true, .low = within(value - slack), .high = within(value + slack) };
}

vr_span vr_span_add(vr_span a, vr_span b)
{
    return (vr_span){ .known = a.known && b.known,
                      .low = within(a.low + b.low),
                      .high = within(a.high + b.high) };
}

vr_span vr_span_sub(vr_span a, vr_span b)
{
    return (vr_span){ .known = a.known && b.known,
                      .low = within(a.low - b.high),
                      .high = within(a.high - b.low) };
}

/* Whether a >= b. */
static vr_truth at_least(vr_span a, vr_span b)
{
    if (!a.known || !b.known)
        return VR_UNTOLD;
    if (a.low >= b.high)
        return VR_YES;
    return a.high < b.low ? VR_NO : VR_MAYBE;
}

uint64_t vr_span_middle(vr_span a)
{
    int64_t middle = a.low / 2 + a.high / 2 + (a.low % 2 + a.high % 2) / 2;

    return a.known && middle > 0 ? (uint64_t)middle : 0;
}

static vr_truth not(vr_truth t)
{
    return t == VR_YES ? VR_NO : t == VR_NO ? VR_YES : t;
}

static vr_truth both(vr_truth a, vr_truth b)
{
    if (a == VR_NO || b == VR_NO)
        return VR_NO;
    return a < b ? a : b;
}

static vr_truth either(vr_truth a, vr_truth b)
{
    return a > b ? a : b;
}

static vr_truth above(vr_span a, vr_span b)
{
    return not(at_least(b, a));
}

/* Printed as x: requests are whole steps of the allocator, so the printed digits are exact. */
static vr_truth is(vr_span a, int64_t x)
{
    if (!a.known)
        return VR_UNTOLD;
    return a.low <= x && x <= a.high && a.high - a.low < MIB_OF(1) ? VR_YES : VR_NO;
}

/* num / den of a span that is not negative. */
static vr_span part(vr_span a, uint64_t num, uint64_t den)
{
    if (!a.known || a.low < 0)
        return (vr_span){ 0 };
    return (vr_span){ .known = true,
                      .low = of_unsigned(vr_mul_div((uint64_t)a.low, num, den)),
                      .high = of_unsigned(vr_mul_div((uint64_t)a.high, num, den)) };
}

static vr_span not_negative(vr_span a)
{
    if (a.low < 0)
        a.low = 0;
    if (a.high < 0)
        a.high = 0;
    return a;
}

static vr_span figure(const vr_fact_list *facts, vr_fact_id id)
{
    return vr_span_of(vr_fact_of(facts, id));
}

/* ---- who holds the card ---- */

typedef struct listed {
    uint64_t pid;
    vr_span bytes;
} listed;

#define MOST_LISTED 64

/* The list of the message, without `this process`. */
static size_t list_processes(const vr_fact_list *facts, listed *out)
{
    uint64_t pid = 0;
    size_t n = 0;

    for (size_t i = 0; i < facts->n && n < MOST_LISTED; i++) {
        if (facts->f[i].id == VR_FACT_PROCESS_ID)
            pid = facts->f[i].value;
        if (facts->f[i].id == VR_FACT_PROCESS)
            out[n++] = (listed){ pid, vr_span_of(&facts->f[i]) };
    }
    return n;
}

/* A process that does not recognise itself (a container has numbers of its own) is still in the list: alone
 * there, or with the allocator's share and a context. Returns n: none of them. */
static size_t find_self(const listed *p, size_t n, vr_span reserved)
{
    size_t best = n;
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < n; i++) {
        vr_span over = vr_span_sub(p[i].bytes, reserved);
        bool context = over.known && over.high >= OWN_LEAST && over.low <= OWN_MOST;

        if ((context || (n == 1 && over.known && over.high >= 0)) && over.high < least) {
            least = over.high;
            best = i;
        }
    }
    return best;
}

/* Little more than a context, or as much as this process has: the ranks of a job hold like shares. */
static bool like_a_rank(vr_span bytes, vr_span own)
{
    vr_span least = part(own, 4, 5), most = part(own, 5, 4);

    if (bytes.high >= SIBLING_LEAST && bytes.low <= SIBLING_MOST)
        return true;
    return least.known && bytes.high >= least.low && bytes.low <= most.high;
}

static unsigned count_siblings(const listed *p, size_t n, size_t self, vr_span own)
{
    unsigned most = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned near = 0;
        for (size_t k = 0; k < n; k++)
            if (k != self && p[k].pid >= p[i].pid && p[k].pid - p[i].pid < SIBLING_PIDS &&
                like_a_rank(p[k].bytes, own))
                near++;
        if (near > most)
            most = near;
    }
    return most;
}

static void reckon_processes(const vr_fact_list *facts, vr_reckoning *r)
{
    listed p[MOST_LISTED];
    size_t n = list_processes(facts, p), self = n;
    const vr_fact *own = vr_fact_of(facts, VR_FACT_THIS_PROCESS);

    r->n_processes = (unsigned)n;
    /* Some containers print 0 bytes for the process itself: not known. */
    if (own != NULL && own->value != 0)
        r->own_process = vr_span_of(own);
    else if (r->reserved.known && (self = find_self(p, n, r->reserved)) < n) {
        r->own_process = p[self].bytes;
        r->own_by_size = true;
    }
    r->n_siblings = count_siblings(p, n, self, r->own_process);
    r->own_outside = not_negative(vr_span_sub(r->own_process, r->reserved));
    r->others = not_negative(vr_span_sub(vr_span_sub(r->total, r->left), r->own_process));
}

/* ---- the rules ---- */

static void set(vr_reckoning *r, vr_rule rule, vr_truth t)
{
    r->rule[rule] = (uint8_t)t;
}

static void judge_request(vr_reckoning *r)
{
    vr_span reach = vr_span_add(r->left, r->idle);
    vr_truth free_less = not(at_least(r->left, r->request));

    set(r, VR_RULE_LARGER_THAN_CARD, above(r->request, r->total));
    set(r, VR_RULE_FREE_SUFFICES, at_least(r->left, r->request));
    set(r, VR_RULE_FREE_ABOVE_TOTAL, above(r->left, r->total));
    set(r, VR_RULE_OWN_LIMIT, above(vr_span_add(r->allocated, r->request), r->allowed));
    set(r, VR_RULE_PACKING_FAILS, not(at_least(reach, r->request)));
    set(r, VR_RULE_IDLE_SUFFICES, both(free_less, at_least(reach, r->request)));
    set(r, VR_RULE_REQUEST_SMALL, above(part(r->total, 2, 100), r->request));
    set(r, VR_RULE_REQUEST_LARGE,
        at_least(r->request, part(r->total.known ? r->total : r->max_allowed, 5, 100)));
    set(r, VR_RULE_REQUEST_HUGE, at_least(r->request, part(r->total, 20, 100)));
    set(r, VR_RULE_REQUEST_ABSURD, at_least(r->request, part(r->total, 32, 1)));
    set(r, VR_RULE_REQUEST_ROUNDED, either(is(r->request, MIB_OF(2)), is(r->request, MIB_OF(20))));
    r->shortfall = vr_span_sub(r->request, reach);
}

static void judge_idle(vr_reckoning *r)
{
    set(r, VR_RULE_FREE_MUCH, at_least(r->left, part(r->total, 10, 100)));
    set(r, VR_RULE_IDLE_LITTLE, above(part(r->total, 2, 100), r->idle));
    set(r, VR_RULE_IDLE_NOTHING, above(part(r->total, 1, 400), r->idle));
    set(r, VR_RULE_IDLE_MUCH, at_least(r->idle, part(r->total, 8, 100)));
    set(r, VR_RULE_IDLE_MOST,
        both(at_least(r->idle, part(r->total, 25, 100)), at_least(r->idle, r->allocated)));
    set(r, VR_RULE_IDLE_SOME, at_least(r->idle, part(r->total, 4, 100)));
    set(r, VR_RULE_IDLE_MANY_LACKS,
        at_least(r->idle, part(not_negative(vr_span_sub(r->request, r->left)), 4, 1)));
    set(r, VR_RULE_IDLE_NEXT_TO_NONE, above(part(r->total, 1, 100), r->idle));
    set(r, VR_RULE_GRAPH_POOLS,
        either(at_least(r->private_pools, r->request), at_least(r->private_pools, part(r->total, 5, 100))));
}

static void judge_outside(vr_reckoning *r)
{
    vr_span large = r->own_process.known && r->n_processes != 0 ? r->others : (vr_span){ 0 };

    set(r, VR_RULE_OUTSIDE_LARGE, above(r->outside, exactly((int64_t)VR_OUTSIDE_LARGE)));
    set(r, VR_RULE_OUTSIDE_MUCH,
        both(above(r->outside, exactly((int64_t)VR_OUTSIDE_LARGE)),
             at_least(r->outside, part(r->total, 15, 100))));
    set(r, VR_RULE_OUTSIDE_SMALL, above(exactly(OUTSIDE_SMALL), r->outside));
    set(r, VR_RULE_OUTSIDE_DOMINATES,
        both(at_least(r->outside, part(r->total, 40, 100)), at_least(r->outside, r->reserved)));
    set(r, VR_RULE_OUTSIDE_ALL,
        both(at_least(r->outside, part(r->total, 85, 100)), above(part(r->total, 8, 100), r->reserved)));
    set(r, VR_RULE_OWN_OUTSIDE_DOMINATES,
        both(at_least(r->own_outside, part(r->total, 40, 100)), at_least(r->own_outside, r->reserved)));
    set(r, VR_RULE_OTHERS_DOMINATE,
        both(above(large, exactly((int64_t)VR_OUTSIDE_LARGE)),
             either(at_least(large, part(r->total, 50, 100)), at_least(large, r->own_process))));
    set(r, VR_RULE_OTHERS_MATTER,
        both(above(large, exactly((int64_t)VR_OUTSIDE_LARGE)), at_least(large, part(r->total, 25, 100))));
    set(r, VR_RULE_OTHERS_SMALL, above(part(r->total, 5, 100), r->others));
    set(r, VR_RULE_SPILLED, above(r->allocated, r->total));
    if (r->n_siblings >= 2 && large.known)
        set(r, VR_RULE_SIBLINGS, at_least(large, part(r->total, 10, 100)));
}

static void judge_shared(vr_reckoning *r)
{
    vr_span sum = vr_span_add(vr_span_add(r->allocated, r->other_allocations), r->request);

    set(r, VR_RULE_OVER_WATERMARK, above(sum, r->max_allowed));
    set(r, VR_RULE_OTHER_ALLOCATOR, above(r->other_allocations, r->allocated));
}

void vr_reckon(const vr_fact_list *facts, vr_reckoning *r)
{
    *r = (vr_reckoning){ .request = figure(facts, VR_FACT_REQUEST),
                         .total = figure(facts, VR_FACT_TOTAL),
                         .left = figure(facts, VR_FACT_FREE),
                         .allocated = figure(facts, VR_FACT_ALLOCATED),
                         .idle = figure(facts, VR_FACT_IDLE),
                         .reserved = figure(facts, VR_FACT_RESERVED),
                         .private_pools = figure(facts, VR_FACT_PRIVATE_POOLS),
                         .allowed = figure(facts, VR_FACT_ALLOWED),
                         .other_allocations = figure(facts, VR_FACT_OTHER_ALLOCATIONS),
                         .max_allowed = figure(facts, VR_FACT_MAX_ALLOWED) };
    /* PyTorch prints two of the three. */
    if (!r->idle.known)
        r->idle = not_negative(vr_span_sub(r->reserved, r->allocated));
    if (!r->reserved.known)
        r->reserved = vr_span_add(r->allocated, r->idle);
    r->outside = vr_span_sub(vr_span_sub(r->total, r->left), r->reserved);
    reckon_processes(facts, r);
    judge_request(r);
    judge_idle(r);
    judge_outside(r);
    judge_shared(r);
}
