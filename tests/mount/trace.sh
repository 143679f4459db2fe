#!/bin/bash
# experts/trace: the experts that each token uses, while the model works.
. "$(dirname "$0")/lib.sh"
holdable
m=$mnt/traced # nobody else looks for a model of this name
trace=$m/experts/trace
mounted -o name=traced
loaded
layers=$(cat info/layers) picked=$(cat info/experts_per_token)

# Writes the lines of this turn to $work/trace. The trace is opened before the turn.
traced() { # QUESTION
	exec 3<"$trace"
	echo "$1" >prompt || exit
	timeout $limit cat <&3 >"$work/trace" || fail "the trace did not end"
	exec 3<&-
	idle
}
stat_of() { awk -v key="$1" '$1 == key { print $2 }' stats; }

at_rest() {
	same "$(timeout $limit cat "$trace")" "" "a trace of an idle model"
	timeout $limit grep -rc default experts/trace | grep -qx 0 || fail grep
	timeout $limit cp -r experts/trace "$work/copy" || fail cp
	same "$(wc -c <"$work/copy")" 0 "its copy"
	timeout $limit tar cf - experts/trace >/dev/null || fail tar
	same "$(stat -c '%a %s' "$trace")" "444 0"
}
claim "the trace of an idle model is at its end" at_rest

whole() {
	echo 'lookup 4' >sessions/default/params/draft
	traced "What is the capital of France?"
	local prompt output
	prompt=$(stat_of prompt_tokens) output=$(stat_of output_tokens)
	same "$(awk '{ print NF }' "$work/trace" | sort -u)" $((4 + picked)) columns
	same "$(awk '{ print $1 }' "$work/trace" | sort -u)" default session
	same "$(awk '$3 == "prompt"' "$work/trace" | wc -l)" $((prompt * layers)) "the prompt's lines"
	same "$(awk '$3 == "answer"' "$work/trace" | wc -l)" $(((output - 1) * layers)) "the answer's lines"
	same "$(awk '$3 != "draft" { print $2, $4 }' "$work/trace" | sort -u | wc -l)" $(((prompt + output - 1) * layers)) \
		"a line twice"
	same "$(grep -o '\*' "$work/trace" | wc -l)" "$(stat_of expert_misses)" "stars"
	grep -vE '^default [0-9]+ (prompt|answer|draft) [0-9]{2}( [0-9]{3}\*?)+$' "$work/trace" && fail "not a line"
	same "$(stat_of cached_tokens)" 0
	traced "And of Peru?" # of the next turn what is new
	same "$(awk '$3 == "prompt"' "$work/trace" | wc -l)" \
		$((($(stat_of prompt_tokens) - $(stat_of cached_tokens)) * layers)) "the second prompt's lines"
	echo auto >sessions/default/params/draft
}
claim "a turn has a line for each token and layer, and a star for each read" whole

names() { # names of questions without a session, and of a session with a space in its name
	mkdir "sessions/a b"
	exec 3<"$trace"
	echo hello >"sessions/a b/prompt"
	echo hello >ask.d/one
	(exec 4<>ask && echo hello >&4 && timeout $limit cat <&4) >/dev/null || fail ask
	(exec 4<>score && echo hello >&4 && timeout $limit cat <&4) >/dev/null || fail score
	timeout $limit cat ask.d/one >/dev/null
	timeout $limit cat "sessions/a b/wait" >/dev/null
	timeout $limit cat <&3 >"$work/trace"
	exec 3<&-
	rmdir "sessions/a b"
	same "$(awk '{ print $1 }' "$work/trace" | sed 's,/[0-9]*$,/N,' | sort -u | tr '\n' ' ')" 'a\040b ask.d/one ask/N score/N '
}
claim "each line says whose it is" names

has_lines() { [ "$(wc -l <"$1")" -gt "$2" ]; } # FILE, and more than how many
several() { # simultaneous readers see the same lines; a killed reader disturbs nobody
	local i pids=()
	mkdir sessions/several && cd sessions/several || exit
	begin_long
	for i in 1 2 3 killed; do
		begin_reader "$trace" "$work/reader-$i"
		reads $reader
		pids+=($reader)
	done
	unset "pids[-1]" # the killed one's
	hold_at 600
	for i in 1 2 3; do
		until_true has_lines "$work/reader-$i" 1000 || fail "reader $i has read $(wc -l <"$work/reader-$i") lines"
	done
	kill -INT $reader
	wait $reader
	same $? 130 "the killed reader's status"
	working
	end_long
	wait "${pids[@]}" || fail "a reader failed"
	for i in 1 2 3; do tail -n 1000 "$work/reader-$i" | cksum; done | sort -u >"$work/sums" # they began one by one
	cd "$m" && rmdir sessions/several
	same "$(wc -l <"$work/sums")" 1 "different traces"
}
claim "several readers see the same lines, and a killed one disturbs nobody" several

