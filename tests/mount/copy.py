#!/usr/bin/env python3
"""Copies a file to stdout as programs do that would rather not read it: FILE, or standard input as -.

    copy.py splice FILE      what uutils' cat does: looks, opens, looks again, splices, and reads where that is refused
    copy.py sendfile FILE    busybox's cat: the same by sendfile, without looking
    copy.py shutil FILE      Python's own copy of a file, by name

Between opening and copying it waits for the end of the command in $BETWEEN, if there is one. A copy that ends at once
is the file's end to them: none of them reads to make sure.
"""
import os
import shutil
import subprocess
import sys
import tempfile

how, name = sys.argv[1:3]


def between():
    if "BETWEEN" in os.environ:
        subprocess.run(["sh", "-c", os.environ["BETWEEN"]], check=True, stdout=subprocess.DEVNULL)


def piped(move):
    """By a call that moves bytes into a pipe, until it says that there are none."""
    out, into = os.pipe()
    while n := move(into):
        while n:
            part = os.read(out, n)
            os.write(1, part)
            n -= len(part)


def spliced(file):
    piped(lambda into: os.splice(file, into, 65536))


def sent(file):
    piped(lambda into: os.sendfile(into, file, None, 65536))


def read(file):
    while part := os.read(file, 65536):
        os.write(1, part)


if how == "shutil":
    with tempfile.NamedTemporaryFile() as to:
        shutil.copyfile(name, to.name)
        os.write(1, to.read())
    sys.exit()
copy = {"splice": spliced, "sendfile": sent}[how]
if how == "splice" and name != "-":
    os.stat(name)
file = 0 if name == "-" else os.open(name, os.O_RDONLY)
between()
if how == "splice":
    os.fstat(file)
try:
    copy(file)
except OSError:
    read(file)
