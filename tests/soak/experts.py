"""What users do to experts, tensors and models, and with the commands; models come and go meanwhile."""
import json
import mmap
import os
import shutil
import signal
import subprocess
import time

from tree import checkpoint, get, model, models, path, put, root

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
            shutil.copy(os.path.join(checkpoint, name), os.path.join(folder, name))  # which may be gone meanwhile


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
