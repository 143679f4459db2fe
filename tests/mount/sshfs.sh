#!/bin/bash
# A tree across sshfs: another machine's shell, and moefs-http there. Both machines are this one, in namespaces of its own
# for network, processes and mounts, so that nothing is left in any case: no daemon, no connection, no mount.
if [ -z "${APART:-}" ]; then
	[ "$(id -u)" = 0 ] || { echo "ok sshfs.sh # skip: sshd in a network of its own takes root"; exit 0; }
	for needed in sshfs ssh ssh-keygen ip unshare; do
		command -v $needed >/dev/null || { echo "ok sshfs.sh # skip: no $needed (packages sshfs, openssh-client, iproute2)"; exit 0; }
	done
	[ -x /usr/sbin/sshd ] || { echo "ok sshfs.sh # skip: no sshd (package openssh-server)"; exit 0; }
	apart=(unshare --net --mount --pid --fork --mount-proc --kill-child)
	said=$("${apart[@]}" ip link set lo up 2>&1) || { echo "ok sshfs.sh # skip: no namespaces here: $said"; exit 0; }
	APART=yes exec "${apart[@]}" "$0"
fi
. "$(dirname "$0")/lib.sh"
holdable
# This namespace has copies of other tests' mounts, which would last as long as it does, and those tests would wait.
awk '$3 == "fuse" || $3 == "fuse.moefs" { print $2 }' /proc/self/mounts | while read -r place; do umount -l "$(printf %b "$place")"; done
command -v curl >/dev/null || skip_all "no curl"
command -v python3 >/dev/null || skip_all "no python3"
http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
[ -x "$http" ] || { echo "not ok $(basename "$0"): $http is missing; run make"; exit 1; }

cat >"$work/script.json" <<'END'
[{"after": "Is seven a prime number?<|im_end|>\n<|im_start|>assistant\n", "say": "<think>\nTwo does not divide it.\n</think>\n\nSeven is a prime."}]
END
others=("$root/examples/models/fable-moe-15m")
scripted "$work/script.json" "" "$here/conversation.jinja"
m=$mnt/fable-moe-15m
mounted
echo auto > "$mnt/scripted/sessions/default/params/max_tokens"
echo off > sessions/default/params/stop_repetition # for `long`

# ---- the connection ----

far=$work/far near=$mnt
ip link set lo up
mount -t tmpfs none /run && mkdir /run/sshd && mkdir "$far" # which sshd asks for; this namespace's alone
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/user"
cat >"$work/sshd_config" <<END
Port 2222
ListenAddress 127.0.0.1
HostKey $work/host
AuthorizedKeysFile $work/user.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
END
/usr/sbin/sshd -f "$work/sshd_config" -E "$work/sshd" || { echo "not ok sshd begins: $(tail -n 3 "$work/sshd")"; exit 1; }
sshd_listens() { (exec 3<>/dev/tcp/127.0.0.1/2222) 2>/dev/null; }
until_true sshd_listens # it goes to the background first
across() { # the options of fs/gateway/README.md, and what this connection needs
	sshfs -o direct_io,no_readahead,sshfs_sync,dir_cache=no,max_conns=8 \
		-o "port=2222,IdentityFile=$work/user,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR" \
		"root@127.0.0.1:$near" "$far"
}
if ! said=$(across 2>&1); then
	skip_all "sshd lets nobody in here: $said $(tail -n 1 "$work/sshd")"
fi
cd "$far/fable-moe-15m" || exit 1
f=$far/fable-moe-15m

# ---- a shell on the other machine ----

asks() { # each reads its own answer, never the previous one, although close and open use different connections
	local i
	for i in $(seq 30); do
		echo "What is $((i % 12 + 1)) x 6?" > prompt || exit
		same "$(timeout $limit cat output)" "$(cat "$m/output")" "question $i"
		same "$(cat prompt)" "What is $((i % 12 + 1)) x 6?"
		[ "$(cat output)" != "" ] || fail "no answer to question $i"
		echo reset > ctl
	done
	echo "What is 9 x 4?" > prompt && same "$(timeout $limit cat output)" "9 x 4 = 36"
}
claim "a shell asks, and reads the answer to its question" asks

edits() {
	local i
	for i in $(seq 20); do
		echo "[{\"role\": \"user\", \"content\": \"What is $((i % 9 + 1)) x 4?\"}]" > messages.json && echo answer > ctl || exit
		same "$(timeout $limit cat output)" "$((i % 9 + 1)) x 4 = $((4 * (i % 9 + 1)))"
	done
}
claim "a conversation that was written is the one that ctl has answered" edits

