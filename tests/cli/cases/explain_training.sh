# SPDX-License-Identifier: MIT
# The first step of the optimizer, eight ranks: one cause, the others follow.
cat > train.log <<'END'
trainable params: 3,212,749,824 || all params: 3,212,749,824 || trainable%: 100.0
  0%|          | 0/1200 [00:00<?, ?it/s]
[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/site-packages/transformers/trainer.py", line 2245, in train
[rank0]:   File "/opt/site-packages/torch/optim/adamw.py", line 210, in step
[rank0]:     has_complex = self._init_group(
[rank0]:   File "/opt/site-packages/torch/optim/adamw.py", line 148, in _init_group
[rank0]:     state["exp_avg"] = torch.zeros_like(
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 752.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 311.44 MiB is free. Including non-PyTorch memory, this process has 23.20 GiB memory in use. Of the allocated memory 22.41 GiB is allocated by PyTorch, and 189.12 MiB is reserved by PyTorch but unallocated.
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 752.00 MiB. GPU 1 has a total capacity of 23.52 GiB of which 309.44 MiB is free. Including non-PyTorch memory, this process has 23.20 GiB memory in use. Of the allocated memory 22.41 GiB is allocated by PyTorch, and 191.12 MiB is reserved by PyTorch but unallocated.
E0304 09:20:01.100000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 311) of binary: /usr/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
END
vram explain train.log
COLUMNS=80 vram explain train.log --color always
