#!/usr/bin/env bash
# moefs top and the totals of cache/stats: what a mount does, in plain text for a pipe; sessions of others are counted and not
# shown; looking does not keep a model from being unloaded.
. "$(dirname "$0")/lib.sh"
chmod 755 "$work"
options=temperature=0,max_tokens=24
[ "$(id -u)" = 0 ] && options+=,allow_other
mounted -o "$options"
loaded
top() { timeout $limit "$MOEFS" top "$@" 2>"$work/errors"; }
value() { sed -n "s/^$2 //p" "$1"; }
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
question="What is the capital of France?"

counts() {
	local before after
	before=$(cat ../cache/stats)
	ask "$question" >/dev/null
	after=$(cat ../cache/stats)
	of() { sed -n "s/^$2 //p" <<<"$1"; }
	same "$(($(of "$after" turns) - $(of "$before" turns)))" 1
	same "$(($(of "$after" output_tokens) - $(of "$before" output_tokens)))" "$(value stats output_tokens)"
	same "$(($(of "$after" prompt_tokens) - $(of "$before" prompt_tokens)))" "$(value stats prompt_tokens)"
	same "$(of "$after" sessions) $(of "$after" working)" "1 0"
	exec 3<>ask && same "$(value ../cache/stats sessions)" 2 "with an open question"
	exec 3>&-
	same "$(jq .turns ../cache/stats.json)" "$(value ../cache/stats turns)"
}
needs jq claim "cache/stats has totals of all turns" counts

prints() {
	top "$mnt" >"$work/page" || fail "status $?: $(cat "$work/errors")"
	same "$(grep -c $'\033' "$work/page")" 0
	same "$(sed -n 1p "$work/page")" "moefs $mnt"
	grep -qx 'speed     0.0 tokens/s of answers, 0.0 of prompts' "$work/page" || fail "$(cat "$work/page")"
	grep -q "^turns     $(value ../cache/stats turns), 0 of them remembered; $(value ../cache/stats output_tokens) tokens of answers" "$work/page" ||
		fail "$(cat "$work/page")"
	grep -Eqx ' *done +[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+  fable-moe-15m default' "$work/page" || fail "$(cat "$work/page")"
	grep -qx 'sessions  1, 0 at work, 0 hidden' "$work/page" || fail "$(cat "$work/page")"
	diff <(cat experts/map) <(tail -n "$(wc -l <experts/map)" "$work/page") || fail "the map"
	top fable-moe-15m | grep -qxF "moefs $mnt" || fail "by the model's name"
	top | grep -qxF "moefs $mnt" || fail "among all mounts"
	same "$(top -n 2 "$mnt" | grep -c '^speed')" 2
}
claim "it prints once into a pipe, as plain text" prints

hides() {
	other mkdir sessions/theirs
	top "$mnt" >"$work/page"
	grep -q "theirs" "$work/page" && fail "who mounted sees another user's: $(cat "$work/page")"
	grep -qx 'sessions  2, 0 at work, 1 hidden' "$work/page" || fail "$(cat "$work/page")"
	other timeout $limit "$MOEFS" top "$mnt" >"$work/page" || fail "status $?"
	grep -q "fable-moe-15m theirs$" "$work/page" || fail "their own: $(cat "$work/page")"
	grep -q "fable-moe-15m default$" "$work/page" && fail "another user's"
	grep -qx 'sessions  2, 0 at work, 1 hidden' "$work/page" || fail "$(cat "$work/page")"
	other rmdir sessions/theirs
}
if [ "$(id -u)" = 0 ] && other test -x "$MOEFS"; then
	claim "sessions of others are counted as hidden" hides
else
	echo "ok sessions of others are counted as hidden # skip: only root can be another user, who can run $MOEFS"
fi

escapes() {
	local name=$'a\033[2J\nb'
	mkdir "sessions/$name" || return 0 # no such name
	top "$mnt" >"$work/page"
	rmdir "sessions/$name"
	same "$(grep -c $'\033' "$work/page")" 0
	grep -qF 'fable-moe-15m a\033[2J\012b' "$work/page" || fail "$(cat "$work/page")"
}
claim "names cannot write to the terminal" escapes

screens() {
	python3 - "$MOEFS" "$mnt" <<'PY' || fail "see above"
import os, pty, sys
pid, fd = pty.fork()
if not pid:
    os.execv(sys.argv[1], [sys.argv[1], "top", sys.argv[2]])
seen = b""
while b"\x1b[J" not in seen:
    seen += os.read(fd, 4096)
os.write(fd, b"q")
try:
    while True:
        piece = os.read(fd, 4096)
        if not piece: break
        seen += piece
except OSError:
    pass
status = os.waitpid(pid, 0)[1]
assert status == 0, status
assert seen.startswith(b"\x1b[?1049h") and seen.endswith(b"\x1b[?1049l"), seen
assert b"moefs " + os.fsencode(sys.argv[2]) in seen, seen
PY
}
needs python3 claim "a terminal shows it until q" screens

stops() {
	kill -STOP "$daemon"
	timeout 60 "$MOEFS" top "$mnt" >"$work/page" 2>"$work/errors"
	kill -CONT "$daemon"
	grep -qxF "moefs: $mnt: does not answer" "$work/errors" || fail "$(cat "$work/page" "$work/errors")"
}
claim "a mount that does not answer is not waited for" stops

rests() {
	ask "$question" >/dev/null
	is_unloaded() { [ "$(cat info/state)" = unloaded ]; }
	"$MOEFS" top -n 1000 "$mnt" >/dev/null &
	until_true is_unloaded || fail "it is $(cat info/state)"
	kill $!
	top "$mnt" | grep -qx 'fable-moe-15m (unloaded)' || fail "it says otherwise"
	is_unloaded || fail "it was loaded"
}
# A mount of its own: any other look at a loaded model would have to come within these two seconds.
cd / && unmounted
mounted -o "$options,idle=2s"
claim "looking does not put off idle=" rests

refuses() {
	fails_with "usage: moefs top" "$MOEFS" top -n 0
	fails_with "usage: moefs top" "$MOEFS" top a b
	fails_with "nowhere is no mount of moefs" "$MOEFS" top nowhere
}
claim "what is wrong is said" refuses
finish
