#!/bin/bash
# Thinking: on, off and by level, and the file thoughts, which is read like output; with a scripted model.
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || skip_all "no jq"
gen='<|im_end|>
<|im_start|>assistant
'
off='<think>

</think>

'
long=$(for i in $(seq 40); do printf 'Thought number %s is about %s birds. ' "$i" "$((i * 7))"; done)
jq -n --arg gen "$gen" --arg off "$off" --arg long "$long" '[
	{after: ("Is seven a prime number?" + $gen), say: "<think>\nTwo does not divide it.\nNor does three.\n</think>\n\nSeven is a prime."},
	{after: ("Is seven a prime number?" + $gen + $off), say: "Yes, it is."},
	{after: ("Is seven a prime number?" + $gen + "<low>\n"), say: "<think>\nSure.\n</think>\n\nIt is, I guess."},
	{after: ("Is seven a prime number?" + $gen + "<high>\n"), say: "<think>\nLet me see once more.\n</think>\n\nIt certainly is."},
	{after: ("Think of many birds." + $gen), say: ("<think>\n" + $long + "\n</think>\n\nMany birds.")},
	{after: ("And is eight one, too?" + $gen), say: "<think>\nFour is half of it.\n</think>\n\nEight is none."},
	{after: ("Do not think of it." + $gen), say: "I do not."},
	{after: ("Stop me, if you can." + $gen), say: "<think>\nHALT is a word.\n</think>\n\nI say HALT and go on."}]' >"$work/script.json"
scripted "$work/script.json" "" "$here/conversation.jinja"
mounted
loaded
in_session() { # COMMAND
	mkdir "sessions/$1" && cd "sessions/$1" && echo auto > params/max_tokens || exit
	"$@"
	cd "$m" && rmdir "sessions/$1"
}
prime="Is seven a prime number?"
finish_is() { same "$(awk '$1 == "finish" { print $2 }' stats)" "$1" finish; }

both() {
	same "$(cat thoughts)" "" "before the first turn"
	same "$(ask "$prime")" "Seven is a prime."
	same "$(cat thoughts)" "Two does not divide it.
Nor does three."
	same "$(stat -c %s thoughts)" "$(cat thoughts | wc -c)" size
	same "$(jq -r '.[1].thinking' messages.json)" "$(cat thoughts)"
	same "$(jq -r '.[1].content' messages.json)" "Seven is a prime."
	same "$(ask "Do not think of it.")" "I do not."
	same "$(cat thoughts)" "" "of an answer without any"
	same "$(stat -c %s thoughts)" 0
}
claim "thoughts and the answer are two texts" in_session both

chosen() {
	printf '%s\n' "It is none." "Seven is a prime." "No idea." >choices
	echo choices >params/format
	echo 3 >params/max_tokens
	same "$(ask "$prime")" "Seven is a prime."
	same "$(cat thoughts)" "Two does not divide it.
Nor does three."
	same "$(jq -r '.[1] | .thinking, .content' messages.json)" "$(cat thoughts output)"
	same "$(grep -c . choices.tsv)" 3
	same "$(ask "Do not think of it.")" "$(head -1 choices.tsv | cut -f3)"
	same "$(cat thoughts)" "" "of an answer without any"
}
claim "thoughts come before a choice" in_session chosen

levels() {
	for level in default:"Seven is a prime." on:"Seven is a prime." off:"Yes, it is." low:"It is, I guess." high:"It certainly is."; do
		echo "${level%%:*}" > params/thinking || fail "$level: $(cat error)"
		same "$(cat params/thinking)" "${level%%:*}"
		same "$(ask "$prime")" "${level#*:}" "$level"
		echo reset > ctl
	done
	shell_fails_with "Invalid argument" "echo some > params/thinking"
}
claim "params/thinking: default, on, off and levels" in_session levels

