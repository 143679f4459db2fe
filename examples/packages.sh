#!/usr/bin/env bash
# Installs what building (build) or testing (test) needs and is not there yet: on Debian and Ubuntu with
# apt, elsewhere it prints what to install. Says nothing when nothing is missing.
set -euo pipefail

# what proves that it is there | Debian's package
build_needs='command gcc            | gcc
command make           | make
command pkg-config     | pkg-config
command fusermount3    | fuse3
library fuse3          | libfuse3-dev
library libzstd        | libzstd-dev
library liburing       | liburing-dev
library libpcre2-8     | libpcre2-dev
library libutf8proc    | libutf8proc-dev
library libxxhash      | libxxhash-dev'
test_needs='library cmocka         | libcmocka-dev
library json-c         | libjson-c-dev
command python3        | python3
command setpriv        | util-linux'

there() { # command NAME, or library NAME
	case $1 in
	command) command -v "$2" >/dev/null 2>&1 || [ -x "/usr/sbin/$2" ] ;;
	library) pkg-config --exists "$2" 2>/dev/null ;;
	esac
}

needs=$build_needs
[ "${1:-build}" = test ] && needs=$needs$'\n'$test_needs
missing=()
while read -r kind name _ package; do
	there "$kind" "$name" || missing+=("$package")
done <<<"$needs"
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "moefs needs packages that are missing; install what your system calls (Debian's names): ${missing[*]}" >&2
	exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "moefs needs packages that are missing; as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo)
fi
echo "installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	"${missing[@]}" >/dev/null
