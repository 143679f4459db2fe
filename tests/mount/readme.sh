#!/usr/bin/env bash
# README.md and docs/*.md as a newcomer follows them. Each fenced block runs, by the words behind its fence:
#
#     sh                commands; each must succeed. No comments, since an interactive zsh takes none
#     console           commands behind "$ ", and exactly what they print
#     console varies    the same, but output may differ by memory, time or place: no error, and at least as many lines
#     console bash      only in bash
#     console curl      only where curl is installed
#     text              no commands: checked by claims of their own
#
# README's first answer and its real model run in bash, zsh and fish, its scripts in bash and zsh, the pages of docs/ in bash.
# A stand-in for the hub's client copies the demonstration model. "Install" runs by itself, with a sudo that installs into a
# folder here.
. "$(dirname "$0")/lib.sh"
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "the answers in README.md are those of fable-moe-15m, not of $MODEL"

# A built clone at ~/moefs; the model is a copy, so that no other test's mount has it.
mkdir -p "$work"/home/moefs/examples/models "$work"/{bin,tmp,blocks} || exit 1
ln -s "$root"/* "$work/home/moefs/" 2>/dev/null
rm -f "$work/home/moefs/build"
ln -s "$root"/examples/* "$work/home/moefs/examples/" 2>/dev/null
rm -rf "$work/home/moefs/examples/models" && mkdir "$work/home/moefs/examples/models"
cp -r "$MODEL" "$work/home/moefs/examples/models/"
mkdir "$work/home/moefs/build" && ln -s "$(dirname "$MOEFS")"/* "$work/home/moefs/build/"
ln -s "$MOEFS" "$work/bin/moefs"
cat >"$work/bin/hf" <<'END'
#!/bin/sh
[ "$1 $3" = "download --local-dir" ] && mkdir -p "$(dirname "$4")" && cp -r "$HOME/moefs/examples/models/fable-moe-15m" "$4"
END
chmod +x "$work/bin/hf"
export HOME=$work/home PATH=$work/bin:$PATH TMPDIR=$work/tmp
mnt=$HOME/m
unset XDG_CACHE_HOME XDG_RUNTIME_DIR

# blocks/PAGE/NN.KIND.SECTION: each fenced block without its fence.
blocks_of() { # PAGE
	local to=$work/blocks/${1%.md}
	mkdir -p "$to"
	awk -v to="$to/" '/^## / { section = tolower(substr($0, 4)); gsub(/[^a-z]+/, "-", section) }
		/^```./ { kind = substr($0, 4); gsub(/ /, "-", kind); file = sprintf("%s%02d.%s.%s", to, ++n, kind, section); printf "" > file; next }
		/^```$/ { file = ""; next }
		file { print > file }' "$root/$1"
	command -v curl >/dev/null || rm -f "$to"/*.console-curl.*
}
pages=(README.md)
for page in "$root"/docs/*.md; do pages+=("docs/${page##*/}"); done
for page in "${pages[@]}"; do blocks_of "$page"; done

script_of() { # BLOCK…: a script for bash or fish that prints a line "@@ BLOCK" before each block's output
	local block
	for block; do
		printf 'echo "@@ %s"\n' "${block##*/}"
		case ${block##*/} in
		*.sh.*) if [ "$shell" = fish ]; then sed 's/$/; or exit 1/' "$block"; else echo 'set -e'; cat "$block"; echo 'set +e'; fi ;;
		*) sed -n 's/^\$ //p' "$block" ;;
		esac
	done
	echo 'echo "@@ end"'
}
# A shell's error message begins with its own name and the line's number.
without_lines() { sed -E 's/^[^ ]*: line [0-9]+: /bash: /'; }

said_of() { # BLOCK: its output
	sed -n "/^@@ $(basename "$1")\$/,/^@@ /p" "$work/said" | sed '1d;$d'
}
wanted_of() { grep -v '^\$ ' "$1"; }

