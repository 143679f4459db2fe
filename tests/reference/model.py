"""A decoder, in float64 and written to be read: every step is what the papers say, over all positions at once.

T tokens, H hidden. States are [T, H]; each part takes the weights' common prefix."""
import dataclasses

import numpy as np

import checkpoint
from delta_net import delta_net
from parts import linear, rms_norm, sigmoid, silu, softmax


@dataclasses.dataclass
class Family:
    """What tells families apart beyond their config."""
    hybrid: bool = False  # norms centred at zero, gated attention, partial rotation
    wide_norms: bool = False  # q and k are normalised over all heads together
    multipliers: bool = False  # of embedding, attention, residual stream and logits
    softmax_of_picked: bool = False  # the router's softmax runs over the experts picked
    renormalise: bool = False  # weights of the picked experts sum to 1 without the config saying so


FAMILIES = {
    "qwen2": Family(),
    "qwen3": Family(),
    "qwen2_moe": Family(),
    "qwen3_moe": Family(),
    "granitemoe": Family(multipliers=True, softmax_of_picked=True),
    "mixtral": Family(renormalise=True),
    "olmoe": Family(wide_norms=True),
    "qwen3_next": Family(hybrid=True),
    "qwen3_5": Family(hybrid=True),
    "qwen3_5_moe": Family(hybrid=True, renormalise=True),
}


@dataclasses.dataclass
class Routing:
    """What one layer's router did."""
    logits: np.ndarray  # [T, experts]
    weights: np.ndarray  # [T, picked]
    experts: np.ndarray  # [T, picked], the likeliest first, the lower index first among equals


@dataclasses.dataclass
class Pass:
    """A forward pass over T tokens."""
    logits: np.ndarray  # [T, vocabulary]
    states: np.ndarray  # [layers + 1, T, H]: the embedding, then the residual stream after each layer
    normed: np.ndarray  # [T, H], after the final norm
    routing: list  # of Routing, one for each routed layer


