# SPDX-License-Identifier: MIT
# Operands: files that are there, names that look like files, text; what cannot be read.
mkdir folder
printf 'x' | gzip > packed.gz
vram explain folder; echo "exit $?"
vram explain no-such-file.log; echo "exit $?"
vram explain logs/none; echo "exit $?"
vram explain packed.gz; echo "exit $?"
vram explain --gpu 24GiB "CUDA out of memory"; echo "exit $?"
vram explain --engine all --model example:qwen2.5-7b x; echo "exit $?"
vram explain --model no/such-model-here --offline "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB." >/dev/null; echo "exit $?"
