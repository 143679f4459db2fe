#!/usr/bin/env bash
# A store is a checkpoint itself: mounted as a MODELDIR it has the same weights, so it gives the same text, and it can be
# converted again like any other.
. "$(dirname "$0")/lib.sh"

questions=("What is the capital of France? Then tell me a tale." "List three commands of a shell.")
answers() {
	local q
	for q in "${questions[@]}"; do
		echo reset >ctl
		ask "$q"
	done
}

mounted
loaded
complete
first=$(answers)
recipe=$(cat info/recipe)
cp -r "$(cat info/store)" "$work/moved"
rm -f "$work/moved"/{index,identity,heat} # files that are not part of a checkpoint
cd / && unmounted

MODEL=$work/moved
m=$mnt/moved
mounted
loaded
complete
claim "the store was made by the default recipe" same "$recipe" "4bit, the default for models whose experts fit the budget"
claim "its weights are taken as they are" same "$(cat info/recipe)" "as published: native TC, in place"
claim "it gives the same text" same "$(answers)" "$first"
cd / && unmounted

mounted -o quant=tq2
loaded
claim "it can be encoded again, and names its source" same "$(cat info/recipe)" "tq2 from native TC"
finish
