#!/usr/bin/env bash
# systemd accepts the units of fs/install/systemd as installed, and moefs knows the options in them.
set -u
cd "$(dirname "$0")/.." || exit 1
MOEFS=build/moefs
if ! command -v systemd-analyze >/dev/null; then
	echo "ok systemd # skip: there is no systemd-analyze here"
	exit 0
fi
if [ ! -x "$MOEFS" ]; then
	echo "ok systemd # skip: $MOEFS is not built; run make"
	exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-systemd.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export XDG_RUNTIME_DIR=$work XDG_CONFIG_HOME=$work/config
status=0
result() { # NAME, and whether anything was said
	if [ -z "$2" ]; then echo "ok $1"; else echo "not ok $1: ${2//$'\n'/; }"; status=1; fi
}

make -s PREFIX=/usr/local DESTDIR="$work/installed" install >"$work/out" 2>&1 ||
	result "the units are installed" "$(cat "$work/out")"
unit=$work/installed/usr/local/lib/systemd/user/moefs@.service
mkdir -p "$work/system" "$work/user" "$work/config/moefs"
# The program where this test has it: only what is there passes for a command.
sed "s|/usr/local/bin/moefs|$(realpath "$MOEFS")|" "$unit" >"$work/user/moefs@.service"
touch "$work/config/moefs/name.conf"
cp fs/install/systemd/srv-models.* "$work/system/"

result "the installed program is the one of the unit" \
	"$(grep -qx 'ExecStart=/usr/local/bin/moefs .*' "$unit" || cat "$unit")"
result "mount.moefs is where mount(8) looks for it" \
	"$([ "$(readlink "$work/installed/sbin/mount.moefs")" = /usr/local/bin/moefs ] || ls -lR "$work/installed")"
verify() { # of what is said only what is about our units counts
	systemd-analyze "$@" 2>&1 | grep -E 'moefs|srv-models' | grep -v 'Failed to .*cgroup'
}
result "the user's unit" "$(verify --user --man=no verify "$work/user/moefs@name.service" 2>&1)"
for unit in moefs-http@.service moefs-http@.socket; do
	sed "s|/usr/local/bin/moefs-http|$(realpath "$MOEFS-http")|" "$work/installed/usr/local/lib/systemd/user/$unit" >"$work/user/$unit"
done
result "the user's gateway and its socket" \
	"$(verify --user --man=no verify "$work/user/moefs-http@name.service" "$work/user/moefs-http@name.socket" 2>&1)"
result "the system's mount and automount" \
	"$(verify --man=no verify "$work/system/srv-models.mount" "$work/system/srv-models.automount")"
sed 's/^Type=notify/Type=notified/' "$work/user/moefs@.service" >"$work/user/wrong@.service"
sed -i 's/^Description=.*/Description=moefs wrong/' "$work/user/wrong@.service"
result "a wrong unit is found" \
	"$(systemd-analyze --user --man=no verify "$work/user/wrong@name.service" 2>&1 | grep -q 'notified' || echo 'it is not')"
make -s PREFIX=/usr/local DESTDIR="$work/installed" uninstall >"$work/out" 2>&1
result "nothing is left after make uninstall" "$(find "$work/installed" ! -type d)"
exit $status
