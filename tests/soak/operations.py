"""What many users do to a mounted tree, at random: each operation is a function in the table OPERATIONS, and takes
any refusal for an answer. What it must not meet: a call that hangs, a daemon that is gone, an answer that breaks off
without words.

    operations.py MODEL_FOLDER DAEMON_PID SECONDS PROCESSES SEED CHECKPOINT MODELS

MODELS is the mounted folder of models, into which copies of CHECKPOINT come, and from which they go.
"""
import errno
import json
import mmap
import multiprocessing
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

model, daemon, seconds, processes, seed = sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:6])
checkpoint, models = sys.argv[6:8]
root = os.path.dirname(model)
HANG = 120  # seconds within which any call must end, on however busy a machine
QUESTIONS = ["What is the capital of France?", "What is 12 x 6?", "What is the opposite of hot?", "ha ha ha ha ha",
             "Sort: 34 12 59 7", "x" * 3000, "\x00\x01", "ünïcode 日本語", ""]


def path(*parts):
    return os.path.join(model, *parts)


def put(name, text, flags=os.O_WRONLY | os.O_TRUNC):
    fd = os.open(name, flags)
    try:
        os.write(fd, text if isinstance(text, bytes) else text.encode())
    finally:
        os.close(fd)


def get(name, most=1 << 22):
    fd = os.open(name, os.O_RDONLY)
    data = b""
    try:
        while len(data) < most:
            piece = os.read(fd, 65536)
            if not piece:
                break
            data += piece
    finally:
        os.close(fd)
    return data


class User:
    """One process: its random numbers, and the sessions that it has made."""

    def __init__(self, number, random_seed):
        self.random = random.Random(random_seed)
        self.number = number
        self.made = 0
        self.mine = []

    def question(self):
        return self.random.choice(QUESTIONS)

    def session(self):
        """The folder of one of its own or of everybody's."""
        if self.mine and self.random.random() < 0.8:
            return path("sessions", self.random.choice(self.mine))
        return path("sessions", "default")

    def file(self):
        """Any file of the model's folder, by a random walk."""
        at = self.random.choice([root, model, model])
        for _ in range(5):
            names = os.listdir(at)
            if not names:
                break
            at = os.path.join(at, self.random.choice(names))
            if not os.path.isdir(at):
                return at
        return path("info", "state")


# ---- the operations ----

def make(u):
    name = "u%d-%d" % (u.number, u.made)
    u.made += 1
    os.mkdir(path("sessions", name))
    u.mine.append(name)
    put(path("sessions", name, "params", "max_tokens"), str(u.random.choice([3, 10, 40])))


def end(u):
    if u.mine:
        os.rmdir(path("sessions", u.mine.pop(u.random.randrange(len(u.mine)))))


def rename(u):
    if u.mine:
        at = u.random.randrange(len(u.mine))
        name = u.mine[at] + "r"
        if len(name) < 60:
            os.rename(path("sessions", u.mine[at]), path("sessions", name))
            u.mine[at] = name


def prompt_and_read(u):
    s = u.session()
    put(os.path.join(s, "prompt"), u.question())
    get(os.path.join(s, "output"))


def prompt_only(u):
    put(os.path.join(u.session(), "prompt"), u.question())


def prompt_in_pieces(u):
    fd = os.open(os.path.join(u.session(), "prompt"), os.O_WRONLY | u.random.choice([0, os.O_TRUNC]))
    try:
        for _ in range(u.random.randrange(5)):
            os.write(fd, b"tell me more ")
    finally:
        os.close(fd)


def look(u):
    s = u.session()
    get(os.path.join(s, u.random.choice(["log", "status", "error", "stats", "messages.json", "rendered", "tools.json",
                                         "tool_calls.json", "rendered_tokens", "ctl", "logprobs.jsonl", "thoughts"])))


def wait(u):
    get(os.path.join(u.session(), "wait"))


def verb(u):
    put(os.path.join(u.session(), "ctl"), u.random.choice(["stop", "undo", "retry", "continue", "reset", "answer", "no"]))


