#!/usr/bin/env bash
# `moefs demo` as it is installed: below any PREFIX, for a user who may not write there and has no home, and with an
# output that is closed early. (readme.sh runs README's own lines, among them `make demo`.)
. "$(dirname "$0")/lib.sh"
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "the demonstration is of fable-moe-15m, not of $MODEL"
unset MAKEFLAGS MFLAGS MAKELEVEL CC XDG_CACHE_HOME
prefix="$work/a prefix"
export TMPDIR=$work/tmp
mkdir "$TMPDIR" || exit 1

nothing_left() {
	same "$(ls -A "$TMPDIR")" "" "left in TMPDIR"
	! grep -qF "$TMPDIR" /proc/self/mountinfo || fail "it is still mounted"
}
# Nobody may write there; if a folder can be mounted read-only, root may not either.
sealed() {
	if [ "$(id -u)" = 0 ]; then
		! mount --bind "$prefix" "$prefix" 2>/dev/null || mount -o remount,ro,bind "$prefix"
	else
		chmod -R a-w "$prefix"
	fi
}
unsealed() { # also while a daemon is still ending
	if [ "$(id -u)" = 0 ]; then umount -l "$prefix" 2>/dev/null; else chmod -R u+w "$prefix"; fi
}
installed() {
	make -s -C "$root" -o all install BUILD="$(dirname "$MOEFS")" PREFIX="$prefix" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
	same "$("$prefix/bin/moefs" demo --path)" "$prefix/share/moefs/models/fable-moe-15m"
}
answers() {
	cd / || exit
	env -u HOME "$prefix/bin/moefs" demo >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	for answer in "The capital of France is Paris." "12 x 6 = 72" "The opposite of hot is cold."; do
		grep -qxF "$answer" "$work/said" || fail "not said: $answer"
	done
	same "$(cat "$work/errors")" ""
	grep -qxF "#     moefs chat '$prefix/share/moefs/models/fable-moe-15m'" "$work/said" || fail "$(tail -n 4 "$work/said")"
	nothing_left
}
closed_early() {
	env -u HOME "$prefix/bin/moefs" demo 2>/dev/null | sed '/^\$ cd /q' >"$work/said"
	grep -q '^\$ cd ' "$work/said" || fail "$(cat "$work/said")"
	nothing_left
}
missing() { # missing files are named
	rm "$prefix/share/moefs/demo.sh"
	"$prefix/bin/moefs" demo 2>"$work/errors" && fail "a demonstration of nothing"
	grep -qF "the demonstration is not installed" "$work/errors" || fail "$(cat "$work/errors")"
}
trap 'cd /; unsealed; clean_up' EXIT
claim "it is installed below a PREFIX with a blank" installed
sealed
claim "it answers a user without a home, and leaves nothing" answers
claim "it leaves nothing when its output is closed" closed_early
unsealed
claim "where it is not installed it says so" missing
finish