streams() {
	mkdir sessions/long && cd sessions/long && (cd "$m/sessions/long" && begin_long) || exit
	cat output > "$work/read" & # with reads of 128 KiB, which sshfs cuts in four
	until_true [ -s "$work/read" ] || fail "nothing is read"
	working "$(cat "$m/sessions/long/status")"
	working # seen from there, too, while one reads
	echo stop > ctl && wait $! || exit
	same "$(timeout $limit cat wait)" stopped
	cmp "$work/read" "$m/sessions/long/output" || fail "another answer"
	let_go && cd .. && rmdir long || exit
}
claim "an answer comes as it grows, and stops when told to" streams

others_too() {
	exec 3<>ask && echo "What is the capital of Peru?" >&3
	same "$(timeout $limit cat <&3)" "The capital of Peru is Lima."
	echo "What is 12 x 6?" > ask.d/sum && same "$(timeout $limit cat ask.d/sum)" "12 x 6 = 72"
	cp sessions/default/state "$work/state" && mkdir sessions/copy && cp "$work/state" sessions/copy/state || exit
	same "$(cat sessions/copy/log)" "$(cat log)"
	mv sessions/copy sessions/moved && same "$(ls "$m/sessions")" "default"$'\n'"moved"
	mkdir "$m/sessions/other" && same "$(ls sessions | xargs)" "default moved other"
	rmdir sessions/moved sessions/other && same "$(ls "$m/sessions")" default
	same "$(tail -c 1000 log)" "$(cat "$m/log")"
	chmod +t experts/00/017 && same "$(stat -c %A experts/00/017 "$m/experts/00/017" | xargs)" "-r--r--r-T -r--r--r-T"
	cmp experts/00/001 "$m/experts/00/001" && cmp tensors/model.norm.weight.npy "$m/tensors/model.norm.weight.npy"
}
claim "ask, ask.d, state, renaming, listing, pins, weights" others_too

refuses() {
	shell_fails_with "write error" "echo hot > sessions/default/params/temperature"
	grep -q '"hot" is not a number' error || fail "$(cat error)"
	echo "What is 12 x 6?" > prompt && same "$(timeout $limit cat output)" "12 x 6 = 72"
	printf '\377\376' > prompt # whose turn fails: of reading sshfs passes on no error
	same "$(timeout $limit cat output) $(cat status)" " error"
	grep -q 'not valid UTF-8' error || fail "$(cat error)"
	mkdir sessions/long && cd sessions/long && (cd "$m/sessions/long" && begin_long) || exit
	shell_fails_with "" "echo more > prompt"
	fails_with "" cat output # once, as for one process
	grep -q 'still answering' error || fail "$(cat error)"
	(cd "$m/sessions/long" && end_long)
	cat output >/dev/null && cd .. && rmdir long && cd .. || exit
	fails_with "" dd if=/dev/fd/3 of=messages.json conv=fsync 3<<<'[{'
	grep -q messages.json error || fail "$(cat error)"
	echo reset > ctl
}
claim "refusals are reported by the write, by the next read, or in error" refuses

# ---- moefs-http on the other machine ----

export mnt PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
begin_http() { # LISTEN[,OPTIONS]
	: >"$work/http"
	"$http" -o "listen=$1" "$far" 2>"$work/http" &
	served=$!
	listens $served "$work/http"
	export url
}
cd /
begin_http 127.0.0.1:0
answers() { timeout $limit python3 - <<'PY' || fail "$(tail -n 1 "$work/http")"; }
from gateway import *
q = "Is seven a prime number?"
deltas = [c["choices"][0]["delta"] for c in stream(q, model="scripted")[:-1]]
assert "".join(d.get("reasoning_content", "") for d in deltas) == "Two does not divide it.", deltas
assert "".join(d.get("content", "") for d in deltas) == "Seven is a prime.", deltas
talk = []
for place, city in ("France", "Paris"), ("Peru", "Lima"), ("Chad", "N'Djamena"):
    talk.append({"role": "user", "content": f"What is the capital of {place}?"})
    a = ask(talk, max_tokens=24)
    assert content(a) == f"The capital of {place} is {city}.", a
    talk.append(a["choices"][0]["message"])
