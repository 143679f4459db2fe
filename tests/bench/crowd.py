"""How a mounted tree responds to a crowd: microseconds that looking takes, median and 99th of a hundred, alone and
beside each part of the crowd, and bytes of the daemon's own memory for each of what the crowd brings.

    crowd.py MODEL_FOLDER DAEMON_PID SESSIONS READERS WRITERS
"""
import multiprocessing
import os
import select
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../mount"))
import waiting

model, daemon, sessions, readers, writers = sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:6])
PER_PROCESS = 1000  # threads or descriptors of each that waits
LONG = 40           # turns that take turns, so that none of them ends meanwhile


def path(*parts):
    return os.path.join(model, *parts)


def put(name, text):
    fd = os.open(name, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, text.encode())
    os.close(fd)


def get(name):
    with open(name, "rb", buffering=0) as f:
        return f.readall()


# ---- looking ----

def list_long(folder):
    for entry in os.scandir(folder):
        os.lstat(entry.path)


LOOKS = [("stat status", 500, lambda: os.stat(path("status"))),
         ("cat status", 500, lambda: get(path("status"))),
         ("stat a session", 500, lambda: os.stat(path("sessions/s%d/error" % (sessions - 1)))),
         ("ls -l the model", 100, lambda: list_long(model)),
         ("ls sessions", 30, lambda: os.listdir(path("sessions")))]


