#!/bin/bash
# Whether a store belongs to the checkpoint: a copy keeps the store, an edit at any time gets another one; and the
# remedies for a damaged store or checkpoint.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"
answer="The capital of France is Paris."
original=$MODEL
cp -rL "$MODEL" "$work/source" || exit 1 # never a link: what is copied is damaged below
MODEL=$work/source m=$mnt/source
weights=$MODEL/model.safetensors

# Zeroes the tensors whose names match, except the bytes that the fingerprint samples; the file keeps its mtime.
zero() { # PATTERN
	local before=$(stat -c %y "$weights")
	python3 - "$weights" "$1" <<'PY'
import json, os, re, struct, sys
path, pattern = sys.argv[1:]
with open(path, "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    header = json.loads(f.read(n))
    size = os.path.getsize(path)
    sampled = [(0, 1 << 20)] + [((size - 4096) // 16 * i, (size - 4096) // 16 * i + 4096) for i in range(1, 17)]
    zeroed = 0
    for name, entry in header.items():
        if name == "__metadata__" or not re.search(pattern, name):
            continue
        begin, end = (x + 8 + n for x in entry["data_offsets"])
        if any(begin < e and s < end for s, e in sampled):
            continue
        f.seek(begin)
        f.write(bytes(end - begin))
        zeroed += 1
assert zeroed, "nothing to change"
PY
	touch -d "$before" "$weights"
}
pristine() {
	cp "$original/model.safetensors" "$weights"
}
stored() { # which store it is
	cksum "$store"/*/4bit/index "$store"/*/4bit/experts.safetensors "$store"/*/4bit/dense.safetensors
}
end() { # the end of a claim, also if it fails in the middle
	cd /
	mountpoint -q "$work/mnt2" && user_unmounts "$work/mnt2"
	unmounted
}
whole() { # a mount of the checkpoint as it was, until its store is complete
	trap end EXIT
	pristine
	rm -rf "$store"
	mounted
	loaded
	complete
	cd / && unmounted
}

edited() {
	whole
	local before=$(stored)
	zero 'down_proj'
	mounted
	echo "$question" > prompt
	timeout $limit cat output >"$work/edited"
	complete
	cd / && unmounted
	differ "$(cat "$work/edited")" "$answer" "an edited checkpoint answers"
	differ "$(stored)" "$before" "the store"
	rm -rf "$store"
	mounted
	echo "$question" > prompt
	timeout $limit cat output >"$work/fresh"
	cd / && unmounted
	cmp "$work/edited" "$work/fresh" || fail "not what a store made anew answers"
}
claim "an edit that no sample meets, with the mtime set back, is not answered by the old weights" edited

copied() { # NAME command…: a way to copy the checkpoint; the store stays valid
	whole
	local before=$(stored) known=$(stat -c %s "$store"/*/4bit/source)
	eval "$1" || fail "$1"
	mounted
	same "$(ask "$question")" "$answer"
	complete
	cd / && unmounted
	same "$(stored)" "$before" "the store"
	[ "$(stat -c %s "$store"/*/4bit/source)" -gt "$known" ] || fail "the new times are not kept"
	known=$(stat -c %s "$store"/*/4bit/source)
	mounted
	same "$(ask "$question")" "$answer"
	cd / && unmounted
	same "$(stat -c %s "$store"/*/4bit/source)" "$known" "it is checked once"
}
replace='mv "$MODEL" "$work/old" && cp -r $flag "$work/old" "$MODEL" && rm -rf "$work/old"'
for flag in "" -p; do
	claim "cp -r $flag: a copy has the old store" copied "$replace"
done
claim "touch: other times are no other checkpoint" copied 'touch "$MODEL"/*'

remade() { # a damaged store is removed as the message says
	whole
	local dense=$(echo "$store"/*/4bit/dense.safetensors)
	printf x | dd of="$dense" bs=1 seek=$(($(stat -c %s "$dense") - 5000)) conv=notrunc status=none
	mounted
	echo "$question" > prompt
	fails_with "Input/output error" timeout $limit cat output
	grep -q "remove the folder" error || fail "error: $(cat error)"
	same "$(cat info/state)" failed
	rm -rf "$store"/*
	same "$(ask "$question")" "$answer"
	complete
	cd / && unmounted
}
claim "a damaged store is made again once its folder is removed, without a new mount" remade

remade_experts() { # the damage is met by a loaded model
	whole
	local experts=$(echo "$store"/*/4bit/experts.safetensors)
	dd if=/dev/urandom of="$experts" bs=4096 seek=1 count=$(($(stat -c %s "$experts") / 4096 - 1)) conv=notrunc status=none
	find "$work" -xdev -name heat -delete
	mounted
	echo "$question" > prompt
	fails_with "Input/output error" timeout $limit cat output
	grep -q "remove the folder" error || fail "error: $(cat error)"
	same "$(cat info/state)" ready
	rm -rf "$store"/*
	same "$(ask "$question")" "$answer"
	complete
	cd / && unmounted
}
claim "…also where only its experts are" remade_experts

damaged() { # one expert that the answer does not need is NaN; a draft may need it
	trap end EXIT
	pristine
	rm -rf "$store"
	mounted -o draft=off
	ask "$question" >/dev/null
	local row=$(grep -m1 '[.]' experts/map) # the first layer that has one: "02 677.…"
	local before=${row#* }
	before=${before%%.*}
	[ -n "$row" ] || fail "all experts are used: $(cat experts/map)"
	complete
	cd / && unmounted
	rm -rf "$store"
	python3 - "$weights" "model.layers.$((10#${row%% *})).mlp.experts.${#before}.up_proj.weight" <<'PY' || fail "python"
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    begin = json.loads(f.read(n))[sys.argv[2]]["data_offsets"][0] + 8 + n
    f.seek(begin)
    f.write(b"\xc0\x7f")
PY
}
stopped() { # FOLDER of a model: until its conversion says that it cannot go on
	until_true has_stopped "$1" || fail "progress: $(cat "$1/info/progress")"
}
has_stopped() { [[ $(cat "$1/info/progress") == "stopped at "* ]]; }
two_of_damaged() {
	damaged
	mounted
	same "$(ask "$question")" "$answer"
	stopped "$m"
	mkdir -p "$work/mnt2"
	"$MOEFS" -o "store=$store" "$MODEL" "$work/mnt2" || fail "the second mount"
	local other=$work/mnt2/source
	echo 0 > "$other/sessions/default/params/temperature"
	echo 24 > "$other/sessions/default/params/max_tokens"
	echo "$question" > "$other/prompt"
	same "$(timeout $limit cat "$other/output")" "$answer" "the second"
	stopped "$other"
	same "$(echo reset > ctl; ask "$question")" "$answer" "the first, still"
	user_unmounts "$work/mnt2"
	cd / && unmounted
}
claim "two mounts of a checkpoint with a damaged expert both answer" two_of_damaged
mountpoint -q "$work/mnt2" && fusermount3 -u -z "$work/mnt2" # where the claim hung
finish
