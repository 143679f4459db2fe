#!/usr/bin/env bash
# A tokenizer whose split pattern takes far too long: a turn with it fails with a reason, and it can be ended
# meanwhile by `stop` and by an unmount.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "no python3, which changes the model's files"

# The model's files with this pattern, and room for a prompt of megabytes.
with_pattern() { # FOLDER PATTERN
	mkdir "$1" && cp "$MODEL"/* "$1" && chmod u+w "$1"/*
	python3 - "$1" "$2" <<-'END'
		import json, sys
		folder, pattern = sys.argv[1:]
		def change(file, how):
		    path = folder + '/' + file
		    value = json.load(open(path))
		    how(value)
		    json.dump(value, open(path, 'w'))
		def positions(config):
		    config['max_position_embeddings'] = 1 << 22
		def split(tokenizer):
		    tokenizer['pre_tokenizer'] = {'type': 'Sequence', 'pretokenizers': [
		        {'type': 'Split', 'pattern': {'Regex': pattern}, 'behavior': 'Isolated', 'invert': False},
		        {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}]}
		change('config.json', positions)
		change('tokenizer.json', split)
	END
}
letters() { # BYTES
	head -c "$1" /dev/zero | tr '\0' a
}
ends_in_words() {
	letters 200000 >prompt && fails_with "Input/output error" cat output
	grep -q 'tokenizer.json: its split pattern takes too long' error || fail "$(cat error)"
}
is_stopped() {
	letters 60000000 >prompt && echo stop >ctl && same "$(cat wait)" stopped
}
ends_with_the_mount() {
	letters 60000000 >"$m/prompt"
	fusermount3 -u "$mnt" || kill -TERM "$daemon"
	until_true not alive "$daemon" || fail "the daemon goes on"
}

# Even one search of this pattern would take minutes in such a prompt.
with_pattern "$work/slow" '(?:a|aa)+[cd]|a'
MODEL=$work/slow m=$mnt/slow
mounted -o context=4194304
loaded
claim "a split pattern that takes too long ends the turn with an error that names its file" ends_in_words
claim "stop ends a turn that is being tokenized" is_stopped
cd /
claim "the daemon does not go on tokenizing when it is to end" ends_with_the_mount
finish
