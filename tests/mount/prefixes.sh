#!/usr/bin/env bash
# Kept prefixes as files: what a conversation has computed is there for the next one that begins alike; `why` says how much
# was found; only the owner reads, removes, touches and pins an entry; and other users find nothing, unless -o share=all.
. "$(dirname "$0")/lib.sh"
chmod 755 "$work"
options=quant=3bit
[ "$(id -u)" = 0 ] && options+=,allow_other
mounted -o "$options"
loaded
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
rules=$(for i in $(seq 40); do printf 'Rule %d is to be brief. ' "$i"; done)
# A session with these rules asks; afterwards it is gone, and $work/why and $work/stats are its.
asks() { # NAME QUESTION [PREFIX of each command…]
	local name=$1 question=$2
	shift 2
	"$@" mkdir "sessions/$name" || fail "mkdir $name"
	printf '%s' "$rules" | "$@" tee "sessions/$name/params/system" >/dev/null
	echo 0 | "$@" tee "sessions/$name/params/temperature" >/dev/null
	echo 12 | "$@" tee "sessions/$name/params/max_tokens" >/dev/null
	echo "$question" | "$@" tee "sessions/$name/prompt" >/dev/null
	"$@" cat "sessions/$name/output" || fail "no answer"
	"$@" cat "sessions/$name/why" >"$work/why" && "$@" cat "sessions/$name/stats" >"$work/stats"
	"$@" rmdir "sessions/$name"
}
found() { sed -n 's/^found_tokens //p' "$work/why"; }
newest() { ls -t prefixes | head -n 1; }
forget() { rm -f prefixes/* && same "$(ls prefixes)" ""; }

shares() {
	local alone
	forget
	alone=$(asks one "What is the capital of Peru?") && same "$(found)" 0
	same "$(asks two "What is the capital of Peru?")" "$alone" "the answer"
	[ "$(found)" -gt 200 ] || fail "$(cat "$work/why")"
	same "$(sed -n 's/^cached_tokens //p' "$work/stats")" "$(found)"
	asks three "What is the capital of Chad?" >/dev/null
	[ "$(found)" -gt 200 ] && grep -q '^reason the texts differ$' "$work/why" && grep -q '^was ".*Peru' "$work/why" && grep -q '^is ".*Chad' "$work/why" ||
		fail "$(cat "$work/why")"
	rules="No. $rules" asks four "What is the capital of Chad?" >/dev/null
	[ "$(found)" -lt 20 ] || fail "$(cat "$work/why")"
}
claim "a second conversation computes only what differs, and why says what that is" shares

has_blocks() { [ "$(stat -c %b "$1")" -gt 1000 ]; }
shows() {
	forget
	asks one "What is the capital of Peru?" >/dev/null
	local entry
	entry=prefixes/$(newest)
	case ${entry##*/} in [0-9]*-????????????????) ;; *) fail "$entry" ;; esac
	same "$(stat -c '%A %u %h' "$entry")" "-rw------- $(id -u) 1"
	same "$(stat -c %s "$entry")" "$(wc -c <"$entry")" "its size"
	grep -q "Rule 40 is to be brief" "$entry" && grep -q "capital of Peru" "$entry" || fail "$(cat "$entry")"
	until_true has_blocks "$entry" || fail "it holds $(stat -c %b "$entry") blocks" # once the session's last step is over
	same "$(stat -c %a prefixes)" 1777
	mkdir sessions/two && printf '%s' "$rules" >sessions/two/params/system
	echo "What is the capital of Peru?" >sessions/two/prompt && cat sessions/two/output >/dev/null
	[ "$(stat -c %h prefixes/* | sort -n | tail -n 1)" = 2 ] || fail "no entry has the session's link: $(ls -l prefixes)"
	rmdir sessions/two
}
claim "an entry shows its text, its memory and its links" shows

owner_does() {
	forget
	asks one "What is the capital of Peru?" >/dev/null
	local entry before
	entry=prefixes/$(newest)
	before=$(stat -c %y "$entry")
	touch "$entry" && differ "$(stat -c %y "$entry")" "$before" "the time"
	chmod +t "$entry" && same "$(stat -c %A "$entry")" "-rw------T"
	fails_with "Device or resource busy" rm "$entry"
	grep -q "pinned" error || fail "error says $(cat error)"
	chmod -t "$entry"
	fails_with "Operation not permitted" chmod 644 "$entry"
	fails_with "Operation not permitted" mv "$entry" "$entry-x"
	fails_with "Operation not permitted" touch prefixes/new
	fails_with "Operation not permitted" mkdir prefixes/new
	rm "$entry" && [ ! -e "$entry" ] || fail "it is still there"
	forget
	asks two "What is the capital of Peru?" >/dev/null
	same "$(found)" 0 "found after rm"
}
claim "its owner touches, pins and removes it, and nothing else" owner_does

gives_way() { # pinned entries hold at most half of the budget, and others go when a session needs memory
	local before i
	forget
	before=$(cat ../cache/context_budget)
	echo 3M >../cache/context_budget
	asks pinned "What is the capital of Peru?" >/dev/null
	chmod +t "prefixes/$(newest)"
	for i in 1 2 3 4 5 6; do
		rules="$i. $rules" asks "s$i" "What is the capital of Chad?" >/dev/null
		[ "$(awk '$1 == "context_used" { print $2 }' ../cache/stats)" -le $((3 << 20)) ] || fail "more than the budget is used"
	done
	rules="1. $rules" asks again "What is the capital of Iran?" >/dev/null
	[ "$(found)" -lt 20 ] || fail "the first one was kept: $(cat "$work/why")"
	grep -q '^reason the same text was kept, but its memory was needed$' "$work/why" && grep -q '^evicted_tokens' "$work/why" ||
		fail "$(cat "$work/why")"
	asks pinned2 "What is the capital of Iran?" >/dev/null
	[ "$(found)" -gt 200 ] || fail "the pinned one was not kept: $(cat "$work/why")"
	LC_ALL=C chmod +t prefixes/* 2>&1 | grep -q "No space left" || fail "all could be pinned"
	chmod -t prefixes/* && echo "$before" >../cache/context_budget && forget
}
claim "memory goes to sessions first, but for pinned entries" gives_way

others() {
	forget
	asks one "What is the capital of Peru?" >/dev/null
	local entry
	entry=prefixes/$(newest)
	asks theirs "What is the capital of Peru?" other >/dev/null
	same "$(found)" 0 "another user found"
	fails_with "Permission denied" other cat "$entry"
	same "$(other stat -c %s "$entry")" 0 "the size that others see"
	fails_with "Operation not permitted" other rm -f "$entry"
	fails_with "Operation not permitted" other chmod +t "$entry"
	fails_with "Permission denied" other touch -c "$entry"
	[ "$(find prefixes -user 65534 | wc -l)" -gt 0 ] || fail "they have none"
	same "$(cat "$(find prefixes -user 65534 | head -n 1)" 2>&1 | grep -c "Rule")" 0 "of another user's, as root"
}
if [ "$(id -u)" = 0 ]; then
	claim "other users find nothing, see nothing, and change nothing" others
	cd / && unmounted && mounted -o "$options,share=all"
	loaded
	all() {
		asks one "What is the capital of Peru?" >/dev/null
		asks theirs "What is the capital of Peru?" other >/dev/null
		[ "$(found)" -gt 200 ] || fail "$(cat "$work/why")"
		fails_with "Permission denied" other cat "prefixes/$(newest)"
	}
	claim "-o share=all lets all users share, and shows nobody's text" all
else
	echo "ok other users # skip: only root can be another user"
fi
finish
