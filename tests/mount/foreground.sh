#!/usr/bin/env bash
# In the foreground: a progress bar while a model is converted and warmed, only on a terminal; a line for each answered
# prompt with -v; and systemd is notified when the tree answers. A stalling disk makes the bar last long enough to see.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip_all "script (util-linux) is not here to make a terminal"
mkdir -p "$mnt"
faulty_disk
model=$(basename "$MODEL")
experts="$model*experts.safetensors"
typed=$work/typescript

begin() { # COMMAND…: until its tree answers
	"$@" </dev/null >"$work/terminal" 2>"$work/stderr" &
	until_true [ -e "$mnt/pid" ]
	daemon=$(cat "$mnt/pid") || { echo "not ok it mounts: $(cat "$work/stderr" "$typed")"; exit 1; }
}
on_terminal() { begin script -qfec "exec '$MOEFS' -f -v -o 'store=$store,temperature=0,max_tokens=24' '$MODEL' '$mnt'" "$typed"; }
shown() { # PATTERN: in the terminal's output, one line for each line that replaced another
	tr '\r' '\n' <"$typed" | sed 's/\x1b\[K//' | grep -E "$1"
}
until_shown() {
	until_true shown "$1" >/dev/null || fail "not shown: $1, in: $(tail -c 500 "$typed")"
}

# ---- a first mount ----

faults "* write stall=0 after=300"
on_terminal
bar="^moefs: $model: \\[#*\\.*\\]"
converting() {
	stalled && until_shown "$bar converting [0-9]+ % [0-9.]+/[0-9.]+ .?B" &&
		grep -E '^converting [0-9]+ % [0-9.]+/[0-9.]+ .?B' "$m/info/progress"
}
width() { # the bar fills from the left and keeps its width
	same "$(shown "$bar" | sed 's/.*\[\(.*\)\].*/\1/' | awk '{ print length($0) }' | sort -u)" 24
}
line() {
	faults && complete
	(cd "$m" && ask "What is 12 x 6?") | grep -q . || fail "no answer"
	until_shown "^moefs: [0-9:]{8} $model/sessions/default: [0-9]+ tokens in .* hits, [0-9]+ misses, [a-z]+\$"
	! shown '^moefs: .*(12 x 6|= 72)' || fail "a text is shown"
	same "$(tr -d '\r' <"$typed" | grep -cE "misses, [a-z]+.?moefs")" 0 "lines that are run together"
}
gone() {
	"$MOEFS" umount "$mnt" && until_true not alive "$daemon"
}
claim "on a terminal a conversion has a bar, and info/progress its words" converting
claim "…as wide at any time" width
claim "with -v each answered prompt has a line, after the bar's" line
claim "it ends when it is unmounted" gone
daemon=

# ---- a second one, of a store that is complete ----

warm() {
	faults "$experts read stall=0 after=10"
	on_terminal
	stalled && until_shown "$bar warming [0-9]+ % [0-9]+/[0-9]+ experts" &&
		grep -qE '^warming [0-9]+ % [0-9]+/[0-9]+ experts$' "$m/info/progress" || fail "$(cat "$m/info/progress")"
	faults
	complete
	gone
}
claim "warming has one, too" warm

# ---- without a terminal ----

quiet() {
	begin env NOTIFY_SOCKET="$work/notify" "$MOEFS" -f -v -o "store=$store" "$MODEL" "$mnt"
	complete
	kill "$daemon" && until_true not alive "$daemon"
	same "$(cat "$work/stderr")" "" "what is said"
}
notified() { # READY once the tree answers, STOPPING at the end
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); s.settimeout(int(sys.argv[2])); print("bound", flush=True)
for i in range(2): print(s.recv(4096).decode(), flush=True)' "$work/notify" "$limit" >"$work/told" &
	local listener=$!
	until_true grep -q bound "$work/told"
	quiet
	wait $listener
	same "$(cat "$work/told")" "bound
READY=1
STOPPING=1"
}
if command -v python3 >/dev/null; then
	claim "elsewhere there is no bar, and systemd is told of the beginning and the end" notified
else
	claim "elsewhere there is no bar" quiet
fi
finish
