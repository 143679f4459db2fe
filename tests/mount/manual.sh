#!/usr/bin/env bash
# The manual page and the mount's README tell the same tree, and the tree has no file that they leave out. --help, the
# manual page, README.md and the completion tell the same options, and where a store is.
. "$(dirname "$0")/lib.sh"

mounted

rows() { sed -n 's/^    \([A-Za-z][A-Za-z._/]*\)  .*/\1/p' ../README; }
in_manual() { # word for word, so that neither tells what the other does not
	sed -n '/^    cache\/ /,/^$/p' ../README | tr -s ' ' | sed 's/^ //; /^$/d' >"$work/readme"
	sed -n '/^cache\/ /,/^\.fi/p' "$root/fs/moefs.1" | tr -s ' ' | sed 's/\\-/-/g; /^\.fi/d' >"$work/page"
	cmp -s "$work/readme" "$work/page" || fail "README (<) and fs/moefs.1 (>): $(diff "$work/readme" "$work/page")"
	[ "$(rows | wc -l)" -gt 40 ] || fail "README lists only $(rows | wc -l) files"
}
# A path of the tree as README writes it.
general() {
	sed -e "s|^$(basename "$MODEL")|MODEL|" -e 's|sessions/default|sessions/NAME|' \
		-e 's|params/\(system\|stop\|grammar\|logit_bias\)$|params/TEXT|' -e 's|params/[a-z_]*$|params/VALUE|' \
		-e 's|experts/[0-9]*/[0-9]*$|experts/LL/EEE|' \
		-e 's#^MODEL/\(prompt\|output\|thoughts\|log\|status\|wait\|error\|ctl\|stats\|stats.json\)$#MODEL/sessions/NAME/\1#' \
		-e 's|tensors/.*[.]npy$|tensors/NAME.npy|' \
		-e 's#^MODEL/\(messages.json\|template.json\|rendered.*\|tool[_s].*\)$#MODEL/sessions/NAME/\1#'
}
all_told() {
	local path
	(cd "$mnt" && find . -type f -printf '%P\n') | general | sort -u >"$work/found"
	while read -r path; do
		rows | grep -qxF "$path" || fail "README lacks $path"
	done <"$work/found"
	[ "$(wc -l <"$work/found")" -gt 30 ] || fail "only $(wc -l <"$work/found") kinds of files were found"
}
manual() { # the page without its marks; .BR and its like join words, but for the spaces in quotes
	sed -E -e '/^\.[BIR][BIR] /{s/^\.[A-Z]+ //; :a; s/"([^" ]*) ([^"]*)"/"\1\x01\2"/; ta; s/[ "]//g; s/\x01/ /g}' \
		-e 's/^\.[A-Z]+ //; s/\\-/-/g' "$root/fs/moefs.1"
}
members_told() {
	local file
	for file in sessions/default/params/*; do
		manual | grep -qE "^(.*, )?params/${file##*/}(\$|,)" || fail "fs/moefs.1 lacks a paragraph for params/${file##*/}"
	done
	for file in info/*; do
		grep -qE "^MODEL/$file " "$root/fs/moefs.1" || fail "fs/moefs.1 lacks MODEL/$file"
	done
}
options_told() {
	local option count=0
	for option in $("$MOEFS" --help | sed -n 's/^    \([-a-z].*\)/\1/p' | sed 's/  .*//; s/=.*/=/; s/ OPTION.*//' | tr -d ,); do
		manual | grep -qE -e "^(-o |.*, |)$option" || fail "fs/moefs.1 lacks $option"
		grep -qE -e "[[:space:]\"]$option" "$root/fs/moefs.bash" || fail "fs/moefs.bash lacks $option"
		case $option in
		-h | --help | -V | --version) ;; # which say what they are
		*) grep -qE -e "^\|.*\`(-o )?$option" "$root/README.md" || fail "README.md lacks $option" ;;
		esac
		count=$((count + 1))
	done
	[ $count -gt 12 ] || fail "--help has only $count options"
}

completes() { # a model's folder and a GGUF file, and nothing else
	mkdir -p "$work/here/checkpoint" && touch "$work/here/one.gguf" "$work/here/notes.txt"
	same "$(cd "$work/here" && bash -c '. "$1"; compopt() { :; }; COMP_WORDS=(moefs "") COMP_CWORD=1 COMP_LINE="moefs " COMP_POINT=6
		_moefs; printf "%s " "${COMPREPLY[@]}"' - "$root/fs/moefs.bash")" "checkpoint one.gguf "
}

# ---- where a store is ----

store_told() {
	local text
	for text in "$("$MOEFS" --help)" "$(manual)" "$(cat "$root/README.md")"; do
		grep -q 'MODELDIR\.moefs' <<<"$text" || fail "not told: MODELDIR.moefs, in: ${text:0:40}…"
		grep -q '~/\.cache/moefs' <<<"$text" || fail "not told: ~/.cache/moefs, in: ${text:0:40}…"
		! grep -q 'in MODELDIR' <<<"$text" || fail "told wrongly: in MODELDIR, in: ${text:0:40}…"
	done
}
begin() { # a mount that finds the place itself
	unset XDG_CACHE_HOME
	export HOME=$work/home
	"$MOEFS" "$work/models/one" "$mnt" || fail mount
	daemon=$(pgrep -n -f -- " $mnt\$")
	cd "$mnt/one" || exit
	loaded
	complete "$mnt/one"
	place=$(cat info/store)
	cd /
	unmounted
}
beside() {
	begin
	same "$place" "$work/models/one.moefs/tq3"
	[ -e "$place/index" ] || fail "no store in $place"
	rm -r "$work/models/one.moefs"
}
in_cache() { # where a folder beside the model may not be made
	local place
	begin
	case $place in "$work"/home/.cache/moefs/one-*/tq3) ;; *) fail "the store is in $place" ;; esac
	[ -e "$place/index" ] || fail "no store in $place"
	[ ! -e "$work/models/one.moefs" ] || fail "there is one beside the model, too"
}

claim "the rows of the mount's README are those of the manual page" in_manual
claim "every file of the tree is in the mount's README" all_told
claim "every param and every fact is in the manual page" members_told
claim "every option of --help is in the manual page, the completion and README.md" options_told
claim "all three say where a store is" store_told
claim "what can be mounted is completed" completes
cd / && unmounted
mkdir -p "$work/models/one" "$work/home"
cp "$MODEL"/* "$work/models/one/"
claim "it is beside the model" beside
if [ "$(id -u)" != 0 ]; then
	chmod a-w "$work/models"
	claim "or in ~/.cache where that may not be written" in_cache
	chmod u+w "$work/models"
elif mount --bind "$work/models" "$work/models" 2>/dev/null && mount -o remount,ro,bind "$work/models"; then
	claim "or in ~/.cache where that may not be written" in_cache
	umount "$work/models"
else
	echo "ok ~/.cache # skip: a folder cannot be made read-only here"
fi
finish
