#!/bin/bash
# A refused prompt: its writer is not given another prompt's answer, in any shell's idiom without &&; no other process is
# affected; and `error` says why, until a prompt is accepted.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded
model=$(basename "$MODEL")
seq 100000 >"$work/long" # more than max_prompt_bytes
[ "$(wc -c <"$work/long")" -gt "$(cat info/max_prompt_bytes)" ] || fail "info/max_prompt_bytes is $(cat info/max_prompt_bytes)"
for i in $(seq 99); do printf '%01000d\n' $i; done >"$work/wide"
export L=$work/long S=$work/wide

begin_session() { # a session of the claim's own, with an answer that must not be seen
	[ ! -e sessions/"$1" ] || rmdir sessions/"$1"
	mkdir sessions/"$1" && cd sessions/"$1" || exit
	answer=$(ask "What is the capital of France?") && [ -n "$answer" ] || fail "no answer"
}
end_session() { cd ../.. && rmdir sessions/"$(basename "$OLDPWD")"; }

# The reader of a refused prompt gets nothing of the last answer, but an error, with the reason in `error`.
told() { # PROGRAM…
	rm -f "$work/read"
	LC_ALL=C timeout $limit "$@" >"$work/read" 2>"$work/said"
	[ -n "$(tr -d '[:space:]' <"$work/read")" ] && fail "read: $(head -c 200 "$work/read"): $*"
	grep -qi "input/output error" "$work/said" || fail "said: $(cat "$work/said"): $*"
	grep -q "$model/sessions/.*prompt: " error || fail "error: '$(cat error)': $*"
	same "$(cat status)" done "status after: $*"
	same "$(cat output)" "$answer" "somebody else reads after: $*"
}

writers=( # of a text that is too long
	'cat $L > prompt'
	'cat < $L | cat > prompt'
	'head -c 500000 /dev/zero | tr "\\0" a > prompt'
	'{ echo Translate:; cat $L; } > prompt'
	'(cat $L) > prompt'
	'(cat $L > prompt)'
	'{ cat $L | cat; } > prompt'
	'cp $L prompt'
	'dd if=$L of=prompt bs=4096'
	'tee prompt < $L > /dev/null'
	'cat $L >> prompt'
	'cat $L | tee prompt > /dev/null'
	'while read -r x; do echo $x; done < $S > prompt'
	'exec 3> prompt; cat $L >&3; exec 3>&-'
)
readers=(
	'cat output'
	'cat < output'
	'cat output | cat'
	'read -r x < output; echo $x'
	'while read -r x; do echo $x; done < output'
	'x=$(cat output); echo $x'
	'x=$(cat output | tail -n 1); echo $x'
	'echo $(cat < output)'
	'head -n 1 output'
	'cat wait'
	'(cat output)'
	'{ cat output; } | cat'
	'sh -c "cat output"'
)
silent='exec 9>&2 2>/dev/null' loud='exec 2>&9' # what the write itself says is not the reader's
idioms() { # SHELL: each way to write with one way to read, and the other way round
	local i shell=$1
	command -v "$shell" >/dev/null || { echo "$shell is not installed"; return 0; }
	begin_session "$shell"
	for i in "${!writers[@]}"; do
		told "$shell" -c "$silent; ${writers[i]}; $loud; ${readers[i % ${#readers[@]}]}; true"
	done
	for i in "${!readers[@]}"; do
		told "$shell" -c "$silent; ${writers[i % 4]}; $loud; ${readers[i]}; true"
	done
	end_session
}
for shell in bash dash zsh; do
	if command -v $shell >/dev/null; then
		claim "$shell: what follows a prompt that is too long reads no other's answer" idioms $shell
	else
		echo "ok $shell's idioms # skip: $shell is not installed"
	fi
done

