#!/bin/bash
# The scripted model (tests/scripted) answers exactly as its script says: several prompts, several turns, a long answer, in
# the exact recipe and in the default one.
. "$(dirname "$0")/lib.sh"

long=$(for i in $(seq 60); do printf '%s. The fox number %s sees %s birds.\n' "$i" "$((i * 7))" "$((i * i))"; done)
jq -n --arg long "$long" --arg gen '<|im_end|>
<|im_start|>assistant
' '[
	{after: ("Please tell me: what is your name?" + $gen), say: "I am what the script says: \"Ada\", with {braces} and \\n."},
	{after: ("And now tell me: how are you?" + $gen), say: "Well, well, well, well: I am well."},
	{after: ("And now tell me: how old are you?" + $gen), say: "Older than Ada."},
	{after: ("And a long one, please." + $gen), say: $long}]' >"$work/script.json"
fable=$MODEL
scripted "$work/script.json"

says() { same "$(ask "$1")" "$2" "$1"; }
said() {
	says "Please tell me: what is your name?" 'I am what the script says: "Ada", with {braces} and \n.'
	says "And now tell me: how are you?" "Well, well, well, well: I am well."
	says "And now tell me: how old are you?" "Older than Ada."
	says "Please tell me: what is your name?" 'I am what the script says: "Ada", with {braces} and \n.'
	echo 0 > params/max_tokens
	says "And a long one, please." "$long"
	says "Is anything else in the script?" ""
	same "$(awk '$1 == "finish" { print $2 }' stats)" end
	echo 1 > params/temperature
	says "And now tell me: how are you?" "Well, well, well, well: I am well."
}
in_session() { # NAME: a fresh conversation
	mkdir "sessions/$1" && cd "sessions/$1" && echo auto > params/max_tokens && "$1" && cd ../.. && rmdir "sessions/$1"
}
mounted
loaded
claim "in the default recipe each prompt gets its text, turn after turn" in_session said
cd /
unmounted
mounted -o exact
loaded
claim "so it does in the exact one" in_session said

cd /
unmounted
others_tokenizer() { # TOKENIZER_DIR
	jq -n '[{after: "Which words, though?<|im_end|>\n<|im_start|>assistant\n", say: "Zwölf Boxkämpfer — “jagen” 東京 🦊 <think> and </think>."}]' \
		>"$work/other.json"
	scripted "$work/other.json" "$1" "$fable/chat_template.jinja"
	mounted
	loaded
	echo auto > sessions/default/params/max_tokens
	same "$(ask "Which words, though?")" "Zwölf Boxkämpfer — “jagen” 東京 🦊 <think> and </think>."
	cd /
	unmounted
}
qwen=${MOEFS_TESTDATA:-$root/../shared}/tokenizers/qwen3
other="so it does with a tokenizer of 151,669 tokens"
if [ -d "$qwen" ] && command -v zstd >/dev/null; then
	mkdir "$work/qwen" && cp "$qwen"/*.json "$work/qwen" && for f in vocab.json merges.txt; do
		zstd -dqc "$qwen/$f.zst" >"$work/qwen/$f"
	done
	claim "$other" others_tokenizer "$work/qwen"
else
	echo "ok $other # skip: no zstd, or no $qwen"
fi

refused() {
	jq -n '[range(2)|{after: "<|im_start|>assistant\n", say: "Say \(.)."}]' >"$work/clash.json"
	fails_with "entry 2 of the script says something else at token" \
		"$(dirname "$MOEFS")/scripted" "$work/clash" "$work/clash.json" "$fable"
}
claim "a script that says two things after the same words is refused" refused
finish
