#!/usr/bin/env bash
# The linker's --wrap puts a test's or a benchmark's function around one of the program. It works only across object
# files, and a name that nobody calls links without a word: then the wrapper is never run, and what it should test is not
# tested. So each wrapped name of the Makefile has to be called, from another file than its own, and to have a wrapper.
set -u
cd "$(dirname "$0")/.." || exit 1

# Prints "OBJECT KIND NAME" for the objects given: D, it defines NAME; U, it uses one of another file; S, its code uses
# one of its own.
symbols() { # OBJECT…
	nm -A "$@" | awk '
		{ object = $1; sub(/:.*/, "", object) }
		$(NF - 1) == "T" { print object, "D", $NF }
		$(NF - 1) == "U" { print object, "U", $NF }'
	objdump -r "$@" | awk '
		/file format/ { object = $1; sub(/:$/, "", object) }
		/^RELOCATION RECORDS/ { code = /\[\.text/ }
		code && NF == 3 { name = $3; sub(/[-+]0x.*/, "", name); print object, "S", name }'
}

# Prints what is wrong with each of the names, by symbols on the input.
faults() { # NAME…
	awk -v names="$*" '
		$2 == "D" { definer[$3] = $1 }
		$2 == "U" { if (!used[$3]++) user[$3] = $1 }
		$2 == "S" { refers[$1, $3] = 1 }
		END {
			n = split(names, name, " ")
			for (i = 1; i <= n; i++) {
				if (!used[name[i]]) print name[i] " is wrapped, but no other file than its own calls it"
				if (!("__wrap_" name[i] in definer)) print name[i] " is wrapped, but has no __wrap_" name[i]
				if ((definer[name[i]], name[i]) in refers)
					print name[i] " is wrapped, but " definer[name[i]] " calls it itself, past the wrapper"
			}
		}'
}

status=0
result() { # WHAT, and "true" or "false"
	if "$2"; then echo "ok $1"; else echo "not ok $1"; status=1; fi
}

found=$(printf '%s\n' 'a D called' 'b U called' 't D __wrap_called' 'a D alone' 't D __wrap_alone' 't U __real_alone' \
	'a D inside' 'a S inside' 'b U inside' 't D __wrap_inside' 'a D bare' 'b U bare' | faults called alone inside bare gone)
result 'a wrapper that is never run is found' "$([ "$found" = 'alone is wrapped, but no other file than its own calls it
inside is wrapped, but a calls it itself, past the wrapper
bare is wrapped, but has no __wrap_bare
gone is wrapped, but no other file than its own calls it
gone is wrapped, but has no __wrap_gone' ] && echo true || echo false)"

objects=()
while read -r source; do
	object=build/${source%.c}.o
	[ -e "$object" ] && objects+=("$object") # one that is left of a source that is gone does not count
done < <(find cache engine fs kernels tests -name '*.c')
for program in unit moefs-held moefs-bench; do # whose functions are wrapped
	if ! [ -e build/$program ]; then
		echo "ok every wrapped function is called # skip build/$program is not built; run make unit build/moefs-bench"
		exit $status
	fi
done
# shellcheck disable=SC2016 # make's variables
read -ra names <<<"$(make -s --no-print-directory --eval='wrapped-names: ; @echo $(UNIT_WRAPPED) $(HELD_WRAPPED) $(BENCH_WRAPPED)' wrapped-names)"
found=$(symbols "${objects[@]}" | faults "${names[@]}")
[ -z "$found" ] || echo "$found"
result "every wrapped function is called (${#names[@]})" "$([ -z "$found" ] && [ "${#names[@]}" -gt 10 ] && echo true || echo false)"
exit $status
