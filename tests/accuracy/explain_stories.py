#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whole logs of our own in which a failure has consequences, or more than one thing happened: which comes first in the answer.

    explain_stories.py VRAM [-v]

Each story names the memory, the causes that are right, and words that stand in the line of the first diagnosis; where a second failure
follows from nothing before it, that one has to be listed as well. The exit status is 1 where one is told otherwise."""
import argparse
import collections
import json
import sys

import explaining

# first: words in the line that the first diagnosis names; causes: the right ones; also: texts in lines of further diagnoses;
# never: words in lines of none, for those lines are consequences
Story = collections.namedtuple("Story", "name text memory causes first also never")

OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {r} MiB. GPU {g} has a total capacity of 39.49 GiB of which 81.31 MiB is free. "
       "Including non-PyTorch memory, this process has 39.40 GiB memory in use. Of the allocated memory 38.11 GiB is allocated by PyTorch, and 512.20 MiB is reserved "
       "by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
       "fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)\n")
BACKWARD = ('Traceback (most recent call last):\n  File "/srv/job/train.py", line 88, in <module>\n    loss.backward()\n'
            '  File "/srv/env/lib/python3.12/site-packages/torch/_tensor.py", line 648, in backward\n    torch.autograd.backward(\n'
            '  File "/srv/env/lib/python3.12/site-packages/torch/autograd/graph.py", line 829, in _engine_run_backward\n'
            '    return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass\n')
STEP = ('Traceback (most recent call last):\n  File "/srv/job/train.py", line 91, in <module>\n    optimizer.step()\n'
        '  File "/srv/env/lib/python3.12/site-packages/torch/optim/adamw.py", line 232, in step\n    has_complex = self._init_group(\n'
        '  File "/srv/env/lib/python3.12/site-packages/torch/optim/adamw.py", line 171, in _init_group\n    state["exp_avg_sq"] = torch.zeros_like(\n')
LOAD = ('Loading checkpoint shards:  33%|###3      | 1/3 [00:04<00:08,  4.2s/it]\nTraceback (most recent call last):\n  File "/srv/job/chat.py", line 9, in <module>\n'
        '    model = AutoModelForCausalLM.from_pretrained(name, device_map="cuda")\n'
        '  File "/srv/env/lib/python3.12/site-packages/transformers/modeling_utils.py", line 4211, in from_pretrained\n    ) = cls._load_pretrained_model(\n'
        '  File "/srv/env/lib/python3.12/site-packages/transformers/modeling_utils.py", line 772, in _load_state_dict_into_meta_model\n'
        '    set_module_tensor_to_device(model, name, device, value=param)\n')
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
ABORTS = ("[rank1]:[E311 09:12:44.731 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE) ran for "
          "600041 milliseconds before timing out.\n"
          "W0311 09:12:45.101000 771 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 782 closing signal SIGTERM\n"
          "E0311 09:12:46.002000 771 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 781) of binary: /usr/bin/python3\n"
          "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n============================================================\ntrain.py FAILED\n")


def every(prefix, text):
    return "".join(prefix + line for line in text.splitlines(True))


STORIES = (
    Story("one rank of two, and what follows in the other", every("[rank0]: ", BACKWARD + OOM.format(r="256.00", g=0)) + ABORTS, "gpu", "activations",
          "Tried to allocate", (), ("SIGTERM", "ChildFailedError", "timing out")),
    Story("the consequence of another rank is printed first", "[rank1]: RuntimeError: NCCL communicator was aborted on rank 1.\n" +
          every("[rank0]: ", STEP + OOM.format(r="172.00", g=0)) + ABORTS, "gpu", "optimizer_states", "Tried to allocate", (), ("SIGTERM",)),
    Story("four ranks die alike", "".join(every(f"[rank{i}]: ", BACKWARD + OOM.format(r="256.00", g=i)) for i in range(4)) + ABORTS, "gpu", "activations",
          "[rank0]", (), ("SIGTERM",)),
    Story("a library says in its own words that it cannot load", LOAD + OOM.format(r="112.00", g=0) + HANDLING +
          "OSError: Can't load the model for 'lab/chat-13b'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory "
          "with the same name.\n", "gpu", "weights", "Tried to allocate", (), ()),
    Story("an exception that was raised from another", STEP + OOM.format(r="172.00", g=0) + DIRECT + "RuntimeError: training step 1 failed\n", "gpu",
          "optimizer_states", "Tried to allocate", (), ()),
    Story("a server's engine dies, and its front end after it",
          every("(EngineCore_DP0 pid=412) ERROR 03-11 09:12:44 [core.py:708] ",
                "EngineCore failed to start.\nTraceback (most recent call last):\n  File \"/srv/env/lib/python3.12/site-packages/vllm/v1/engine/core.py\", line 699, in run_engine_core\n"
                "  File \"/srv/env/lib/python3.12/site-packages/vllm/v1/core/kv_cache_utils.py\", line 721, in check_enough_kv_cache_memory\n"
                "ValueError: To serve at least one request with the models's max seq len (65536), (9.00 GiB KV cache is needed, which is larger than the available KV cache "
                "memory (3.41 GiB). Based on the available memory, the estimated maximum model length is 24832. Try increasing `gpu_memory_utilization` or decreasing "
                "`max_model_len` when initializing the engine.\n") +
          "(APIServer pid=377) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}\n",
          "gpu", "kv_cache", "To serve at least", (), ("Engine core initialization failed",)),
    Story("a pod dies of its card and is not killed", every("2026-03-11T09:12:44.101Z stderr F ", BACKWARD + OOM.format(r="256.00", g=0)) +
          "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    1\n", "gpu", "activations", "Tried to allocate", (), ()),
    Story("killed by the system, and said so by everyone", "[5512.100231] Memory cgroup out of memory: Killed process 911 (python) total-vm:41231004kB, "
          "anon-rss:33120532kB, file-rss:1680kB, shmem-rss:0kB, UID:0 pgtables:71072kB oom_score_adj:936\nKilled\ntrainer-1 exited with code 137\n",
          "host", "host_ram", "Memory cgroup", (), ()),
    Story("caught and tried again, then killed hours later", OOM.format(r="256.00", g=0) + "WARNING trainer: out of memory on the card, retrying the batch with half its size\n" +
          "".join(f"step {n}: loss 1.9{n % 10}\n" for n in range(400)) + "run.sh: line 3: 7012 Killed                  python3 train.py\n",
          None, "activations host_ram runtime_overhead weights unknown", "", ("Killed",), ()),
    Story("a worker of the loader is killed, the trainer complains", "RuntimeError: DataLoader worker (pid 9120) is killed by signal: Killed. \n" + DIRECT +
          "Traceback (most recent call last):\n  File \"train.py\", line 70, in <module>\nRuntimeError: DataLoader worker (pid(s) 9120) exited unexpectedly\n", "host",
          "host_ram", "killed by signal", (), ()),
    Story("a card falls off, then everything fails", "[812.338112] NVRM: Xid (PCI:0000:41:00): 79, pid=2211, name=python3, GPU has fallen off the bus.\n"
          "RuntimeError: CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
          "incorrect.\n" + ABORTS, "none", "driver_or_hardware", "Xid", (), ()),
    Story("an index out of range, then a handle that cannot be made", "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1515: indexSelectLargeIndex: block: [4,0,0], thread: [32,0,0] "
          "Assertion `srcIndex < srcSelectDimSize` failed.\n" * 3 +
          "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n", "none", "not_capacity driver_or_hardware", "", (), ()),
    Story("Triton's kernels, not the card", every("(EngineCore_DP0 pid=412) ERROR 03-11 09:12:44 [core.py:708] ",
          "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.\n") +
          "(APIServer pid=377) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n", "none", "not_capacity",
          "Required: 147456", (), ("Engine core initialization failed",)),
    Story("two failures of two runs in one file", LOAD + OOM.format(r="112.00", g=0) + "$ python3 chat.py --load-in-4bit\n" +
          "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 77309411328 bytes. "
          "Error code 12 (Cannot allocate memory)\n", "gpu", "weights", "Tried to allocate 112.00", ("DefaultCPUAllocator",), ()),
    Story("llama.cpp: the cause is one line, the rest is its echo", "llama_kv_cache_unified:      CUDA0 KV buffer size =  2048.00 MiB\n"
          "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 6412.50 MiB on device 0: cudaMalloc failed: out of memory\n"
          "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 6723993600\nllama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers\n"
          "common_init_from_params: failed to create context with model 'm.gguf'\nmain: error: unable to load model\n", "gpu", "activations runtime_overhead", "", (),
          ("unable to load model", "failed to create context")),
    Story("a warning that is none, then a good start", "WARNING 03-11 09:12:40 [config.py:88] gpu_memory_utilization is 0.95\n"
          "E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory\nApplication startup complete.\n", "nothing", "none unknown",
          "", (), ()),
)


def line_of(story, diagnosis):
    lines, n = story.text.split("\n"), diagnosis.get("line")
    return lines[n - 1] if n else ""


def wrong(story, answer):
    if not answer.all:
        return [] if story.memory == "nothing" else ["nothing recognised"]
    found = []
    if story.memory and answer.memory != story.memory:
        found.append(f"memory {answer.memory}, {story.memory} expected")
    if answer.cause not in story.causes.split():
        found.append(f"cause {answer.cause}, {story.causes} expected")
    cited = [line_of(story, d) for d in answer.all]
    if story.first not in cited[0]:
        found.append(f"first is \"{cited[0][:80]}\"")
    found += [f"\"{words}\" is not listed" for words in story.also if not any(words in line for line in cited)]
    found += [f"\"{words}\" is listed, a consequence" for words in story.never if any(words in line for line in cited)]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vram")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    bad = 0
    for story in STORIES:
        try:
            answer = explaining.ask(args.vram, story.text)
            found = wrong(story, answer)
        except explaining.Failed as e:
            answer, found = None, [str(e)]
        bad += bool(found)
        if found:
            print(f"{story.name}: " + "; ".join(found))
        if args.v and answer:
            print(json.dumps([{k: d[k] for k in ("memory", "phase", "cause", "certainty", "text", "line")} for d in answer.all], indent=2))
    print(f"{len(STORIES)} stories, {bad} told otherwise")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
