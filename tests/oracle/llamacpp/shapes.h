/* SPDX-License-Identifier: MIT
 * A model of metadata alone. */
#ifndef SHAPES_H
#define SHAPES_H

// Prints, as one line of JSON, the tensors that llama.cpp asks for when a file with only these metadata keys
// is made into a model, the types that llama-quantize would give them, and the keys that were read. Returns
// an exit status.
int print_shapes(const char *keys_file, int file_type);

#endif
