#!/usr/bin/env bash
# In these folders no file needs a file that needs it: what calls what is read from the objects that make built.
set -u
cd "$(dirname "$0")/.." || exit 1

rooms=(cache kernels engine/json engine/answer engine/tokenizer engine/template engine/grammar engine/source engine/family engine/library engine/memory engine/gpu engine/convert engine/compute engine/cpu engine/cuda engine/model engine/session engine/turn engine/run engine/admin fs/base fs/mount fs/models fs/files fs/tree fs/requests fs/program fs/commands fs/gateway)

# Prints "USER NEEDED" for each pair of files in the objects given.
needs() { # OBJECT…
	nm -A "$@" | awk '
		{ object = $1; sub(/:.*/, "", object) }
		$(NF - 1) ~ /^[TDBRVWC]$/ { owner[$NF] = object }
		$(NF - 1) == "U" { used[object, $NF] = 1 }
		END {
			for (pair in used) {
				split(pair, p, SUBSEP)
				if (p[2] in owner && owner[p[2]] != p[1]) print p[1], owner[p[2]]
			}
		}'
}

# The files of the circles among such pairs, if there are any.
circles() { LC_ALL=C tsort 2>&1 >/dev/null | sed -n 's/^tsort: //p' | grep -v 'contains a loop' | sort -u; }

status=0
for room in "${rooms[@]}"; do
	objects=()
	for source in "$room"/*.c "$room"/*/*.c; do
		object=build/${source%.c}.o
		[ -e "$object" ] && objects+=("$object") # one that is left of a source that is gone does not count
	done
	if [ ${#objects[@]} -lt 2 ]; then
		echo "ok no circle in $room # skip it is not built; run make"
		continue
	fi
	found=$(needs "${objects[@]}" | circles)
	if [ -z "$found" ]; then
		echo "ok no circle in $room"
	else
		printf 'not ok no circle in %s:\n%s\n' "$room" "$found"
		status=1
	fi
done

found=$(printf 'a b\nb c\nc b\n' | circles)
if [ "$found" = "$(printf 'b\nc')" ]; then
	echo 'ok a circle is found'
else
	echo "not ok a circle is found: $found"
	status=1
fi
exit $status
