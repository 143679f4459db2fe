"""Golden numbers of a model: made, and compared with those that lie beside it. tests/README.md says what is in them."""
import json

import numpy as np

import codes
import tensors

GREEDY_TOKENS = 24
DECODING_HELD, DECODING_DEPTH = (1, 2, 12, 13, 15, 18, 23, 24, 27, 32), 4


def greedy(model, ids):
    """(the ids that follow, the smallest gap between the two best logits met on the way)"""
    ids, gap = list(ids), np.inf
    for _ in range(GREEDY_TOKENS):
        logits = model.forward(ids).logits[-1]
        second, best = np.sort(logits)[-2:]
        gap = min(gap, best - second)
        ids.append(int(np.argmax(logits)))
    return ids[-GREEDY_TOKENS:], float(gap)


def mean_nll(logits, ids):
    """The mean negative log-likelihood of each id after those before it."""
    logits, ids = logits[:-1], np.asarray(ids)[1:]
    top = logits.max(-1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(-1))
    return float((total - logits[np.arange(len(ids)), ids]).mean())


def drafts(model, ids, normed):
    """What the draft layer gives: depth 1 from the states and the tokens after them, depth 2 from depth 1's output and
    the tokens after those. Depth 2 attends to its own depth's keys alone: this checks the layer, not a decoding."""
    first = model.draft(model.embed(ids[1:]), normed[:-1])
    second = model.draft(model.embed(ids[2:]), first[:-1])
    return {"mtp_draft1_logits": model.head(first), "mtp_draft2_logits": model.head(second)}


def decoding(model, ids, normed):
    """Drafts of a decoding that holds so many tokens and has drawn the next: the draft layer's rows are those of what is
    held (depth 1: the states and the tokens after them), and then, token by token, of its own output and likeliest id."""
    logits, drafted = [], []
    for held in DECODING_HELD:
        hidden, tokens = list(normed[:held]), list(ids[1:held + 1])
        for _ in range(DECODING_DEPTH):
            hidden.append(model.draft(model.embed(tokens), np.array(hidden))[-1])
            logits.append(model.head(hidden[-1]))
            tokens.append(int(np.argmax(logits[-1])))
        drafted.append(tokens[-DECODING_DEPTH:])
    shape = len(DECODING_HELD), DECODING_DEPTH, -1
    return {"mtp_decoding_held": DECODING_HELD, "mtp_decoding_ids": drafted,
            "mtp_decoding_logits": np.reshape(logits, shape)}


def router_margin(routing):
    """How far, at the least, a picked expert's logit lies above the best that was not picked."""
    margins = []
    for r in routing:
        ordered = -np.sort(-r.logits, -1)
        picked = r.experts.shape[1]
        margins.append((ordered[:, picked - 1] - ordered[:, picked]).min())
    return float(min(margins))


def make(model, ids, long_ids):
    """({name: array} for golden.safetensors, {key: value} for golden.json)"""
    run, long = model.forward(ids), model.forward(long_ids)
    greedy_ids, gap = greedy(model, ids)
    arrays = {"input_ids": ids, "long_input_ids": long_ids, "greedy_ids": greedy_ids, "logits": run.logits,
              "states": run.states, "normed": run.normed, "long_logits_last4": long.logits[-4:]}
    facts = {"greedy_min_top2_gap": gap, "long_mean_nll": mean_nll(long.logits, long_ids)}
    for i, r in enumerate(run.routing):
        arrays.update({f"router.{i}.logits": r.logits, f"router.{i}.weights": r.weights, f"router.{i}.experts": r.experts})
    if run.routing:
        facts["router_min_margin"] = router_margin(run.routing)
    if model.drafts:
        arrays.update(drafts(model, ids, run.normed))
        arrays.update(decoding(model, ids, run.normed))
    return {name: np.asarray(a, np.int32 if np.asarray(a).dtype.kind == "i" else np.float32)
            for name, a in arrays.items()}, facts


def read(directory):
    """What lies beside a model, in the same form as `make`'s."""
    arrays = {name: codes.plain(*t) for name, t in tensors.read(f"{directory}/golden.safetensors").items()}
    with open(f"{directory}/golden.json") as f:
        return arrays, json.load(f)


def distance(made, golden):
    """Relative, in the L2 norm; infinite where ids differ, or shapes, or what was made is not finite."""
    if made.shape != golden.shape or not np.isfinite(made).all():
        return np.inf
    if golden.dtype.kind == "i" and (made != golden).any():
        return np.inf
    return float(np.linalg.norm(made.astype(np.float64) - golden) / np.linalg.norm(golden))


def differences(made, golden):
    """{name: distance} of all that a model's golden files hold, each layer's state by itself."""
    (arrays, facts), (golden_arrays, golden_facts) = made, golden
    found = {}
    for name, array in golden_arrays.items():
        if name not in arrays:
            found[name] = np.inf
        elif name == "states":
            found.update({f"states.{i}": distance(a, g) for i, (a, g) in enumerate(zip(arrays[name], array))})
        else:
            found[name] = distance(arrays[name], array)
    found["long_mean_nll"] = abs(facts["long_mean_nll"] - golden_facts["long_mean_nll"])
    return found