def param(u):
    name, values = u.random.choice([
        ("temperature", ["0", "0.7", "-1", "x"]), ("max_tokens", ["5", "20", "0x"]), ("top_k", ["0", "5"]),
        ("seed", ["1", "auto"]), ("draft", ["auto", "lookup", "off"]), ("stop", ["Paris\n", "\n"]),
        ("system", ["Be brief.", ""]), ("stream", ["on", "off"]), ("logprobs", ["0", "3"]),
        ("format", ["json", "none", "regex"]), ("grammar", ["[a-z ]{1,9}", "("]), ("on_full", ["error", "drop-oldest"]),
        ("experts_per_token", ["0", "1"]), ("drop_missing", ["0", "0.2"]), ("repetition_penalty", ["1", "1.2"])])
    s = u.session()
    if not s.endswith("default"):
        put(os.path.join(s, "params", name), u.random.choice(values))


def messages(u):
    text = u.random.choice([b"[]", b"[{", b'[{"role": "user", "content": "Hello"}]', b"\xff\xfe",
                            json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 20).encode()])
    put(os.path.join(u.session(), "messages.json"), text)


def tools(u):
    put(os.path.join(u.session(), "tools.json"), u.random.choice([
        "[]", '[{"type": "function", "function": {"name": "run", "description": "d", "parameters": {"type": "object"}}}]', "{"]))


