#!/usr/bin/env python3
"""convert.py SOURCE MODEL FILE: llama.cpp's own converter, as the source package of llama-cpp-python has it (SOURCE,
unpacked), on a checkpoint's folder. Its one change: fixtures have a small tokenizer of their own, whose words are split
as Qwen2's, whatever the family's converter expects. Weights in F32: with BF16 llama.cpp rounds inputs, too. A name of no model, since llama.cpp
looks for tokens of Phi-3's where the name says so."""
import pathlib
import sys

source, model, file = sys.argv[1:]
tree = pathlib.Path(source) / "vendor" / "llama.cpp"
sys.path[:0] = [str(tree), str(tree / "gguf-py")]
sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", file, "--outtype", "f32", "--model-name", "fixture"]

import conversion.base as base  # noqa: E402
import convert_hf_to_gguf as program  # noqa: E402

found = program.get_model_class


def with_this_tokenizer(*args, **named):
    kind = found(*args, **named)
    kind.set_vocab = lambda self: self._set_vocab_gpt2()
    return kind


base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
program.get_model_class = with_this_tokenizer
program.main()
