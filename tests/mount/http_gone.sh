#!/bin/bash
# moefs-http whose clients' network is lost: no packet comes from them any more, no end either. Both machines are this
# one, in networks of their own; the model waits for a disk that stalls, so that nothing but the loss can end a request.
if [ -z "${APART:-}" ]; then
	[ "$(id -u)" = 0 ] || { echo "ok http_gone.sh # skip: networks of its own take root"; exit 0; }
	for needed in ip unshare nsenter python3; do
		command -v $needed >/dev/null || { echo "ok http_gone.sh # skip: no $needed (packages iproute2, util-linux, python3)"; exit 0; }
	done
	said=$(unshare --net ip link add here type veth peer name there 2>&1) || { echo "ok http_gone.sh # skip: no networks here: $said"; exit 0; }
	APART=yes exec unshare --net "$0"
fi
. "$(dirname "$0")/lib.sh"
faulty_disk
mounted
faults "* write stall=0 after=4"

# ---- the other machine ----

unshare --net sleep infinity &
machine=$!
for i in $(seq $((limit * 20))); do # until its network is not this one
	[ "$(readlink "/proc/$machine/ns/net")" != "$(readlink /proc/self/ns/net)" ] && break
	sleep 0.05
done
there() { # COMMAND, in place of a process of its own: to be killed
	exec nsenter --net="/proc/$machine/ns/net" "$@"
}
ip link set lo up
ip link add here type veth peer name there
ip link set there netns "$machine"
ip addr add 10.1.1.1/24 dev here && ip link set here up
(there ip addr add 10.1.1.2/24 dev there) && (there ip link set there up)

echo secret >"$work/keys" && chmod 600 "$work/keys"
gateway -o "listen=10.1.1.1:0,key_file=$work/keys,timeout=2"
export url mnt PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

# Clients ask, and wait until they are killed.
cat >"$work/ask.py" <<'PY'
import sys
from gateway import *
body = json.dumps(chat("Hello?", stream=sys.argv[1] == "stream")).encode()
s = connect()
s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 10.1.1.1\r\nAuthorization: Bearer secret\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
s.recv(1)
PY
answering() { ls "$m/sessions" | grep -v kept | grep -c http-; }
until_answering() { # COUNT
	local i
	for i in $(seq $((limit * 20))); do
		[ "$(answering)" = "$1" ] && return 0
		sleep 0.05
	done
	fail "$(answering) requests, not $1"
}
lost() {
	local clients
	there python3 "$work/ask.py" stream & clients=$!
	there python3 "$work/ask.py" whole & clients+=" $!"
	until_answering 2
	stalled
	same "$(cat "$m/info/state")" loading
	(there ip route add blackhole 10.1.1.1) # neither what it acknowledges nor its end arrives
	kill -9 $clients
	until_answering 0
	same "$(cat "$m/info/state")" loading "what has ended the requests"
	(there ip route del blackhole 10.1.1.1)
}
claim "who is lost without a word has hung up" lost

waits() { # one that only waits is not lost, however long: the kernel answers for it
	local client i
	there python3 "$work/ask.py" whole & client=$!
	until_answering 1
	for i in $(seq 5); do # of a second each, where two are the bound
		sleep 1
		same "$(answering)" 1 "requests after $i seconds" || exit
	done
	kill -9 $client
	until_answering 0
}
claim "who waits without a word has not" waits
faults
gateway_over
kill $machine
finish
