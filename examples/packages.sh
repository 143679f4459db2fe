#!/usr/bin/env bash
# Installs what building (build) or testing (test) needs and is not there yet: on Debian and Ubuntu with
# apt, elsewhere it prints what to install. Says nothing when nothing is missing. The fuzzers' compiler is
# installed for testing where it is to be had, and not insisted on; can-fuzz succeeds if it is there.
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
library libxxhash      | libxxhash-dev
library libedit        | libedit-dev
library libmicrohttpd  | libmicrohttpd-dev
library json-c         | libjson-c-dev'
test_needs='library cmocka         | libcmocka-dev
command python3        | python3
command setpriv        | util-linux
command zstd           | zstd'

there() { # command NAME, or library NAME
	case $1 in
	command) command -v "$2" >/dev/null 2>&1 || [ -x "/usr/sbin/$2" ] ;;
	library) pkg-config --exists "$2" 2>/dev/null ;;
	esac
}

can_fuzz() { # clang with its runtime, which is a package of its own on some systems
	local program works=1
	program=$(mktemp) || return
	echo 'int LLVMFuzzerTestOneInput(const char *, unsigned long);
		int LLVMFuzzerTestOneInput(const char *data, unsigned long n) { return !data && n; }' |
		clang -fsanitize=fuzzer,address,undefined -x c -o "$program" - 2>/dev/null && works=0
	rm -f "$program"
	return $works
}
if [ "${1:-build}" = can-fuzz ]; then
	can_fuzz
	exit
fi

needs=$build_needs
[ "${1:-build}" = test ] && needs=$needs$'\n'$test_needs
missing=()
while read -r kind name _ package; do
	there "$kind" "$name" || missing+=("$package")
done <<<"$needs"
want_fuzzers=false
[ "${1:-build}" = test ] && ! can_fuzz && want_fuzzers=true
if [ ${#missing[@]} -eq 0 ] && ! $want_fuzzers; then exit 0; fi

if ! command -v apt-get >/dev/null 2>&1; then
	[ ${#missing[@]} -eq 0 ] && exit 0
	echo "moefs needs packages that are missing; install what your system calls (Debian's names): ${missing[*]}" >&2
	exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		[ ${#missing[@]} -eq 0 ] && exit 0
		echo "moefs needs packages that are missing; as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo)
fi
install() { # PACKAGE…
	echo "installing $*"
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		"$@" >/dev/null
}
"${as_root[@]}" apt-get update -qq || [ ${#missing[@]} -eq 0 ]
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
if $want_fuzzers; then
	compiler=(clang)
	apt-cache show libclang-rt-dev >/dev/null 2>&1 && compiler+=(libclang-rt-dev)
	install "${compiler[@]}" 2>/dev/null || true
fi
