#!/usr/bin/env bash
# score: how likely a text is, for each open file by itself; logprobs.jsonl: how likely an answer's tokens were; and the
# params that weigh single tokens.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded

score() { # TEXT
	exec 3<>score
	printf '%s\n' "$1" >&3 || fail "the text is refused"
	timeout $limit cat <&3
	exec 3>&-
}
text="The capital of France is Paris."

lines() {
	score "$text" >"$work/score"
	exec 3<>tokenizer/encode
	echo "$text" >&3
	same "$(grep -v '^[mp]' "$work/score" | cut -d' ' -f1)" "$(cat <&3)" "the ids"
	exec 3>&-
	same "$(sed -n '1s/^[0-9]* - .*/none before it/p' "$work/score")" "none before it" "the first token"
	same "$(sed -n 's/^[0-9]* [-.0-9]* "\(.*\)"$/\1/p' "$work/score" | tr -d '\n')" "$text" "the tokens"
	awk '
		$1 == "mean" { mean = $2; next }
		$1 == "perplexity" { exit !(n && sqrt((s / n - mean) ^ 2) < 1e-5 && sqrt((exp(-mean) / $2 - 1) ^ 2) < 1e-4) }
		$2 != "-" { s += $2; n++; if ($2 > 0) exit 1 }' "$work/score" || fail "$(cat "$work/score")"
}
claim "a line for each token: its id, log-probability and spelling; then mean and perplexity" lines

escaped() {
	score 'say "hi"\	tab
line <|im_end|> é 🦊' >"$work/score"
	printf '%b' "$(sed -n 's/^[0-9]* [-.0-9]* "\(.*\)"$/\1/p' "$work/score" | sed 's/\\"/"/g' | tr -d '\n')" >"$work/said"
	same "$(cat "$work/said")" 'say "hi"\	tab
line <|im_end|> é 🦊'
	same "$(grep -c '"<|im_end|>"' "$work/score")" 1 "a special token that the text spells"
	LC_ALL=C grep -q '[^ -~]' "$work/score" && LC_ALL=C.UTF-8 grep -qa '[[:cntrl:]]' "$work/score" && fail "control characters"
	[ "$(wc -l <"$work/score")" -gt 12 ] || fail "$(cat "$work/score")"
}
claim "a token's bytes are escaped as for printf" escaped

again() {
	want=$(score "$text")
	exec 3<>score
	for i in 1 2; do
		echo "$text" >&3 || fail "the text is refused"
		same "$(timeout $limit cat <&3)" "$want" "time $i"
		same "$(timeout $limit cat <&3)" "" "after the end"
	done
	echo "$text" >&3
	whole=
	while IFS= read -r -t $limit line <&3; do whole+=$line$'\n'; done
	same "$whole" "$want
" "read line by line"
	exec 3>&-
	same "$(score "ha $text")" "$(score "ha $text")" "another"
}
claim "an open file takes text after text, and the numbers are the same each time" again

beside() {
	ask "What is the capital of Italy?" >"$work/alone"
	score "$text" >"$work/want"
	echo "What is the capital of Italy?" > prompt
	seq 24 | xargs -P 8 -I% bash -c 'exec 3<>score; echo "The capital of France is Paris." >&3; cat <&3 >'"$work"'/score-%'
	same "$(timeout $limit cat output)" "$(cat "$work/alone")" "an answer beside them"
	for i in $(seq 24); do cmp "$work/want" "$work/score-$i" || fail "score $i"; done
	before=$(cat log)
	score "$text" >/dev/null
	same "$(cat log)" "$before" "the default session's log"
}
claim "several at once, during a conversation, have the same numbers as alone" beside

modes() {
	same "$(cat score)" "" "opened for reading"
	shell_fails_with "Invalid argument" "echo q > score"
	grep -q 'score: open it for reading and writing' error || fail "error: $(cat error)"
	same "$(score "")" "" "an empty text"
	ask='exec 3<>"$0"; cat >&3; cat <&3'
	same "$(echo "$text" | sh -c "$ask" score)" "$(score "$text")" sh
	if command -v fish >/dev/null; then
		same "$(fish -c "echo '$text' | sh -c '$ask' score")" "$(score "$text")" fish
	fi
}
claim "read-only is empty, write-only EINVAL; a shell without <> has sh do it" modes

refused() {
	fails_with "Input/output error" bash -c 'exec 3<>score; printf "caf\xff\n" >&3; cat <&3'
	grep -q "/score: .*UTF-8" ../error || fail "error: $(cat ../error)"
	context=$(cat info/context)
	fails_with "Input/output error" bash -c 'exec 3<>score; seq -s" " '"$context"' >&3; cat <&3'
	grep -q "/score: the text is [0-9]* tokens, but the context holds $context; .*-o context=" ../error || fail "error: $(cat ../error)"
	most=$(cat info/max_prompt_bytes)
	fails_with "File too large" bash -c 'exec 3<>score; head -c '$((most + 1))' /dev/zero >&3'
	same "$(score "$text" | tail -2)" "$(tail -2 "$work/want")" "and goes on"
}
claim "invalid text, and text longer than the context, is refused with a reason" refused

