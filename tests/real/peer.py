"""llama.cpp on the same files, through llama-cpp-python.

peer.py quantise FORM.gguf FOLDER: FOLDER/TYPE.gguf for each of TYPES, as llama.cpp makes them without an importance
matrix.
peer.py scores MODEL.gguf IDS: the log-probability of each token after those before it, one a line."""
import contextlib
import ctypes
import os
import sys

import llama_cpp
import numpy as np

TYPES = {"Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "Q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
         "Q5_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M, "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
         "IQ4_NL": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_NL, "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}
if "REAL_TYPES" in os.environ:
    TYPES = {name: TYPES[name] for name in os.environ["REAL_TYPES"].split()}
# More threads wait for each other by spinning, which is slow where others use the processors.
THREADS = int(os.environ.get("REAL_THREADS", "1"))


@llama_cpp.llama_log_callback
def silence(level, text, data):
    """It would print a page for each file."""


def quantise(source, path, kind):
    params = llama_cpp.llama_model_quantize_default_params()
    params.nthread, params.ftype = THREADS, kind
    part = path + ".part"
    if llama_cpp.llama_model_quantize(source.encode(), part.encode(), ctypes.byref(params)):
        raise SystemExit(f"llama.cpp cannot make {path}")
    os.rename(part, path)


class Model:
    """One that reads windows of up to `context` ids, each from an empty context."""

    def __init__(self, path, context):
        self.llama = llama_cpp.Llama(path, n_ctx=context, n_batch=context, logits_all=True, n_threads=THREADS,
                                     n_threads_batch=THREADS, verbose=False)

    def bits(self):
        """Of a weight; norms, which are few, included."""
        model = self.llama.model
        return 8 * llama_cpp.llama_model_size(model) / llama_cpp.llama_model_n_params(model)

    def logits(self, ids):
        self.llama.reset()
        self.llama.eval([int(i) for i in ids])
        return self.llama.scores[:len(ids)]


def normalised(logits):
    """Logits [rows, vocabulary] to logarithms of probabilities, in float32."""
    most = logits.max(-1, keepdims=True)
    sums = np.exp(logits - most).sum(-1, dtype=np.float64, keepdims=True)
    return logits - (np.log(sums) + most).astype(np.float32)


def main():
    llama_cpp.llama_log_set(silence, ctypes.c_void_p(0))
    if sys.argv[1] == "quantise":
        for name, kind in TYPES.items():
            path = f"{sys.argv[3]}/{name}.gguf"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            quantise(sys.argv[2], path, kind)
        return
    with open(sys.argv[3]) as f:
        ids = [int(word) for word in f.read().split()]
    scores = normalised(Model(sys.argv[2], len(ids)).logits(ids))
    for at, token in enumerate(ids[1:]):
        print(f"{scores[at, token]:.8f}")


if __name__ == "__main__":
    main()
