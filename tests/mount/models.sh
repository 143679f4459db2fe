#!/usr/bin/env bash
# The life of models in a mount: loaded, unloaded by a verb or when idle, added to a mounted folder and removed from it.
. "$(dirname "$0")/lib.sh"
holdable

checkpoint=$(basename "$MODEL")
ours=$work/models
model() { # NAME: a copy of the model beside the mount; its weights are the same file
	mkdir -p "$1" && cp "$MODEL"/*.json "$MODEL"/*.jinja "$1" && ln -sf "$MODEL/model.safetensors" "$1"
}
mkdir -p "$ours" "$mnt"
model "$ours/one"
model "$ours/spaced name"
printf 'One?\n\n  \n\001bad\n\377bad\n%s\nTwo?\n' "$(printf 'x%.0s' {1..600})" >"$ours/one/examples.txt"
printf 'Question %d?\n' {1..20} >>"$ours/one/examples.txt"
mkdir "$ours/broken" && cp "$MODEL/config.json" "$ours/broken"
timeout "$limit" "$MOEFS" -o "store=$store,log=$work/log" "$ours" "$mnt" 2>"$work/stderr" || { echo "not ok mount: $(cat "$work/stderr")"; exit 1; }
daemon=$(pgrep -n -f -- " $mnt\$")
m=$mnt/one
cd "$m" || exit 1
greedy() { echo 24 >sessions/default/params/max_tokens && echo 0 >sessions/default/params/temperature; }
greedy

in_time() { until_true "$@" || fail "never: $*"; } # COMMAND…
state_is() { [ "$(cat "$mnt/$2/info/state")" = "$1" ]; }
here() { [ -e "$mnt/$1/prompt" ]; }
not_here() { ! [ -e "$mnt/$1" ]; }
says() { grep -q -- "$1" "$mnt/error"; }
says_not() { ! says "$1"; }

examples() {
	same "$(head -n 3 info/examples | xargs)" "One? Two? Question 1?"
	same "$(wc -l <info/examples)" 12 lines
	same "$(cat "../spaced name/info/examples")" "" "of a model without the file"
}
claim "info/examples has the short lines of examples.txt, as many as a page can offer" examples

verbs() {
	same "$(cut -f 1 ../ctl | xargs)" "load NAME unload NAME rescan" verbs
	same "$(stat -c %a ../ctl)" 644 mode
	same "$(stat -c %s ../ctl)" "$(wc -c <../ctl)" size
	shell_fails_with "Invalid argument" "echo dance > ../ctl"
	says "\"dance\" is not a verb; the verbs are load, unload, rescan" || fail "$(cat ../error)"
	shell_fails_with "Invalid argument" "echo load > ../ctl"
	shell_fails_with "Invalid argument" "echo unload > ../ctl"
	shell_fails_with "Invalid argument" "echo rescan one > ../ctl"
	shell_fails_with "Invalid argument" "echo > ../ctl"
	shell_fails_with "No such file or directory" "echo load absent > ../ctl"
	says "there is no model \"absent\"" || fail "$(cat ../error)"
	shell_fails_with "No such file or directory" "echo unload on > ../ctl"
	shell_fails_with "No such file or directory" "echo unload ../one > ../ctl"
	state_is unloaded one || fail "$(cat info/state)"
}
claim "ctl lists its verbs, and refuses others and unknown names with a reason" verbs

named() { # a folder with a blank in its name
	echo "load spaced name" >../ctl
	in_time state_is ready "spaced name"
	local name
	for name in " edge " $'two\nlines'; do
		mv "$ours/spaced name" "$ours/$name" && echo rescan >../ctl && here "$name" || fail "no '$name'"
		cat >../ctl <<<"load $name" || fail "'$name' is not loaded: $(cat ../error)"
		in_time state_is ready "$name"
		cat >../ctl <<<"unload $name" || fail "'$name' is not unloaded: $(cat ../error)"
		state_is unloaded "$name" || fail "$(cat "../$name/info/state")"
		mv "$ours/$name" "$ours/spaced name" && echo rescan >../ctl
	done
	printf 'unload spaced name' >../ctl
	state_is unloaded "spaced name" || fail "$(cat "../spaced name/info/state")"
	echo "unload spaced name" >../ctl || fail "once more"
}
claim "load reads the weights, unload gives them back, whatever the name" named

same_text() { # a turn after an unload gives the same text as one without
	ask "What is the capital of France?" >"$work/first"
	complete "$mnt/one"
	echo "unload one" >../ctl
	same "$(cat info/state)" unloaded state
	same "$(sed -n 's/^used //p' ../cache/stats)" 0 "bytes of experts"
	same "$(tr -d '.0-9 \n' <experts/map)" "" "experts in the map"
	same "$(cat output)" "$(cat "$work/first")" "the answer"
	same "$(cat status)" done status
	cmp -s experts/01/003 /dev/null && fail "an expert's file is empty"
	tail -n 1 rendered | grep -q assistant || fail "rendered: $(cat rendered)"
	ask "What is 12 x 6?" >"$work/with"
	[ "$(sed -n 's/^cached_tokens //p' stats)" -gt 0 ] || fail "nothing of the context was kept"
	same "$(cat info/state)" ready state
	mkdir sessions/undisturbed
	echo 24 >sessions/undisturbed/params/max_tokens && echo 0 >sessions/undisturbed/params/temperature
	(cd sessions/undisturbed && ask "What is the capital of France?" && ask "What is 12 x 6?") >"$work/all"
	rmdir sessions/undisturbed
	cat "$work/first" "$work/with" | cmp - "$work/all"
}
claim "a conversation goes on after an unload, to the bit, with its context" same_text

busy() {
	mkdir sessions/long && cd sessions/long || exit
	begin_long
	shell_fails_with "Device or resource busy" "echo unload one > $mnt/ctl"
	says "one: .*still working" || fail "$(cat "$mnt/error")"
	end_long
	echo "unload one" >"$mnt/ctl" || fail "afterwards: $(cat "$mnt/error")"
	cd "$mnt" && rmdir one/sessions/long
}
claim "a model whose session works is not unloaded" busy

appears() {
	local inode
	says "skipped: broken: .* no tokenizer" || fail "$(cat "$mnt/error")"
	model "$work/two" && mv "$work/two" "$ours/two"
	echo rescan >"$mnt/ctl"
	here two || fail "no two: $(ls "$mnt")"
	same "$(cat "$mnt/two/info/state")" unloaded state
	says "skipped: broken: .* no tokenizer" || fail "$(cat "$mnt/error")"
	cd "$mnt/two" && greedy && same "$(ask "What is 12 x 6?")" "$(cat "$work/with")" answer
}
claim "a model that comes into the folder appears at once with rescan" appears

by_itself() { # a model that is copied in pieces
	mkdir "$ours/three" && cp "$MODEL/config.json" "$MODEL/tokenizer.json" "$ours/three"
	head -c 100000 "$MODEL/model.safetensors" >"$ours/three/model.safetensors"
	in_time says "skipped: three: .*cut short"
	not_here three || fail "three is here"
	tail -c +100001 "$MODEL/model.safetensors" >>"$ours/three/model.safetensors"
	in_time here three
	says_not "skipped: three" || fail "$(cat "$mnt/error")"
	in_time grep -q "skipped: three: .*cut short" "$work/log"
	same "$(grep -c "skipped: broken" "$work/log")" 1 "how often the log has what is skipped as before"
	cp "$MODEL/tokenizer.json" "$ours/broken"
	in_time says "skipped: broken: .*no weights"
	mkdir "$work/moved" && model "$work/moved/four"
	mv "$work/moved/four" "$ours"
	in_time here four
	same "$(cat "$mnt/four/info/layers")" "$(cat "$mnt/one/info/layers")" layers
}
claim "also by itself, and one in pieces once it is complete" by_itself

goes() {
	local inode=$(stat -c %i "$mnt/four/prompt")
	exec 3<"$mnt/four/info/state"
	rm -r "$ours/four"
	in_time says "gone: four: "
	here four || fail "four went while a file of it was open"
	same "$(cat <&3)" unloaded "an open file"
	echo rescan >"$mnt/ctl"
	here four || fail "four went while a file of it was open"
	exec 3<&- # the last scan is over, and nothing asks for another
	in_time not_here four
	says_not four || fail "$(cat "$mnt/error")"
	rm -r "$ours/two" # which has a conversation
	in_time says "gone: two: nothing is at $ours/two any more"
	here two || fail "two went with its conversation"
	echo rescan >"$mnt/ctl"
	here two || fail "two went with its conversation"
	echo reset >"$mnt/two/ctl" && echo "unload two" >"$mnt/ctl"
	in_time not_here two
	# A model that comes back is another one: its number is not used again.
	model "$ours/four" && echo rescan >"$mnt/ctl"
	in_time here four
	differ "$(stat -c %i "$mnt/four/prompt")" "$inode" "inode numbers"
	(cd "$mnt/four" && greedy && same "$(ask "What is 12 x 6?")" "$(cat "$work/with")" answer) || exit
	same "$(cd "$mnt" && echo */prompt)" "four/prompt one/prompt spaced name/prompt three/prompt" models
}
claim "what goes from the folder goes from the tree, unless it is used" goes

