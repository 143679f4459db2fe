"""The mounted tree as a user of the soak has it: its files by name, and what one process remembers of its own."""
import os
import random
import sys

model, daemon = sys.argv[1], int(sys.argv[2])
checkpoint, models = sys.argv[6:8]
root = os.path.dirname(model)
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