bash_only() {
	begin_session bash-only
	told bash -c 'cat $L > prompt; mapfile -t x < output; echo "${x[@]}"'
	told bash -c 'cat $L > prompt; x=$(< output); echo "$x"'
	told bash -c 'cat > prompt <<< "$(cat $L)"; cat output'
	told bash -c 'echo "$(cat $L)" > prompt; cat output'
	told bash -c 'cat $L > prompt; diff <(cat output) /dev/null'
	told bash -c 'f() { cat $L > prompt; }; f; cat output'
	told bash -c '{ echo Say:; cat $L; cat output >&2; } > prompt'
	told bash -c 'cat $L > prompt & wait; cat output'
	end_session
}
claim "mapfile, here-strings, functions and process substitution" bash_only

fishes() {
	begin_session fish
	told fish -c 'cat $L > prompt; cat output'
	told fish -c 'begin; echo Translate:; cat $L; end > prompt; cat output'
	told fish -c 'cat $L | tr a b > prompt; set x (cat output); echo $x'
	told fish -c 'cat $L > prompt; read x < output; echo $x'
	told fish -c 'string repeat -n 500000 a > prompt; cat output | cat'
	end_session
}
if command -v fish >/dev/null; then
	claim "fish" fishes
else
	echo "ok fish's idioms # skip: fish is not installed"
fi

pythons() {
	begin_session python
	told python3 -c 'import os
try: open("prompt", "w").write(open(os.environ["L"]).read())
except OSError: pass
print(open("output").read())'
	told python3 -c 'import subprocess
subprocess.run("cat $L > prompt", shell=True)
print(open("output").read())'
	told python3 -c 'import os, subprocess
with open("prompt", "w") as f: subprocess.run(["cat", os.environ["L"]], stdout=f)
print(subprocess.run(["cat", "output"], check=True, stdout=subprocess.PIPE).stdout)'
	told python3 -c 'import os, threading
def ask():
    try: open("prompt", "w").write(open(os.environ["L"]).read())
    except OSError: pass
t = threading.Thread(target=ask); t.start(); t.join()
r = threading.Thread(target=lambda: print(open("output").read())); r.start(); r.join()'
	end_session
}
claim "python: itself, its threads and its children" pythons

makes() {
	begin_session make
	printf 't:\n\t-cat $$L > prompt\n\t@cat output\n' >"$work/Makefile"
	told make -s -f "$work/Makefile"
	printf 't:\n\t@cat $$L > prompt; cat output\n' >"$work/Makefile"
	told make -s -f "$work/Makefile"
	end_session
}
claim "a recipe's lines" makes

lists() {
	begin_session xargs
	told bash -c 'echo 1 | xargs -I% sh -c "cat \$L > prompt; cat output"'
	told bash -c 'echo 1 | xargs -I% cat $L > prompt; cat output'
	told bash -c 'for i in 1 2 3; do cat $L > prompt; done; cat output'
	told bash -c 'find status -exec sh -c "cat \$L > prompt; cat output" \;'
	end_session
}
claim "xargs, for and find -exec" lists

once() {
	begin_session once
	same "$(bash -c 'cat $L > prompt; cat output; cat output; cat output' 2>/dev/null)" "$answer
$answer" cat
	same "$(bash -c 'for i in 1 2 3; do cat $L > prompt; done; cat wait; cat output' 2>/dev/null)" "$answer" "after wait"
	same "$(bash -c 'cat $L > prompt; read -r x < output; cat output' 2>/dev/null)" "$answer" read
	end_session
}
claim "it is reported once" once

wins() { # a prompt accepted later counts
	begin_session wins
	echo 4 > params/max_tokens
	for shell in bash dash; do
		for then in 'echo q > prompt' 'cat q > prompt' 'until cat q > prompt; do sleep 0.01; done' '{ cat q; } > prompt'; do
			echo "Again, $shell: $then" >"$work/q"
			read=$($shell -c "cat \$L > prompt; ${then/cat q/cat $work/q}; cat output || echo FAILED" 2>/dev/null)
			same "$read" "$(cat output)" "$shell: $then"
		done
	done
	end_session
}
claim "a prompt that is accepted afterwards is answered" wins