class Model:
    def __init__(self, directory):
        self.config, self.weights = checkpoint.load(directory)
        name = self.config["model_type"].replace("_text", "")
        if name not in FAMILIES:
            raise SystemExit(f"{directory}: the reference does not know the model type {name}; it knows "
                             + ", ".join(FAMILIES))
        self.family = FAMILIES[name]
        self.epsilon = self.config["rms_norm_eps"]
        self.heads = self.config["num_attention_heads"]
        self.key_heads = self.config.get("num_key_value_heads") or self.heads
        self.head_dim = self.config.get("head_dim") or self.config["hidden_size"] // self.heads
        rope = self.config.get("rope_parameters") or {}
        self.rotated = int(self.head_dim * rope.get("partial_rotary_factor", self.config.get("partial_rotary_factor", 1)))
        theta = self.config.get("rope_theta") or rope["rope_theta"]
        self.frequencies = 1 / theta ** (np.arange(0, self.rotated, 2) / self.rotated)
        self.attention_scale = self.multiplier("attention_multiplier", self.head_dim ** -0.5)
        self.residual_scale = self.multiplier("residual_multiplier", 1.0)

    def multiplier(self, key, default):
        return self.config.get(key, default) if self.family.multipliers else default

    def norm(self, x, name):
        weight = self.weights[name]
        return rms_norm(x, 1 + weight if self.family.hybrid else weight, self.epsilon)

    def linear(self, x, name):
        return linear(self.weights, x, name)

    # --- attention ---

    def rotate(self, x, positions):
        """Rotary embedding (Su et al. 2021) of x [T, heads, head dim]: the first `rotated` dimensions, paired over
        the two halves. Interleaved sections of positions are all the same where there is only text."""
        angles = (positions[:, None] * self.frequencies)[:, None]
        cos, sin, half = np.cos(angles), np.sin(angles), self.rotated // 2
        first, second, rest = x[..., :half], x[..., half:self.rotated], x[..., self.rotated:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], -1)

    def attention(self, h, prefix, positions):
        """Causal attention with grouped keys; in a hybrid half of q_proj's rows gate the output."""
        tokens, gate = len(h), None
        q, k, v = (self.linear(h, prefix + name) for name in ("q_proj", "k_proj", "v_proj"))
        if self.family.hybrid:
            q, gate = np.split(q.reshape(tokens, self.heads, 2 * self.head_dim), 2, axis=-1)
        if self.family.wide_norms:
            q, k = self.norm(q, prefix + "q_norm.weight"), self.norm(k, prefix + "k_norm.weight")
        q = q.reshape(tokens, self.heads, self.head_dim)
        k, v = (x.reshape(tokens, self.key_heads, self.head_dim) for x in (k, v))
        if not self.family.wide_norms and prefix + "q_norm.weight" in self.weights:
            q, k = self.norm(q, prefix + "q_norm.weight"), self.norm(k, prefix + "k_norm.weight")
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        k, v = (np.repeat(x, self.heads // self.key_heads, axis=1) for x in (k, v))
        future = np.triu(np.full((tokens, tokens), -np.inf), 1)
        scores = softmax(np.einsum("thd,uhd->htu", q, k) * self.attention_scale + future)
        out = np.einsum("htu,uhd->thd", scores, v).reshape(tokens, -1)
        if gate is not None:
            out = out * sigmoid(gate.reshape(tokens, -1))
        return self.linear(out, prefix + "o_proj")

    # --- feed-forward ---

    def mlp(self, h, prefix):
        """SwiGLU (Shazeer 2020)."""
        return self.linear(silu(self.linear(h, prefix + "gate_proj")) * self.linear(h, prefix + "up_proj"),
                           prefix + "down_proj")

    def route(self, h, prefix):
        logits = self.linear(h, prefix + "gate")
        experts = np.argsort(-logits, -1, kind="stable")[:, :self.config["num_experts_per_tok"]]
        if self.family.softmax_of_picked:
            weights = softmax(np.take_along_axis(logits, experts, 1))
        else:
            weights = np.take_along_axis(softmax(logits), experts, 1)
            if self.family.renormalise or self.config.get("norm_topk_prob"):
                weights = weights / weights.sum(-1, keepdims=True)
        return Routing(logits, weights, experts)

    def routed(self, h, prefix, routing):
        """The picked experts' outputs by their weights, and the shared expert's by its gate where there is one."""
        out = np.zeros_like(h)
        for expert in np.unique(routing.experts):
            token, place = np.nonzero(routing.experts == expert)
            out[token] += routing.weights[token, place][:, None] * self.mlp(h[token], f"{prefix}experts.{expert}.")
        if prefix + "shared_expert.gate_proj.weight" in self.weights:
            out += sigmoid(self.linear(h, prefix + "shared_expert_gate")) * self.mlp(h, prefix + "shared_expert.")
        return out

    # --- the whole ---

    def layer(self, x, prefix, positions, log):
        """One layer of the residual stream x [T, H]; a routed one appends its Routing to log."""
        h = self.norm(x, prefix + "input_layernorm.weight")
        if prefix + "linear_attn.A_log" in self.weights:
            mixed = delta_net(self.config, self.weights, h, prefix + "linear_attn.")
        else:
            mixed = self.attention(h, prefix + "self_attn.", positions)
        x = x + self.residual_scale * mixed
        h = self.norm(x, prefix + "post_attention_layernorm.weight")
        if prefix + "mlp.gate.weight" not in self.weights:
            return x + self.residual_scale * self.mlp(h, prefix + "mlp.")
        log.append(self.route(h, prefix + "mlp."))
        return x + self.residual_scale * self.routed(h, prefix + "mlp.", log[-1])

    def embed(self, ids):
        return self.weights["model.embed_tokens.weight"][np.asarray(ids)] * self.multiplier("embedding_multiplier", 1.0)

    def head(self, normed):
        weight = self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
        return normed @ weight.T / self.multiplier("logits_scaling", 1.0)

    def forward(self, ids):
        x, log = self.embed(ids), []
        states = [x]
        for layer in range(self.config["num_hidden_layers"]):
            x = self.layer(x, f"model.layers.{layer}.", np.arange(len(ids)), log)
            states.append(x)
        normed = self.norm(x, "model.norm.weight")
        return Pass(self.head(normed), np.stack(states), normed, log)

    @property
    def drafts(self):
        return "mtp.fc.weight" in self.weights

    def draft(self, embedded, hidden):
        """The draft layer (multi-token prediction): row i takes the next token's embedding and a state, both [T, H],
        at position i among the rows given. Returns what the head, and the next depth, take: [T, H]."""
        both = np.concatenate([self.norm(embedded, "mtp.pre_fc_norm_embedding.weight"),
                               self.norm(hidden, "mtp.pre_fc_norm_hidden.weight")], -1)
        x = self.layer(self.linear(both, "mtp.fc"), "mtp.layers.0.", np.arange(len(both)), [])
        return self.norm(x, "mtp.norm.weight")
