#!/usr/bin/env python3
"""Several answers as they grow, read by one thread: examples/reader.py MODEL QUESTION...

MODEL is a model's folder in the mount. Each QUESTION is asked in a session of its own, all at once, and each line of an
answer is printed when it is complete, after its question's number. select tells which answer has more.
"""
import os
import select
import sys


def ask(session, question):
    os.mkdir(session)
    with open(os.path.join(session, "prompt"), "w") as prompt:
        prompt.write(question)
    return os.open(os.path.join(session, "output"), os.O_RDONLY | os.O_NONBLOCK)


def read_all(outputs):
    begun = {fd: b"" for fd in outputs}
    while begun:
        for fd in select.select(list(begun), [], [])[0]:
            piece = os.read(fd, 4096)
            *lines, begun[fd] = (begun[fd] + piece).split(b"\n")
            for line in lines:
                print("%d: %s" % (outputs[fd], line.decode(errors="replace")), flush=True)
            if not piece:
                del begun[fd]


def main(model, questions):
    if not os.path.isdir(os.path.join(model, "sessions")):
        sys.exit("%s is not a model's folder in a mount of moefs" % model)
    sessions = [os.path.join(model, "sessions", "reader-%d-%d" % (os.getpid(), i)) for i in range(len(questions))]
    outputs = {}
    try:
        for i, (session, question) in enumerate(zip(sessions, questions)):
            outputs[ask(session, question)] = i + 1
        read_all(outputs)
    except OSError:
        for session in filter(os.path.isdir, sessions):
            sys.stderr.write(open(os.path.join(session, "error")).read())
        sys.exit(1)
    finally:
        for fd in outputs:
            os.close(fd)
        for session in filter(os.path.isdir, sessions):
            os.rmdir(session)


if len(sys.argv) < 3:
    sys.exit(__doc__.strip())
main(sys.argv[1], sys.argv[2:])