programs() { # programs that read a few lines, or line by line
	local first line
	mkdir sessions/programs && cd sessions/programs || exit
	begin_beside 6
	long_turn
	same "$(timeout $limit head -n 3 "$trace" | wc -l)" 3 "head -n 3"
	same "$(timeout $limit sh -c 'cat "$0" | head -n 3' "$trace" | wc -l)" 3 "cat | head"
	same "$(timeout $limit dd if="$trace" bs=1 count=9 status=none | wc -c)" 9 "dd bs=1"
	first=
	while read -r line; do
		[[ $line =~ ^[^\ ]+\ [0-9]+\ (prompt|answer|draft)\ [0-9]{2}(\ [0-9]{3}\*?)+$ ]] || fail "not a line: $line"
		first+=x
		[ ${#first} = 50 ] && break
	done <"$trace"
	same ${#first} 50 "lines that bash read"
	end_beside
	end_long
	cd .. && rmdir programs
}
claim "head, dd and bash's read have whole lines" programs

follows() { # one open file has turn after turn
	local follower turn
	(while cat; do sleep 0.05; done) <"$trace" >"$work/follow" &
	follower=$!
	for turn in one two three; do
		mkdir sessions/$turn
		(cd sessions/$turn && ask "What is 1 plus 1?" >/dev/null && idle)
		rmdir sessions/$turn
		until_true grep -q "^$turn " "$work/follow"
	done
	kill $follower $(children $follower)
	same "$(awk '{ print $1 }' "$work/follow" | uniq | tr '\n' ' ')" "one two three "
	same "$(timeout $limit tail -n 2 "$trace")" "" "tail of an idle model's"
}
claim "an open trace is followed from turn to turn" follows

removed() { # the working session is removed; the reader gets the end of the file
	mkdir sessions/gone && cd sessions/gone || exit
	begin_long
	begin_reader "$trace" "$work/gone"
	reads $reader
	hold_at 50
	until_true [ -s "$work/gone" ] || fail "nothing is read"
	cd "$m" && rmdir sessions/gone
	let_go
	wait $reader || fail "the reader failed"
	same "$(awk '{ print $1 }' "$work/gone" | sort -u)" gone
}
claim "rmdir of the session ends its readers" removed

late() { # a slow reader loses the oldest lines, and is told how many
	local i lines=0
	exec 3<"$trace"
	for i in 1 2 3 4 5; do
		mkdir sessions/late && cd sessions/late || exit
		echo $i >params/share_with && echo off >params/chat && echo 1 >params/max_tokens && seq 300 >prompt && timeout $limit cat wait || fail turn
		lines=$((lines + layers * $(stat_of prompt_tokens)))
		cd "$m" && rmdir sessions/late
	done >/dev/null
	timeout $limit cat <&3 >"$work/late"
	exec 3<&-
	same "$(grep -c '^lost [1-9][0-9]*$' "$work/late")" 1 "lines that tell of it"
	same "$(awk '/^lost/ { n += $2; next } { n++ } END { print n }' "$work/late")" "$lines" "lines, lost and kept"
	grep -m 1 -n '^lost' "$work/late" | grep -q '^1:' || fail "it is not the first"
	[ "$(wc -l <"$work/late")" -gt 10000 ] || fail "only $(wc -l <"$work/late") lines were kept"
}
claim "a late reader is told how much it lost" late

waits() { # O_NONBLOCK, a signal with a handler, poll, select and epoll
	mkdir sessions/waits && cd sessions/waits || exit
	timeout $limit python3 - "$trace" <<'PY'
import os, select, sys
sys.path.insert(0, os.environ["here"])
trace = sys.argv[1]
limit = int(os.environ["limit"])
def put(name, value):
    with open(name, "w") as f: f.write(value)
def status():
    with open("status") as f: return f.read()
f = os.open(trace, os.O_RDONLY | os.O_NONBLOCK)
assert select.select([f], [], [], limit)[0] and os.read(f, 1 << 16) == b"", "idle: at its end"
put("params/max_tokens", "20")
for style in "poll", "select", "epoll", "edge":
    e = select.epoll(); e.register(f, select.EPOLLIN | (select.EPOLLET if style == "edge" else 0))
    p = select.poll(); p.register(f, select.POLLIN)
    put("prompt", "Tell me about experts.\n")
    status() # waits until it is submitted
    lines, again, ended = b"", 0, False
    while not ended:
        ready = {"poll": lambda: p.poll(1000 * limit), "select": lambda: select.select([f], [], [], limit)[0]}.get(
            style, lambda: e.poll(limit))()
        assert ready, style + ": nothing"
        while True:
            try: piece = os.read(f, 1 << 16)
            except BlockingIOError:
                again += 1
                assert again < 1000, style + " says ready and is not"
                break
            if not piece:
                ended = True
                break
            lines += piece
            if style != "edge": break
    assert lines.endswith(b"\n") and lines.count(b"waits ") == lines.count(b"\n") > 100, style
    assert status() == "done\n", style + " ended too early"
    e.close()
PY
	local ended=$?
	cd .. && rmdir waits
	return $ended
}
claim "it can be polled, and says EAGAIN while there is nothing more yet" waits

handled() { # a handler returns: the read itself fails with EINTR
	mkdir sessions/handled && cd sessions/handled || exit
	begin_long
	timeout $limit python3 - "$trace" <<'PY'
import os, sys
sys.path.insert(0, os.environ["here"])
import waiting
f = os.open(sys.argv[1], os.O_RDONLY)
def drain():
    while os.read(f, 1 << 16): pass
if not waiting.interrupted(drain): sys.exit("the turn was over")
PY
	local ended=$? word
	word=$(cat status)
	end_long
	cd .. && rmdir handled
	same $ended 0 "python's status"
	working "$word"
}
claim "a signal with a handler interrupts the read" handled

unmounting() { # unmounting with waiting readers
	mkdir sessions/end && cd sessions/end || exit
	begin_long
	local i pids=()
	for i in 1 2 3 4; do
		begin_reader "$trace" "$work/end-$i"
		reads $reader
		pids+=($reader)
	done
	hold_at 50
	for i in 1 2 3 4; do
		until_true [ -s "$work/end-$i" ] || fail "reader $i reads nothing"
	done
	cd /
	kill -TERM "$daemon"
	for i in "${pids[@]}"; do
		wait "$i" # with whatever status
	done
	until_true not alive "$daemon" || fail "the daemon still runs"
}
claim "the daemon ends while readers wait" unmounting
finish
