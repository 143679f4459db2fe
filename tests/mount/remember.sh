#!/usr/bin/env bash
# -o remember=: an answer is given again without computing, in this mount and the next; its file is plain text for its
# owner alone; other users have their own; a folder that is full, foreign or gone never fails a turn.
. "$(dirname "$0")/lib.sh"
chmod 755 "$work"
kept=$work/kept
options=remember=$kept,temperature=0,max_tokens=24
[ "$(id -u)" = 0 ] && options+=,allow_other
mounted -o "$options"
loaded
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
value() { sed -n "s/^$2 //p" "$1"; }
question="What is the capital of France?"
answer="The capital of France is Paris."
again() { # the same conversation anew
	echo reset >ctl
	same "$(ask "$question")" "$answer" && value stats remembered
}

remembers() {
	local before
	same "$(again)" "" "nothing was asked before"
	before=$(cat ../cache/stats)
	same "$(again)" yes
	same "$(value stats finish) $(value stats cached_tokens)" "end $(value stats prompt_tokens)"
	grep -qx "found_in remembered" why || fail "$(cat why)"
	same "$(value ../cache/stats hits)" "$(sed -n 's/^hits //p' <<<"$before")" "experts were used"
	same "$(jq -r .remembered stats.json)" yes
	same "$(jq -r '.[1].content' messages.json)" "$answer"
	echo "$question" >ask.d/it && same "$(cat ask.d/it)" "$answer"
	[ "$(value ../cache/stats turns_remembered)" = 2 ] || fail "$(cat ../cache/stats)"
}
claim "the same question is answered without computing" remembers

shows() {
	local file
	same "$(stat -c %a "$kept" "$kept"/*)" "$(printf '700\n700')"
	same "$(ls "$kept")" "$(id -u)"
	file=$(ls "$kept"/*/*)
	same "$(stat -c %a "$file")" 600
	grep -q "$question" "$file" && grep -qx "$answer" "$file" || fail "$(cat "$file")"
	same "$(value ../cache/stats remember_used)" "$(stat -c %s "$file")"
	same "$(value ../cache/stats remember)" 1073741824
}
claim "an answer is a file of plain text for its owner" shows

keeps_not() {
	echo random >sessions/default/params/seed
	echo 1 >sessions/default/params/temperature
	again >/dev/null 2>&1
	same "$(value stats remembered)" ""
	echo 0 >sessions/default/params/temperature
	same "$(again)" yes "the seed does not count at temperature 0"
	echo 0.01 >sessions/default/params/drop_missing
	echo reset >ctl && ask "$question" >/dev/null
	same "$(value stats remembered)" "" "what depends on the cache"
	echo 0 >sessions/default/params/drop_missing
	same "$(ls "$kept"/* | wc -l)" 1
}
claim "what is no function of the question is not kept" keeps_not

# A file is written behind its answer: nobody but the next turn waits for it.
is_written() { [ -n "$(find "$1" -type f ! -name 'partial*' 2>/dev/null)" ]; } # FOLDER or FILE
others() {
	local theirs
	other mkdir sessions/theirs
	echo 0 | other tee sessions/theirs/params/temperature >/dev/null
	echo "$question" | other tee sessions/theirs/prompt >/dev/null
	same "$(other cat sessions/theirs/output)" "$answer"
	same "$(other cat sessions/theirs/stats | sed -n 's/^remembered //p')" "" "another user's answer was given"
	until_true is_written "$kept"/65534 || fail "theirs was not written"
	same "$(ls "$kept")" "$(printf '0\n65534')"
	theirs=$(ls "$kept"/65534/*)
	fails_with "Permission denied" other cat "$theirs"
	other rmdir sessions/theirs
}
if [ "$(id -u)" = 0 ]; then
	claim "other users have their own" others
else
	echo "ok other users have their own # skip: only root can be another user"
fi

unloaded() {
	local name=${m##*/} before
	before=$(ls "$kept/$(id -u)")
	complete # or each turn loads the model, to go on with its conversion
	echo "unload $name" >../ctl && ask "What is 4 x 4?" >/dev/null # by the store that this mount may have made
	same "$(value stats remembered) $(cat info/state)" " ready"
	echo "unload $name" >../ctl && same "$(cat info/state)" unloaded
	same "$(again)" yes
	same "$(cat info/state)" unloaded
	echo reset >ctl
	exec 3<>plan && echo "$question" >&3 && cat <&3 >"$work/plan"
	exec 3>&-
	same "$(value "$work/plan" kept_tokens) $(value "$work/plan" first_token_seconds)" "$(value "$work/plan" prompt_tokens) 0 0"
	same "$("$MOEFS" ask --plan "$m" "$question" | tail -n 1)" "remembered yes"
	same "$("$MOEFS" ask --plan "$m" "$question Or Spain?" | tail -n 1)" "remembered no"
	echo "$question" >ask.d/it && same "$(cat ask.d/it) $(cat info/state)" "$answer unloaded"
	echo "load $name" >../ctl && loaded
	(cd "$kept/$(id -u)" && ls | grep -vxF "$before" | xargs rm)
}
claim "no weights are loaded for it, and a plan foresees it" unloaded