def state(u):
    data = get(os.path.join(u.session(), "state"), 1 << 26)
    if u.random.random() < 0.3 and data:
        data = bytearray(data)
        data[u.random.randrange(len(data))] ^= 1 << u.random.randrange(8)
    if u.random.random() < 0.2:
        data = data[:len(data) // 2]
    put(os.path.join(u.session(), "state"), bytes(data))


def ask(u):
    fd = os.open(path("ask"), os.O_RDWR)
    try:
        for _ in range(u.random.randrange(1, 3)):
            os.write(fd, u.question().encode() or b"?")
            if u.random.random() < 0.2:
                break
            while os.read(fd, 100):
                pass
    finally:
        os.close(fd)


def ask_by_name(u):
    name = path("ask.d", "n%d-%d" % (u.number, u.random.randrange(4)))
    put(name, u.question(), os.O_WRONLY | os.O_CREAT)
    if u.random.random() < 0.7:
        get(name)
    elif u.random.random() < 0.5:
        os.unlink(name)


def convert(u):
    name, text = u.random.choice([("tokenizer/encode", "Words and more words. " * 50), ("tokenizer/decode", "339 458 285"),
                                  ("tokenizer/decode", "x"), ("score", "The capital of France is Paris.")])
    fd = os.open(path(name), os.O_RDWR)
    try:
        os.write(fd, text.encode())
        while os.read(fd, 4096):
            pass
    finally:
        os.close(fd)


def polled(u):
    of = u.random.choice(["output", "wait", "log", "tool_calls.json", "status", "error"])
    fd = os.open(u.random.choice([os.path.join(u.session(), of), path("experts", "trace")]), os.O_RDONLY | os.O_NONBLOCK)
    try:
        p = select.poll()
        p.register(fd, select.POLLIN)
        p.poll(u.random.choice([0, 1, 20]))
        os.read(fd, 1000)
    finally:
        os.close(fd)


def killed_reader(u):
    of = u.random.choice([os.path.join(u.session(), u.random.choice(["output", "wait", "log"])), path("experts", "trace")])
    child = subprocess.Popen(["cat", of], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(u.random.random() / 50)
    child.send_signal(u.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
    child.wait()


def killed_writer(u):
    child = subprocess.Popen(["sh", "-c", 'exec 3>"$0"; echo some words >&3; read _', os.path.join(u.session(), "prompt")],
                             stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(u.random.random() / 50)
    child.kill()
    child.stdin.close()
    child.wait()


def walk(u):
    subprocess.run(u.random.choice([["ls", "-laR", root], ["find", root, "-name", "0*"], ["du", "-s", root], ["df", root]]),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def read_any(u):
    name = u.file()
    if os.path.basename(name) in ("output", "wait", "thoughts", "logprobs.jsonl", "trace"):
        return
    get(name, 1 << 20)


def write_any(u):
    name = u.file()
    if os.path.dirname(name) == os.path.join(root, "cache"):
        return
    put(name, bytes(u.random.randrange(256) for _ in range(u.random.randrange(1, 200))))


def mapped(u):
    layer = u.random.choice(os.listdir(path("experts")))
    experts = os.listdir(path("experts", layer)) if layer.isdigit() else []
    if not experts:
        return
    fd = os.open(path("experts", layer, u.random.choice(experts)), os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if size:
            with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
                for _ in range(20):
                    view[u.random.randrange(size)]
    finally:
        os.close(fd)


def shared_setting(u):
    name, values = u.random.choice([("budget", ["8M", "2M", "64K", "1"]), ("policy", ["auto", "lru", "lfu no-prefetch", "?"]),
                                    ("context_budget", ["64M", "1M"])])
    put(os.path.join(root, "cache", name), u.random.choice(values))


# ---- of experts ----

PATTERNS = ["*", "*/*", "0[0-3]/*", "00", "01/003", "experts/02/0[01]?", "0?/0*5 01", "00/999", "[", "x", "", "\\",
            "*/" + "*" * 60, "?" * 70, " ".join(["0*/0*"] * 1100), "\x00", "00/001 " * 9000]


def expert(u):
    """The path of an expert or of a layer's folder."""
    layer = path("experts", "%02d" % u.random.randrange(8))
    return os.path.join(layer, "%03d" % u.random.randrange(16)) if u.random.random() < 0.7 else layer


def expert_verb(u):
    put(path("experts", "ctl"), "%s %s" % (u.random.choice(["load", "evict", "pin", "unpin", "no"]), u.random.choice(PATTERNS)),
        os.O_WRONLY)


def pin(u):
    os.chmod(expert(u), u.random.choice([0o1444, 0o444, 0o1755, 0o755, 0o644, 0]))


def attributes(u):
    of = u.random.choice([root, model, expert(u), u.file()])
    for name in os.listxattr(of):
        os.getxattr(of, name)
    if u.random.random() < 0.3:
        name = u.random.choice(["user.moefs.pinned", "user.moefs.", "user.x", "user." + "y" * 250, "security.capability"])
        u.random.choice([lambda: os.getxattr(of, name), lambda: os.setxattr(of, name, b"1"), lambda: os.removexattr(of, name)])()


def trace(u):
    """A reader who takes his time, and goes before the end as often as not."""
    fd = os.open(path("experts", "trace"), os.O_RDONLY | u.random.choice([0, os.O_NONBLOCK]))
    try:
        for _ in range(u.random.randrange(20)):
            if not os.read(fd, u.random.choice([1, 100, 4096, 1 << 17])):
                break
            time.sleep(u.random.random() / 50)
    finally:
        os.close(fd)


def tensor(u):
    """As NumPy reads it: the head, and pieces anywhere; or mapped."""
    fd = os.open(path("tensors", u.random.choice(os.listdir(path("tensors")))), os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if os.pread(fd, 6, 0) != b"\x93NUMPY":
            raise RuntimeError("a tensor's file does not begin as one")
        for _ in range(10):
            at = u.random.randrange(size + 10)
            if len(os.pread(fd, 1000, at)) != max(0, min(1000, size - at)):
                raise RuntimeError("a tensor's file is shorter than it says")
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
            for _ in range(10):
                view[u.random.randrange(size)]
    finally:
        os.close(fd)


def numbers(u):
    """What is JSON always is."""
    of = u.random.choice([os.path.join(root, "cache"), u.session()])
    json.loads(get(os.path.join(of, "stats.json")))


# ---- of models ----

def put_model(folder):
    os.mkdir(folder)
    for name in os.listdir(checkpoint):
        if name.endswith(".safetensors"):
            os.symlink(os.path.join(checkpoint, name), os.path.join(folder, name))
        elif os.path.isfile(os.path.join(checkpoint, name)):
            shutil.copy(os.path.join(checkpoint, name), folder)


def mount_verb(u):
    verb = u.random.choice(["load", "unload", "rescan", "no"])
    name = u.random.choice(os.listdir(root) + [os.path.basename(model)] * 3)
    put(os.path.join(root, "ctl"), "%s %s" % (verb, name) if verb != "rescan" else verb)


def model_comes(u):
    folder = os.path.join(models, "x%d" % u.random.randrange(3))
    put_model(folder)
    if u.random.random() < 0.5:
        put(os.path.join(root, "ctl"), "rescan")


def model_goes(u):
    folder = os.path.join(models, "x%d" % u.random.randrange(3))
    if u.random.random() < 0.3:
        os.rename(folder, folder + "r")
        folder += "r"
    shutil.rmtree(folder)
    if u.random.random() < 0.5:
        put(os.path.join(root, "ctl"), "rescan")


def other_model(u):
    """What comes and goes is used meanwhile."""
    others = [n for n in os.listdir(root) if n.startswith("x")]
    if not others:
        return
    other = os.path.join(root, u.random.choice(others))
    what = u.random.randrange(5)
    if what == 0:
        put(os.path.join(other, "sessions", "default", "params", "max_tokens"), "5")
        put(os.path.join(other, "prompt"), u.question())
        get(os.path.join(other, "output"))
    elif what == 1:
        put(os.path.join(other, "ctl"), "reset")
    elif what == 2:
        put(os.path.join(root, "ctl"), "unload " + os.path.basename(other))
    elif what == 3:
        get(os.path.join(other, "tensors", os.listdir(os.path.join(other, "tensors"))[0]), 1000)
    else:
        os.chmod(os.path.join(other, "experts", "00", "001"), u.random.choice([0o1444, 0o444]))


def command(u):
    """By its path: by name it might be another mount's."""
    child = subprocess.Popen([os.environ["MOEFS"], "ask", model, u.question().replace("\0", "") or "?"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if u.random.random() < 0.3:
        time.sleep(u.random.random() / 5)
        child.send_signal(u.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
    _, said = child.communicate()
    if b"Sanitizer" in said or child.returncode in (-signal.SIGSEGV, -signal.SIGABRT):
        raise RuntimeError("moefs ask: " + said.decode(errors="replace"))


def held_open(u):
    fds = []
    try:
        for _ in range(u.random.randrange(30)):
            fds.append(os.open(u.file(), os.O_RDONLY | os.O_NONBLOCK))
    finally:
        for fd in fds:
            os.close(fd)


def begun_and_left(u):
    """A process that ends with everything open."""
    if os.fork() == 0:
        try:
            fd = os.open(path("ask"), os.O_RDWR)
            os.write(fd, b"What is the capital of Peru?")
            os.open(os.path.join(u.session(), "prompt"), os.O_WRONLY)
            os.open(path("experts", "trace"), os.O_RDONLY)
            os.read(fd, 3)
        finally:
            os._exit(0)
    os.wait()


OPERATIONS = [(make, 4), (end, 3), (rename, 1), (prompt_and_read, 12), (prompt_only, 4), (prompt_in_pieces, 2), (look, 8),
              (wait, 2), (verb, 5), (param, 5), (messages, 2), (tools, 1), (state, 2), (ask, 4), (ask_by_name, 3), (convert, 2),
              (polled, 4), (killed_reader, 2), (killed_writer, 1), (walk, 1), (read_any, 6), (write_any, 2), (mapped, 2),
              (shared_setting, 1), (held_open, 1), (begun_and_left, 1), (expert_verb, 3), (pin, 4), (attributes, 4),
              (trace, 3), (tensor, 3), (numbers, 2), (mount_verb, 2), (model_comes, 1), (model_goes, 1), (other_model, 2),
              (command, 1)]

GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.ENXIO}


class Hung(Exception):
    pass


def hung(*_):
    raise Hung


def situation():
    """What the daemon says of itself, and where its threads are."""
    said = []
    for name in ["cache/waiting", "cache/budget", "cache/context_budget"] + [
            n + of for n in os.listdir(root) for of in ("/info/state", "/info/progress")]:
        if os.path.isfile(os.path.join(root, name)):
            said.append("%s %s" % (name, get(os.path.join(root, name)).decode().split()))
    for s in os.listdir(path("sessions")):
        said.append("%s %s" % (s, get(path("sessions", s, "status")).decode().strip()))
    return "; ".join(said)


def one(u, did):
    operation = u.random.choices([o for o, _ in OPERATIONS], [w for _, w in OPERATIONS])[0]
    signal.alarm(HANG)
    try:
        operation(u)
        did[operation.__name__] += 1
    except OSError as e:
        if e.errno in GONE or not os.path.exists("/proc/%d" % daemon):
            raise
        did["%s: %s" % (operation.__name__, errno.errorcode.get(e.errno, e.errno))] += 1
    except Hung:
        raise RuntimeError("%s hung: %s" % (operation.__name__, situation())) from None
    finally:
        signal.alarm(0)


def user(number, until, random_seed, results):
    signal.signal(signal.SIGALRM, hung)
    u, did, wrong = User(number, random_seed), Counter(), None
    try:
        while time.monotonic() < until:
            one(u, did)
        for name in u.mine:
            os.rmdir(path("sessions", name))
    except Exception as e:  # what is wrong is told by the parent, whatever it is
        wrong = "%s: %s" % (type(e).__name__, e)
    results.put((did, wrong))


def spell(length, first):
    results = multiprocessing.Queue()
    until = time.monotonic() + length
    users = [multiprocessing.Process(target=user, args=(n, until, seed * 1000 + first + n, results)) for n in range(processes)]
    for p in users:
        p.start()
    all_done, wrongs = Counter(), []
    for _ in users:
        did, wrong = results.get()
        all_done += did
        wrongs += [wrong] if wrong else []
    for p in users:
        p.join()
    return all_done, wrongs


def made_quiet(folder):
    """A model's folder has what it has at the beginning of a mount."""
    for s in os.listdir(os.path.join(folder, "sessions")):
        if s != "default":
            os.rmdir(os.path.join(folder, "sessions", s))
    for name in os.listdir(os.path.join(folder, "ask.d")):
        os.unlink(os.path.join(folder, "ask.d", name))
    default = os.path.join(folder, "sessions", "default")
    while True:
        try:
            put(os.path.join(default, "ctl"), "stop")
            get(os.path.join(default, "wait"))
            put(os.path.join(default, "ctl"), "reset")
            break
        except OSError as e:  # what was refused to those who are gone, or a prompt that is only now submitted
            if e.errno not in (errno.EIO, errno.EBUSY):
                raise


def without_others():
    """Models that came have gone, and nothing but a use holds them."""
    for name in os.listdir(models):
        if name.startswith("x"):
            shutil.rmtree(os.path.join(models, name))
    until = time.monotonic() + HANG
    while others := [n for n in os.listdir(root) if n.startswith("x")]:
        if time.monotonic() > until:
            raise RuntimeError("%s stays: %s" % (others, get(os.path.join(root, "error"))))
        try:
            for name in others:
                made_quiet(os.path.join(root, name))
                put(os.path.join(root, "ctl"), "unload " + name)
        except OSError as e:  # it is loading, or goes meanwhile
            if e.errno not in (errno.EBUSY, errno.ENOENT, errno.ESTALE):
                raise
        put(os.path.join(root, "ctl"), "rescan")


def quiet():
    """What is left is what a mount has at its beginning."""
    put(os.path.join(root, "cache", "budget"), "8M")
    put(os.path.join(root, "cache", "policy"), "auto")
    put(os.path.join(root, "cache", "context_budget"), "64M")
    made_quiet(model)
    without_others()
    put(path("experts", "ctl"), "unpin *")
    if os.getxattr(model, "user.moefs.pinned_bytes") != b"0":
        raise RuntimeError("something is pinned still")
    put(os.path.join(root, "ctl"), "load " + os.path.basename(model))
    while (get(path("info", "state")), get(path("info", "progress"))) != (b"ready\n", b"idle\n"):
        time.sleep(0.05)
    default = path("sessions", "default")
    for name, text in (("tools.json", "[]"), ("template.json", "{}"), ("messages.json", "[]"), ("params/system", "\n"),
                       ("params/stop", "\n"), ("params/format", "auto"), ("params/max_tokens", "24"), ("params/temperature", "0")):
        put(os.path.join(default, name), text)


def resident():
    with open("/proc/%d/status" % daemon) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def main():
    sizes, files, wrongs, total = {}, {}, [], Counter()
    for name, length, first in (("first", seconds // 10, 0), ("last", seconds - seconds // 10, 500)):
        did, wrong = spell(length, first)
        total += did
        wrongs += wrong
        if not wrong:
            quiet()
            sizes[name] = resident()
            files[name] = len(os.listdir("/proc/%d/fd" % daemon))
    for what, count in sorted(total.items()):
        print("%7d %s" % (count, what))
    print("%7d operations" % sum(total.values()))
    for name, size in sizes.items():
        print("resident %s %d KiB, %d open files" % (name, size, files[name]))
    for wrong in wrongs:
        print("WRONG", wrong)
    return 1 if wrongs else 0


sys.exit(main())
