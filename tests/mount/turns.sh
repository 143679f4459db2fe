#!/bin/bash
# Prompts and answers: what submits a turn, who may submit, and what a read returns.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded

answers() {
	a=$(ask "What is the capital of France?")
	[ -n "$a" ] || fail "no answer"
	same "$(cat status)" done && same "$(cat wait)" done && same "$(cat prompt)" "What is the capital of France?"
	same "$(cat output)" "$a" "read again"
	same "$(stat -c %s output)" "$(cat output | wc -c)" "size"
	same "$(tail -c 1 output | od -An -c | tr -d ' ')" '\n' "the last byte"
	grep -qF "What is the capital of France?" log || fail "not in the log"
}
claim "echo and cat" answers

loops() {
	for q in "What is the capital of Italy?" "What is 2 plus 3?" "What is the capital of Spain?"; do
		echo "$q" > prompt || fail "refused: $q"
		[ -n "$(cat output)" ] || fail "no answer: $q"
		same "$(cat prompt)" "$q"
	done
}
claim "a for loop of questions" loops

pieces() {
	echo "The first line." >"$work/a"
	{ cat "$work/a"; echo "The second."; } > prompt || fail "refused"
	cat output >/dev/null
	same "$(cat prompt)" "The first line.
The second."
}
claim "{ cat a; echo b; } > prompt is one turn" pieces

other_shells() {
	dash -c 'echo "What is 1 plus 1?" > prompt; timeout $limit cat output >/dev/null' || fail dash
	same "$(cat prompt)" "What is 1 plus 1?" dash
	echo "from cp" >"$work/q" && cp "$work/q" prompt && cat output >/dev/null && same "$(cat prompt)" "from cp"
	echo "from tee" | tee prompt >/dev/null && cat output >/dev/null && same "$(cat prompt)" "from tee"
	cat "$work/q" > prompt && cat output >/dev/null && same "$(cat prompt)" "from cp" cat
	echo "appended" >> prompt && cat output >/dev/null && same "$(cat prompt)" appended
	dd if="$work/q" of=prompt bs=1 status=none && cat output >/dev/null && same "$(cat prompt)" "from cp" dd
	python3 -c '
import subprocess
with open("prompt", "w") as f:
    subprocess.run(["echo", "from a child"], stdout=f)
assert open("output").read().endswith("\n")
assert open("prompt").read() == "from a child\n"' || fail python
}
claim "dash, cp, tee, cat, dd and python submit, too" other_shells

nothing() {
	before=$(cat log)
	: > prompt && echo > prompt && true > prompt && printf '' > prompt
	python3 -c '
import os
f = os.open("prompt", os.O_WRONLY)
os.write(f, b"never mind")
os.ftruncate(f, 0)
os.close(f)'
	same "$(cat wait)" done && same "$(cat log)" "$before" "the log"
}
claim "an empty or truncated prompt starts no turn" nothing

busy() {
	mkdir sessions/busy && cd sessions/busy || exit
	begin_long
	shell_fails_with "Device or resource busy" "echo again > prompt"
	shell_fails_with "Device or resource busy" "echo reset > ctl"
	same "$(stat -c %s output)" 0 "size while it works"
	end_long
	same "$(cat status)" stopped
	echo 4 > params/max_tokens
	echo again > prompt || fail "refused afterwards"
	cat output >/dev/null
	cd .. && rmdir busy
}
claim "a working session refuses a second prompt, until it is stopped" busy

second_writer() {
	mkdir sessions/two && cd sessions/two || exit
	python3 -c '
import errno, os
a = os.open("prompt", os.O_WRONLY)
b = os.open("prompt", os.O_WRONLY)
os.write(a, b"mine")
for attempt in lambda: os.write(b, b"no, mine"), lambda: os.open("prompt", os.O_WRONLY):
    try:
        attempt()
        raise SystemExit("not refused")
    except OSError as e:
        assert e.errno == errno.EBUSY, e
os.close(b)
os.close(a)
assert open("output").read()
assert open("prompt").read() == "mine\n"' || fail "python"
	same "$(cat status)" done
	cd .. && rmdir two
}
claim "of two writers the second is refused, at its open or its write" second_writer

too_long() {
	most=$(cat info/max_prompt_bytes)
	case $most in *[!0-9]*) most=200000 ;; esac
	before=$(cat log)
	shell_fails_with "File too large" "head -c $((most + 10)) /dev/zero | tr '\\0' x > prompt"
	same "$(cat status)" done
	grep -q submitted error || fail "error says: $(cat error)"
	same "$(cat log)" "$before" "the log"
	ask "Still there?" >/dev/null && same "$(cat error)" "" "the error after the next turn"
}
claim "a prompt that is too long is EFBIG, submits nothing, and the session says why" too_long

invalid() {
	printf 'caf\xff\xfe\n' > prompt || fail "refused at write"
	fails_with "Input/output error" cat output
	same "$(cat status)" error
	grep -qi "utf-8" error || fail "error says: $(cat error)"
	grep -qi "utf-8" ../error || fail "the mount's error says: $(cat ../error)"
}
claim "invalid UTF-8 is EIO on the answer, with words" invalid

