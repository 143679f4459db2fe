#!/usr/bin/env bash
# README.md as a newcomer walks through it, from its first block to its last, in bash; and its first mount in fish. Each
# fenced block is run, and by what stands behind its fence:
#
#     sh                commands; each must succeed
#     console           commands behind "$ ", and to the byte what they print
#     console varies    the same, but for what depends on memory, time or place: they say nothing is wrong, and print as many lines, or more
#     console bash      not for fish
#     console curl      where curl is installed
#     text              no commands: looked at by claims of their own
#
# "Install" runs by itself, with a sudo that installs into a folder here. And the demonstration.
. "$(dirname "$0")/lib.sh"
readme=$root/README.md
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "README's answers are those of fable-moe-15m, not of $MODEL"

# A clone that is built, at ~/moefs; the model is a copy, so that nobody else's mount has it.
mkdir -p "$work"/home/moefs/examples/models "$work"/{bin,tmp,blocks} || exit 1
ln -s "$root"/* "$work/home/moefs/" 2>/dev/null
rm -f "$work/home/moefs/build"
ln -s "$root"/examples/* "$work/home/moefs/examples/" 2>/dev/null
rm -rf "$work/home/moefs/examples/models" && mkdir "$work/home/moefs/examples/models"
cp -r "$MODEL" "$work/home/moefs/examples/models/"
mkdir "$work/home/moefs/build" && ln -s "$(dirname "$MOEFS")"/* "$work/home/moefs/build/"
ln -s "$MOEFS" "$work/bin/moefs"
export HOME=$work/home PATH=$work/bin:$PATH TMPDIR=$work/tmp
mnt=$HOME/m
unset XDG_CACHE_HOME XDG_RUNTIME_DIR

# blocks/NN.KIND.SECTION: each fenced block without its fence.
awk -v to="$work/blocks/" '/^## / { section = tolower(substr($0, 4)); gsub(/[^a-z]+/, "-", section) }
	/^```./ { kind = substr($0, 4); gsub(/ /, "-", kind); file = sprintf("%s%02d.%s.%s", to, ++n, kind, section); printf "" > file; next }
	/^```$/ { file = ""; next }
	file { print > file }' "$readme"

script_of() { # BLOCK…: bash's or fish's script of it, what each block prints after a line "@@ BLOCK"
	local block
	for block; do
		printf 'echo "@@ %s"\n' "${block##*/}"
		case ${block##*/} in
		*.sh.*) [ "$shell" = fish ] || echo 'set -e'; cat "$block"; [ "$shell" = fish ] || echo 'set +e' ;;
		*) sed -n 's/^\$ //p' "$block" ;;
		esac
	done
	echo 'echo "@@ end"'
}
# What a shell says of an error has its own name and the line's number before it.
without_lines() { sed -E 's/^[^ ]*: line [0-9]+: /bash: /'; }

said_of() { # BLOCK: what was printed there
	sed -n "/^@@ $(basename "$1")\$/,/^@@ /p" "$work/said" | sed '1d;$d'
}
wanted_of() { grep -v '^\$ ' "$1"; }

compared() { # BLOCK
	case ${1##*/} in
	*.console-varies.*)
		[ "$(said_of "$1" | wc -l)" -ge "$(wanted_of "$1" | wc -l)" ] || fail "$(basename "$1") prints less: $(said_of "$1")"
		said_of "$1" | grep -iE 'error|cannot|denied|no such|not found' && fail "in $(basename "$1")"
		;;
	*.console*) diff <(wanted_of "$1") <(said_of "$1") >"$work/differs" || fail "$(basename "$1"): README (<) and what is said (>): $(cat "$work/differs")" ;;
	esac
	return 0
}
walked() { # SHELL BLOCK…
	local shell=$1 block
	shift
	cd "$HOME" || exit
	script_of "$@" >"$work/script"
	"$shell" "$work/script" 2>&1 | without_lines >"$work/said"
	grep -qx '@@ end' "$work/said" || fail "it ended early: $(tail -n 3 "$work/said")"
	for block; do compared "$block"; done
	! grep -q " $HOME/m " /proc/self/mountinfo || fail "it is still mounted"
}

command -v curl >/dev/null || rm "$work"/blocks/*.console-curl.*
mapfile -t all < <(ls "$work"/blocks/*.{sh,console,console-*}.* | grep -v '\.install$' | sort -u)
[ ${#all[@]} -ge 14 ] || { echo "not ok README.md: it has ${#all[@]} blocks to run"; exit 1; }
claim "each block of README.md prints what stands there" walked bash "${all[@]}"
fusermount3 -u "$HOME/m" 2>/dev/null # where that failed in the midst
rmdir "$HOME/m"
rm -rf "$HOME/models" "$HOME"/*.state
mapfile -t first < <(ls "$work"/blocks/*.console.first-*)
needs fish claim "its first mount, in fish" walked fish "${first[@]}"

installs() {
	printf '#!/bin/sh\nexec env DESTDIR=%s "$@"\n' "$work/installed" >"$work/bin/sudo"
	chmod +x "$work/bin/sudo"
	cd "$HOME/moefs" || exit
	cat "$work"/blocks/*.sh.install >"$work/script"
	grep -q '^make demo' "$work/script" && grep -q '^sudo make install' "$work/script" || fail "Install is another"
	bash -e "$work/script" >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	for answer in "The capital of France is Paris." "12 x 6 = 72" "The opposite of hot is cold."; do
		grep -qxF "$answer" "$work/said" || fail "the demonstration has not said: $answer"
	done
	[ -x "$work/installed/usr/local/bin/moefs" ] || fail "nothing was installed"
	same "$(ls "$TMPDIR")" "" "left over"
}
claim "the lines of Install, the demonstration with them" installs

glance() { # each path of the tree at a glance is there
	local tree=$work/blocks/[0-9]*.text.the-tree-at-a-glance path
	mkdir -p "$mnt"
	"$MOEFS" -o store="$store" "$MODEL" "$mnt" || fail mount
	grep -qx 'MODEL/prompt .*' $tree || fail "the tree is another"
	sed -E 's/   +[^ ].*$//' $tree | grep -v '^ ' | tr ' ' '\n' | while read -r path; do
		case $path in
		MODEL/*) ;;
		[a-z]*) [ -e "$mnt/$path" ] || [ -e "$mnt/fable-moe-15m/$path" ] || fail "there is no $path"; continue ;;
		esac
		path=${path/MODEL/fable-moe-15m} path=${path/NAME.npy/model.norm.weight.npy}
		path=${path/sessions\/NAME/sessions\/default} path=${path/ask.d\/NAME/ask.d} path=${path/LL\/EEE/00\/000}
		[ -z "$path" ] || [ -e "$mnt/$path" ] || fail "there is no $path"
	done || exit
	sed -nE 's/^    ([^ ].*)$/\1/p' $tree | sed -E 's/   +[^ ].*$//' | tr ' ' '\n' | while read -r path; do
		[ -e "$mnt/fable-moe-15m/sessions/default/$path" ] || fail "a session has no $path"
	done || exit
	fusermount3 -u "$mnt"
}
claim "the tree at a glance is what there is" glance

fstab() {
	findmnt --tab-file <(cat "$work"/blocks/*.text-fstab.*) -no FSTYPE,TARGET >"$work/said" 2>&1 || fail "findmnt: $(cat "$work/said")"
	same "$(cat "$work/said")" "moefs  /home/you/m"
}
needs findmnt claim "the line of fstab is one" fstab
finish
