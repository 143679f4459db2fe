#!/bin/bash
# Conversations of many turns over moefs-http, whose clients send all messages each time: a turn computes only what is
# new, for a model whose context is shared by blocks, for one with a state, and if an ignored line of the system text
# changes each time.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3"
hybrid=${MOEFS_TESTDATA:-$root/../shared}/models/fable-hybrid-18m
[ -f "$hybrid/config.json" ] && others=("$hybrid")
mounted
loaded
export url mnt PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

turns() { timeout $limit python3 - "$@" <<'PY'; }
import sys
from gateway import *
model, ignores = sys.argv[1], sys.argv[2:] == ["ignores"]
rules = " ".join(f"Rule {i} is to be brief." for i in range(40))
talk, before = [{"role": "system", "content": rules}], None
for turn in range(50):
    if ignores:
        talk[0]["content"] = f"Today is day {turn}.\n{rules}"
    talk.append({"role": "user", "content": f"What is {turn} x {turn % 7}?"})
    a = ask(talk, model=model, max_tokens=8)
    if turn % 10 == 3: # others come between
        ask(f"What is the capital of Peru, {turn}?", model=model, max_tokens=3)
    u = a["usage"]
    new = u["prompt_tokens"] - u["prompt_tokens_details"]["cached_tokens"]
    if os.environ.get("SHOW"): print(turn, new, u)
    talk.append({"role": "assistant", "content": content(a)})
    if before:
        # At most the text after the previous question: the answer, which the template may write differently, and the new question.
        assert 0 < new <= u["prompt_tokens"] - before["prompt_tokens"] + 1, (turn, new, before, u)
    before = u
assert before["prompt_tokens"] > 1000, before
PY

gateway
claim "turn 50 computes only its new tokens" turns "$(basename "$MODEL")"
[ -f "$hybrid/config.json" ] || echo "ok of a hybrid # skip: no model at $hybrid"
[ -f "$hybrid/config.json" ] && claim "of a hybrid, too, from its checkpoints" turns fable-hybrid-18m
gateway_over
gateway -o 'ignore_line=^Today is'
claim "though a line of its system text changes each time" turns "$(basename "$MODEL")" ignores
[ -f "$hybrid/config.json" ] && claim "of a hybrid, too, though a line changes" turns fable-hybrid-18m ignores
gateway_over
finish
