#!/bin/bash
# moefs-http whose clients lose their network: no packet comes from them any more, not even a connection's end. Both
# machines are network namespaces of this one; the model waits for a stalled disk, so only the loss can end a request.
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
faults "*dense*partial write stall=0" # converting begins with the mount
mounted

# ---- the other machine ----

unshare --net sleep infinity &
machine=$!
is_apart() { [ "$(readlink "/proc/$machine/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
until_true is_apart # its network is not this one
there() { # COMMAND, by exec, so that it can be killed by its number
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
answering() { ls "$m/sessions" | grep -c http-; }
until_answering() { # COUNT
	until_true are_answering "$1" || fail "$(answering) requests, not $1"
}
are_answering() { [ "$(answering)" = "$1" ]; }
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
claim "a client that disappears counts as hung up" lost

# How often the kernel has probed silent clients (of the two lines in the file the first has the names).
probes() {
	awk '$1 == "TcpExt:" { if (n) print $n; for (i = 2; i <= NF; i++) if ($i == "TCPKeepAlive") n = i }' /proc/self/net/netstat
}
is_asked_after() { # HOW OFTEN in all; the request goes on meanwhile
	same "$(answering)" 1 "requests of who is asked after"
	[ "$(probes)" -ge "$1" ]
}
waits() { # a client that only waits is not lost, however long: its kernel answers the probes
	local client
	there python3 "$work/ask.py" whole & client=$!
	until_answering 1
	until_true is_asked_after $(($(probes) + 5)) || fail "nobody asks" # once a second, where two are the bound
	kill -9 $client
	until_answering 0
}
claim "a client that waits silently does not" waits
faults
gateway_over
kill $machine
finish
