#!/bin/sh
# Finds the paragraphs in a folder's text files whose meaning is closest to a question, the best first:
# a grep for meaning. Needs python3 with NumPy, and a model that was trained for embeddings.
#
#     meaning.sh MOUNT/MODEL FOLDER QUESTION [HOW-MANY]
#
# The vectors are kept in FOLDER/.meaning.npz, and only files that changed are read again. Each
# paragraph goes to MODEL/embed.npy, all of a run at once.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 MOUNT/MODEL FOLDER QUESTION [HOW-MANY]" >&2; exit 2; }
python3 -c 'import numpy' 2>/dev/null || { echo "$0 needs python3 with NumPy (in Debian: python3-numpy)" >&2; exit 1; }
exec python3 - "$@" <<'PY'
import os, re, sys
import numpy as np

model, folder, question = sys.argv[1:4]
most = int(sys.argv[4]) if len(sys.argv) > 4 else 5
index = os.path.join(folder, ".meaning.npz")


def embed(texts):  # [n, size], each of length 1
    if not texts:
        return None
    with open(f"{model}/embed.npy", "r+b", buffering=0) as f:
        for i in range(0, len(data := b"".join(t.encode() + b"\0" for t in texts)), 1 << 16):
            f.write(data[i:i + (1 << 16)])
        parts = []
        while part := f.read(1 << 20):
            parts.append(part)
    whole = b"".join(parts)
    head = 10 + int.from_bytes(whole[8:10], "little")
    v = np.frombuffer(whole[head:], np.float32).reshape(len(texts), -1)
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-30)


def who():  # vectors of different models cannot be compared
    return "; ".join(open(f"{model}/info/{f}").read().strip() for f in ("source", "recipe", "embedding"))


def paragraphs(path):  # (line, text)
    try:
        text = open(path, encoding="utf-8").read()
    except (UnicodeDecodeError, OSError):
        return
    for m in re.finditer(r"(?:^.*\S.*\n?)+", text, re.M):
        yield text.count("\n", 0, m.start()) + 1, m[0].strip()[:2000].replace("\0", " ")


old = {}  # file -> (time, lines, texts, vectors)
if os.path.exists(index):
    with np.load(index, allow_pickle=False) as z:
        if str(z["model"]) != who():
            print(f"{index} was made by another model ({z['model']}); it is made again", file=sys.stderr)
        else:
            for i, name in enumerate(z["files"]):
                part = slice(z["begin"][i], z["begin"][i + 1])
                old[str(name)] = (int(z["times"][i]), z["lines"][part], z["texts"][part], z["vectors"][part])

new, todo = {}, []
for at, folders, names in os.walk(folder):
    folders[:] = sorted(f for f in folders if not f.startswith("."))
    for name in sorted(n for n in names if not n.startswith(".")):
        path = os.path.join(at, name)
        time = os.stat(path).st_mtime_ns
        if path in old and old[path][0] == time:
            new[path] = old[path]
        elif found := list(paragraphs(path)):
            new[path] = (time, np.array([l for l, _ in found]), np.array([t for _, t in found]), None)
            todo.append(path)
vectors = embed([str(t) for p in todo for t in new[p][2]])
at = 0
for p in todo:
    n = len(new[p][1])
    new[p] = new[p][:3] + (vectors[at:at + n],)
    at += n
if not new:
    sys.exit(f"{folder} has no text")
files = list(new)
lines, texts, all_vectors = (np.concatenate([new[f][k] for f in files]) for k in (1, 2, 3))
if todo or set(old) != set(new):
    partial = index + ".partial.npz"
    np.savez(partial, model=who(), files=files, times=[new[f][0] for f in files], lines=lines, texts=texts, vectors=all_vectors,
             begin=np.cumsum([0] + [len(new[f][1]) for f in files]))
    os.replace(partial, index)
print(f"{len(todo)} of {len(files)} files read", file=sys.stderr)
owner = np.repeat(np.arange(len(files)), [len(new[f][1]) for f in files])
near = all_vectors @ embed([question])[0]
for i in np.argsort(-near, kind="stable")[:most]:
    print(f"{near[i]:.3f}\t{files[owner[i]]}:{lines[i]}\t{str(texts[i]).splitlines()[0][:100]}")
PY
