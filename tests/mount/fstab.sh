#!/usr/bin/env bash
# mount(8) and fstab: a mount's source is the one in fstab, so `mount -a` mounts it only once; and a mountpoint takes
# only one mount. As root, in a mount namespace of its own.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip_all "only root can try mount -a"
[ -x /sbin/mount.fuse3 ] || skip_all "mount.fuse3 is not installed"
[ -d /usr/local/bin ] || skip_all "there is no /usr/local/bin, where mount.fuse3 would find moefs"
unshare -m true 2>/dev/null || skip_all "no mount namespace can be made here"

mkdir -p "$mnt" "$work/bin" "$work/sbin" "$work/a b, c"
cp "$MOEFS" "$work/bin/moefs"
cp -a /sbin/mount.fuse* "$work/sbin/"
ln -s /usr/local/bin/moefs "$work/sbin/mount.moefs" # as make install puts it
type=fuse.moefs                                     # or moefs: by mount.fuse3 or by mount.moefs
cp -r "$MODEL" "$work/a b, c/model"
ln -s "$MODEL" "$work/link"

# ---- in the namespace ----

inside() { # FUNCTION ARGUMENT…: at its end its mounts and daemons are gone
	local status pid
	mount --bind "$work/bin" /usr/local/bin && mount --bind "$work/sbin" "$(realpath /sbin)" || fail "cannot bind"
	("$@")
	status=$?
	while umount "$mnt" 2>/dev/null; do :; done
	for pid in $(pgrep -f -- "^moefs .*$work/"); do until_true not alive "$pid"; done
	return $status
}
mounts() { # type and source of all that is mounted there, as mountinfo spells them
	awk -v point="$mnt" '$5 == point { for (i = 1; i <= NF; i++) if ($i == "-") n = i; print $(n + 1), $(n + 2) }' \
		/proc/self/mountinfo
}
once() { # SOURCE as in fstab, SOURCE as in mountinfo
	echo "$1 $mnt $type store=$store,allow_other,nofail,_netdev,noatime,nodev,x-systemd.automount,user,exec 0 0" >"$work/fstab"
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
	echo "$MODEL $mnt $type store=$store,fsname=my\\040models 0 0" >"$work/fstab"
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a: status $?"
	same "$(mounts)" 'fuse.moefs my\040models'
	same "$(df --output=source "$mnt" | tail -n 1)" "my models"
}
nonempty() { # of mount -a
	echo mine >"$mnt/notes"
	echo "$MODEL $mnt $type store=$store,nofail 0 0" >"$work/fstab"
	fails_with "$mnt is not empty: the mount would hide notes" timeout "$limit" mount -a -T "$work/fstab"
	same "$(mounts)" "" "what is mounted"
	sed -i 's/nofail/nofail,nonempty/' "$work/fstab"
	timeout "$limit" mount -a -T "$work/fstab" || fail "with nonempty: status $?"
	[ ! -e "$mnt/notes" ] || fail "it is not mounted over it"
	umount "$mnt" && rm "$mnt/notes"
}
second() {
	timeout "$limit" moefs -o "store=$store" "$MODEL" "$mnt" || fail "the first: status $?"
	fails_with "moefs: $mnt: a moefs is mounted there already; unmount it with moefs umount $mnt" \
		moefs -o "store=$store" "$MODEL" "$mnt"
	fails_with "mounted there already" moefs -o "store=$store" "$MODEL" "$work/../$(basename "$work")/mnt/"
	fails_with "mounted there already" mount -t fuse.moefs "$MODEL" "$mnt" -o "store=$store"
	fails_with "mounted there already" mount -t moefs "$MODEL" "$mnt" -o "store=$store"
	same "$(mounts)" "fuse.moefs $(realpath "$MODEL")" "what is mounted"
	umount "$mnt" && timeout "$limit" moefs -o "store=$store" "$MODEL" "$mnt" || fail "after unmounting: status $?"
}
blanks() { # in the point's name, as mountinfo escapes them
	mkdir -p "$work/a b" && mnt="$work/a b"
	timeout "$limit" moefs -o "store=$store" "$MODEL" "$mnt" || fail "the first: status $?"
	fails_with "mounted there already" moefs -o "store=$store" "$MODEL" "$mnt"
	umount "$mnt"
}
both() { # a mount of several models has no single source
	timeout "$limit" moefs -o "store=$store" "$MODEL" "$work/link" "$mnt" || fail "status $?"
	same "$(mounts)" "fuse.moefs moefs"
}

