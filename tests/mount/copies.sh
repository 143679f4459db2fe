#!/usr/bin/env bash
# Programs that copy a file without read(2) (splice, sendfile) get the same text as readers: all of a growing file, not
# just what is there when they begin.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded
question="What is the capital of France?"
answer="The capital of France is Paris."
echo 0 > sessions/default/params/temperature
copy() { timeout $limit python3 "$here/copy.py" "$@"; }

by() { # HOW…: every kind of file that waits
	local -a how=("$@")
	echo "$question" > prompt
	same "$("${how[@]}" output)" "$answer" output
	same "$("${how[@]}" output)" "$answer" "output, again"
	echo "$question" > prompt
	same "$("${how[@]}" wait)" done wait
	echo "$question" > ask.d/one
	same "$("${how[@]}" ask.d/one)" "$answer" ask.d
	same "$(ls ask.d)" ""
	same "$("${how[@]}" log)" "$(cat log)" log
	same "$("${how[@]}" info/recipe)" "$(cat info/recipe)" info/recipe
	same "$("${how[@]}" error)" "" error
	same "$("${how[@]}" experts/trace)" "" trace
}
claim "splice" by copy splice
claim "sendfile" by copy sendfile
claim "Python's shutil" by copy shutil

through_one() { # HOW FILE…: question and answer through one open file
	same "$(exec 3<>ask; echo "$question" >&3; "$@" <&3)" "$answer" ask
	same "$(exec 3<>tokenizer/encode; echo -n "a b" >&3; "$@" <&3)" "$(exec 3<>tokenizer/encode; echo -n "a b" >&3; cat <&3)" encode
}
claim "…for requests through one open file" eval 'through_one copy splice - && through_one copy sendfile -'

others() { # PROGRAM…, where it is installed
	local program
	for program in "$@"; do
		$program cat /dev/null 2>/dev/null || continue
		by $program cat
		through_one $program cat
	done
}
claim "the cat of busybox and of uutils" others busybox coreutils

looked_at() { # other programs that look at an incomplete text do not end a copy
	local how
	mkdir sessions/watched && cd sessions/watched || exit
	for how in splice sendfile; do
		begin_long
		BETWEEN='stat output; ls -l .; tail -n 1 log' copy $how output >"$work/part" &
		copying=$!
		until_true test -s "$work/part" || fail "$how: nothing comes"
		same "$(stat -c %s output)" 0 "the size while it grows"
		end_long
		wait $copying || fail "$how failed"
		same "$(cat "$work/part")" "$(cat output)" "$how"
	done
}
claim "another's look between opening and copying changes nothing" looked_at

ends() { # a seek from the end agrees with the size
	echo "$question" > prompt
	same "$(timeout $limit tail -c 6 output)" "aris."
	echo "$question" > prompt
	same "$(timeout $limit tail -n 1 output)" "$answer"
}
claim "tail reads all of it" ends

appends() {
	echo "What is the capital" > ask.d/two
	copy splice ask.d/two >/dev/null
	echo "$question" >> ask.d/two
	same "$(copy splice ask.d/two)" "$answer"
}
claim "appended text is a question, too" appends
finish
