#!/usr/bin/env bash
# tokenizer/encode and decode: from text to ids and back, for each open file by itself, without weights.
. "$(dirname "$0")/lib.sh"
one=$MODEL name=$(basename "$MODEL")
mkdir "$work/models" && ln -s "$one" "$work/models/$name"
mkdir "$work/models/broken" && cp "$one"/* "$work/models/broken/"
MODEL=$work/models m=$mnt
mounted # a folder of models: none is loaded before it is asked
MODEL=$one m=$mnt/$name
cd "$m" || exit 1
echo "{" >"$work/models/broken/tokenizer.json" # it was whole when it was mounted

encode() { # TEXT: its ids, in a line
	exec 3<>tokenizer/encode
	printf '%s\n' "$1" >&3 || fail "the text is refused"
	timeout $limit cat <&3 | tr '\n' ' '
	exec 3>&-
}
decode() { # IDS: their text
	exec 3<>tokenizer/decode
	echo "$1" >&3 || fail "the ids are refused"
	timeout $limit cat <&3
	exec 3>&-
}

both() {
	ids=$(encode "What is the capital of France?")
	[ "$(wc -w <<<"$ids")" -gt 4 ] || fail "ids: $ids"
	same "$(decode "$ids")" "What is the capital of France?"
	same "$(decode "$(tr ' ' '\n' <<<"$ids")")" "What is the capital of France?" "one a line"
}
claim "encode gives the ids of a text, and decode their text" both
claim "nothing was loaded for it" same "$(cat info/state)" unloaded
claim "no expert was read" same "$(awk '$1 == "bytes_read" {print $2}' ../cache/stats)" 0

again() {
	exec 3<>tokenizer/encode
	for text in "one" "one two" "one two three"; do
		echo "$text" >&3 || fail "$text is refused"
		ids=$(timeout $limit cat <&3) || fail "cat"
		same "$ids" "$(encode "$text" | tr ' ' '\n')" "$text"
		same "$(timeout $limit cat <&3)" "" "after the end"
	done
	echo "in lines" >&3
	lines=
	while IFS= read -r -t $limit id <&3; do lines+="$id "; done
	same "$lines" "$(encode "in lines")" "bash's read"
	{ printf 'in '; printf 'pieces\n'; } >&3
	same "$(timeout $limit cat <&3 | tr '\n' ' ')" "$(encode "in pieces")" "in pieces"
	exec 3>&-
}
claim "an open file takes text after text, in pieces and read line by line" again

broken() { # a broken model is in the tree, and a question reports the reason
	fails_with "Invalid argument" bash -c 'exec 3<>../broken/tokenizer/encode; echo one >&3; cat <&3'
	grep -q "broken.*tokenizer.json" ../error || fail "error: $(cat ../error)"
	fails_with "Invalid argument" bash -c 'exec 3<>../broken/tokenizer/decode; echo 1 >&3; cat <&3'
}
claim "a tokenizer that cannot be read is reported" broken

special() {
	same "$(encode '<|im_start|>' | wc -w)" 1 "a special token"
	same "$(decode "$(encode 'a<|im_end|>b')")" 'a<|im_end|>b'
	same "$(encode 'x y')" "$(encode x)$(encode ' y')" "nothing is put before a text"
}
claim "special tokens spelled in a text are encoded as such, and decoded again" special

whole() { # the same bytes come back: newlines at the end, empty lines, bytes beyond ASCII
	timeout $limit python3 - <<'PY' || fail python
import os, random
random.seed(3)
parts = ["the ", "fox", "\n", "\n\n", "  ", "\t", "é", "ü", "日本", "🦊", "'ll", "1234", "<|im_end|>", "\r\n", "{", "\\n"]
e, d = os.open("tokenizer/encode", os.O_RDWR), os.open("tokenizer/decode", os.O_RDWR)
def ask(f, data):
    os.write(f, data)
    got = b""
    while piece := os.read(f, 1 << 16): got += piece
    return got
for turn in range(200):
    text = "".join(random.choices(parts, k=random.randrange(1, 60))).encode()
    ids = ask(e, text + b"\n")
    assert all(line.isdigit() for line in ids.split()), ids
    assert ask(d, ids) == text + b"\n", (text, ids)
PY
}
claim "encoded text is decoded to the same bytes" whole

beside() {
	seq 40 | xargs -P 8 -I% bash -c 'exec 3<>tokenizer/encode; echo "What is % plus 1?" >&3; echo %: $(cat <&3)' >"$work/lines"
	for i in $(seq 40); do
		grep -qxF "$i: $(echo $(encode "What is $i plus 1?"))" "$work/lines" || fail "$i: $(grep "^$i:" "$work/lines")"
	done
	exec 3<>tokenizer/encode 4<>tokenizer/encode
	echo one >&3 && echo two >&4
	same "$(timeout $limit cat <&4 | tr '\n' ' ')" "$(encode two)" "the second"
	same "$(timeout $limit cat <&3 | tr '\n' ' ')" "$(encode one)" "the first"
	exec 3>&- 4>&-
}
claim "several at once do not mix" beside

fish_does() {
	ids=$(encode "What is 7 plus 1?" | tr ' ' '\n')
	ask='exec 3<>"$0"; cat >&3; cat <&3'
	same "$(echo "What is 7 plus 1?" | sh -c "$ask" tokenizer/encode)" "$ids" sh
	if command -v fish >/dev/null; then
		same "$(fish -c "echo 'What is 7 plus 1?' | sh -c '$ask' tokenizer/encode")" "$ids" fish
	fi
}
claim "a shell without <> has sh do it" fish_does

modes() {
	same "$(cat tokenizer/encode)" "" "opened for reading"
	same "$(cat tokenizer/decode)" "" "opened for reading"
	shell_fails_with "Invalid argument" "echo q > tokenizer/encode"
	grep -q 'encode: open it for reading and writing' error || fail "error: $(cat error)"
	same "$(encode "")" "" "an empty text"
	same "$(decode " ")" "" "no ids"
	same "$(stat -c '%a %s' tokenizer/encode)" "666 0"
}
claim "read-only is empty, write-only EINVAL" modes

refused() {
	fails_with "Invalid or incomplete multibyte" bash -c 'exec 3<>tokenizer/encode; printf "caf\xff\n" >&3; cat <&3'
	grep -q "UTF-8" error && grep -q "3" ../error || fail "error: $(cat error) $(cat ../error)"
	fails_with "Invalid argument" bash -c 'exec 3<>tokenizer/decode; echo 1 2x >&3; cat <&3'
	grep -q 'decode: "2x" is not a token' error || fail "error: $(cat error)"
	fails_with "Invalid argument" bash -c 'exec 3<>tokenizer/decode; echo -1 >&3; cat <&3'
	for id in 999999 4294967295 4294967296 99999999999999999999999; do
		fails_with "out of range" bash -c "exec 3<>tokenizer/decode; echo 1 $id >&3; cat <&3"
		grep -q "no token $id; its largest is" error || fail "error: $(cat error)"
	done
	same "$(bash -c 'exec 3<>tokenizer/decode; echo x >&3; cat <&3 2>/dev/null; echo 72 >&3; cat <&3')" "$(decode 72)" "and goes on"
	same "$(cat error)" "" "what was accepted clears it"
}
claim "invalid text and invalid ids are refused with a reason" refused

# A text that keeps a worker busy for seconds. What happens meanwhile is tried again if the test was stopped for longer: the text
# was encoded before.
tries=5
big() { yes "It's 1234 times what they'd say: the fox, the mill, and the small engine's night. é 🦊" | head -c "$1"; }
big 40000000 >"$work/big"
meanwhile() { # COMMAND…: it succeeds, at one of the tries, before a long text is encoded, whose reader is then interrupted
	local i status=none
	for i in $(seq $tries); do
		begin_encoding "$work/ids"
		"$@"
		[ -s "$work/ids" ] || kill -INT $reader 2>/dev/null
		wait $reader
		status=$?
		[ $status != 130 ] || return 0
	done
	fail "it came when the text was encoded, not before; the reader's status: $status"
}
begin_encoding() { # OUT [SAID]: a reader of the long text, which waits or has got the ids already
	: >"$1"
	(exec 3<>tokenizer/encode && cat "$work/big" >&3 && exec env --default-signal=INT LC_ALL=C cat <&3 >"$1" 2>"${2:-/dev/null}") &
	reader=$!
	until_true_by $reader is_cat_in_read $reader || ! alive $reader || fail "nobody waits"
}
is_cat_in_read() { # in a subshell, which the process's end fails
	[ "$(cat "/proc/$1/comm" 2>/dev/null)" = cat ] && (is_in_read "$1" encode) >/dev/null
}
looks() {
	local i
	for i in 1 2 3; do ls -l . .. >/dev/null && cat status ../version >/dev/null || fail look; done
}
stays_awake() {
	meanwhile looks
	same "$(encode "one")" "$(encode "one")" "after it"
}
claim "a long text holds up nobody, and its reader can be interrupted" stays_awake

interrupted() { # and a later read gets the answer
	timeout $limit python3 - "$work/big" $tries <<'PY' || fail python
import os, select, sys
sys.path.insert(0, os.environ["here"])
import waiting
f = os.open("tokenizer/encode", os.O_RDWR)
text = open(sys.argv[1], "rb").read()[:20000000]
for _ in range(int(sys.argv[2])):
    for at in range(0, len(text), 1 << 20): os.write(f, text[at:at + (1 << 20)])
    if waiting.interrupted(lambda: os.read(f, 100)): break
    while os.read(f, 1 << 20): pass # it was encoded before
else: sys.exit("read")
try:
    os.write(f, b"more")
    sys.exit("written")
except OSError as e:
    assert e.errno == 16, e # EBUSY
p = select.poll()
p.register(f, select.POLLIN)
assert p.poll(1000 * int(os.environ["limit"])), "poll"
lines = b""
while piece := os.read(f, 1 << 20): lines += piece
ids = lines.split()
assert len(ids) > 1000000, len(ids)
d = os.open("tokenizer/decode", os.O_RDWR)
for at in range(0, len(lines), 1 << 20): os.write(d, lines[at:at + (1 << 20)])
back = b""
while piece := os.read(d, 1 << 20): back += piece
assert back == text.rstrip(b"\n") + b"\n" or back == text + b"\n"
PY
}
claim "an interrupted read is read on by the next, and poll tells when it is there" interrupted

ends() { # the mount ends while a worker is busy
	local i
	for i in $(seq $tries); do
		[ $i = 1 ] || mounted
		begin_encoding "$work/ids" "$work/said"
		cd / && kill -TERM "$daemon" || fail kill
		if ! wait $reader; then
			grep -q "Input/output error" "$work/said" || fail "it was told: $(cat "$work/said")"
			return 0
		fi
		unmounted
	done
	fail "the reader got an answer"
}
claim "waiters are told when the mount ends" ends
cd / && unmounted

# ---- other users, and the bound on unread answers ----

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$work"
	mounted -o allow_other,context_budget=1M,context=512
	other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
	theirs() {
		same "$(other bash -c 'exec 3<>tokenizer/encode; echo "one two" >&3; cat <&3 | tr "\n" " "')" "$(encode "one two")"
		fails_with "Invalid argument" other bash -c 'exec 3<>tokenizer/decode; echo secret >&3; cat <&3'
		other grep -q secret ../error || fail "their error: $(other cat ../error)"
		! grep -q secret error || fail "the default session's error tells of another's"
	}
	claim "another user encodes, and his errors are his" theirs
	bounded() { # all users together may have 512 KiB, so a larger answer is not kept
		fails_with "No space left" bash -c 'exec 3<>tokenizer/encode; seq -s" " 40000 | head -c 200000 >&3; cat <&3'
		grep -q "encode: .* may take 0.52 MB" error || fail "error: $(cat error)"
		fails_with "No space left" bash -c 'exec 3<>tokenizer/encode; head -c 1000000 /dev/zero >&3'
		[ "$(encode "one" | wc -w)" -gt 0 ] || fail "it does not go on"
	}
	claim "a text's derived files are bounded as the text is" bounded
	cd / && unmounted
else
	echo "ok another user # skip: only root can try being two users"
fi

# ---- a vocabulary of 152 thousand ----

published=${MOEFS_TESTDATA:-$root/../shared}/tokenizers
if [ -d "$published/qwen3" ] && command -v zstd >/dev/null; then
	mkdir -p "$work/large"
	cp "$MODEL"/config.json "$MODEL"/*.safetensors "$work/large/"
	cp "$published/qwen3/tokenizer_config.json" "$work/large/"
	for file in vocab.json merges.txt; do zstd -qdc "$published/qwen3/$file.zst" >"$work/large/$file"; done
	MODEL=$work/large m=$mnt/large
	mounted
	pairs() {
		timeout $limit python3 - "$published/pairs/ggml-vocab-qwen2.gguf" <<'PY' || fail python
import os, sys
texts = open(sys.argv[1] + ".inp", "rb").read().split(b"\n__ggml_vocab_test__\n")
lines = open(sys.argv[1] + ".out").read().split("\n")
assert len(texts) == 47
f = os.open("tokenizer/encode", os.O_RDWR)
for text, want in zip(texts, lines):
    if not text.strip(b"\n") and len(text) < 1: continue # asks for nothing
    os.write(f, text + b"\n")
    got = b""
    while piece := os.read(f, 1 << 16): got += piece
    assert got.split() == want.encode().split(), (text, got.split(), want)
PY
	}
	claim "the ids of a published vocabulary equal those of other programs" pairs
	complete
	reads_expert() {
		local expert
		expert=$(find experts -path 'experts/[0-9]*/*' -type f | tail -1)
		[ "$(wc -c <"$expert")" -gt 0 ] && cat "$expert" >/dev/null || fail "$expert"
	}
	held_up() { # long texts wait for each other, but readers of files do not wait for them
		local i status readers
		for i in $(seq $tries); do
			readers=() status=
			for k in 1 2 3 4; do begin_encoding "$work/ids-$k" && readers+=($reader); done
			reads_expert
			[ -n "$(find "$work" -name 'ids-*' -size +0)" ] || kill -INT "${readers[@]}" 2>/dev/null
			for reader in "${readers[@]}"; do wait $reader; status+="$? "; done
			[ "$status" != "130 130 130 130 " ] || break
		done
		same "$status" "130 130 130 130 " "it was read when a text was encoded, not before; the readers' status"
		[ "$(encode "one" | wc -w)" -gt 0 ] || fail "it does not go on"
	}
	claim "an expert is read while long texts are encoded" held_up
	cd / && unmounted
else
	echo "ok a published vocabulary # skip: no tokenizers in $published, or no zstd"
fi
finish
