# SPDX-License-Identifier: MIT
# The screen of the README: a load that died, with the model beside it, on a terminal of 80 columns.
cat > run.txt <<'END'
Traceback (most recent call last):
  File "run.py", line 9, in <module>
    model = AutoModelForCausalLM.from_pretrained(NAME, torch_dtype="auto").to("cuda")
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 11.63 GiB of which 30.88 MiB is free. Including non-PyTorch memory, this process has 11.54 GiB memory in use. Of the allocated memory 11.34 GiB is allocated by PyTorch, and 105.47 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)
END
COLUMNS=80 vram explain --model example:qwen2.5-7b --color always < run.txt | sed 's/\x1b\[[0-9;]*m//g'
