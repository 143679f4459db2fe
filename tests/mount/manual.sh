#!/usr/bin/env bash
# moefs(5) and the mount's README describe the same tree, and every file in it. --help, moefs(1)
# and completion have the same options; --help, moefs(1) and docs/weights.md say where a store is. The pages are the ones that make has built.
. "$(dirname "$0")/lib.sh"
pages=$(dirname "$MOEFS")/install
[ -e "$pages/moefs.5" ] || pages=$root/build/install
[ -e "$pages/moefs.5" ] || { echo "not ok $(basename "$0"): $pages/moefs.5 is missing; run make"; exit 1; }

mounted

rows() { sed -n 's/^    \([A-Za-z][A-Za-z._/]*\)  .*/\1/p' ../README; }
in_manual() { # each with its access
	sed -n 's/\\-/-/g; s/^\.SS The mount.*/FOLDER /p; s/^\.SS \(.*\/\)$/FOLDER \1/p; s/^\.BR "\([^"]*\)" "   \(rw*\) .*/\1 \2/p' \
		"$pages/moefs.5" | awk '$1 == "FOLDER" { folder = $2; next } { print folder $1, $2 }' | sort >"$work/page"
	sed -n 's/^    \([A-Za-z][A-Za-z._/]*[A-Za-z]\)  *\(rw*\)  *.*/\1 \2/p' ../README | sort >"$work/readme"
	cmp -s "$work/readme" "$work/page" || fail "README (<) and moefs.5 (>): $(diff "$work/readme" "$work/page")"
	[ "$(rows | wc -l)" -gt 40 ] || fail "README lists only $(rows | wc -l) files"
}
# A path of the tree as README writes it.
general() {
	sed -e "s|^$(basename "$MODEL")|MODEL|" -e 's|sessions/default|sessions/NAME|' \
		-e 's|params/\(system\|stop\|grammar\|logit_bias\|experts_bias\)$|params/TEXT|' -e 's|params/[a-z_]*$|params/VALUE|' \
		-e 's|experts/[0-9]*/[0-9]*$|experts/LL/EEE|' \
		-e 's#^MODEL/\(prompt\|output\|thoughts\|log\|status\|wait\|error\|error.json\|ctl\|stats\|stats.json\|why\)$#MODEL/sessions/NAME/\1#' \
		-e 's|tensors/.*[.]npy$|tensors/NAME.npy|' -e 's|prefixes/.*|prefixes/NAME|' \
		-e 's#^MODEL/\(messages.json\|template.json\|rendered.*\|tool[_s].*\|choices.*\|plan\)$#MODEL/sessions/NAME/\1#'
}
all_told() {
	local path
	(cd "$mnt" && find . -type f -printf '%P\n') | general | sort -u >"$work/found"
	while read -r path; do
		rows | grep -qxF "$path" || fail "README lacks $path"
	done <"$work/found"
	[ "$(wc -l <"$work/found")" -gt 30 ] || fail "only $(wc -l <"$work/found") kinds of files were found"
}
manual() { # 1 or 5: the page without its marks; .BR and its like join words, but for the spaces in quotes
	sed -E -e '/^\.[BIR][BIR] /{s/^\.[A-Z]+ //; :a; s/"([^" ]*) ([^"]*)"/"\1\x01\2"/; ta; s/[ "]//g; s/\x01/ /g}' \
		-e 's/^\.[A-Z]+ //; s/\\-/-/g' "$pages/moefs.$1"
}
members_told() {
	local file
	for file in sessions/default/params/*; do
		manual 5 | grep -qE "^${file##*/}   " || fail "moefs.5 lacks a paragraph for params/${file##*/}"
		grep -qE "^    ${file##*/} +[^ ].*; .* \[.*\]$" ../README || fail "README lacks params/${file##*/}"
	done
	for file in info/*; do
		manual 5 | grep -qE "^${file##*/}   " || fail "moefs.5 lacks MODEL/$file"
	done
}
lint() { # man prints no warnings
	local page count=0
	for page in "$pages"/*.[158]; do
		same "$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)" "" "${page##*/}"
		count=$((count + 1))
	done
	[ $count -ge 9 ] || fail "only $count pages"
}
options_told() {
	local option count=0
	for option in $("$MOEFS" --help | sed -n '/^    moefs /d; s/^    \([-a-z].*\)/\1/p' | sed 's/  .*//; s/=[^,]*/=/g; s/ OPTION.*//' | tr -d ,); do
		manual 1 | grep -qE -e "^(-o |.*, |)$option" || fail "moefs.1 lacks $option"
		count=$((count + 1))
	done
	for option in $("$MOEFS" --help | sed -n '/^Commands:/,$s/^ *moefs \([a-z]*\) .*/\1/p'); do
		manual 1 | grep -qE "^moefs $option " || fail "moefs.1 lacks moefs $option"
		[ -s "$pages/moefs-$option.1" ] || fail "there is no moefs-$option.1"
	done
	[ $count -gt 12 ] || fail "--help has only $count options"
}

# ---- where a store is ----

store_told() {
	local text
	for text in "$("$MOEFS" --help)" "$(manual 1)" "$(cat "$root/docs/weights.md")"; do
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
	same "$place" "$work/models/one.moefs/4bit"
	[ -e "$place/index" ] || fail "no store in $place"
	rm -r "$work/models/one.moefs"
}
in_cache() { # if no folder can be made beside the model
	local place
	begin
	case $place in "$work"/home/.cache/moefs/one-*/4bit) ;; *) fail "the store is in $place" ;; esac
	[ -e "$place/index" ] || fail "no store in $place"
	[ ! -e "$work/models/one.moefs" ] || fail "there is one beside the model, too"
}

claim "the rows of the mount's README are those of moefs(5)" in_manual
claim "every file of the tree is in the mount's README" all_told
claim "every param is in both, and every fact" members_told
if command -v man >/dev/null; then
	claim "man has nothing to say against the pages" lint
else
	echo "ok man # skip: it is not installed"
fi
claim "every option of --help is in moefs(1)" options_told
claim "all three say where a store is" store_told
cd / && unmounted
mkdir -p "$work/models/one" "$work/home"
cp "$MODEL"/* "$work/models/one/"
claim "it is next to the model" beside
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
