#!/usr/bin/env bash
# docs/internals.md compared with the tree: its picture shows the rooms that exist, those of engine/ in the order that
# layers.sh holds, and every file and folder that the page names exists. So does every file of C that a comment or a
# README names.
set -u
cd "$(dirname "$0")/.." || exit 1

# The lines of a block of the page.
block() { # NAME PAGE
	sed -n "/^\`\`\`text $1\$/,/^\`\`\`\$/p" "$2" | grep -v '^```'
}

# The rooms of one part of the picture: the words after its title, and those of the next lines, up to one that is empty or
# has a bar.
rooms_of() { # TITLE, half of the picture on standard input
	awk -v title="$1" '
		$1 == title { inside = 1; $1 = "" }
		/\|/ || NF == 0 { inside = 0 }
		inside { for (i = 1; i <= NF; i++) if ($i != "") print $i }'
}

folders() { # FOLDER: the names of its folders
	find "$1" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | LC_ALL=C sort
}

# The rooms of a folder that the picture has not, and the other way round.
differ() { # FOLDER HALF [a folder that is a part of the picture itself]
	diff <(folders "$1" | grep -vx "${3:-}") <(rooms_of "$1" <<<"$2" | LC_ALL=C sort) |
		sed -n "s|^< |${1%/}/ has, and the picture has not: |p; s|^> |the picture has, and ${1%/}/ has not: |p"
}

# What is wrong with the page in the working directory.
faults() {
	local page=docs/internals.md left right
	left=$(block rooms "$page" | cut -c1-60)
	right=$(block rooms "$page" | cut -c61-)
	differ engine/ "$left"
	differ fs/ "$left" gateway
	differ fs/gateway "$right"
	[ "$(rooms_of engine/ <<<"$left" | tac | xargs)" = "$(sed -n 's/^rooms=(\(.*\))$/\1/p' tests/layers.sh)" ] ||
		echo "the rooms of engine/ stand in another order than in tests/layers.sh"
	{
		grep -o '`[A-Za-z0-9_./]*/[A-Za-z0-9_./]*`' "$page" | tr -d '`'
		block token "$page" | grep -oE '\b(engine|fs|cache|kernels)/[A-Za-z0-9_./]*'
	} | LC_ALL=C sort -u | while read -r path; do
		[ -e "$path" ] || echo "$page names $path, which does not exist"
	done
}

# The files of C that comments and READMEs name and that are nowhere in the working directory. Not checked are patterns,
# <headers> of the system, the NAME of a file that somebody may add, and Linux's own sources.
lost() {
	find cache docs engine fs kernels tests README.md -name '*.[ch]' -o -name '*.md' | LC_ALL=C sort | awk '
		function note(path) { # a path and its endings
			known[path]
			while (sub(/^[^\/]*\//, "", path)) known[path]
		}
		function check(text, rest, name) {
			while (match(text, /[A-Za-z0-9_.\/<{*-]*[A-Za-z0-9_]\.[ch]/)) {
				name = substr(text, RSTART, RLENGTH)
				rest = substr(text, RSTART + RLENGTH)
				if (rest !~ /^(\.?[A-Za-z0-9_]|[>(])/ && name !~ /[<{*]|NAME|^(mm\/filemap|fs\/fuse\/inode)\.c$/) {
					gsub(/^(\.\.?\/)+/, "", name)
					if (!(name in known)) print file " names " name ", which does not exist"
				}
				text = rest
			}
		}
		{ files[NR] = $0; note($0) }
		END {
			for (i = 1; i in files; i++) {
				file = files[i]
				for (inside = file ~ /md$/; (getline line <file) > 0;) {
					if (file ~ /md$/) { check(line); continue }
					while (line != "")
						if (inside) {
							at = index(line, "*/")
							check(at ? substr(line, 1, at - 1) : line)
							line = at ? substr(line, at + 2) : ""
							inside = !at
						} else {
							at = index(line, "/*")
							line = at ? substr(line, at + 2) : ""
							inside = at > 0
						}
				}
				close(file)
			}
		}'
}

status=0
result() { # WHAT, true or false
	if "$2"; then echo "ok - $1"; else echo "not ok - $1"; status=1; fi
}
found=$(faults)
[ -z "$found" ] || echo "$found"
result "docs/internals.md shows the rooms and files that there are" "$([ -z "$found" ] && echo true || echo false)"

found=$(lost)
[ -z "$found" ] || echo "$found"
result "comments and READMEs name files that there are" "$([ -z "$found" ] && echo true || echo false)"

# The test can fail: a room too many, a room too few, another order, a file that is gone.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{docs,tests,examples}
cp tests/layers.sh "$tree/tests"
find cache kernels engine fs -type d -exec mkdir -p "$tree/{}" \;
sed -e 's/compute  convert/convert  compute/' -e 's|fs/files/prompt.c|fs/files/prompter.c|' docs/internals.md >"$tree/docs/internals.md"
grep -oE '\b(engine|fs|cache|kernels|tests)/[A-Za-z0-9_./]*[a-z]\b' docs/internals.md | while read -r path; do
	[ -d "$path" ] && mkdir -p "$tree/$path" || touch "$tree/$path"
done
cd "$tree" || exit 1
rmdir fs/gateway/page engine/json
mkdir engine/attic
found=$(faults)
expected='engine/ has, and the picture has not: attic
the picture has, and engine/ has not: json
the picture has, and fs/gateway/ has not: page
the rooms of engine/ stand in another order than in tests/layers.sh
docs/internals.md names fs/files/prompter.c, which does not exist'
[ "$found" = "$expected" ] || echo "$found"
result "a page that does not fit the tree is found out" "$([ "$found" = "$expected" ] && echo true || echo false)"
printf '/* As in gone.c, and main.c. */\nint x; /* Of fs/main.h and <gone.h>. */\n' >fs/main.c
touch README.md
printf '`../fs/main.c`, `lost.h` and `test_NAME.c`\n' >cache/README.md
found=$(lost | grep -E '^(fs/main.c|cache/README.md) ')
expected='cache/README.md names lost.h, which does not exist
fs/main.c names gone.c, which does not exist
fs/main.c names fs/main.h, which does not exist'
[ "$found" = "$expected" ] || echo "$found"
result "a comment that names no file is found out" "$([ "$found" = "$expected" ] && echo true || echo false)"
exit $status