families() { # a process and its children: refused and accepted in turn
	begin_session families
	echo 4 > params/max_tokens
	L=$L timeout $limit python3 - <<'PY' || fail python
import errno, os, subprocess, sys
def told():
    try: open("output").read(); return False
    except OSError as e: assert e.errno == errno.EIO, e; return True
def refused():
    try: open("prompt", "w").write(open(os.environ["L"]).read())
    except OSError as e: assert e.errno == errno.EFBIG, e
def accepted():
    with open("prompt", "w") as f: f.write("What is 1 plus 1?\n")
    open("output").read()
class Child: # does what it is told to, one thing after the other
    def __init__(self):
        self.orders, theirs = os.pipe()[::-1]
        mine, self.answers = os.pipe()
        if os.fork() == 0:
            os.close(self.orders)
            for order in os.fdopen(theirs):
                os.write(self.answers, b"%d" % bool(globals()[order.strip()]()))
            os._exit(0)
        os.close(theirs)
        self.answers = mine
    def __call__(self, order):
        os.write(self.orders, order.encode() + b"\n")
        return os.read(self.answers, 1) == b"1"
a, b = Child(), Child()
refused(); assert a("told") and not told()                   # its child, once
a("refused"); assert a("told") and not a("told")             # itself
a("refused"); assert b("told")                               # another child of its parent
a("refused"); assert told() and not b("told")                # its parent
a("refused"); a("accepted"); assert not a("told") and not b("told") and not told()
a("refused"); accepted(); assert not a("told") and not b("told") # its parent's
a("refused"); b("accepted"); assert a("told")                # another's is not its own
b("accepted"); a("refused"); assert not b("told") and a("told")  # the newest turn is b's, as is what b reads
PY
	end_session
}
claim "families: itself, its children, its parent and that one's other children" families

others() { # three processes in an order that pipes give; none is another's child
	begin_session others
	mkfifo "$work/a" "$work/b" "$work/done"
	bash -c 'read -r x <$0; cat $L > prompt; echo >$2; read -r x <$0; cat output; true' "$work/a" x "$work/done" \
		>"$work/refused" 2>"$work/why" &
	bash -c 'read -r x <$0; cat output; cat wait; true' "$work/b" >"$work/other" 2>&1 &
	echo >"$work/a"
	read -r x <"$work/done"
	echo >"$work/b"
	wait $!
	same "$(cat "$work/other")" "$answer
done" "another process"
	same "$(cat output)" "$answer" "their parent"
	echo >"$work/a"
	wait
	same "$(cat "$work/refused")" "" "the one that was refused"
	grep -q "Input/output error" "$work/why" || fail "said: $(cat "$work/why")"
	end_session
}
claim "another process reads undisturbed, before the one that was refused" others

# Several processes write at once: an accepted one reads its answer and a refused one its error, never the other way round.
job='echo "What is the capital of $0?" > prompt; a=$?; cat output > $W/read.$0; echo $a $? > $W/ended.$0'
crosswise() { # COUNT
	local i jobs=0
	for i in "$work"/ended.*; do
		jobs=$((jobs + 1)) i=${i##*.}
		case $(cat "$work/ended.$i") in
		"0 0") [ -s "$work/read.$i" ] || fail "$i: no answer" ;;
		"1 1" | "2 1") [ -s "$work/read.$i" ] && fail "$i: an answer: $(cat "$work/read.$i")" ;;
		*) fail "$i: write and read ended with $(cat "$work/ended.$i")" ;;
		esac
	done
	same "$jobs" "$1" "jobs"
	rm -f "$work"/ended.* "$work"/read.*
	idle
}
at_once() { # COUNT SHELL 'text that runs the jobs'
	begin_session at-once
	W=$work job=$job timeout $limit "$2" -c "$3" 2>/dev/null
	crosswise "$1"
	end_session
}
claim "xargs -P 8 with one session" at_once 32 bash 'seq 32 | xargs -P 8 -I% sh -c "$job" %'
claim "jobs in the background of bash" at_once 8 bash 'for i in 1 2 3 4 5 6 7 8; do bash -c "$job" $i & done; wait'
claim "64 writers at once" at_once 64 bash 'for i in $(seq 64); do sh -c "$job" $i & done; wait'
subshells='for i in 1 2 3 4 5 6 7 8; do (echo "What is $i?" > prompt; a=$?; cat output > $W/read.$i; echo $a $? > $W/ended.$i) & done; wait'
claim "subshells of bash" at_once 8 bash "$subshells"
claim "subshells of dash" at_once 8 dash "$subshells"
if command -v parallel >/dev/null; then
	claim "parallel -j4" at_once 4 bash 'parallel --will-cite -j4 "sh -c \"\$job\" {}" ::: Peru Chad Iran France'
	busy_parallel() { # while all of them are refused
		begin_session parallel
		begin_long
		parallel --will-cite -j4 'echo "What is the capital of {}?" > prompt; cat output' ::: Peru Chad Iran France \
			>"$work/read" 2>"$work/said"
		same "$(wc -c <"$work/read")" 0 "bytes that were read"
		same "$(grep -c 'output: Input/output error' "$work/said")" 4 "errors"
		end_long
		end_session
	}
	claim "parallel: jobs that are refused print nothing of the answer in progress" busy_parallel
