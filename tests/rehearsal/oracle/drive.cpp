/* SPDX-License-Identifier: MIT
 * Plays one scenario through PyTorch's own CUDA caching allocator and prints what it came to. Started by
 * run.sh.
 *
 * usage: drive NUMBER [-v]      (-v: one line per event, to find the first difference) */
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "scenarios.h"

extern "C" __attribute__((weak)) int oracle_capturing; /* of fake_driver.c */

namespace allocator = c10::cuda::CUDACachingAllocator;

static uint64_t figure(const c10::CachingAllocator::StatArray &stats)
{
    return (uint64_t)stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

int main(int argc, char **argv)
{
    size_t number = argc > 1 ? strtoul(argv[1], nullptr, 10) : ORACLE_SCENARIOS;
    bool verbose = argc > 2 && strcmp(argv[2], "-v") == 0;
    if (number >= ORACLE_SCENARIOS)
        return 2;
    auto *a = allocator::get();
    allocator::CUDAAllocatorConfig::set_expandable_segments_handle_type(
        allocator::Expandable_Segments_Handle_Type::POSIX_FD); /* the other kind asks for the NVLink fabric */
    a->init(1);
    static oracle_source source;
    oracle_start(&source, &oracle_scenarios[number]);
    std::vector<void *> blocks(ORACLE_LIVE, nullptr);
    oracle_event e;
    uint64_t refused = 0;
    while (oracle_next(&source, &e)) {
        uint64_t address = 0;
        if (e.kind == ORACLE_EMPTY) {
            a->emptyCache();
        } else if (e.kind == ORACLE_RELEASE) {
            a->raw_delete(blocks[e.slot]);
        } else {
            c10::MempoolId_t pool = { 0, e.pool };
            if (e.pool != 0) {
                a->beginAllocateToPool(0, pool, [](cudaStream_t) { return true; });
                oracle_capturing = 1;
                a->markCaptureBegin(0);
            }
            try {
                blocks[e.slot] =
                    a->raw_alloc_with_stream(e.bytes, reinterpret_cast<cudaStream_t>((uintptr_t)e.stream));
                oracle_took(&source, e.slot);
                address = (uint64_t)(uintptr_t)blocks[e.slot];
            } catch (const c10::Error &error) {
                if (strstr(error.what(), "out of memory") == nullptr)
                    throw;
                refused++;
            }
            if (e.pool != 0) {
                oracle_capturing = 0;
                a->markCaptureEnd(0);
                a->endAllocateToPool(0, pool);
            }
        }
        auto stats = a->getDeviceStats(0);
        uint64_t allocated = figure(stats.allocated_bytes), reserved = figure(stats.reserved_bytes);
        uint64_t requested = figure(stats.requested_bytes), retries = (uint64_t)stats.num_alloc_retries;
        for (uint64_t x : { address, allocated, reserved, requested, retries })
            oracle_digest(&source, x);
        if (verbose)
            printf("%u %d %" PRIu64 " stream %u slot %u -> %" PRIu64 " allocated %" PRIu64
                   " reserved %" PRIu64 " retries %" PRIu64 "\n",
                   source.step, e.kind, e.bytes, e.stream, e.slot, address, allocated, reserved, retries);
        if (source.step % (source.scenario->steps / ORACLE_CHECKS) == 0)
            printf("%s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
                   source.scenario->name, source.step, allocated, reserved, requested, retries, refused,
                   source.digest);
    }
    return 0;
}
