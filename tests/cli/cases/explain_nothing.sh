# SPDX-License-Identifier: MIT
# What is no error, what is no text, what is nothing at all: each a clear word, and exit status 1.
printf 'epoch 1 loss 0.5\nepoch 2 loss 0.4\n' | vram explain
vram explain </dev/null
head -c 3000 /dev/zero | vram explain
vram explain --symptom "my cat is hungry"
vram explain "the weather is nice"
vram explain "Tried to allocate 99999999999 GiB"
