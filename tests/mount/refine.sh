#!/usr/bin/env bash
# moefs --refine: makes a better store beside the current one, which the next mount uses. Killed at any moment, it
# continues and ends with the same bytes as an undisturbed run. Models that cannot be refined are refused with a reason.
. "$(dirname "$0")/../mount/lib.sh"
RANDOM=${SEED:-$$}
kills=${KILLS:-5}
cp -r "$MODEL" "$work/one"
MODEL=$work/one
m=$mnt/one
question="What is the capital of France?"
for i in $(seq 12); do
	echo "Once upon a time there was a fox who lived in the wood near the mill. On day $i it met the miller's cat."
	echo "The cat said: I have counted $((i * 7)) mice in the mill, and none of them is afraid of you."
done >"$work/text"

refine() { # STORE [OPTION…]
	local where=$1
	shift
	timeout $limit "$MOEFS" --refine --text "$work/text" -o "quant=tq3,store=$where" "$@" "$MODEL"
}
refined() { echo "$1"/one-*/tq3.refined; }
same_store() { # of these folders of stores
	local file
	for file in experts.safetensors dense.safetensors index; do
		cmp "$(refined "$1")/$file" "$(refined "$2")/$file" || fail "$file is another"
	done
}
done_words="moefs: one is refined; the next mount uses the refined store"
undisturbed() {
	mkdir "$work/whole"
	same "$(refine "$work/whole" 2>"$work/stderr")" \
		"$done_words. To free the space of the other one: \`moefs stores --delete --anywhere $(echo "$work"/whole/one-*/tq3)\`"
	same "$(cat "$work/stderr")" "" "said where no terminal is"
	[ -e "$(refined "$work/whole")/index" ] || fail "no store in $(refined "$work/whole")"
	same "$(cd "$(refined "$work/whole")" && ls -d text* moments* 2>/dev/null)" "" "what is left of the text and the sums"
	same "$(refine "$work/whole")" "$done_words" "once more, with the refined one"
}
# All kills happen while it works: a run that has ended is compared and started again.
killed() {
	local i pid
	for i in $(seq "$kills"); do
		mkdir -p "$work/killed"
		"$MOEFS" --refine --text "$work/text" -o "quant=tq3,store=$work/killed" "$MODEL" >/dev/null 2>&1 &
		pid=$!
		sleep "$((RANDOM % 3)).$((RANDOM % 10))$((RANDOM % 10))" # when it happens is the one thing that is random here
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		known_to_stores "$work/killed"
		if [ -e "$(refined "$work/killed")/index" ]; then
			same_store "$work/whole" "$work/killed"
			rm -rf "$work/killed"
		fi
	done
	mkdir -p "$work/killed"
	refine "$work/killed" >/dev/null || fail "status $?"
	same_store "$work/whole" "$work/killed"
}
# Every store, also an unfinished one, is listed by the command that deletes it.
known_to_stores() { # FOLDER
	local left=$(refined "$1")
	[ -n "$(find "$left" -type f ! -name lock ! -name 'checkpoint*' 2>/dev/null)" ] || return 0
	"$MOEFS" stores "$1" | grep -q " $left\$" || fail "not listed: $(ls "$left")"
}

claim "a model is refined, and then there is nothing to do" undisturbed
limit=$((limit + kills * 10)) claim "killed $kills times it ends with the same bytes" killed
rm -rf "$work/killed"

# ---- mounts ----

