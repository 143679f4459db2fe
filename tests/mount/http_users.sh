#!/bin/bash
# Without keys moefs-http serves only its own user and root: over IPv4, IPv6 and a socket file, however quickly a client
# goes away. With keys it serves every client that has one.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip_all "curl is missing"
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || skip_all "only root can be another user (setpriv)"
other() { setpriv --reuid=65533 --regid=65533 --clear-groups "$@"; }
mounted
loaded
session=/tree/$(basename "$MODEL")/sessions/default
echo '[{"role": "user", "content": "mine"}]' >messages.json
idle
export limit

status() { # CURL'S ARGUMENTS: the status; the body is in $work/body
	curl -sS --max-time $limit -o "$work/body" -w '%{http_code}' "$@"
}
kept() { same "$(cat messages.json)" "$mine" "the conversation was changed"; }
refused() { # CURL'S ARGUMENTS: of another user
	same "$(other curl -sS --max-time $limit -o - -w '%{http_code}' "$@" | tee "$work/said" | tail -c 3)" 401 "$*"
	grep -q key_file "$work/said" || fail "it does not name key_file: $(cat "$work/said")"
}
mine=$(cat messages.json)

strangers() {
	local path
	for path in /v1/models /tree "$session/log" "$session/messages.json" /metrics /nothing; do
		refused "$url$path"
		same "$(status "$url$path")" "$([ $path = /nothing ] && echo 404 || echo 200)" "$path by its user"
	done
	refused "$url$session/ctl" -X PUT -H 'Content-Type: text/plain' -d reset
	refused "$url/v1/chat/completions" -H 'Content-Type: application/json' -d '{"model": "x", "messages": []}'
	refused "$url/v1/messages" -H 'Content-Type: application/json' -d '{"model": "x", "messages": []}'
	kept
	for path in /health / /page/page.js; do
		same "$(other curl -sS --max-time $limit -o /dev/null -w '%{http_code}' "$url$path")" "$(status "$url$path")" "$path"
	done
}

# Sends a request to reset the conversation and is gone before the gateway, which is stopped meanwhile, looks. The kernel
# reports a socket that its owner has closed as root's.
hurried() { # close, reset or half
	kill -STOP $served
	python3 - "${url#http://}" "$session/ctl" "$1" <<'PY'
import encodings.idna, os, socket, struct, sys # what another user may not read comes first
os.setgroups([])
os.setresgid(65533, 65533, 65533)
os.setresuid(65533, 65533, 65533)
where, path, way = sys.argv[1:]
host, port = where.rsplit(":", 1)
open_ends = []
for _ in range(20):
    s = socket.create_connection((host.strip("[]"), int(port)))
    s.sendall(f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nreset".encode())
    if way == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if way == "half":
        s.shutdown(socket.SHUT_WR)
        open_ends.append(s)
    else:
        s.close()
PY
	local sent=$?
	kill -CONT $served
	same $sent 0 "it was not sent"
	same "$(status "$url/v1/models")" 200 # what came before has been accepted
	until_true served_all
	kept
}
served_all() { # no socket of a connection is left; the listener and its wake-up descriptor stay
	[ "$(find "/proc/$served/fd" -lname 'socket:*' | wc -l)" = 1 ]
}

serve_and_try() { # NAME ADDRESS
	gateway -o "listen=$2"
	claim "$1: another user is refused, and told of key_file" strangers
	for way in close reset half; do
		claim "$1: a client that sends and leaves at once ($way) changes nothing" hurried $way
	done
	gateway_over
}
serve_and_try IPv4 127.0.0.1:0
if python3 -c 'import socket; socket.create_server(("::1", 0), family=socket.AF_INET6)' 2>/dev/null; then
	serve_and_try IPv6 "[::1]:0"
else
	echo "ok IPv6 # skip: ::1 is not there"
fi

by_file() {
	chmod 755 "$work"
	chmod 666 "$work/socket"
	same "$(status --unix-socket "$work/socket" http://localhost/v1/models)" 200
	refused --unix-socket "$work/socket" http://localhost/v1/models
}
"$(dirname "$MOEFS")/moefs-http" -o "listen=unix:$work/socket" "$mnt" 2>"$work/http" &
served=$!
until_true [ -S "$work/socket" ]
until_true grep -q listening "$work/http"
claim "a socket's file that others may open: they are refused, too" by_file
gateway_over

(umask 077 && printf 'secret\n' >"$work/keys")
with_key() {
	same "$(other curl -sS --max-time $limit -o /dev/null -w '%{http_code}' -H 'x-api-key: secret' "$url/v1/models")" 200
	same "$(status "$url/v1/models")" 401 "its own user without a key"
}
gateway -o "key_file=$work/keys"
claim "with keys only clients with one are served" with_key
gateway_over

mount_with_keys() {
	local child
	fails_with "needs -o http" "$MOEFS" -o "store=$store,key_file=$work/keys" "$MODEL" "$mnt"
	fails_with "No such file" "$MOEFS" -o "store=$store,http=127.0.0.1:0,key_file=$work/none" "$MODEL" "$mnt"
	"$MOEFS" -o "store=$store,http=unix:$work/socket,key_file=$work/keys" "$MODEL" "$mnt" 2>"$work/stderr" || fail "$(cat "$work/stderr")"
	child=$(pgrep -f -- "listen=fd:3 $mnt")
	until_true answers_key
	same "$(status --unix-socket "$work/socket" http://localhost/v1/models)" 401
	user_unmounts "$mnt"
	until_true not alive "$child" || fail "the gateway outlives the mount"
}
answers_key() { [ "$(status -H 'x-api-key: secret' --unix-socket "$work/socket" http://localhost/v1/models)" = 200 ]; }
cd / && unmounted
claim "-o http takes key_file=, too" mount_with_keys
finish
