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

many() {
	seq -f sessions/%g 1 2000 | xargs mkdir || fail mkdir
	same "$(ls sessions | wc -l)" 2001
	same "$(find sessions -maxdepth 2 -name status | wc -l)" 2001
	rm -rf sessions/[0-9]* || fail rm
	same "$(ls sessions)" default
}
claim "two thousand sessions" many
finish
