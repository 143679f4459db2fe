"""reference.py MODEL.gguf [IDS]: the log-probability of each token after those before it, one a line.

A Llama model in NumPy and float64 (or another type), for all positions at once: what `-o exact` is held to. IDS is a file of token ids
(default: standard input). In GGUF files the rows of q and k lie so that a rotation turns neighbours."""
import sys

import numpy as np

import gguf


class Llama:
    def __init__(self, path, dtype=np.float64):
        file = gguf.File(path)
        key = {name.removeprefix("llama."): value for name, value in file.keys.items()}
        self.weights = {name: gguf.floats(t).astype(dtype) for name, t in file.tensors.items()}
        self.layers, self.epsilon = key["block_count"], key["attention.layer_norm_rms_epsilon"]
        self.heads, self.key_heads = key["attention.head_count"], key["attention.head_count_kv"]
        self.rotated = key["rope.dimension_count"]
        self.dtype = dtype
        self.frequencies = key["rope.freq_base"] ** -(np.arange(0, self.rotated, 2) / self.rotated)

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.weights[name]

    def rotate(self, x):
        """x [tokens, heads, head dim]: pairs of neighbours turn by their position."""
        angles = (np.arange(len(x))[:, None] * self.frequencies)[:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * np.cos(angles) - odd * np.sin(angles), odd * np.cos(angles) + even * np.sin(angles)]
        return np.stack(turned, -1).reshape(x.shape).astype(self.dtype)

    def attention(self, h, prefix):
        tokens = len(h)
        q, k, v = (h @ self.weights[f"{prefix}attn_{part}.weight"].T for part in "qkv")
        q = self.rotate(q.reshape(tokens, self.heads, -1))
        k, v = (x.reshape(tokens, self.key_heads, -1) for x in (k, v))
        k, v = (np.repeat(x, self.heads // self.key_heads, 1) for x in (self.rotate(k), v))
        scores = np.einsum("thd,uhd->htu", q, k) / q.shape[-1] ** 0.5
        scores += np.triu(np.full((tokens, tokens), -np.inf, self.dtype), 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("htu,uhd->thd", scores, v).reshape(tokens, -1) @ self.weights[prefix + "attn_output.weight"].T

    def feed_forward(self, h, prefix):
        gate, up = (h @ self.weights[f"{prefix}ffn_{part}.weight"].T for part in ("gate", "up"))
        return (gate / (1 + np.exp(-gate)) * up) @ self.weights[prefix + "ffn_down.weight"].T

    def logits(self, ids):
        x = self.weights["token_embd.weight"][ids]
        for layer in range(self.layers):
            prefix = f"blk.{layer}."
            x = x + self.attention(self.norm(x, prefix + "attn_norm.weight"), prefix)
            x = x + self.feed_forward(self.norm(x, prefix + "ffn_norm.weight"), prefix)
        head = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return self.norm(x, "output_norm.weight") @ head.T

    def log_probabilities(self, ids):
        """Of ids[1:], each after those before it."""
        logits = self.logits(ids[:-1])
        most = logits.max(-1)
        whole = np.log(np.exp(logits - most[:, None]).sum(-1)) + most
        return logits[np.arange(len(ids) - 1), ids[1:]] - whole


def main():
    with (open(sys.argv[2]) if len(sys.argv) > 2 else sys.stdin) as f:
        ids = np.array(f.read().split(), int)
    for value in Llama(sys.argv[1]).log_probabilities(ids):
        print(f"{value:.8f}")


if __name__ == "__main__":
    main()
