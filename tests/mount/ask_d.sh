#!/bin/bash
# ask.d/NAME: a conversation by name, for shells that cannot open a file for reading and writing.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded
capital="The capital of France is Paris."

asks() {
	echo "What is the capital of France?" > ask.d/one || fail "refused"
	same "$(stat -c %a ask.d/one)" 600
	same "$(timeout $limit cat ask.d/one)" "$capital"
	[ ! -e ask.d/one ] || fail "it is still there"
	same "$(ls ask.d)" ""
	fails_with "No such file" cat ask.d/one
}
claim "write, close, read; gone when read to its end" asks

shells() {
	local shell
	for shell in sh dash bash zsh fish busybox; do
		command -v $shell >/dev/null || continue
		[ $shell = busybox ] && shell="busybox sh"
		same "$(timeout $limit $shell -c 'echo "What is the capital of France?" > ask.d/x; cat ask.d/x')" "$capital" "$shell"
	done
}
claim "in every shell" shells

many() {
	seq 48 | xargs -P 8 -I{} sh -c 'echo "What is {} plus 1?" > ask.d/q{}; [ -n "$(timeout $limit cat ask.d/q{})" ]' || fail "one of them"
	same "$(ls ask.d)" ""
	for i in $(seq 300); do
		echo "What is the capital of France?" > ask.d/x; same "$(timeout $limit head -c 7 ask.d/x)" "The cap" "the $i. time"
		same "$(timeout $limit cat ask.d/x)" "$capital" "read again, the $i. time"
	done
}
claim "xargs -P 8, and a hundred times the gate" many

waits() { # an early reader waits; several readers each see the whole answer
	echo 64 > sessions/default/params/max_tokens
	echo "Tell me about experts." > ask.d/x
	exec 4<ask.d/x 5<ask.d/x 6<ask.d/x
	cat <&4 >"$work/a" & cat <&5 >"$work/b" & dd of="$work/c" bs=3 status=none <&6 &
	wait
	exec 4<&- 5<&- 6<&-
	[ -s "$work/a" ] && cmp "$work/a" "$work/b" && cmp "$work/a" "$work/c" || fail "the readers differ"
	echo 24 > sessions/default/params/max_tokens
}
claim "several readers each see all of it" waits

left_open() { # programs, such as cat, ask for the attributes of open files
	echo "What is the capital of France?" > ask.d/x
	exec 4<ask.d/x 5<ask.d/x
	same "$(timeout $limit cat <&4)" "$capital"
	[ ! -e ask.d/x ] || fail "it is still there"
	same "$(stat -c %s - <&5)" $((${#capital} + 1)) "size of what is gone"
	same "$(timeout $limit cat <&5)" "$capital"
	exec 4<&- 5<&-
}
claim "a removed file stays readable for those who have it open" left_open

turns() { # the next question needs no read to the end
	echo "What is the capital of France?" > ask.d/x
	until_true [ -s ask.d/x ] || fail "it stays empty"
	same "$(stat -c %s ask.d/x)" $((${#capital} + 1)) "its size once it is complete"
	same "$(head -c 3 ask.d/x)" The
	echo "And what is 2 plus 3?" > ask.d/x || fail "the second turn is refused"
	[ -n "$(cat ask.d/x)" ] && [ ! -e ask.d/x ] || fail "the second answer"
}
claim "a name that was not read to its end goes on with the next turn" turns

busy() {
	echo 0 > sessions/default/params/max_tokens && echo off > sessions/default/params/chat
	hold_at 16
	echo "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha" > ask.d/x
	shell_fails_with "Device or resource busy" "echo again > ask.d/x"
	LC_ALL=C cat ask.d/x >/dev/null 2>"$work/said" & # by another process than the refused one
	reads $!
	rm ask.d/x || fail rm
	let_go
	wait $!
	grep -qE "Input/output error|Stale file" "$work/said" || fail "a waiting reader is told '$(cat "$work/said")'"
	[ ! -e ask.d/x ] || fail "it is still there"
	echo auto > sessions/default/params/chat && echo 24 > sessions/default/params/max_tokens
}
claim "one that is answering is EBUSY, and rm ends it" busy

refused() {
	fails_with "Invalid argument" bash -c 'exec 3<>ask.d/x'
	[ ! -e ask.d/x ] || fail "it was made"
	grep -q "both" error || fail "error says: $(cat error)"
	fails_with "Operation not permitted" mkdir ask.d/folder
	fails_with "File name too long" bash -c "echo q > ask.d/$(printf 'x%.0s' $(seq 256))"
	fails_with "Invalid argument" bash -c $'echo q > "ask.d/a\nb"'
	most=$(cat info/max_prompt_bytes)
	head -c $((most + 10)) /dev/zero | tr '\0' x >"$work/long"
	fails_with "File too large" dd if="$work/long" of=ask.d/long bs=64K status=none
	fails_with "Input/output error" bash -c "cat $work/long > ask.d/long 2>/dev/null; cat ask.d/long"
	rm ask.d/long
	: > ask.d/nothing && same "$(cat ask.d/nothing)" "" && rm ask.d/nothing
	fails_with "No such file" rm ask.d/nothing
	fails_with "Operation not permitted" mv ask.d sessions/ask.d
}
claim "an invalid question is refused with a reason" refused

full() {
	for i in $(seq 64); do : > ask.d/n$i || fail "the ${i}th"; done
	shell_fails_with "Disk quota exceeded" "echo q > ask.d/n65"
	grep -q "64 names" error || fail "error says: $(cat error)"
	same "$(ls ask.d | wc -l)" 64
	rm ask.d/n1 && echo "What is the capital of France?" > ask.d/n65 && same "$(cat ask.d/n65)" "$capital"
	rm -rf ask.d/* && same "$(ls ask.d)" ""
}
claim "a user may have 64 of them" full

looking() {
	echo "What is the capital of France?" > ask.d/x
	find . -name x -size -1000 >/dev/null && ls -la ask.d >/dev/null && stat ask.d/x >/dev/null
	same "$(cat ask.d/x)" "$capital"
	same "$(ls sessions)" default
}
claim "looking at a name leaves it" looking

left() {
	unmounted
	[ ! -e "$m/ask.d" ] || fail "not unmounted"
}
others_name() {
	mounted -o allow_other
	loaded
	echo "What is the capital of France?" > ask.d/mine || fail "refused"
	chmod 755 "$work"
	fails_with "Permission denied" setpriv --reuid 65534 --regid 65534 --clear-groups cat "$m/ask.d/mine"
	fails_with "Permission denied" setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "echo q > $m/ask.d/mine"
	fails_with "Operation not permitted" setpriv --reuid 65534 --regid 65534 --clear-groups rm -f "$m/ask.d/mine"
	same "$(setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "echo 'What is the capital of France?' > $m/ask.d/other; cat $m/ask.d/other")" "$capital"
	same "$(cat ask.d/mine)" "$capital"
}
echo "Tell me about experts." > ask.d/left
cd /
claim "an answer that is neither read nor removed does not delay an unmount" left
unmounted
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	claim "another user's name is EACCES, and he has names of his own" others_name
else
	echo "ok another user's name # skip: only root becomes another user"
fi
finish
