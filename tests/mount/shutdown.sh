#!/bin/bash
# The mount ends while every kind of request waits: each request is answered, and the program ends with status 0.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
holdable
mounted
complete # so that experts can be read
cd / && unmounted

begin() { # in the foreground, for its exit status
	"$MOEFS" -f -o "store=$store" "$MODEL" "$mnt" 2>"$work/stderr" &
	daemon=$!
	until_true [ -e "$mnt/version" ]
	cd "$m" || fail "not mounted: $(cat "$work/stderr")"
	loaded
}
ended() { # it has ended with status 0, and nothing is left
	wait "$daemon" || fail "the program ended with status $?: $(tail -n 5 "$work/stderr")"
	grep -q " $mnt " /proc/self/mountinfo && fail "still mounted"
	return 0
}

# One process: holds a prompt that is closing (written, flushed, not released), opens FILES, which wait for its
# release, and sends the signal once all of them have asked.
at_the_gate() { # SIGNAL FILE…
	local signal=$1
	shift
	begin
	timeout $limit python3 - "$daemon" "$signal" "$@" <<'PY' || fail "$(cat "$work/stderr")"
import errno, os, signal, sys, threading
sys.path.insert(0, os.environ["here"])
import waiting
daemon, name, files = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
prompt = os.open("prompt", os.O_WRONLY)
os.write(prompt, b"hello\n")
said = []
def opens(path):
    try: os.close(os.open(path, os.O_RDONLY)); said.append(0)
    except OSError as e: said.append(e.errno)
def close(f):
    try: os.close(f)
    except OSError: pass # ENOTCONN: the mount is gone
threads = [threading.Thread(target=opens, args=(f,)) for f in files]
os.close(os.dup(prompt)) # a FLUSH of the opener, and no RELEASE
for t in threads: t.start()
for t in threads: waiting.until_over(t, waiting.OPEN) # the gate lets them through after 300 ms
os.kill(daemon, getattr(signal, "SIG" + name))
for t in threads: t.join()
close(prompt)
assert len(said) == len(files), said
assert set(said) <= {0, errno.EIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ENOENT}, said
PY
	cd / && ended
}
gated="output status log wait error ctl stats sessions/default/prompt"
for signal in TERM INT HUP; do
	claim "SIG$signal while opens wait for a prompt that is closing" at_the_gate $signal $gated
done

# Reads at the growing end of output and ask, of wait, of experts (by workers), and a poll.
others() { # SIGNAL
	begin
	mkdir sessions/e && (cd sessions/e && begin_long) || exit
	timeout $limit python3 - "$daemon" "$1" <<'PY' || fail "$(cat "$work/stderr")"
import glob, os, select, signal, sys, threading, time
daemon, name = int(sys.argv[1]), sys.argv[2]
begun, failed = [], []
def until_it_fails(path, flags=os.O_RDONLY, first=None):
    f = os.open(path, flags)
    if first: os.write(f, first)
    begun.append(path)
    try:
        while True:
            if not os.read(f, 1 << 16) or path[:7] == "experts": os.lseek(f, 0, 0)
    except OSError: failed.append(path)
    try: os.close(f)
    except OSError: pass
def polls():
    f = os.open("sessions/e/wait", os.O_RDONLY)
    begun.append("poll")
    select.select([f], [], [], int(os.environ["limit"]))
    failed.append("poll")
    try: os.close(f)
    except OSError: pass
experts = [e for e in sorted(glob.glob("experts/*/*")) if os.path.getsize(e)][:4]
jobs = [(until_it_fails, (p,)) for p in ["sessions/e/output", "sessions/e/wait"] * 4 + experts]
jobs += [(until_it_fails, ("ask", os.O_RDWR, b"Tell me a long tale\n"))] * 4 + [(polls, ())]
threads = [threading.Thread(target=f, args=a) for f, a in jobs]
for t in threads: t.start()
while len(begun) < len(threads): time.sleep(0.001)
time.sleep(0.1)
os.kill(daemon, getattr(signal, "SIG" + name))
for t in threads: t.join()
assert len(failed) == len(threads)
PY
	let_go
	cd / && ended
}
for signal in TERM INT HUP; do
	claim "SIG$signal while reads and polls wait" others $signal
done

killed() { # SIGKILL meets writers and readers at the gate; the mount goes on, and ends
	begin
	timeout $limit python3 - <<'PY' || fail "$(cat "$work/stderr")"
import os, signal, subprocess, sys
child = """
import os, sys, threading
f = os.open("prompt", os.O_WRONLY)
os.write(f, b"What is 1 plus 1?")
os.close(os.dup(f))
for name in ["output", "status", "log"] * 3:
    threading.Thread(target=lambda n=name: os.read(os.open(n, os.O_RDONLY), 10), daemon=True).start()
print("there", flush=True)
import time; time.sleep(100)
"""
for i in range(20):
    p = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
    assert p.stdout.readline()
    q = subprocess.Popen(["cat", "output"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (q if i % 2 else p).kill(); (p if i % 2 else q).kill()
    p.wait(); q.wait()
    while True: # its RELEASE submits what it had written
        try: open("wait").read(); f = open("prompt", "w"); f.close(); break
        except OSError: pass
PY
	[ -n "$(ask "What is 1 plus 1?")" ] || fail "no answer afterwards"
	kill -TERM "$daemon"
	cd / && ended
}
claim "kill -9 of writers and readers at the gate does not end it" killed

lazily() { # the tree is gone from its mountpoint, the open files are not
	begin
	timeout $limit python3 - "$mnt" <<'PY' || fail "$(cat "$work/stderr")"
import os, subprocess, sys, threading
prompt = os.open("prompt", os.O_WRONLY)
os.write(prompt, b"What is 1 plus 1?\n")
os.close(os.dup(prompt))
said = []
def opens():
    f = os.open("output", os.O_RDONLY)
    while os.read(f, 1000): pass
    os.close(f)
    said.append(True)
threads = [threading.Thread(target=opens) for _ in range(8)]
for t in threads: t.start()
subprocess.run(["fusermount3", "-u", "-z", sys.argv[1]], check=True)
os.close(prompt)
for t in threads: t.join()
assert len(said) == 8
os.chdir("/")
PY
	cd / && ended
}
claim "fusermount3 -u -z while opens wait: they are served, and then it ends" lazily
daemon=
finish
