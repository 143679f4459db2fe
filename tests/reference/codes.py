"""How published checkpoints store weights, each decoded to float64."""
import struct

import numpy as np


def plain(dtype, array):
    """A tensor as `tensors.read` gives it; integers stay integers."""
    if dtype == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "F8_E4M3":
        bits = array.astype(int)
        sign, exponent, mantissa = np.where(bits & 128, -1.0, 1.0), (bits >> 3) & 15, bits & 7
        normal = (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        return sign * np.where(exponent > 0, normal, mantissa / 8 * 2.0 ** -6)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def scaled_blocks(weights, scales, rows, columns):
    """FP8 with one scale for each block of rows × columns; the last blocks may be cut off."""
    spread = np.repeat(np.repeat(scales, rows, 0), columns, 1)
    return weights * spread[:weights.shape[0], :weights.shape[1]]


def mlx_4bit(words, scales, biases):
    """MLX: words [..., columns / 8] of eight 4-bit codes, the lowest first; scales and biases [..., groups]."""
    codes = (words[..., None].astype(np.uint64) >> (4 * np.arange(8, dtype=np.uint64))) & np.uint64(15)
    codes = codes.reshape(*scales.shape, -1)
    return (codes * scales[..., None] + biases[..., None]).reshape(*words.shape[:-1], -1).astype(np.float64)


# --- TQ: groups of 128 rotated, then coded by one of 2^bits levels; kernels/README.md has the format ---

GROUP = 128
# The rotation is D1 H D0: the Hadamard transform between two diagonals of signs, a bit for each place, 1 for +.
SIGNS = [np.where(np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8), bitorder="little"), 1.0, -1.0)
         for digits in ("2242d73f177cab01f6ba4affe75f6b65", "07d021a85ce6402438d201c5cbbf2514")]
# The positive half of each codebook, in float32's bits.
LEVELS = {
    3: "3cb1778c 3d88d9fa 3df345ff 3e42c596",
    4: "3c3669ec 3d09e98b 3d69b0e4 3da7f06a 3de059fc 3e10d520 3e39af1a 3e75ed5a",
}


def codebook(bits):
    """The 2^bits levels in ascending order."""
    half = [struct.unpack(">f", bytes.fromhex(level))[0] for level in LEVELS[bits].split()]
    return np.array([-level for level in half[::-1]] + half)


def hadamard(x):
    """The normalised Walsh-Hadamard transform along the last axis, whose length is a power of two."""
    n = x.shape[-1]
    flat, half = x.reshape(-1, n), 1
    while half < n:
        pairs = flat.reshape(-1, n // (2 * half), 2, half)
        flat = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(-1, n)
        half *= 2
    return flat.reshape(x.shape) / np.sqrt(n)


def tq(packed, norms, columns):
    """packed: bytes of the codes, the lowest bits first; norms [rows, groups]. Returns [rows, columns]: what fills
    the last group up is cut off. The bits follow from the bytes of a group."""
    group_bytes = packed.size // norms.size
    bits = group_bytes * 8 // GROUP
    ones = np.unpackbits(packed.reshape(-1, group_bytes), axis=1, bitorder="little").reshape(-1, GROUP, bits)
    codes = (ones * (1 << np.arange(bits))).sum(-1)
    values = hadamard(codebook(bits)[codes] * SIGNS[1]) * SIGNS[0] * norms.reshape(-1, 1).astype(np.float64)
    return values.reshape(norms.shape[0], -1)[:, :columns]
