#!/bin/bash
# O_NONBLOCK, poll, select and epoll.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
mounted
loaded

polls() {
	mkdir sessions/p && cd sessions/p || exit
	timeout $limit python3 - <<'PY'
import os, select
limit = int(os.environ["limit"])
def put(name, value):
    with open(name, "w") as f: f.write(value)
def read(f, n=65536):
    try: return os.read(f, n)
    except BlockingIOError: return None

# Idle: everything is ready, and ends.
f = os.open("output", os.O_RDONLY | os.O_NONBLOCK)
assert select.select([f], [], [], limit)[0] and read(f) == b""
os.close(f)

# Working: poll waits for text; O_NONBLOCK says EAGAIN between.
put("params/max_tokens", "40")
for style in "poll", "select", "epoll":
    put("prompt", "Tell me about experts.\n")
    f = os.open("output", os.O_RDONLY | os.O_NONBLOCK)
    w = os.open("wait", os.O_RDONLY | os.O_NONBLOCK)
    text, again = b"", 0
    e = select.epoll(); e.register(f, select.EPOLLIN)
    p = select.poll(); p.register(f, select.POLLIN)
    while True:
        ready = {"poll": lambda: p.poll(1000 * limit), "select": lambda: select.select([f], [], [], limit)[0],
                 "epoll": lambda: e.poll(limit)}[style]()
        assert ready, style + ": nothing"
        piece = read(f)
        if piece is None: again += 1; assert again < 1000, style + " says ready and is not"
        elif piece: text += piece
        else: break
    e.close()
    assert select.select([w], [], [], limit)[0], "wait"
    assert read(w) == b"done\n"
    assert text == open("output", "rb").read() and text, style
    os.close(f); os.close(w)

PY
	status=$?
	cd .. && rmdir p
	return $status
}
claim "output and wait can be polled" polls

polls_wait() { # while the session works, wait is not ready; it is once the turn is stopped, before its own end
	mkdir sessions/w && cd sessions/w || exit
	begin_long
	timeout $limit python3 - <<'PY'
import os, select, sys, threading
sys.path.insert(0, os.environ["here"])
import waiting
w = os.open("wait", os.O_RDONLY | os.O_NONBLOCK)
assert not select.select([w], [], [], 0)[0], "ready too early"
try:
    raise SystemExit("read %r" % os.read(w, 100))
except BlockingIOError:
    pass
def stop():
    waiting.until(threading.main_thread(), waiting.SELECT)
    with open("ctl", "w") as f: f.write("stop")
threading.Thread(target=stop).start()
assert select.select([w], [], [], int(os.environ["limit"]))[0], "the poll did not end"
assert os.read(w, 100) == b"stopped\n"
PY
	status=$?
	end_long
	cd .. && rmdir w
	return $status
}
claim "a poll of wait ends when the turn does" polls_wait

whole() { # params/stream off: many tokens are there, and nothing of them to be read before the last
	mkdir sessions/s && cd sessions/s || exit
	echo off > params/stream
	begin_long 2
	timeout 60 python3 - <<'PY'
import os, select, time
def tokens():
    return int(next(l for l in open("stats") if l.startswith("output_tokens")).split()[1])
def refused(f):
    try: return os.read(f, 100) is None
    except BlockingIOError: return True
f = os.open("output", os.O_RDONLY | os.O_NONBLOCK)
b = os.open("output", os.O_RDONLY)
p = select.poll(); p.register(f, select.POLLIN)
reader = os.fork()
if reader == 0: # waits for the first byte, and gets all of it
    first = os.read(b, 1 << 17)
    os._exit(0 if first.endswith(b"\n") and os.read(b, 1 << 17) == b"" else 1)
while tokens() < 20:
    assert not p.poll(10) and refused(f) and os.stat("output").st_size == 0, "readable too early"
assert open("status").read() == "generating\n", "it was over too soon"
assert not p.poll(0) and refused(f)
with open("ctl", "w") as c: c.write("stop")
assert p.poll(20000), "not readable after the end"
text = os.read(f, 1 << 17)
assert text.endswith(b"\n") and len(text) > 20, text
assert os.read(f, 100) == b"" and os.stat("output").st_size == len(text)
assert os.waitpid(reader, 0)[1] == 0, "the waiting reader got it in pieces"
assert open("log", "rb").read().endswith(text + b"\n"), "log"
PY
	status=$?
	end_long
	cd .. && rmdir s
	return $status
}
claim "with params/stream off nothing can be read before the answer is complete, and then all of it" whole

ask_polls() {
	timeout $limit python3 - <<'PY'
import os, select
limit = int(os.environ["limit"])
f = os.open("ask", os.O_RDWR | os.O_NONBLOCK)
for turn in range(3):
    assert select.select([], [f], [], limit)[1], "not writable"
    os.write(f, b"What is the capital of France?\n")
    text = b""
    for _ in range(1000):
        assert select.select([f], [], [], limit)[0], "not readable"
        try: piece = os.read(f, 1000)
        except BlockingIOError: continue
        if not piece: break
        text += piece
    assert text.endswith(b"\n"), text
PY
}
claim "ask can be polled" ask_polls
finish
