#!/bin/bash
# O_NONBLOCK, poll, select and epoll.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
holdable
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

# Working: poll waits for text; in between, reads with O_NONBLOCK fail with EAGAIN.
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

polls_wait() { # while the session works, wait is not ready; it is as soon as the turn is stopped
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

whole() { # params/stream off: nothing can be read before the last token
	mkdir sessions/s && cd sessions/s || exit
	echo off > params/stream
	begin_long 60
	timeout $limit python3 - <<'PY'
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
assert p.poll(1000 * int(os.environ["limit"])), "not readable after the end"
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

news() { # each file of an idle session, polled in each way, becomes ready when it changes
	mkdir sessions/n && cd sessions/n || exit
	echo 12 >params/max_tokens
	timeout $limit python3 - <<'PY'
import os, select, sys, threading
sys.path.insert(0, os.environ["here"])
import waiting
limit = int(os.environ["limit"])
def put(name, value):
    with open(name, "w") as f: f.write(value)
def get(name):
    with open(name) as f: return f.read()
def ready(f):
    return bool(select.select([f], [], [], 0)[0])
def read_all(f, from_start):
    if from_start: os.lseek(f, 0, os.SEEK_SET)
    text = b""
    while True:
        piece = os.read(f, 65536)
        if not piece: return text
        text += piece

class Waiter:
    """Waits for a file in one way, as often as it is asked to."""
    def __init__(self, f, style):
        self.style, self.f = style, f
        self.epoll = select.epoll()
        if style in ("epoll", "edge"):
            self.epoll.register(f, select.EPOLLIN | (select.EPOLLET if style == "edge" else 0))
        self.poll = select.poll()
        self.poll.register(f, select.POLLIN)
        self.calls = {"select": waiting.SELECT, "poll": waiting.POLL}.get(style, waiting.EPOLL)
    def wait(self, seconds=limit):
        if self.style == "select": return bool(select.select([self.f], [], [], seconds)[0])
        if self.style == "poll": return bool(self.poll.poll(1000 * seconds))
        return bool(self.epoll.poll(seconds))

def woken(waiter, event):
    """The event happens once the wait has begun, and ends it."""
    def act(waits=threading.main_thread()):
        waiting.until(waits, waiter.calls)
        event()
    thread = threading.Thread(target=act)
    thread.start()
    came = waiter.wait()
    thread.join()
    assert came, waiter.style
def refused():
    try: put("params/temperature", "hot")
    except OSError: return
    raise SystemExit("not refused")
def turn():
    put("prompt", "Tell me about experts.\n")

for style in "select", "poll", "epoll", "edge":
    get("output") # the gate: what was written before has taken effect
    status, log, error = (os.open(name, os.O_RDONLY) for name in ("status", "log", "error"))
    for f in status, error:
        assert ready(f), "not ready, and never read"
        read_all(f, True)
    read_all(log, False)
    w = {f: Waiter(f, style) for f in (status, log, error)}
    for f in w: assert not ready(f) and not w[f].wait(0), "ready, and nothing is new"

    before = get("error")
    woken(w[error], refused)
    text = read_all(error, True).decode()
    assert "temperature" in text and text != before, text
    assert not ready(error)

    woken(w[status], turn)
    words = []
    while not words or words[-1] != "done": # its words, of which some may go by unseen
        words.append(read_all(status, True).decode().strip())
        if words[-1] != "done": assert w[status].wait(), words
    assert len(set(words)) == len(words) and not ready(status), words

    assert get("wait") == "done\n"
    assert w[log].wait(), "the log has grown"
    text = read_all(log, False)
    assert b"experts" in text and not ready(log)
    woken(w[log], lambda: put("ctl", "undo")) # and when it gets shorter
    assert os.read(log, 10) == b"" and not ready(log)
    put("params/temperature", "0") # what was refused there is no news any more
    put("ctl", "reset")
    for f in status, log, error: os.close(f)
PY
	status=$?
	cd .. && rmdir n
	return $status
}
claim "waiters for status, log and error of an idle session are woken by their changes" news

edges() { # one epoll, edge-triggered, on all files of an answer: no edge is missing
	mkdir sessions/e && cd sessions/e || exit
	echo 3 >params/logprobs
	timeout $limit python3 - <<'PY'
import os, select
limit = int(os.environ["limit"])
def put(name, value):
    with open(name, "w") as f: f.write(value)
put("params/max_tokens", "30")
put("prompt", "Tell me about experts.\n")
files = {os.open(name, os.O_RDONLY | os.O_NONBLOCK): [name, b"", False] for name in ("output", "thoughts", "logprobs.jsonl")}
e = select.epoll()
for f in files: e.register(f, select.EPOLLIN | select.EPOLLET)
while not all(ended for _, _, ended in files.values()):
    events = e.poll(limit)
    assert events, "an edge is missing"
    for f, _ in events:
        while not files[f][2]: # to the end of what there is
            try: piece = os.read(f, 64)
            except BlockingIOError: break
            files[f][1] += piece
            files[f][2] = not piece
for name, text, _ in files.values():
    with open(name, "rb") as g: assert g.read() == text, name
    assert name != "logprobs.jsonl" or text.count(b"\n") > 5, text
PY
	status=$?
	cd .. && rmdir e
	return $status
}
claim "edge-triggered epoll misses nothing of output, thoughts and logprobs.jsonl" edges

many() { # many polls of one file, by one open file and by several; some end while they wait
	mkdir sessions/m && cd sessions/m || exit
	timeout $limit python3 - <<'PY'
import os, select, signal
limit = int(os.environ["limit"])
shared = os.open("status", os.O_RDONLY)
assert os.read(shared, 100) == b"idle\n"
children = []
for i in range(12):
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        f = shared if i % 2 else os.open("status", os.O_RDONLY)
        if not i % 2: os.read(f, 100)
        p = select.poll(); p.register(f, select.POLLIN)
        early = p.poll(0)
        os.write(w, b"x")
        os._exit(1 if early else 0 if p.poll(1000 * limit) else 2)
    os.read(r, 1)
    os.close(r), os.close(w)
    children.append(child)
for child in children[:4]:
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
f = os.open("status", os.O_RDONLY) # closed while it is polled
e = select.epoll(); e.register(f, select.EPOLLIN); os.read(f, 100)
assert not e.poll(0)
os.close(f)
with open("prompt", "w") as p: p.write("Tell me about experts.\n")
for child in children[4:]: assert os.waitpid(child, 0)[1] == 0, "not woken"
assert not e.poll(0), "an event of a file that was closed"
PY
	status=$?
	idle
	cd .. && rmdir m
	return $status
}
claim "many pollers are woken, and pollers that leave disturb nobody" many

gone() {
	mkdir sessions/g && cd sessions/g || exit
	timeout $limit python3 - <<'PY'
import os, select, sys, threading
sys.path.insert(0, os.environ["here"])
import waiting
f = os.open("status", os.O_RDONLY)
os.read(f, 100)
p = select.poll(); p.register(f, select.POLLIN)
def remove(waits=threading.main_thread()):
    waiting.until(waits, waiting.POLL)
    os.rmdir("../g")
threading.Thread(target=remove).start()
events = p.poll(1000 * int(os.environ["limit"]))
assert events and events[0][1] & select.POLLERR, events
PY
}
claim "a poll ends when its session does" gone

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
crowd() { # ten thousand open files are polled; each is told, none too early, and looks are answered in between
	mkdir sessions/c && cd sessions/c || exit
	begin_long
	timeout $limit python3 - "${POLLS:-10000}" <<'PY'
import os, resource, select, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
count, share = int(sys.argv[1]), 1000
told, tell = os.pipe()
def polls(n): # says that it polls, and then when the first and the last of its files were ready
    files = [os.open("wait", os.O_RDONLY | os.O_NONBLOCK) for _ in range(n)]
    e = select.epoll()
    for f in files: e.register(f, select.EPOLLIN)
    assert not e.poll(0), "ready too early"
    os.write(tell, b"polling\n")
    first = last = None
    while n:
        for f, _ in e.poll():
            last = time.monotonic_ns()
            first = first or last
            assert os.read(f, 100) == b"stopped\n"
            e.unregister(f)
            n -= 1
    os.write(tell, b"%d %d\n" % (first, last))
children = []
for _ in range(count // share):
    children.append(os.fork())
    if not children[-1]:
        try: polls(share)
        except BaseException as why: os.write(2, repr(why).encode()); os._exit(1)
        os._exit(0)
os.close(tell)
said = os.fdopen(told, "rb", buffering=0)
for _ in children: assert said.readline() == b"polling\n", "it does not poll"
ended, answered = [], []
with open("ctl", "w") as f: f.write("stop")
while len(ended) < len(children):
    os.stat("status")
    answered.append(time.monotonic_ns())
    if select.select([said], [], [], 0)[0]:
        line = said.readline()
        assert line, "a child has ended"
        ended.append([int(t) for t in line.split()])
for child in children: assert os.waitpid(child, 0)[1] == 0
first, last = min(f for f, _ in ended), max(l for _, l in ended)
assert any(first < t < last for t in answered), "no look was answered between the first poll and the last"
PY
	status=$?
	end_long
	cd .. && rmdir c
	return $status
}
claim "ten thousand polls of a turn are told of its end, and other readers are answered between them" crowd
finish
