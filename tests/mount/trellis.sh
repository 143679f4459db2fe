#!/usr/bin/env bash
# Weights in trellis codes: recipes by name, and the same text for every kernel table, number of threads and chunk size,
# and from a store that is mounted as a model.
. "$(dirname "$0")/lib.sh"

question="What is the capital of France? Then tell me a tale."
answer() { # OPTIONS…: the text of a mount with these options, and its kernels
	mounted "$@"
	loaded
	complete
	ask "$question"
	sed -n 's/^cpu //p' info/kernels >"$work/table"
	cd / && unmounted
}

for quant in 2bit 3bit 4bit; do
	claim "--check says $quant" grep -qx "recipe $quant" <("$MOEFS" -o "store=$store,quant=$quant" --check "$MODEL")
	mounted -o quant=$quant
	loaded
	complete
	claim "so does info/recipe" same "$(cat info/recipe)" $quant
	claim "and its store's name" same "$(basename "$(cat info/store)")" $quant
	text=$(ask "$question")
	claim "it answers" test -n "$text"
	kept=$(cat info/store)
	cd / && unmounted
	for table in scalar avx2 avx512 neon; do
		other=$(MOEFS_KERNELS=$table answer -o quant=$quant)
		[ "$(cat "$work/table")" = $table ] || continue
		claim "$quant: the same text by $table" same "$other" "$text"
	done
	claim "$quant: the same by one thread, a prompt in steps of one token" \
		same "$(answer -o quant=$quant,threads=1,chunk=1)" "$text"
	claim "$quant: the same by two, in steps of 7" same "$(answer -o quant=$quant,threads=2,chunk=7)" "$text"
done

# The last store, without the files that are not part of a checkpoint.
cp -r "$kept" "$work/moved"
rm -f "$work/moved"/{index,identity,heat}
mounted -o quant=4bit
loaded
complete
name=$(ls tensors | grep -m 1 'down_proj.*npy')
sum=$(cksum <"tensors/$name")
cd / && unmounted
MODEL=$work/moved
m=$mnt/moved
mounted
loaded
claim "its weights are taken as they are" same "$(cat info/recipe)" "as published: native TC, in place"
claim "with the same numbers" same "$(cksum <"tensors/$name")" "$sum"
claim "and the same text" same "$(ask "$question")" "$text"
cd / && unmounted
finish
