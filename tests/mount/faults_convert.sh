#!/bin/bash
# Converting to a disk that fills up, fails, is interrupted or hangs, before the model answers (its dense part
# is being converted) and while it does (its experts are). A failed write is reported with its reason and leaves
# nothing that could be taken for a store. Once the disk works, the next prompt continues the conversion, and the store
# has the same bytes as one that was never disturbed.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"

progresses_to() { # WORDS: waits until info/progress begins with them
	until_true progress_begins "$1" || fail "not $1 but $(cat "$m/info/state"), $(cat "$m/info/progress")"
}
progress_begins() { [[ $(cat "$m/info/progress") == "$1"* ]]; }
mounted # on a disk that does what it should: what there is to compare with
loaded
right=$(ask "$question")
[ -n "$right" ] || exit 1
complete
cd /
unmounted
mv "$store" "$work/reference"
# FOLDER: what is there of a store, and of a checkpoint, which it is. After ten seconds' rest its loss is measured as well.
kept() { ls "$1" | grep -vx -e heat -e loss -e checkpoint | xargs; }
claim "a store is its files and a checkpoint's, and nothing else" same "$(kept "$work"/reference/*/4bit | tr ' ' '\n' |
	grep -Ev '^(chat_template.jinja|(config|generation_config|model.safetensors.index|tokenizer|tokenizer_config|tc_config).json)$' | xargs)" \
	"dense.safetensors experts.safetensors index source"
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
same_store() { # once it is complete
	local file
	complete
	for file in experts.safetensors dense.safetensors index; do
		cmp "$work"/reference/*/4bit/$file "$work"/disk/*/4bit/$file || fail "$file differs"
	done
	# And the files that a mount writes when it ends.
	same "$(kept "$work"/disk/*/4bit)" "$(kept "$work"/reference/*/4bit)" "files"
}
no_store() { # nothing is there that could be taken for one
	[ -z "$(find "$work/disk" -name index)" ] || fail "there is a store"
}
answers() { # in a session of its own
	cd "$m/sessions/default" && echo 24 > params/max_tokens && echo 0 > params/temperature || exit
	same "$(ask "$question")" "$right"
	same "$(cat error)" ""
}

# ---- failures before the model answers ----

fails_in_words() { # WORDS RULE…
	local words=$1
	shift
	begin "$@"
	same "$(settled)" failed "info/state"
	until_true grep -q "$store/.*$words" ../error || fail "error: $(cat ../error)"
	[ "$(struck)" -gt 0 ] || fail "nothing failed"
	echo "$question" > prompt
	fails_with "Input/output error" timeout $limit cat output
	grep -q "$words" error || fail "the session's error: $(cat error)"
	timeout $limit ls -lR "$mnt" >/dev/null || fail ls
	no_store
	faults
	answers
	same_store
}
full="cannot be written; free some space.*-o store=.*No space left"
claim "a disk that fills up while converting is reported with the remedy" \
	fails_in_words "$full" "* write error=ENOSPC after_bytes=3000000"
claim "…also where the space cannot even be reserved" fails_in_words "$full" "*partial allocate error=ENOSPC"
claim "a write that fails" fails_in_words "cannot be written: Input/output error" "*partial write error=EIO after=20"
claim "a sync that fails" fails_in_words "cannot be written: Input/output error" "*dense*partial sync error=EIO"
claim "a folder that is not to be written" fails_in_words "cannot .*: Read-only file system" "* open error=EROFS"

leaves_nothing() {
	begin "* write error=ENOSPC after_bytes=3000000"
	same "$(settled)" failed "info/state"
	same "$(find "$work/disk" -type f)" "" "left"
}
claim "a full disk is not kept full by half a store" leaves_nothing

# ---- failures while it answers ----

