"""GGUF files of the types that the fetched model has: read, and written again with matrices in BF16."""
import dataclasses
import mmap
import struct

import numpy as np

F32, Q4_1, Q8_0, BF16 = 0, 3, 8, 30
BLOCK = 32
BLOCK_BYTES = {Q4_1: 20, Q8_0: 34}
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
ALIGNMENT = 32  # of tensors, where the metadata do not say otherwise
FILE_TYPE, MOSTLY_BF16 = "general.file_type", 32


@dataclasses.dataclass
class Tensor:
    shape: tuple  # [rows, columns], or [columns]
    type: int
    data: np.ndarray  # its bytes


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def string(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            of, count = self.take("IQ")
            return [self.value(of) for _ in range(count)]
        return self.take(NUMBERS[kind])


class File:
    """keys: {name: value}; tensors: {name: Tensor}, in the file's order; raw_keys: {name: bytes of the whole entry}."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        reader = Reader(data)
        magic, version = reader.take("4sI")
        if magic != b"GGUF" or version != 3:
            raise SystemExit(f"{path} is not a GGUF file of version 3")
        tensors, keys = reader.take("QQ")
        self.keys, self.raw_keys = {}, {}
        for _ in range(keys):
            begun = reader.at
            name = reader.string()
            self.keys[name] = reader.value(reader.take("I"))
            self.raw_keys[name] = data[begun:reader.at]
        entries = [self.entry(reader) for _ in range(tensors)]
        begun = -(-reader.at // ALIGNMENT) * ALIGNMENT
        self.tensors = {}
        for name, shape, kind, offset in entries:
            count = tensor_bytes(shape, kind)
            self.tensors[name] = Tensor(shape, kind, np.frombuffer(data, np.uint8, count, begun + offset))

    @staticmethod
    def entry(reader):
        name, dimensions = reader.string(), reader.take("I")
        shape = tuple(reader.take("Q") for _ in range(dimensions))[::-1]
        return name, shape, *reader.take("IQ")


def tensor_bytes(shape, kind):
    numbers = int(np.prod(shape))
    return numbers * {F32: 4, BF16: 2}[kind] if kind in (F32, BF16) else numbers // BLOCK * BLOCK_BYTES[kind]


def blocks(tensor):
    """(codes [blocks, 32], steps [blocks, 1], offsets [blocks, 1]) of a tensor in blocks, in float32."""
    raw = tensor.data.reshape(-1, BLOCK_BYTES[tensor.type])
    step = raw[:, :2].copy().view(np.float16).astype(np.float32)
    if tensor.type == Q8_0:
        return raw[:, 2:].copy().view(np.int8).astype(np.float32), step, np.zeros_like(step)
    nibbles = raw[:, 4:]
    codes = np.concatenate([nibbles & 15, nibbles >> 4], 1).astype(np.float32)
    return codes, step, raw[:, 2:4].copy().view(np.float16).astype(np.float32)


def floats(tensor):
    """A tensor's numbers in float32."""
    if tensor.type == F32:
        return tensor.data.copy().view(np.float32).reshape(tensor.shape)
    if tensor.type == BF16:
        return (tensor.data.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(tensor.shape)
    codes, step, offset = blocks(tensor)
    return (codes * step + offset).reshape(tensor.shape)


def bf16_bits(x):
    """float32 to BF16, to the nearest, halves to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def write(path, keys, tensors):
    """keys: entries as File.raw_keys has them; tensors: {name: Tensor}."""
    header, offset = b"", 0
    for name, t in tensors.items():
        header += string(name) + struct.pack("<I", len(t.shape))
        header += b"".join(struct.pack("<Q", n) for n in t.shape[::-1]) + struct.pack("<IQ", t.type, offset)
        offset += -(-len(t.data) // ALIGNMENT) * ALIGNMENT
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys.values()) + header
    with open(path, "wb") as f:
        f.write(header + bytes(-len(header) % ALIGNMENT))
        for t in tensors.values():
            f.write(t.data.tobytes() + bytes(-len(t.data) % ALIGNMENT))


def write_bf16(path, file, matrices):
    """The file with all its metadata, and these matrices {name: float32 array} in BF16 in place of its own."""
    keys = dict(file.raw_keys)
    keys[FILE_TYPE] = string(FILE_TYPE) + struct.pack("<II", 4, MOSTLY_BF16)
    tensors = dict(file.tensors)
    for name, x in matrices.items():
        tensors[name] = Tensor(x.shape, BF16, bf16_bits(x).reshape(-1).view(np.uint8))
    write(path, keys, tensors)
