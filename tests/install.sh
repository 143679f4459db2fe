#!/usr/bin/env bash
# `make uninstall` removes exactly what `make install` has installed, for any PREFIX; and the installed pages are complete: a
# file, param or command without its entry stops make.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/claim.bash
unset MAKEFLAGS CC # a compiler with a cache would keep that in the home that is looked into
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -x build/pages ] || { echo "not ok install.sh: build/pages is missing; run make"; exit 1; }

fail() { echo "$*"; exit 1; }
files() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }

# Make is told that all is built already: what is tested is where it goes.
installs() { # TARGET VARIABLE…: for a build that is there
	make -s -o all "$@" >"$work/made" || fail "make $*: $(cat "$work/made")"
}
everything() { # PREFIX: as it lies below
	local file
	for file in bin/moefs{,-http} share/man/man1/moefs{,-http,-ask,-chat,-demo,-list,-stores,-top,-umount}.1 share/man/man5/moefs.5 \
		share/moefs/demo.sh share/moefs/models/fable-moe-15m/config.json \
		share/bash-completion/completions/moefs{,-http} share/zsh/site-functions/_moefs{,-http} \
		share/fish/vendor_completions.d/moefs{,-http}.fish; do
		[ -s "$1/$file" ] || fail "no $1/$file"
	done
	cmp -s build/moefs "$1/bin/moefs" && cmp -s build/moefs-http "$1/bin/moefs-http" || fail "another program"
	[ "$(stat -c %a "$1/bin/moefs" "$1/share/man/man1/moefs.1" | xargs)" = "755 644" ] || fail "modes"
}
and_back() {
	local to=$work/to
	mkdir -p "$to/usr/local/bin" && echo mine >"$to/usr/local/bin/other"
	installs install DESTDIR="$to"
	everything "$to/usr/local"
	for unit in moefs@.service moefs-http@.service moefs-http@.socket; do
		[ -s "$to/usr/local/lib/systemd/user/$unit" ] || fail "no $unit where systemd looks"
	done
	grep -q '^ExecStart=/usr/local/bin/moefs-http ' "$to/usr/local/lib/systemd/user/moefs-http@.service" || fail "it starts another"
	[ "$(readlink "$to/sbin/mount.moefs")" = /usr/local/bin/moefs ] || fail "no helper where mount(8) looks"
	mkdir -p "$to/usr/local/share/moefs/models/fable-moe-15m.moefs/3bit" # as a mount of root's makes it
	echo >"$to/usr/local/share/moefs/models/fable-moe-15m.moefs/3bit/index"
	installs uninstall DESTDIR="$to"
	[ ! -e "$to/usr/local/share/moefs" ] || fail "left: share/moefs"
	[ "$(files "$to")" = ./usr/local/bin/other ] || fail "left: $(files "$to")"
}
at_home() { # as the tilde reaches make from a shell that leaves it, in a home with a blank
	export HOME="$work/a home"
	mkdir -p "$HOME"
	installs install PREFIX='~/.local'
	everything "$HOME/.local"
	[ -s "$HOME/.local/share/systemd/user/moefs@.service" ] || fail "no unit where systemd looks"
	[ "$(find "$work/a home" -mindepth 1 -maxdepth 1)" = "$HOME/.local" ] || fail "something beside .local"
	installs uninstall PREFIX='~/.local'
	[ -z "$(files "$HOME")" ] || fail "left: $(files "$HOME")"
}
told() { # docs/machines.md has every place
	local place
	make -s -o all -n install PREFIX=/PREFIX | sed -n "s,.*'/PREFIX/\([^']*\)'.*,\1,p" >"$work/places"
	echo /sbin/mount.moefs >>"$work/places"
	[ "$(wc -l <"$work/places")" -gt 5 ] || fail "nothing is installed: $(cat "$work/places")"
	while read -r place; do
		grep -qF "$place" docs/machines.md || grep -qF "${place%/*}/" docs/machines.md || fail "docs/machines.md lacks $place"
	done <"$work/places"
}
said() { # WORDS: when a page is made of what is on the input
	cat >"$work/page.5.in"
	! build/pages "$work/page.5.in" >"$work/page" 2>"$work/said" || fail "a page is made"
	grep -qF "$1" "$work/said" || fail "said: $(head -n 3 "$work/said")"
}
complete() { # each entry away once: of a folder, a file, a param, a fact; each command's page
	local entry
	for entry in MODEL/experts/ MODEL/experts/map MODEL/sessions/NAME/params/min_p MODEL/info/layers; do
		grep -vxF "@ $entry" fs/install/moefs.5.in | said "add a line \"@ $entry\"" || exit
	done
	cp fs/install/moefs-*.1.in "$work/"
	build/pages "$work/moefs-list.1.in" >"$work/page" || fail "no page of list"
	rm "$work/moefs-list.1.in"
	said "add moefs-list.1.in beside it" <fs/install/moefs.1.in || exit
	echo '@command nothing' | said 'there is no command "nothing"' || exit
	echo '@options nothing' | said 'there is no command "nothing"' || exit
	{ cat fs/install/moefs.5.in; echo '@ MODEL/nothing'; } | said 'there is no row for its entry "@ MODEL/nothing"' || exit
	{ cat fs/install/moefs.5.in; echo '@ README'; } | said 'has two entries "@ README"' || exit
	echo '@each thing %n' | said 'there is no list'
}

claim "what is installed is uninstalled, and nothing else" and_back
claim "also below ~" at_home
claim "docs/machines.md says what goes where" told
claim "a page without an entry, or with one too many, is not made" complete
exit $status
