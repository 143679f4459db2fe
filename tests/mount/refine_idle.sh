#!/usr/bin/env bash
# -o refine=idle: a mount refines its model's store while it is idle. It begins in a pause, stops for a prompt in either
# of its parts, continues in the next pause, and ends with a store that the next mount uses. If the disk is full or fails,
# the current store stays and the reason is reported. Two mounts refine only once.
. "$(dirname "$0")/lib.sh"
# A small model: it writes 32,768 tokens in seconds.
fixture=$root/tests/data/fixtures/qwen3_moe
MODEL=$work/one
mkdir -p "$MODEL"
cp "$fixture"/*.json "$fixture"/*.jinja "$MODEL"
"$root/build/pack" -d "$fixture/model.safetensors.packed" "$MODEL/model.safetensors" || exit 1
m=$mnt/one
question="Once upon a time"
faulty_disk

refined() { echo "$work"/disk/one-*/tq3.refined; }
progress() { cat "$m/info/progress"; }
until_progress() { # PATTERN: waits until info/progress matches it
	local now
	until_true progress_is_like "$1" || fail "progress is '$now', not like '$1'"
}
progress_is_like() {
	now=$(progress)
	[[ $now =~ $1 ]]
}
begin() { # RULE…
	faults "$@"
	mounted -o quant=tq3,refine=idle,seed=1
	loaded
}
end() {
	cd /
	faults
	unmounted
}
answer() { # the model's answer, in a session of its own
	(cd "$m/sessions/default" && echo reset >ctl && ask "$question")
}
# After a prompt it has stopped unfinished. The write that stalls is released, and the next one stalls again: however late the look
# is, the store is not complete. If the next one stalls before the prompt, it is tried once more.
yields() { # RULE
	local i
	for i in $(seq $((limit * 2))); do
		faults "$1"
		[ -n "$(answer)" ] || fail "no answer"
		[ "$(progress)" = idle ] && return 0
	done
	fail "it goes on: $(progress)"
}
is_refined() { [ -e "$(refined)/index" ]; }
goes_on() { is_refined || progress_is_like '^(writing|gathering|refining) [0-9]'; }
no_store() {
	[ ! -e "$(refined)/index" ] || fail "there is a refined store"
}

# ---- one mount, from its first pause to the store ----

writes() { # the write stalls, and nobody waits for it except the writer
	trap end EXIT
	begin "*.refined/text.new write stall=0"
	local before=$(answer)
	until_progress '^writing [0-9]+ % [0-9]+/32768 tokens' || exit
	stalled
	same "$("$MOEFS" stores "$work/faulty" | awk '$5 ~ /refined$/ { print $3, $4 }')" "in-use there" "what is being refined, in the list"
	same "$(answer)" "$before" "the answer meanwhile"
	stalled # and it still does
	yields "*.refined/text.new write stall=0"
	no_store
	until_progress '^writing ' # in the next pause
	no_store
}
rounds() { # it continues with what it has gathered and rounded
	trap end EXIT
	begin "*.refined/experts.safetensors.partial write stall=0 after=3"
	local before=$(answer)
	# Without a percentage if the sync that comes before the first count waits for the stalled write of the same file.
	until_progress '^refining( [0-9]+ %|$)'
	stalled
	same "$(answer)" "$before" "the answer meanwhile"
	stalled
	yields "*.refined/experts.safetensors.partial write stall=0"
	no_store
	faults
	until_true goes_on || fail "it does not go on: $(progress)" # in the next pause
	until_refined
	same "$(cat info/recipe)" tq3 "while it is mounted"
	same "$(answer)" "$before" "with the store that it has"
}
until_refined() { until_true is_refined || fail "no refined store: $(progress)"; }
next_takes_it() {
	trap end EXIT
	begin
	grep -qE '^tq3, refined with 3[23][0-9]{3} tokens$' info/recipe || fail "$(cat info/recipe)"
	[ -n "$(answer)" ] || fail "no answer"
	same "$(cat ../error)" "" "error"
}
claim "writing a text in a pause delays no answer, stops for a prompt, and continues" writes
claim "…so does rounding, which ends with a store" rounds
claim "the next mount takes it, and says so" next_takes_it

# ---- failures ----

fails_in_words() { # WORDS RULE…
	local words=$1
	shift
	rm -rf "$(refined)"
	trap end EXIT
	begin "$@"
	local before=$(answer)
	until_progress "^refining stopped: .*refined.*$words"
	[ "$(struck)" -gt 0 ] || fail "nothing failed"
	until_true grep -q "one: refining has stopped.*refined.*$words" ../error || fail "error: $(cat ../error)"
	no_store
	same "$(answer)" "$before" "the answer after it"
	same "$(cat info/recipe)" tq3
	faults
	answer >/dev/null # after which it is tried again in the next pause
	if [ "$words" = "$to_its_end" ] || [ "${CHECK:-}" = full ]; then
		until_refined
		until_progress '^idle$' # the store is in its place a moment before
	else
		until_true goes_on || fail "it is not tried again: $(progress)"
	fi
}
# The first failure is followed until the store is complete; the others until it is tried again, or with CHECK=full as well.
to_its_end="No space left"
claim "a full disk keeps the existing store and is reported; with room it continues" \
	fails_in_words "No space left" "*.refined/experts.safetensors.partial write error=ENOSPC after=2"
to_its_end=
claim "…so it is where the text does not fit" \
	fails_in_words "No space left" "*.refined/text* write error=ENOSPC"
claim "…and a disk that fails" \
	fails_in_words "Input/output error" "*.refined/experts.safetensors.partial sync error=EIO"

# ---- two mounts ----

end_second() {
	local second
	second=$(cat "$work/second/pid") || return
	fusermount3 -u "$work/second" || fusermount3 -u -z "$work/second"
	until_true not alive "$second"
}
# The first mount holds the folder while its write stalls; the second waits in its pauses, and then finds the work done.
shared() {
	rm -rf "$(refined)"
	trap 'end_second; end' EXIT
	begin "*.refined/text.new write stall=0"
	[ -n "$(answer)" ] || fail "no answer" # only models that were asked are refined
	stalled
	mkdir -p "$work/second"
	"$MOEFS" -o "store=$store,quant=tq3,refine=idle" "$MODEL" "$work/second" || fail "the second mount"
	fails_with "another process is refining it" "$MOEFS" --refine -o "store=$store,quant=tq3" "$MODEL"
	[ -n "$(cd "$work/second/one/sessions/default" && echo 8 >params/max_tokens && ask "$question")" ] || fail "no answer"
	same "$(cat "$work/second/error")" "" "error of the second"
	faults
	until_refined
	same "$(cat "$work/second/one/info/recipe")" tq3 "of the second, meanwhile"
}
claim "two mounts of a model refine it once, and the other one is told" shared
finish
