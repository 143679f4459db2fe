#!/usr/bin/env bash
# Where a model's chat template comes from, what -o template= does, what works without a usable template, and what
# happens to a conversation that is longer than the context.
. "$(dirname "$0")/lib.sh"

# The demonstration model with another template of its own.
with_template() { # TEMPLATE
	MODEL=$work/other m=$mnt/other
	rm -rf "$MODEL"
	mkdir "$MODEL" && ln -s "$root"/examples/models/fable-moe-15m/* "$MODEL" && rm "$MODEL/chat_template.jinja" || exit
	echo "$1" >"$MODEL/chat_template.jinja"
}
short='{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}'

own() {
	same "$(cat info/template)" "chat_template.jinja"
	same "$(ask "What is the capital of France?")" "The capital of France is Paris."
	same "$(cat rendered)" "<|im_start|>user
What is the capital of France?<|im_end|>
<|im_start|>assistant
The capital of France is Paris.<|im_end|>
<|im_start|>assistant" rendered
	shell_fails_with "Invalid argument" "echo on > sessions/default/params/thinking"
	grep -q "does not use enable_thinking" ../error || fail "error says: $(cat ../error)"
	same "$(cat sessions/default/params/thinking)" default
}
mounted
loaded
claim "a model's own template writes its conversations, and what it never reads is refused" own
cd / && unmounted

broken() {
	case $(cat info/template) in
	"unusable: chat_template.jinja line 1"*) ;;
	*) fail "info/template says: $(cat info/template)" ;;
	esac
	echo "What is the capital of France?" > prompt
	fails_with "Input/output error" cat output
	grep -q "template=FILE" error || fail "error says: $(cat error)"
	same "$(cat sessions/default/messages.json)" "[]" messages
	echo off > sessions/default/params/chat
	ask "Once upon a time" >/dev/null || fail "no answer without chat"
}
with_template '{% if %}'
mounted
loaded
claim "an invalid template is reported in its file, and the model stays mounted" broken
cd / && unmounted

replaced() {
	same "$(cat info/template)" "$work/given.jinja"
	same "$(ask "What is the capital of France?")" "The capital of France is Paris."
}
echo "$short" >"$work/given.jinja"
cd "$work" && mounted -o template=given.jinja
loaded
claim "-o template= replaces a broken one" replaced
cd / && unmounted

refused_at_mount() {
	echo '{% for %}' >"$work/bad.jinja"
	for file in bad.jinja none.jinja; do
		fails_with "$work/$file" timeout $limit "$MOEFS" -o "store=$store,template=$work/$file" "$MODEL" "$mnt"
	done
}
claim "a given template that is invalid or missing is refused at mount" refused_at_mount

full() {
	local dropped=0 i
	for i in $(seq 8); do
		same "$(ask "What is the capital of France?")" "The capital of France is Paris." "turn $i"
		dropped=$((dropped + 0$(sed -n 's/^dropped_turns //p' stats)))
	done
	[ $dropped -gt 0 ] || fail "no turn was dropped"
	grep -q "^(the context is full: without the oldest " log || fail "the log does not say it"
	same "$(grep -c '"user"' sessions/default/messages.json)" $((8 - dropped)) "turns left"
	local turns=$(sed '1d;$d' messages.json)
	printf '[%s,\n%s,\n%s,\n{"role": "user", "content": "What is 12 x 6?"}]\n' "$turns" "$turns" "$turns" > messages.json
	echo answer > ctl
	shell_fails_with "Input/output error" "cat output"
	grep -q "echo drop-oldest > params/on_full" error || fail "error says: $(cat error)"
	echo reset > ctl
	echo error > sessions/default/params/on_full
	for i in 1 2 3 4 5 6; do ask "What is the capital of France?" >/dev/null 2>&1 || break; done
	[ $i -lt 6 ] || fail "it was never full"
	grep -q "echo drop-oldest > params/on_full" error || fail "error says: $(cat error)"
}
MODEL=$root/examples/models/fable-moe-15m m=$mnt/fable-moe-15m
mounted -o context=96
loaded
claim "a full context is an error with a reason, or drops the oldest turns and says so" full
finish
