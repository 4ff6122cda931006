# SPDX-License-Identifier: MIT
# Words instead of a message, as --symptom and as plain operands; beside a message that leaves the cause open.
vram explain --symptom "fine for hours, then dies"
vram explain memory still full after del
COLUMNS=100 vram explain --symptom "container exited with code 137" --color always
echo "RuntimeError: CUDA error: out of memory" | vram explain - --symptom "dies at the first optimizer step" -v
