/* SPDX-License-Identifier: MIT
 * The table of cards and the total that CUDA gives to programs: as logs show it, or by rule where no Linux
 * log is known.
 *
 * Rules and their logs: data/README.md. In short: total = what nvidia-smi shows - a reserve of the driver;
 * nvidia-smi shows the size on the box less what the memory itself loses (GDDR7 and HBM3 about half a
 * percent, ECC on GDDR a sixteenth). Every constant below is the extreme of the logs behind data/gpus.tsv,
 * not a margin of our own. */
#include "device/gpus.h"

/* Reserve in MiB of recent Linux drivers, by compute capability and size of the box. */
typedef struct reserve {
    unsigned cc_from, cc_to;
    uint64_t up_to_gb; /* 0: any */
    uint64_t low, high;
} reserve;

static const reserve reserves[] = {
    { 900, 900, 100, 438, 586 },  /* H100 80 GB HBM3 .. H20 */
    { 900, 900, 0, 600, 720 },    /* H200 615 */
    { 1000, 1000, 0, 700, 740 },  /* B200 717, 728 */
    { 1030, 1030, 0, 850, 1000 }, /* B300 927 */
    { 600, 619, 0, 56, 106 },     /* Quadro P1000 .. Quadro P5000 */
    { 700, 720, 0, 224, 274 },    /* TITAN V, V100 16 GB .. V100 32 GB */
    { 750, 799, 8, 326, 400 },    /* as Ampere: GTX 1660 Ti 397 */
    { 750, 799, 16, 334, 457 },   /* RTX 2060 12 GB 455, Quadro RTX 5000 457, T4 448 */
    { 800, 800, 24, 300, 640 },   /* no A30 log: between the neighbours */
    { 800, 800, 40, 423, 634 },   /* A100-SXM4-40GB .. A100-PCIE-40GB */
    { 800, 800, 0, 766, 882 },    /* A100 80 GB PCIe .. SXM */
    { 860, 899, 8, 326, 400 },    /* RTX A2000 laptop .. GTX 1660 Ti, RTX 4060 Ti 386 */
    { 860, 899, 16, 334, 457 },   /* RTX 3080 10 GB .. RTX 4080 SUPER 439 */
    { 1200, 1200, 8, 326, 400 },  /* as Ada: no Linux log */
    { 1200, 1200, 16, 414, 500 }, /* RTX 5060 Ti 16 GB less the GDDR7 loss .. RTX 5070 Ti 495 */
    { 1200, 1200, 24, 420, 518 }, { 750, 1200, 24, 420, 485 }, /* RTX 3090 Ti .. RTX 4090 484 */
    { 750, 1200, 32, 440, 518 },                               /* RTX 5090 464 .. 518 */
    { 750, 1200, 0, 599, 655 }, /* RTX A6000 601, A40 652, RTX 6000 Ada 655, RTX PRO 6000 640 */
};

#define OLD_DRIVERS_RESERVE_LESS 200 /* MiB; drivers up to 550 or so: RTX 3060 12044 then, 11911 now */
#define LEAST_RESERVE 50

const vr_gpu *vr_gpus(size_t *n)
{
    *n = vr_gpu_table_n;
    return vr_gpu_table;
}

unsigned vr_gpu_capability(const vr_gpu *gpu)
{
    return gpu->cc_major * 100 + gpu->cc_minor * 10;
}

bool vr_gpu_is_nvidia(const vr_gpu *gpu)
{
    return vr_str_is(vr_str_of(gpu->vendor), "NVIDIA");
}

bool vr_gpu_has_hbm(const vr_gpu *gpu)
{
    unsigned cc = vr_gpu_capability(gpu);
    return cc == 600 || cc == 700 || cc == 800 || cc == 900 || cc == 1000 || cc == 1030;
}

static bool named(const vr_gpu *gpu, const char *part)
{
    return vr_str_find(vr_str_of(gpu->name), part, NULL);
}

static uint64_t box_gb(const vr_gpu *gpu)
{
    return gpu->marketed_gb / (gpu->memories != 0 ? gpu->memories : 1);
}

static const reserve *reserve_of(const vr_gpu *gpu)
{
    unsigned cc = vr_gpu_capability(gpu);
    for (size_t i = 0; i < sizeof reserves / sizeof *reserves; i++) {
        const reserve *r = &reserves[i];
        if (cc >= r->cc_from && cc <= r->cc_to && (r->up_to_gb == 0 || box_gb(gpu) <= r->up_to_gb))
            return r;
    }
    return NULL;
}

/* What the memory loses before nvidia-smi, in 1/10000: GDDR7 32607 of 32768, 97887 of 98304, 8151 of 8192;
 * HBM3 81559 of 81920, 143771 of 144384, 95830 of 96256; HBM3e of Blackwell 183359 of 184320; GDDR6 up to 12
 * MiB of 24576. */
static void box_loss(const vr_gpu *gpu, uint64_t *least, uint64_t *most)
{
    unsigned cc = vr_gpu_capability(gpu);
    *least = cc == 1200 ? 42 : cc == 900 ? 42 : cc == 1000 ? 52 : 0;
    *most = cc == 1200 ? 50 : cc == 900 ? 45 : cc == 1000 ? 53 : vr_gpu_has_hbm(gpu) ? 0 : 5;
}

/* ECC takes 1/16 of GDDR and nothing of HBM. GeForce and TITAN cards have none; servers' cards have it on by
 * default, workstations' cards off. */
