#!/bin/bash
# moefs ask and moefs chat: which mount they use, that their own mounts and sessions are removed however they end, what
# their options do in the tree, and what a model's text may do to a terminal.
. "$(dirname "$0")/lib.sh"
holdable
for program in jq python3; do command -v $program >/dev/null || skip_all "no $program"; done

gen='<|im_end|>
<|im_start|>assistant
'
long=$(for i in $(seq 60); do printf '%s. The fox number %s sees %s birds.\n' "$i" "$((i * 7))" "$((i * i))"; done)
jq -n --arg gen "$gen" --arg long "$long" '[
	{after: ("Which city?" + $gen), say: "<think>\nIt is easy.\n</think>\n\nParis."},
	{after: ("Sum up:\nOne and two." + $gen), say: "Three."},
	{after: ("One\nand two\\ or /three." + $gen), say: "Six."},
	{after: ("/etc is what?" + $gen), say: "A folder."},
	{after: ("Be red." + $gen), say: "<think>\n\u001b[31mhm\n</think>\n\n\u001b[31mred\u0007\r\u009b1m\u007f \u00fcber 東京\t!"},
	{after: ("A long one, please." + $gen), say: $long}]' >"$work/script.json"
fable=$MODEL
scripted "$work/script.json" "" "$here/conversation.jinja"
# Names that no other mount has, since the commands search all mounts of a user.
says="a model ${work##*.}" sums=sums-${work##*.}
mv "$MODEL" "$work/$says" && MODEL="$work/$says" m="$mnt/$says"
mkdir "$work/own" "$work/$sums" "$work/run" "$work/several" && cp "$fable"/* "$work/own" && cp "$fable"/* "$work/$sums"
others=("$work/$sums")
ln -s "$work/own" "$work/several/one" && ln -s "$work/$sums" "$work/several/two"
as_root=()
[ "$(id -u)" = 0 ] && as_root=(-o allow_other) && chmod 755 "$work"
mounted "${as_root[@]}"
loaded
echo auto > sessions/default/params/max_tokens
export XDG_RUNTIME_DIR=$work/run XDG_STATE_HOME=$work/state HOME=$work
cd "$work" || exit
sums_there=$mnt/$sums
echo 0 > "$sums_there/sessions/default/params/temperature"

asks() { timeout $limit "$MOEFS" ask "$@" </dev/null; }
sessions_are() { # WORDS: the scripted model's sessions, once those of ended commands are removed
	until_true there_are "$1" || fail "sessions: $(echo $(ls "$m/sessions"))"
}
there_are() { [ "$(echo $(ls "$m/sessions"))" = "$1" ]; }
nothing_left() { # no mount of a command's own is left
	until_true is_gone || fail "left: $(ls "$work/run") $(pgrep -af -- " $work/run/moefs")"
}
is_gone() {
	[ -z "$(ls "$work/run")" ] && ! grep -q " $work/run" /proc/self/mountinfo && ! pgrep -f -- " $work/run/moefs" >/dev/null
}

# ---- which mount ----

by_name() {
	same "$(asks "$says" "Which city?")" "Paris."
	same "$(asks "$says" Which 'city?')" "Paris." "words in pieces"
	same "$(asks "$sums" "What is 12 x 6?")" "12 x 6 = 72"
	sessions_are default
}
by_path() {
	same "$(asks "$work/$says" "Which city?")" "Paris." "by its checkpoint"
	same "$(asks "$mnt/$says" "Which city?")" "Paris." "by its folder in the mount"
	same "$(cd "$mnt" && asks "./$says" "Which city?")" "Paris." "by that from within"
	ln -s "$says" "$work/link"
	same "$(asks "$work/link" "Which city?")" "Paris." "by a link"
	same "$(ls "$work/run")" "" "a mount was made"
	[ ! -e "$work/$says.moefs" ] || fail "a store was made"
	fails_with "$mnt has 2 models; name one of them: $says, $sums" asks "$mnt" hi
	fails_with 'you have no mounted model "nobody", and there is no such file: give the path of one, or the name of a mounted one: ' asks nobody hi
	fails_with "$sums" asks nobody hi
	same "$(asks "$says/" "Which city?")" "Paris." "with a slash behind its name, where no folder is called so"
	fails_with "No such file or directory" asks ./nobody hi
}
newest() { # of two mounts with that name
	local second
	mkdir "$work/second"
	"$MOEFS" -o "store=$store" "$work/$says" "$work/second" || fail mount
	second=$(pgrep -n -f -- " $work/second\$")
	asks -s which "$says" "Which city?" || fail ask
	ls "$work/second/$says/sessions" "$m/sessions"
	[ -d "$work/second/$says/sessions/which" ] || fail "it is not the one that was mounted last"
	asks -s which "$mnt/$says" "Which city?" || fail ask
	[ -d "$m/sessions/which" ] || fail "a path leads to another mount"
	rmdir "$m/sessions/which"
	user_unmounts "$work/second"
	until_true not alive "$second" || fail "the second does not end"
	rmdir "$work/second"
}
anothers() {
	cd / || exit
	fails_with "you have no mounted model" setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$work/moefs" ask "$says" "Which city?" </dev/null
}
claim "a model is found by its name, whatever is in it" by_name
claim "and by a path to it" by_path
claim "of two mounts with that name the newer one is taken" newest
if [ ${#as_root[@]} -gt 0 ] && command -v setpriv >/dev/null; then
	cp "$MOEFS" "$work/moefs"
	claim "another user's mount is not" anothers
fi

# ---- what is asked ----

input() {
	same "$(echo "One and two." | timeout $limit "$MOEFS" ask "$says" Sum up:)" "Three." "behind the words"
	same "$(echo "Which city?" | timeout $limit "$MOEFS" ask "$says")" "Paris." "without words"
	same "$(timeout $limit "$MOEFS" ask "$says" "Which city?" <&-)" "Paris." "closed"
	yes | head -c 100000000 | timeout $limit "$MOEFS" ask "$says" "Sum up:" >"$work/said" 2>&1
	same "${PIPESTATUS[2]}" 1 "of 100 MB"
	grep -q "max_prompt_bytes" "$work/said" || fail "said of 100 MB: $(cat "$work/said")"
	sessions_are default
}
options() {
	same "$(asks -s kept -p max_tokens=3 --system "Be short." "$says" "Which city?")" "$(cat "$m/sessions/kept/output")"
	same "$(cat "$m/sessions/kept/params/max_tokens")" 3
	same "$(cat "$m/sessions/kept/params/system")" "Be short."
	same "$(asks "$says" -s kept -p max_tokens=auto -- "Which city?")" "Paris." "behind the model"
	same "$(grep -c '"user"' "$m/sessions/kept/messages.json")" 2 "questions in the session"
	rmdir "$m/sessions/kept"
	same "$(asks --thoughts "$says" "Which city?" 2>"$work/thoughts")" "Paris."
	same "$(cat "$work/thoughts")" "It is easy."
	asks --plan "$says" "Which city?" >"$work/plan"
	same "$(cut -d' ' -f1 "$work/plan" | head -3 | tr '\n' ' ')" "prompt_tokens kept_tokens new_tokens " "the plan"
	echo '{"enum": ["yes", "no"]}' >"$work/schema"
	asks --schema "$work/schema" "$sums" "Is it?" | jq -e '. == "yes" or . == "no"' || fail schema
	asks --json "$sums" -p max_tokens=60 "Is it?" | grep -q '^[[{]' || fail json
}
late() { # options after words are refused; after -- every word is part of the question
	local word
	for word in --json -s -p=3 --nonsense; do
		status_of 2 "$word: options come before the question; if it is not an option, put -- before the question; usage: moefs ask" \
			asks "$says" What is "12 x 6?" "$word"
	done
	status_of 2 "--system: options come before the question" "$MOEFS" chat "$says" hi --system
	sessions_are default
	same "$(asks -s kept -- "$says" --json)" "$(cat "$m/sessions/kept/output")"
	same "$(jq -r '.[] | select(.role == "user").content' "$m/sessions/kept/messages.json")" --json "-- before the model"
	asks -s kept "$says" -- -s --help || fail "-- behind the model"
	asks -s kept "$says" - -5 "--json is what?" || fail "words that are no options"
	same "$(jq -r '.[] | select(.role == "user").content' "$m/sessions/kept/messages.json")" "--json
-s --help
- -5 --json is what?"
	rmdir "$m/sessions/kept"
}
status_of() { # STATUS WORDS command…
	local status=$1 words=$2 got
	shift 2
	"$@" >"$work/said" 2>&1
	got=$?
	same "$got" "$status" "status of $*"
	grep -qF -- "$words" "$work/said" || fail "said '$(cat "$work/said")', not '$words': $*"
}
wrong() {
	status_of 2 "usage: moefs ask" asks
	status_of 2 "usage: moefs ask" asks "$says"
	status_of 2 "no question is given: type it after MODEL" asks "$says"
	status_of 2 "--nonsense: there is no such option; usage: moefs ask" asks --nonsense "$says" hi
	status_of 2 "-x: there is no such option; usage: moefs ask" asks -x "$says" hi
	status_of 2 "-s needs a value" asks -s
	status_of 2 "-p temperature: write -p PARAM=VALUE; usage: moefs ask" asks -p temperature "$says" hi
	status_of 2 "usage: moefs chat" "$MOEFS" chat "$says" words
	status_of 2 "usage: moefs chat" "$MOEFS" chat --json "$says"
	status_of 0 "moefs ask [options] MODEL [WORDS...]" asks --help
	status_of 0 "moefs chat [options] MODEL" "$MOEFS" chat -h
	status_of 1 'no param "heat"; moefs(5) lists the params' asks -p heat=1 "$says" hi
	status_of 1 'no param "../status"' asks -p ../status=1 "$says" hi
	status_of 1 "is not a number" asks -p temperature=warm "$says" hi
	status_of 1 "nothere: No such file" asks --schema nothere "$says" hi
	status_of 1 "UTF-8" asks "$says" $'caf\xff'
	status_of 1 "cannot be the name of a session" asks -s a/b "$says" hi
	sessions_are default
}
told() { # each option of --help is in the command's page
	local command option
	for command in ask chat; do
		for option in $("$MOEFS" $command --help | sed -n 's/^    \(-[^ ]*\).*/\1/p' | tr -d ,); do
			sed 's/\\-/-/g' "$root/fs/install/moefs-$command.1.in" "$root/fs/install/moefs-ask.1.in" | grep -qF -- "$option" || fail "moefs-$command.1 lacks $option"
		done
	done
	for option in $(printf '/help\n' | "$MOEFS" chat "$says" | sed -n 's/^\(\/[a-z]*\) .*/\1/p'); do
		grep -qE "^\.B.* \"?$option" "$root/fs/install/moefs-chat.1.in" || fail "moefs-chat.1 lacks $option"
	done
}
claim "their manuals have each option and verb" told
claim "standard input is joined to the words, and refused with a reason if it is too long" input
claim "options become the session's params" options
claim "options behind the question are refused, with a hint at --; behind -- all are words" late
claim "errors give a reason and their status" wrong

