#!/usr/bin/env bash
# Sizes, numbers and names, on the command line and in cache/: accepted values, what auto does, and refusals, which quote
# what was typed.
. "$(dirname "$0")/lib.sh"
mkdir -p "$mnt"
# Unmounts a mount that should have been refused.
trap 'while fusermount3 -u "$mnt" 2>/dev/null; do :; done; clean_up' EXIT

refuses() { # OPTION WORD…: status 1, the option as it was typed in the message, and nothing mounted
	local option=$1 word
	shift
	for word in "$option" "$@"; do fails_with "$word" "$MOEFS" -o "$option" "$MODEL" "$mnt"; done
	grep -q " $mnt " /proc/self/mountinfo && fail "$option: something is mounted"
	return 0
}
numbers() {
	local name value
	for name in threads context chunk; do
		for value in -1 -5 0 1.5 4x 0x10 4294967296 99999999999999999999 many ''; do
			refuses "$name=$value" "whole number" auto
		done
	done
	refuses threads=5000 1024
	refuses chunk=5000 4096
	refuses context=4000000000 16777216
}
claim "invalid, negative or absurd numbers are refused with what was typed" numbers
sizes() {
	local value
	for value in much -4G 0 1.5 4X 101% -5% 18446744073709551616 ''; do
		refuses "budget=$value" 1.5G 50% auto
		refuses "context_budget=$value" 1.5G 50% auto
		refuses "offload=$value" 20G off auto
		refuses "remember_size=$value" 512M auto
	done
}
claim "invalid sizes are refused with what was typed" sizes
names() {
	local before
	cd "$work" || exit
	before=$(ls -A)
	refuses store= folder
	refuses remember= folder
	same "$(ls -A)" "$before" "what is in the working directory"
	refuses quant=tq9 tq3
	refuses quant= tq3
	refuses codec=zip zstd
	refuses fsname= source
}
claim "an empty -o store= is refused, and so are names that there are not" names
unknown() { # the message is moefs' own and not libfuse's
	local said
	for said in "-o colour=blue" "-o budgets=4G" "-x" "--colour" "-o allow_other=1" "-o max_read=x"; do
		fails_with "moefs: $said: there is no such option; see moefs --help" "$MOEFS" $said "$MODEL" "$mnt"
		same "$("$MOEFS" $said "$MODEL" "$mnt" 2>&1 | wc -l)" 1 "lines about $said"
	done
	fails_with "moefs: -o budget= is not a size" "$MOEFS" -o budget "$MODEL" "$mnt"
	same "$("$MOEFS" "$MODEL" "$mnt" -o 2>&1)" "moefs: -o needs an option after it; see moefs --help"
	fails_with allow_root "$MOEFS" -o allow_other,allow_root "$MODEL" "$mnt"
}
claim "an unknown or half an option is named, in one line" unknown

advised() { # the size that the message suggests is accepted
	local size
	size=$("$MOEFS" -o "quant=tq3,budget=1,store=$store" "$MODEL" "$mnt" 2>&1 | sed -n 's/.*one expert takes \([0-9]*\) .*/\1/p')
	[ -n "$size" ] || fail "no size is advised"
	fails_with "$size" "$MOEFS" -o "quant=tq3,budget=$((size - 1)),store=$store" "$MODEL" "$mnt"
	mounted -o "quant=tq3,budget=$size"
	loaded
	same "$(cat ../cache/budget)" "$((size / 1024))K"
	shell_fails_with "Numerical result out of range" "echo $((size - 1)) > ../cache/budget"
	grep -q "at least $size" ../error || fail "$(cat ../error)"
	same "$(ask "What is the capital of France?" | tail -n 1)" "The capital of France is Paris."
	cd / && unmounted
	rm -rf "$store" # a later mount would take it
}
claim "the budget that a refusal advises is accepted" advised

memory() { # bytes: the machine's, or the control group's limit
	local kib
	kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
	echo $((kib * 1024))
}
mounted -o budget=1.5MB,context_budget=0.5GiB,threads=auto,context=auto,chunk=auto,quant=auto,codec=auto
loaded
stat_of() { awk -v key="$1" '$1 == key { print $2 }' ../cache/stats; }
taken() {
	local half
	same "$(cat ../cache/budget)" 1536K
	same "$(cat ../cache/context_budget)" 512M
	same "$(cat info/recipe)" "3bit, the default for models whose experts, in 4bit, do not fit the budget"
	echo 2.5m > ../cache/budget && same "$(cat ../cache/budget)" 2560K || exit
	echo 50% > ../cache/context_budget || fail "50% is refused"
	half=$(stat_of context_budget)
	[ "$half" -gt 0 ] && [ "$half" -le $(($(memory) / 2)) ] || fail "50% are $half bytes of $(memory)"
	echo 25% > ../cache/context_budget || exit
	[ $((half - 2 * $(stat_of context_budget))) -le 2097152 ] || fail "25% are $(stat_of context_budget), 50% $half"
	shell_fails_with "Invalid argument" "echo 101% > ../cache/budget"
	grep -qF "\"101%\"" ../error || fail "$(cat ../error)"
	shell_fails_with "Invalid argument" "echo -1 > ../cache/context_budget"
	grep -qF "\"-1\"" ../error || fail "$(cat ../error)"
}
claim "1.5MB, 0.5GiB, 2.5m and 50% are sizes" taken
automatic() {
	local name
	echo 3M > ../cache/context_budget && same "$(cat ../cache/context_budget)" 3M || exit
	echo auto > ../cache/context_budget || fail "context_budget refuses it"
	differ "$(cat ../cache/context_budget)" 3M "what context_budget was set to"
	echo lru no-shield > ../cache/policy && echo auto > ../cache/policy || exit
	same "$(cat ../cache/policy)" scales
	echo auto > ../cache/budget && same "$(stat_of budget_asked)" auto || exit
	mkdir sessions/untouched
	for name in temperature top_k top_p min_p max_tokens seed experts_per_token drop_missing; do
		echo auto > sessions/untouched/params/$name || fail "$name refuses auto"
	done
	mkdir sessions/a
	for name in temperature top_k top_p min_p max_tokens seed experts_per_token drop_missing; do
		echo 1 > sessions/a/params/$name && echo auto > sessions/a/params/$name || fail "$name"
		same "$(cat sessions/a/params/$name)" "$(cat sessions/untouched/params/$name)" "$name after auto"
	done
	for name in chat stream; do
		echo off > sessions/a/params/$name && echo auto > sessions/a/params/$name || fail "$name"
		same "$(cat sessions/a/params/$name)" on "$name after auto"
	done
	differ "$(cat sessions/a/params/temperature)" 1 temperature # the model says .7 or so
	echo auto > sessions/a/params/system && same "$(cat sessions/a/params/system)" auto "a text that says auto"
	rmdir sessions/a sessions/untouched
}
claim "auto puts every setting back to its default" automatic
finish
