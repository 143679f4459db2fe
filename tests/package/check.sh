#!/usr/bin/env bash
# check.sh PACKAGE.deb: what lintian says of it; and in a small Debian of its own (mmdebstrap, from the system's mirror)
# it is installed with what it depends on, tried, and purged, which leaves nothing. Not part of make check, since it
# needs the network: `make check-deb`. What is not installed here is skipped, in words.
set -u
. "$(dirname "$0")/debian.bash"
package=$(realpath "$1") || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
status=0
result() { # NAME, and what is wrong
	if [ -z "$2" ]; then echo "ok $1"; else echo "not ok $1: ${2//$'\n'/; }"; status=1; fi
}

if command -v lintian >/dev/null; then
	result "lintian" "$(lintian --tag-display-limit 0 "$package" 2>/dev/null)"
else
	echo "ok lintian # skip: it is not installed"
fi

cat >"$work/inside" <<'END'
set -eu
all() { find / -xdev \( -path /proc -o -path /sys -o -path /tmp -o -path /var \) -prune -o -print | sort; }
export DEBIAN_FRONTEND=noninteractive
# dpkg leaves out manuals where a small system was told to
apt-get install -y -qq -f fuse3 >/dev/null
apt-get install -y -qq --no-install-recommends $(dpkg-deb -f /tmp/moefs.deb Depends | sed 's/([^)]*)//g; s/,/ /g') >/dev/null
[ -e /dev/fuse ] || mknod /dev/fuse c 10 229 || true
all >/tmp/before
apt-get install -y -qq --no-install-recommends /tmp/moefs.deb >/dev/null
moefs --version
moefs-http --version
moefs-http /tmp 2>&1 | grep -q 'has no models'
moefs stores
if (: <>/dev/fuse) 2>/dev/null; then # the store that root's mount makes beside the model has to go, too
	moefs demo >/tmp/demo
	grep -qx 'The capital of France is Paris.' /tmp/demo
	test -e "$(moefs demo --path).moefs"
else
	echo "no /dev/fuse: moefs demo is not tried"
fi
test -s /usr/share/doc/moefs/README.md
test -x /usr/share/doc/moefs/examples/edit.sh
test -s /usr/share/doc/moefs/examples/models/fable-moe-15m/config.json
grep -q '^ExecStart=/usr/bin/moefs-http ' /usr/lib/systemd/user/moefs-http@.service
test -s /usr/lib/systemd/user/moefs-http@.socket
test -s /usr/share/bash-completion/completions/moefs-http
test -s /usr/share/zsh/vendor-completions/_moefs-http
test -s /usr/share/fish/vendor_completions.d/moefs-http.fish
test "$(readlink -f /sbin/mount.moefs)" = /usr/bin/moefs
for file in $(dpkg -L moefs); do test -e "$file" || { echo "no $file"; exit 1; }; done
zcat /usr/share/man/man5/moefs.5.gz | grep -q '^.SH FILES'
zcat /usr/share/man/man1/moefs-http.1.gz | grep -q '^.SH ENDPOINTS'
apt-get purge -y -qq moefs >/dev/null
all >/tmp/after
cmp /tmp/before /tmp/after || diff /tmp/before /tmp/after
END
if ! command -v mmdebstrap >/dev/null; then
	echo "ok installed and purged # skip: mmdebstrap is not installed"
elif [ "$(. /etc/os-release && echo "$ID")" != debian ]; then
	echo "ok installed and purged # skip: this is no Debian, whose mirror would be asked"
else
	. /etc/os-release
	if debian_make --customize-hook="cp '$package' \"\$1/tmp/moefs.deb\"" \
		--customize-hook="cp '$work/inside' \"\$1/tmp/inside\"" \
		--customize-hook='chroot "$1" sh /tmp/inside' "$VERSION_CODENAME" /dev/null >"$work/said" 2>&1; then
		result "installed and purged" ""
	else
		result "installed and purged" "$(tail -n 5 "$work/said")"
	fi
fi
exit $status
