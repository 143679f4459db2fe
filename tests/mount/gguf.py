"""A published checkpoint of the qwen3_moe kind as a GGUF file, without any package: gguf.py FOLDER FILE.

16-bit matrices are copied, experts stacked, norms and routers widened to 32 bits."""
import json
import struct
import sys

folder, path = sys.argv[1:]
with open(f"{folder}/config.json") as f:
    config = json.load(f)
with open(f"{folder}/tokenizer.json") as f:
    tokenizer = json.load(f)
with open(f"{folder}/chat_template.jinja") as f:
    template = f.read()
with open(f"{folder}/model.safetensors", "rb") as f:
    (length,) = struct.unpack("<Q", f.read(8))
    header = json.loads(f.read(length))
    data = f.read()

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPE_F32, TYPE_BF16 = 0, 30


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, v):
    if kind == STRING:
        return string(v)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def key(name, kind, v):
    return string(name) + struct.pack("<I", kind) + value(kind, v)


def array(name, kind, vs):
    return string(name) + struct.pack("<IIQ", ARRAY, kind, len(vs)) + b"".join(value(kind, v) for v in vs)


def number(name, k):
    return key(f"qwen3moe.{name}", U32, config[k])


vocabulary = {i: t for t, i in tokenizer["model"]["vocab"].items()}
kinds = {i: 1 for i in vocabulary}
for t in tokenizer["added_tokens"]:
    vocabulary[t["id"]] = t["content"]
    kinds[t["id"]] = 3 if t["special"] else 4
count = config["vocab_size"]
tokens = [vocabulary.get(i, f"[PAD{i}]") for i in range(count)]
merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
eos = config["eos_token_id"]
theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
keys = [
    key("general.architecture", STRING, "qwen3moe"),
    number("block_count", "num_hidden_layers"),
    number("context_length", "max_position_embeddings"),
    number("embedding_length", "hidden_size"),
    number("feed_forward_length", "intermediate_size"),
    number("attention.head_count", "num_attention_heads"),
    number("attention.head_count_kv", "num_key_value_heads"),
    number("attention.key_length", "head_dim"),
    number("expert_count", "num_experts"),
    number("expert_used_count", "num_experts_per_tok"),
    number("expert_feed_forward_length", "moe_intermediate_size"),
    key("qwen3moe.rope.freq_base", F32, theta),
    key("qwen3moe.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
    key("tokenizer.ggml.model", STRING, "gpt2"),
    key("tokenizer.ggml.pre", STRING, "qwen2"),
    array("tokenizer.ggml.tokens", STRING, tokens),
    array("tokenizer.ggml.token_type", I32, [kinds.get(i, 5) for i in range(count)]),
    array("tokenizer.ggml.merges", STRING, merges),
    key("tokenizer.ggml.eos_token_id", U32, eos[0] if isinstance(eos, list) else eos),
    key("tokenizer.ggml.add_bos_token", BOOL, False),
    key("tokenizer.chat_template", STRING, template),
]


def source(name):
    entry = header[name]
    begin, end = entry["data_offsets"]
    assert entry["dtype"] == "BF16", name
    return entry["shape"], data[begin:end]


def wide(raw):
    return b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))


tensors = []


def put(name, of, type_=TYPE_BF16):
    shape, raw = source(of)
    tensors.append((name, shape, type_, wide(raw) if type_ == TYPE_F32 else raw))


put("token_embd.weight", "model.embed_tokens.weight")
put("output_norm.weight", "model.norm.weight", TYPE_F32)
if "lm_head.weight" in header:
    put("output.weight", "lm_head.weight")
for n in range(config["num_hidden_layers"]):
    of, to = f"model.layers.{n}", f"blk.{n}"
    put(f"{to}.attn_norm.weight", f"{of}.input_layernorm.weight", TYPE_F32)
    put(f"{to}.ffn_norm.weight", f"{of}.post_attention_layernorm.weight", TYPE_F32)
    for a, b in ("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"):
        put(f"{to}.attn_{a}.weight", f"{of}.self_attn.{b}_proj.weight")
    for a in "q", "k":
        put(f"{to}.attn_{a}_norm.weight", f"{of}.self_attn.{a}_norm.weight", TYPE_F32)
    put(f"{to}.ffn_gate_inp.weight", f"{of}.mlp.gate.weight", TYPE_F32)
    for part in "gate", "up", "down":
        all_ = [source(f"{of}.mlp.experts.{x}.{part}_proj.weight") for x in range(config["num_experts"])]
        shape = [len(all_), *all_[0][0]]
        tensors.append((f"{to}.ffn_{part}_exps.weight", shape, TYPE_BF16, b"".join(raw for _, raw in all_)))


def pad(n):
    return b"\0" * (-n % 32)


offset = 0
infos = []
for name, shape, type_, raw in tensors:
    dims = list(reversed(shape))
    infos.append(string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_, offset))
    offset += len(raw) + len(pad(len(raw)))
head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + b"".join(infos)
with open(path, "wb") as f:
    f.write(head + pad(len(head)))
    for _, _, _, raw in tensors:
        f.write(raw + pad(len(raw)))
