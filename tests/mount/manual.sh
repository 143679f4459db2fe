#!/usr/bin/env bash
# The manual page and the mount's README tell the same tree, and the tree has no file that they leave out.
. "$(dirname "$0")/lib.sh"

mounted

rows() { sed -n 's/^    \([A-Za-z][A-Za-z._/]*\)  .*/\1/p' ../README; }
in_manual() {
	local row
	for row in $(rows); do
		grep -qE "^$row( |\$)" "$root/fs/moefs.1" || fail "fs/moefs.1 lacks $row"
	done
	[ "$(rows | wc -l)" -gt 40 ] || fail "README lists only $(rows | wc -l) files"
}
# A path of the tree as README writes it.
general() {
	sed -e "s|^$(basename "$MODEL")|MODEL|" -e 's|sessions/default|sessions/NAME|' \
		-e 's|params/\(system\|stop\)$|params/TEXT|' -e 's|params/[a-z_]*$|params/VALUE|' \
		-e 's|experts/[0-9]*/[0-9]*$|experts/LL/EEE|' \
		-e 's#^MODEL/\(prompt\|output\|log\|status\|wait\|error\|ctl\|stats\)$#MODEL/sessions/NAME/\1#'
}
all_told() {
	local path
	(cd "$mnt" && find . -type f -printf '%P\n') | general | sort -u >"$work/found"
	while read -r path; do
		rows | grep -qxF "$path" || fail "README lacks $path"
	done <"$work/found"
	[ "$(wc -l <"$work/found")" -gt 30 ] || fail "only $(wc -l <"$work/found") kinds of files were found"
}
options_told() {
	local option
	for option in $("$MOEFS" --help | sed -n 's/^    \([a-z_]*=\).*/\1/p'); do
		grep -qF "$option" "$root/fs/moefs.1" || fail "fs/moefs.1 lacks -o $option"
		grep -qF "$option" "$root/fs/moefs.bash" || fail "fs/moefs.bash lacks $option"
		grep -qF "$option" "$root/README.md" || fail "README.md lacks -o $option"
	done
}

claim "every row of the mount's README is in the manual page" in_manual
claim "every file of the tree is in the mount's README" all_told
claim "every option of --help is in the manual page, the completion and README.md" options_told
finish
