#!/bin/bash
# A store that is cut short, changed, replaced or removed, before or during a mount; and memory that runs out. An answer
# is right or fails with its reason, and once the cause is gone the next prompt works.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"

same_store() { # once it is complete
	local file
	complete
	for file in experts.safetensors dense.safetensors index; do
		cmp "$folder/$file" "$work/pristine/${folder#"$store"/}/$file" || fail "$file is not what it was"
	done
}

mounted -o quant=3bit
loaded
right=$(ask "$question")
[ -n "$right" ] || exit 1
complete
cd /
unmounted
mv "$store" "$work/pristine"
folder=$store/$(cd "$work/pristine" && echo */3bit) # of the store itself

begin() { # [OPTION…]: a mount of a copy of the store, until the claim ends
	trap end EXIT
	mounted -o quant=3bit,budget=2M "$@" # so that experts are read all the time
	loaded
}
end() {
	cd /
	unmounted
	mountpoint -q "$store" && umount "$store"
	rm -rf "$store"
}
copied() {
	cp -r "$work/pristine" "$store"
}
damage() { # FILE…: overwrites it in place with other bytes of the same size
	local file
	for file; do
		tr '\0-\377' '\1-\377\0' <"$folder/$file" >"$work/other" &&
			dd if="$work/other" of="$folder/$file" conv=notrunc status=none || fail dd
	done
}
restore() { # FILE…: in place
	local file
	for file; do
		dd if="$work/pristine/${folder#"$store"/}/$file" of="$folder/$file" conv=notrunc status=none || fail dd
	done
}
answers() { # in a new session
	cd "$m" && rm -rf sessions/new && mkdir sessions/new && cd sessions/new &&
		echo 24 > params/max_tokens && echo 0 > params/temperature || exit
	same "$(ask "$question")" "$right"
	same "$(cat error)" ""
}
refuses() { # WORDS, in a new session, which reads all that its prompt needs
	cd "$m" && rm -rf sessions/new && mkdir sessions/new && cd sessions/new && echo alone > params/share_with || exit
	echo "$question" > prompt
	fails_with "Input/output error" timeout $limit cat output
	same "$(cat status)" error
	grep -q "$1" error || fail "error: $(cat error)"
	grep -q "$1" "$mnt/error" || fail "the mount's error: $(cat "$mnt/error")"
}

# ---- under the mount ----

truncated() { # FILE BYTES WORDS
	copied
	begin
	answers
	truncate -s "$2" "$folder/$1"
	refuses "$folder/$1: $3"
	restore "$1"
	answers
}
claim "a store truncated under the mount ends turns with a reason; repaired, it serves again" \
	truncated experts.safetensors 100000 "ends before layer [0-9]* expert [0-9]* does; remove the folder"
claim "…and so does its dense part" truncated dense.safetensors 100000 "ends at byte [0-9]*.*remove the folder"

overwritten() { # FILE WORDS
	copied
	begin
	answers
	damage "$1"
	refuses "$folder/$1: $2"
	restore "$1"
	answers
}
claim "a store overwritten in place is never computed with; mended, it serves again" \
	overwritten experts.safetensors "layer [0-9]* expert [0-9]* is damaged.*remove the folder"
claim "…its dense part is not either" overwritten dense.safetensors "unit [0-9]* is damaged.*remove the folder"

replaced() {
	copied
	begin
	cp -r "$folder" "$folder.new"
	for file in experts.safetensors dense.safetensors index; do
		tr '\0-\377' '\1-\377\0' <"$folder/$file" >"$folder.new/$file"
		mv "$folder.new/$file" "$folder/$file"
	done
	answers
}
claim "a store replaced by rename under the mount: the mount keeps the one that it opened" replaced

removed() {
	copied
	begin
	rm -rf "$store"
	answers
	cd / && unmounted
	mounted -o quant=3bit
	answers
	same_store
}
claim "a store removed under the mount serves on; the next mount converts" removed

# ---- before the mount ----

made_again() { # COMMAND: an incomplete store is not used
	copied
	(cd "$folder" && eval "$1") || fail "$1"
	begin
	answers
	same_store
}
claim "a store whose experts are cut short is made again" made_again "truncate -s -1 experts.safetensors"
claim "a store whose dense part is missing is made again" made_again "rm dense.safetensors"
claim "a store whose index is cut short is made again" made_again "truncate -s 1000 index"
claim "a store whose index has one wrong byte is made again" \
	made_again "printf x | dd of=index bs=1 seek=3000 conv=notrunc status=none"

remedy() { # the message says what to do, and doing that helps
	copied
	damage experts.safetensors
	begin
	refuses "is damaged"
	local said=$(cat error)
	cd / && unmounted
	rm -r "$(echo "$said" | sed 's,^[^/]*\(/.*\)/experts.safetensors:.*,\1,')"
	begin
	answers
	same_store
}
claim "damaged experts are named, and removing the folder, as suggested, helps" remedy

dense_damaged() {
	copied
	damage dense.safetensors
	trap end EXIT
	mounted -o quant=3bit
	same "$(settled)" failed "info/state"
	grep -q "$folder/dense.safetensors: unit [0-9]* is damaged.*remove the folder" ../error || fail "error: $(cat ../error)"
	refuses "is damaged"
	restore dense.safetensors
	answers
}
claim "a damaged dense part fails the loading; mended, the next prompt loads" dense_damaged

buffered() { # a file system with a page cache and without direct reads
	trap end EXIT
	mkdir "$store"
	mount -t tmpfs -o size=64M,mode=700 none "$store" || fail mount
	cp -r "$work/pristine/"* "$store"
	begin
	answers
	truncate -s 100000 "$folder/experts.safetensors"
	refuses "ends before"
	restore experts.safetensors
	answers
}
mkdir "$work/try"
if mount -t tmpfs none "$work/try" 2>/dev/null; then
	umount "$work/try"
	claim "a store on tmpfs, which has no direct reads, serves and fails alike" buffered
else
	echo "ok tmpfs # skip: mounting one is not allowed here, so no disk without direct reads was tried"
fi

# ---- memory ----

# The sanitizers' own memory would run out first.
no_memory() {
	local size
	copied
	begin -o budget=16M
	mkdir sessions/new && cd sessions/new || exit
	size=$(awk '/^VmSize/ { print $2 * 1024 }' "/proc/$daemon/status")
	prlimit --pid "$daemon" --as=$((size + 1048576)):
	echo "$question" > prompt
	if timeout $limit cat output >"$work/part" 2>"$work/said"; then # less cache than asked for will do
		same "$(cat "$work/part")" "$right"
	else
		grep -q "Input/output error" "$work/said" || fail "cat said: $(cat "$work/said")"
		grep -q "\(no\|out of\) memory.*lower the budget" error || fail "error: $(cat error)"
	fi
	# Listing needs memory as well: at this limit it may fail, but only for that reason, and it does not hang.
	timeout $limit ls -lR -I tensors "$mnt" >/dev/null 2>"$work/said"
	[ $? -ne 124 ] || fail "ls hangs"
	grep -v "Cannot allocate memory" "$work/said" && fail "ls said: $(cat "$work/said")"
	prlimit --pid "$daemon" --as=unlimited
	timeout $limit ls -lR -I tensors "$mnt" >/dev/null || fail "ls, with memory: status $?"
	answers
}
if nm "$MOEFS" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
	echo "ok memory # skip: not under a sanitizer, whose own memory would run out first"
else
	claim "no memory for the cache ends a turn with a reason; with memory the next is answered" no_memory
fi
finish
