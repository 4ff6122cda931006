/* SPDX-License-Identifier: MIT
 *
 * The words of a diagnosis, as they stand in data/, in JSON and in docs/json.md. Lists only: tools/tsv2c.c
 * reads them too.
 */
#ifndef VR_WORDS_OF_DIAGNOSIS_H
#define VR_WORDS_OF_DIAGNOSIS_H

/* Which memory ran out. */
#define VR_MEMORIES(X)                                                                                       \
    X(UNKNOWN, "unknown", "not said")                                                                        \
    X(GPU, "gpu", "GPU memory")                                                                              \
    X(POOL, "pool", "an engine's own pool, in GPU memory that it already holds")                             \
    X(HOST, "host", "the computer's memory (RAM), or a limit on it")                                         \
    X(SHM, "shm", "shared-memory files (/dev/shm)")                                                          \
    X(ON_CHIP, "on_chip", "shared memory inside the chip, per thread block")                                 \
    X(NONE, "none", "no memory ran out")

/* Where it died. */
#define VR_PHASES(X)                                                                                         \
    X(UNKNOWN, "unknown", "not said")                                                                        \
    X(START, "start", "at start, before anything was loaded")                                                \
    X(LOAD, "load", "loading weights")                                                                       \
    X(RESUME, "resume", "reading a training checkpoint back")                                                \
    X(PROFILE, "profile", "the engine's trial run at start")                                                 \
    X(KV_CACHE, "kv_cache", "sizing or allocating the KV cache")                                             \
    X(COMPUTE_BUFFERS, "compute_buffers", "allocating buffers for a pass")                                   \
    X(CAPTURE, "capture", "capturing CUDA graphs")                                                           \
    X(COMMUNICATOR, "communicator", "setting up NCCL between cards")                                         \
    X(FORWARD, "forward", "a forward pass")                                                                  \
    X(BACKWARD, "backward", "the backward pass")                                                             \
    X(OPTIMIZER_STEP, "optimizer_step", "the optimizer's step")                                              \
    X(EVALUATION, "evaluation", "evaluation")                                                                \
    X(SAVE, "save", "saving a checkpoint")                                                                   \
    X(TRAINING, "training", "training, which part is not said")                                              \
    X(SERVING, "serving", "serving under load")                                                              \
    X(LATER, "later", "after running for a while")                                                           \
    X(DECODE_IMAGE, "decode_image", "decoding images or video (VAE)")                                        \
    X(COMPILE, "compile", "compiling")                                                                       \
    X(DATA, "data", "reading data (DataLoader)")                                                             \
    X(KERNEL, "kernel", "launching a kernel")

/* What is to blame. */
#define VR_CAUSES(X)                                                                                         \
    X(UNKNOWN, "unknown", "cannot tell")                                                                     \
    X(WEIGHTS, "weights", "weights")                                                                         \
    X(GRADIENTS, "gradients", "gradients")                                                                   \
    X(OPTIMIZER_STATES, "optimizer_states", "optimizer states")                                              \
    X(KV_CACHE, "kv_cache", "KV cache")                                                                      \
    X(ACTIVATIONS, "activations", "activations")                                                             \
    X(RUNTIME_OVERHEAD, "runtime_overhead", "runtime overhead")                                              \
    X(OTHER_PROCESS, "other_process", "another program on the card")                                         \
    X(DEVICE_PLACEMENT, "device_placement", "everything on one card")                                        \
    X(LIMIT, "limit", "a limit that was set")                                                                \
    X(HOST_RAM, "host_ram", "the computer's memory")                                                         \
    X(DRIVER_OR_HARDWARE, "driver_or_hardware", "driver or hardware")                                        \
    X(NOT_CAPACITY, "not_capacity", "not a shortage of memory")                                              \
    X(NONE, "none", "nothing failed")

/* How sure. CERTAIN: text or arithmetic leave no other reading. */
#define VR_CERTAINTIES(X)                                                                                    \
    X(UNKNOWN, "unknown", "cannot tell")                                                                     \
    X(POSSIBLE, "possible", "possible")                                                                      \
    X(LIKELY, "likely", "likely")                                                                            \
    X(CERTAIN, "certain", "certain")