# ---- how it ends ----

begin() { # ask's arguments: begins a command that waits for its standard input; its process is $asking
	[ -p "$work/never" ] || mkfifo "$work/never"
	env --default-signal=INT,TERM "$MOEFS" ask "$@" <>"$work/never" >"$work/answer" 2>"$work/said" &
	asking=$!
}
made() { # GLOB: waits until such a session is there
	until_true_by $asking compgen -G "$1" >/dev/null && return 0
	alive $asking || fail "it ended: $(cat "$work/said")"
	fail "there is no $1"
}
killed() { # SIGNAL
	kill -$1 $asking
	wait $asking
	same "$?" $((128 + $(kill -l $1))) "status after $1"
}
kills() { # in a mount that was there before
	local signal
	for signal in INT TERM KILL; do
		begin "$says" "Which city?"
		made "$m/sessions/ask-$asking"
		killed $signal
		sessions_are default
	done
}
stopped() {
	mkdir "$sums_there/sessions/stays" && hold_at 16 || exit
	"$MOEFS" ask -s stays -p temperature=0 -p max_tokens=0 -p chat=off "$sums" \
		"ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha" </dev/null >"$work/answer" 2>"$work/said" &
	asking=$!
	until_true [ -s "$work/answer" ] || fail "no answer: $(cat "$work/said")"
	kill -KILL $asking
	same "$(timeout $limit cat "$sums_there/sessions/stays/wait")" stopped
	let_go
	rmdir "$sums_there/sessions/stays"
}
pipe_closed() { # the answer goes on once its reader is gone: all of it would fit into the pipe
	hold_at 100
	"$MOEFS" ask "$says" "A long one, please." </dev/null 2>"$work/said" | {
		head -n 1 >"$work/answer"
		exec </dev/null
		let_go
	}
	same "${PIPESTATUS[0]} $(cat "$work/answer") $(cat "$work/said")" "141 1. The fox number 7 sees 1 birds. " "SIGPIPE"
	sessions_are default
}
own() {
	same "$(asks "$work/own" -p temperature=0 "What is 12 x 6?")" "12 x 6 = 72"
	same "$(ls "$work/run")" "" "left at the end"
	nothing_left
	fails_with "-s kept needs a mounted model" asks -s kept "$work/own" hi
	status_of 1 "has 2 models; name one of them: own, $sums" asks "$work/several/" hi
	status_of 1 "could not be mounted" asks "$work/state/" hi
	nothing_left
}
own_killed() {
	local signal
	for signal in INT KILL; do
		begin "$work/own" "What is 12 x 6?"
		made "$work/run/*/own/sessions/ask-*"
		killed $signal
		nothing_left
	done
}
claim "its own session is removed with it, killed or not" kills
claim "one that stays stops answering when the command is killed" stopped
claim "a reader that has enough ends it quietly" pipe_closed
mkdir -p "$work/state"
claim "a model that is not mounted is, for as long as it answers" own
claim "that mount goes with it, killed or not" own_killed

