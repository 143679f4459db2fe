#!/usr/bin/env bash
# Models and mountpoints that cannot be used: the mount fails with a status other than 0 and names the cause and the
# remedy. In a folder of models, the good ones are mounted and the bad ones are named.
. "$(dirname "$0")/lib.sh"
mkdir -p "$mnt"
# Unmounts a mount that should have been refused.
trap 'while fusermount3 -u "$mnt" 2>/dev/null; do :; done; clean_up' EXIT

refused() { # WORDS ARGUMENT…: in one line
	local words=$1
	shift
	fails_with "$words" timeout "$limit" "$MOEFS" -o "store=$store" "$@" "$mnt"
	same "$(timeout "$limit" "$MOEFS" -o "store=$store" "$@" "$mnt" 2>&1 | wc -l)" 1 "lines about $*"
	grep -q " $mnt " /proc/self/mountinfo && fail "something is mounted"
	return 0
}
paths() {
	cd "$work" || exit
	mkdir -p half && : >half/model-00001-of-00002.safetensors
	printf 'GGUF\003\000\000\000' | tee a.gguf >model
	echo text >notes.txt
	refused "$work/absent does not exist: download it first" absent
	refused "a.gguf: the header does not fit into the file's 8 bytes; the file is cut short or damaged" a.gguf
	refused "model: the header does not fit" "$work/model"
	refused "give its folder" half/model-00001-of-00002.safetensors
	refused "notes.txt is a file: give a GGUF file, or the folder" notes.txt
	refused "half has model-00001-of-00002.safetensors and no config.json" half
	refused "does not exist" notes.txt/model
	refused "a path is empty" ""
}
forgotten() { # the mountpoint: the last model would be hidden
	cp -r "$MODEL" "$work/second"
	fails_with "$work/second is a model's folder, which the mount would hide: the last word must be the mountpoint" \
		timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/second"
	! mountpoint -q "$work/second" || fail "it is mounted"
	rm -r "$work/second"
}
claim "a model's folder cannot be a mountpoint" forgotten
nonempty() { # hidden files count, too; -o nonempty hides them until the unmount
	local name
	for name in notes .hidden; do
		echo mine >"$mnt/$name"
		refused "$mnt is not empty: the mount would hide $name; mount on an empty folder, or with -o nonempty" "$MODEL"
		same "$(cat "$mnt/$name")" mine "what was in it"
		[ $name = .hidden ] || rm "$mnt/$name"
	done
	timeout "$limit" "$MOEFS" -o "nonempty,store=$store" "$MODEL" "$mnt" || fail "-o nonempty: status $?"
	daemon=$(cat "$mnt/pid")
	[ ! -e "$mnt/.hidden" ] && [ -e "$mnt/version" ] || fail "it is not mounted over it"
	unmounted
	same "$(cat "$mnt/.hidden")" mine "after the unmount"
	rm "$mnt/.hidden"
}
claim "a mountpoint that is not empty is refused; -o nonempty mounts on it" nonempty
claim "a path that is not a checkpoint's folder is refused with what it is" paths

