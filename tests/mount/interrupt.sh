#!/bin/bash
# A waiting process can be interrupted, stopped, or told that the session is gone, before the answer ends; and it does
# not delay other processes.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded

interrupted() { # SIGNAL FILE: a waiting cat ends by the signal, the turn goes on
	mkdir sessions/i && cd sessions/i || exit
	begin_long
	begin_reader "$2"
	reads $reader
	kill -"$1" $reader
	wait $reader
	local ended=$? word=$(cat status)
	end_long
	cd .. && rmdir i
	same $ended $((128 + $(kill -l "$1"))) "the reader's status"
	working "$word"
}
for signal in INT TERM KILL; do
	for file in output wait; do
		claim "SIG$signal ends a waiting cat $file, and not the turn" interrupted $signal $file
	done
done

# A stopped process delays nobody, and later continues where it was.
paused() {
	mkdir sessions/p && cd sessions/p || exit
	ask "What is the capital of France?" >"$work/whole"
	echo reset >ctl
	bash -c 'echo "What is the capital"; kill -STOP $$; echo " of France?"' >prompt & # within the writing
	local writer=$! reader
	until_true_by $writer grep -q '^State:.T' "/proc/$writer/status" || fail "the writer has ended, or does not stop"
	ls -l >/dev/null
	same "$(cat status)" idle "status beside a writer that is stopped"
	timeout $limit cat output >"$work/paused" & # what is answered before: nothing
	wait $!
	same "$(cat "$work/paused")" "" "an answer to half of a question"
	kill -CONT $writer
	wait $writer
	timeout $limit cat output >/dev/null
	begin_long
	begin_reader output
	reads $reader
	kill -STOP $reader
	echo stop >ctl # the answer is complete while its reader sleeps
	timeout $limit cat output >"$work/whole"
	kill -CONT $reader
	wait $reader || fail "the reader: $?"
	end_long
	cd .. && rmdir p
}
claim "STOP and CONT of a writer and of a reader" paused

timeouts() {
	mkdir sessions/t && cd sessions/t || exit
	begin_long
	timeout 0.5 cat wait
	local ended=$? word=$(cat status)
	end_long
	cd .. && rmdir t
	same $ended 124 "timeout's status"
	working "$word"
}
claim "timeout 0.5 cat wait ends before the turn does" timeouts

handled() { # a handler returns: the read itself must fail with EINTR
	mkdir sessions/h && cd sessions/h || exit
	begin_long
	timeout $limit python3 - <<'PY'
import os, sys
sys.path.insert(0, os.environ["here"])
import waiting
f = os.open("wait", os.O_RDONLY)
if not waiting.interrupted(lambda: os.read(f, 100)): sys.exit("read")
PY
	local ended=$? word=$(cat status)
	end_long
	cd .. && rmdir h
	same $ended 0 "python's status"
	working "$word"
}
claim "a signal with a handler interrupts the read, and not the turn" handled

stops() {
	mkdir sessions/s && cd sessions/s || exit
	begin_long
	begin_reader output "$work/part"
	until_true [ -s "$work/part" ] # and then it waits for more
	reads $reader
	echo stop > ctl
	wait $reader || fail "the reader failed"
	same "$(cat wait)" stopped
	[ -s "$work/part" ] && cmp output "$work/part" || fail "what was read is not what there is"
	let_go
	cd .. && rmdir s
}
claim "echo stop > ctl ends the answer, which stays" stops

removed() {
	mkdir sessions/r && cd sessions/r || exit
	begin_long
	begin_reader wait /dev/null "$work/said"
	exec 4<output
	reads $reader
	cd ../..
	rmdir sessions/r || fail rmdir
	wait $reader && fail "the waiting read succeeded"
	grep -q "Input/output error" "$work/said" || fail "it said: $(cat "$work/said")"
	fails_with "Stale file handle" cat <&4
	let_go
}
claim "rmdir of a working session: EIO for waiting readers, then ESTALE" removed

crowd() { # readers wait in threads of one process, all of them, before and after others look
	mkdir sessions/c && cd sessions/c || exit
	begin_long
	timeout $limit python3 - "${READERS:-1000}" <<'PY'
import os, subprocess, sys, threading
sys.path.insert(0, os.environ["here"])
import waiting
threading.stack_size(65536)
words = []
def wait():
    f = os.open("wait", os.O_RDONLY)
    words.append(os.read(f, 100))
    os.close(f)
threads = [threading.Thread(target=wait) for _ in range(int(sys.argv[1]))]
for t in threads: t.start()
for t in threads: waiting.until(t, waiting.READ)
looks = "for i in {1..20}; do ls -l ../.. && cat status ../../info/state || exit; done"
subprocess.run(["bash", "-c", looks], stdout=subprocess.DEVNULL, check=True)
for t in threads: assert waiting.waits(t, waiting.READ), "a reader was answered meanwhile"
with open("ctl", "w") as f: f.write("stop")
for t in threads: t.join()
assert words == [b"stopped\n"] * len(threads), set(words)
PY
	local ended=$?
	end_long
	cd .. && rmdir c
	same $ended 0 "python's status"
}
claim "ls ends while a thousand readers wait; then each is answered" crowd
finish
