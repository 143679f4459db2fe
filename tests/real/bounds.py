"""bounds.py QUALITY.json FORM: what `moefs-bench quality --json` said of a form of SmolLM2-135M, held to bounds.

KL of 4bit: what Q4_K_M of llama.cpp has at 6.2 bits, .057 on the form with the grid; off the grid only its perplexity
is known, 68.0 where the exact model has 60.5. KL of the default: .02, and a perplexity 2 % above the exact one's."""
import json
import sys

MOST = {"bf16": {"4bit": (6.2, 57, 48.3 / 44.72), "8bit": (8.6, 20, 1.02), "6bit": (8.6, 20, 1.02)},
        "noise": {"4bit": (6.2, None, 68.0 / 60.5), "8bit": (8.6, 20, 1.02), "6bit": (8.6, 20, 1.03)}}


def main():
    with open(sys.argv[1]) as f:
        report = json.load(f)
    rows = {row["recipe"]: row for row in report["recipes"]}
    exact, wrong = rows["bf16"]["perplexity_1"], []
    for quant, (bits, kl, ratio) in MOST[sys.argv[2]].items():
        row = rows[quant]
        above = row["perplexity_1"] / exact
        print(f"# {sys.argv[2]} {quant}: {row['stored_bits']:.2f} bits, KL {row['kl_1']:.1f} ± {row['kl_error_1']:.1f} "
              f"nats/1000, perplexity {row['perplexity_1']:.2f}, {100 * (above - 1):.1f} % above exact")
        if row["stored_bits"] > bits or (kl and row["kl_1"] > kl) or above > ratio:
            wrong.append(quant)
    sys.exit(f"beyond the bounds: {', '.join(wrong)}" if wrong else 0)


main()
