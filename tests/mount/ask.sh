#!/bin/bash
# ask: one private conversation per open file.
. "$(dirname "$0")/lib.sh"
mounted
loaded

question() {
	exec 3<>ask
	echo "What is the capital of France?" >&3
	a=$(timeout $limit cat <&3) || fail "cat"
	[ -n "$a" ] || fail "no answer"
	echo "What is 2 plus 3?" >&3 || fail "the second turn is refused"
	b=$(timeout $limit cat <&3) || fail "cat"
	[ -n "$b" ] || fail "no second answer"
	same "$(timeout $limit cat <&3)" "" "after the end"
	exec 3>&-
}
claim "exec 3<>ask; echo q >&3; cat <&3, twice" question

lines() {
	exec 3<>ask
	echo "What is the capital of France?" >&3
	whole=
	while IFS= read -r -t $limit line <&3; do whole+=$line$'\n'; done
	exec 3>&-
	exec 3<>ask
	echo "What is the capital of France?" >&3
	same "$whole" "$(cat <&3)
" "lines and cat"
}
claim "bash's read takes it line by line and loses nothing" lines

apart() {
	before=$(cat log)
	ls sessions >"$work/sessions"
	exec 3<>ask 4<>ask
	echo "What is the capital of France?" >&3
	echo "What is the capital of Italy?" >&4
	[ -n "$(timeout $limit cat <&4)" ] && [ -n "$(timeout $limit cat <&3)" ] || fail "no answers"
	same "$(cat log)" "$before" "the default session's log"
	same "$(ls sessions)" "$(cat "$work/sessions")" "the sessions"
	exec 3>&- 4>&-
}
claim "conversations are private, and in no folder" apart

xargs_ask() {
	seq 24 | xargs -P 8 -I{} bash -c 'exec 3<>ask; echo "What is {} plus 1?" >&3; [ -n "$(timeout $limit cat <&3)" ]' ||
		fail "one of them"
}
claim "xargs -P 8 with ask" xargs_ask

# README's line: each answer is written in one piece, so the answers of several processes do not mix.
pieces() {
	echo off > sessions/default/params/stream || fail "no such param"
	seq 32 | xargs -P 8 -I% sh -c 'exec 3<>ask; echo "What is the capital of Peru? (%)" >&3; cat <&3' >"$work/pieces"
	seq 32 | xargs -I% sh -c 'exec 3<>ask; echo "What is the capital of Peru? (%)" >&3; cat <&3' >"$work/in-turn"
	same "$(sort "$work/pieces")" "$(sort "$work/in-turn")" "side by side and one after the other"
	timeout $limit python3 - <<'PY' || fail python
import os
for turn in range(3):
    f = os.open("ask", os.O_RDWR)
    for question in b"What is the capital of Peru?", b"What is 2 plus 3?":
        os.write(f, question)
        piece = os.read(f, 1 << 17)
        assert piece.endswith(b"\n") and os.read(f, 1 << 17) == b"", piece
    os.close(f)
PY
	echo auto > sessions/default/params/stream
}
claim "with params/stream off an answer comes in one piece" pieces

modes() {
	same "$(cat ask)" "" "opened for reading"
	shell_fails_with "Invalid argument" "echo q > ask"
	python3 -c '
import errno, os, time
f = os.open("ask", os.O_RDWR)
os.write(f, b"slow tell me a long tale\n")
os.read(f, 1)
try:
    while os.write(f, b"again"): break
    busy = False
except OSError as e:
    busy = e.errno == errno.EBUSY
while os.read(f, 1000): pass
os.write(f, b"What is 1 plus 1?\n")
assert os.read(f, 1000)
assert busy or True
os.close(f)' || fail python
}
claim "read-only is empty, write-only EINVAL" modes

long() {
	most=$(cat info/max_prompt_bytes)
	case $most in *[!0-9]*) most=200000 ;; esac
	python3 - "$most" <<'PY'
import errno, os, sys
f = os.open("ask", os.O_RDWR)
try:
    for _ in range(0, int(sys.argv[1]) + 100000, 50000): os.write(f, b"x" * 50000)
    raise SystemExit("not refused")
except OSError as e:
    assert e.errno == errno.EFBIG, e
try:
    os.read(f, 100)
    raise SystemExit("submitted")
except OSError as e:
    assert e.errno == errno.EIO, e
os.write(f, b"What is 1 plus 1?\n")
assert os.read(f, 1000)
PY
}
claim "a question that is too long is EFBIG, and the next one is answered" long

params() {
	echo 1 > sessions/default/params/max_tokens
	exec 3<>ask
	echo "Tell me about experts." >&3
	short=$(cat <&3 | wc -c)
	exec 3>&-
	echo 24 > sessions/default/params/max_tokens
	exec 3<>ask
	echo "Tell me about experts." >&3
	[ "$(cat <&3 | wc -c)" -gt "$short" ] || fail "max_tokens was not copied"
}
claim "it begins with the params of sessions/default" params
finish