# ---- chat ----

chats() { timeout $limit "$MOEFS" chat "$@"; }
lines() {
	same "$(printf 'Which city?\n\n/retry\n/undo\n//etc is what?\n' | chats "$says")" "Paris.
Paris.
A folder."
	same "$(printf '"""One\nand two\\ or /three."""\n' | chats "$says")" "Six."
	same "$(printf 'Sum up:\\\nOne and two.' | chats "$says")" "Three."
	sessions_are default
}
verbs() {
	printf '%s\n' "Which city?" "/save ~/talk.state" /reset "/load ~/talk.state" "/set max_tokens 7" | chats -s kept "$says" || fail chat
	same "$(grep -c '"role"' "$m/sessions/kept/messages.json")" 2
	same "$(cat "$m/sessions/kept/params/max_tokens")" 7
	same "$(stat -c %a "$work/talk.state")" 600
	printf '/undo\n/quit\nWhich city?\n' | chats -s kept "$says" || fail "chat again"
	same "$(grep -c '"role"' "$m/sessions/kept/messages.json")" 0
	rmdir "$m/sessions/kept"
	chat_with() { printf '%s\n' "$1" | chats "$says"; }
	status_of 1 '"/dance" is not a command' chat_with /dance
	status_of 1 "write /save FILE" chat_with /save
	status_of 1 "nothere: No such file" chat_with "/load nothere"
	status_of 1 "state" chat_with "/load $work/script.json"
	status_of 1 "is not a number" chat_with "/set temperature warm"
	status_of 0 "/save FILE" chat_with /help
	status_of 0 "see moefs(5)" chat_with /help
	sessions_are default
}
# Looks for typed text in the tree and not on the terminal, which may echo it.
stops() {
	export session=$sums_there/sessions/stops
	hold_at 16
	"$here/terminal.py" "$MOEFS" chat -s stops -p temperature=0 -p max_tokens=0 -p chat=off "$sums" <<-'STEPS' >"$work/shown" 2>"$work/said" || fail "status $?: $(cat "$work/said"; tail -c 300 "$work/shown")"
		await > 
		keys Never ask
		await Never ask
		press C
		type ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha
		run until grep -q generating "$session/status"; do :; done
		press C
		run grep -q stopped "$session/wait" && rm "$MOEFS_HOLD" && grep -q "^finish stopped" "$session/stats"
		run ! grep -q Never "$session/log"
		type /set chat on
		type /reset
		type What is 12 x 6?
		await = 72
		await > 
		press D
	STEPS
	rmdir "$session"
}
dimmed() {
	"$here/terminal.py" "$MOEFS" chat "$says" <<-'STEPS' >"$work/shown" || fail "status $?: $(cat "$work/shown")"
		await /help lists commands, Ctrl-D ends
		await > 
		type Which city?
		await \x1b[2mIt is easy.
		await \x1b[0m
		await Paris.
		await > 
		press D
	STEPS
	same "$(stat -c %a "$work/state/moefs/history")" 600 "the history's mode"
	grep -q Which "$work/state/moefs/history" || fail "the history lacks it"
}
harmless() {
	"$here/terminal.py" "$MOEFS" ask --thoughts "$says" "Be red." </dev/null >"$work/shown" || fail ask
	printf '\033[2m^[[31mhm\r\n\033[0m^[[31mred^G^M\357\277\2751m^? \303\274ber 東京\t!\r\n' >"$work/wanted"
	cmp "$work/wanted" "$work/shown" || fail "$(od -An -c "$work/shown" | tr -s " \n" " ")"
	asks "$says" "Be red." >"$work/plain"
	printf '\033[31mred\a\r\302\2331m\177 über 東京\t!\n' | cmp - "$work/plain" || fail "a file is given what is not as it is"
}
claim "chat answers lines, alone or several" lines
claim "chat's verbs" verbs
claim "on a terminal thoughts are dimmed, and the history is kept for nobody else" dimmed
claim "Ctrl-C clears a line and stops an answer, Ctrl-D ends" stops
claim "a model's output does a terminal no harm" harmless

# ---- a model that takes its time ----

cd / && unmounted
others=()
faulty_disk
faults "* write stall=0 after=4"
mounted
cd "$work" || exit
export faults=$work/faulty/.faults
converting() {
	"$here/terminal.py" "$MOEFS" ask "$says" "Which city?" <<-'STEPS' >"$work/shown" || fail "status $?: $(cat "$work/shown")"
		await \x1b[Kmoefs: reading
		run : >"$faults"
		await \x1b[KParis.
	STEPS
}
claim "on a terminal the model's progress is shown until it answers" converting
faults
finish
