"""What many users do to a mounted tree, at random: each operation is a function in the table OPERATIONS
(conversations.py, experts.py), and takes any refusal for an answer. What it must not meet: a call that hangs, a daemon
that is gone, an answer that breaks off without words.

    operations.py MODEL_FOLDER DAEMON_PID SECONDS PROCESSES SEED CHECKPOINT MODELS

MODELS is the mounted folder of models, into which copies of CHECKPOINT come, and from which they go.
"""
import errno
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter

from conversations import (make, end, rename, prompt_and_read, prompt_only, prompt_in_pieces, look, wait, verb, param, messages, tools,
    state, ask, ask_by_name, convert, polled, copied, killed_reader, killed_writer, walk, read_any, write_any, mapped,
    shared_setting)
from experts import (held_open, begun_and_left, expert_verb, pin, attributes, trace, tensor, numbers, mount_verb, model_comes,
    model_goes, other_model, command)
from tree import User, daemon, get, model, models, path, put, root

seconds, processes, seed = map(int, sys.argv[3:6])
HANG = 120  # seconds within which any call must end, on however busy a machine
PARAMS = path("sessions", "default", "params")
# A state that is another session's brings its params with it, whichever they are.
params_at_first = {name: get(os.path.join(PARAMS, name)) for name in os.listdir(PARAMS)}

OPERATIONS = [(make, 4), (end, 3), (rename, 1), (prompt_and_read, 12), (prompt_only, 4), (prompt_in_pieces, 2), (look, 8),
              (wait, 2), (verb, 5), (param, 5), (messages, 2), (tools, 1), (state, 2), (ask, 4), (ask_by_name, 3), (convert, 2),
              (polled, 4), (copied, 1), (killed_reader, 2), (killed_writer, 1), (walk, 1), (read_any, 6), (write_any, 2), (mapped, 2),
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


def all_experts():
    """They are in memory: the cache holds what it may, or how full it happens to be would be measured."""
    names = [os.path.join(folder, n) for folder, _, names in os.walk(path("experts")) for n in names if n.isdigit()]
    put(path("experts", "ctl"), "load *")
    until = time.monotonic() + HANG
    while int(re.search(rb"experts_resident (\d+)", get(os.path.join(root, "cache", "stats"))).group(1)) < len(names):
        if time.monotonic() > until:
            raise RuntimeError("experts do not come: %s" % get(os.path.join(root, "cache", "stats")))
        time.sleep(0.05)


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
    all_experts()
    for name, text in (("tools.json", "[]"), ("template.json", "{}"), ("messages.json", "[]")):
        put(path("sessions", "default", name), text)
    for name, text in params_at_first.items():
        put(os.path.join(PARAMS, name), text)


def resident():
    """Once it stays: a daemon that nobody asks for a second gives back what it has freed."""
    sizes = []
    while len(sizes) < 6 or len(set(sizes[-4:])) > 1 and len(sizes) < 60:
        time.sleep(0.5)
        with open("/proc/%d/status" % daemon) as f:
            sizes.append(next(int(line.split()[1]) for line in f if line.startswith("VmRSS")))
    return sizes[-1]


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
