#!/bin/bash
# Whoever waits can be interrupted, stopped, or told that the session is gone; and costs the others nothing.
. "$(dirname "$0")/lib.sh"
mounted
loaded

interrupted() { # SIGNAL FILE: a waiting cat ends within a second of the signal
	mkdir sessions/i && cd sessions/i || exit
	begin_long
	begin_reader "$2"
	sleep 0.3 # so that it waits
	start=$(milliseconds)
	kill -"$1" $reader 2>/dev/null
	wait $reader 2>/dev/null
	took=$(($(milliseconds) - start))
	end_long
	cd .. && rmdir i
	[ $took -lt 1000 ] || fail "$took ms"
}
for signal in INT TERM KILL; do
	for file in output wait; do
		claim "SIG$signal ends a waiting cat $file" interrupted $signal $file
	done
done

timeouts() {
	mkdir sessions/t && cd sessions/t || exit
	begin_long
	start=$(milliseconds)
	timeout 0.5 cat wait
	took=$(($(milliseconds) - start))
	end_long
	cd .. && rmdir t
	[ $took -lt 1500 ] || fail "$took ms"
}
claim "timeout 0.5 cat wait" timeouts

handled() { # a handler returns: the read itself must say EINTR
	mkdir sessions/h && cd sessions/h || exit
	begin_long
	python3 - <<'PY' || fail "python"
import ctypes, os, signal, time
class Done(Exception): pass
def handler(*_): raise Done
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
start = time.time()
try:
    os.read(os.open("wait", os.O_RDONLY), 100)
except Done:
    pass
assert time.time() - start < 1.5
PY
	end_long
	cd .. && rmdir h
}
claim "a signal with a handler interrupts the read" handled

stops() {
	mkdir sessions/s && cd sessions/s || exit
	begin_long
	timeout 20 cat output >"$work/part" &
	sleep 0.2
	echo stop > ctl
	wait $! || fail "the reader failed"
	same "$(cat wait)" stopped
	cmp output "$work/part" || fail "what was read is not what there is"
	end_beside
	cd .. && rmdir s
}
claim "echo stop > ctl ends the answer, which stays" stops

removed() {
	mkdir sessions/r && cd sessions/r || exit
	begin_long
	LC_ALL=C timeout 20 cat wait 2>"$work/said" &
	exec 4<output
	sleep 0.3
	cd ../..
	rmdir sessions/r || fail rmdir
	wait $! && fail "the waiting read succeeded"
	grep -q "Input/output error" "$work/said" || fail "it said: $(cat "$work/said")"
	fails_with "Stale file handle" cat <&4
	end_beside
}
claim "rmdir of a working session: EIO for those who wait, then ESTALE" removed

crowd() { # readers wait in threads of one process while ls is timed
	mkdir sessions/c && cd sessions/c || exit
	begin_long 40
	python3 - "${READERS:-1000}" <<'PY'
import os, subprocess, sys, threading, time
threading.stack_size(65536)
def put(name, value):
    with open(name, "w") as f: f.write(value)
def ls(): # timed in a shell: this process, with its thousand threads, is slow to fork
    shell = "TIMEFORMAT=%R; time for i in {1..20}; do ls -l ../.. >/dev/null; done"
    return float(subprocess.run(["bash", "-c", shell], capture_output=True, text=True).stderr) / 20
done = []
def wait():
    f = os.open("wait", os.O_RDONLY)
    done.append(os.read(f, 100))
    os.close(f)
threads = [threading.Thread(target=wait) for _ in range(int(sys.argv[1]))]
for t in threads: t.start()
time.sleep(0.3)
beside = ls()
waiting = len(threads) - len(done)
put("ctl", "stop")
for t in threads: t.join()
alone = ls()
print("ls alone %.1f ms, beside %d waiting readers %.1f ms" % (alone * 1e3, waiting, beside * 1e3))
sys.exit(0 if waiting and beside < 5 * alone + 0.1 else 1)
PY
	status=$?
	end_long
	cd .. && rmdir c
	return $status
}
claim "a thousand waiting readers leave ls as fast" crowd
cat "$work/out"
finish
