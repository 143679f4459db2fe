#!/usr/bin/env bash
# An exact store with its experts compressed is smaller on disk. Otherwise it behaves like a plain one: the same
# answers, and expert files with the checkpoint's own numbers.
. "$(dirname "$0")/lib.sh"

question="What is the capital of France? Then tell me a tale."
stored_bytes() { cat "$(cat "$m/info/store")"/experts.safetensors | wc -c; }
converted() { # a mount with these options whose store is complete
	mounted "$@"
	loaded
	complete
}

converted -o quant=bf16,codec=none
claim "a plain store says so" same "$(cat info/codec)" none
plain_bytes=$(stored_bytes)
plain_answer=$(ask "$question")
cp -r experts "$work/plain"

cd / && unmounted
converted -o quant=bf16,codec=zstd
cd / && unmounted
cold
mounted -o quant=bf16,codec=zstd,budget=1M # what the claims need is read from the store
loaded
claim "a store by another codec is made when it is asked for" same "$(cut -d' ' -f1 info/codec)" zstd
claim "it takes at most three quarters" test "$(stored_bytes)" -le $((plain_bytes * 3 / 4))
claim "it says that it is private" grep -qa "private to moefs" "$(cat info/store)/experts.safetensors"
claim "the answer is the same, though experts come and go" same "$(ask "$question")" "$plain_answer"
same_experts() {
	local x
	for x in experts/0[037]/0[0-9]*; do
		cmp "$x" "$work/plain/${x#experts/}" || fail "$x"
	done
}
claim "expert files hold the same bytes" same_experts
checkpoints_numbers() {
	python3 - "$MODEL/model.safetensors" experts/03/017 <<'PY'
import json, struct, sys
f = open(sys.argv[1], "rb")
n = struct.unpack("<Q", f.read(8))[0]
head = json.loads(f.read(n))
record = b""
for part in ("gate", "up", "down"):
    begin, end = head["model.layers.3.mlp.experts.17.%s_proj.weight" % part]["data_offsets"]
    f.seek(8 + n + begin)
    record += f.read(end - begin)
assert open(sys.argv[2], "rb").read() == record
PY
}
claim "and those are the checkpoint's" checkpoints_numbers

# A changed byte of a stored record.
damage() {
	local file
	file=$(cat info/store)/experts.safetensors
	printf '\125' | dd of="$file" bs=1 seek=$((4096 + 100)) conv=notrunc status=none
}
damage
damaged_ones() {
	local x n=0
	for x in experts/*/*[0-9]; do
		cat "$x" >/dev/null 2>&1 || n=$((n + 1))
	done
	same "$n" 1 "expert files that cannot be read"
	grep -q "is damaged" ../error || fail "error says $(cat ../error)"
}
cd / && unmounted && mounted -o quant=bf16
claim "a damaged record is the only one that cannot be read, and named" damaged_ones

cd / && unmounted
refused() { fails_with "quant=bf16" "$MOEFS" -o "store=$work/store,quant=tq3,codec=zstd" "$MODEL" "$mnt"; }
claim "zstd for weights in 3 bits is refused with a reason" refused
misspelt() { fails_with "none, zstd or auto" "$MOEFS" -o "store=$work/store,codec=zip" "$MODEL" "$mnt"; }
claim "so is a codec that does not exist" misspelt
finish
