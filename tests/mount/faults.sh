#!/bin/bash
# A disk that fails, returns wrong data, is slow or hangs under a mounted store. Each answer is right or is an error
# with a reason, for that turn alone; while the disk hangs, only requests that need it wait.
. "$(dirname "$0")/lib.sh"
faulty_disk
# A second checkpoint with the same files.
mkdir "$work/neighbour"
ln -s "$MODEL"/* "$work/neighbour/"
others+=("$work/neighbour")
neighbour=$mnt/neighbour
question="What is the capital of France?"

begin() { # experts are read all the time, and only when a turn needs them
	cold
	mounted -o budget=2M
	echo 24 > "$neighbour/sessions/default/params/max_tokens"
	echo 0 > "$neighbour/sessions/default/params/temperature"
	echo scales no-prefetch > ../cache/policy
}
begin
right=$(ask "$question")
(cd "$neighbour" && same "$(ask "$question")" "$right" "the neighbour's answer") || exit 1
complete
complete "$neighbour"
cd /
unmounted
# From here on experts are read from the stores.
begin
same "$(ask "$question")" "$right" "the answer from the store"
(cd "$neighbour" && same "$(ask "$question")" "$right" "the neighbour's answer") || exit 1

experts="$(basename "$MODEL")*experts.safetensors" dense="$(basename "$MODEL")*dense.safetensors"

session() { # of the claim's own
	mkdir -p "$m/sessions/$1" && cd "$m/sessions/$1" || exit
}
answers() { # here
	same "$(ask "$question")" "$right"
}

# ---- reads that fail ----

# Without drafts: a failed read that only a draft needs does not end the answer (test_draft_damaged).
undrafted() { # SESSION
	echo off > "$m/sessions/$1/params/draft"
}
ends_in_words() { # RULE WORDS
	session failing
	undrafted failing
	faults "$1"
	echo "$question" > prompt
	LC_ALL=C timeout $limit cat output >"$work/part" 2>"$work/said" && fail "it did not fail: $(cat "$work/part")"
	grep -q "Input/output error" "$work/said" || fail "cat said: $(cat "$work/said")"
	same "$(cat status)" error
	grep -q "$2" error || fail "error says: $(cat error)"
	grep -q "$2" "$mnt/error" || fail "the mount's error says: $(cat "$mnt/error")"
	[ "$(struck)" -gt 0 ] || fail "nothing failed"
	faults
	answers
	same "$(cat error)" ""
}
claim "a read that fails names the expert, and the next prompt is answered" \
	ends_in_words "$experts read error=EIO" "$store/.*cannot read layer [0-9]* expert [0-9]*.*try again"
claim "…also in the middle of an answer" \
	ends_in_words "$experts read error=EIO after=200 count=1" "cannot read layer [0-9]* expert"
claim "a record with one wrong bit is never computed with" \
	ends_in_words "$experts read flip after=3" "layer [0-9]* expert [0-9]* is damaged.*remove the folder"
claim "a row of the embedding that cannot be read fails the turn" \
	ends_in_words "$dense read error=EIO" "dense.safetensors"
claim "a row of the embedding with one wrong bit is never computed with" \
	ends_in_words "$dense read flip" "dense.safetensors.*damaged"

gone_on_with() { # RULE
	session patient
	faults "$1"
	answers
	[ "$(struck)" -gt 0 ] || fail "nothing struck"
	faults
}
claim "short reads are continued" gone_on_with "* read short=700"
claim "interrupted reads are begun again" gone_on_with "* read error=EINTR every=2"
claim "a disk that stalls for a second delays the answer, nothing else" gone_on_with "$experts read stall=1 after=100 count=1"

one_of_two() { # one read fails: its session reports it, the other session is not affected
	local i failed=0
	for i in 1 2; do mkdir -p "$m/sessions/$i" && undrafted $i; done
	faults "$experts read error=EIO after=60 count=1"
	for i in 1 2; do echo "$question" > "$m/sessions/$i/prompt"; done
	for i in 1 2; do
		if timeout $limit cat "$m/sessions/$i/output" >"$work/part"; then
			same "$(cat "$work/part")" "$right" "the other session's answer"
		else
			failed=$((failed + 1))
			grep -q "cannot read" "$m/sessions/$i/error" || fail "error: $(cat "$m/sessions/$i/error")"
		fi
	done
	same "$failed" 1 "failed turns"
	faults
}
claim "a failed read fails one session's turn; the other session is answered" one_of_two

expert_file() {
	faults "$experts read error=EIO"
	fails_with "Input/output error" cat "$m/experts/00/001"
	grep -q "expert 0/1 cannot be read" "$mnt/error" || fail "error: $(cat "$mnt/error")"
	faults
	cat "$m/experts/00/001" >/dev/null
}
claim "reading an expert's file from a failing disk is EIO with a reason" expert_file

# ---- a disk that hangs ----

begin_stalled() { # a turn in a session of its own, and its reader, which wait for the disk
	session "$1"
	echo "$1" >params/share_with # it finds nothing that others have computed, and so reads as much each time
	faults "$experts read stall=0 after=40"
	echo "$question" > prompt
	begin_reader output "$work/part" "$work/said"
	stalled
}
hangs() { # …still: nothing that ended has waited for the disk
	grep -q 'waiting [1-9]' "$work/faulty/.faults" || fail "the disk hangs no more"
}
release() { # the disk goes on; the reader's status
	faults
	wait $reader
}

lives() { # while one turn waits for the disk, everything that does not need it answers
	begin_stalled waiting
	timeout $limit ls -lR "$mnt" >/dev/null || fail ls
	timeout $limit df "$mnt" >/dev/null || fail df
	for file in status stats error log prompt params/seed ../../experts/map ../../experts/stats \
		../../info/state "$mnt/cache/stats" "$mnt/cache/budget" "$mnt/error"; do
		timeout $limit cat $file >/dev/null || fail "$file waits, too"
	done
	case $(cat status) in prompting | generating) ;; *) fail "status: $(cat status)" ;; esac
	timeout $limit bash -c 'mkdir ../made && echo 1 > ../made/params/temperature && rmdir ../made' || fail "making a session"
	timeout $limit bash -c 'echo 3M > "$0/cache/budget" && echo 2M > "$0/cache/budget"' "$mnt" || fail "the budget"
	release || fail "the reader failed: $(cat "$work/said")"
	same "$(cat "$work/part")" "$right"
}
claim "while a turn waits for the disk, looking and settings do not; then its text is right" lives

beside() {
	begin_stalled waiting
	(cd "$neighbour" && mkdir sessions/beside && cd sessions/beside && answers && cd .. && rmdir beside) ||
		fail "the neighbour has no answer"
	release
	same "$(cat "$work/part")" "$right"
}
claim "another model answers meanwhile" beside

interrupted() {
	local signal
	begin_stalled waiting
	for signal in INT TERM KILL; do
		reads $reader
		kill -$signal $reader
		wait $reader
		same $? $((128 + $(kill -l $signal))) "the reader's status"
		working
		begin_reader output "$work/part"
	done
	hangs
	release
	same "$(cat "$work/part")" "$right"
}
claim "a signal ends a reader while the disk hangs; the turn goes on" interrupted

stops() { # the read in flight goes on without the turn
	begin_stalled stopping
	timeout $limit bash -c 'echo stop > ctl' || fail "the verb waits for the disk"
	wait $reader || fail "the reader failed: $(cat "$work/said")"
	same "$(timeout $limit cat wait)" stopped
	same "$(cat "$work/part")" "" "the answer so far"
	same "$(cat error)" ""
	hangs
	echo "$question" > prompt
	begin_reader output "$work/part" "$work/said"
	stalled
	alive $reader || fail "the next turn did not wait: $(cat "$work/said")"
	release || fail "the next turn failed: $(cat "$work/said")"
	same "$(cat "$work/part")" "$right"
}
claim "echo stop > ctl ends the turn while the disk hangs; the next one waits for the disk and is right" stops

removed() {
	begin_stalled removed
	reads $reader
	cd "$m"
	rmdir sessions/removed || fail rmdir
	wait $reader && fail "the reader succeeded"
	grep -q "Input/output error" "$work/said" || fail "it said: $(cat "$work/said")"
	hangs
	faults
	session after
	answers
}
claim "rmdir of the session ends its reader while the disk hangs" removed

files() { # reads of more files than there are workers
	local jobs="" i
	cd "$m"
	faults "$experts read stall=0"
	for i in 1 2 3 4 5 6; do
		cat experts/01/00$i >"$work/expert-$i" &
		jobs="$jobs $!"
	done
	stalled
	timeout $limit ls -l experts/01 >/dev/null && timeout $limit cat status >/dev/null || fail "looking waits"
	(cd "$neighbour/sessions/default" && answers) || fail "the neighbour has no answer"
	faults
	for i in $jobs; do wait $i || fail "a reader failed"; done
	for i in 1 2 3 4 5 6; do cmp "experts/01/00$i" "$work/expert-$i" || fail "expert $i"; done
}
claim "readers of expert files wait for the disk, and nobody else" files

killed() {
	cd "$m"
	faults "$experts read stall=0"
	begin_reader experts/01/020
	stalled
	reads $reader
	kill -9 $reader
	wait $reader && fail "it succeeded"
	hangs
	faults
	cat experts/01/020 >/dev/null
}
claim "and they can be killed" killed

# ---- ends ----

unmounts() { # COMMAND…: unmounts while the disk hangs; the process ends with the read in flight
	local turn file
	begin_stalled unmounting
	turn=$reader
	begin_reader "$m/experts/02/003"
	file=$reader
	reads $turn
	reads $file
	cd /
	if [ "$1" = user_unmounts ]; then # not while files are open
		kill $turn $file
		wait $turn
		wait $file
	fi
	"$@" || fail "$*"
	until_true not grep -q " $mnt " /proc/self/mountinfo || fail "still mounted"
	wait $turn && fail "the reader succeeded"
	wait $file && fail "the expert's reader succeeded"
	hangs
	alive "$daemon" || fail "the process did not wait for its read"
	faults
	until_true not alive "$daemon" || fail "the process is still there"
}
claim "SIGTERM unmounts while the disk hangs; the process ends with the read in flight" unmounts kill -TERM "$daemon"
begin
cd /
claim "so does fusermount3 -u" unmounts user_unmounts "$mnt"
begin
claim "after that it can be mounted again, and answers" answers
finish
