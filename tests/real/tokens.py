"""tokens.py MODEL.gguf TEXT ENCODE: the ids of a mounted model beside those of Hugging Face's tokenizers.

TEXT is a file of UTF-8, of which 2,000 lines are compared, each by itself; then each special token, alone and within a
sentence. ENCODE is the model's file tokenizer/encode. The tokenizer is built here from the GGUF file's vocabulary and
merges; SmolLM2 splits off each digit, then as GPT-2 does."""
import os
import sys

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

import gguf

LINES = 2000
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that text is searched for


def tokenizer_of(file):
    tokens = file.keys["tokenizer.ggml.tokens"]
    kinds = file.keys["tokenizer.ggml.token_type"]
    merges = [tuple(m.split(" ")) for m in file.keys["tokenizer.ggml.merges"]]
    if file.keys["tokenizer.ggml.pre"] != "smollm":
        raise SystemExit("the file's text is not split as SmolLM's is")
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    special = [t for t, kind in zip(tokens, kinds) if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tokenizer, special


def encode(path, text):
    """What the mounted model says; of an open file that is read to its end."""
    with open(path, "r+b", buffering=0) as f:
        f.write(text.encode() + b"\n")
        said = b""
        while piece := f.read(1 << 16):
            said += piece
    return [int(word) for word in said.split()]


def main():
    path, text, moefs = sys.argv[1:]
    tokenizer, special = tokenizer_of(gguf.File(path))
    with open(text, encoding="utf-8") as f:
        lines = [line for line in f.read().split("\n") if line.strip()][:LINES]
    texts = lines + special + [f"one {token}two" for token in special]
    for text in texts:
        wanted, got = tokenizer.encode(text, add_special_tokens=False).ids, encode(moefs, text)
        if wanted != got:
            raise SystemExit(f"{text!r}: {got}, but tokenizers has {wanted}")
    print(f"{len(lines)} lines and {len(special)} special tokens")


if __name__ == "__main__":
    main()
