"""What users do to conversations. Each takes any refusal for an answer."""
import json
import mmap
import os
import select
import signal
import subprocess
import time

from tree import get, path, put, root

COPY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount", "copy.py")


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
        ("format", ["json", "none", "regex"]), ("grammar", ["[a-z ]{1,9}", "("]), ("on_full", ["auto", "error", "drop-oldest"]), ("stop_repetition", ["on", "off"]),
        ("priority", ["low", "normal", "high"]),
        ("experts_per_token", ["0", "1"]), ("drop_missing", ["0", "0.2"]), ("substitute", ["off", "1,8"]), ("repetition_penalty", ["1", "1.2"])])
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


def copied(u):
    """By programs that copy without reading; the first two begin with that, and read where it is refused."""
    of = os.path.join(u.session(), u.random.choice(["output", "wait", "log", "stats"]))
    how = u.random.choice(["splice", "sendfile", "shutil"])
    subprocess.run(["python3", COPY, how, of], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


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