else
	echo "ok parallel -j4 # skip: parallel is not installed"
fi

retries() { # writers that try again until they are accepted read without an error
	begin_session retries
	echo 4 > params/max_tokens
	for i in 1 2 3 4 5 6; do
		echo "What is $i plus 1?" >"$work/q.$i"
		(
			for k in 1 2 3 4 5; do
				until cat "$work/q.$i" > prompt; do sleep 0.01; done 2>/dev/null
				cat output >/dev/null || exit 1
			done
		) &
	done
	for p in $(jobs -p); do wait "$p" || fail "a reader failed"; done
	end_session
}
claim "a writer that retries until it is accepted reads without an error" retries

killed() { # refused processes that are killed leave nothing behind for others
	begin_session killed
	begin_long
	bash -c 'for i in 1 2 3 4 5 6 7 8; do bash -c "echo q > prompt; kill -9 \$\$"; done' 2>/dev/null
	[ "$(head -c 3 output | wc -c)" = 3 ] || fail "no text"
	end_long
	same "$(cat wait)" stopped
	end_session
}
claim "kill -9 of refused writers leaves others alone" killed

strangers() { # processes of another PID namespace have no number here, so their refusals are not remembered
	cd / && unmounted
	unshare --pid --fork "$MOEFS" -f -o "store=$store" "$MODEL" "$mnt" 2>"$work/stderr" &
	until_true [ -e "$mnt/version" ]
	cd "$m" || fail "not mounted: $(cat "$work/stderr")"
	loaded
	begin_session strangers
	same "$(bash -c 'cat $L > prompt; cat output' 2>/dev/null)" "$answer" "a reader from outside"
	grep -q "prompt: the text is too long" error || fail "error: $(cat error)"
	cd ../.. && rm -rf sessions/strangers || fail "rm -rf"
	cd / && user_unmounts "$mnt" || fail unmount
	wait $! || fail "status $?: $(cat "$work/stderr")"
}

# ---- error ----

reasons() {
	begin_session reasons
	says() { grep -qF -- "$model/sessions/reasons: $1" error || fail "error says '$(cat error)', not '$1'"; }
	shell_fails_with "Invalid argument" "echo hot > params/temperature"
	says "params/temperature: \"hot\" is not"
	shell_fails_with "Numerical result out of range" "echo 7e9 > params/top_p"
	says "params/top_p: "
	shell_fails_with "Invalid argument" "echo jump > ctl"
	says "ctl: \"jump\" is not a verb; the verbs are stop, reset, undo, fork, answer, retry, continue"
	shell_fails_with "File too large" "head -c 100000 /dev/zero | dd bs=100000 iflag=fullblock of=params/seed"
	says "seed: a value has at most "
	shell_fails_with "File too large" "cat $L > prompt"
	says "prompt: the text is too long, and was not submitted; at most $(cat ../../info/max_prompt_bytes) bytes"
	same "$(cat ../../../error)" "$(cat error)" "the mount's error"
	same "$(stat -c %s error)" "$(cat error | wc -c)" "its size"
	same "$(cat status)" done "status"
	same "$(ask "What is 1 plus 1?" | wc -l)" 1 "an answer"
	same "$(cat error)" "" "error once a prompt was accepted"
	begin_long
	shell_fails_with "Device or resource busy" "echo again > prompt"
	says "prompt: the session is still answering"
	shell_fails_with "Device or resource busy" "echo reset > ctl"
	says "reset: the session is still working"
	case $(cat status) in error | done | idle) fail "status: $(cat status)" ;; esac
	end_long
	says "reset: the session is still working" # the turn's end does not take it away
	same "$(cat status)" stopped
	end_session
}
claim "error names the refused command, model and session, and status does not change" reasons

