#!/usr/bin/env bash
# params/priority in a mount: who waits is in cache/waiting and stats, and a later turn of high priority is answered before
# an earlier one of low priority.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded

asked() { # NAME PRIORITY: is asked, and has to wait
	mkdir "sessions/$1" && echo "$2" >"sessions/$1/params/priority" && echo off >"sessions/$1/params/draft" || return 1
	echo 0 >"sessions/$1/params/temperature"
	echo "What is 12 x 6?" >"sessions/$1/prompt"
}
visible() {
	same "$(grep queued ../cache/waiting)" "queued 0"
	cd sessions/default && begin_long 0 && cd ../.. || exit # every turn pauses before its first row
	until_stands
	asked late low && asked "of all" normal && asked soon high || fail "refused"
	local name
	for name in late "of all" soon; do
		case $(cat "sessions/$name/status") in queued) ;; *) fail "$name: $(cat "sessions/$name/status")" ;; esac
	done
	same "$(grep queued ../cache/waiting)" "queued 3"
	grep -qE '^[^ ]+ of\\040all normal [0-9.]+ turn$' ../cache/waiting || fail "$(cat ../cache/waiting)"
	grep -qE "^$(basename "$MODEL") late low [0-9.]+ turn\$" ../cache/waiting || fail "$(cat ../cache/waiting)"
	grep -qE "^priority low\$" sessions/late/stats && grep -qE "^waits_for turn\$" sessions/late/stats ||
		fail "$(cat sessions/late/stats)"
	cd sessions/default && end_long && cd ../.. || exit
	for name in soon "of all" late; do
		timeout $limit cat "sessions/$name/wait" >/dev/null
		grep -qE "^waits_for -\$" "sessions/$name/stats" || fail "$name: $(cat "sessions/$name/stats")"
	done
	same "$(cat sessions/late/output)" "$(cat sessions/soon/output)"
	same "$(grep queued ../cache/waiting)" "queued 0"
}
claim "turns that wait are in cache/waiting and stats, with their priority and the reason" visible

inherited() {
	echo low >sessions/default/params/priority && mkdir sessions/heir && same "$(cat sessions/heir/params/priority)" low
	echo auto >sessions/default/params/priority && same "$(cat sessions/default/params/priority)" normal
}
claim "a new session begins with the priority of sessions/default" inherited
finish
