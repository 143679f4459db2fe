"""A model's directory: its config, and its weights in float64 under one set of names, whatever the file calls them.

The names are Qwen3's and, for delta nets, Qwen3.5's: model.layers.I.self_attn.q_proj.weight,
model.layers.I.mlp.experts.J.gate_proj.weight, model.layers.I.linear_attn.in_proj_qkv.weight ..."""
import json
import re

import numpy as np

import codes
import tensors

# How other families spell the same thing.
SPELLINGS = [
    (r"language_model\.", ""),
    (r"block_sparse_moe\.router\.layer", "mlp.gate"),
    (r"block_sparse_moe", "mlp"),
    (r"(experts\.\d+\.)w1", r"\1gate_proj"),
    (r"(experts\.\d+\.)w2", r"\1down_proj"),
    (r"(experts\.\d+\.)w3", r"\1up_proj"),
]


def read_config(directory):
    """config.json with what stands under text_config on top of it."""
    with open(f"{directory}/config.json") as f:
        config = json.load(f)
    return {**config, **config.get("text_config", {})}


def columns_of(name, config):
    """Columns of a TQ tensor, whose packed shape is filled up to whole groups."""
    if name.endswith("down_proj.weight"):
        return config["moe_intermediate_size" if ".experts." in name else "intermediate_size"]
    if "o_proj" in name:
        return config["num_attention_heads"] * config["head_dim"]
    return config["hidden_size"]


def decode(raw, config):
    """{name: float64 array} of what `tensors.read` gave: each weight with the scales that belong to it."""
    block = (config.get("quantization_config") or {}).get("weight_block_size")
    companions = (".scales", ".biases", "_scale_inv", ".tq_norms")
    weights = {}
    for name, (dtype, array) in raw.items():
        stem = name[:-len(".weight")]
        if name.endswith(companions):
            continue
        if name.endswith(".tq_packed"):
            name = name[:-len(".tq_packed")]
            weights[name] = codes.tq(array, raw[name + ".tq_norms"][1], columns_of(name, config))
        elif stem + ".scales" in raw:
            weights[name] = codes.mlx_4bit(array, *(codes.plain(*raw[stem + c]) for c in (".scales", ".biases")))
        elif block and name + "_scale_inv" in raw:
            weights[name] = codes.scaled_blocks(codes.plain(dtype, array), codes.plain(*raw[name + "_scale_inv"]), *block)
        else:
            weights[name] = codes.plain(dtype, array)
    return weights


def split_experts(weights):
    """Stacked experts, in the layouts that are published, become one tensor for each."""
    for name in list(weights):
        stacked = re.fullmatch(r"(.*\.)switch_mlp\.(\w+)\.weight", name)
        if stacked:  # [experts, rows, columns]
            for i, expert in enumerate(weights.pop(name)):
                weights[f"{stacked[1]}experts.{i}.{stacked[2]}.weight"] = expert
            continue
        for both, down in (("experts.gate_up_proj", "experts.down_proj"), ("input_linear.weight", "output_linear.weight")):
            if name.endswith(both):  # [experts, 2 × intermediate, hidden]: gate's rows, then up's
                prefix = name[:-len(both)]
                gate_up, downs = weights.pop(name), weights.pop(prefix + down)
                half = gate_up.shape[1] // 2
                for i in range(len(gate_up)):
                    expert = f"{prefix}experts.{i}."
                    weights[expert + "gate_proj.weight"] = gate_up[i, :half]
                    weights[expert + "up_proj.weight"] = gate_up[i, half:]
                    weights[expert + "down_proj.weight"] = downs[i]


def split_delta_nets(weights, config):
    """Qwen3-Next fuses a delta net's projections head by head: for each key head the rows of its q and k, then those
    of the value heads that share it, v and z; and b and a likewise."""
    for name in [n for n in weights if n.endswith("in_proj_qkvz.weight")]:
        prefix = name[:-len("qkvz.weight")]
        heads, per_key = config["linear_num_key_heads"], config["linear_num_value_heads"] // config["linear_num_key_heads"]
        key, value = config["linear_key_head_dim"], per_key * config["linear_value_head_dim"]
        qkvz, ba = weights.pop(name), weights.pop(prefix + "ba.weight")
        hidden = qkvz.shape[1]
        qkvz, ba = qkvz.reshape(heads, -1, hidden), ba.reshape(heads, -1, hidden)

        def rows(array, first, count):
            return array[:, first:first + count].reshape(-1, hidden)

        qkv = [rows(qkvz, 0, key), rows(qkvz, key, key), rows(qkvz, 2 * key, value)]
        weights[prefix + "qkv.weight"] = np.concatenate(qkv)
        weights[prefix + "z.weight"] = rows(qkvz, 2 * key + value, value)
        weights[prefix + "b.weight"] = rows(ba, 0, per_key)
        weights[prefix + "a.weight"] = rows(ba, per_key, per_key)


def load(directory):
    """Returns (config, {name: float64 array})."""
    config = read_config(directory)
    weights = decode(tensors.read(f"{directory}/model.safetensors"), config)
    split_experts(weights)
    split_delta_nets(weights, config)
    for name in list(weights):
        ours = name
        for theirs, spelling in SPELLINGS:
            ours = re.sub(theirs, spelling, ours)
        if ours != name:
            weights[ours] = weights.pop(name)
    return config, weights
