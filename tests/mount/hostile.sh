#!/bin/bash
# Prompts that are no text, and names with any byte: each is refused with a reason or taken as it is, and the tree goes on.
. "$(dirname "$0")/lib.sh"
mounted
loaded

answers() { # the requests before have broken nothing
	[ -n "$(ask "What is 1 plus 1?")" ] || fail "no answer afterwards"
}
huge() { # the write that makes it too long fails
	head -c 100M /dev/zero | tr '\0' x | timeout $limit dd of=prompt bs=128K 2>"$work/errors" && fail "100 MB were taken"
	grep -q "File too large" "$work/errors" || fail "$(cat "$work/errors")"
	[ "$(grep -o '^[0-9]* bytes' "$work/errors" | cut -d ' ' -f 1)" -le "$(cat info/max_prompt_bytes)" ] || fail "it took more than it may"
	grep -q "prompt: the text is too long, and was not submitted; at most $(cat info/max_prompt_bytes) bytes" error || fail "error: $(cat error)"
	timeout $limit cat output >/dev/null 2>&1
	answers
}
claim "a prompt of 100 MB is refused before it is all there" huge

zeros() { # a zero byte is a character like any other
	head -c 1000 /dev/zero >prompt
	timeout $limit cat output >/dev/null || fail "output: $? $(cat error)"
	same "$(cat prompt | tr -d '\n' | wc -c)" 1000
	answers
}
claim "a prompt of zeros is one" zeros

invalid() {
	printf 'caf\351' >prompt
	timeout $limit cat output >/dev/null 2>&1 && fail "it was answered"
	grep -q "UTF-8" error || fail "error: $(cat error)"
	answers
}
claim "a prompt in Latin-1 is refused with a reason" invalid

names() {
	local name
	for name in "a name with spaces" "-n" "--help" '$(reboot)' '`id`' "quo'te\"s" '*' '?[a-z]' 'back\slash' "日本語" "ünï" \
		"$(printf 'a%.0s' {1..255})" '...' '~' '#' 'a;b|c&d' "NAME" "LL"; do
		mkdir -- "sessions/$name" || fail "mkdir '$name'"
		echo 5 >"sessions/$name/params/max_tokens" && echo "What is 1 plus 1?" >"sessions/$name/prompt" || fail "prompt of '$name'"
		timeout $limit cat "sessions/$name/output" >/dev/null || fail "output of '$name'"
		find sessions -maxdepth 1 -mindepth 1 ! -name default -printf '%f\0' | grep -qzxF -- "$name" || fail "'$name' is not listed"
		mv -- "sessions/$name" sessions/plain && mv sessions/plain "sessions/$name" || fail "mv '$name'"
		rm -rf -- "sessions/$name"
		[ ! -e "sessions/$name" ] || fail "rm '$name'"
	done
	for name in "$(printf 'a%.0s' {1..256})" "$(printf 'new\nline')" "$(printf 'bell\a')" "$(printf 'lat\351in')"; do
		mkdir -- "sessions/$name" 2>"$work/errors" || continue
		rmdir -- "sessions/$name" || fail "made, and not to be removed: '$name'"
	done
	same "$(ls sessions)" default
}
claim "sessions are called anything that a folder may be called" names
finish
