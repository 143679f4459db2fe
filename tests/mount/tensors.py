"""NumPy files of a mount against a checkpoint's file, without NumPy (and with it, where it is installed).

tensors.py names FILE                   the tensors' names, one a line
tensors.py name FILE                    adds tensors whose names have everything in them
tensors.py named FOLDER                 holds the files of these to what they should be called
tensors.py sizes FOLDER FILE            sizes are known by stat alone
tensors.py compare FOLDER FILE MOST     the same numbers, or off by a share of MOST of their power
tensors.py random FILE                  reads and maps it anywhere
tensors.py load FOLDER                  numpy.load, where there is one
"""
import array
import ast
import json
import mmap
import os
import random
import struct
import sys


def safetensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(n))
        data = f.read()
    head.pop("__metadata__", None)
    return head, data


def floats(dtype, data):
    if dtype == "BF16":
        half = array.array("H", data)
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        assert len(wide) == 4 * len(half)
        return array.array("f", bytes(wide))
    if dtype == "F16":
        return array.array("f", struct.unpack("<%de" % (len(data) // 2), data))
    assert dtype == "F32", dtype
    return array.array("f", data)


def npy(data):
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (n,) = struct.unpack("<H", data[8:10])
    assert (10 + n) % 64 == 0 and data[9 + n : 10 + n] == b"\n"
    head = ast.literal_eval(data[10 : 10 + n].decode())
    assert head["descr"] == "<f4" and head["fortran_order"] is False and len(head) == 3
    return head["shape"], array.array("f", data[10 + n :])


def read(path):
    with open(path, "rb") as f:
        return f.read()


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def names(path):
    print("\n".join(safetensors(path)[0]))


LONG = "model.visual." + "long/" * 95
NAMES = {
    "model.visual.a/b": "model.visual.a%2Fb",
    "model.visual./../..": "model.visual.%2F..%2F..",
    "model.visual.100%": "model.visual.100%25",
    "model.visual.two\nlines\x01": "model.visual.two%0Alines%01",
    'model.visual.\\ "quoted" $(reboot) *': 'model.visual.\\ "quoted" $(reboot) *',
    "model.visual.größer 数": "model.visual.größer 数",
    LONG + "1": None,
    LONG + "2": None,
    "model.visual.scalar": "model.visual.scalar",
}


def name(path):
    head, data = safetensors(path)
    for i, new in enumerate(NAMES):
        shape = [] if new.endswith("scalar") else [3]
        numbers = array.array("f", [i + k / 4 for k in range(count(shape))]).tobytes()
        head[new] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def named(folder):
    files = os.listdir(folder)
    for i, (new, file) in enumerate(NAMES.items()):
        if file is None:
            begin = LONG.replace("/", "%2F")
            cut = [f for f in files if "~" in f]
            assert len(cut) == 2, cut
            for f in cut:
                assert len(f.encode()) <= 255 and begin.startswith(f.split("~")[0]), f
                shape, numbers = npy(read(os.path.join(folder, f)))
                assert shape == (3,) and numbers[0] in (6, 7), numbers
            continue
        shape, numbers = npy(read(os.path.join(folder, file + ".npy")))
        assert shape == (() if new.endswith("scalar") else (3,)), (new, shape)
        assert list(numbers) == [i + k / 4 for k in range(len(numbers))] and len(numbers) == count(shape), new


def sizes(folder, path):
    for tensor, t in safetensors(path)[0].items():
        size = os.stat(os.path.join(folder, tensor + ".npy")).st_size
        head = size - 4 * count(t["shape"])
        assert head % 64 == 0 and 64 <= head <= 256, (tensor, size)


def compare(folder, path, most):
    head, data = safetensors(path)
    assert len(os.listdir(folder)) == len(head)
    others = 0
    for tensor, t in head.items():
        want = floats(t["dtype"], data[slice(*t["data_offsets"])])
        shape, numbers = npy(read(os.path.join(folder, tensor + ".npy")))
        assert list(shape) == t["shape"] and len(numbers) == len(want), tensor
        if numbers == want:
            continue
        others += 1
        some = list(zip(numbers[:3000], want[:3000]))
        error = sum((x - y) ** 2 for x, y in some) / sum(y * y for x, y in some)
        assert error <= float(most), (tensor, error)
        assert "_proj" in tensor or "lm_head" in tensor, tensor
    assert (others > 0) == (float(most) > 0), others


def random_reads(path):
    whole = read(path)
    assert len(whole) == os.stat(path).st_size
    dice = random.Random(1)
    with open(path, "rb", buffering=0) as f, mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        assert mapped[-5:] == whole[-5:]
        for _ in range(200):
            at, n = dice.randrange(len(whole) + 100), dice.randrange(1, 70000)
            assert os.pread(f.fileno(), n, at) == whole[at : at + n], (at, n)
            assert mapped[at : at + n] == whole[at : at + n], (at, n)
        f.seek(len(whole) + 1)
        assert f.read(10) == b""


def load(folder):
    try:
        import numpy
    except ImportError:
        return
    for file in os.listdir(folder):
        path = os.path.join(folder, file)
        mapped = numpy.load(path, mmap_mode="r")
        assert mapped.dtype == numpy.float32
        assert (mapped == numpy.load(path)).all(), file


if __name__ == "__main__":
    what = {f.__name__: f for f in (names, name, named, sizes, compare, load)}
    what["random"] = random_reads
    what[sys.argv[1]](*sys.argv[2:])
