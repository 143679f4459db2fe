#!/usr/bin/env bash
# A store by the recipe that was the default once is the model's as long as nobody asks for another: it is not made
# anew, and no second one beside it.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"
answer="The capital of France is Paris."
names() { ls "$store"/*; } # of the stores that there are
bytes() { cksum "$store"/*/tq3/index "$store"/*/tq3/experts.safetensors "$store"/*/tq3/dense.safetensors; }

mounted -o quant=tq3
loaded
complete
cd / && unmounted
before=$(bytes)

used() { # OPTION…
	trap 'cd /; unmounted' EXIT
	mounted "$@"
	same "$(cat info/recipe)" tq3 "before it is loaded"
	same "$(ask "$question")" "$answer"
	complete
	same "$(cat info/recipe)" tq3
	same "$(cat info/store)" "$(echo "$store"/*/tq3)"
	same "$(names)" tq3 "stores"
	same "$(bytes)" "$before" "the store"
}
claim "it is used where no recipe is named" used
claim "and where auto is" used -o quant=auto
claim "--check says so" grep -qx "recipe tq3" <("$MOEFS" -o "store=$store" --check "$MODEL")
asked() {
	trap 'cd /; unmounted' EXIT
	mounted -o quant=3bit
	same "$(ask "$question")" "$answer"
	complete
	same "$(cat info/recipe)" 3bit
	same "$(names | xargs)" "3bit tq3" "stores"
	same "$(bytes)" "$before" "the former"
}
claim "another recipe that is asked for is made beside it" asked
since() {
	trap 'cd /; unmounted' EXIT
	mounted
	same "$(cat info/recipe)" 3bit
	same "$(cat info/store)" "$(echo "$store"/*/3bit)"
}
claim "and is the model's from then on" since
anew() { # what is no store is no reason to stay with it
	trap 'cd /; unmounted' EXIT
	rm -r "$store"/*/3bit
	printf x | dd of="$(echo "$store"/*/tq3/index)" bs=1 seek=40 conv=notrunc status=none
	mounted
	same "$(ask "$question")" "$answer"
	complete
	same "$(cat info/recipe)" 3bit
}
claim "where the former one is damaged, the default is made" anew
finish
