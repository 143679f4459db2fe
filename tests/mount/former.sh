#!/usr/bin/env bash
# A store of a former default recipe is used unless a mount asks for another recipe: it is neither made again nor
# duplicated.
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
	mounted -o quant=4bit
	same "$(ask "$question")" "$answer"
	complete
	same "$(cat info/recipe)" 4bit
	same "$(names | xargs)" "4bit tq3" "stores"
	same "$(bytes)" "$before" "the former"
}
claim "another requested recipe is made next to it" asked
since() {
	trap 'cd /; unmounted' EXIT
	mounted
	same "$(cat info/recipe)" "4bit, the default for models whose experts fit the budget"
	same "$(cat info/store)" "$(echo "$store"/*/4bit)"
}
smaller() { # with a budget that would have 3bit
	trap 'cd /; unmounted' EXIT
	mounted -o budget=2M
	same "$(cat info/recipe)" "4bit"
	same "$(ask "$question")" "$answer"
	same "$(names | xargs)" "4bit tq3" "stores"
}
claim "and is the model's from then on" since
claim "whatever the budget is" smaller
anew() { # a folder that is not a store does not keep the former recipe
	trap 'cd /; unmounted' EXIT
	rm -r "$store"/*/4bit
	printf x | dd of="$(echo "$store"/*/tq3/index)" bs=1 seek=40 conv=notrunc status=none
	mounted
	same "$(ask "$question")" "$answer"
	complete
	same "$(cat info/recipe)" "4bit, the default for models whose experts fit the budget"
}
tight() { # what was made with a small budget serves with a large one
	trap 'cd /; unmounted' EXIT
	rm -r "$store"/*
	mounted -o budget=2M
	same "$(cat info/recipe)" "3bit, the default for models whose experts, in 4bit, do not fit the budget"
	same "$(ask "$question")" "$answer"
	complete
	cd / && unmounted
	mounted
	same "$(cat info/recipe)" 3bit
	same "$(ask "$question")" "$answer"
	same "$(names)" 3bit "stores"
}
claim "where the former one is damaged, the default is made" anew
claim "a store of the other budget's default is used" tight
finish