# The answer needs experts that are in no store yet. They can be made, though not written to the store, so the answer
# comes; the conversion stays where it is.
answers_all_the_same() { # WORDS
	answers
	echo reset > ctl || exit
	cd "$m" || exit
	# The answer's experts were written again, in the background: until the last of them has failed it goes on.
	until_true grep -q "^stopped at [0-9]* %: $store/.*$1" info/progress || fail "progress: $(cat info/progress)"
}
# If the store's source cannot be recorded either, or a conversion has to begin again, there is no answer.
answers_not() { # WORDS
	cd "$m/sessions/default" || exit
	echo "$question" > prompt
	fails_with "Input/output error" timeout $limit cat output
	grep -q "$1" error || fail "the session's error: $(cat error)"
}
# The prompt's conversion stops as well. How far the answer has come by then depends on timing: it is whole, or it fails with a reason.
answers_whole_or_not() { # WORDS
	cd "$m/sessions/default" && echo 24 > params/max_tokens && echo 0 > params/temperature || exit
	echo "$question" > prompt
	if timeout $limit cat output >"$work/answer" 2>/dev/null; then
		same "$(cat "$work/answer")" "$right"
	else
		grep -q "$1" error || fail "the session's error: $(cat error)"
	fi
}
stops_in_words() { # STATE WORDS MEANWHILE RULE…
	local state=$1 words=$2 meanwhile=$3
	shift 3
	begin "$@"
	# The reason and the state come behind the first "stopped", and a write that was begun before may still succeed.
	until_true grep -q "^stopped at [0-9]* %: $store/.*$words" info/progress || fail "progress: $(cat info/progress)"
	until_true grep -qx "$state" info/state || fail "not $state but $(cat info/state)"
	until_true grep -q "$(basename "$MODEL"): .*$store/.*$words" ../error || fail "error: $(cat ../error)"
	[ "$state" != ready ] || until_true grep -q "the conversion has stopped" ../error || fail "error: $(cat ../error)"
	[ "$(struck)" -gt 0 ] || fail "nothing failed"
	$meanwhile "$words"
	timeout $limit ls -lR "$mnt" >/dev/null || fail ls
	no_store
	faults
	answers
	same_store
}
experts="*experts.safetensors.partial"
claim "a disk that fills up while the model answers leaves it ready, and progress stopped" \
	stops_in_words ready "$full" answers_not "* write error=ENOSPC after_bytes=5000000"
claim "…so does an expert's write that fails" \
	stops_in_words ready "cannot be written: Input/output error" answers_all_the_same "$experts write error=EIO after=20"
claim "…and the journal's" \
	stops_in_words ready "journal: cannot be written: Input/output error" answers_all_the_same "*journal write error=EIO after_bytes=12000"
claim "an expert's failed sync ends the conversion, whose data can no longer be trusted; a prompt begins again" \
	stops_in_words failed "cannot be written: Input/output error" answers_whole_or_not "$experts sync error=EIO after=2"

has_struck() { [ "$(struck)" -gt 0 ]; }
stopped_once() { # the next write that succeeds, in the background or for a prompt, continues the conversion
	begin "$experts write error=EIO after=20 count=1"
	until_true has_struck
	same "$(struck)" 1 "failed writes"
	answers
	same_store
}
claim "one failed write costs no turn that comes after it" stopped_once

unpublished() { # RULE…: the files are complete but not renamed; answers are not affected
	begin "$@"
	loaded
	progresses_to "stopped at 100 %: $store/"
	grep -q "cannot be .*: \(Input/output error\|No space left\)" info/progress || fail "progress: $(cat info/progress)"
	until_true grep -q "cannot be .*: \(Input/output error\|No space left\)" ../error || fail "error: $(cat ../error)"
	[ "$(struck)" -gt 0 ] || fail "nothing failed"
	no_store
}
published_later() { # RULE…, each of which fails once: the end of a turn tries again
	unpublished "$@"
	answers
	same_store
	cd /
	unmounted
	mounted
	answers
}
claim "a rename that fails leaves a model that answers; after a turn the store is completed" \
	published_later "*safetensors.partial rename error=EIO count=1"
claim "…also when one file has its name already" \
	published_later "*dense.safetensors.partial rename error=ENOSPC count=1"
claim "…when both have, and the index cannot get its name" \
	published_later "*index.partial rename error=EIO count=1"
claim "…when it is the index that cannot be written" published_later "*index.partial write error=ENOSPC count=1"
claim "…or synced" published_later "*index.partial sync error=EIO count=1"
published_by_the_next() { # RULE…
	unpublished "$@"
	answers
	progresses_to "stopped at 100 %"
	no_store
	cd /
	unmounted
	no_store
	faults
	mounted
	answers
	same_store
}
claim "where it goes on failing, the next mount completes it" published_by_the_next "*partial rename error=EIO"
claim "…also when one file has its name already" \
	published_by_the_next "*dense.safetensors.partial rename error=EIO"
claim "…or when the index cannot be written" published_by_the_next "*index.partial write error=EIO"
unsynced() { # at the very end: until then the experts stall, while everything of the dense part is synced
	begin "$experts write stall=0 after=20"
	loaded
	stalled
	faults "*dense.safetensors.partial sync error=EIO count=1"
	progresses_to "stopped at 100 %"
	same "$(struck)" 1 "failed syncs"
	answers
	progresses_to "stopped at 100 %"
	no_store
	cd /
	unmounted
	mounted
	answers
	same_store
}
claim "data whose last sync failed is not published before it was looked at: a second sync would say nothing" unsynced

# ---- continued conversions ----