survives() {
	local file
	file=$(ls "$kept/$(id -u)"/*)
	printf x | dd of="$file" bs=1 seek=60 conv=notrunc 2>/dev/null
	same "$(again)" "" "a damaged file was believed"
	same "$(again)" yes
	mv "$file" "$work/aside" && ln -s "$work/aside" "$file"
	same "$(again)" "" "a link was followed"
	until_true is_written "$file" || fail "it was not written again: $(ls -l "$file")" # or this came after the removal
	rm -rf "$kept"
	same "$(again)" "" "without the folder"
	until_true grep -q '^remember_failed ' ../cache/stats || fail "$(cat ../cache/stats)"
	same "$(value stats finish)" end
}
claim "a damaged file, a link, and a folder that is gone fail no turn" survives

nothing_partial() { [ -z "$(find "$kept" -name 'partial*')" ]; }
full() {
	unmounted
	mkdir "$work/small" && mount -t tmpfs -o size=8k tmpfs "$work/small" 2>/dev/null || {
		echo "no tmpfs can be mounted here"
		return 0
	}
	kept=$work/small
	mounted -o "remember=$kept,temperature=0,max_tokens=24" && loaded
	for i in $(seq 9); do
		echo reset >ctl && ask "What is $i x 7?" >/dev/null || fail "a turn failed"
	done
	until_true grep -q '^remember_failed .*No space' ../cache/stats || fail "$(cat ../cache/stats)"
	until_true nothing_partial || fail "left over: $(find "$kept" -name 'partial*')"
	cd / && unmounted
	umount "$work/small"
}
cd / || exit
if [ "$(id -u)" = 0 ]; then
	claim "a full disk fails no turn" full
else
	echo "ok a full disk fails no turn # skip: only root can mount a small one"
fi
unmounted

refuses() {
	echo x >"$work/file"
	fails_with "is not a folder" "$MOEFS" -o "remember=$work/file" "$MODEL" "$mnt"
	fails_with "cannot be made" "$MOEFS" -o "remember=$work/no/such" "$MODEL" "$mnt"
	if [ "$(id -u)" = 0 ]; then
		mkdir -p "$work/foreign" && chown 65534 "$work/foreign"
		fails_with "belongs to another user" "$MOEFS" -o "remember=$work/foreign" "$MODEL" "$mnt"
	fi
}
claim "a folder that cannot be used is refused in words" refuses

bisects() {
	local repository=$work/repository file
	unset MAKEFLAGS MFLAGS MAKELEVEL
	export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x
	git init -q "$repository" && cd "$repository" || fail "git init"
	for country in France Peru Chad; do echo "What is the capital of $country?" >$country.question; done
	git add . && git commit -qm "First questions" && git tag good
	for i in 1 2 3 4 5 6; do
		echo "What is $i x 6?" >"sum.question"
		[ $i != 4 ] || echo "What is the capital of Japan?" >France.question
		git add . && git commit -qm "Change $i"
	done
	timeout $limit "$root/examples/bisect.sh" "$m" France good >"$work/said" 2>"$work/errors" || fail "$(cat "$work/errors")"
	same "$(sed -n 1p "$work/said" | cut -d ' ' -f 2-)" "Change 4"
	# The capitals of Chad, Peru, France and Japan, and the sums of the commits that were tried.
	file=$(sed -n 2p "$work/said")
	[[ $file =~ ^([0-9]+)\ answers,\ of\ which\ ([0-9]+)\ were\ computed$ ]] || fail "$file"
	[ "${BASH_REMATCH[2]}" -le 8 ] && [ "${BASH_REMATCH[1]}" -ge 12 ] || fail "$file"
	same "$(git status --porcelain)$(git rev-parse --abbrev-ref HEAD)" "$(git rev-parse --abbrev-ref HEAD)"
}
kept=$work/answers
mounted -o "remember=$kept,temperature=0,max_tokens=24"
loaded
needs git needs make claim "examples/bisect.sh computes only what has changed" bisects

gateways() {
	for i in 1 2; do
		curl -sS --max-time "$limit" "$url/v1/chat/completions" -d '{"model": "fable-moe-15m", "temperature": 0, "messages":
			[{"role": "user", "content": "What is the capital of Iran?"}]}' >"$work/body.$i"
	done
	same "$(jq -c .usage.remembered "$work/body.1" "$work/body.2" | tr '\n' ' ')" "null true "
	same "$(jq -r '.choices[0].message.content' "$work/body.2")" "$(jq -r '.choices[0].message.content' "$work/body.1")"
	curl -sS --max-time "$limit" "$url/v1/messages" -d '{"model": "fable-moe-15m", "temperature": 0, "max_tokens": 20, "messages":
			[{"role": "user", "content": "What is the capital of Iran?"}]}' >"$work/body.3"
	curl -sS --max-time "$limit" "$url/v1/messages" -d '{"model": "fable-moe-15m", "temperature": 0, "max_tokens": 20, "messages":
			[{"role": "user", "content": "What is the capital of Iran?"}]}' >"$work/body.4"
	same "$(jq -c .usage.remembered "$work/body.4")" true
}
gateway
needs curl needs jq claim "the gateway's usage says so" gateways
gateway_over
apart() {
	local key body
	for key in one one two; do
		body=$(curl -sS --max-time "$limit" -H "Authorization: Bearer $key" "$url/v1/chat/completions" -d '{"model": "fable-moe-15m",
			"temperature": 0, "messages": [{"role": "user", "content": "What is the capital of Egypt?"}]}')
		jq -c .usage.remembered <<<"$body"
	done >"$work/said"
	same "$(tr '\n' ' ' <"$work/said")" "null true null "
}
printf 'one\ntwo\n' >"$work/keys" && chmod 600 "$work/keys"
gateway -o "key_file=$work/keys"
needs curl needs jq claim "each key of the gateway has its own" apart
gateway_over
finish
