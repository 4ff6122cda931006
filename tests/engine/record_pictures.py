#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write what the processors of transformers make of pictures: kind, width, height, columns, rows, features, tokens.

    record_pictures.py > tests/engine/pictures.tsv       (run with an environment of tests/oracle/run.sh)

Of each kind the sizes below and random ones. The limits are those of src/model/pictures.c, and not tested by this.
"""
import random

import numpy
from transformers.models.pixtral.image_processing_pil_pixtral import get_resize_output_image_size
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

QWEN = {"qwen2_5_vl": (14, 4 * 28 * 28, 16384 * 28 * 28), "qwen3_vl": (16, 256 * 256, 4096 * 4096)}
PIXTRAL = {"pixtral": (16, 1, 1024), "mistral3": (14, 2, 1540)}
SIZES = [(1, 1), (1, 200), (27, 28), (42, 70), (55, 57), (224, 224), (336, 336), (448, 448), (640, 480), (896, 896),
         (1024, 1024), (1024, 768), (1000, 1000), (1920, 1080), (3584, 3584), (3585, 3584), (4096, 4096), (4097, 4096),
         (8000, 8000), (7168, 3584), (65536, 65536), (65536, 400), (328, 65536)]


def main():
    random.seed(1)
    sizes = SIZES + [(random.randint(10, 9000), random.randint(100, 2000)) for _ in range(150)]
    print("# SPDX-License-Identifier: MIT")
    print("# Recorded by record_pictures.py: kind, width, height, columns, rows, features, tokens")
    for width, height in sizes:
        for kind, (patch, least, most) in QWEN.items():
            if max(width, height) / min(width, height) > 200:
                continue
            h, w = smart_resize(height, width, 2 * patch, least, most)
            print(kind, width, height, w // patch, h // patch, w * h // patch**2 // 4, w * h // patch**2 // 4, sep="\t")
        for kind, (patch, merge, longest) in PIXTRAL.items():
            side = patch * merge
            if max(width, height) > 20000:
                continue
            picture = numpy.broadcast_to(numpy.uint8(0), (3, height, width))
            try:
                h, w = get_resize_output_image_size(picture, longest, side)
            except ValueError:  # it cannot tell where the channels are
                continue
            rows, columns = h // side, w // side
            print(kind, width, height, w // patch, h // patch, rows * columns, (columns + 1) * rows, sep="\t")


main()
