#!/bin/bash
# Five hundred times: write a prompt, read the answer, and never get the one before. The kernel does not
# wait for RELEASE, so this is a race, run alone, beside busy processes, and beside slow mapped readers.
. "$(dirname "$0")/lib.sh"
pairs=${PAIRS:-500}
mounted
loaded
echo 6 > sessions/default/params/max_tokens

questions=("What is the capital of France?" "What is 2 plus 3?" "What is the capital of Japan?")

# The answer that was read at once must be the one that is there when everything is idle.
fresh() {
	local n=$1 i stale=0 distinct
	for i in $(seq "$n"); do
		echo "${questions[i % 3]}" > prompt || fail "pair $i: refused"
		at_once=$(cat output)
		cat wait >/dev/null
		[ "$at_once" = "$(cat output)" ] || stale=$((stale + 1))
		echo "$at_once"
		[ $((i % 25)) = 0 ] && { echo reset > ctl || fail "reset"; }
	done >"$work/answers"
	distinct=$(sort -u "$work/answers" | wc -l)
	[ "$distinct" -gt 1 ] || fail "all answers are the same: nothing was tested"
	same "$stale" 0 "stale answers of $n"
}
claim "$pairs pairs, alone" fresh "$pairs"

beside_busy() {
	local i
	for i in 1 2 3 4; do (while :; do :; done) & done
	fresh "$((pairs / 2))"
	local status=$?
	kill $(jobs -p)
	return $status
}
claim "$((pairs / 2)) pairs with busy processes" beside_busy

beside_readers() {
	python3 - <<'PY' &
import glob, mmap, os, threading
files = [f for f in glob.glob("experts/*/*") if os.path.getsize(f)]
def read():
    while True:
        for name in files:
            with open(name, "rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                with mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as a:
                    sum(a[::4096])
for _ in range(8):
    threading.Thread(target=read).start()
PY
	fresh "$((pairs / 2))"
	local status=$?
	kill -9 $(jobs -p)
	return $status
}
claim "$((pairs / 2)) pairs with slow mapped readers" beside_readers

python_pairs() {
	python3 - "$pairs" <<'PY'
import sys
stale = 0
for i in range(int(sys.argv[1])):
    with open("prompt", "w") as f: f.write("What is %d plus 1?\n" % (i % 9))
    a = open("output").read()
    open("wait").read()
    stale += a != open("output").read()
    if i % 25 == 24: open("ctl", "w").write("reset")
assert stale == 0, "%d stale" % stale
PY
}
claim "$pairs pairs of one process" python_pairs
finish
