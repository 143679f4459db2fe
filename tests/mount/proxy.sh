#!/bin/bash
# Two moefs-http behind nginx, and behind haproxy, with the configurations in examples/: a conversation stays with one of
# them, tokens arrive at once, and if one of the two goes away, the other answers.
. "$(dirname "$0")/lib.sh"
holdable
command -v python3 >/dev/null || skip_all "no python3"
http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
[ -x "$http" ] || { echo "not ok $(basename "$0"): $http is missing; run make"; exit 1; }
mounted
echo off > "$m/sessions/default/params/stop_repetition" # for `long`
export mnt work PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
declare -A process=()
(umask 077 && echo secret >"$work/keys") # a proxy forwards for others: it is no proof of who asks

begin() { # ONE [ADDRESS]
	: >"$work/$1"
	"$http" -v -o "listen=${2:-127.0.0.1:0},key_file=$work/keys" "$mnt" 2>"$work/$1" &
	process[$1]=$!
	listens $! "$work/$1"
}
both() { # their addresses go into the configuration
	begin one
	one=${url#http://}
	begin two
	two=${url#http://}
}
neither() {
	kill ${process[one]} ${process[two]}
	wait ${process[one]} ${process[two]}
}
configured() { # EXAMPLE: with the test's paths and ports
	sed "s|127.0.0.1:11436|$one|; s|127.0.0.1:11437|$two|; s|listen 127.0.0.1:8080|listen unix:$work/socket|
		s|bind 127.0.0.1:8080|bind unix@$work/socket|; s|/tmp/moefs-proxy.pid|$work/proxy.pid|
		s|timeout check .*|timeout check ${limit}s|" "$root/examples/$1" >"$work/$1"
}
answers() { # waits until the proxy answers
	until_true_by $proxy python3 -c 'from proxied import *; assert request("GET", "/health").status == 200' 2>/dev/null ||
		fail "not ok the proxy begins: $(cat "$work/proxy")"
}
ends() {
	kill $proxy
	wait $proxy 2>/dev/null
	rm -f "$work/socket"
}

cat >"$work/proxied.py" <<'PY'
import http.client, json, os, socket, sys
os.environ.setdefault("url", "http://127.0.0.1:0")
from gateway import chat, content, long, look, sessions, standing, until, limit
work = os.environ["work"]

class Proxied(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(limit)
        self.sock.connect(work + "/socket")

def request(method, path, body=None, **headers):
    c = Proxied("localhost")
    headers = {k.replace("_", "-"): v for k, v in headers.items()} | {"x-api-key": "secret"}
    c.request(method, path, body and json.dumps(body), headers)
    r = c.getresponse()
    r.of = c
    return r

def question(place):
    return chat(f"What is the capital of {place}?", max_tokens=24)

def answer(response):
    said = response.read()
    assert response.status == 200, (response.status, said)
    return content(json.loads(said))

def ask(session, place="France"):
    return answer(request("POST", "/v1/chat/completions", question(place), X_Session_Id=session))

class Begun:
    """A request of which only the headers are sent."""
    def __init__(self, session):
        self.body = json.dumps(question("France")).encode()
        self.connection = Proxied("localhost")
        self.connection.putrequest("POST", "/v1/chat/completions")
        for name, value in ("x-api-key", "secret"), ("X-Session-Id", session), ("Content-Length", str(len(self.body))):
            self.connection.putheader(name, value)
        self.connection.endheaders()

    def end(self):
        self.connection.send(self.body)
        return answer(self.connection.getresponse())

def asked(which):
    with open(f"{work}/{which}") as f:
        return sum("POST /v1/chat/completions" in line for line in f)

def place_of(session):
    """Which of the two answers it."""
    before = asked("one")
    total = before + asked("two")
    assert ask(session) == "The capital of France is Paris."
    until(lambda: asked("one") + asked("two") > total, "no line of it")
    return "one" if asked("one") > before else "two"

def lives(process):
    try:
        with open(f"/proc/{process}/status") as f:
            return "\nState:\tZ" not in f.read()
    except (FileNotFoundError, ProcessLookupError):
        return False

def begin(session):
    """A stream, and its first event with a text."""
    r = request("POST", "/v1/chat/completions", long(f"A story, {session}.", stream=True), X_Session_Id=session)
    assert r.status == 200, r.read()
    for line in r:
        if b'"content":"' in line:
            return r
PY
export PYTHONPATH=$here:$work
py() { timeout $limit python3 -c "from proxied import *"$'\n'"$(cat)" "$@" || fail "$(tail -n 3 "$work/proxy")"; }

sticks() { py <<'PY'; }
names = [f"conversation-{i}" for i in range(24)]
places = [place_of(n) for n in names]
assert set(places) == {"one", "two"}, places
assert [place_of(n) for n in names] == places, "another place the second time"
PY
streams() { py <<'PY'; }
with standing():
    r = begin("a stream")
    name, = sessions()
    assert look(name, "status") == "generating\n", "the first event came after the last"
    with open(f"{os.environ['mnt']}/fable-moe-15m/sessions/{name}/ctl", "w") as f: f.write("stop\n")
    assert b"data: [DONE]" in r.read()
    r = begin("who goes away")
    r.close(), r.of.close()
    until(lambda: not sessions(), "it goes on without its client")
PY
one_goes() { py ${process[one]} ${process[two]} <<'PY'; }
import signal
where = {place_of(f"c{i}"): f"c{i}" for i in range(24)}
lost, other = where["one"], where["two"]
with standing():
    r = begin(lost)
    begun = Begun(lost)
    os.kill(int(sys.argv[1]), signal.SIGKILL)
    until(lambda: not lives(sys.argv[1]), "it is not gone")
    try: said = r.read()
    except (http.client.IncompleteRead, ConnectionError) as e: said = getattr(e, "partial", b"")
assert b"[DONE]" not in said, "what was cut claims to be whole"
assert [begun.end(), ask(lost), ask(other), ask(lost)] == 4 * ["The capital of France is Paris."], "it is not the other's"
PY
behind() { # NAME
	answers
	claim "$1: a conversation stays with one of two gateways" sticks
	claim "$1: a stream comes as it is made, and ends with its client" streams
	claim "$1: when one goes away its stream ends without its last event, and the other answers" one_goes
	wait ${process[one]} 2>/dev/null
	begin one "$one"
	back() { py <<<'assert not sessions(), "what was begun before is still there"
until(lambda: {place_of(f"c{i}") for i in range(24)} == {"one", "two"}, "it is not asked again")'; }
	claim "$1: a server that returns is asked again, and has removed its leftovers" back
	ends
}

PATH=$PATH:/usr/sbin
if ! command -v nginx >/dev/null; then
	echo "ok nginx # skip: it is not installed"
elif one=127.0.0.1:1 two=127.0.0.1:2 configured proxy.nginx # nginx -t writes to the file for its process id
	! nginx -t -q -e stderr -c "$work/proxy.nginx" 2>"$work/proxy"; then
	echo "ok nginx # skip: it does not begin here: $(head -n 1 "$work/proxy")"
else
	both
	configured proxy.nginx
	nginx -e stderr -c "$work/proxy.nginx" -g 'daemon off;' 2>"$work/proxy" &
	proxy=$!
	behind nginx
	neither
fi
if ! command -v haproxy >/dev/null; then
	echo "ok haproxy # skip: it is not installed"
else
	both
	configured proxy.haproxy
	haproxy -f "$work/proxy.haproxy" >"$work/proxy" 2>&1 &
	proxy=$!
	behind haproxy
	neither
fi
finish
