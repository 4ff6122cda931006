/* SPDX-License-Identifier: MIT
 *
 * What speaks for a verdict, line by line, and what the message does not mean.
 */
#include "diagnosis/causes.h"

#define NOT(trait) (-(int16_t)(trait))

/* Said when all traits hold and all figures are known. */
typedef struct remark {
    int16_t when[4];
    const char *text;
} remark;

static const remark sums[] = {
    { { VR_RULED(OUTSIDE_SMALL), NOT(VR_RULED(FREE_SUFFICES)), VR_RULED(FREE_MUCH) },
      "next to nothing is held by others: {reserved} of {total} is this process's, {free} was free" },
    { { VR_RULED(OUTSIDE_SMALL), NOT(VR_RULED(FREE_SUFFICES)), NOT(VR_RULED(FREE_MUCH)) },
      "this process alone fills the card: {reserved} of {total} is its own, {free} was free" },
    { { VR_RULED(OTHERS_MATTER), NOT(VR_RULED(OTHERS_DOMINATE)) },
      "other processes hold {others} of {total} ({others%})" },
    { { VR_RULED(OUTSIDE_LARGE), NOT(VR_RULED(OUTSIDE_DOMINATES)), NOT(VR_RULED(OTHERS_MATTER)),
        NOT(VR_RULED(OTHERS_SMALL)) },
      "{outside} of {total} is neither free nor PyTorch's: another process, or libraries of this one" },
    { { VR_RULED(IDLE_LITTLE), VR_RULED(PACKING_FAILS) },
      "not fragmentation: only {idle} ({idle%} of the card) is idle, and with it {shortfall} would still be "
      "missing" },
    { { VR_RULED(IDLE_LITTLE), NOT(VR_RULED(PACKING_FAILS)), NOT(VR_RULED(FREE_SUFFICES)) },
      "not fragmentation: only {idle} ({idle%} of the card) is idle" },
    { { VR_RULED(PACKING_FAILS), NOT(VR_RULED(IDLE_LITTLE)) },
      "not fragmentation: free and idle together are {shortfall} less than the request" },
    { { VR_RULED(SPILLED) },
      "{allocated} on a card of {total}: the driver had moved a part into the computer's memory already" },
    { { VR_RULED(OVER_WATERMARK), NOT(VR_RULED(OTHER_ALLOCATOR)) },
      "{allocated} in tensors and {other_allocations} beside them have reached the {max_allowed} that the "
      "process may hold" },
    { { VR_OWN_BY_SIZE, NOT(VR_RULED(OTHERS_MATTER)) },
      "the process listed with {own_process} is this one, seen from inside a container" },
};

static const remark notes[] = {
    { { VR_RULED(REQUEST_ROUNDED) },
      "{request} is a step of the allocator's rounding and says nothing about the tensor" },
    { { VR_RULED(IDLE_SUFFICES), VR_RULED(IDLE_LITTLE) },
      "free and idle together exceed the request, but so little is idle that packing it would only move the "
      "failure by a few tensors" },
    { { VR_BY_PYTORCH, NOT(VR_RULED(LARGER_THAN_CARD)), NOT(VR_RULED(FREE_SUFFICES)),
        NOT(VR_RULED(REQUEST_LARGE)) },
      "{request} is the last piece asked for, not what is missing" },
    { { VR_BY_PYTORCH, VR_RULED(FREE_SUFFICES) },
      "more free than asked for is no fault of PyTorch by itself: a limit on one allocation, or another "
      "process "
      "that let go in between" },
    { { VR_OWN_BY_SIZE },
      "the listed process is this one: inside a container it does not know its own number" },
    { { VR_BY_PYTORCH, VR_RULED(IDLE_LITTLE) },
      "the tip about fragmentation at the message's end is always printed" },
    { { VR_IS_HOST }, "this is the computer's memory; the card's plays no part" },
    { { VR_IS_POOL }, "the figures count slots of the engine's pool in tokens, not bytes" },
    { { VR_IS_BARE, VR_IS_GPU, NOT(VR_IS_REFUSAL) },
      "without figures it is not even said whose memory: page-locked memory of the computer fails in the "
      "same "
      "words" },
    { { VR_UNDER_ENGINE, VR_AT_SERVING, VR_BY_PYTORCH },
      "a serving engine fills the card by design: that it is full is no leak" },
    { { VR_BY_PYTORCH, VR_AT_NOTHING },
      "GPU {gpu} is counted among the cards that this process sees, not those of the machine" },
};

static bool holds(const vr_view *v, const remark *m)
{
    for (size_t i = 0; i < sizeof m->when / sizeof m->when[0] && m->when[i] != 0; i++)
        if (m->when[i] > 0 ? !v->has[m->when[i]] : v->has[-m->when[i]])
            return false;
    return true;
}

/* The verdict's own reason, what the figures say, and then where it was seen to happen. */
void vr_say_evidence(vr_view *v, const vr_verdict *verdict)
{
    uint64_t line = v->event->sign.line;
    const vr_sign *place = v->place.sign, *named = v->f->named_by;

    vr_add_evidence(v->d, v->f, line, vr_say(v, verdict->because));
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        if (holds(v, &sums[i]))
            vr_add_evidence(v->d, v->f, line, vr_say(v, sums[i].text));
    if (place != NULL && place != named)
        vr_add_evidence(v->d, v->f, place->line, place->row->meaning);
    if (named != NULL)
        vr_add_evidence(v->d, v->f, named->line, named->row->meaning);
    if (verdict->because == NULL)
        vr_add_evidence(v->d, v->f, line, v->row->meaning);
}

void vr_say_notes(vr_view *v)
{
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (holds(v, &notes[i]))
            vr_add_note(v->f, vr_say(v, notes[i].text));
}
