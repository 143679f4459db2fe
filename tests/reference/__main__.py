"""A slow, exact reference of the model families, to make golden numbers with and to look inside when something is off.

usage: reference check [-b BOUND] DIR...   make each model's golden numbers anew and compare them with those beside it;
                                           fails where one is further off than BOUND (1e-6, relative)
       reference make DIR IDS LONG_IDS     write golden.safetensors and golden.json's numbers into DIR; the two files
                                           hold ids, as tokenizer/encode of a mounted model prints them
       reference next DIR ID...            the five likeliest ids after these
       reference embed DIR TEXTS           the embeddings of texts, pooled in each way: the file has their ids, a text
                                           on each line, the ids that begin and end it included; prints JSON
"""
import argparse
import json
import sys

import numpy as np

import golden
import tensors
from model import Model


def check(directories, bound):
    worst_of_all = 0.0
    for directory in directories:
        there = golden.read(directory)
        arrays = there[0]
        found = golden.differences(golden.make(Model(directory), arrays["input_ids"], arrays["long_input_ids"]), there)
        worst = max(found, key=found.get)
        print(f"{directory}: {len(found)} agree to {found[worst]:.1e} ({worst})" if found[worst] <= bound else
              f"{directory}: {worst} is {found[worst]:.1e} off, more than {bound:.0e}", flush=True)
        worst_of_all = max(worst_of_all, found[worst])
    return 0 if worst_of_all <= bound else 1


def read_ids(path):
    with open(path) as f:
        return np.array(f.read().split(), int)


def make(directory, ids, long_ids):
    arrays, facts = golden.make(Model(directory), read_ids(ids), read_ids(long_ids))
    tensors.write(f"{directory}/golden.safetensors", arrays)
    with open(f"{directory}/golden.json", "w") as f:
        json.dump(facts, f, indent=1)
    return 0


def embed(directory, texts):
    """As sentence-transformers pools: the states after the final norm, then divided by their length."""
    model = Model(directory)
    found = {"ids": [], "mean": [], "first": [], "last": []}
    with open(texts) as f:
        for line in f:
            ids = np.array(line.split(), int)
            states = model.forward(ids).normed
            found["ids"].append(ids.tolist())
            for name, vector in ("mean", states.mean(axis=0)), ("first", states[0]), ("last", states[-1]):
                found[name].append([float(f"{x:.9g}") for x in vector])
    print(json.dumps(found, separators=(",", ":")))
    return 0


def likeliest(directory, ids):
    logits = Model(directory).forward(ids).logits[-1]
    for i in np.argsort(-logits)[:5]:
        print(i, logits[i])
    return 0


def main():
    parser = argparse.ArgumentParser(prog="reference", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("check")
    verb.add_argument("-b", "--bound", type=float, default=1e-6)
    verb.add_argument("directories", nargs="+")
    verb = verbs.add_parser("make")
    for name in ("directory", "ids", "long_ids"):
        verb.add_argument(name)
    verb = verbs.add_parser("next")
    verb.add_argument("directory")
    verb.add_argument("ids", nargs="+", type=int)
    verb = verbs.add_parser("embed")
    verb.add_argument("directory")
    verb.add_argument("texts")
    arguments = vars(parser.parse_args())
    return {"check": check, "make": make, "next": likeliest, "embed": embed}[arguments.pop("verb")](**arguments)


if __name__ == "__main__":
    sys.exit(main())
