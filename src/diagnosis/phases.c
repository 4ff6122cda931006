/* SPDX-License-Identifier: MIT
 *
 * Frames from the innermost outwards: the first that says something holds, unless a frame around it says what
 * the whole call was for.
 */
#include "diagnosis/phases.h"

/* A frame of a phase on the left that lies around another says where the run was, if its number is higher: a
 * forward pass inside an engine's trial run is the trial run. 0: it says so only where it is innermost (the
 * optimizer's step of some trainers calls the forward pass). */
static const uint8_t around[VR_PHASE_COUNT] = {
    [VR_PHASE_SERVING] = 1, [VR_PHASE_DECODE_IMAGE] = 2, [VR_PHASE_COMPILE] = 2, [VR_PHASE_BACKWARD] = 3,
    [VR_PHASE_PROFILE] = 3, [VR_PHASE_EVALUATION] = 3,   [VR_PHASE_LOAD] = 3,    [VR_PHASE_DATA] = 3,
    [VR_PHASE_RESUME] = 4,  [VR_PHASE_CAPTURE] = 4,      [VR_PHASE_SAVE] = 4,    [VR_PHASE_COMMUNICATOR] = 2,
};

/* What can lie within those: a frame that names its own memory is believed against what is around it. */
static const uint8_t within[VR_PHASE_COUNT] = {
    [VR_PHASE_FORWARD] = 0,  [VR_PHASE_TRAINING] = 0,     [VR_PHASE_SERVING] = 1,
    [VR_PHASE_START] = 2,    [VR_PHASE_DECODE_IMAGE] = 2, [VR_PHASE_COMPILE] = 2,
    [VR_PHASE_BACKWARD] = 3, [VR_PHASE_PROFILE] = 3,      [VR_PHASE_EVALUATION] = 3,
    [VR_PHASE_LOAD] = 3,     [VR_PHASE_DATA] = 3,         [VR_PHASE_COMMUNICATOR] = 3,
    [VR_PHASE_KV_CACHE] = 4, [VR_PHASE_CAPTURE] = 4,      [VR_PHASE_OPTIMIZER_STEP] = 4,
    [VR_PHASE_RESUME] = 2,   [VR_PHASE_SAVE] = 4,         [VR_PHASE_COMPUTE_BUFFERS] = 4,
    [VR_PHASE_LATER] = 0,    [VR_PHASE_KERNEL] = 4,
};

/* Frame i counted from the innermost. Tracebacks of Python end with it, right before the message; where the
 * message stands first, what was pasted behind it is such a traceback too. */
static const vr_sign *frame_at(const vr_incident *event, size_t i)
{
    size_t before = event->n_before_line < event->n_near ? event->n_before_line : event->n_near;

    if (i < before)
        return &event->near[before - 1 - i];
    return &event->near[event->n_near - 1 - (i - before)];
}

static vr_place_in_run from_frames(const vr_incident *event)
{
    vr_place_in_run at = { 0 };

    for (size_t i = 0; i < event->n_near; i++) {
        const vr_sign *s = frame_at(event, i);
        uint8_t phase = s->row->phase;

        if (phase == VR_PHASE_UNKNOWN || s->row->kind == VR_TEXT_STEP)
            continue;
        if (at.phase == VR_PHASE_UNKNOWN || around[phase] > within[at.phase])
            at = (vr_place_in_run){ .phase = phase, .sign = s, .from_frame = true };
    }
    return at;
}

/* "Step 400 of 1000" before the message: it had run for a while. */
static uint8_t of_step(const vr_sign *step)
{
    uint64_t n;

    if (step->row->phase == VR_PHASE_TRAINING && vr_fact_value(&step->facts, VR_FACT_STEP, &n) && n > 2)
        return VR_PHASE_LATER;
    return step->row->phase;
}

vr_place_in_run vr_phase_of(const vr_incident *event)
{
    vr_place_in_run at = from_frames(event);

    /* A text that names its place knows it better than the frames around it, if it is no bare word. */
    if (event->sign.row->phase != VR_PHASE_UNKNOWN && event->sign.row->phase != at.phase &&
        (at.phase == VR_PHASE_UNKNOWN || event->sign.row->kind != VR_TEXT_GENERIC ||
         around[event->sign.row->phase] > within[at.phase]))
        return (vr_place_in_run){ .phase = event->sign.row->phase };
    if (at.phase != VR_PHASE_UNKNOWN || event->step == NULL)
        return at;
    return (vr_place_in_run){ .phase = of_step(event->step), .sign = event->step };
}