# A model comes, answers and goes. What it leaves would be left each time; threads that read experts start when they are
# needed and stay, but only so many: so one of several times has to leave nothing.
closed() { # only its number stays
	local files tasks
	same "$(echo "$mnt"/passing*)" "$mnt/passing*" "models called so"
	complete "$mnt/four"
	for _ in {1..12}; do
		files=$(ls "/proc/$daemon/fd" | wc -l) tasks=$(ls "/proc/$daemon/task" | wc -l)
		passes
		limit=5 until_true has_most "$files" "$tasks" && return
	done
	fail "more each time: $(ls "/proc/$daemon/fd" | wc -l) files, $(ls "/proc/$daemon/task" | wc -l) threads"
}
passes() {
	model "$ours/passing" && echo rescan >"$mnt/ctl"
	(cd "$mnt/passing" && ls tensors >/dev/null && greedy && ask "What is 12 x 6?" >/dev/null && echo reset >ctl) || exit
	complete "$mnt/passing"
	echo "unload passing" >"$mnt/ctl"
	rm -r "$ours/passing" && echo rescan >"$mnt/ctl"
	in_time not_here passing
}
has_most() { # FILES TASKS
	[ "$(ls "/proc/$daemon/fd" | wc -l)" -le "$1" ] && [ "$(ls "/proc/$daemon/task" | wc -l)" -le "$2" ]
}
claim "a model that went has no open file and no thread any more" closed

