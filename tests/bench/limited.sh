#!/usr/bin/env bash
# Runs a command as on a machine with less memory: in its own control group (version 1 or 2) with that limit, after dropping the
# page cache. Needs root.
#
#     tests/bench/limited.sh 3240M build/moefs-bench run MODEL --prompt 32 --tokens 64
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 BYTES COMMAND…  (BYTES as 512M or 4G)" >&2; exit 2; }
limit=$(numfmt --from=iec "$1")
shift

if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
	group=/sys/fs/cgroup/memory/moefs-limited.$$ file=memory.limit_in_bytes
elif grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
	group=/sys/fs/cgroup/moefs-limited.$$ file=memory.max
else
	echo "$0: this system has no control group for memory" >&2
	exit 1
fi

# A group can go when its last process has: the command runs in a subshell that joins it.
trap 'rmdir "$group" 2>/dev/null || { sleep 1; rmdir "$group"; }' EXIT
mkdir "$group"
echo "$limit" >"$group/$file"
sync
echo 3 >/proc/sys/vm/drop_caches
(
	echo "$BASHPID" >"$group/cgroup.procs"
	exec "$@"
)