goes_on() { # RULE…
	begin "$@"
	loaded
	answers
	same_store
	[ "$(struck)" -gt 0 ] || fail "nothing struck"
}
claim "short writes and reads are continued" goes_on "*partial write short=5000" "* read short=5000"
claim "interrupted operations are begun again" goes_on \
	"* write error=EINTR every=3" "* read error=EINTR every=3" "*partial sync error=EINTR every=2" "* allocate error=EINTR every=2"
claim "a disk that cannot reserve space" goes_on "* allocate error=EOPNOTSUPP"
claim "a disk without direct reads" goes_on "* direct error=EINVAL"
claim "a disk that stalls for a second" goes_on "*partial write stall=1 after=30 count=1"
claim "…or while the model answers" goes_on "$experts write stall=1 after=20 count=1"

# ---- a disk that hangs ----

is_like() { [[ $(cat info/state)/$(cat status) == $1 ]]; } # STATE/STATUS, a pattern
lives() { # STATE/STATUS RULE…
	local word=$1
	shift
	begin "$@"
	stalled
	grep -q "converting [0-9]* %" info/progress || fail "progress: $(cat info/progress)"
	echo "$question" > prompt
	cat output >"$work/part" &
	local reader=$!
	for command in "ls -lR $mnt" "df $mnt" "cat status stats error log ../error ../cache/stats" \
		"mkdir sessions/x" "rmdir sessions/x"; do
		timeout $limit $command >/dev/null || fail "$command waits for the disk"
	done
	until_true is_like "$word" || fail "$(cat info/state)/$(cat status) is not $word"
	no_store
	faults
	wait $reader || fail "the reader failed: $(cat error)"
	same "$(cat "$work/part")" "$right"
	same_store
}
claim "while a conversion waits for the disk, looking does not; then the answer is right" \
	lives loading/loading "*partial write stall=0 after=40"
claim "…also not while a turn waits for an expert that is being made" \
	lives "ready/[pg]*ing" "$experts write stall=0 after=20"

stops() {
	begin "*partial write stall=0 after=40"
	stalled
	echo "$question" > prompt
	timeout $limit bash -c 'echo stop > ctl; cat wait' >"$work/word" || fail "it waits for the disk"
	same "$(cat "$work/word")" stopped
	faults
	answers
	same_store
}
claim "a turn that waits for it can be stopped at once" stops
stops_meanwhile() { # the write in flight continues without the turn
	begin "$experts write stall=0 after=20"
	stalled
	cd sessions/default || exit
	echo "$question" > prompt
	timeout $limit bash -c 'echo stop > ctl; cat wait' >"$work/word" || fail "it waits for the disk"
	same "$(cat "$work/word")" stopped
	faults
	answers
	same_store
}
claim "…and one that waits for an expert's write" stops_meanwhile

hears_signals() { ls -l "/proc/$daemon/fd" 2>/dev/null | grep -q signalfd; }
resumes() { # RULE…
	begin "$@"
	stalled
	cd /
	user_unmounts "$mnt" || fail fusermount3
	until_true not hears_signals || fail "it has not seen that" # since from then on it hears none
	until_true at_rest "$daemon" || fail "it does not wait for its write" # and does nothing else, or has ended
	grep -q " $mnt " /proc/self/mountinfo && fail "still mounted"
	alive "$daemon" || fail "the process did not wait for its write"
	faults
	until_true not alive "$daemon" || fail "it does not end"
	[ -n "$(find "$work/disk" -name journal)" ] || fail "nothing was kept"
	mounted
	answers
	same_store
}
claim "unmounted meanwhile, it ends with the write in flight; the next mount continues" \
	resumes "*partial write stall=0 after=100"
claim "…also when the model answers already" resumes "$experts write stall=0 after=20"

# ---- a real full disk, which has no direct reads either ----

really_full() { # since it was mounted: a model of a folder is loaded when it is first asked
	store=$work/small
	mkdir "$work/models" && ln -s "$(realpath "$MODEL")" "$work/models" && MODEL=$work/models || exit
	begin
	mount -o remount,size=1M "$work/small"
	echo "$question" > prompt
	same "$(settled)" failed "info/state"
	grep -q "$store/.*MB too few; free some space" ../error || fail "error: $(cat ../error)"
	mount -o remount,size=64M "$work/small"
	idle
	answers
	complete
	cmp "$work"/reference/*/4bit/experts.safetensors "$store"/*/4bit/experts.safetensors
}
mkdir "$work/small"
if mount -t tmpfs -o size=64M,mode=700 none "$work/small" 2>/dev/null; then
	claim "tmpfs: too small is reported in numbers; made larger it serves, with buffered reads" really_full
	umount "$work/small" || umount -l "$work/small"
else
	echo "ok tmpfs # skip: mounting one is not allowed here, so no really full disk was tried"
fi
finish