compared() { # BLOCK
	case ${1##*/} in
	*.console-varies.*)
		[ "$(said_of "$1" | wc -l)" -ge "$(wanted_of "$1" | wc -l)" ] || fail "$(basename "$1") prints less: $(said_of "$1")"
		# A list of mounts has those of other tests, which may be about to end.
		said_of "$1" | awk -v own="$work" '!index($0, "/moefs-test.") || index($0, own)' |
			grep -iE '\berror|cannot|denied|no such|not found' && fail "in $(basename "$1")"
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
	case " $* " in *.a-first-answer*) grep -qxF "The capital of France is Paris." "$work/said" || fail "no first answer: $(cat "$work/said")" ;; esac
	! grep -q " $HOME/m " /proc/self/mountinfo || fail "it is still mounted"
}

# Restores ~: a failed walk may leave a mount.
tidy() {
	cd "$work" || exit
	fusermount3 -u "$HOME/m" 2>/dev/null
	rm -rf "$HOME/models" "$HOME"/*.state "$HOME/questions"
	[ ! -d "$HOME/m" ] || rmdir "$HOME/m"
}
first_and_real() { ls "$work"/blocks/README/*.sh.{a-first-answer,a-real-model}*; }
# Commands that are on no page: the scripts run in a model's folder, and none of them unmounts.
mkdir "$work/blocks/between"
printf 'cd ~/m/Qwen3-30B-A3B\necho 0 > sessions/default/params/temperature\n' >"$work/blocks/between/enter.sh."
printf 'cd; moefs umount ~/m\n' >"$work/blocks/between/leave.sh."

for shell in bash zsh; do
	mapfile -t blocks < <(first_and_real; echo "$work/blocks/between/enter.sh."; ls "$work"/blocks/README/*.sh.five-scripts; echo "$work/blocks/between/leave.sh.")
	[ ${#blocks[@]} -ge 9 ] || { echo "not ok README.md: it has only ${#blocks[@]} blocks to run"; exit 1; }
	needs $shell claim "README's first answer, real model and scripts, in $shell" walked $shell "${blocks[@]}"
	tidy
done
mapfile -t blocks < <(first_and_real; echo "$work/blocks/between/leave.sh.")
needs fish claim "README's first answer and real model, in fish" walked fish "${blocks[@]}"
tidy
for page in "${pages[@]:1}"; do
	mapfile -t blocks < <(ls "$work/blocks/${page%.md}"/*.{sh,console,console-*}.* 2>/dev/null)
	[ ${#blocks[@]} -gt 0 ] || continue
	claim "each block of $page prints what the page shows" walked bash "${blocks[@]}"
	tidy
done

# A page's headings as links name them.
headings() { sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; }
uncommented() {
	! grep -nE '(^|[[:space:]])#' "$work"/blocks/README/*.sh.* || fail "an interactive zsh does not take comments"
	[ "$(wc -l <"$root/README.md")" -le 168 ] || fail "README.md has more than 168 lines"
	local page link to
	for page in "${pages[@]}"; do
		grep -oE '\]\([^):]+\)' "$root/$page" | tr -d '])(' | while read -r link; do
			to=$root/$page
			[ "${link%%#*}" = "" ] || to=$(dirname "$root/$page")/${link%%#*}
			[ -e "$to" ] || fail "$page: there is no $link"
			case $link in *#*) headings "$to" | grep -qxF "${link#*#}" || fail "$page: there is no heading $link" ;; esac
		done || exit
	done
}
claim "README is short, its blocks can be pasted, and all links lead somewhere" uncommented

installs() {
	printf '#!/bin/sh\nexec env DESTDIR=%s "$@"\n' "$work/installed" >"$work/bin/sudo"
	chmod +x "$work/bin/sudo"
	cd "$HOME/moefs" || exit
	cat "$work"/blocks/README/*.sh.install >"$work/script"
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
	local tree=$work/blocks/README/[0-9]*.text.the-tree-at-a-glance path
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
	user_unmounts "$mnt"
}
claim "the tree at a glance is what there is" glance

fstab() {
	findmnt --tab-file <(cat "$work"/blocks/docs/machines/*.text-fstab.*) -no FSTYPE,TARGET >"$work/said" 2>&1 || fail "findmnt: $(cat "$work/said")"
	same "$(cat "$work/said")" "moefs  /home/you/m"
}
needs findmnt claim "the line of fstab is one" fstab
finish