copy() { # NAME: a copy of the model without its weights' bytes
	mkdir -p "$1" && cp "$MODEL"/*.json "$MODEL"/*.jinja "$1" && ln -s "$MODEL/model.safetensors" "$1"
}
pointer="version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345"
broken() { # models in $work/models, each broken in another way
	mkdir -p "$work/models" && cd "$work/models" || exit
	copy no-tokenizer && rm no-tokenizer/tokenizer.json
	copy no-weights && rm no-weights/model.safetensors
	copy pointers && rm pointers/model.safetensors && echo "$pointer" >pointers/model.safetensors
	copy garbled && echo '{"model": {' >garbled/tokenizer.json
	copy strange && sed -i 's/"model_type": *"[a-z0-9_]*"/"model_type": "mamba"/' strange/config.json
	mkdir half && : >half/model.safetensors
	printf 'GGUF\003\000\000\000' >a.gguf
}
each() {
	broken
	refused "$work/models/no-tokenizer has no tokenizer (tokenizer.json or vocab.json)" no-tokenizer
	refused "$work/models/no-weights has no weights" no-weights
	refused "pointers/model.safetensors is a git-lfs pointer" pointers
	refused "git lfs pull" pointers
	refused mamba strange
	echo "$pointer" >strange/tokenizer.json
	refused "strange/tokenizer.json is a git-lfs pointer" strange
	cp "$MODEL/tokenizer.json" strange
	mkdir -p "$work/single" && cd "$work/single" || exit
	copy garbled && echo '{"model": {' >garbled/tokenizer.json
	refused "garbled/tokenizer.json" garbled
	copy cut && rm cut/model.safetensors && head -c 1000000 "$MODEL/model.safetensors" >cut/model.safetensors
	refused "is the file cut short?" cut
	copy shards && mv shards/model.safetensors shards/model-00001-of-00002.safetensors
	echo '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}' \
		>shards/model.safetensors.index.json
	refused "shards/model-00002-of-00002.safetensors: cannot be opened" shards
	refused "-o store= is not the name of a folder" -o store= garbled
}
claim "a model's missing files are reported when it is mounted" each

skipped() { # FILE: it has a line for each of them
	local line
	for line in "no-tokenizer: .* no tokenizer" "no-weights: .* no weights" "pointers: .*git lfs pull" "strange: .*mamba" \
		"half: .* no config.json" "a.gguf: .*header" "garbled: .*garbled/tokenizer.json"; do
		grep -q "^\(moefs: \)\?skipped: $line" "$1" || fail "$1 lacks '$line': $(cat "$1")"
	done
	same "$(grep -c skipped: "$1")" 7 "lines"
}
folder() {
	cd "$work/models" || exit
	fails_with "none of its models can be mounted" "$MOEFS" -o "store=$store" . "$mnt"
	"$MOEFS" -o "store=$store" . "$mnt" 2>"$work/said"
	skipped "$work/said"
	copy good
	timeout "$limit" "$MOEFS" -o "store=$store" "$work/models" "$mnt" 2>"$work/said" || fail "status $?: $(cat "$work/said")"
	skipped "$work/said"
	skipped "$mnt/error"
	same "$(cd "$mnt" && echo */prompt)" good/prompt
	shell_fails_with "Invalid argument" "echo dance > $mnt/good/ctl"
	skipped "$mnt/error" # still, beside what failed since
	grep -q dance "$mnt/error" || fail "$(cat "$mnt/error")"
	daemon=$(pgrep -n -f -- " $mnt\$")
	unmounted
}
claim "of a folder of models every one that is skipped is named, and the others are mounted" folder

default_stays() {
	mounted
	fails_with "Operation not permitted" mv sessions/default sessions/mine
	grep -q "sessions/default .*mkdir" ../error || fail "error: $(cat ../error)"
	cd / && unmounted
}
claim "why sessions/default cannot be renamed is in error" default_stays

