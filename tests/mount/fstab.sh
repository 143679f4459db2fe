#!/usr/bin/env bash
# mount(8) and fstab: the source of a mount is what fstab says, so that `mount -a` mounts once; and a point is
# mounted on once. As root, in a mount namespace of its own.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip_all "only root can try mount -a"
[ -x /sbin/mount.fuse3 ] || skip_all "mount.fuse3 is not installed"
[ -d /usr/local/bin ] || skip_all "there is no /usr/local/bin, where mount.fuse3 would find moefs"
unshare -m true 2>/dev/null || skip_all "no mount namespace can be made here"

mkdir -p "$mnt" "$work/bin" "$work/a b, c"
cp "$MOEFS" "$work/bin/moefs"
cp -r "$MODEL" "$work/a b, c/model"
ln -s "$MODEL" "$work/link"

# ---- in the namespace ----

inside() { # FUNCTION ARGUMENT…: with what it mounts gone at its end, and the daemons
	local status pid
	mount --bind "$work/bin" /usr/local/bin || fail "cannot bind"
	("$@")
	status=$?
	while umount "$mnt" 2>/dev/null; do :; done
	for pid in $(pgrep -f -- "^moefs .*$work/"); do timeout "$limit" tail --pid="$pid" -f /dev/null; done
	return $status
}
mounts() { # type and source of all that is mounted there, as mountinfo spells them
	awk -v point="$mnt" '$5 == point { for (i = 1; i <= NF; i++) if ($i == "-") n = i; print $(n + 1), $(n + 2) }' \
		/proc/self/mountinfo
}
once() { # SOURCE as in fstab, SOURCE as in mountinfo
	echo "$1 $mnt fuse.moefs store=$store,allow_other,nofail,_netdev,noatime,nodev 0 0" >"$work/fstab"
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a: status $?"
	same "$(mounts)" "fuse.moefs $2" "what is mounted"
	ls "$mnt"/*/prompt || fail "no model: $(ls "$mnt")"
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a again: status $?"
	same "$(mounts)" "fuse.moefs $2" "what is mounted after the second time"
}
by_hand() { # and then by fstab
	timeout "$limit" moefs -o "store=$store" "$work/link" "$mnt" || fail "status $?"
	once "$MODEL" "$(realpath "$MODEL")"
}
holds() {
	echo "$MODEL $mnt fuse.moefs store=$store,fsname=my\\040models 0 0" >"$work/fstab"
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a: status $?"
	same "$(mounts)" 'fuse.moefs my\040models'
	same "$(df --output=source "$mnt" | tail -n 1)" "my models"
}
second() {
	timeout "$limit" moefs -o "store=$store" "$MODEL" "$mnt" || fail "the first: status $?"
	fails_with "moefs: $mnt: a moefs is mounted there already; unmount it with fusermount3 -u $mnt" \
		moefs -o "store=$store" "$MODEL" "$mnt"
	fails_with "mounted there already" moefs -o "store=$store" "$MODEL" "$work/../$(basename "$work")/mnt/"
	fails_with "mounted there already" mount -t fuse.moefs "$MODEL" "$mnt" -o "store=$store"
	same "$(mounts)" "fuse.moefs $(realpath "$MODEL")" "what is mounted"
	umount "$mnt" && timeout "$limit" moefs -o "store=$store" "$MODEL" "$mnt" || fail "after unmounting: status $?"
}
blanks() { # in the point's name, as mountinfo escapes them
	mkdir -p "$work/a b" && mnt="$work/a b"
	timeout "$limit" moefs -o "store=$store" "$MODEL" "$mnt" || fail "the first: status $?"
	fails_with "mounted there already" moefs -o "store=$store" "$MODEL" "$mnt"
	umount "$mnt"
}
both() { # of several models there is no one source
	timeout "$limit" moefs -o "store=$store" "$MODEL" "$work/link" "$mnt" || fail "status $?"
	same "$(mounts)" "fuse.moefs moefs"
}

apart() { # FUNCTION ARGUMENT…
	export work mnt store limit MODEL
	export -f fail same differ fails_with inside mounts once by_hand holds second blanks both
	unshare -m --propagation private bash -c 'inside "$@"' - "$@"
}
real=$(realpath "$MODEL")
claim "mount -a mounts a model from fstab, and again mounts nothing" apart once "$MODEL" "$real"
claim "…by a symbolic link, with a slash at the end" apart once "$work/link/" "$real"
claim "…with blanks and a comma in its path" \
	apart once "$work/a\\040b,\\040c/model" "$(realpath "$work")/a\\040b,\\040c/model"
claim "…and mounts nothing over what was mounted by hand" apart by_hand
claim "a fsname= of the user's holds" apart holds
claim "a second mount on the same point is refused in words" apart second
claim "…also where there are blanks in its name" apart blanks
claim "several models have moefs as their source" apart both
finish
