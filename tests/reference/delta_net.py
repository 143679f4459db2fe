"""The gated delta net (Yang et al. 2024) as Qwen3-Next and Qwen3.5 have it, token by token."""
import numpy as np

from parts import linear, rms_norm, sigmoid, silu

L2_EPSILON = 1e-6


def convolve(x, kernel):
    """Each channel of x [T, channels] over its last inputs, zeros before the first; kernel [channels, width]."""
    width = kernel.shape[1]
    padded = np.concatenate([np.zeros((width - 1, x.shape[1])), x])
    return sum(padded[i:i + len(x)] * kernel[:, i] for i in range(width))


def l2_norm(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + L2_EPSILON)


def recur(q, k, v, decay, beta):
    """q and k [T, heads, key dim], v [T, heads, value dim], decay and beta [T, heads]. Each head's state
    S [key dim, value dim] fades, is corrected at k towards v, and is read at q. Returns [T, heads, value dim]."""
    state = np.zeros((q.shape[1], q.shape[2], v.shape[2]))
    out = np.zeros_like(v)
    for t in range(len(q)):
        state *= decay[t][:, None, None]
        correction = (v[t] - np.einsum("hkv,hk->hv", state, k[t])) * beta[t][:, None]
        state += k[t][:, :, None] * correction[:, None]
        out[t] = np.einsum("hkv,hk->hv", state, q[t])
    return out


def delta_net(config, weights, h, prefix):
    """h [T, H] to [T, H]."""
    tokens = len(h)
    key_heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    key_dim, value_dim = config["linear_key_head_dim"], config["linear_value_head_dim"]

    def project(name):
        return linear(weights, h, prefix + name)

    qkv = silu(convolve(project("in_proj_qkv"), weights[prefix + "conv1d.weight"][:, 0]))
    q, k, v = np.split(qkv, [key_heads * key_dim, 2 * key_heads * key_dim], axis=-1)
    q = l2_norm(q.reshape(tokens, key_heads, key_dim)) / np.sqrt(key_dim)
    k = l2_norm(k.reshape(tokens, key_heads, key_dim))
    q, k = (np.repeat(x, value_heads // key_heads, axis=1) for x in (q, k))
    v, z = (x.reshape(tokens, value_heads, value_dim) for x in (v, project("in_proj_z")))
    step = np.log1p(np.exp(project("in_proj_a") + weights[prefix + "dt_bias"]))
    decay = np.exp(-np.exp(weights[prefix + "A_log"]) * step)
    out = recur(q, k, v, decay, sigmoid(project("in_proj_b")))
    out = rms_norm(out, weights[prefix + "norm.weight"], config["rms_norm_eps"]) * silu(z)
    return linear(weights, out.reshape(tokens, -1), prefix + "out_proj")
