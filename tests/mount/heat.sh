#!/usr/bin/env bash
# experts/heat.svg: the map as a picture whose size says nothing of its contents.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3"
cp -r "$MODEL" "$work/a & <b>" && MODEL="$work/a & <b>" && m="$mnt/a & <b>"
mounted
loaded

cells() { # CLASS: how many cells of the map have it
	grep -o 'class="[^"]*"' experts/heat.svg | grep -c "$1"
}
draws() {
	python3 - experts/heat.svg <<'PY' || fail "not a picture"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
ns = "{http://www.w3.org/2000/svg}"
rows = [g for g in root.findall(ns + "g")]
assert root.tag == ns + "svg" and len(rows) == 8 + 1, len(rows)
assert all(len(g.findall(ns + "rect")) == 32 for g in rows[:8])
assert any("a & <b>" in (t.text or "") for t in root.findall(ns + "text"))
text = open(sys.argv[1]).read()
assert "<script" not in text and "prefers-color-scheme" in text
PY
}
claim "a cell for each expert, and the model's name escaped" draws

same_size() {
	local before reading
	before=$(stat -c %s experts/heat.svg)
	exec 4<experts/heat.svg
	read -r -N 2000 reading <&4
	ask "What is the capital of France?" >"$work/said"
	chmod +t experts/03/00[0-4]
	same "$(stat -c %s experts/heat.svg)" "$before" "another size"
	same "$(wc -c <experts/heat.svg)" "$before"
	[ "$(cells ' p')" = 6 ] || fail "$(cells ' p') outlines, the legend's included"
	reading+=$(cat <&4)
	exec 4<&-
	printf '%s\n' "$reading" >"$work/old"
	same "$(grep -c ' p"/>' "$work/old")" 1 "what was open changed"
	chmod -t experts/03/00[0-4]
}
claim "its size never changes, nor does what is open" same_size
finish
