#!/usr/bin/env bash
# Opt-in losses through the mount: off by default, refused with a reason, named in stats and counted when on.
. "$(dirname "$0")/lib.sh"
mounted -o budget=512K # some 18 of the 256 experts
loaded

stat_of() { awk -v key="$1" '$1 == key { print substr($0, length(key) + 2) }' stats; }
own=$(cat info/experts_per_token)
params=sessions/default/params

off() {
	same "$(cat $params/experts_per_token)" 0 && same "$(cat $params/drop_missing)" 0
	ask "What is the capital of France?" >"$work/exact"
	same "$(stat_of experts_dropped)" 0
	same "$(stat_of lossy)" "" "lossy"
	echo "$own" >$params/experts_per_token || fail "the model's own number is refused"
	echo reset >ctl
	same "$(ask "What is the capital of France?")" "$(cat "$work/exact")" "with the model's own number"
	same "$(stat_of lossy)" "" "lossy with the model's own number"
}
claim "nothing is lost by default" off

refused() {
	fails_with "Numerical result out of range" tee $params/experts_per_token <<<$((own + 1))
	grep -q "info/experts_per_token" ../error || fail "error says: $(cat ../error)"
	fails_with "Invalid argument" tee $params/experts_per_token <<<few
	fails_with "Numerical result out of range" tee $params/drop_missing <<<1.5
	fails_with "Invalid argument" tee $params/drop_missing <<<light
	same "$(cat $params/drop_missing)" 0
}
claim "wrong values are refused with a reason" refused

on() {
	echo 2 >$params/experts_per_token && echo 0.3 >$params/drop_missing || fail "refused"
	same "$(cat $params/experts_per_token $params/drop_missing | paste -sd' ')" "2 0.3"
	ask "What is the capital of Peru?" >/dev/null
	same "$(stat_of lossy)" "experts_per_token=2 drop_missing=0.3"
	[ "$(stat_of experts_dropped)" -gt 0 ] || fail "nothing was dropped"
	echo 0 >$params/experts_per_token && echo 0 >$params/drop_missing
	echo reset >ctl
	same "$(ask "What is the capital of France?")" "$(cat "$work/exact")" "switched off again"
	same "$(stat_of lossy)" "" "lossy, switched off again"
}
claim "active losses are named and counted, and can be switched off again" on
finish