second() {
	begin_session second
	python3 - <<'PY' || fail python
import errno, os
def busy(f):
    try: f()
    except OSError as e: assert e.errno == errno.EBUSY, e
    else: raise SystemExit("not refused")
a, b = os.open("prompt", os.O_WRONLY), os.open("prompt", os.O_WRONLY)
os.write(a, b"What is 1 plus 1?")
busy(lambda: os.write(b, b"no, mine"))
assert "prompt: another process is writing it" in open("error").read()
os.close(b)
os.close(a) # accepted: of the same process, so it wins
assert open("output").read()
assert open("error").read() == ""
PY
	end_session
}
claim "the second of two writers is told that there is another" second

lets_go() { # a refused writer that keeps the file open blocks nobody
	begin_session lets-go
	exec 3>prompt
	cat "$L" >&3 2>/dev/null
	bash -c 'echo "What is 1 plus 1?" > prompt' || fail "refused"
	[ -n "$(bash -c 'cat output')" ] || fail "no answer"
	exec 3>&-
	same "$(cat prompt)" "What is 1 plus 1?"
	same "$(cat status)" done
	end_session
}
claim "a refused process no longer counts as a writer" lets_go

failed() { # a failed turn and then a refusal: `error` has both
	begin_session failed
	printf 'caf\xff\n' > prompt
	fails_with "Input/output error" cat output
	shell_fails_with "Invalid argument" "echo jump > ctl"
	same "$(cat status)" error
	grep -qi utf-8 error && grep -q "not a verb" error || fail "error: $(cat error)"
	ask "What is 1 plus 1?" >/dev/null
	same "$(cat error)" ""
	end_session
}
claim "a refusal does not hide why the last turn failed" failed

mended() { # a file's refusal stays in `error` until the same file accepts a write
	local bad good file
	begin_session mended
	while IFS='|' read -r file bad good; do
		printf '%s\n' "$bad" 2>/dev/null >"$file"
		[ -s error ] || fail "$file: error: $(cat error)"
		echo on >params/stream
		[ -s error ] || fail "$file: another file's value has taken what it refused"
		printf '%s\n' "$good" >"$file" || fail "$file"
		same "$(cat error)" "" "error after $file was mended"
	done <<-'EOF'
		params/temperature|hot|0.5
		params/logit_bias|Paris|5 1
		messages.json|[{"role": "usr"}]|[{"role": "user", "content": "hello"}]
		tools.json|[{"name": 3}]|[]
		template.json|[]|{}
	EOF
	python3 -c 'import json; print(json.dumps([{"role": "usr", "content": "x" * 70000}]))' >messages.json
	grep -q usr error || fail "error: $(cut -c1-200 error)"
	python3 -c 'import json; print(json.dumps([{"role": "user", "content": "x" * 70000}]))' >messages.json
	same "$(cat error)" "" "error after a long text was mended"
	end_session
}
claim "a file's refusal is no longer reported once it has accepted something" mended

