"""nearer.py SCORE PEER REFERENCE: how far default arithmetic is from exact, moefs' beside llama.cpp's: the mean absolute
difference of a token's log-probability. SCORE is what a mounted model's `score` printed, PEER and REFERENCE have one
log-probability a line. Fails if moefs is further by more than chance: by two standard errors of the mean of the tokens'
differences, so that a text on which both are as far does not decide."""
import statistics
import sys


def values(path):
    with open(path) as f:
        return [float(line) for line in f]


def main():
    score, peer, reference = sys.argv[1:]
    with open(score) as f:
        lines = [line.split(" ", 2) for line in f if line[0].isdigit()]
    said = [float(line[1]) for line in lines[1:]]  # nothing comes before the first token
    exact = values(reference)
    if len(said) != len(exact):
        raise SystemExit(f"{len(said)} log-probabilities, but the reference has {len(exact)}")
    own, its = ([abs(a - b) for a, b in zip(x, exact)] for x in (said, values(peer)))
    further = [a - b for a, b in zip(own, its)]
    error = statistics.stdev(further) / len(further) ** 0.5
    print(f"# {len(said)} log-probabilities: moefs is {statistics.mean(own):.4f} from exact, "
          f"llama.cpp {statistics.mean(its):.4f}; the difference has an error of {error:.4f}")
    sys.exit(statistics.mean(further) > 2 * error)


main()
