#!/bin/bash
# Many sessions at once.
. "$(dirname "$0")/lib.sh"
mounted
loaded

sessions() {
	seq 24 | xargs -P 8 -I{} bash -c '
		mkdir sessions/{} && cd sessions/{} &&
		echo "What is {} plus 1?" > prompt && [ -n "$(timeout $limit cat output)" ] &&
		[ "$(cat prompt)" = "What is {} plus 1?" ] && [ "$(cat status)" = done ] &&
		cd .. && rm -rf {}' || fail "one of them"
	same "$(ls sessions)" default
}
claim "xargs -P 8 with a session each" sessions

shared() {
	for i in $(seq 8); do
		(
			for k in $(seq 10); do
				until echo "What is $k plus $i?" > prompt; do sleep 0.02; done 2>/dev/null
				cat output >/dev/null || exit 1
			done
		) &
	done
	for job in $(jobs -p); do wait "$job" || fail "a reader failed"; done
}
claim "eight processes take turns at one prompt" shared

churn() {
	for i in $(seq 6); do
		(for k in $(seq 20); do
			mkdir sessions/$i.$k && mv sessions/$i.$k sessions/$i-$k && ls sessions >/dev/null &&
				cat sessions/$i-$k/status >/dev/null && rmdir sessions/$i-$k || exit 1
		done) &
	done
	for job in $(jobs -p); do wait "$job" || fail "one failed"; done
	same "$(ls sessions)" default
}
claim "sessions come and go" churn

own() { awk '/^RssAnon/ { print $2 * 1024 }' "/proc/$daemon/status"; } # the daemon's bytes, without files'
many() {
	local before
	before=$(own)
	seq -f sessions/%g 1 2000 | xargs mkdir || fail mkdir
	nm "$MOEFS" 2>/dev/null | grep -qE '__(asan|tsan)_init' || # which has memory of its own for each byte
		[ $((($(own) - before) / 2000)) -lt 65536 ] || fail "$((($(own) - before) / 2000)) bytes for each"
	same "$(ls sessions | wc -l)" 2001
	same "$(find sessions -maxdepth 2 -name status | wc -l)" 2001
	mv sessions/1000 sessions/!before && mv sessions/1500 sessions/~behind && mv sessions/1 sessions/1000 || fail mv
	fails_with "File exists" mkdir sessions/!before sessions/1000 sessions/~behind
	fails_with "No such file" ls sessions/1 sessions/1500
	rm -rf sessions/[0-9]* || fail rm
	same "$(ls sessions | LC_ALL=C sort | tr '\n' ' ')" "!before default ~behind "
	rmdir sessions/!before sessions/~behind || fail rmdir
	same "$(ls sessions)" default
}
claim "two thousand sessions, each found by its name, and each of less than 64 KiB" many
finish