streams() {
	echo "Think of many birds." > prompt
	timeout $limit cat thoughts >"$work/thoughts" & # opened while they come, or after
	timeout $limit cat output >"$work/output"
	wait $!
	same "$(cat "$work/thoughts")" "$(sed 's/ $//' <<<"$long")"
	same "$(cat "$work/output")" "Many birds."
	cat thoughts | cmp - "$work/thoughts" || fail "read again"
}
claim "they stream, and end where the answer begins" in_session streams

gate() {
	for i in $(seq 20); do
		echo "$prime" > prompt; same "$(timeout $limit head -n 1 thoughts)" "Two does not divide it." "the $i. time"
		cat output >/dev/null
		echo "And is eight one, too?" > prompt; same "$(timeout $limit cat thoughts)" "Four is half of it." "the $i. time"
		cat output >/dev/null
	done
}
claim "thoughts opened behind a prompt are that prompt's" in_session gate

left_out() {
	ask "$prime" >/dev/null
	grep -q "Nor does three." rendered || fail "the last thoughts are not in rendered"
	same "$(ask "And is eight one, too?")" "Eight is none."
	! grep -q "Nor does three." rendered || fail "thoughts of an earlier turn are in rendered"
	same "$(jq -r '.[1].thinking' messages.json)" "Two does not divide it.
Nor does three." "and still in messages.json"
}
claim "earlier thoughts are left out as the template wants" in_session left_out

limits() {
	echo 6 > params/max_tokens
	same "$(ask "$prime")" "" "max_tokens counts thoughts"
	finish_is length
	[ -n "$(cat thoughts)" ] || fail "no thoughts"
	same "$(awk '$1 == "output_tokens" { print $2 }' stats)" 6
	echo auto > params/max_tokens
	printf '%s\n' WHOA HALT > params/stop
	same "$(ask "Stop me, if you can.")" "I say " "stop texts apply behind them"
	same "$(cat thoughts)" "HALT is a word."
	finish_is stop
	same "$(awk '$1 == "stop_text" { print $2 }' stats)" 2 "which of the stop texts"
}
claim "max_tokens counts thoughts, and stop texts apply behind them" in_session limits

refused() {
	ask "$prime" >/dev/null
	echo "one" > params/seed 2>/dev/null
	python3 - <<'PY' || fail python # a refused prompt: nobody takes the thoughts before for his
import errno, os
def read(name):
    try: return open(name).read()
    except OSError as e: return e.errno
f = os.open("prompt", os.O_WRONLY)
os.write(f, b"mine")
try:
    os.open("prompt", os.O_WRONLY)
    raise SystemExit("not refused")
except OSError as e: assert e.errno == errno.EBUSY, e
os.ftruncate(f, 0)
os.close(f)
assert read("thoughts") == errno.EIO and read("thoughts") == errno.EIO
assert read("output") == errno.EIO
assert read("thoughts") and read("output") == "Seven is a prime.\n"
PY
}
claim "after a refused prompt thoughts are EIO until output has said so" in_session refused

polls() {
	python3 - <<'PY' || fail python
import os, select
f = os.open("thoughts", os.O_RDONLY | os.O_NONBLOCK)
with open("prompt", "w") as p: p.write("Think of many birds.")
f = os.open("thoughts", os.O_RDONLY)
poll = select.poll(); poll.register(f, select.POLLIN)
got = b""
while True:
    poll.poll()
    piece = os.read(f, 1 << 16)
    if not piece: break
    got += piece
assert got == open("thoughts", "rb").read() and got.endswith(b"birds.\n"), got
PY
}
claim "poll on thoughts" in_session polls
cd / && unmounted
MODEL=$root/examples/models/fable-moe-15m
m=$mnt/fable-moe-15m
mounted
loaded
unread() {
	for value in on off low; do shell_fails_with "Invalid argument" "echo $value > sessions/default/params/thinking"; done
	grep -q "does not use" error || fail "error says: $(cat error)"
	same "$(cat sessions/default/params/thinking)" default
	ask "What is 1 plus 1?" >/dev/null && same "$(cat thoughts)" ""
}
claim "a variable that a template does not use is EINVAL" unread
finish
