"""forms.py QUANTISED.gguf FOLDER: what stands in for the 16-bit checkpoint that a quantised file was made of.

FOLDER/bf16.gguf has the file's numbers in BF16. They lie on a grid in each block of 32, which a recipe with blocks
could profit from. FOLDER/noise.gguf has no such grid: a uniform random part of one step, from minus a half to a half,
is added to each number. It is a worse model, but one like any other to a quantiser."""
import os
import sys

import numpy as np

import gguf

SEED = 26


def as_they_are(file):
    return {name: gguf.floats(t) for name, t in file.tensors.items() if t.type != gguf.F32}


def off_the_grid(file):
    random = np.random.default_rng(SEED)
    matrices = {}
    for name, t in file.tensors.items():
        if t.type == gguf.F32:
            continue
        codes, step, offset = gguf.blocks(t)
        codes += random.random(codes.shape, np.float32) - np.float32(0.5)
        matrices[name] = (codes * step + offset).reshape(t.shape)
    return matrices


def main():
    source, folder = sys.argv[1:]
    file = gguf.File(source)
    for name, form in (("bf16", as_they_are), ("noise", off_the_grid)):
        path = f"{folder}/{name}.gguf"
        gguf.write_bf16(path + ".part", file, form(file))
        os.rename(path + ".part", path)


main()
