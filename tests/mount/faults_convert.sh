#!/bin/bash
# Converting to a disk that fills up, fails, is interrupted or hangs. What cannot be written is said in words
# and leaves nothing that could be taken for a store; once the disk works, the next prompt converts.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"

mounted # on a disk that does what it should: what there is to compare with
loaded
right=$(ask "$question")
[ -n "$right" ] || exit 1
cd /
unmounted
mv "$store" "$work/reference"
faulty_disk

end() {
	cd /
	faults
	unmounted
	rm -rf "$work"/disk/*
}
begin() { # RULE…: a mount without a store, until the claim ends
	trap end EXIT
	faults "$@"
	mounted
}
same_store() {
	local file
	for file in experts.safetensors dense.safetensors index; do
		cmp "$work"/reference/*/tq3/$file "$work"/disk/*/tq3/$file || fail "$file differs"
	done
	same "$(ls "$work"/disk/*/tq3 | wc -l)" 3 "files"
}
answers() { # in a session of its own
	cd "$m/sessions/default" && echo 24 > params/max_tokens && echo 0 > params/temperature || exit
	same "$(ask "$question")" "$right"
	same "$(cat error)" ""
}

# ---- what fails ----

fails_in_words() { # WORDS RULE…
	local words=$1
	shift
	begin "$@"
	same "$(settled)" failed "info/state"
	grep -q "$store/.*$words" ../error || fail "error: $(cat ../error)"
	[ "$(struck)" -gt 0 ] || fail "nothing failed"
	echo "$question" > prompt
	fails_with "Input/output error" timeout $limit cat output
	grep -q "$words" error || fail "the session's error: $(cat error)"
	timeout 5 ls -lR "$mnt" >/dev/null || fail ls
	[ -z "$(find "$work/disk" -name index)" ] || fail "there is a store"
	faults
	answers
	same_store
}
full="cannot be written; free some space.*-o store=.*No space left"
claim "a disk that fills up while converting is said with the remedy" \
	fails_in_words "$full" "* write error=ENOSPC after_bytes=3000000"
claim "…also where the space cannot even be reserved" fails_in_words "$full" "*partial allocate error=ENOSPC"
claim "a write that fails" fails_in_words "cannot be written: Input/output error" "*partial write error=EIO after=20"
claim "a sync that fails" fails_in_words "cannot be written: Input/output error" "*partial sync error=EIO after=2"
claim "a rename that fails" fails_in_words "cannot be .*: Input/output error" "*partial rename error=EIO"
claim "a folder that is not to be written" fails_in_words "cannot .*: Read-only file system" "* open error=EROFS"

leaves_nothing() {
	begin "* write error=ENOSPC after_bytes=3000000"
	same "$(settled)" failed "info/state"
	same "$(find "$work/disk" -type f)" "" "left"
}
claim "a full disk is not kept full by half a store" leaves_nothing

# ---- what is gone on with ----

goes_on() { # RULE…
	begin "$@"
	loaded
	[ "$(struck)" -gt 0 ] || fail "nothing struck"
	answers
	same_store
}
claim "short writes and reads are gone on with" goes_on "*partial write short=5000" "* read short=5000"
claim "interrupted operations are begun again" goes_on \
	"* write error=EINTR every=3" "* read error=EINTR every=3" "*partial sync error=EINTR every=2" "* allocate error=EINTR every=2"
claim "a disk that cannot reserve space" goes_on "* allocate error=EOPNOTSUPP"
claim "a disk without direct reads" goes_on "* direct error=EINVAL"
claim "a disk that stalls for a second" goes_on "*partial write stall=1 after=30 count=1"

# ---- a disk that hangs ----

lives() {
	begin "*partial write stall=0 after=40"
	stalled
	same "$(cat info/state)" loading
	grep -q "converting [0-9]* %" info/progress || fail "progress: $(cat info/progress)"
	echo "$question" > prompt
	cat output >"$work/part" &
	local reader=$!
	for command in "ls -lR $mnt" "df $mnt" "cat status stats error log ../error ../cache/stats" \
		"mkdir sessions/x" "rmdir sessions/x"; do
		timeout 5 $command >/dev/null || fail "$command waits for the disk"
	done
	same "$(cat status)" loading
	faults
	wait $reader || fail "the reader failed: $(cat error)"
	same "$(cat "$work/part")" "$right"
	same_store
}
claim "while a conversion waits for the disk, looking does not; then the answer is right" lives

stops() {
	begin "*partial write stall=0 after=40"
	stalled
	echo "$question" > prompt
	timeout 5 bash -c 'echo stop > ctl; cat wait' >"$work/word" || fail "it waits for the disk"
	same "$(cat "$work/word")" stopped
	faults
	answers
}
claim "a turn that waits for it can be stopped at once" stops

resumes() {
	local i
	begin "*partial write stall=0 after=200"
	stalled
	cd /
	fusermount3 -u "$mnt" || fail fusermount3
	sleep 0.1
	grep -q " $mnt " /proc/self/mountinfo && fail "still mounted"
	alive "$daemon" || fail "the process did not wait for its write"
	faults
	for i in $(seq $((limit * 10))); do
		alive "$daemon" || break
		sleep 0.1
	done
	[ -n "$(find "$work/disk" -name journal)" ] || fail "nothing was kept"
	mounted
	answers
	same_store
}
claim "unmounted meanwhile, it ends with the write in flight; the next mount goes on with what is there" resumes

# ---- a real full disk, which has no direct reads either ----

really_full() {
	store=$work/small
	begin
	same "$(settled)" failed "info/state"
	grep -q "$store/.*MB too few; free some space" ../error || fail "error: $(cat ../error)"
	mount -o remount,size=64M "$work/small"
	answers
}
mkdir "$work/small"
if mount -t tmpfs -o size=1M,mode=700 none "$work/small" 2>/dev/null; then
	claim "tmpfs: too small is said in numbers; made larger it serves, with buffered reads" really_full
	umount "$work/small" || umount -l "$work/small"
else
	echo "ok tmpfs # skip: mounting one is not allowed here, so no really full disk was tried"
fi
finish
