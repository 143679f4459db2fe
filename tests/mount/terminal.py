#!/usr/bin/env python3
"""Runs a command on a terminal of its own, and types what it is told to as it comes to be awaited.

    terminal.py COMMAND… <<'STEPS'
    await > 
    type What is 12 x 6?
    await 72
    press C
    STEPS

await TEXT: until the terminal has shown TEXT since the last step that awaited; type TEXT: with a return behind it, keys TEXT: without;
press LETTER: with the control key; run COMMAND: by a shell, which has to succeed. After the last step it waits for
the command's end. All that was shown goes to standard output; the status is the command's."""
import os
import pty
import select
import subprocess
import sys
import time

shown, seen = b"", 0
until = time.monotonic() + float(os.environ.get("limit", 300))


def more(fd):
    global shown
    if not select.select([fd], [], [], max(0, until - time.monotonic()))[0]:
        sys.exit("hung after: %r" % shown[seen:])
    try:
        piece = os.read(fd, 65536)
    except OSError:  # what Linux says when the other end is closed
        piece = b""
    shown += piece
    return piece


def step(fd, line):
    global seen
    verb, _, rest = line.partition(" ")
    if verb == "await":
        wanted = rest.encode().decode("unicode_escape").encode("latin-1")
        while wanted not in shown[seen:]:
            if not more(fd):
                sys.exit("ended without %r after: %r" % (wanted, shown[seen:]))
        seen += shown[seen:].index(wanted) + len(wanted)
    elif verb == "type":
        os.write(fd, rest.encode() + b"\r")
    elif verb == "keys":
        os.write(fd, rest.encode())
    elif verb == "press":
        os.write(fd, bytes([ord(rest) & 31]))
    elif verb == "run":
        subprocess.run(rest, shell=True, check=True, timeout=max(1, until - time.monotonic()))
    else:
        sys.exit("no step: " + line)


steps = sys.stdin.read().splitlines()
child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "dumb"
    os.execvp(sys.argv[1], sys.argv[1:])
try:
    for line in steps:
        step(terminal, line)
    while more(terminal):
        pass
finally:
    sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