# Half the context, and nothing is computed while a turn pauses: all of them wait.
long() { seq -s' ' $(($(cat info/context) / 6)); }
stops() {
	mkdir sessions/held && (cd sessions/held && begin_long 0) || exit
	until_stands
	for i in 1 2 3 4; do (exec 3<>score && long >&3 && exec env --default-signal=INT cat <&3 >"$work/out-$i") & readers[i]=$!; done
	reader=${readers[4]}
	until_true is_cat || fail "cat score did not begin: $name"
	reads $reader
	kill -INT $reader
	wait $reader
	same $? 130 "the reader's status"
	(cd sessions/held && end_long) && rmdir sessions/held || exit
	for i in 1 2 3; do wait ${readers[i]} || fail "reader $i"; done
	grep -q '^perplexity' "$work/out-1" && cmp "$work/out-1" "$work/out-2" && cmp "$work/out-1" "$work/out-3" || fail "the others"
	! grep -q '^perplexity' "$work/out-4" || fail "it came to its end"
}
claim "a reader can be interrupted, and closing ends the work, while others go on" stops

# ---- logprobs.jsonl ----

params=sessions/default/params
logprobs=sessions/default/logprobs.jsonl
likely() {
	echo "What is the capital of France?" > prompt
	same "$(timeout $limit cat $logprobs)" "" "without params/logprobs"
	idle
	echo 2 > $params/logprobs
	said=$(ask "What is the capital of France?")
	python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert all(l["logprob"] <= 0 and len(l["top_logprobs"]) == 2 and l["top_logprobs"][0]["id"] == l["id"] for l in lines)
assert "".join(l["token"] for l in lines if not l["token"].startswith("<|")) == sys.argv[1]' "$said" <$logprobs || fail "$(cat $logprobs)"
	same "$(wc -l <$logprobs)" "$(awk '$1 == "output_tokens" {print $2}' stats)" "lines"
	same "$(stat -c %s $logprobs)" "$(cat $logprobs | wc -c)" "its size"
	same "$(stat -c %a $logprobs)" 600 "its mode"
	shell_fails_with "Numerical result out of range" "echo 21 > $params/logprobs"
	echo auto > $params/logprobs
	echo "What is 1 plus 1?" > prompt
	same "$(timeout $limit cat $logprobs)" "" "switched off again"
}
claim "logprobs.jsonl has a line for each token of the answer" likely

grows() {
	mkdir sessions/g && cd sessions/g || exit
	echo 1 > params/logprobs
	begin_long 60
	timeout $limit python3 - <<'PY'
import json, os, select
f = os.open("logprobs.jsonl", os.O_RDONLY | os.O_NONBLOCK)
text, again = b"", 0
p = select.poll(); p.register(f, select.POLLIN)
while text.count(b"\n") < 8:
    assert p.poll(1000 * int(os.environ["limit"])), "nothing"
    try:
        piece = os.read(f, 65536)
        assert piece.endswith(b"\n") or len(piece) == 65536, "a line in pieces"
        text += piece
    except BlockingIOError:
        again += 1
        assert again < 1000, "poll says ready and is not"
for line in text.split(b"\n")[:8]: json.loads(line)
assert open("status").read().strip() in ("generating", "queued"), "the turn is over"
PY
	local ended=$?
	end_long
	cd .. && rmdir g
	same $ended 0 "python's status"
}
claim "it grows with the answer, line by line, and poll tells when" grows

weighs() {
	echo 8 > $params/max_tokens
	said=$(ask "What is the capital of France?")
	echo reset > ctl
	exec 3<>tokenizer/encode
	echo "$said" >&3
	first=$(head -1 <&3)
	exec 3>&-
	echo "$first -100" > $params/logit_bias || fail "not taken"
	same "$(cat $params/logit_bias)" "$first -100"
	other=$(ask "What is the capital of France?")
	differ "$other" "$said" "a banned token's answer"
	printf '5 1\n6 -2.5\n' > $params/logit_bias
	same "$(cat $params/logit_bias)" "5 1
6 -2.5"
	shell_fails_with "Invalid argument" "echo 5 | dd of=$params/logit_bias"
	shell_fails_with "Invalid argument" "echo 5 much | dd of=$params/logit_bias"
	shell_fails_with "Numerical result out of range" "echo 5 101 | dd of=$params/logit_bias"
	echo 999999 1 > $params/logit_bias # a shell does not look at close
	grep -q 'none with the id 999999' error || fail "error: $(cat error)"
	same "$(cat $params/logit_bias)" "5 1
6 -2.5" "after what was refused"
	echo > $params/logit_bias && same "$(cat $params/logit_bias)" "" "cleared"
	echo reset > ctl
	same "$(ask "What is the capital of France?")" "$said" "without it"
	shell_fails_with "Numerical result out of range" "echo 2.5 > $params/presence_penalty"
	echo 2 > $params/frequency_penalty && same "$(cat $params/frequency_penalty)" 2
	echo auto > $params/frequency_penalty && same "$(cat $params/frequency_penalty)" 0
}
claim "logit_bias bans a token, and refuses wrong values with a reason" weighs

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	cd / && unmounted
	chmod 755 "$work"
	mounted -o allow_other
	loaded
	other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
	theirs() {
		same "$(other bash -c 'exec 3<>score; echo "The capital of France is Paris." >&3; cat <&3')" "$(cat "$work/want")"
		fails_with "Permission denied" other cat sessions/default/logprobs.jsonl
		fails_with "Input/output error" other bash -c 'exec 3<>score; printf "caf\xff\n" >&3; cat <&3'
		other grep -q "/score: " ../error || fail "their error: $(other cat ../error)"
		same "$(setpriv --reuid=65533 --regid=65533 --clear-groups cat ../error)" "" "a third user's"
	}
	claim "another user scores, and his errors are his" theirs
else
	echo "ok another user # skip: only root can try being two users"
fi
finish