codes() { # the codes for programs
	shows_json() { jq -e "$1" "${2:-error.json}" >/dev/null || fail "not $1: $(cat "${2:-error.json}")"; }
	begin_session coded
	shows_json '. == {}'
	shell_fails_with "Invalid argument" "echo hot > params/temperature"
	shows_json '.code == "bad_value" and .numbers == {} and (.message | contains("temperature"))'
	shows_json '.code == "bad_value"' ../../../error.json
	shell_fails_with "File too large" "cat $L > prompt"
	shows_json '.code == "prompt_too_long" and .numbers.bytes > .numbers.maximum_bytes'
	same "$(jq -r .message error.json)" "$(cat error)"
	printf 'a b c d e f g h %.0s' $(seq 2000) >prompt
	shell_fails_with "Input/output error" "cat output"
	shows_json '.code == "prompt_too_long" and .numbers.tokens > .numbers.maximum'
	shows_json '.numbers.maximum == '"$(cat ../../info/context)"
	shell_fails_with "No data available" "echo continue > ctl"
	shows_json '.code == "prompt_too_long" and .refused.code == "nothing_to_do"'
	echo reset >ctl
	begin_long 8
	shell_fails_with "Device or resource busy" "echo q > prompt"
	shows_json '.code == "busy"'
	end_long
	end_session
}
if command -v jq >/dev/null; then
	claim "error.json has the code and numbers of the sentence in error" codes
fi

denials() { # `error` says why the tree does not allow an operation
	says() { tail -n 1 error | grep -qF -- "$1" || fail "error ends '$(tail -n 1 error)', not '$1'"; }
	not_permitted() { shell_fails_with "Operation not permitted" "$1"; }
	begin_session denials
	shell_fails_with "Invalid argument" "echo -1 > params/max_tokens"
	not_permitted "echo 1 > params/temprature"
	same "$(cat error)" "$model/sessions/denials: there is no param \"temprature\"; did you mean temperature?"
	grep -qF 'did you mean temperature?' ../../../error || fail "MOUNT/error: $(cat ../../../error)"
	not_permitted "touch promt" && says 'did you mean prompt?'
	not_permitted "rm -f output" && says 'only sessions and names in ask.d can be removed'
	not_permitted "mv log log2" && says 'only sessions can be renamed'
	not_permitted "ln -s log log2" && says 'links'
	not_permitted "mkdir sub" && says 'folders can only be created in sessions/'
	not_permitted "chmod 644 log" && says 'modes and owners cannot be changed'
	python3 -c '
import os
try: os.setxattr("log", "user.colour", b"red")
except OSError as e: print(e)' | grep -q "not supported" || fail "an attribute was set"
	says 'user.colour'
	local before name
	before=$(cat error)
	for name in .prompt.swp prompt~ sedAb1xY2 4913; do
		not_permitted "touch $name" && not_permitted "mv log $name"
	done
	same "$(cat error)" "$before" "names that tools make"
	shell_fails_with "File too large" "cat $L > prompt"
	before=$(cat error)
	not_permitted "touch foo" && same "$(head -n 1 error)" "$before" "a prompt's reason" && says '"foo"'
	echo reset >ctl
	printf 'a b c d e f g h %.0s' $(seq 2000) >prompt
	shell_fails_with "Input/output error" "cat output"
	grep -q "the context holds" error || fail "error: $(cat error)"
	not_permitted "touch foo" && says '"foo"'
	head -n 1 error | grep -q "the context holds" || fail "a turn's reason is gone: $(cat error)"
	grep -q "the context holds" ../../../error || fail "the mount's, too: $(cat ../../../error)"
	echo reset >ctl && ask "What is 1 plus 1?" >/dev/null
	same "$(cat error)" "" "after an accepted prompt"
	end_session
}
claim "error gives the reason of refused operations of the tree, of failed turns and of refused prompts" denials

asks() {
	says() { grep -qF -- "$model: ask: $1" error || fail "error says '$(cat error)', not '$1'"; }
	shell_fails_with "Invalid argument" "echo q > ask"
	says "open it for reading and writing"
	grep -qF "$model: ask: " ../error || fail "the mount's error: $(cat ../error)"
	shell_fails_with "File too large" "cat $L <>ask >&0"
	says "the question is too long"
	ask "What is 1 plus 1?" >/dev/null
	same "$(cat error)" ""
}
claim "a refusal of ask is in the error file next to it" asks

if [ "$(id -u)" = 0 ] && unshare --pid --fork true 2>/dev/null; then
	cd / # the mount ends when nobody stands in it
	claim "a process in another namespace gets no hint, and does its work" strangers
else
	echo "ok strangers # skip: only root can make a namespace"
fi
daemon=
finish
