#!/usr/bin/env bash
# What a store loses against its checkpoint: moefs --loss measures and prints it, info/loss shows it, and a mount that was
# asked measures it once by itself while nobody uses the model. What cannot be measured says why.
. "$(dirname "$0")/lib.sh"
cp -r "$MODEL" "$work/one"
MODEL=$work/one
m=$mnt/one
store=$work/stores
loss() { timeout $limit "$MOEFS" --loss -o "store=$store" "$@"; }
matches() { [[ $1 =~ ^kl\ 0\.[0-9]{4}[[:space:]]kl_error\ 0\.[0-9]{4}[[:space:]]same\ 0\.[0-9]{3}[[:space:]]tokens\ [0-9]+$ ]]; }

measured() {
	local said again
	said=$(loss -o quant=3bit "$MODEL" 2>"$work/stderr") || fail "status $?"
	same "$(cat "$work/stderr")" "" "said where no terminal is"
	matches "${said#moefs: one: }" || fail "$said"
	again=$(loss -o quant=3bit "$MODEL")
	same "$again" "$said" "measured again"
	mounted -o "quant=3bit,store=$store"
	same "$(tr '\n' ' ' <info/loss)" "${said#moefs: one: } "
	cd / && unmounted
}
by_itself() {
	mounted -o "quant=8bit,store=$store,seed=1"
	[[ $(cat info/loss) == unknown* ]] || fail "$(cat info/loss)"
	echo "What is the capital of France?" >prompt
	cat output >/dev/null
	until_true has_figures || fail "$(cat info/loss); $(cat info/progress)"
	cd / && unmounted
	[ -e "$store"/one-*/8bit/loss ] || fail "nothing is kept beside the store"
}
has_figures() { matches "$(cat info/loss)"; }
refused() {
	fails_with "nothing to measure: the weights are the checkpoint's own" loss -o quant=bf16 "$MODEL"
	fails_with "needs a model" "$MOEFS" --loss
	fails_with "exclude each other" "$MOEFS" --loss --refine "$MODEL"
	fails_with "exclude each other" "$MOEFS" --check --loss "$MODEL"
	mounted -o "quant=bf16,store=$store"
	same "$(cat info/loss)" "none: the weights are the checkpoint's own"
	cd / && unmounted
}
several() { # a model that cannot be measured does not keep others from it
	local said
	said=$(loss -o quant=3bit "$work/none" "$MODEL" 2>"$work/stderr")
	same $? 1 "status"
	grep -q "$work/none" "$work/stderr" || fail "$(cat "$work/stderr")"
	matches "${said#moefs: one: }" || fail "$said"
}
claim "the loss is measured, printed and shown" measured
claim "a mount measures it by itself, once it was asked and nobody uses it" by_itself
claim "what loses nothing, and a wrong command, is refused" refused
claim "several models are measured, one after the other" several
finish
