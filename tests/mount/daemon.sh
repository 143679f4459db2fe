#!/bin/bash
# The command line and the program's life: going to the background, error messages, and clean ends.
. "$(dirname "$0")/lib.sh"
holdable
mkdir -p "$mnt"

helps() {
	"$MOEFS" --help | grep -q MOUNTPOINT && "$MOEFS" -h | grep -q budget= || fail help
	"$MOEFS" --version | grep -q '^moefs [0-9]' && "$MOEFS" -V | grep -q '^moefs' || fail version
}
claim "--help and --version" helps

words() {
	fails_with "moefs --help" "$MOEFS"
	fails_with "mountpoint" "$MOEFS" "$MODEL"
	fails_with "mkdir" "$MOEFS" "$MODEL" "$work/missing"
	fails_with "is not a folder" "$MOEFS" "$MODEL" "$MODEL/config.json"
	fails_with "size" "$MOEFS" -o budget=much "$MODEL" "$mnt"
	fails_with "tq3" "$MOEFS" -o quant=tq9 "$MODEL" "$mnt"
	fails_with "no such option" "$MOEFS" -o colour=blue "$MODEL" "$mnt"
	mkdir "$work/empty"
	fails_with "config.json" "$MOEFS" "$work/empty" "$mnt"
	fails_with "download it first" "$MOEFS" "$work/missing" "$mnt"
	fails_with "hidden by the mount" "$MOEFS" "$MODEL" "$(dirname "$MODEL")"
	grep -q " $mnt " /proc/self/mountinfo && fail "something is mounted"
	return 0
}
claim "an impossible command is an error with a reason and status 1" words

gone() { # the daemon has ended and nothing is mounted
	until_true not alive "$1" || fail "the process is still there"
	grep -q " $mnt " /proc/self/mountinfo && fail "still mounted"
	return 0
}

ends_by() { # SIGNAL, while a session works and someone waits
	mounted
	mkdir sessions/e && cd sessions/e || exit
	begin_long
	begin_reader wait
	reads $reader
	cd /
	kill -"$1" "$daemon"
	gone "$daemon"
	let_go
	wait $reader && fail "the reader succeeded"
	return 0
}
for signal in TERM INT HUP; do claim "SIG$signal unmounts and ends it" ends_by $signal; done

unmounts() {
	mounted
	cd / && user_unmounts "$mnt" || fail fusermount3
	gone "$daemon"
}
claim "fusermount3 -u ends it" unmounts

killed() {
	mounted
	cd / && kill -9 "$daemon"
	until_true not ls "$mnt" >/dev/null 2>&1 # until all of its threads have ended
	fails_with "not connected" ls "$mnt"
	mounted
	same "$(cat wait)" idle
	loaded
	[ -n "$(ask "What is 1 plus 1?")" ] || fail "no answer"
	cd / && user_unmounts "$mnt"
	gone "$daemon"
}
claim "after kill -9 it can be mounted again" killed

foreground() {
	"$MOEFS" -f -o "store=$work/store" "$MODEL" "$mnt" >"$work/fg" 2>&1 &
	pid=$!
	until_true [ -e "$mnt/version" ] || fail "not mounted"
	kill -INT $pid
	wait $pid || fail "status $?: $(cat "$work/fg")"
	gone $pid
}
claim "-f stays in the foreground, and Ctrl-C ends it with status 0" foreground

says_nothing() { # no store is there yet, so it is looked for in vain
	"$MOEFS" -f -o "store=$work/new/store" "$MODEL" "$mnt" >"$work/fg" 2>&1 &
	pid=$!
	until_true [ -e "$mnt/version" ] || fail "not mounted"
	settled >/dev/null
	user_unmounts "$mnt"
	wait $pid || fail "status $?: $(cat "$work/fg")"
	same "$(cat "$work/fg")" "" "said"
}
claim "a first mount in the foreground that goes well says nothing" says_nothing

twice() {
	mkdir -p "$work/other" && ln -sfn "$MODEL" "$work/other/$(basename "$MODEL")"
	timeout $limit "$MOEFS" -o "store=$work/store" "$MODEL" "$work/other/$(basename "$MODEL")" "$mnt" || fail mount
	daemon=$(pgrep -n -f -- " $mnt\$")
	same "$(ls -d "$mnt"/*/info | wc -l)" 2 "models"
	[ -e "$m-2/prompt" ] || fail "the second is not called $(basename "$MODEL")-2: $(ls "$mnt")"
	user_unmounts "$mnt"
	gone "$daemon"
}
claim "two models of one name are told apart" twice
daemon=
# ---- interrupted before it is mounted ----

# The model's disk stalls, so that the process that waits for the daemon is interrupted before anything is mounted.
cp -r "$MODEL" "$work/model"
faulty_disk
mkdir "$work/disk/model" && cp -r "$work/model/." "$work/disk/model" || exit
begin_stalled() {
	faults "model/config.json read stall=0"
	env --default-signal=INT,TERM,HUP "$MOEFS" -o "store=$work/store" "$work/faulty/model" "$mnt" 2>"$work/said" &
	starter=$!
	stalled
	waiting=$(pgrep -P "$starter")
	[ "$waiting" ] || fail "nothing was begun"
}
interrupted() { # SIGNAL: the command ends by this signal, but only after the daemon has ended
	begin_stalled
	kill -"$1" "$starter"
	until_true at_rest "$starter"
	alive "$starter" || fail "it has ended, and the daemon goes on"
	faults
	wait "$starter"
	same $? $((128 + $(kill -l "$1"))) status
	! alive "$waiting" || fail "the daemon goes on"
	gone "$waiting"
}
for signal in INT TERM HUP; do claim "SIG$signal while it is being mounted leaves nothing behind" interrupted $signal; done

interrupted_twice() {
	begin_stalled
	kill -INT "$starter"
	until_true at_rest "$starter"
	kill -INT "$starter"
	wait "$starter"
	same $? 130 status
	alive "$waiting" || fail "the disk does not stall"
	faults
	gone "$waiting"
}
claim "a second SIGINT waits for nothing, and nothing is mounted later" interrupted_twice
finish
