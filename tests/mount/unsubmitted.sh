#!/usr/bin/env bash
# Written text that is not submitted is bounded, for all users together and for each: nobody can take the memory of a
# mount, or the owner's part of the bound.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip_all "only root can try being several users"
command -v setpriv >/dev/null || skip_all "setpriv is not installed"
command -v python3 >/dev/null || skip_all "python3 is not installed"
chmod 755 "$work"

# The longest prompt is 64 KiB, so all may have 512 KiB, users 256 KiB of it, each of them 128 KiB: two texts of
# 60000 bytes.
mounted -o allow_other,context_budget=1M,context=512
loaded
same "$(cat info/max_prompt_bytes)" 65536

as() { # UID COMMAND…
	local uid=$1
	shift
	# By a shell, which finds a program in PATH that this user may run.
	setpriv --reuid="$uid" --regid="$uid" --clear-groups bash -c '"$@"' - "$@"
}
# Opens NAME and writes 60000 bytes, again and again until a write is refused; prints how many were accepted, and keeps
# them all open until its input ends.
cat >"$work/fill.py" <<'PY'
import errno, os, sys
names, taken, open_files = sys.argv[1:], 0, []
try:
    for name in names:
        f = os.open(name, os.O_RDWR if name == "ask" else os.O_WRONLY | os.O_TRUNC)
        open_files.append(f)
        for _ in range(6): os.write(f, b"x" * 10000)
        taken += 1
except OSError as e:
    assert e.errno == errno.ENOSPC, e
    assert "submitted" in open("../error").read(), "error"
print(taken, flush=True)
sys.stdin.read()
PY
asks() { for _ in $(seq "$1"); do echo ask; done; }
filled() { # UID COUNT NAME…: this many writes to these files are accepted
	local uid=$1 want=$2
	shift 2
	same "$(as "$uid" python3 "$work/fill.py" "$@" </dev/null)" "$want" "taken of user $uid"
}

each() {
	filled 65534 2 $(asks 5)
	filled 65534 2 $(asks 5) # and again, since all is given back with the last close
	filled 0 8 $(asks 10)
}
claim "a user gets a part of what unsubmitted text may take, the owner all" each

together() {
	coproc first { as 65534 python3 "$work/fill.py" $(asks 5); }
	read -r -t "$limit" -u "${first[0]}" taken && same "$taken" 2 first || fail first
	exec 7<&"${first[0]}" 8>&"${first[1]}"
	filled 65533 2 $(asks 5)
	coproc second { as 65533 python3 "$work/fill.py" $(asks 5); }
	read -r -t "$limit" -u "${second[0]}" taken && same "$taken" 2 second || fail second
	filled 65532 0 $(asks 5) # users together have no more
	filled 0 4 $(asks 5)     # the owner's half is there
	exec 3<>ask
	head -c 65000 /dev/zero | tr '\0' a >&3 || fail "the owner's longest question is refused"
	exec 3>&-
	mkdir sessions/o && echo "What is 1 plus 1?" > sessions/o/prompt && [ -n "$(timeout "$limit" cat sessions/o/output)" ] ||
		fail "the owner's prompt"
	rmdir sessions/o
	exec 7<&- 8>&- {second[1]}>&- {first[1]}>&-
	wait
}
claim "users together leave the owner his half" together

prompts() { # prompts of user 65534
	local i
	for i in 1 2 3; do mkdir sessions/p$i || exit; done
	same "$(python3 "$work/fill.py" sessions/p{1,2,3}/prompt </dev/null)" 2 prompts
	timeout "$limit" cat sessions/p1/wait >/dev/null
	same "$(wc -c <sessions/p1/prompt)" 60001 "what was submitted in full" # its newline is the file's
	same "$(cat sessions/p3/prompt)" "" "what was not"
	grep -q "unsubmitted text" sessions/p3/error || fail "error: $(cat sessions/p3/error)"
	timeout "$limit" cat sessions/p2/wait >/dev/null
	echo "What is 1 plus 1?" > sessions/p3/prompt && [ -n "$(timeout "$limit" cat sessions/p3/output)" ] || fail "the next prompt"
	# Assembled texts, and the rest that ftruncate leaves of a text, count as well.
	same "$(python3 "$work/fill.py" sessions/p1/params/{system,stop} sessions/p2/params/{system,stop} </dev/null)" 2 texts
	python3 - <<'PY' || fail "cut texts"
import errno, os
files = []
try:
    for _ in range(5):
        files.append(os.open("ask", os.O_RDWR))
        os.write(files[-1], b"x" * 60000)
        os.ftruncate(files[-1], 0)
    raise SystemExit("not refused")
except OSError as e:
    assert e.errno == errno.ENOSPC and len(files) == 3, (e, len(files))
PY
	rmdir sessions/p{1,2,3}
}
export -f prompts fail same
export work limit
claim "prompts and texts count, and refused ones are not submitted" as 65534 bash -c prompts

asked() { # a submitted question makes room for the next
	python3 - <<'PY'
import os
files = [os.open("ask", os.O_RDWR) for _ in range(6)]
for f in files:
    for _ in range(6): os.write(f, b"x" * 10000)
    try: os.read(f, 1000)
    except OSError: pass # longer than the context
PY
}
export -f asked
claim "submitted text no longer counts" as 65534 bash -c asked
finish