helped() { # arguments that mount(8) passes to mount.moefs and people do not
	timeout "$limit" mount -t moefs -v -n "$MODEL" "$mnt" -o "store=$store,temperature=0.5" || fail "-v -n: status $?"
	same "$(cat "$mnt"/*/sessions/default/params/temperature)" 0.5
	umount "$mnt"
	timeout "$limit" mount.moefs "$MODEL" "$mnt" -s -o "store=$store,what=ever" || fail "-s: status $?"
	umount "$mnt"
	timeout "$limit" mount.moefs "$MODEL" "$mnt" -f -o "store=$store" || fail "-f: status $?"
	same "$(mounts)" "" "a fake mount"
	fails_with "-o what=ever: there is no such option" mount.moefs "$MODEL" "$mnt" -o "store=$store,what=ever"
	fails_with "usage: mount.moefs SOURCE MOUNTPOINT" mount.moefs "$MODEL"
	fails_with "cannot mount in another namespace" mount.moefs "$MODEL" "$mnt" -N /proc/1/ns/mnt
	same "$(mounts)" "" "what is mounted"
}

# ---- as another user ----

theirs=65534 # nobody's, on every system
daemon_of() { cat "$mnt/pid"; }
dropped() { # OPTION…: mounts as another user, and opens everything as that user
	local pid
	rm -rf "$work/their"
	mkdir "$work/their" && cp -r "$MODEL" "$work/their/model" && chown -R $theirs:$theirs "$work/their"
	echo "$work/their/model $mnt moefs log=$work/their/log,umask=007,$1 0 0" >"$work/fstab"
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a: status $?"
	same "$(mounts)" "fuse.moefs $work/their/model"
	pid=$(as_them cat "$mnt/pid")
	same "$(awk '/^[UG]id|^Groups/ { $1 = ""; print }' "/proc/$pid/status" | tr -s ' ' | sed 's/^ //' | sort -u)" \
		"$(printf '\n%s' "$theirs $theirs $theirs $theirs")" "who the daemon is"
	same "$(awk '/^Cap(Eff|Prm)/ { print $2 }' "/proc/$pid/status" | tr -d '0\n')" "" "its capabilities"
	as_them stat -c %u:%g "$mnt" "$mnt/model/prompt" "$work/their/log" | grep -vx "$theirs:$theirs" && fail "not theirs"
	as_them sh -c "cat $mnt/model/wait" >/dev/null || fail "it does not answer"
	as_them sh -c 'cd "$0" && echo "What is 12 x 6?" >prompt && cat output' "$mnt/model" | grep -q . || fail "no answer"
	[ -e "$work/their/model.moefs" ] || fail "no store beside the model"
	same "$(find "$work/their" ! -uid $theirs -o ! -gid $theirs)" "" "not theirs"
	fails_with "Permission denied" cat "$mnt/pid" # root is another user
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a again: status $?"
	same "$(mounts)" "fuse.moefs $work/their/model" "what is mounted after the second time"
	kill "$pid" && until_true not alive "$pid"
	same "$(mounts)" "" "after the daemon's end"
	timeout "$limit" mount -a -T "$work/fstab" || fail "mount -a once more: status $?"
	as_them moefs list | grep -qF "$mnt	$work/their/model	" || fail "they do not see it: $(as_them moefs list)"
	moefs list | grep -F "$mnt	" | grep -qF "another user's" || fail "root sees: $(moefs list)"
	as_them moefs umount "$mnt" || fail "they may not unmount it: status $?"
	same "$(mounts)" "" "after they unmounted it"
}
# The line of docs/machines.md: /home and /etc/fstab are the test's, and so is the user, whom mount(8) lets mount with neither PATH
# nor HOME in the environment. The store is in ~/.cache if it cannot be made beside the model.
by_user() { # [beside]
	local you=4321 line
	mount -t tmpfs none /home && mkdir -p /home/you/m /home/you/models && cp -r "$MODEL" /home/you/models/NAME || fail "cannot make /home"
	{ cat /etc/passwd && echo "you:x:$you:$you::/home/you:/bin/sh"; } >"$work/passwd"
	line=$(grep '^/home/you/models /home/you/m .*user' "$root/docs/machines.md") || fail "docs/machines.md has no such line"
	echo "${line/ moefs / $type }" >"$work/fstab"
	chmod 644 "$work/passwd" "$work/fstab"
	mknod "$work/fuse" c 10 229 && chmod 666 "$work/fuse" && mount --bind "$work/fuse" /dev/fuse && rm "$work/fuse"
	mount --bind "$work/passwd" /etc/passwd && mount --bind "$work/fstab" /etc/fstab || fail "cannot bind"
	chown $you:$you /home/you /home/you/m
	[ -z "${1:-}" ] || chown -R $you:$you /home/you/models
	as_you() { timeout "$limit" setpriv --reuid=$you --regid=$you --clear-groups env -i PATH="$PATH" "$@"; }
	as_you HOME=/home/you sh -c 'cd && mount ~/m' || fail "mount ~/m: status $?"
	as_you sh -c 'cd /home/you/m/NAME && echo "What is 12 x 6?" >prompt && cat output' | grep -q . || fail "no answer"
	if [ -n "${1:-}" ]; then
		[ -d /home/you/models/NAME.moefs ] || fail "no store beside the model"
	else
		[ -d /home/you/.cache/moefs ] || fail "no store in ~/.cache: $(ls -A /home/you)"
	fi
	as_you moefs umount /home/you/m || fail "umount: status $?"
	[ -z "${1:-}" ] || {
		fails_with "belongs to user $you, not to you; mount as that user (as root with -o uid=$you), or choose another folder with -o store=" \
			moefs /home/you/models "$mnt"
		timeout "$limit" moefs -o "uid=$you" /home/you/models "$mnt" || fail "the remedy: status $?"
	}
}
as_them() { timeout "$limit" setpriv --reuid=$theirs --regid=$theirs --clear-groups "$@"; }
unreadable() { # files that only root may read are not read, neither a checkpoint nor a template, and no log is written there
	mkdir -p "$work/roots" "$work/models" && cp -r "$MODEL" "$work/roots/model" && chmod 700 "$work/roots"
	echo '{{ messages }}' >"$work/roots/template"
	fails_with "Permission denied" moefs -o "uid=$theirs,store=$store.theirs" "$work/roots/model" "$mnt"
	fails_with "Permission denied" moefs -o "uid=$theirs,store=$store.theirs,template=$work/roots/template" "$MODEL" "$mnt"
	fails_with "-o log=$work/roots/log: Permission denied" moefs -o "uid=$theirs,log=$work/roots/log" "$MODEL" "$mnt"
	mkdir "$work/roots/store"
	fails_with "Permission denied" moefs -o "uid=$theirs,store=$work/roots/store" "$MODEL" "$mnt"
	same "$(mounts)" "" "what is mounted"
	same "$(ls -A "$work/roots/store")" ""
}
not_root() {
	fails_with "-o uid=0: only root can become another user" as_them "$work/bin/moefs" -o uid=0 "$MODEL" "$mnt"
	fails_with "-o gid=0: only root can become another user" as_them "$work/bin/moefs" -o gid=0 "$MODEL" "$mnt"
	fails_with "auto_unmount and uid= or gid= exclude each other" moefs -o "auto_unmount,uid=$theirs" "$MODEL" "$mnt"
}

