#!/usr/bin/env bash
# How fast a mounted tree responds while its model works (measured, not judged), in milliseconds: reads of the tree with READERS
# (1000) waiting readers and without; and, each ROUNDS (10) times, the end of a waiting reader after a signal, of a turn after
# stop, of a shrinking of the pool, and of the daemon when it is unmounted in the middle of a conversion.
#
#     READERS=10000 tests/bench/tree.sh
. "$(dirname "$0")/../mount/lib.sh"
readers=${READERS:-1000} rounds=${ROUNDS:-10}

now() { echo $(($(date +%s%N) / 1000)); } # microseconds
# Runs a command ROUNDS times, which says how many microseconds it measured.
each() { # WHAT command…
	local what=$1 i
	shift
	for i in $(seq "$rounds"); do "$@" || exit; done | sort -n |
		awk -v what="$what" '{ us[NR] = $1 }
			END { if (NR) printf "%-48s %8.1f ms, at most %.1f\n", what, us[int((NR + 1) / 2)] / 1000, us[NR] / 1000 }'
}

unmounting() { # what is left of the conversion is behind the answer
	local start
	rm -rf "$store"
	mounted
	ask "What is the capital of France?" >/dev/null
	cd /
	start=$(now)
	user_unmounts "$mnt" || exit
	while alive "$daemon"; do sleep 0.002; done
	echo $(($(now) - start))
}
each "unmounted while converting, until its end" unmounting

rm -rf "$store"
mounted -o budget=64M
loaded
complete
mkdir sessions/long && cd sessions/long || exit
begin_beside 40
long_turn

signalled() { # FILE
	local start
	begin_reader "$1"
	reads $reader
	start=$(now)
	kill -INT $reader
	wait $reader
	echo $(($(now) - start))
}
for file in output wait; do each "a signal to a waiting cat $file, until its end" signalled $file; done

shrunk() {
	local start
	echo 64M > "$mnt/cache/budget" || exit
	while [ "$(df -B1 --output=used "$mnt" | tail -n 1)" -le 4194304 ]; do working; done
	start=$(now)
	echo 1M > "$mnt/cache/budget" || exit
	while [ "$(df -B1 --output=used "$mnt" | tail -n 1)" -gt 1048576 ]; do :; done
	echo $(($(now) - start))
}
each "the pool shrinks from over 4 to 1 MiB" shrunk
echo 64M > "$mnt/cache/budget"
working

timeout $limit python3 - "$readers" "$rounds" <<'PY' || exit
import os, subprocess, sys, threading
sys.path.insert(0, os.environ["here"])
import waiting
threading.stack_size(65536)
def ls(): # timed in a shell: this process, with its many threads, is slow to fork
    shell = "TIMEFORMAT=%%R; time for i in {1..%d}; do ls -l ../.. >/dev/null; done" % times
    seconds = subprocess.run(["bash", "-c", shell], capture_output=True, text=True).stderr
    return float(seconds.replace(",", ".")) / times * 1e3
def wait():
    f = os.open("wait", os.O_RDONLY)
    os.read(f, 100)
    os.close(f)
readers, times = int(sys.argv[1]), int(sys.argv[2])
alone = ls()
threads = [threading.Thread(target=wait) for _ in range(readers)]
for t in threads: t.start()
for t in threads: waiting.until(t, waiting.READ)
beside = ls()
print("%-48s %8.1f ms" % ("ls -l of the model's folder", alone))
print("%-48s %8.1f ms" % ("the same beside %d waiting readers" % readers, beside))
with open("ctl", "w") as f: f.write("stop")
for t in threads: t.join()
PY
end_beside
idle

stopped() {
	local start
	long_turn
	until [ -s log ]; do :; done
	start=$(now)
	echo stop > ctl
	idle
	echo $(($(now) - start))
}
each "echo stop > ctl, until the turn has ended" stopped
