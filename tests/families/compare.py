#!/usr/bin/env python3
"""compare.py FIXTURE SAFETENSORS GGUF FILE [OTHER]: log-probabilities of the fixture's prompt, three ways.

SAFETENSORS and GGUF are what `score` of the two mounted models printed; FILE is the GGUF file, for llama.cpp. Prints
the largest difference of each from the golden numbers. Fails if moefs is off by more than 2e-4; llama.cpp is only
reported, with who is right where it differs: the golden numbers are the published implementation's.
OTHER: what `score` printed of the checkpoint with what the file cannot say left out; the file is compared with that."""
import contextlib
import json
import os
import sys

import numpy as np

BOUND = 2e-4  # `score` prints four decimals of numbers below 100


def tensors(path):
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + size])
    kinds = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}
    return {k: np.frombuffer(raw[8 + size:][slice(*v["data_offsets"])], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in head.items() if k != "__metadata__"}


def log_probabilities(logits, ids):
    x = logits.astype(np.float64)[:-1]
    most = x.max(-1)
    sums = most + np.log(np.exp(x - most[:, None]).sum(-1))
    return x[np.arange(len(ids) - 1), ids[1:]] - sums


def scored(path):
    with open(path) as f:
        lines = [line.split(" ", 2) for line in f if line[0].isdigit()]
    return np.array([float(line[1]) for line in lines[1:]])  # nothing comes before the first token


def of_llama(path, ids):
    import llama_cpp

    @llama_cpp.llama_log_callback
    def only_errors(level, text, data):
        """It would print a page for each file."""
        if level == 4:  # GGML_LOG_LEVEL_ERROR
            os.write(2, text)

    llama_cpp.llama_log_set(only_errors, None)
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        llama = llama_cpp.Llama(path, n_ctx=512, n_batch=512, logits_all=True, n_threads=1, verbose=True,
                                type_k=0, type_v=0)  # keys and values in F32
        llama.eval([int(i) for i in ids])
    return log_probabilities(np.array(llama.scores[:len(ids)]), ids)


def of_llama_apart(path, ids):
    """In a process of its own: of what it cannot compute it says so in many ways, and ends at times."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.environ["GGML_NO_BACKTRACE"] = "1"
        os.dup2(theirs, 2)
        try:
            np.save(path + ".npy", of_llama(path, ids))
            os._exit(0)
        except Exception as why:
            os.write(2, f"\n{why}\n".encode())
            os._exit(1)
    os.close(theirs)
    with os.fdopen(ours, errors="replace") as f:
        said = [line.strip() for line in f if line.strip()]
    if os.waitpid(child, 0)[1]:
        told = [line for line in said if "ASSERT" in line or "error" in line]
        return (told or said or ["it ended"])[0], None
    return "", np.load(path + ".npy")


def main():
    fixture, first, second, file = sys.argv[1:5]
    golden = tensors(os.path.join(fixture, "golden.safetensors"))
    ids = golden["input_ids"]
    want = log_probabilities(golden["logits"], ids)
    failed = False
    for name, path in ("safetensors", first), ("GGUF", second):
        got = scored(path)
        if len(got) != len(want):
            raise SystemExit(f"{name}: {len(got)} log-probabilities, but the prompt has {len(want)}")
        other = name == "GGUF" and sys.argv[5:]
        off = abs(got - (scored(other[0]) if other else want)).max()
        failed |= not off <= BOUND
        print(f"# moefs, {name}: off by at most {off:.1e}" + (" from the checkpoint as the file says it" if other else ""))
    sys.stdout.flush()
    told, of_it = of_llama_apart(file, ids)
    if of_it is None:
        print(f"# llama.cpp: {told}")
    else:
        off = abs(of_it - want).max()
        print(f"# llama.cpp: off by at most {off:.1e}" + ("" if off < 1e-3 else "; moefs has the golden numbers"))
    sys.exit(failed)


main()
