#!/usr/bin/env bash
# Memory pressure: the daemon runs in a memory control group of its own, in which another process takes more and more.
# The pool shrinks before the kernel must kill, the turn goes on with the same text, and the budget grows again with the
# free memory.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip_all "python3, which takes the memory away, is missing"
available() { awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo; }
[ "$(available)" -gt $(($(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo) / 8 + 512)) ] ||
	skip_all "the machine itself is short of memory, only $(available) MB are available"
limit_bytes=$((192 << 20))
margin=$((16 << 20)) # of a group of this size (engine/memory/memory.h)
group=
hog=

# The mount point of a hierarchy with the memory controller: of version 1, else of version 2.
hierarchy() {
	awk '{ n = 0; for (i = 1; i <= NF; i++) if ($i == "-") n = i }
	     n && $(n + 1) == "cgroup" && ("," $(n + 3) ",") ~ /,memory,/ { v1 = $5 }
	     n && $(n + 1) == "cgroup2" { v2 = $5 }
	     END { print v1 != "" ? v1 : v2 }' /proc/self/mountinfo
}
make_group() {
	local top=$(hierarchy)
	[ -n "$top" ] || skip_all "no control groups are mounted here"
	group=$top/moefs-test.$$
	mkdir "$group" 2>/dev/null || skip_all "control groups cannot be made here (as root, outside of a container, they can)"
	if [ -e "$group/memory.limit_in_bytes" ]; then
		stat_key=total_rss limit_file=$group/memory.limit_in_bytes
	else
		stat_key=anon limit_file=$group/memory.max
	fi
	if ! echo $limit_bytes 2>/dev/null >"$limit_file"; then
		rmdir "$group"
		skip_all "the memory of control groups cannot be limited here"
	fi
}
leave_group() { # ends its processes and removes it
	local pid
	clean_up
	for pid in $(cat "$group/cgroup.procs"); do kill "$pid"; done
	until_true rmdir "$group" 2>/dev/null || echo "# $group is left over"
}
make_group
trap leave_group EXIT

anonymous() { # bytes of the group that the kernel cannot simply drop
	awk -v key="$stat_key" '$1 == key { print $2 }' "$group/memory.stat"
}
killed() { # how many processes the kernel has killed
	cat "$group/memory.oom_control" "$group/memory.events" 2>/dev/null | awk '$1 == "oom_kill" { print $2 }'
}
stat_of() { awk -v key="$1" '$1 == key { print $2 }' "$mnt/cache/stats"; }
# Takes megabytes one by one, counts them in $work/taken, and keeps them. It leaves the group its last 16 MB: on a busy
# machine the daemon may look late, and a process that takes the last of it sooner is rightly killed.
begin_hog() { # MEGABYTES
	rm -f "$work/taken"
	(
		echo 0 >"$group/cgroup.procs" && exec python3 -c '
import signal, sys, time
megabytes, marker, stat, key, limit = sys.argv[1:]
def anonymous():
    return int(dict(line.split() for line in open(stat))[key])
taken = []
while len(taken) < int(megabytes):
    if anonymous() + (17 << 20) < int(open(limit).read()):
        taken.append(b"x" * (1 << 20))
    time.sleep(0.01)
open(marker, "w").close()
signal.pause()' "$1" "$work/taken" "$group/memory.stat" "$stat_key" "$limit_file"
	) &
	hog=$!
}
end_hog() {
	kill "$hog" && wait "$hog" 2>/dev/null
	hog=
}
waits_for() { # command…
	until_true "$@" || fail "budget $(stat_of budget), used $(stat_of used), group $(anonymous), machine $(available) MB: not $*"
}
below() { [ "$(stat_of budget)" -lt "$1" ] && [ "$(stat_of used)" -le "$(stat_of budget)" ]; }
at_least() { [ "$(stat_of budget)" -ge "$1" ]; }
in_use() { [ "$(stat_of used)" -ge "$1" ]; }

# The mount, with the daemon in the group. The C library returns the memory of freed contexts to the system.
printf '#!/bin/sh\necho 0 >"%s/cgroup.procs" && MALLOC_MMAP_THRESHOLD_=65536 exec "%s" "$@"\n' \
	"$group" "$MOEFS" >"$work/moefs"
chmod +x "$work/moefs"
MOEFS=$work/moefs
mounted -o quant=bf16,context_budget=64M
loaded

from_group() {
	local budget=$(stat_of budget)
	same "$(stat_of budget_asked)" auto
	[ "$budget" -lt $((limit_bytes - margin)) ] || fail "$budget of $limit_bytes bytes are for experts"
	[ "$budget" -gt $((limit_bytes / 3)) ] || fail "only $budget of $limit_bytes bytes are for experts"
}
claim "the default budget is most of what the control group allows" from_group

undisturbed() {
	mkdir sessions/quiet && cd sessions/quiet || exit
	long_turn
	idle
	cp output "$work/quiet"
	stat_of context_used >"$work/context"
	cd .. && rmdir quiet
}
claim "a long turn, for comparison" undisturbed

squeezed() { # NAME: enough pressure to evict two thirds of the experts, once all contexts have grown
	local used taken before=$(stat_of budget)
	mkdir "sessions/$1" && cd "sessions/$1" || exit
	begin_beside 2
	long_turn
	waits_for in_use $((12 << 20))
	used=$(stat_of used)
	taken=$(($(anonymous) + 3 * $(cat "$work/context") - $(stat_of context_used)))
	begin_hog $(((limit_bytes - margin - taken + used * 2 / 3 >> 20) - 6)) # 6: Python itself
	waits_for below $((used * 3 / 4))
	echo "# $before bytes of budget, $used in use; squeezed: $(stat_of budget), $(stat_of used)" >>"$work/notes"
	idle
	end_beside
	same "$(cat status)" done "$(cat error)"
	same "$(killed)" 0 "processes that the kernel killed"
	kill -0 "$hog" || fail "the other process is gone"
	cmp output "$work/quiet" || fail "another text"
	end_hog
	cd "$m" && rmdir "sessions/$1"
	waits_for at_least $((before * 3 / 4))
}
claim "a squeezed pool gives way, nobody is killed, the text is the same, and the budget comes back" squeezed one

asked_for() {
	echo 20M > ../cache/budget || fail refused
	squeezed two
	same "$(cat ../cache/budget)" 20M "cache/budget"
	waits_for at_least $((20 << 20))
}
claim "so does one that was asked for, which is still what cache/budget says" asked_for

limit_lowered() { # an administrator lowers the limit while it is in use
	local used
	mkdir sessions/three && cd sessions/three || exit
	long_turn
	waits_for in_use $((12 << 20)) # however little was left
	echo stop > ctl
	idle
	cd "$m" && rmdir sessions/three
	used=$(stat_of used)
	begin_hog 60 # or the daemon's own code would not find room
	waits_for test -e "$work/taken"
	echo $(($(anonymous) - used / 2 + margin)) >"$limit_file" || fail "the limit cannot be lowered"
	waits_for below $((used * 3 / 4))
	ask "What is the capital of France?" | grep -q Paris || fail "a wrong answer"
	same "$(killed)" 0 "processes that the kernel killed"
	end_hog
	echo $limit_bytes >"$limit_file"
	waits_for at_least "$used"
}
claim "a limit that is lowered counts at once" limit_lowered
cat "$work/notes" 2>/dev/null
finish
