#!/usr/bin/env python3
"""Makes fixtures of what the first ones do not test, with transformers and random weights:

    make_fixtures.py FROM TO [NAME...]

FROM has a tokenizer and token ids (the fixture phi3, or any of the later ones); TO gets a folder for each:

    phi3_partial    half of a head turns; the answer passes the limit of LongRoPE
    gemma3_linear   a linear scaling of the layers that see all, a cap on logits, a text of 4,096 tokens
    granite_groups  Granite 4 with two groups of Mamba's heads and with rotation, a text of 4,096 tokens
    granite_dense   Granite 4 without experts, rotated
    nemotron_latent Nemotron-H with groups of experts, experts on a projection, a layer of a plain feed-forward
    lfm2            dense, its feed-forward's size adjusted

Needs transformers 5.23 and torch. Numbers are computed from weights in BF16, in float32; gemma3_linear in float64, with
frequencies in float64, too: at position 4,095 an angle from a float32 frequency is off by 2e-4. Greedy tokens are computed without a
cache, each from the beginning of its text: with one, transformers keeps keys turned by the short factors.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

GREEDY = 24
PROMPT = 12
TOKENS = dict(bos_token_id=381, eos_token_id=383, pad_token_id=381, vocab_size=384)


def phi3_partial():
    rope = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5,
                original_max_position_embeddings=32,
                short_factor=[1.0, 1.2], long_factor=[1.5, 4.0])
    return transformers.Phi3Config(
        **TOKENS, hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, original_max_position_embeddings=32,
        rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope), 264


def gemma3_linear():
    rope = dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                sliding_attention=dict(rope_type="default", rope_theta=10000.0))
    return transformers.Gemma3TextConfig(
        **TOKENS, hidden_size=16, intermediate_size=24, num_hidden_layers=6, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=8192, sliding_window=64,
        query_pre_attn_scalar=16, final_logit_softcapping=30.0, rope_parameters=rope,
        layer_types=["sliding_attention"] * 5 + ["full_attention"]), 4096


def granite(experts, length):
    rope = dict(rope_type="default", rope_theta=10000.0)
    return transformers.GraniteMoeHybridConfig(
        **TOKENS, hidden_size=16, intermediate_size=12, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters=rope, position_embedding_type="rope", attention_multiplier=0.25,
        embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=1.5, num_local_experts=experts,
        num_experts_per_tok=3 if experts else 0, shared_intermediate_size=24, mamba_n_heads=4,
        mamba_n_groups=2, mamba_d_state=16, mamba_d_head=8, mamba_d_conv=4, mamba_expand=2,
        mamba_chunk_size=16, layer_types=["linear_attention", "full_attention", "linear_attention"]), length


def granite_groups():
    return granite(6, 4096)


def granite_dense():
    return granite(0, 264)


def nemotron_latent():
    return transformers.NemotronHConfig(
        **TOKENS, hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1,
        head_dim=12, max_position_embeddings=512, layer_norm_epsilon=1e-5, tie_word_embeddings=True,
        layers_block_type=["linear_attention", "moe", "full_attention", "mlp", "moe"], ssm_state_size=16,
        mamba_num_heads=4, mamba_head_dim=6, n_groups=2, conv_kernel=4, expand=2, chunk_size=16,
        time_step_min=1e-30, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, n_group=4,
        topk_group=2, moe_intermediate_size=20, moe_shared_expert_intermediate_size=24, moe_latent_size=12,
        routed_scaling_factor=2.5, norm_topk_prob=True), 264


def lfm2():
    return transformers.Lfm2Config(
        **TOKENS, hidden_size=16, intermediate_size=40, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, norm_eps=1e-5, tie_word_embeddings=True,
        block_multiple_of=16, block_ffn_dim_multiplier=1.25, block_auto_adjust_ff_dim=True, conv_L_cache=3,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        layer_types=["conv", "conv", "full_attention", "conv"]), 264


FIXTURES = {"phi3_partial": phi3_partial, "gemma3_linear": gemma3_linear, "granite_groups": granite_groups,
            "granite_dense": granite_dense, "nemotron_latent": nemotron_latent, "lfm2": lfm2}
FINAL_NORMS = ("model.norm.weight", "model.embedding_norm.weight")


def fill(model, seed):
    """Matrices keep the size of what passes them; norms are near their neutral value. Where the embedding is
    tied, what layers add counts for more than it, or each token would be followed by itself."""
    tied = model.config.tie_word_embeddings
    random = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=random)
        if name.endswith("A_log"):  # states of Mamba that last a while
            x = p.data.clamp(max=1.0) + 0.1 * x
        elif p.dim() == 1:
            more = 1.5 if name in FINAL_NORMS else 5 if name.count("_layernorm") and "post_" in name else 0
            x = p.data + 0.1 * x + (more if tied else 0)
        else:
            vocabulary = "embed_tokens" in name or "lm_head" in name
            x = x * (0.1 if vocabulary and tied else 0.3 if vocabulary else p.shape[-1] ** -0.5)
        p.data = x.to(torch.bfloat16).to(torch.float32)
    for name, b in model.named_buffers():  # corrections of routers
        if name.endswith("e_score_correction_bias"):
            b.data = (0.3 * torch.randn(b.shape, generator=random)).to(torch.bfloat16).to(torch.float32)


def compute_in_double(model):
    """Also what the model casts to float32: angles and norms."""
    model.double()
    torch.Tensor.float = torch.Tensor.double
    rope = model.config.rope_parameters
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            kind = name.removesuffix("_inv_freq").removesuffix("_original")
            if kind in rope and name.endswith("inv_freq"):
                i = torch.arange(len(buffer), dtype=torch.float64)
                frequency = float(rope[kind]["rope_theta"]) ** (-i / len(buffer))
                setattr(module, name, frequency / rope[kind].get("factor", 1.0))


@torch.no_grad()
def states_of(model, ids):
    """The stream after each layer, the final norm's output, the logits and what routers gave, of a text at once."""
    states, taken, choices = [], [], []
    for layer in model.model.layers:
        taken.append(layer.register_forward_hook(
            lambda m, i, o: states.append(o[0] if isinstance(o, tuple) else o)))
        if len(taken) == 1:
            taken.append(layer.register_forward_pre_hook(
                lambda m, i, k: states.append((i[0] if i else k["hidden_states"])), with_kwargs=True))
    norm = [m for n, m in model.model.named_children() if n in ("norm", "norm_f", "embedding_norm")][0]
    taken.append(norm.register_forward_hook(lambda m, i, o: states.append(o)))
    for router in [m for m in model.model.modules() if type(m).__name__.lower().endswith("topkrouter")]:
        taken.append(router.register_forward_hook(lambda m, i, o: choices.append(o)))
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].clone()
    for hook in taken:
        hook.remove()
    return torch.stack([s[0] for s in states[:-1]]), states[-1][0], logits, choices