apart() { # FUNCTION ARGUMENT…
	export work silent mnt store limit MODEL type theirs root
	export -f fail same until_true moment alive not differ fails_with inside mounts once by_hand holds nonempty second blanks both helped dropped as_them \
		unreadable not_root by_user
	unshare -m --propagation private bash -c 'inside "$@"' - "$@"
}
real=$(realpath "$MODEL")
claim "mount -a mounts a model from fstab, and again mounts nothing" apart once "$MODEL" "$real"
claim "…by a symbolic link, with a slash at the end" apart once "$work/link/" "$real"
claim "…with blanks and a comma in its path" \
	apart once "$work/a\\040b,\\040c/model" "$(realpath "$work")/a\\040b,\\040c/model"
claim "…and mounts nothing over what was mounted by hand" apart by_hand
claim "a fsname= of the user's holds" apart holds
type=moefs
claim "by mount.moefs, too: mount -a mounts once" apart once "$MODEL" "$real"
claim "…by a symbolic link, with a slash at the end" apart once "$work/link/" "$real"
claim "…with blanks and a comma in its path" \
	apart once "$work/a\\040b,\\040c/model" "$(realpath "$work")/a\\040b,\\040c/model"
claim "…and a fsname= holds" apart holds
claim "mount.moefs understands what mount(8) passes" apart helped
claim "a mountpoint that is not empty is refused, unless fstab says nonempty" apart nonempty
claim "a user of fstab mounts with the documented line; root is told how to use that user's store" apart by_user beside
claim "…with its store in ~/.cache if it cannot be next to the model" apart by_user
type=fuse.moefs
claim "…and both by mount.fuse3" apart by_user
claim "…by mount.fuse3, too" apart nonempty
claim "a second mount on the same point is refused with a reason" apart second
claim "…also where there are blanks in its name" apart blanks
claim "several models have moefs as their source" apart both
chmod 755 "$work"
if setpriv --reuid=$theirs --regid=$theirs --clear-groups sh -c 'cat "$0"' "$MODEL/config.json" >/dev/null 2>&1; then
	claim "uid= and gid= make the mount another user's, in whose name all is opened" apart dropped "uid=$theirs,gid=$theirs"
	claim "…by name" apart dropped "uid=$(id -nu $theirs)"
	claim "…which reads and writes nothing of root's" apart unreadable
	claim "…which only root can ask for" apart not_root
else
	echo "ok uid= and gid= # skip: another user cannot read the model here"
fi
finish