static vr_range after_ecc(vr_range full, const vr_gpu *gpu)
{
    if (vr_gpu_has_hbm(gpu) || named(gpu, "GeForce") || named(gpu, "TITAN") || gpu->ecc == VR_ECC_OFF)
        return full;
    bool workstation = named(gpu, "RTX") || named(gpu, "Quadro");
    full.low -= full.low / 16;
    if (gpu->ecc == VR_ECC_ON || !workstation)
        full.bytes -= full.bytes / 16;
    if (gpu->ecc == VR_ECC_ON)
        full.high -= full.high / 16;
    return full;
}

/* What nvidia-smi shows; bytes 0: unknown. */
static vr_range shown_total(const vr_gpu *gpu)
{
    uint64_t known = gpu->smi_total_bytes, least, most;
    if (known == 0 && !gpu->cuda_total_measured)
        known = gpu->cuda_total_bytes; /* Windows gives programs all but half a MiB of it */
    if (known != 0)
        return (vr_range){ known, known, known, VR_BASIS_FORMULA };
    uint64_t box = vr_mul_sat(box_gb(gpu), VR_GIB);
    box_loss(gpu, &least, &most);
    vr_range full = { 0, box - vr_mul_div(box, most, 10000), box - vr_mul_div(box, least, 10000),
                      VR_BASIS_FORMULA };
    full.bytes = full.low + (full.high - full.low) / 2;
    return after_ecc(full, gpu);
}

static vr_range usable_of_nvidia(const vr_gpu *gpu)
{
    const reserve *r = reserve_of(gpu);
    vr_range t = shown_total(gpu);
    if (r == NULL || t.bytes == 0 || gpu->unified)
        return (vr_range){ 0 };
    uint64_t least = vr_sub_floor(r->low, OLD_DRIVERS_RESERVE_LESS);
    t.bytes = vr_sub_floor(t.bytes, (r->low + r->high) / 2 * VR_MIB);
    t.low = vr_sub_floor(t.low, r->high * VR_MIB);
    t.high = vr_sub_floor(t.high, (least > LEAST_RESERVE ? least : LEAST_RESERVE) * VR_MIB);
    return t;
}

/* ROCm shows 16 MiB less than the box on most cards, 144 less on the R9700, nothing less on one RX 7900 XTX;
 * the professional cards may have ECC on (V620: 30704 of 32768). */
static vr_range usable_of_amd(const vr_gpu *gpu)
{
    uint64_t box = vr_mul_sat(box_gb(gpu), VR_GIB);
    if (gpu->unified || box == 0)
        return (vr_range){ 0 };
    uint64_t low = named(gpu, "PRO") ? box - box / 16 : box;
    return (vr_range){ box - 16 * VR_MIB, low - 144 * VR_MIB, box, VR_BASIS_FORMULA };
}

/* Metal's recommended working set: 2/3 of the memory up to 36 GB and 3/4 from 128 GB in older logs, 0.74 to
 * 0.78 in newer ones. */
static vr_range usable_of_apple(const vr_gpu *gpu)
{
    uint64_t memory = vr_mul_sat(gpu->marketed_gb, VR_GIB), two_thirds = vr_mul_div(memory, 2, 3);
    return (vr_range){ .bytes = gpu->marketed_gb <= 36 ? two_thirds : vr_mul_div(memory, 3, 4),
                       .low = gpu->marketed_gb < 128 ? two_thirds : vr_mul_div(memory, 74, 100),
                       .high = vr_mul_div(memory, 78, 100),
                       .basis = VR_BASIS_FORMULA };
}

vr_range vr_gpu_derived(const vr_gpu *gpu)
{
    if (vr_gpu_is_nvidia(gpu))
        return usable_of_nvidia(gpu);
    if (vr_str_is(vr_str_of(gpu->vendor), "AMD"))
        return usable_of_amd(gpu);
    if (vr_str_is(vr_str_of(gpu->vendor), "Apple"))
        return usable_of_apple(gpu);
    return (vr_range){ 0 }; /* Intel: five logs between 0.944 and 0.997 of the box are no rule */
}

/* A single log tells nothing of other drivers: a recent one may reserve more than an old one did, and newer
 * systems of Apple give more. */
static vr_range beyond_one_log(vr_range t, const vr_gpu *gpu)
{
    const reserve *r = vr_gpu_is_nvidia(gpu) && !gpu->unified ? reserve_of(gpu) : NULL;
    vr_range rule = vr_gpu_derived(gpu);
    if (r != NULL && rule.bytes != 0) {
        uint64_t recent = vr_sub_floor(shown_total(gpu).bytes, r->high * VR_MIB);
        t.low = recent < t.low ? recent : t.low;
    } else if (gpu->os == VR_OS_METAL) {
        t.low = rule.low < t.low ? rule.low : t.low;
        t.high = rule.high > t.high ? rule.high : t.high;
    }
    return t;
}

vr_range vr_gpu_usable(const vr_gpu *gpu)
{
    if (!gpu->cuda_total_measured || gpu->cuda_total_bytes == 0)
        return vr_gpu_derived(gpu);
    vr_range t = { gpu->cuda_total_bytes, gpu->cuda_total_low, gpu->cuda_total_high, VR_BASIS_TABLE };
    if (t.low == 0 || t.low > t.bytes)
        t.low = t.bytes;
    if (t.high < t.bytes)
        t.high = t.bytes;
    return gpu->cuda_total_low == gpu->cuda_total_high ? beyond_one_log(t, gpu) : t;
}
