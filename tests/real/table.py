"""table.py FORM.gguf TEXT TOKENS FOLDER QUALITY.json COLUMN: what quantising loses, moefs' recipes beside the types of
llama.cpp.

The first TOKENS ids of a text, in windows of 512, each from an empty context, as `moefs-bench quality` reads them.
Exact is the model in NumPy (reference.py); FOLDER has what peer.py quantised of the form. QUALITY.json is what
`moefs-bench quality --json` said of the same text, its COLUMN-th. Fails if exact is not moefs' exact, or if `4bit` loses
more than Q4_K_M with no more than 6.2 bits."""
import ctypes
import json
import sys

import llama_cpp
import numpy as np

import gguf
import peer
import reference
import tokens

WINDOW = 512
RECIPE, MOST_BITS, BESIDE = "4bit", 6.2, "Q4_K_M"


class Sums:
    """Over tokens: of divergences from the exact model, of their squares, and of negative log-likelihoods."""

    def __init__(self):
        self.count, self.nats, self.squares, self.nll = 0, 0.0, 0.0, 0.0

    def add(self, exact, now, ids):
        nats = (np.exp(exact) * (exact - now)).sum(-1, dtype=np.float64)
        self.count += len(nats)
        self.nats += nats.sum()
        self.squares += (nats * nats).sum()
        self.nll -= now[np.arange(len(ids)), ids].sum(dtype=np.float64)

    def kl(self):
        mean = self.nats / self.count
        return mean, np.sqrt(max(self.squares / self.count - mean * mean, 0) / self.count)

    def perplexity(self):
        return np.exp(self.nll / self.count)


def measure(form, ids, folder):
    exact = reference.Llama(form, np.float32)
    models = {name: peer.Model(f"{folder}/{name}.gguf", WINDOW) for name in peer.TYPES}
    sums = {name: Sums() for name in ["exact", *models]}
    for at in range(0, len(ids) - 1, WINDOW):
        window = ids[at:at + WINDOW]
        wanted = peer.normalised(exact.logits(window)[:-1])
        sums["exact"].add(wanted, wanted, window[1:])
        for name, model in models.items():
            sums[name].add(wanted, peer.normalised(model.logits(window)[:-1]), window[1:])
    return {name: (models[name].bits() if name in models else 16, s) for name, s in sums.items()}


def main():
    form, text, count, folder, quality, column = sys.argv[1:]
    llama_cpp.llama_log_set(peer.silence, ctypes.c_void_p(0))
    tokenizer, _ = tokens.tokenizer_of(gguf.File(form))
    with open(text, encoding="utf-8") as f:
        ids = np.array(tokenizer.encode(f.read(), add_special_tokens=False).ids[:int(count)])
    with open(quality) as f:
        recipes = {row["recipe"]: row for row in json.load(f)["recipes"]}
    rows = measure(form, ids, folder)
    exact = rows["exact"][1].perplexity()
    for name, (bits, s) in rows.items():
        kl, error = s.kl()
        print(f"# llama.cpp {name}: {bits:.2f} bits, KL {1e3 * kl:.1f} ± {1e3 * error:.1f}, perplexity "
              f"{s.perplexity():.2f}, {100 * (s.perplexity() / exact - 1):+.1f} %")
    for name, row in recipes.items():
        kl, error, perplexity = (row[f"{key}_{column}"] for key in ("kl", "kl_error", "perplexity"))
        print(f"# moefs {name}: {row['stored_bits']:.2f} bits, KL {kl:.1f} ± {error:.1f}, perplexity {perplexity:.2f}, "
              f"{100 * (perplexity / exact - 1):+.1f} %")
    own = recipes["bf16"][f"perplexity_{column}"]
    if abs(own / exact - 1) > 1e-3:
        raise SystemExit(f"moefs finds a perplexity of {own}, NumPy of {exact}")
    bits, kl = recipes[RECIPE]["stored_bits"], recipes[RECIPE][f"kl_{column}"]
    beside = 1e3 * rows[BESIDE][1].kl()[0]
    if bits > MOST_BITS or kl > beside:
        raise SystemExit(f"{RECIPE} loses {kl:.1f} in {bits:.2f} bits, {BESIDE} {beside:.1f}")


main()