/* What printed a text, or runs. A serving engine counts before the library below it. */
#define VR_PROGRAMS(X)                                                                                       \
    X(UNKNOWN, "unknown", "")                                                                                \
    X(VLLM, "vllm", "vLLM")                                                                                  \
    X(SGLANG, "sglang", "SGLang")                                                                            \
    X(TENSORRT_LLM, "tensorrt-llm", "TensorRT-LLM")                                                          \
    X(TGI, "tgi", "Text Generation Inference")                                                               \
    X(LMDEPLOY, "lmdeploy", "LMDeploy")                                                                      \
    X(MLC, "mlc", "MLC-LLM")                                                                                 \
    X(EXLLAMA, "exllama", "ExLlama")                                                                         \
    X(LLAMACPP, "llama.cpp", "llama.cpp")                                                                    \
    X(OLLAMA, "ollama", "Ollama")                                                                            \
    X(KOBOLDCPP, "koboldcpp", "koboldcpp")                                                                   \
    X(MLX, "mlx", "MLX")                                                                                     \
    X(TRANSFORMERS, "transformers", "transformers")                                                          \
    X(TRAINER, "trainer", "transformers Trainer or TRL")                                                     \
    X(ACCELERATE, "accelerate", "accelerate")                                                                \
    X(BITSANDBYTES, "bitsandbytes", "bitsandbytes")                                                          \
    X(DEEPSPEED, "deepspeed", "DeepSpeed")                                                                   \
    X(FSDP, "fsdp", "FSDP")                                                                                  \
    X(MEGATRON, "megatron", "Megatron")                                                                      \
    X(LIGHTNING, "lightning", "Lightning")                                                                   \
    X(DIFFUSERS, "diffusers", "diffusers")                                                                   \
    X(COMFYUI, "comfyui", "ComfyUI")                                                                         \
    X(A1111, "a1111", "Stable Diffusion web UI")                                                             \
    X(STABLE_DIFFUSION_CPP, "stable-diffusion.cpp", "stable-diffusion.cpp")                                  \
    X(PYTORCH, "pytorch", "PyTorch")                                                                         \
    X(PYTORCH_XLA, "pytorch-xla", "PyTorch/XLA")                                                             \
    X(TENSORFLOW, "tensorflow", "TensorFlow")                                                                \
    X(JAX, "jax", "JAX")                                                                                     \
    X(ONNXRUNTIME, "onnxruntime", "ONNX Runtime")                                                            \
    X(PADDLE, "paddle", "PaddlePaddle")                                                                      \
    X(MXNET, "mxnet", "MXNet")                                                                               \
    X(CNTK, "cntk", "CNTK")                                                                                  \
    X(CTRANSLATE2, "ctranslate2", "CTranslate2")                                                             \
    X(CUPY, "cupy", "CuPy")                                                                                  \
    X(RMM, "rmm", "RAPIDS (RMM)")                                                                            \
    X(NUMBA, "numba", "Numba")                                                                               \
    X(JULIA, "julia", "CUDA.jl")                                                                             \
    X(RUST, "rust", "a Rust program")                                                                        \
    X(TRITON, "triton", "Triton")                                                                            \
    X(FLASHINFER, "flashinfer", "FlashInfer")                                                                \
    X(NCCL, "nccl", "NCCL")                                                                                  \
    X(CUDA, "cuda", "CUDA")                                                                                  \
    X(DRIVER, "driver", "the driver")                                                                        \
    X(RAY, "ray", "Ray")                                                                                     \
    X(LINUX, "linux", "Linux")                                                                               \
    X(WINDOWS, "windows", "Windows")                                                                         \
    X(KUBERNETES, "kubernetes", "Kubernetes")                                                                \
    X(DOCKER, "docker", "Docker")                                                                            \
    X(SLURM, "slurm", "Slurm")                                                                               \
    X(NUMPY, "numpy", "NumPy")

