#!/bin/bash
# What is in the tree, what its files show, and what can be set.
. "$(dirname "$0")/lib.sh"
mounted -o budget=8M

shows() { for f in "$@"; do [ -e "$f" ] || fail "$f is missing"; done; }
claim "the tree shows its files" shows ../README ../version ../error ../cache/budget ../cache/stats \
	../cache/policy ../cache/context_budget prompt output ask log status wait error ctl stats \
	sessions/default/prompt sessions/default/params/temperature info/architecture config.json \
	experts/00 experts/map experts/stats

readme() {
	find . ../cache -name tensors -prune -o -type f -print | sed 's,.*/,,' | sort -u | grep -v '^[0-9]*$' >"$work/names"
	while read -r name; do grep -qw -- "$name" ../README || fail "README does not mention $name"; done <"$work/names"
}
claim "README mentions every file" readme

default_shared() {
	for f in prompt output thoughts log status wait error ctl stats stats.json messages.json rendered rendered_tokens template.json \
		tools.json tool_calls.json tool_result; do
		same "$(stat -c %i $f)" "$(stat -c %i sessions/default/$f)" $f
	done
}
claim "the model's files are those of sessions/default" default_shared

sizes() {
	for f in ../README ../version status stats stats.json info/layers experts/map experts/stats experts/stats.json wait ctl messages.json rendered \
		rendered_tokens template.json tools.json tool_calls.json tool_result; do
		same "$(stat -c %s $f)" "$(cat $f | wc -c)" $f
	done
}
claim "files of an idle session have true sizes" sizes

claim "config.json is the checkpoint's" cmp config.json "$MODEL/config.json"

nothing_else() {
	fails_with "Operation not permitted" touch file
	fails_with "Operation not permitted" mkdir folder
	fails_with "Operation not permitted" mkdir sessions/default/folder
	fails_with "Operation not permitted" touch sessions/file
	fails_with "Operation not permitted" ln -s x sessions/link
	fails_with "Operation not permitted" rm -f prompt
	fails_with "Operation not permitted" rm -f ../README
	fails_with "Operation not permitted" rmdir info
	fails_with "Operation not permitted" rmdir sessions/default
	fails_with "Operation not permitted" mv sessions/default sessions/other
	fails_with "Operation not permitted" mv -T sessions/default info/x
	fails_with "Operation not permitted" chmod 666 prompt
}
claim "nothing but sessions can be made, moved or removed" nothing_else

sessions() {
	mkdir sessions/a && [ -e sessions/a/prompt ] || fail "not made"
	fails_with "File exists" mkdir sessions/a
	mv sessions/a sessions/b && [ ! -e sessions/a ] && [ -e sessions/b/params/seed ] || fail "not renamed"
	mkdir sessions/c
	fails_with "File exists" mv -T sessions/b sessions/c
	same "$(ls sessions | tr '\n' ' ')" "b c default "
	rmdir sessions/b || fail "rmdir"
	rm -rf sessions/c || fail "rm -rf"
	same "$(ls sessions)" default
	mkdir sessions/"$(printf 'x%.0s' $(seq 255))" || fail "a name of 255 bytes"
	rmdir sessions/x*
	fails_with "Invalid argument" mkdir "sessions/a
b"
	fails_with "File name too long" mkdir sessions/"$(printf 'x%.0s' $(seq 256))"
}
claim "mkdir, mv, rmdir and rm -rf make, rename and end sessions" sessions

values() {
	cd sessions/default/params || exit
	echo 0.5 > temperature && same "$(cat temperature)" 0.5
	printf 0.25 > temperature && same "$(cat temperature)" 0.25
	shell_fails_with "Invalid argument" "echo hot > temperature"
	same "$(cat temperature)" 0.25 "a refused value"
	shell_fails_with "Numerical result out of range" "echo -1 > temperature"
	grep -q temperature ../../../../error || fail "error does not name it: $(cat ../../../../error)"
	: > temperature && same "$(cat temperature)" 0.25 "truncation alone"
	echo 0 > temperature
}
claim "a value is checked by the write that sets it" values

texts() {
	cd sessions/default/params || exit
	echo "Be brief." > system && same "$(cat system)" "Be brief."
	: > system && same "$(cat system)" "Be brief." "truncation alone"
	{ echo one; echo two; } > system && same "$(cat system)" "one
two"
	echo three >> system && same "$(cat system)" "one
two
three"
	seq 1000 > "$work/text" && cp "$work/text" system && cmp system "$work/text" || fail "cp"
	echo > system && same "$(cat system)" "" "cleared"
}
claim "a text is assembled and read back" texts

budgets() {
	same "$(cat ../cache/budget)" 8M
	echo 16M > ../cache/budget && same "$(cat ../cache/budget)" 16M
	echo 16385K > ../cache/budget && same "$(cat ../cache/budget)" 16385K
	shell_fails_with "Invalid argument" "echo much > ../cache/budget"
	shell_fails_with "Numerical result out of range" "echo 1 > ../cache/budget"
	same "$(df -B1 --output=size . | tail -1 | tr -d ' ')" $((16385 * 1024 / 4096 * 4096)) df
}
claim "the budget is a size that can be set, and df shows it" budgets

verbs() {
	shell_fails_with "Invalid argument" "echo jump > ctl"
	for verb in stop reset undo fork answer retry continue; do grep -q $verb ctl || fail "$verb is not listed"; done
	echo reset > ctl || fail reset
}
claim "ctl lists its verbs and refuses others" verbs

resident() { awk 'NR > 1 && $3 { print $1, $2 }' experts/stats; }
# Resident experts, as shown in three places. An expert that is just being read may arrive between two looks.
looked() {
	before=$(resident)
	blocks=$(find experts -path 'experts/[0-9]*/*' -type f -printf '%b\n' | grep -vcx 1)
	map=$(cut -c4- experts/map | grep -o '[0-9]' | wc -l)
	[ "$before" = "$(resident)" ]
}
experts() {
	local before blocks map
	same "$(wc -l <experts/map)" "$(ls -d experts/[0-9]* | wc -l)" "lines of map"
	same "$(tail -n +2 experts/stats | wc -l)" "$(find experts -path 'experts/[0-9]*/*' | wc -l)" "rows of stats"
	same "$(head -1 experts/stats)" "layer expert resident pinned hits misses last_token on_gpu gpu_pinned"
	[ -z "$(find experts -type f -path '*/[0-9]*' -printf '%b\n' | grep -x 0)" ] || fail "an expert without blocks"
	ask "What is the capital of France?" >/dev/null
	until_true looked || fail "what is resident does not stay"
	[ -n "$before" ] || fail "nothing resident after an answer"
	same "$blocks" "$(wc -l <<<"$before")" "blocks and table"
	same "$map" "$(wc -l <<<"$before")" "map and table"
}
loaded
claim "the experts' files, map and table agree on what is resident" experts

expert_bytes() {
	complete # a growing store shows no bytes
	x=$(find experts -path 'experts/[0-9]*/*' -type f | head -1)
	same "$(wc -c <"$x")" "$(cat "$x" | wc -c)"
	[ "$(stat -c %s "$x")" -gt 0 ] || fail "an empty expert"
	cmp "$x" <(dd if="$x" bs=1000 status=none) || fail "reads differ"
	python3 - "$x" <<'PY' || fail "cannot be mapped"
import mmap, sys
with open(sys.argv[1], 'rb') as f, mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as a:
    f.seek(0); assert a[:] == f.read()
PY
}
claim "an expert's file can be read and mapped" expert_bytes
finish