def routing_of(choices):
    """What each router gave: logits, and the chosen experts in descending order of their weight."""
    found = {}
    for i, (logits, weights, experts) in enumerate(choices):
        order = weights.argsort(dim=-1, descending=True, stable=True)
        found[f"router.{i}.logits"] = logits.float().contiguous()
        found[f"router.{i}.weights"] = weights.gather(-1, order).float().contiguous()
        found[f"router.{i}.experts"] = experts.gather(-1, order).to(torch.int32).contiguous()
    return found


@torch.no_grad()
def greedy_of(model, ids):
    out, gap = [], float("inf")
    for _ in range(GREEDY):
        best = model(input_ids=torch.tensor([ids + out]), use_cache=False).logits[0, -1].topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        out.append(int(best.indices[0]))
    return out, gap


def beginning_of(ids, source):
    """As many of a prompt's ids as are the ids of their own text, and that text: golden files stay small."""
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    for n in range(PROMPT, 0, -1):
        text = tokenizer.decode(ids[:n], skip_special_tokens=False)
        if tokenizer.encode(text).ids == ids[:n]:
            return ids[:n], text


def make(name, source, to):
    config, length = FIXTURES[name]()
    given = load_file(source / "golden.safetensors")
    ids, prompt = beginning_of(given["input_ids"].tolist(), source)
    text = given["long_input_ids"].tolist()
    long_ids = (text * (length // len(text) + 1))[:length]
    for seed in range(1, 100):  # near ties would make greedy tokens a matter of luck
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
        fill(model, seed)
        if name == "gemma3_linear":
            compute_in_double(model)
        greedy, gap = greedy_of(model, ids)
        if gap > 0.01 and len(set(greedy)) > 4 and not {381, 383} & set(greedy):
            break
    states, normed, logits, choices = states_of(model, ids)
    _, _, long_logits, _ = states_of(model, long_ids)
    nll = torch.nn.functional.cross_entropy(long_logits[:-1].double(), torch.tensor(long_ids[1:]))
    folder = to / name
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(source / file, folder / file)
    save_file({**routing_of(choices), "states": states.to(torch.float32), "normed": normed.to(torch.float32),
               "logits": logits.to(torch.float32), "long_logits_last4": long_logits[-4:].to(torch.float32).clone(),
               "input_ids": torch.tensor(ids, dtype=torch.int32),
               "greedy_ids": torch.tensor(greedy, dtype=torch.int32),
               "long_input_ids": torch.tensor(long_ids, dtype=torch.int32)}, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    json.dump({"prompt": prompt, "greedy_min_top2_gap": gap, "long_mean_nll": float(nll), "seed": seed,
               "made_with": f"transformers {transformers.__version__}, {logits.dtype} eager CPU"},
              open(folder / "golden.json", "w"), indent=1)
    print(f"{name}: seed {seed}, gap {gap:.3f}, logits' deviation {float(logits.std()):.2f}")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for name in sys.argv[3:] or FIXTURES:
        make(name, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))


main()