begin() {
	mounted -o quant=tq3 "$@"
	loaded
	complete
}
goes_on() { # a mount goes on with its weights while its store is refined
	begin
	local before
	before=$(ask "$question")
	(cd / && refine "$store" >/dev/null) || fail "status $?"
	same "$(cat info/recipe)" tq3 "while it is mounted"
	same "$(ask "$question")" "$before"
	cp sessions/default/state "$work/before.state"
	cd / && unmounted
}
next_takes_it() {
	begin
	grep -qE '^tq3, refined with [1-9][0-9]+ tokens$' info/recipe || fail "$(cat info/recipe)"
	same "$(cat info/store)" "$(refined "$store")"
	[ -n "$(ask "$question")" ] || fail "no answer"
	same "$(cat ../error)" "" "error"
	mkdir sessions/before
	fails_with "Invalid argument" cp "$work/before.state" sessions/before/state
	grep -q "state: it was saved with other weights" sessions/before/error ||
		fail "$(cat sessions/before/error)"
	cd / && unmounted
	same_store "$work/whole" "$store"
}
deleted() { # without the refined store the former one is used again
	same "$("$MOEFS" stores "$store" | awk 'NR > 1 { print $3 }' | xargs)" "superseded complete" "what is listed"
	"$MOEFS" stores --delete --anywhere "$(refined "$store")" >/dev/null || fail "status $?"
	[ ! -e "$(refined "$store")" ] || fail "something is left: $(ls "$(refined "$store")")"
	begin
	same "$(cat info/recipe)" tq3
	cd / && unmounted
}

claim "a mount goes on with the weights that it has" goes_on
claim "the next mount uses the refined store" next_takes_it
claim "a refined store is deleted as any other is" deleted

# ---- few bits ----

# The text goes through the model in 4bit, which is the only other store that is made.
read_in_more_bits() {
	local where=$work/few said
	mkdir "$where"
	said=$(timeout $limit "$MOEFS" --refine --text "$work/text" -o "quant=3bit,store=$where" "$MODEL") || fail "status $?"
	same "$said" "$done_words. Another store read the text; if you do not use it, free its space: \`moefs stores --delete --anywhere $(echo "$where"/one-*/4bit)\`"
	same "$(cd "$where"/one-* && ls -d -- *bit* | xargs)" "3bit.refined 4bit" stores
	rm -r "$where"/one-*/4bit
	same "$(timeout $limit "$MOEFS" --refine -o "quant=3bit,store=$where" "$MODEL")" "$done_words" "once more"
	same "$(cd "$where"/one-* && ls -d -- *bit* | xargs)" 3bit.refined "stores, once more"
	mounted -o "quant=3bit,store=$where"
	loaded
	grep -qE '^3bit.*, refined with [1-9][0-9]+ tokens' info/recipe || fail "$(cat info/recipe)"
	[ -n "$(ask "$question")" ] || fail "no answer"
	cd / && unmounted
}
limit=$((limit + 60)) claim "a store of few bits is refined by what the model reads in 4bit" read_in_more_bits

# ---- refusals ----

refused() {
	fails_with "rounds no weights" "$MOEFS" --refine --text "$work/text" -o "quant=bf16,store=$work/whole" "$MODEL"
	fails_with "No such file" "$MOEFS" --refine --text "$work/nothing" "$MODEL"
	: >"$work/empty"
	fails_with "is empty" "$MOEFS" --refine --text "$work/empty" "$MODEL"
	fails_with "is not a regular file" "$MOEFS" --refine "--text=$work" "$MODEL"
	mkfifo "$work/pipe"
	fails_with "is not a regular file" timeout $limit "$MOEFS" --refine --text "$work/pipe" "$MODEL"
	printf 'a fox \377' >"$work/latin"
	fails_with "latin: the text is not valid UTF-8 at byte 6" "$MOEFS" --refine --text "$work/latin" "$MODEL"
	fails_with "needs a model" "$MOEFS" --refine
	fails_with "needs a file after it" "$MOEFS" --refine "$MODEL" --text
	fails_with "exclude each other" "$MOEFS" --refine --check "$MODEL"
	fails_with "--text is only for --refine" "$MOEFS" --text "$work/text" "$MODEL" "$mnt"
	fails_with "is not idle or off" "$MOEFS" -o refine=always "$MODEL" "$mnt"
}
several() { # of several paths one is not a model
	mkdir "$work/none"
	local said
	said=$("$MOEFS" --refine --text "$work/text" -o "quant=tq3,store=$work/whole" "$work/none" "$MODEL" 2>"$work/stderr")
	same $? 1 status
	same "$said" "$done_words"
	grep -q "/none has no config.json" "$work/stderr" || fail "$(cat "$work/stderr")"
}
claim "a model that cannot be refined is reported, and does not keep others from it" several
claim "a model that cannot be refined is reported" refused
finish
