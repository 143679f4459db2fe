"""What keys and values of fewer bits lose over a long text, and whether they find facts in it.

depths.py passage TEXT BYTES: the text's first lines, at most so many bytes, with ten facts at ten depths.
depths.py ask FOLDER PASSAGE: asks a mounted model for each fact behind the passage (kept, so it is computed once), and
    prints how many answers have the number.
depths.py loss SCORE BASE [FIRST]: the mean of BASE's log-probabilities less SCORE's, tokens FIRST and later, and its
    standard error."""
import os
import statistics
import sys

PLACES = ("lighthouse", "bakery", "museum", "harbour", "castle", "library", "station", "market", "mill", "garden")
NUMBERS = (7421, 3958, 6107, 2846, 9530, 4173, 8269, 5694, 1387, 3062)


def passage(text, size):
    with open(text, encoding="utf-8") as f:
        lines = f.read(2 * size).split("\n")
    kept, used = [], 0
    for line in lines:
        used += len(line.encode()) + 1
        if used > size:
            break
        kept.append(line)
    for i in reversed(range(len(PLACES))):
        kept.insert(len(kept) * i // len(PLACES), f" The secret number of the {PLACES[i]} is {NUMBERS[i]} .")
    print("\n".join(kept))


def answer(folder, name, prompt):
    """What the model writes behind a prompt, in a session of its own."""
    session = os.path.join(folder, "sessions", name)
    os.mkdir(session)
    for param, value in ("chat", "off"), ("max_tokens", "8"), ("temperature", "0"):
        with open(os.path.join(session, "params", param), "w") as f:
            f.write(value + "\n")
    with open(os.path.join(session, "prompt"), "w") as f:
        f.write(prompt)
    with open(os.path.join(session, "output")) as f:
        said = f.read()
    os.rmdir(session)
    return said


def ask(folder, path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = []
    for place, number in zip(PLACES, NUMBERS):
        said = answer(folder, place, f"{text}\n The secret number of the {place} is")
        found.append(str(number) in said)
    print(sum(found), "of", len(found), "found, from the beginning to the end:", "".join("+" if x else "-" for x in found))


def log_probabilities(path):
    with open(path) as f:
        lines = [line.split(" ", 2) for line in f if line[0].isdigit()]
    return [float(line[1]) for line in lines[1:]]  # nothing comes before the first token


def loss(score, base, first):
    own, other = (log_probabilities(path)[first:] for path in (score, base))
    if len(own) != len(other) or not own:
        raise SystemExit(f"{len(own)} log-probabilities, but {len(other)} to compare with")
    lost = [b - a for a, b in zip(own, other)]
    print(f"{statistics.mean(lost):.5f} {statistics.stdev(lost) / len(lost) ** 0.5:.5f}")


if sys.argv[1] == "passage":
    passage(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "ask":
    ask(*sys.argv[2:])
else:
    loss(sys.argv[2], sys.argv[3], int((sys.argv[4:] or [0])[0]))