pinned() {
	echo "load one" >../ctl && chmod +t experts/01/003 && in_time pin_is_there
	echo "unload one" >../ctl
	[ -k experts/01/003 ] || fail "the pin went"
	pin_is_there && fail "it is in memory still"
	echo "load one" >../ctl
	in_time pin_is_there
	chmod -t experts/01/003
}
pin_is_there() { grep -q '^01 003 1 ' experts/stats; }
claim "a pin holds from the next load on" pinned

crowd() { # load, unload, rescan and prompts from several processes
	local i
	echo reset >ctl
	for i in 1 2 3 4 5 6 7 8; do echo "load one" >"$mnt/ctl"; echo rescan >"$mnt/ctl"; done &
	for i in $(seq 20); do echo "unload one" >"$mnt/ctl"; done 2>"$work/crowd" &
	for i in 1 2 3 4; do
		rm -rf "$ours/passing" && model "$ours/passing" && echo rescan >"$mnt/ctl"
	done &
	for i in 1 2 3 4; do
		same "$(ask "What is 12 x 6?")" "$(cat "$work/with")" "answer $i"
		cat experts/*/00[0-3] >/dev/null
		echo reset >ctl
	done
	wait
	grep -v busy "$work/crowd" | grep . && fail "unload: $(cat "$work/crowd")"
	same "$(ask "What is 12 x 6?")" "$(cat "$work/with")" "the last answer"
}
claim "all of it at once gives the same answers" crowd
cd / && unmounted

idle() {
	mounted -o idle=1s
	in_time state_is unloaded "$checkpoint"
	same "$(ask "What is 12 x 6?")" "$(cat "$work/with")" answer
	in_time state_is unloaded "$checkpoint"
	same "$(ask "What is the capital of France?")" "$(cat "$work/first")" "the next answer"
	echo rescan >../ctl || fail "rescan without a folder"
	cd / && unmounted
}
m=$mnt/$checkpoint
claim "with idle= an unused model is unloaded, and its conversation goes on" idle

times() {
	local each
	for each in 10 10x 0s 1.5h -1s "" s 99999999h "1 s"; do
		fails_with "-o idle=$each is not a time such as 30s, 10m or 2h, off or auto" "$MOEFS" --check -o "store=$store,idle=$each" "$MODEL"
	done
	for each in 30s 10m 2h off auto; do
		"$MOEFS" --check -o "store=$store,idle=$each" "$MODEL" >/dev/null || fail "idle=$each"
	done
}
claim "a time is as in 30s, 10m, 2h, or off or auto" times
finish
