#!/usr/bin/env python3
"""convert.py SOURCE MODEL FILE: llama.cpp's own converter, as the source package of llama-cpp-python has it (SOURCE,
unpacked), on a checkpoint's folder. Its one change: fixtures have a small tokenizer of their own, whose words are split
as Qwen2's, whatever the family's converter expects. Weights in F32: with BF16 llama.cpp rounds inputs, too. A name of no
model, since llama.cpp looks for tokens of Phi-3's where the name says so. `needed` has what the converter looks for in
a published config and the fixture's lacks, with the line that asks."""
import json
import pathlib
import sys

source, model, file = sys.argv[1:]
tree = pathlib.Path(source) / "vendor" / "llama.cpp"
sys.path[:0] = [str(tree), str(tree / "gguf-py")]
sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", file, "--outtype", "f32", "--model-name", "fixture"]

import conversion.base as base  # noqa: E402
import convert_hf_to_gguf as program  # noqa: E402



def needed(config):
    kind = config.get("model_type", "")
    text = config.get("text_config") or config
    if kind == "nemotron_h":  # granite.py: d_head = self.find_hparam(["d_head"], optional=True) or 64
        text["mamba_d_head"] = text["mamba_head_dim"]
    elif kind == "minimax_m3_vl":  # minimax.py: add_expert_shared_count(self.find_hparam(["n_shared_experts"]))
        text["n_shared_experts"] = 1
        text["scoring_func"] = "sigmoid"  # base.py: find_hparam(["score_function", "scoring_func", …], optional=True)
    elif kind == "kimi_linear":  # the same
        text["moe_router_activation_func"] = "sigmoid"
    elif kind == "glm5_next":  # glm.py: lin = hp["linear_attn_config"], hp.get("mla_use_nope"), hp["first_k_dense_replace"]
        text["linear_attn_config"] = {"num_heads": text["linear_num_heads"], "head_dim": text["linear_head_dim"],
                                      "short_conv_kernel_size": text["linear_conv_kernel_dim"],
                                      "gate_lower_bound": text["linear_lower_bound"]}
        text["mla_use_nope"] = True
        text["first_k_dense_replace"] = text["mlp_layer_types"].count("dense")
    return config


load = base.ModelBase.load_hparams


def as_published(dir_model, is_mistral_format=False):
    """What config.json says, and the defaults of transformers. Its own reading renames layers' types and drops keys
    that the converter asks for."""
    filled = load(dir_model, is_mistral_format)
    said = json.loads((pathlib.Path(dir_model) / "config.json").read_text())
    text = {**(filled.get("text_config") or {}), **said.get("text_config", {})}
    return needed({**filled, **said, **({"text_config": text} if text else {})})


base.ModelBase.load_hparams = staticmethod(as_published)
found = program.get_model_class


def with_this_tokenizer(*args, **named):
    kind = found(*args, **named)
    kind.set_vocab = lambda self: self._set_vocab_gpt2()
    return kind


base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
program.get_model_class = with_this_tokenizer
program.main()
