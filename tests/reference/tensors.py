"""Files in the safetensors format: eight bytes with the header's length, the header in JSON, the data."""
import json
import os
import struct
import subprocess
import tempfile

import numpy as np

DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I32": np.int32, "U32": np.uint32, "U8": np.uint8,
    "BF16": np.uint16, "F8_E4M3": np.uint8,  # NumPy has neither: their bits, which encodings.py decodes
}
WRITTEN = {"float32": "F32", "int32": "I32"}


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read_bytes(path):
    """A file's bytes. The fixtures' large files lie there compressed, by zstd (.zst) or build/pack (.packed)."""
    if os.path.exists(path):
        with open(path, "rb") as f:
            return f.read()
    if os.path.exists(path + ".zst"):
        return subprocess.run(["zstd", "-dcq", path + ".zst"], check=True, stdout=subprocess.PIPE).stdout
    with tempfile.TemporaryDirectory() as folder:
        whole = os.path.join(folder, "whole")
        subprocess.run([os.path.join(ROOT, "build/pack"), "-d", path + ".packed", whole], check=True)
        return read_bytes(whole)


def read(path):
    """{name: (dtype's name, array)}; BF16 and F8_E4M3 come as the bits that they are."""
    data = read_bytes(path)
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        first, last = t["data_offsets"]
        array = np.frombuffer(data[end + first:end + last], DTYPES[t["dtype"]])
        tensors[name] = t["dtype"], array.reshape(t["shape"])
    return tensors


def write(path, tensors):
    """Writes {name: float32 or int32 array}, in the order of the names."""
    header, pieces, offset = {}, [], 0
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        piece = array.tobytes()
        header[name] = {"dtype": WRITTEN[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(piece)]}
        offset += len(piece)
        pieces.append(piece)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(pieces))