is_submitted() { [ -n "$(cat prompt)" ]; }
killed() {
	mkdir sessions/killed && cd sessions/killed || exit
	echo 4 > params/max_tokens
	bash -c 'exec 3>prompt; printf "half a quest" >&3; kill -9 $$'
	until_true is_submitted # which it is when the kernel has closed what it had open
	same "$(cat prompt)" "half a quest"
	same "$(cat wait)" done
	cd .. && rmdir killed
}
claim "a killed writer submits what it had written" killed

readers() {
	echo 64 > sessions/default/params/max_tokens
	echo "Tell me about experts." > prompt
	cat output >"$work/r1" &
	dd if=output of="$work/r2" bs=3 status=none &
	cat output >"$work/r3" &
	wait
	[ -s "$work/r1" ] && cmp "$work/r1" "$work/r2" && cmp "$work/r1" "$work/r3" || fail "the readers differ"
}
claim "several readers each see all of one answer" readers

heads() {
	echo "Tell me about experts." > prompt
	[ -n "$(head -c 3 output)" ] || fail "nothing"
	idle
	same "$(cat status)" done
	[ "$(wc -c <output)" -gt 4 ] || fail "the answer did not go on"
}
claim "head -c leaves the answer going on" heads

again() {
	python3 -c '
import os
f = os.open("output", os.O_RDONLY)
first = os.read(f, 100000)
while os.read(f, 100000): pass
open("prompt", "w").write("What is the capital of Italy?\n")
second = b""
while True:
    piece = os.pread(f, 100000, len(second))
    if not piece: break
    second += piece
assert second and second == open("output", "rb").read(), (first, second)'
}
claim "at offset 0 after the end, an open output turns to the newest answer" again

tail_log() {
	timeout $limit tail -f -s 0.1 -n +1 log >"$work/tail" 2>/dev/null &
	ask "What is 7 plus 2?" >/dev/null
	idle
	until_true cmp -s "$work/tail" log
	kill $!
	cmp "$work/tail" log
}
claim "tail -f log follows" tail_log

undo() {
	before=$(cat log)
	ask "What is 5 plus 5?" >/dev/null
	echo undo > ctl || fail "refused"
	same "$(cat log)" "$before"
	echo reset > ctl && same "$(cat log)" "" && same "$(cat status)" idle && same "$(cat output)" ""
}
claim "undo takes the turn back, reset all of them" undo
params_in_a_verb() {
	first=$(ask "What is the capital of France?")
	echo 'retry max_tokens=2  logprobs=1' > ctl || fail "refused"
	short=$(cat output)
	[ -n "$short" ] && [ "$short" != "$first" ] && [ "${first#"$short"}" != "$first" ] || fail "'$short' of '$first'"
	same "$(cat sessions/default/params/max_tokens) $(cat sessions/default/params/logprobs)" "2 1"
	shell_fails_with "Numerical result out of range" "echo retry max_tokens=3 top_p=7 > ctl"
	same "$(cat sessions/default/params/max_tokens)" 2 "what stands before what is refused is not set"
	same "$(cat output)" "$short" "nothing was answered"
	grep -q 'params/top_p: "7"' error || fail "$(cat error)"
	echo 24 > sessions/default/params/max_tokens
	echo 0 > sessions/default/params/logprobs
}
claim "a verb that begins a turn sets params before it" params_in_a_verb

# sshfs splits one read of 128 KiB into four and waits for all of them.
cut_in_pieces() {
	mkdir sessions/cut && cd sessions/cut && begin_long || exit
	python3 - <<-'END' || exit
		import os
		fd = os.open("output", os.O_RDONLY)
		first = os.pread(fd, 32768, 0)
		assert 0 < len(first) < 32768
		assert [os.pread(fd, 32768, n * 32768) for n in (1, 2, 3)] == 3 * [b""], "more than there is"
		with open(os.environ["MOEFS_HOLD"], "w") as hold: hold.write("600\n")
		assert os.pread(fd, 32768, len(first)), "no more where the first ended"
	END
	working
	end_long && cd .. && rmdir cut
}
claim "what lies behind a read that got less than it asked for is not waited for" cut_in_pieces

fsyncs() {
	python3 - <<-'END' || exit
		import errno, os
		def write(text):
		    fd = os.open("messages.json", os.O_WRONLY | os.O_TRUNC)
		    os.write(fd, text)
		    os.fsync(fd)
		    return fd
		try: write(b"[{")
		except OSError as e: assert e.errno == errno.EINVAL, e
		else: raise SystemExit("half a list is taken")
		fd = write(b'[{"role": "user", "content": "Once."}]')
		assert b"Once." in open("messages.json", "rb").read(), "not before it is closed"
		os.close(fd)
	END
}
claim "fsync applies written data, or says why not" fsyncs
finish
