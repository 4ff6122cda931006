# SPDX-License-Identifier: MIT
# The load of a 7B model that dies on a 12 GB card: without the model, and with it.
cat > load.txt <<'END'
Loading checkpoint shards:  75%|#######5  | 3/4 [00:09<00:03,  3.1s/it]
Traceback (most recent call last):
  File "/srv/app/serve.py", line 12, in <module>
    model = AutoModelForCausalLM.from_pretrained(NAME, torch_dtype="auto").to("cuda")
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 11.63 GiB of which 30.88 MiB is free. Including non-PyTorch memory, this process has 11.54 GiB memory in use. Of the allocated memory 11.34 GiB is allocated by PyTorch, and 105.47 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)
END
vram explain load.txt
COLUMNS=80 vram explain load.txt --color always --model example:qwen2.5-7b
vram explain load.txt --model example:qwen2.5-7b -v