/* What a lever costs, cheapest first: the order in which levers are offered. */
#define VR_COSTS(X)                                                                                          \
    X(NONE, "none", NULL)                                                                                    \
    X(SLOWER, "slower", "slower")                                                                            \
    X(LESS, "less", "less context, or fewer at once")                                                        \
    X(QUALITY, "quality", "quality may change")                                                              \
    X(MUCH_SLOWER, "much_slower", "much slower")                                                             \
    X(HARDWARE, "hardware", "more hardware")

/* In what the command of a lever is written, so that tests can hold it against that language. */
#define VR_LANGUAGES(X)                                                                                      \
    X(SHELL, "shell")             /* a command */                                                            \
    X(FLAGS, "flags")             /* to add to the program's command */                                      \
    X(ENVIRONMENT, "environment") /* NAME=VALUE in front of the program's command */                         \
    X(PYTHON, "python")                                                                                      \
    X(JSON, "json") /* members of an object, without its braces */                                           \
    X(YAML, "yaml")                                                                                          \
    X(INI, "ini")                                                                                            \
    X(JULIA, "julia")                                                                                        \
    X(CODE, "code")   /* of another language */                                                              \
    X(WORDS, "words") /* what to do, where nothing is typed */

/* What a lever may ask of a case, beside memory, phase, cause and program. Each is known to be so; what is
 * not known does not hold. */
