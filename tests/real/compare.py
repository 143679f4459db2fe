"""compare.py SCORE REFERENCE BOUND: the log-probabilities that `score` of a mounted model printed, and the
reference's. Fails if one differs by more than the bound; prints the largest difference."""
import sys

score, reference, bound = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(score) as f:
    lines = [line.split(" ", 2) for line in f if line[0].isdigit()]
said = [float(line[1]) for line in lines[1:]]  # nothing comes before the first token
with open(reference) as f:
    wanted = [float(line) for line in f]
if len(said) != len(wanted) or not said:
    raise SystemExit(f"{len(said)} log-probabilities, but the reference has {len(wanted)}")
most = max(abs(a - b) for a, b in zip(said, wanted))
print(f"{len(said)} log-probabilities, the largest difference {most:.1e}")
sys.exit(most > bound)
