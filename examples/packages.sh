#!/usr/bin/env bash
# Installs what building (build), testing (test), all tests (full) or making a Debian to test in (fresh) need and is not
# there yet: on Debian and Ubuntu with apt, elsewhere it prints what to install. Says nothing when nothing is missing.
# Testing works without the programs of `test_wants` (its claims about them are skipped), so where they cannot be
# installed that is only said. The fuzzers' compiler is installed for `full` where it is to be had; can-fuzz succeeds if
# it is there. No service is started.
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
# Libraries of the web page, which is built without those that are missing.
page_wants='file /usr/share/javascript/markdown-it/markdown-it.js  | libjs-markdown-it
file /usr/share/javascript/katex/katex.js                | libjs-katex
file /usr/share/nodejs/prismjs/components/prism-core.js  | node-prismjs'
test_needs='library cmocka         | libcmocka-dev
command python3        | python3
command setpriv        | util-linux
command zstd           | zstd'
fresh_needs='command mmdebstrap | mmdebstrap
command git            | git
command unshare        | util-linux'
# Programs that users have beside moefs, and that tests try with it.
test_wants='command fish          | fish
command zsh            | zsh
command busybox        | busybox
command gawk           | gawk
command parallel       | parallel
command rsync          | rsync
command nano           | nano
command vim.tiny       | vim-tiny
command tmux           | tmux
command inotifywait    | inotify-tools
command gnuplot        | gnuplot-nox
command sshfs          | sshfs
command sshd           | openssh-server
command nginx          | nginx-light
command haproxy        | haproxy
command curl           | curl
command jq             | jq
command openssl        | openssl
command ip             | iproute2
command git            | git
command man            | man-db
python  numpy          | python3-numpy'
# What only check-full has time for.
full_wants='command aarch64-linux-gnu-gcc | gcc-aarch64-linux-gnu libc6-dev-arm64-cross
command qemu-aarch64  | qemu-user'

there() { # command, library, python or file, and its NAME
	case $1 in
	command) command -v "$2" >/dev/null 2>&1 || [ -x "/usr/sbin/$2" ] ;;
	library) pkg-config --exists "$2" 2>/dev/null ;;
	python) python3 -c "import $2" 2>/dev/null ;;
	file) [ -e "$2" ] ;;
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

what=${1:-build} needs=$build_needs wants=$page_wants
case $what in
test) needs+=$'\n'$test_needs wants+=$'\n'$test_wants ;;
full) needs+=$'\n'$test_needs wants+=$'\n'$test_wants$'\n'$full_wants ;;
fresh) needs=$fresh_needs wants= ;;
esac
missing_of() { # NEEDS: the packages of what is not there
	local kind name package
	while read -r kind name _ package; do
		[ -z "$kind" ] || there "$kind" "$name" || tr ' ' '\n' <<<"$package"
	done <<<"$1"
}
mapfile -t missing < <(missing_of "$needs")
mapfile -t wanted < <(missing_of "$wants")
want_fuzzers=false
[ "$what" = full ] && ! can_fuzz && want_fuzzers=true
if [ $((${#missing[@]} + ${#wanted[@]})) -eq 0 ] && ! $want_fuzzers; then exit 0; fi

cannot() { # HOW TO: says what is missing, and fails if it is needed
	[ ${#wanted[@]} -eq 0 ] || echo "without these some tests are skipped, or the web page is plainer; $1: ${wanted[*]}" >&2
	[ ${#missing[@]} -eq 0 ] && exit 0
	echo "moefs needs packages that are missing; $1: ${missing[*]}" >&2
	exit 1
}
command -v apt-get >/dev/null 2>&1 || cannot "install what your system calls (Debian's names)"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	sudo -n true 2>/dev/null || [ ${#missing[@]} -gt 0 ] || cannot "as root: apt-get install"
	command -v sudo >/dev/null 2>&1 || cannot "as root: apt-get install"
	as_root=(sudo)
fi
# Packages with a service would start it: this is how Debian is told not to.
policy=/usr/sbin/policy-rc.d
forbid_services() {
	[ ! -e "$policy" ] || return 0
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod 755 "$policy"
	trap '"${as_root[@]}" rm -f "$policy"' EXIT
}
install() { # PACKAGE…
	echo "installing $*"
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		"$@" >/dev/null
}
"${as_root[@]}" apt-get update -qq || [ ${#missing[@]} -eq 0 ]
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
forbid_services
[ ${#wanted[@]} -eq 0 ] || install "${wanted[@]}" || echo "these cannot be installed, so some tests are skipped, or the web page is plainer: ${wanted[*]}" >&2
if $want_fuzzers; then
	compiler=(clang)
	apt-cache show libclang-rt-dev >/dev/null 2>&1 && compiler+=(libclang-rt-dev)
	install "${compiler[@]}" 2>/dev/null || true
fi