[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && unshare -m true 2>/dev/null || {
	echo "ok causes # skip: only root can try to be another user, with setpriv and a mount namespace"
	finish
}

# ---- another user's mounts, in a namespace with a /dev/fuse and a fuse.conf of the test's own ----

other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
inside() {
	rm -f "$work/fuse" && mknod "$work/fuse" c 10 229 && chmod 666 "$work/fuse" && : >"$work/fuse.conf" &&
		mount --bind "$work/fuse" /dev/fuse && mount --bind "$work/fuse.conf" /etc/fuse.conf || fail "cannot bind"
	("$@")
	local status=$?
	while umount "$mnt" 2>/dev/null; do :; done
	return $status
}
theirs() { # WORDS OPTION…: the one line that the other user gets
	local words=$1
	shift
	fails_with "$words" other timeout "$limit" "$@" "$MOEFS" -o "store=$work/theirs" $options "$MODEL" "$mnt"
	same "$(other timeout "$limit" "$@" "$MOEFS" -o "store=$work/theirs" $options "$MODEL" "$mnt" 2>&1 | wc -l)" 1 "lines"
}
causes() {
	local options=
	chmod 755 "$work" "$mnt"
	mkdir -p "$work/theirs" "$work/no-bin" && chown 65534 "$work/theirs"
	theirs "cannot mount on $mnt: it belongs to user 0, and you may not write to it"
	chmod 1777 "$mnt"
	theirs "it belongs to user 0 and is sticky"
	chown 65534 "$mnt" && chmod 755 "$mnt"
	options="-o allow_other"
	theirs "root can allow it by adding the line user_allow_other to /etc/fuse.conf"
	echo "#user_allow_other" >"$work/fuse.conf"
	theirs user_allow_other
	echo "user_allow_other" >"$work/fuse.conf"
	chmod 600 /dev/fuse
	theirs "you may not open /dev/fuse: its mode is 0600, and it belongs to user 0; run \`chmod 666 /dev/fuse\` as root"
	chmod 666 /dev/fuse
	theirs "fusermount3 is missing" env PATH="$work/no-bin"
	theirs "no_new_privs" setpriv --no-new-privs
	cp "$(command -v fusermount3)" "$work/no-bin" # no longer set-user-ID
	theirs "fusermount3 is not set-user-ID root" env PATH="$work/no-bin"
	fails_with "--cap-add SYS_ADMIN" setpriv --bounding-set -sys_admin "$MOEFS" -o "store=$store" "$MODEL" "$mnt"
	umount /dev/fuse && mount --bind /dev/null /dev/fuse && rm -f "$work/fuse"
	# Without these obstacles it is mounted.
	rm -f "$work/fuse" && mknod "$work/fuse" c 10 229 && chmod 666 "$work/fuse" && umount /dev/fuse && mount --bind "$work/fuse" /dev/fuse || exit
	other timeout "$limit" "$MOEFS" $options -o "store=$work/theirs" "$MODEL" "$mnt" || fail "status $?"
	ls "$mnt"/*/prompt || fail "not mounted"
	umount "$mnt"
}

stores() {
	local options=
	chmod 755 "$work" && chown 65534 "$mnt"
	mkdir -p "$work/ours" && chmod 755 "$work/ours"
	fails_with "$work/ours: the store cannot be written there; choose another folder with -o store= or XDG_CACHE_HOME: Permission denied" \
		other "$MOEFS" -o "store=$work/ours/deep/er" "$MODEL" "$mnt"
	mkdir -p "$work/home" && chmod 755 "$work/home"
	cp -r "$MODEL" "$work/home" && cd "$work/home" || exit
	fails_with "$work/home: the store cannot be written there" \
		other env HOME="$work/home" XDG_CACHE_HOME= "$MOEFS" "$work/home/$(basename "$MODEL")" "$mnt"
	mount -t tmpfs -o ro none "$work/ours"
	fails_with "Read-only file system" "$MOEFS" -o "store=$work/ours" "$MODEL" "$mnt"
	grep -q " $mnt " /proc/self/mountinfo && fail "something is mounted"
	return 0
}

room() {
	mkdir -p "$work/tiny" && mount -t tmpfs -o size=1m none "$work/tiny" || exit
	store=$work/tiny
	refused "MB too few); free some space, or choose another folder with -o store=" "$MODEL"
	same "$(ls -A "$work/tiny")" "" "what is in the folder"
	mount -o remount,size=64m "$work/tiny"
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$mnt" || fail "status $?"
	umount "$mnt"
}

taken() { # the mountpoint, by another file system
	mount -t tmpfs none "$mnt" && touch "$mnt/theirs"
	fails_with "$mnt: a file system of type tmpfs is mounted there already, and the mount would hide it; unmount it, or mount on a folder in it" \
		"$MOEFS" -o "store=$store" "$MODEL" "$mnt"
	[ -e "$mnt/theirs" ] || fail "it is hidden"
	mkdir "$mnt/in it"
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$mnt/in it" || fail "status $?"
	umount "$mnt/in it" && umount "$mnt"
}

apart() { # FUNCTION ARGUMENT…
	export work mnt store limit MODEL MOEFS
	export -f fail same differ fails_with inside refused other causes theirs stores room taken
	unshare -m --propagation private bash -c 'inside "$@"' - "$@"
}
claim "the reason why another user cannot mount is given: the point, allow_other, /dev/fuse, fusermount3" apart causes
claim "a store that cannot be written is reported at mount" apart stores
claim "another file system's mountpoint is refused, folders in it are not" apart taken
claim "a store without room is reported at mount, and leaves nothing" apart room
finish
