#!/usr/bin/env bash
# The architecture's arrows: what may include what. A folder includes itself and what its line here names;
# the rooms of engine/ stand in an order, and each includes only those before it. Tests may include anything.
set -u
cd "$(dirname "$0")/.." || exit 1

rooms=(text source family memory convert compute serve)
declare -A may=(
	[kernels]='kernels'
	[cache]='cache'
	[engine]='cache kernels' # model.h and session.h: what fs/ sees
	[fs/gateway]='fs/gateway' # and texts and errors
	[fs]='fs cache engine fs/gateway'
)
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
			# A client of the tree's files has nothing else of us; the mount has its sockets alone of it.
			case $from:$included in fs/gateway:fs/text.h | fs/gateway:cache/err.h | fs:fs/gateway/listen.h) continue ;; esac
			if [ "$from:$to" = fs:fs/gateway ]; then
				echo "$file includes $included: fs/ knows the gateway by listen.h"
				continue
			fi
			if [[ " ${may[$from]:-} " != *" $to "* ]]; then
				echo "$file includes $included"
			elif [ "$from$to" = fsengine ] && [[ $included != engine/model.h && $included != engine/session.h ]]; then
				echo "$file includes $included: fs/ knows the engine by model.h and session.h"
			fi
		done
	for folder in engine/*/; do
		[ -n "${may[${folder%/}]:-}" ] || echo "$folder is a room that this test does not know"
	done
}

status=0
result() { # WHAT, true or false
	if "$2"; then echo "ok - $1"; else echo "not ok - $1"; status=1; fi
}

found=$(forbidden)
[ -z "$found" ] || echo "$found"
result 'every include follows the arrows' "$([ -z "$found" ] && echo true || echo false)"

# The test can fail: a tree in which each kind of arrow is wrong once.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{cache,engine/text,engine/serve,engine/attic,fs/gateway,kernels}
cd "$tree" || exit 1
echo '#include "engine/serve/params.h"' >engine/text/stream.h
echo '#include "fs/text.h"' >engine/model.h
echo '#include "engine/serve/params.h"' >fs/tree.c
echo '#include "cache/err.h"' >kernels/tq.c
printf '#include "%s"\n' fs/text.h cache/err.h fs/gateway/tree.h fs/tree.h engine/model.h >fs/gateway/tree.c
printf '#include "%s"\n' fs/gateway/listen.h fs/gateway/tree.h >fs/http.c
echo '#include "kernels/tq.h"' >cache/store.c
echo '#include "engine/text/json.h"' >engine/serve/load.c
result 'wrong arrows are found, right ones are not' "$([ "$(forbidden | wc -l)" = 9 ] && echo true || echo false)"
exit $status
