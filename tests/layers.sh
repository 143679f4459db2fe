#!/usr/bin/env bash
# The architecture's arrows: what may include what. A folder includes itself and what its line here names;
# the rooms of engine/ stand in an order, and each includes only those before it; so do those of fs/ that make a
# mount, while the program, its commands and its pages know only what their lines name. Tests may include anything.
set -u
cd "$(dirname "$0")/.." || exit 1

rooms=(json answer tokenizer template grammar source family library memory gpu convert compute cpu cuda prefixes model session turn run admin)
declare -A may=(
	[kernels]='kernels'
	[cache]='cache'
	[engine]='cache kernels' # model.h and session.h: what fs/ sees
	[fs/program]='fs/program fs/base fs/mount fs/models cache engine'
	[fs/commands]='fs/commands fs/base fs/program cache engine' # no mount's state, and none of its files
	[fs/gateway]='fs/gateway' # a client of the tree's files: of all else only texts, errors and standard files
	[fs/install]='fs/install fs/base fs/mount fs/files fs/tree fs/program fs/commands engine'
)
before='cache engine'
for room in base mount models files tree requests; do
	before+=" fs/$room"
	may[fs/$room]=$before
done
may[fs/base]='fs/base cache' # neither a mount nor a model
may[fs]="fs fs/program fs/commands $before" # main.c
before='engine cache kernels'
for room in "${rooms[@]}"; do
	before+=" engine/$room"
	may[engine/$room]=$before
done

# Sets `folder` to the one of the table that a path lies in, or to nothing.
folder_of() {
	folder=${1%/*}
	while [ -z "${may[$folder]:-}" ]; do
		[[ $folder == */* ]] || return
		folder=${folder%/*}
	done
}

# Prints each include below the working directory that the table does not allow.
forbidden() {
	grep -rn --include='*.[ch]' '^#include "' cache engine fs kernels | sort -u |
		while IFS=: read -r file _ line; do
			local included=${line#*\"} from to
			included=${included%\"*}
			folder_of "$file" && from=$folder
			folder_of "$included" && to=$folder
			case $from:$included in
			fs/gateway:fs/base/text.h | fs/gateway:fs/base/standard.h | fs/gateway:fs/base/systemd.h | fs/gateway:cache/err.h | fs/gateway:cache/utf8.h | fs/program:fs/gateway/listen.h) continue ;;
			fs/install:fs/gateway/gateway.h) continue ;; # what completion is made of
			esac
			if [[ " ${may[$from]:-} " != *" $to "* ]]; then
				echo "$file includes $included"
			elif [[ $from == fs* && $to == engine && $included != engine/model.h && $included != engine/session.h ]]; then
				echo "$file includes $included: fs/ knows the engine by model.h and session.h"
			fi
		done
	for folder in engine/*/ fs/*/; do
		[ -n "${may[${folder%/}]:-}" ] || echo "$folder is a room that this test does not know"
	done
}

# Prints each file of the forward pass that computes past its backend (engine/compute/backend.h). Sampling, and reading
# rows of a table, are no operations of a backend.
direct() {
	grep -rlE --include='*.c' 'kernels->|threads_run\(' engine/compute | grep -vE '/(sampler|weights|threads)\.c$'
}

status=0
result() { # WHAT, true or false
	if "$2"; then echo "ok - $1"; else echo "not ok - $1"; status=1; fi
}

found=$(forbidden)
[ -z "$found" ] || echo "$found"
result 'every include follows the arrows' "$([ -z "$found" ] && echo true || echo false)"

found=$(direct)
[ -z "$found" ] || echo "$found"
result 'the forward pass computes by its backend alone' "$([ -z "$found" ] && echo true || echo false)"

# The test can fail: a tree in which each kind of arrow is wrong once.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{cache,engine/answer,engine/compute,engine/run,engine/session,engine/attic,fs/{base,files,tree,commands,attic,gateway/turn,program},kernels}
cd "$tree" || exit 1
echo '#include "engine/session/params.h"' >engine/answer/stream.h
echo '#include "fs/base/text.h"' >engine/model.h
echo '#include "engine/session/params.h"' >fs/files/trace.c
echo '#include "engine/model.h"' >fs/base/text.h
echo '#include "fs/tree/tree.h"' >fs/files/files.h
echo '#include "fs/files/files.h"' >fs/tree/rows.c
echo '#include "fs/tree/tree.h"' >fs/commands/list.c
echo '#include "cache/err.h"' >kernels/tq.c
printf '#include "%s"\n' fs/base/text.h cache/err.h fs/gateway/turn/tree_client.h fs/tree/tree.h engine/model.h >fs/gateway/turn/tree_client.c
printf '#include "%s"\n' fs/gateway/listen.h fs/gateway/turn/tree_client.h >fs/program/http.c
echo '#include "kernels/tq.h"' >cache/store.c
echo '#include "engine/json/json.h"' >engine/run/load.c
echo 'k->kernels->add(y, x, n);' | tee engine/compute/forward.c >engine/compute/sampler.c
result 'a kernel that the forward pass calls itself is found' "$([ "$(direct)" = engine/compute/forward.c ] && echo true || echo false)"
result 'wrong arrows are found, right ones are not' "$([ "$(forbidden | wc -l)" = 13 ] && echo true || echo false)"
exit $status