def look(beside):
    columns = []
    for _, times, function in LOOKS:
        took = []
        for _ in range(times):
            began = time.monotonic_ns()
            function()
            took.append((time.monotonic_ns() - began) / 1000)
        took.sort()
        columns.append("%7.0f %7.0f" % (took[times // 2], took[times * 99 // 100]))
    print("%-34s %s" % (beside, "  ".join(columns)), flush=True)


def memory():
    """What is the daemon's own of its resident size, without what is read from files."""
    with open("/proc/%d/status" % daemon) as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon"))


class Each:
    """Says what so many of something took since its making."""
    def __init__(self):
        self.before = memory()

    def told(self, what, count):
        print("# %-40s %8.0f bytes" % ("memory for " + what, (memory() - self.before) / count), flush=True)
        self.before = memory()


# ---- the crowd ----

def long_turn(folder):
    for name, value in ("max_tokens", "0"), ("temperature", "0"), ("chat", "off"), ("stop_repetition", "off"):
        put(path(folder, "params", name), value)
    put(path(folder, "prompt"), " ".join(["ha"] * 30))


def wait_by_reading(name, count, told):
    threading.stack_size(65536)

    def wait():
        f = os.open(name, os.O_RDONLY)
        while os.read(f, 4096):
            pass
        os.close(f)
    threads = [threading.Thread(target=wait) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        while t.is_alive() and not waiting.waits(t, waiting.READ):
            time.sleep(0.001)
    told.send("waiting")
    for t in threads:
        t.join()


def wait_by_polling(name, count, told):
    files = [os.open(name, os.O_RDONLY | os.O_NONBLOCK) for _ in range(count)]
    told.send("open")
    told.recv()
    poller = select.epoll()
    for f in files:
        poller.register(f, select.EPOLLIN)
    told.send("waiting")
    ready = set()
    while len(ready) < count:
        for f, _ in poller.poll():
            try:
                if name.endswith("/status"):
                    os.pread(f, 100, 0)
                elif not os.read(f, 4096) or name.endswith("/wait"):
                    poller.unregister(f)
                    ready.add(f)
            except BlockingIOError:
                pass


class Crowd:
    def __init__(self, target, names, count):
        self.members = []
        share = min(PER_PROCESS, max(1, count // len(names)))
        for i in range(0, count, share):
            here, there = multiprocessing.Pipe()
            name = names[i // share % len(names)]
            p = multiprocessing.Process(target=target, args=[path(name), min(share, count - i), there])
            p.start()
            self.members.append((p, here))

    def all_say(self, word):
        for _, here in self.members:
            assert here.recv() == word

    def go_on(self):
        for _, here in self.members:
            here.send("on")

    def end(self, what):
        """Ends the turns that they wait for, and looks meanwhile at how long the longest look took."""
        began, most = time.monotonic(), 0
        for i in range(LONG):
            put(path("sessions/long%d/ctl" % i), "stop")
        while any(p.is_alive() for p, _ in self.members):
            before = time.monotonic()
            os.stat(path("status"))
            most = max(most, time.monotonic() - before)
            time.sleep(0.001)
        for p, _ in self.members:
            p.join()
        print("# %-40s %8.0f ms until all were answered and gone, longest stat %.1f ms" %
              (what, (time.monotonic() - began) * 1e3, most * 1e3), flush=True)


def begin_long():
    for i in range(LONG):
        long_turn("sessions/long%d" % i)


def write_in(number, until, told):
    folder = "sessions/s%d" % number
    took = []
    while time.monotonic() < until:
        began = time.monotonic()
        put(path(folder, "prompt"), "What is 12 x 6?")
        took.append((time.monotonic() - began) * 1e6)
        get(path(folder, "output"))
    told.send(took)


def write_all():
    until = time.monotonic() + 15
    pipes, crowd = [], []
    for i in range(writers):
        here, there = multiprocessing.Pipe()
        crowd.append(multiprocessing.Process(target=write_in, args=[i, until, there]))
        crowd[-1].start()
        pipes.append(here)
    time.sleep(1)
    look("beside %d writers" % writers)
    took = sorted(us for here in pipes for us in here.recv())
    for p in crowd:
        p.join()
    print("# a write of %d: median %.0f us, 99th %.0f, of %d prompts" %
          (writers, took[len(took) // 2], took[len(took) * 99 // 100], len(took)), flush=True)


def rate(what, count, function):
    began, half = time.monotonic(), 0
    for i in range(count):
        if i == count // 2:
            half = time.monotonic()
        function(i)
    end = time.monotonic()
    print("# %-40s %8.0f us each of the first half, %.0f of the second" %
          (what, (half - began) / count * 2e6, (end - half) / count * 2e6), flush=True)


each = Each()
rate("mkdir of %d sessions" % sessions, sessions, lambda i: os.mkdir(path("sessions/s%d" % i)))
each.told("an idle session, never asked", sessions)
print("# %-32s %s" % ("microseconds: median, 99th", "  ".join("%15s" % what for what, _, _ in LOOKS)))
look("alone")


def short_turn(i):
    folder = "sessions/s%d" % i
    put(path(folder, "params/max_tokens"), "16")
    put(path(folder, "prompt"), "What is 12 x 6?")
    get(path(folder, "output"))


for i in range(sessions):
    short_turn(i)
each.told("a session with a short turn", sessions)
for i in range(sessions):
    put(path("sessions/s%d/ctl" % i), "reset")
each.told("the same, once it is reset", sessions)
write_all()

for i in range(LONG):
    os.mkdir(path("sessions/long%d" % i))
begin_long()
look("beside %d turns" % LONG)
each = Each()
crowd = Crowd(wait_by_reading, ["sessions/long0/wait"], readers)
crowd.all_say("waiting")
each.told("an open file and a reader waiting", readers)
look("and %d readers of wait" % readers)
crowd.end("%d readers of wait" % readers)

begin_long()
crowd = Crowd(wait_by_reading, ["sessions/long%d/output" % i for i in range(LONG)], readers // 10)
crowd.all_say("waiting")
look("and %d readers of output" % (readers // 10))
crowd.end("%d readers of output" % (readers // 10))

for kind, count in ("wait", readers), ("status", readers), ("output", readers // 10):
    begin_long()
    each = Each()
    crowd = Crowd(wait_by_polling, ["sessions/long%d/%s" % (i, kind) for i in range(LONG if kind == "output" else 1)],
                  count)
    crowd.all_say("open")
    each.told("an open file", count)
    crowd.go_on()
    crowd.all_say("waiting")
    each.told("a poll of it", count)
    look("and %d polls of %s" % (count, kind))
    if kind == "status":  # that has no end
        for p, _ in crowd.members:
            p.terminate()
    crowd.end("%d polls of %s" % (count, kind))

begin_long()
crowd = Crowd(wait_by_reading, ["experts/trace"], 4)
look("and 4 readers of trace")
crowd.end("4 readers of trace")
rate("rmdir of %d sessions" % sessions, sessions, lambda i: os.rmdir(path("sessions/s%d" % i)))
