#!/usr/bin/env bash
# `make check-fresh`: the README's two commands, `make demo` and `make check`, as root and as an ordinary user with sudo,
# each from a clone of its own, in a Debian where nothing has been installed: made by mmdebstrap below build/, in its own
# namespaces of mounts and processes, and removed at the end. What is committed is tested. The data of MOEFS_TESTDATA
# (or ../shared) is there, read-only. FRESH=user leaves root's out. The last line is the count of all checks.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/package/debian.bash
[ "$(id -u)" = 0 ] || { echo "make check-fresh mounts /proc, /sys and /dev for another system: only root can" >&2; exit 1; }
build=$PWD/build
mkdir -p "$build" || exit 1
root=$(mktemp -d "$build/fresh.XXXXXX") || exit 1
log=$root.log
trap 'rm -rf --one-file-system "$root" "$log"' EXIT
trap 'exit 130' INT TERM

# A clone that its user owns, with nothing of this folder's but what is committed.
clone() { # USER HOME
	git clone --quiet --no-local . "$root$2/moefs" && chroot "$root" chown -R "$1:" "$2/moefs"
}

# The other system, as the first process of its namespaces sees it: everything ends with that process. That process is a
# shell, which waits for orphans, as an init does: a daemon that has ended would stay a zombie otherwise.
inside() { # COMMAND, which root runs there in a login shell
	unshare --mount --pid --fork --kill-child --propagation private bash -euc '
		root=$1 data=$2
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount --bind "$root/srv/fuse" "$root/dev/fuse"
		[ -z "$data" ] || mount --bind -o ro "$data" "$root/srv/testdata"
		cd "$root"
		pivot_root . mnt
		umount --lazy /mnt
		exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 bash -lc "$3; exit \$?"' - "$root" "$data" "$1" </dev/null
}

as_you="su - you -c"
status=0
step() { # WHAT IT IS, COMMAND
	echo "# $1"
	inside "$2" 2>&1 | tee -a "$log" && return
	echo "failed: $1" | tee -a "$log"
	status=1
}

data=$(realpath "${MOEFS_TESTDATA:-../shared}" 2>/dev/null)
[ -d "$data" ] || data=
debian_make --include=ca-certificates,git,make,sudo "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$root" || { echo "no Debian can be made" >&2; exit 1; }
mkdir -p "$root/srv/testdata"
mknod -m 666 "$root/srv/fuse" c 10 229 || exit 1 # everybody's, as udev makes it
chroot "$root" useradd --create-home --shell /bin/bash you || exit 1
ln -s /proc/self/mounts "$root/etc/mtab" # as a system that has booted has it; fusermount3 reads it
printf '127.0.0.1 localhost %s\n' "$(uname -n)" >"$root/etc/hosts"
echo 'you ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/you"
# Not in /root, which other users may not enter: tests run the program as another user.
clone root /srv && clone you /home/you || exit 1
given=
[ -z "$data" ] || given+=" MOEFS_TESTDATA=/srv/testdata"
[ -z "${BEGIN_UNTIL:-}" ] || given+=" BEGIN_UNTIL=$BEGIN_UNTIL" # tests/run.sh

users=("root" "an ordinary user")
[ "${FRESH:-}" != user ] || users=("an ordinary user")
# The user's first command finds nothing and has sudo install it. The first `make check` installs what the tests need.
step "make demo, as an ordinary user" "$as_you 'cd ~/moefs && make demo'"
if [ ${#users[@]} -eq 2 ]; then
	step "make demo, as root" "cd /srv/moefs && make demo"
	step "make check, as root" "cd /srv/moefs && $given make check"
fi
step "make check, as an ordinary user" "$as_you 'cd ~/moefs && $given make check'"

awk -F '[ ,]+' -v users="$(printf '%s;' "${users[@]}")" '
	BEGIN { checks_due = split(users, user, ";") - 1 }
	/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
		passed += $1; failed += $3; skipped += $5; checks++
		print "# " user[checks] ": " $0
	}
	/^failed: make / { steps++ }
	END {
		failed += steps > 0 && failed == 0
		printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
		exit checks != checks_due || failed > 0
	}' "$log" || status=1
exit $status
