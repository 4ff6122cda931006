/* SPDX-License-Identifier: MIT
 *
 * The one command that would tell the cause where the text does not.
 */
#include "diagnosis/levers.h"

#define GPU (VR_BIT(VR_MEMORY_GPU) | VR_BIT(VR_MEMORY_POOL))
#define HOST (VR_BIT(VR_MEMORY_HOST) | VR_BIT(VR_MEMORY_SHM))
#define TORCH VR_TORCH_PROGRAMS
#define WHEN(id) VR_BIT(VR_IF_##id)
#define CAUSE(id) VR_BIT(VR_CAUSE_##id)
#define PHASE(id) VR_BIT(VR_PHASE_##id)
#define PROGRAM(id) VR_BIT(VR_PROGRAM_##id)

#define WHO "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv"
#define ROOM "python -c \"import torch; print(torch.cuda.mem_get_info())\""
#define LIMIT_OF_MPS "python -c \"import torch; print(torch.mps.recommended_max_memory())\""
#define POD "kubectl get pod POD -o jsonpath='{.status.containerStatuses[*].lastState}'"

/* The first that applies is the one; `change` says what it tells. */
static const vr_lever_row asked[] = {
    /* the computer's memory */
    { .memories = HOST,
      .when = WHEN(KUBERNETES),
      .command = POD,
      .change = "OOMKilled there: the pod's limit, not the machine" },
    { .memories = HOST,
      .when = WHEN(SLURM),
      .command = "sacct -j JOBID --format=JobID,State,ReqMem,MaxRSS",
      .change = "MaxRSS near ReqMem: the job's limit" },
    { .memories = HOST,
      .when = WHEN(RAY),
      .command = "ray memory --stats-only",
      .change = "what the object store holds; the rest is of workers" },
    { .memories = HOST,
      .when = WHEN(PINNED),
      .unless = WHEN(WINDOWS),
      .command = "ulimit -l; free -g",
      .change = "how much memory may be locked, and how much there is" },
    { .memories = HOST,
      .when = WHEN(WSL),
      .command = "ulimit -l; free -g",
      .change = "how much memory may be locked, and how much there is" },
    { .memories = HOST,
      .when = WHEN(WINDOWS),
      .command = "systeminfo | findstr /C:\"Virtual Memory\"",
      .change = "the commit limit: memory and page file together" },
    { .memories = HOST,
      .when = WHEN(CONTAINER),
      .command = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.peak",
      .change = "a peak at the limit: the container's limit, not the machine" },
    { .memories = VR_BIT(VR_MEMORY_SHM), .command = "df -h /dev/shm", .change = "its size is the limit" },
    { .memories = HOST,
      .when = WHEN(APPLE),
      .command = "sysctl vm.swapusage hw.memsize",
      .change = "how much memory there is, and how much was swapped out" },
    { .memories = HOST,
      .command = "dmesg -T | grep -i -E 'killed process|oom-kill'",
      .change = "the kernel names what it killed, its size, and which limit" },
    /* links between cards, drivers */
    { .programs = PROGRAM(NCCL),
      .command = "NCCL_DEBUG=INFO",
      .change = "in front of the command: NCCL then says which call failed" },
    { .phases = PHASE(COMMUNICATOR),
      .command = "NCCL_DEBUG=INFO",
      .change = "in front of the command: NCCL then says which call failed" },
    { .causes = CAUSE(DRIVER_OR_HARDWARE),
      .when = WHEN(AMD),
      .command = "rocm-smi; dmesg -T | grep -i amdgpu",
      .change = "whether the driver answers, and what it complained of" },
    { .causes = CAUSE(DRIVER_OR_HARDWARE),
      .unless = WHEN(WINDOWS) | WHEN(APPLE) | WHEN(INTEL),
      .command = "nvidia-smi; dmesg -T | grep -i -E 'xid|nvrm'",
      .change = "whether the driver answers, and what it complained of" },
    /* other makers */
    { .memories = GPU,
      .when = WHEN(APPLE),
      .programs = TORCH,
      .command = LIMIT_OF_MPS,
      .change = "what this process may hold, before it starts" },
    { .memories = GPU,
      .when = WHEN(APPLE),
      .command = "sysctl iogpu.wired_limit_mb hw.memsize",
      .change = "how much of the memory the graphics part may have" },
    { .memories = GPU,
      .when = WHEN(INTEL),
      .command = "xpu-smi ps",
      .change = "what else holds memory of the card" },
    { .memories = GPU,
      .when = WHEN(AMD),
      .command = "rocm-smi --showpids --showmeminfo vram",
      .change = "what else holds memory of the card" },
    { .memories = GPU,
      .when = WHEN(TPU),
      .command = "XLA_FLAGS=--xla_dump_to=xla",
      .change = "in front of the command: the files list every buffer" },
    /* who holds the card */
    { .programs = PROGRAM(OLLAMA),
      .memories = GPU,
      .command = "ollama ps; nvidia-smi",
      .change = "which models are loaded, and what else holds the card" },
    { .causes = CAUSE(OTHER_PROCESS),
      .memories = GPU,
      .when = WHEN(CONTAINER),
      .command = WHO,
      .change = "on the host, outside the container: who holds the rest" },
    { .causes = CAUSE(OTHER_PROCESS),
      .memories = GPU,
      .command = WHO,
      .change = "who holds the rest of the card" },
    { .causes = CAUSE(DEVICE_PLACEMENT),
      .memories = GPU,
      .command = WHO,
      .change = "on which card each process is" },
    { .memories = GPU,
      .when = WHEN(SHARED_CARD),
      .command = WHO,
      .change = "who holds the rest of the card" },
    { .memories = GPU,
      .when = WHEN(CONTRADICTION),
      .command = "nvidia-smi --loop=1",
      .change = "while it runs: whether something else comes and goes" },
    /* what fills this program */
    { .memories = GPU,
      .when = WHEN(GROWTH),
      .programs = TORCH,
      .command = "print(torch.cuda.memory_summary())",
      .change = "every 100 steps: which figure grows" },
    { .memories = GPU,
      .phases = PHASE(LATER) | PHASE(EVALUATION),
      .programs = TORCH,
      .command = "print(torch.cuda.memory_summary())",
      .change = "every 100 steps: which figure grows" },
    { .memories = GPU,
      .when = WHEN(BARE),
      .phases = PHASE(START) | PHASE(UNKNOWN),
      .programs = TORCH,
      .command = ROOM,
      .change = "free and total before it starts: is the card full already" },
    { .memories = GPU,
      .when = WHEN(BARE),
      .programs = TORCH,
      .says = "cuda error",
      .command = "CUDA_LAUNCH_BLOCKING=1",
      .change = "in front of the command: the traceback then names the call" },
    { .memories = GPU,
      .causes =
          CAUSE(WEIGHTS) | CAUSE(KV_CACHE) | CAUSE(ACTIVATIONS) | CAUSE(RUNTIME_OVERHEAD) | CAUSE(UNKNOWN),
      .command = "vram fit {model}",
      .change = "what the model needs on this card, part by part" },
    { .memories = GPU,
      .programs = PROGRAM(VLLM),
      .command = "grep -iE 'model loading took|kv cache|graph capturing' LOG",
      .change = "the engine's own figures of weights, cache and graphs" },
    { .memories = GPU,
      .programs = PROGRAM(SGLANG),
      .command = "grep -iE 'avail mem|max_total_num_tokens' LOG",
      .change = "the engine's own figures after each step" },
    { .memories = GPU,
      .programs = PROGRAM(TENSORRT_LLM),
      .command = "grep -iE 'memusagechange|kv cache|engine size' LOG",
      .change = "the engine's own figures of each part" },
    { .memories = GPU,
      .programs = PROGRAM(LLAMACPP) | PROGRAM(KOBOLDCPP),
      .command = "grep -iE 'buffer size|offloaded|n_ctx' LOG",
      .change = "the sizes of weights, cache and compute buffers" },
    { .memories = GPU,
      .programs = PROGRAM(JAX),
      .command = "XLA_FLAGS=--xla_dump_to=xla",
      .change = "in front of the command: the files list every buffer" },
    { .memories = GPU,
      .programs = TORCH,
      .unless = WHEN(BARE),
      .command = "print(torch.cuda.memory_summary())",
      .change = "before the line that failed: what is live, what is idle" },
    { .memories = GPU, .command = WHO, .change = "before it starts: what is on the card already" },
    { .memories = VR_BIT(VR_MEMORY_UNKNOWN),
      .command = "nvidia-smi; free -g; dmesg -T | tail -n 30",
      .change = "card, memory and kernel right after the failure" },
};

void vr_judge_tell(const vr_case *c)
{
    for (size_t i = 0; i < sizeof asked / sizeof asked[0] && c->f->tell == NULL; i++)
        if (vr_lever_applies(c, &asked[i])) {
            c->f->tell = vr_filled(c, asked[i].command);
            c->f->tell_why = c->f->tell != NULL ? asked[i].change : NULL;
        }
}