#define VR_CIRCUMSTANCES(X)                                                                                  \
    X(WINDOWS, "windows")                     /* it runs on Windows */                                       \
    X(WSL, "wsl")                             /* on Windows' Linux */                                        \
    X(CONTAINER, "container")                 /* in a container, whichever */                                \
    X(KUBERNETES, "kubernetes")               /* in a pod */                                                 \
    X(SLURM, "slurm")                         /* in a job of Slurm */                                        \
    X(RAY, "ray")                             /* in a task or an actor of Ray */                             \
    X(MIG, "mig")                             /* on a slice of a card */                                     \
    X(APPLE, "apple")                         /* Metal: MPS, MLX */                                          \
    X(INTEL, "intel")                         /* XPU, SYCL */                                                \
    X(AMD, "amd")                             /* HIP */                                                      \
    X(VULKAN, "vulkan")                       /* Vulkan */                                                   \
    X(TPU, "tpu")                             /* a TPU */                                                    \
    X(CPU_ONLY, "cpu_only")                   /* the failing tensor was to lie in the computer's memory */   \
    X(ONE_CARD, "one_card")                   /* one card alone was used */                                  \
    X(SEVERAL_CARDS, "several_cards")         /* more than one card was used */                              \
    X(SHARED_CARD, "shared_card")             /* another program holds a part of the card that matters */    \
    X(LISTED, "listed")                       /* the message has the number of that program */               \
    X(REQUEST_OVER_CARD, "request_over_card") /* one request is larger than the card */                      \
    X(CONTRADICTION, "contradiction")         /* as much was free as was asked for */                        \
    X(PACKABLE, "packable")                   /* the idle part is 8 % of the card or more and would do */    \
    X(PIECES, "pieces") /* idle in pieces, 2 to 8 % of the card, is what the cause was found to be */        \
    X(EXPANDABLE, "expandable")             /* expandable_segments is on already */                          \
    X(SELF_LIMIT, "self_limit")             /* the program's own limit refused */                            \
    X(SINGLE_LIMIT, "single_limit")         /* a limit on one allocation refused */                          \
    X(FP32, "fp32")                         /* weights in fp32 that need not be */                           \
    X(LOGITS, "logits")                     /* logits or the loss */                                         \
    X(ATTENTION, "attention")               /* a whole matrix of attention scores */                         \
    X(VAE, "vae")                           /* decoding or encoding pictures */                              \
    X(GRAPHS, "graphs")                     /* CUDA graphs */                                                \
    X(NCCL, "nccl")                         /* the request came from NCCL */                                 \
    X(ASYNC_ALLOCATOR, "async_allocator")   /* cudaMallocAsync, not PyTorch's own allocator */               \
    X(GROWTH, "growth")                     /* it grew from step to step */                                  \
    X(EVAL_GROWTH, "eval_growth")           /* results of an evaluation pile up */                           \
    X(GATHER, "gather")                     /* a sharded model was put together */                           \
    X(FOREACH, "foreach")                   /* temporaries of a foreach optimizer */                         \
    X(QUANTISING, "quantising")             /* while weights were being quantised */                         \
    X(PINNED, "pinned")                     /* page-locked memory of the computer */                         \
    X(OFFLOADED, "offloaded")               /* parts of the model are on the computer's side */              \
    X(COMPUTE_BUFFER, "compute_buffer")     /* ggml's buffer for a pass */                                   \
    X(PIPELINE_COPIES, "pipeline_copies")   /* ggml's copies for a pipeline over cards */                    \
    X(HOST_LIMITED, "host_limited")         /* the limit of a container or job, not the machine's memory */  \
    X(WORKERS, "workers")                   /* a DataLoader's worker */                                      \
    X(NO_ROOM, "no_room")                   /* an engine has nothing left for its cache */                   \
    X(REFUSED, "refused")                   /* an engine refused by its own sum */                           \
    X(BARE, "bare")                         /* no figures at all */                                          \
    X(TRAINS, "trains")                     /* it is training, for certain */                                \
    X(GENERATES, "generates")               /* it is inference, for certain */                               \
    X(COMPILES, "compiles")                 /* a compiler runs */                                            \
    X(NOTEBOOK, "notebook")                 /* Colab, Kaggle: a machine of others */                         \
    X(LM_STUDIO, "lm_studio")               /* LM Studio, which has no command line of llama.cpp */          \
    X(MERGES, "merges")                     /* adapters are merged into the weights */                       \
    X(ONLY_CARD, "only_card")               /* the machine has one card */                                   \
    X(ARGUMENTS, "arguments")               /* the script reads the Trainer's options */                     \
    X(UNSLOTH, "unsloth")                   /* Unsloth trains */                                             \
    X(DEEPSPEED, "deepspeed")               /* DeepSpeed divides or moves states already */                  \
    X(GENERATES_CALL, "generates_call")     /* in generate(), which keeps nothing */                         \
    X(POOL_SHORT, "pool_short")             /* a pool's rest is less than was asked for */                   \
    X(GRAPHS_LITTLE, "graphs_little")       /* graphs hold less than lacks */                                \
    X(HALF_TOO_LARGE, "half_too_large")     /* in 16 bits the weights have more than the card */             \
    X(TRANSFORMERS_OLD, "transformers_old") /* before 4.56, by the log */                                    \
    X(TORCH_NEW, "torch_new")               /* from 2.10, by the log */                                      \
    X(SGLANG_OLD, "sglang_old")             /* before the names of 2026, by the log */

/* What a text of data/error_texts.tsv or a sign of data/log_signs.tsv is. */
#define VR_TEXT_KINDS(X)                                                                                     \
    X(FATAL, "fatal")         /* a request or the process ended for want of memory */                        \
    X(GENERIC, "generic")     /* the same, but says so little that a FATAL near it is the same event */      \
    X(REFUSAL, "refusal")     /* an engine refused by its own arithmetic, before anything was asked for */   \
    X(LOOKALIKE, "lookalike") /* reads like a shortage and is none, or is none of GPU memory's capacity */   \
    X(WARNING, "warning")     /* it went on */                                                               \
    X(CONSEQUENCE, "consequence") /* of a failure before it: aborts, exit codes, "engine died" */            \
    X(INFO, "info")               /* figures on the way; their template's facts belong to the log */         \
    X(FRAME, "frame")             /* a frame of a traceback: counts for the event beside it */               \
    X(STEP, "step")               /* what was being done from here on, until the next step */                \
    X(PROGRAM, "program")         /* shows which program or version runs */                                  \
    X(PLATFORM, "platform") /* where it runs: WSL, Windows, a container, MIG; the row's id says which */     \
    X(OPTION, "option")     /* a setting seen in the log; the row's id says which */

#endif
