#!/bin/bash
# Common programs, each in the way that it is used: their writes arrive, and they read the answer.
# (Python's select and poll are in poll.sh, GNU parallel, watch and make in examples.sh.)
. "$(dirname "$0")/lib.sh"
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "the answers are those of fable-moe-15m, not of $MODEL"
mounted
loaded
question="What is the capital of France?" answer="The capital of France is Paris."
system=sessions/default/params/system
export question answer system HOME=$work TERM=xterm

fresh() { timeout $limit cat wait >/dev/null; echo reset >ctl; }
shell() { # COMMAND…: a shell that runs a script
	fresh
	same "$(timeout $limit "$@" 'echo "$question" > prompt; cat output')" "$answer"
	timeout $limit "$@" 'echo bad > sessions/default/params/seed' 2>/dev/null && fail "a bad value was taken"
	same "$(timeout $limit "$@" 'cat < status')" done
}
for one in bash dash zsh fish "busybox sh"; do
	needs "${one% *}" claim "$one asks, and hears of a bad value" shell $one -c
done

python() {
	fresh
	same "$(timeout $limit python3 -c '
import os, pathlib
pathlib.Path("prompt").write_text(os.environ["question"])
print(open("output").read(), end="")
try: pathlib.Path("sessions/default/params/seed").write_text("bad")
except OSError as e: print(e.strerror)')" "$answer
Invalid argument"
}
claim "Python's files" python

of_jq() {
	jq -n '[{role: "user", content: env.question}]' >messages.json || fail "jq: $?"
	echo answer >ctl
	same "$(cat output)" "$answer"
	same "$(jq -r '.[-1].content' messages.json)" "$answer"
}
needs jq claim "jq makes a conversation, and reads it" of_jq

awks() { # AWK
	fresh
	same "$(timeout $limit "$1" 'BEGIN {
		print ENVIRON["question"] > "prompt"; close("prompt")
		while ((getline line < "output") > 0) print line }')" "$answer"
	same "$(timeout $limit "$1" '$1 == "output_tokens" { print ($2 > 0) }' stats)" 1
}
for one in mawk gawk; do needs $one claim "$one writes and reads" awks $one; done

curls() {
	fresh
	echo "$question" >"$work/question"
	timeout $limit curl -sST "$work/question" "file://$PWD/prompt" || fail "curl -T: $?"
	same "$(cat output)" "$answer"
	same "$(timeout $limit curl -sS "file://$PWD/info/state")" ready
	same "$(timeout $limit curl -sS "file://$PWD/log")" "$(cat log)"
}
needs curl claim "curl -T" curls

tees() {
	fresh
	echo "$question" | tee prompt >/dev/null
	same "$(cat output | tee "$work/copy")" "$answer"
	same "$(cat "$work/copy")" "$answer"
}
claim tee tees

dds() { # dd with the smallest pieces
	fresh
	echo "$question" | dd of=prompt bs=1 conv=notrunc 2>/dev/null || fail "dd of=prompt: $?"
	same "$(dd if=output bs=1 2>/dev/null)" "$answer"
	same "$(dd if=output bs=1 skip=4 count=7 2>/dev/null)" capital
}
claim "dd, byte by byte" dds

rsyncs() {
	fresh
	echo "$question" >"$work/question"
	timeout $limit rsync --inplace "$work/question" prompt || fail "rsync --inplace: $?"
	same "$(cat output)" "$answer"
	complete # while the store grows, info/progress may be shorter than rsync has just found it, which it reports
	timeout $limit rsync -a --exclude=tensors --exclude=experts ./ "$work/copied/" || fail "rsync -a: $?"
	same "$(cat "$work/copied/sessions/default/prompt")" "$question"
	same "$(cat "$work/copied/output")" "$answer"
}
needs rsync claim "rsync, in place and out of the tree" rsyncs

vim=$(command -v vim || echo vim.tiny) # as the package vim-tiny calls it
vims() {
	timeout $limit "$vim" -u NONE -es "$system" -c 'normal iBe brief.' -c wq || fail "vim: $?"
	same "$(cat "$system")" "Be brief."
	timeout $limit "$vim" -u NONE -es "$system" -c '%s/brief/long/' -c wq || fail "vim again: $?"
	same "$(cat "$system")" "Be long."
	timeout $limit "$vim" -u NONE -es "$system" -c q! || fail "vim, unchanged: $?"
	same "$(cat "$system")" "Be long."
}
needs "$vim" claim "vim writes a system text" vims

typed() { # COMMAND; types its own input once the command works on its terminal
	local keys
	keys=$(cat)
	mkfifo "$work/keys" && : >"$work/screen"
	timeout $limit script -qfec "$1" "$work/screen" <"$work/keys" >/dev/null 2>&1 &
	local typist=$!
	exec 8>"$work/keys"
	until_true_by $typist longer "$work/screen" 300 || fail "$1 has ended, or shows nothing"
	printf '%s' "$keys" >&8
	wait $typist
	exec 8>&-
	rm "$work/keys"
}
nanos() {
	echo >"$system"
	printf 'Be kind.\x0f\r\x18' | typed "nano -R '$system'" || fail "nano: $?"
	same "$(head -n 1 "$system")" "Be kind."
}
needs nano needs script claim "nano does, too" nanos
echo >"$system"

tails() {
	fresh
	timeout $limit tail -n +1 -f log >"$work/tailed" &
	local reader=$!
	echo "$question" >prompt
	until_true_by $reader grep -qF "$answer" "$work/tailed" || fail "tail has ended, or shows no answer"
	kill $reader
	grep -qF "$question" "$work/tailed" || fail "the question is not in what tail saw"
}
claim "tail -f log" tails

is_watched() { # by inotifywait, which is a child of timeout
	[ -n "$(grep -s inotify "/proc/$watcher/fdinfo/"* "/proc/$(pgrep -P $watcher)/fdinfo/"* 2>/dev/null)" ]
}
notices() { # inotify reports changes made through the mount
	fresh
	timeout $limit inotifywait -q -m -e close_write prompt >"$work/events" 2>"$work/watching" &
	local watcher=$!
	until_true_by $watcher is_watched || fail "inotifywait has ended, or does not watch: $(cat "$work/watching")"
	echo "$question" >prompt
	until_true_by $watcher grep -q CLOSE_WRITE "$work/events" || fail "no event"
	kill $watcher
	cat output >/dev/null
}
needs inotifywait claim "inotifywait sees a prompt that is written" notices

tmuxes() {
	fresh
	mux() { tmux -f /dev/null -S "$work/tmux" "$@"; }
	shown() { mux capture-pane -p | grep -qF "$answer" || { mux has-session || fail "it has ended"; false; }; }
	mux new-session -d "tail -n +1 -f log" || fail "tmux: $?"
	echo "$question" >prompt
	until_true shown || fail "the pane shows no answer"
	mux kill-server
}
needs tmux claim "a pane of tmux follows the log" tmuxes

edited_by_sed() { # sed -i, which replaces a file, fails and leaves it as it is
	fresh
	echo 7 >sessions/default/params/seed
	timeout $limit sed -i s/7/8/ sessions/default/params/seed 2>/dev/null && fail "sed -i replaced it"
	same "$(cat sessions/default/params/seed)" 7
	timeout $limit sed -i --in-place s/7/8/ sessions/default/params/none 2>/dev/null && fail "sed -i made one"
	echo auto >sessions/default/params/seed
}
claim "sed -i says that it cannot" edited_by_sed
finish
