#!/bin/bash
# The examples that work on a mount: what they print, and that they report errors and leave nothing behind.
# (demo.sh is run by readme.sh, tools.sh by toolcalls.sh.)
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || skip_all "jq is missing"
[ "$(basename "$MODEL")" = fable-moe-15m ] || skip_all "the answers are those of fable-moe-15m, not of $MODEL"
mounted
loaded
echo 0 >sessions/default/params/temperature
echo 0 >sessions/default/params/max_tokens # a form needs its room

capital() { echo "The capital of $1 is $2."; } # as the model says it
run() { timeout $limit "$root/examples/$1.sh" "${@:2}" 2>"$work/errors"; }
says() { grep -qF -- "$1" "$work/errors" || fail "not said: $1, but $(cat "$work/errors")"; }

edits() {
	run edit . "What is 9 x 4?" && fail "edited where nothing was asked"
	says "no question was asked yet"
	ask "What is the capital of France?" >/dev/null
	ask "What is 12 x 6?" >/dev/null
	same "$(run edit . "What is 9 x 4?")" "9 x 4 = 36"
	same "$(jq -r '.[].content' messages.json)" "$(printf '%s\n' "What is the capital of France?" \
		"The capital of France is Paris." "What is 9 x 4?" "9 x 4 = 36")"
}
compares() {
	local rome=$work/rome paris=$work/paris
	echo "The capital of France is Rome." >"$rome"
	echo "The capital of France is Paris." >"$paris"
	same "$(run perplexity . "$rome" "$paris" | cut -f 2-)" "$(printf '9\t%s\n9\t%s' "$paris" "$rome")"
	run perplexity . "$paris" "$work/none" && fail "a file that is missing"
	says "$work/none is missing or empty"
	seq 5000 >"$work/long"
	run perplexity . "$work/long" && fail "a text that is longer than the context"
	says "score it in parts"
}
parses() {
	echo '{"type": "object", "properties": {"capital": {"enum": ["Lima", "Quito"]}, "sea": {"type": "boolean"}},
		"required": ["capital", "sea"], "additionalProperties": false}' >"$work/schema"
	run json . "$work/schema" "What is the capital of Peru?" >"$work/said" || fail "status $?: $(cat "$work/errors")"
	jq -e '(.capital | . == "Lima" or . == "Quito") and (.sea | type == "boolean") and length == 2' "$work/said" >/dev/null ||
		fail "it says $(cat "$work/said")"
	echo '{"typ": "object"}' >"$work/schema"
	run json . "$work/schema" "What is the capital of Peru?" && fail "no schema"
	says '"typ" is not supported'
	same "$(ls sessions)" default "left behind"
}
sums_up() {
	echo "What is 9 x 4?" >"$work/one"
	echo "What is 12 x 6?" >"$work/two"
	INSTRUCTION="Answer this:" run summarise . "$work/one" "$work/two" >"$work/said" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/said")" "$(printf '%s\n' "$work/one: 9 x 4 = 36" "$work/two: 12 x 6 = 72")"
	printf '\377' >"$work/bad"
	INSTRUCTION="Answer this:" run summarise . "$work/none" "$work/bad" "$work/two" >"$work/said" && fail "0 although two of three failed"
	grep -qxF "$work/two: 12 x 6 = 72" "$work/said" || fail "the third file: $(cat "$work/said")"
	says "$work/none cannot be read"
	says "UTF-8"
	run summarise . "$work/one" && fail "the demonstration model sums up"
	says "too small to sum up"
	same "$(ls sessions)" default "left behind"
}
makes() {
	unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs this
	mkdir "$work/made" && cd "$work/made" || exit
	for country in France Peru Chad; do echo "What is the capital of $country?" >"$country.question"; done
	make_answers() { timeout $limit make -s -j 3 -f "$root/examples/ask.mk" MODEL="$m" {France,Peru,Chad}.answer; }
	make_answers 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	same "$(cat France.answer Peru.answer)" "$(capital France Paris; capital Peru Lima)"
	same "$(make -f "$root/examples/ask.mk" MODEL="$m" France.answer)" "make: 'France.answer' is up to date."
	printf '\377' >Bad.question
	make -s -f "$root/examples/ask.mk" MODEL="$m" Bad.answer 2>"$work/errors" && fail "an answer to what is no text"
	says "UTF-8"
	[ ! -e Bad.answer ] || fail "an answer was left: $(cat Bad.answer)"
	same "$(ls "$m/ask.d")" ""
	cp France.question 'a;b.question'
	make -s -f "$root/examples/ask.mk" MODEL="$m" 'a;b.answer' 2>"$work/errors" || fail "a name with a semicolon: $(cat "$work/errors")"
	same "$(cat 'a;b.answer')" "$(capital France Paris)"
}
asks_many() {
	printf 'What is the capital of %s?\n' France Peru Japan | run parallel . 3 >"$work/said" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/said")" "$(capital France Paris; capital Peru Lima; capital Japan Tokyo)"
}
asks_side_by_side() {
	printf 'What is the capital of %s?\n' France Peru Japan Chad | run side_by_side . 3 >"$work/said" || fail "status $?: $(cat "$work/errors")"
	grep -qx '4 questions one after the other: [0-9.]* s' "$work/said" && grep -qx '3 at a time: [0-9.]* s, [0-9.]* times as fast' "$work/said" ||
		fail "$(cat "$work/said")"
	run side_by_side . </dev/null >/dev/null && fail "0 without questions"
	says "no questions"
	for many in 0 two; do
		echo "What is the capital of Peru?" | run side_by_side . $many && fail "$many at a time"
		says "JOBS is a number"
	done
	same "$(ls sessions)" default "left behind"
}
forks() {
	local both first second
	echo reset >ctl
	ask "What is the capital of France?" >/dev/null
	run forks sessions/default 2 "What is 12 x 6?" >"$work/said" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/said")" "$(printf '1: 12 x 6 = 72\n2: 12 x 6 = 72')"
	same "$(jq length messages.json)" 2 "messages of the session that was forked"
	same "$(cd / && run forks "$m" 1 "What is 12 x 6?")" "1: 12 x 6 = 72" "of the model's own session"
	same "$(cd sessions/default && run forks . 1 "What is 12 x 6?")" "1: 12 x 6 = 72" "of the working directory"
	both=$(run forks . 2 "Tell me a story about a fox.") # although the session's temperature is 0
	first=${both%%$'\n2: '*} second=${both##*$'\n2: '}
	differ "${first#1: }" "$second"
	for many in 0 two ""; do
		run forks . "$many" "What is 12 x 6?" && fail "$many forks"
		says "HOW_MANY is a number"
	done
	run forks . 1 $'\xff' && fail "an answer to what is no text"
	says "UTF-8"
	same "$(ls sessions)" default "left behind"
}
marks_down() {
	same "$(run markdown .)" "$(printf '**user:** What is the capital of France?\n\n**assistant:** %s' "$(capital France Paris)")"
}
reads_many() {
	timeout $limit "$root/examples/reader.py" . "What is the capital of France?" "What is 12 x 6?" >"$work/said" 2>"$work/errors" ||
		fail "status $?: $(cat "$work/errors")"
	same "$(sort "$work/said")" "$(echo "1: $(capital France Paris)"; echo "2: 12 x 6 = 72")"
	same "$(ls sessions)" default "left behind"
}
proposes() {
	export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
	git init -q "$work/git" && cd "$work/git" && cp "$root/examples/prepare-commit-msg" .git/hooks/ || exit
	echo text >file && git add file
	GIT_EDITOR=true git commit -q 2>"$work/errors" && fail "a commit without a message, nothing being configured"
	git config moefs.model "$m"
	echo 'sed -n "s/^# //p" "$1" | grep -A 1 proposes > "$1.seen"; echo Mine > "$1"' >"$work/editor"
	GIT_EDITOR="sh $work/editor" git commit -q 2>"$work/errors" || fail "status $?: $(cat "$work/errors")"
	same "$(git log --format=%s)" Mine
	same "$(sed -n 1p .git/COMMIT_EDITMSG.seen)" "$(basename "$m") proposes:"
	[ -n "$(sed -n 2p .git/COMMIT_EDITMSG.seen)" ] || fail "nothing is proposed"
	same "$(ls "$m/ask.d")" ""
}
watches() {
	TERM=xterm timeout $limit script -qfec "'$root/examples/watch.sh' ." "$work/typescript" </dev/null >/dev/null 2>&1 &
	local watcher=$!
	until_true_by $watcher grep -qa '^.*07 ' "$work/typescript" 2>/dev/null || fail "it has ended, or shows nothing"
	kill $watcher
	wait $watcher || true # of the signal
}
hottest() {
	ask "What is 12 x 6?" >/dev/null
	run hottest . 5 >"$work/said" || fail "status $?: $(cat "$work/errors")"
	same "$(wc -l <"$work/said")" 5
	same "$(grep -cE '^[0-9:.]+ [0-9]+ 0[0-7]/0[0-3][0-9]$' "$work/said")" 5 "$(cat "$work/said")"
	run hottest . many && fail "many experts"
	says "HOW_MANY is a number"
}
costs() {
	echo "The capital of France is Paris." >"$work/text"
	STORE=$work/stores run quantisations "$MODEL" "$work/text" bf16 tq2 >"$work/said" || fail "status $?: $(cat "$work/errors")"
	awk '{ p[$1] = $3 } END { exit !(p["bf16"] > 1 && p["tq2"] > p["bf16"]) }' "$work/said" || fail "$(cat "$work/said")"
	seq 5000 >"$work/long"
	STORE=$work/stores run quantisations "$MODEL" "$work/long" bf16 >"$work/said" && fail "a text that is longer than the context"
	says "score it in parts"
	same "$(cat "$work/said")" ""
}
pins() {
	run pin . 03 "What is 12 x 6?" >"$work/said" || fail "status $?: $(cat "$work/errors")"
	same "$(head -n 1 "$work/said")" "12 x 6 = 72"
	same "$(stat -c %A experts/03)" "drwxr-xr-x" "pinned still"
	run pin . 99 "What is 12 x 6?" && fail "a layer that there is not"
	says "there is no layer 99"
	run pin . 03 $'\xff' && fail "an answer to what is no text"
	says "UTF-8"
	same "$(stat -c %A experts/03)" "drwxr-xr-x" "pinned after a failure"
	same "$(ls ask.d)" ""
}
# A layer whose experts never arrive: a folder that looks like a model's, and a sleep that takes no time.
pins_in_vain() {
	mkdir -p "$work/bin" "$work/never/model"/{sessions,ask.d,experts/03} || exit
	echo "the disk does not answer" >"$work/never/error"
	echo x >"$work/never/model/experts/03/000"
	printf '#!/bin/sh\n' >"$work/bin/sleep" && chmod +x "$work/bin/sleep"
	PATH=$work/bin:$PATH run pin "$work/never/model" 03 "What is 12 x 6?" && fail "status 0"
	says "experts of layer 03 do not come into memory: 1 are missing"
	says "the disk does not answer"
	same "$(stat -c %A "$work/never/model/experts/03")" "drwxr-xr-x" "pinned still"
}
paints() {
	run routing . "What is 12 x 6?" "$work/picture.png" >"$work/said" || fail "status $?: $(cat "$work/errors")"
	same "$(cat "$work/said")" "12 x 6 = 72"
	same "$(head -c 4 "$work/picture.png" | tail -c 3)" PNG
	[ "$(wc -c <"$work/picture.png")" -gt 2000 ] || fail "the picture is empty"
	same "$(ls sessions)" default "left behind"
}
# Each example that needs a model's or a session's folder refuses another folder, and leaves nothing in it.
elsewhere() {
	local name
	mkdir "$work/plain" && cd "$work/plain" || exit
	echo text >"$work/text"
	refuses() { # EXAMPLE ARGUMENTS
		timeout $limit "$@" >"$work/said" 2>"$work/errors" </dev/null
		same $? "$((${status:-1}))" "${1##*/}"
		says "folder in a mount of moefs"
	}
	for name in edit.sh watch.sh parallel.sh side_by_side.sh hottest.sh markdown.sh forks.sh tools.sh json.sh pin.sh perplexity.sh summarise.sh routing.sh reader.py; do
		case $name in
		watch.sh | parallel.sh | side_by_side.sh | hottest.sh | markdown.sh) set -- ;;
		edit.sh | perplexity.sh | summarise.sh | reader.py) set -- "$work/text" ;;
		forks.sh) set -- 2 "What is 12 x 6?" ;;
		*) set -- "$work/text" "What is 12 x 6?" ;;
		esac
		[ $name != routing.sh ] || set -- "What is 12 x 6?" "$work/picture.png"
		refuses "$root/examples/$name" . "$@"
		refuses "$root/examples/$name" "$work/none" "$@"
		same "$(ls -A)" "" "left by $name"
	done
	echo text >it.question
	status=2 refuses make -s -f "$root/examples/ask.mk" MODEL=. it.answer
}
# One prompt is refused while it is written, another when it is closed.
refused() {
	local name long
	long=$(seq 14000)
	mkdir "$work/no tools" && echo '[]' >"$work/no tools/tools.json" || exit
	echo '{"type": "boolean"}' >"$work/any"
	for name in forks.sh tools.sh json.sh pin.sh routing.sh reader.py; do
		case $name in
		forks.sh) set -- . 1 QUESTION ;;
		tools.sh) set -- . "$work/no tools" QUESTION ;;
		json.sh) set -- . "$work/any" QUESTION ;;
		pin.sh) set -- . 03 QUESTION ;;
		routing.sh) set -- . QUESTION "$work/picture.png" ;;
		reader.py) set -- . QUESTION ;;
		esac
		for question in "$long" $'\xff'; do
			[ "$name" != reader.py ] || [ "$question" = "$long" ] || continue # Python writes UTF-8 alone
			timeout $limit "$root/examples/$name" "${@/#QUESTION/"$question"}" >/dev/null 2>"$work/errors" && fail "$name: 0 for a refused prompt"
			grep -qE 'max_prompt_bytes|UTF-8' "$work/errors" || fail "$name does not say why: $(cat "$work/errors")"
		done
	done
	printf '\xff\n' | run parallel . 2 >/dev/null && fail "parallel.sh: 0 for a refused prompt"
	says "UTF-8"
	printf '\xff\n' | run side_by_side . 2 >/dev/null && fail "side_by_side.sh: 0 for a refused prompt"
	says "UTF-8"
	echo "$long" >"$work/it.question"
	(cd "$work" && make -s -f "$root/examples/ask.mk" MODEL="$m" it.answer 2>"$work/errors") && fail "ask.mk: an answer to a refused prompt"
	[ ! -e "$work/it.answer" ] || fail "ask.mk leaves an answer"
	same "$(ls sessions) $(ls ask.d)" "default " "left behind"
	echo reset >ctl
}
claim "each says why a prompt is refused" refused
claim "each says that a folder is no model's or session's" elsewhere
claim "edit.sh asks another question in the last one's place" edits
claim "perplexity.sh names the likelier text first" compares
claim "json.sh gives what its schema says" parses
claim "summarise.sh has a line about each file" sums_up
claim "ask.mk makes each answer once" makes
needs parallel claim "parallel.sh answers in the questions' order" asks_many
claim "side_by_side.sh answers all questions twice, and prints how long it took" asks_side_by_side
claim "forks.sh leaves the session as it was" forks
claim "markdown.sh tells who said what" marks_down
claim "reader.py reads several answers at once" reads_many
needs git claim "prepare-commit-msg proposes, and keeps no commit from being made" proposes
needs watch needs script claim "watch.sh shows the map" watches
claim "hottest.sh names experts in memory" hottest
claim "pin.sh pins a layer, and lets it go" pins
claim "…and gives up where the layer's experts do not come" pins_in_vain
needs gnuplot claim "routing.sh draws the router's choices" paints
claim "quantisations.sh tells what fewer bits cost" costs
finish
