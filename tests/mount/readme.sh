#!/usr/bin/env bash
# README.md as a newcomer walks through it: its transcript, in bash and where it is installed in fish, gives the
# answers that are printed; its other lines do what they say, and the last one unmounts. And the demonstration.
. "$(dirname "$0")/lib.sh"
readme=$root/README.md
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "README's answers are those of fable-moe-15m, not of $MODEL"

# A clone that is built, and somebody's home.
mkdir -p "$work"/clone/{examples/models,build} "$work"/{home,bin,tmp}
cp -r "$MODEL" "$work/clone/examples/models/"
cp "$root/examples/demo.sh" "$work/clone/examples/"
ln -s "$MOEFS" "$work/clone/build/moefs"
ln -s "$MOEFS" "$work/bin/moefs"
export HOME=$work/home PATH=$work/bin:$PATH
mnt=$HOME/m
unset XDG_CACHE_HOME

section() { # TITLE: its lines of code
	sed -n "/^## $1\$/,/^## /s/^    //p" "$readme"
}
commands() { section "What it looks like" | sed -n 's/^\$ //p'; }
answers() { # what is printed below each question
	section "What it looks like" | awk '/^\$/ { answer = /cat output/; next } answer'
}
unmounted_again() {
	! grep -q " $HOME/m " /proc/self/mountinfo || fail "it is still mounted"
}
transcript() { # SHELL
	cd "$work/clone" || exit
	commands | sed "s,cat output,cat output | tee -a $work/$1," >"$work/script"
	grep -q 'moefs .* ~/m' "$work/script" || fail "README's transcript mounts nothing"
	rm -f "$work/$1"
	{ cat "$work/script"; section "Using it" | tail -n 1; } >"$work/whole"
	"$1" "$work/whole" >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/errors")" "" "standard error"
	answers >"$work/want"
	[ -s "$work/want" ] && cmp "$work/$1" "$work/want" || fail "the answers are: $(cat "$work/$1")"
	unmounted_again
}
claim "README's transcript gives the answers that it prints" transcript bash
# What depends on memory, time or place: the map, blocks, df.
steady() { section "What it looks like" | awk '/^\$/ { other = /experts|df / } !other'; }
prints() { # SHELL: all that it shows and that is the same everywhere
	cd "$work/clone" || exit
	{ steady | sed -n 's/^\$ //p'; section "Using it" | tail -n 1; } >"$work/whole"
	steady | grep -v '^\$' >"$work/want"
	[ "$(wc -l <"$work/want")" -gt 25 ] || fail "README prints $(wc -l <"$work/want") lines"
	"$1" "$work/whole" >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	diff "$work/want" "$work/said" >"$work/differs" || fail "README (<) and what is said (>): $(cat "$work/differs")"
	unmounted_again
}
claim "and all else that it prints" prints bash
if command -v fish >/dev/null; then
	claim "also in fish" transcript fish
	claim "and all else, in fish" prints fish
else
	echo "ok fish # skip: it is not installed"
fi

using() { # the lines under "Using it", one after the other; any that fails ends it
	cd "$work/clone" || exit
	{
		commands | grep -v 'cat \|ls \|df '
		section "Using it" | sed 's/^tail -f log .*/timeout 1 tail -f log || [ $? = 124 ]/'
	} >"$work/whole"
	grep -q '^timeout 1' "$work/whole" || fail "README's last lines are others"
	bash -e "$work/whole" >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/errors")" "" "standard error"
	grep -qx "7 12 34 59" "$work/said" || fail "not sorted: $(head -n 1 "$work/said")"
	grep -qx "The capital of Japan is Tokyo." "$work/said" || fail "no capital of Japan: $(cat "$work/said")"
	unmounted_again
}
claim "README's other lines run, down to the unmounting" using

outlives() { # each line that a command of this section prints is said, but for times
	local title="A conversation that outlives the mount" line
	cd "$work/clone" || exit
	{ commands; section "$title" | sed -n 's/^\$ //p' | sed "s,~/moefs,$work/clone,"; section "Using it" | tail -n 1; } >"$work/whole"
	grep -q 'state ~/talk.state' "$work/whole" || fail "README's section is another"
	bash -e "$work/whole" >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/errors")" "" "standard error"
	section "$title" | grep -v '^\$\|^-rw' >"$work/want"
	[ "$(wc -l <"$work/want")" -ge 3 ] || fail "README prints nothing there"
	while read -r line; do grep -qxF "$line" "$work/said" || fail "'$line' is not said"; done <"$work/want"
	unmounted_again
}
claim "README's conversation outlives the mount" outlives

commands_say() { # all that is printed there, without a mount
	cd "$work/clone" || exit
	section "One command" | sed -n 's/^\$ //p' | sed "s,~/moefs,$work/clone," >"$work/whole"
	section "One command" | grep -v '^\$' >"$work/want"
	[ "$(wc -l <"$work/want")" -ge 3 ] || fail "README prints nothing there"
	bash -e "$work/whole" >"$work/said" 2>"$work/errors" </dev/null || fail "status $?: $(cat "$work/errors")"
	diff "$work/want" "$work/said" >"$work/differs" || fail "README (<) and what is said (>): $(cat "$work/differs")"
	same "$(cat "$work/errors")" "" "standard error"
}
claim "README's one command answers" commands_say

demo() {
	TMPDIR=$work/tmp "$work/clone/examples/demo.sh" >"$work/said" 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	for answer in "The capital of France is Paris." "12 x 6 = 72" "The opposite of hot is cold."; do
		grep -qxF "$answer" "$work/said" || fail "not said: $answer"
	done
	same "$(ls "$work/tmp")" "" "left over"
}
claim "the demonstration's answers are right each time" demo
finish
