#!/usr/bin/env bash
# The daemon is killed KILLS (100) times at random moments: while it converts, while sessions run, while a state is
# copied in and out. After each the next mount works at the same place, and a sure question gets its answer. At the end
# the store is what an undisturbed conversion makes, to the byte.
#
#     KILLS=100 SEED=1 tests/soak/kills.sh
. "$(dirname "$0")/../mount/lib.sh"
kills=${KILLS:-100}
RANDOM=${SEED:-$$}
question="What is the capital of France?" answer="The capital of France is Paris."
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "the answers are those of fable-moe-15m, not of $MODEL"
echo "# seed ${SEED:-$$}, $kills kills"

busy() { # until the mount is gone
	local i=0
	while echo "ha ha ha ha" >prompt && [ $((i += 1)) -lt 1000 ]; do
		mkdir "sessions/$1-$i" && echo "$question" >"sessions/$1-$i/prompt"
		cp sessions/default/state "$work/state.$1" && cp "$work/state.$1" "sessions/$1-$i/state"
		cat "sessions/$1-$i/output"
	done
}
# Somebody is at work, and then the daemon is gone: mostly within what a conversion takes, at times later.
killed_once() {
	[ $((RANDOM % 4)) = 0 ] && rm -rf "$store" # a conversion from the beginning
	mounted -o budget=2M
	for i in 1 2; do (busy $i) >/dev/null 2>&1 & done
	sleep "0.$((RANDOM % 10))$((RANDOM % 10))" # when it happens is the one thing that is random here
	kill -9 "$daemon"
	cd /
	wait
	unmounted
}
again() {
	mounted
	loaded
	same "$(ask "$question")" "$answer"
	cd /
	unmounted
}
hundred() {
	local i
	for i in $(seq "$kills"); do
		killed_once
		(again) || fail "after kill $i"
	done
}

limit=$((kills * 60)) claim "after each of $kills kills the next mount answers" hundred

whole() {
	mounted
	loaded
	complete
	cd / && unmounted
	mv "$store" "$work/killed"
	mounted
	loaded
	complete
	cd / && unmounted
	for file in experts.safetensors dense.safetensors; do
		cmp "$(find "$work/killed" -name $file)" "$(find "$store" -name $file)" || fail "$file differs"
	done
}
claim "and the store is what an undisturbed conversion makes" whole
finish
