#!/bin/bash
# A checkpoint without a store answers at once, and the store is made in the background, even if the daemon is killed
# at any moment, unmounted, looked at, or runs beside a second one.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"
answer="The capital of France is Paris."
published() { [ -e "$work"/store/*/4bit/index ]; }

mounted
first() {
	same "$(ask "$question")" "$answer"
	same "$(cat info/state)" ready
}
claim "the first prompt is answered while the checkpoint is converted" first
looks() { # at the tree, while the conversion may still be going on
	find . -size +100M -printf '%k %p\n' || exit
	# Experts' files get their bytes when the store is published, and info/progress becomes longer or shorter: tar then
	# says (1) that one has changed.
	tar cf "$work/tree.tar" . 2>"$work/tar" || [ $? = 1 ] || fail "tar: $(cat "$work/tar")"
	grep -vE 'experts/.*: file changed as we read it|/info/progress: (file changed as we read it|File shrank by .*)' "$work/tar" && exit 1
	cp -r . "$work/copy" || exit
	grep -r "no such words" . && exit 1
	[ $? = 1 ]
}
claim "find, tar, cp -r and grep -r end without an error" looks
claim "the store is completed behind" complete
claim "and published" published
sizes() { [ "$(cat experts/00/000 | wc -c)" = "$(stat -c %s experts/00/000)" ] && [ -s experts/00/000 ]; }
claim "then the experts' files have their bytes" sizes
claim "the same mount goes on answering" same "$(echo reset > ctl; ask "$question")" "$answer"
cd / && unmounted
(cd "$work"/store/*/4bit && cat experts.safetensors dense.safetensors index) | cksum >"$work/whole"

faulty_disk # which holds still where the daemon is to be killed
killed() { # NUMBER OPERATION: killed in that operation of its kind; the next mount continues
	trap 'cd /; faults; unmounted; rm -rf "$work"/disk/*' EXIT
	faults "* $2 stall=0$([ "$1" = 1 ] || echo " after=$(($1 - 1))")"
	mounted
	echo "$question" > prompt
	stalled
	kill -9 "$daemon"
	faults
	cd / && unmounted
	mounted
	same "$(ask "$question")" "$answer"
	complete
	cd / && unmounted
	same "$(cd "$work"/disk/*/4bit && cat experts.safetensors dense.safetensors index | cksum)" "$(cat "$work/whole")"
}
for number in 1 20 100 230 260 400 600 740; do # of some 750, of which 235 are before the first answer
	claim "killed in write $number, the next mount answers and ends with the same store" killed $number write
done
for number in 1 2 3; do
	claim "killed in rename $number, the next mount answers and ends with the same store" killed $number rename
done
store=$work/store

stopped() { # that it does not wait for the end of the conversion is in faults_convert.sh
	rm -rf "$work/store"
	mounted
	same "$(ask "$question")" "$answer"
	cd / && unmounted
	[ -e "$work"/store/*/4bit/journal ] || published || fail "nothing was kept"
	mounted
	same "$(ask "$question")" "$answer"
	cd / && unmounted
}
claim "unmounting in the middle keeps the work done" stopped

two() { # one daemon converts and answers, the other waits for the store or takes over
	rm -rf "$work/store"
	mounted
	mkdir -p "$work/mnt2"
	"$MOEFS" -o "store=$work/store" "$MODEL" "$work/mnt2" || fail "the second mount"
	echo "$question" > prompt
	echo "$question" > "$work/mnt2/$(basename "$MODEL")/prompt"
	same "$(cat output)" "$answer"
	same "$(timeout $limit cat "$work/mnt2/$(basename "$MODEL")/output")" "$answer"
	fusermount3 -u "$work/mnt2"
	cd / && unmounted
}
claim "two daemons with one checkpoint both answer" two

# A file system has room for only a part of the store: the mount reports it. If the space was lost after mounting (a
# model of a folder is loaded by its first prompt), the prompt reports it.
full() {
	rm -rf "$work/store"
	mkdir -p "$work/store" "$work/models"
	mount -t tmpfs -o size=3M moefs-test "$work/store" || fail "mount"
	trap 'cd /; unmounted; umount "$work/store"' EXIT
	fails_with "MB too few" "$MOEFS" -o "store=$store" "$MODEL" "$mnt"
	same "$(ls -A "$store")" "" "what is in the folder"
	mount -o remount,size=64M "$work/store"
	ln -s "$(realpath "$MODEL")" "$work/models" && MODEL=$work/models && mounted
	mount -o remount,size=3M "$work/store"
	echo "$question" > prompt
	fails_with "Input/output error" cat output
	grep -q "too few" error || fail "error says: $(cat error)"
	mount -o remount,size=64M "$work/store"
	same "$(ask "$question")" "$answer"
	complete
}
mkdir "$work/try"
if mount -t tmpfs none "$work/try" 2>/dev/null; then
	umount "$work/try"
	claim "a full disk is an error with a reason, and the next prompt works once there is space" full
else
	echo "ok tmpfs # skip: mounting one is not allowed here, so no full disk was tried"
fi
finish
