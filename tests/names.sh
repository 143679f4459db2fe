#!/usr/bin/env bash
# The size of the program, and its names: what tests/names.py says of the tree, and of one in which everything is wrong.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.." || exit 1
command -v python3 >/dev/null || { echo 'ok names # skip there is no python3'; exit 0; }

# Rooms whose names are still to be made plain.
exempt=''

failed=0
result() { # NAME, and the status of what was tried
	if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}

python3 tests/names.py . "$exempt"
result "no file, struct or function has a name that is taken, lacks its prefix, or is unused" $?

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{cache,fs/files}
printf 'struct batch {\n\tint n;\n};\n/* unused_word() is only mentioned. */\nint batch_begin(void)\n{\n\treturn 0;\n}\n' >"$tree/cache/batch.c"
printf 'struct batch {\n\tint n;\n};\nint batch_begin(void);\nstatic int begin(void)\n{\n\treturn batch_begin();\n}\n' >"$tree/fs/files/batch.c"
printf '#ifndef MOEFS_CACHE_BATCH_H\n#define MOEFS_CACHE_BATCHES_H\n#endif\n' >"$tree/cache/batch.h"
python3 tests/names.py "$tree" '' >"$tree/out"
[ $? = 1 ] && diff - "$tree/out" <<END
# 19 lines of C in 3 files, 2 functions; the longest is batch_begin in cache/batch.c (1 lines)
batch.c: cache/batch.c and fs/files/batch.c have the same name
struct batch is defined in cache/batch.c and fs/files/batch.c
fs/files/batch.c: begin begins with no word of its file's name
fs/files/batch.c: begin is not used
cache/batch.h: its guard is not MOEFS_CACHE_BATCH_H, twice
END
result "a tree in which each of these is wrong is found out" $?
exit $failed
