/* SPDX-License-Identifier: MIT
 * Memory that a process takes before it allocates anything: CUDA context and kernels.
 *
 * The context grows with the threads that a GPU can hold, since the driver backs each one's local memory.
 * Coefficients: least squares over 17 cards from Pascal to Ada, worst residual 3.2 MiB, drivers 550 to 565
 * and 2026; nvidia-smi's figure for the process is 6.4 MiB below the fit (data/README.md). */
#include "device/gpus.h"

#define FIXED_BYTES UINT64_C(23781704) /* (29.08 - 6.4) MiB */
#define TENTHS_PER_THREAD 19382        /* 1938.2 bytes per resident thread */
#define CONSUMER_BAND (4 * VR_MIB)

/* Resident threads per multiprocessor (CUDA programming guide, technical specifications per compute
 * capability); 0: the fit knows nothing of that generation. */
static uint64_t threads_per_sm(unsigned cc)
{
    switch (cc) {
    case 600:
    case 610:
    case 700:
    case 800:
    case 900:
    case 1000:
    case 1030:
        return 2048;
    case 860:
    case 890:
    case 1200:
        return 1536;
    case 750:
        return 1024;
    default:
        return 0;
    }
}

static uint64_t by_formula(const vr_gpu *gpu)
{
    uint64_t threads = gpu->sm_count * threads_per_sm(vr_gpu_capability(gpu));
    return threads == 0 ? 0 : FIXED_BYTES + threads * TENTHS_PER_THREAD / 10;
}

/* Measured, else by formula, else 0. */
static uint64_t known_context(const vr_gpu *gpu)
{
    if (!vr_gpu_is_nvidia(gpu))
        return 0;
    return gpu->context_bytes != 0 ? gpu->context_bytes : by_formula(gpu);
}

/* HBM parts read 4 to 20 % above the fit, one 4 % below (V100, A100, H100, B200); the others within 4 MiB of
 * it as long as no display hangs on the card. */
static vr_range banded(const vr_gpu *gpu, uint64_t c)
{
    if (gpu->context_bytes == 0 && vr_gpu_has_hbm(gpu))
        return (vr_range){ c, vr_mul_div(c, 95, 100), vr_mul_div(c, 120, 100), VR_BASIS_FORMULA };
    return (vr_range){ c, vr_sub_floor(c, CONSUMER_BAND), c + CONSUMER_BAND,
                       gpu->context_bytes != 0 ? VR_BASIS_TABLE : VR_BASIS_FORMULA };
}

/* Over the cards between `low` and `high` GB on the box. */
static bool range_over(vr_range *out, uint64_t low, uint64_t high)
{
    size_t n;
    const vr_gpu *g = vr_gpus(&n);
    *out = (vr_range){ .low = UINT64_MAX, .basis = VR_BASIS_ASSUMED };
    for (size_t i = 0; i < n; i++) {
        uint64_t c = known_context(&g[i]);
        if (c == 0 || g[i].marketed_gb < low || g[i].marketed_gb > high)
            continue;
        vr_range r = banded(&g[i], c);
        out->low = r.low < out->low ? r.low : out->low;
        out->high = r.high > out->high ? r.high : out->high;
    }
    if (out->high == 0)
        return false;
    out->bytes = out->low + (out->high - out->low) / 2;
    return true;
}

vr_range vr_context_of_size(uint64_t usable_bytes)
{
    vr_range r;
    uint64_t gb = usable_bytes / VR_GIB + (usable_bytes % VR_GIB >= VR_GIB / 2 ? 1 : 0);
    if (!range_over(&r, gb, gb) && !range_over(&r, gb - gb / 4, vr_add_sat(gb, gb / 4)) &&
        !range_over(&r, gb - gb / 2, vr_add_sat(gb, gb / 2)))
        range_over(&r, 0, UINT64_MAX);
    return r;
}

vr_range vr_gpu_context(const vr_gpu *gpu)
{
    uint64_t c = known_context(gpu);
    if (!vr_gpu_is_nvidia(gpu))
        return (vr_range){ 0 };
    if (c == 0)
        return vr_context_of_size(gpu->marketed_gb != 0 ? vr_mul_sat(gpu->marketed_gb, VR_GIB)
                                                        : vr_gpu_usable(gpu).bytes);
    return banded(gpu, c);
}

/* Kernels loaded lazily by one dense pass in 16 bits: 32 MiB measured on an RTX 3060, 24 to 40 with other
 * kernels. */
vr_range vr_kernels(const vr_gpu *gpu)
{
    return (vr_range){ 32 * VR_MIB, 24 * VR_MIB, 40 * VR_MIB,
                       gpu != NULL ? VR_BASIS_TABLE : VR_BASIS_ASSUMED };
}