assert a["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "the conversation was not gone on with"
for i in range(10):
    a = post("/v1/completions", {"model": fable, "prompt": "The capital of France is", "temperature": 0, "max_tokens": 4})
    assert a["choices"][0]["text"].startswith(" Paris."), a
until(lambda: not sessions(), "sessions are left")
PY
claim "moefs-http answers there, whole, as a stream, with thoughts, and goes on with a conversation" answers

kill -TERM $served
wait $served
claim "it ends, and leaves no session" same "$? $(ls "$m/sessions")" "0 default"
begin_http 127.0.0.1:0
refuses_there() { timeout $limit python3 - <<'PY'; }
from gateway import *
for how in {}, {"stream": True}:
    e = ask(" hello" * 6000, 400, **how)["error"]
    assert (e["code"], e["param"]) == ("context_length_exceeded", "messages") and "4096 tokens" in e["message"], e
    e = post("/v1/completions", {"model": fable, "prompt": "word " * 6000, **how}, 400)["error"]
    assert (e["code"], e["param"]) == ("context_length_exceeded", "prompt"), e
    e = ask("Refuse this.", 400, model="scripted", **how)["error"]
    assert e["param"] == "messages" and e["message"] == "This template refuses.", e
assert ask([{"role": "king", "content": "x"}], 400)["error"]["param"] == "messages"
form = {"type": "json_schema", "json_schema": {"schema": {"type": "king"}}}
assert ask("x", 400, response_format=form)["error"]["param"] == "response_format"
with standing():
    answer = events("/v1/chat/completions", long(stream=True))
    next(answer), next(answer)
    os.rmdir(f"{mnt}/{fable}/sessions/{working()[0]}")
    *_, last = answer
    assert last["error"]["type"] == "server_error", last
PY
claim "refusals there are errors with their sentence; a removed session is an error, not an end" refuses_there

stops_there() { timeout $limit python3 - <<'PY'; }
from gateway import *
with standing():
    answer = events("/v1/chat/completions", long(stream=True))
    next(answer), next(answer)
    with open(f"{mnt}/{fable}/sessions/{working()[0]}/ctl", "w") as f: f.write("stop\n")
    *_, last, done = answer
    assert done == "[DONE]" and last["choices"][0]["finish_reason"] == "stop", last
    s = begin(long("Another story.", stream=True))
    until(working, "it does not begin")
    s.close()
until(lambda: not sessions(), "it goes on without its client") # seen with the next token: no signal ends a read over SSH
PY
claim "echo stop > ctl ends an answer there, and so does a client that goes away" stops_there

page_there() {
	local s=$url/tree/fable-moe-15m/sessions
	curl -sSf --max-time $limit "$url/" | grep -q '<html' || fail "no page"
	curl -sSf --max-time $limit "$url/tree/fable-moe-15m/experts/map" | grep -q '^07 ' || fail "no map"
	curl -sSf --max-time $limit -X POST "$s/paged" && curl -sSf --max-time $limit -X PUT "$s/paged/prompt" -d "What is 12 x 6?" || fail "not asked"
	same "$(curl -sSf --max-time $limit "$s/paged/output")" "12 x 6 = 72"
	same "$(curl -sS --max-time $limit -o /dev/null -w '%{http_code}' -X PUT "$s/paged/messages.json" -d '[{')" 400
	curl -sSf --max-time $limit "$s" | grep -q paged && curl -sSf --max-time $limit -X DELETE "$s/paged" && same "$(ls "$m/sessions" | grep -v ^http-)" default
}
claim "the page there asks and reads through /tree/" page_there
kill -TERM $served
wait $served
claim "moefs-http ends there, and leaves no session" same "$? $(ls "$m/sessions")" "0 default"

# ---- the connection is lost ----

begin_http "unix:$work/socket"
hold_at 16
body='{"model": "fable-moe-15m", "stream": true, "max_tokens": 3500, "logit_bias": {"4087": -100, "4089": -100},
	"messages": [{"role": "user", "content": "Tell me a story."}]}'
curl -sSN --unix-socket "$work/socket" http://localhost/v1/chat/completions -d "$body" >"$work/events" 2>"$work/curl" &
asked=$!
cuts() {
	until_true_by $asked grep -q '"content"' "$work/events" || fail "no answer: $(cat "$work/events" "$work/curl")"
	kill -9 $(pgrep -x sshd) # all of them
	until_true not alive $asked || fail "it waits for ever"
}
claim "a connection that is cut ends the answer" cuts
said_so() {
	tail -n 3 "$work/events" | grep -q '"error"' || fail "no error: $(tail -n 3 "$work/events")"
	! grep -q 'DONE' "$work/events" || fail "it claims to be whole"
	until_true not mountpoint -q "$far" || fail "the mount is still there"
}
claim "it ends with its error event, and the mount is gone" said_so
kill -TERM $served
wait $served
claim "moefs-http ends without its tree" same $? 0
near_is_well() {
	let_go
	cd "$m" && echo reset > ctl && same "$(ask "What is 12 x 6?")" "12 x 6 = 72"
	timeout $limit rmdir sessions/http-*
}
claim "on the near side all goes on" near_is_well
fusermount3 -u "$far" 2>/dev/null || fusermount3 -u -z "$far" 2>/dev/null
finish
