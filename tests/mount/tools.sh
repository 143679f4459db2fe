#!/bin/bash
# Programs that replace, copy, preserve and remove files in a tree whose files can only be written: each works, or prints
# one clear error for each file; none runs for ever, and none leaves a partial result.
. "$(dirname "$0")/lib.sh"
holdable
mounted
loaded
echo "What is the capital of Peru?" >"$work/prompt"
chmod 644 "$work/prompt"
tar cf "$work/prompt.tar" -C "$work" prompt
answer=$(ask "What is the capital of France?") && [ -n "$answer" ] || fail "no answer"

inside() { # COMMAND…: in a session of its own, after a turn; it must change nothing there
	[ ! -e sessions/w ] || rmdir sessions/w
	mkdir sessions/w && cd sessions/w || exit
	ask "What is the capital of France?" >/dev/null
	find . | sort >"$work/before"
	"$@"
	idle
	find . | sort | cmp - "$work/before" || fail "what is in the session has changed"
	cd ../.. && rmdir sessions/w
}
untouched() { # WORDS COMMAND…: refused with these words, and nothing was submitted or lost
	local log
	log=$(cat log)
	fails_with "$1" timeout $limit "${@:2}"
	same "$(cat log)" "$log" "the log"
	same "$(cat status)" done
	[ -e "$work/prompt" ] || fail "the file has gone"
}
asks() { # COMMAND…: it works and submits the file's text
	timeout $limit "$@" || fail "status $?: $*"
	[ -n "$(cat output)" ] || fail "no answer: $*"
	same "$(cat prompt)" "What is the capital of Peru?" "$*"
	same "$(stat -c %a prompt)" 600 "its mode after: $*"
}

copies() {
	asks cp "$work/prompt" prompt
	asks cp -p "$work/prompt" prompt
	asks cp -a "$work/prompt" prompt
	asks cp -f "$work/prompt" prompt
	asks tar xf "$work/prompt.tar" --overwrite
	if [ "$(id -u)" = 0 ]; then # another's owner, which only root would preserve
		chown 65534 "$work/prompt"
		asks cp -p "$work/prompt" prompt
		same "$(stat -c %u prompt)" 0 "its owner"
		chown 0 "$work/prompt"
	fi
	cp -p "$work/prompt" params/system || fail "a text"
	same "$(cat params/system)" "What is the capital of Peru?"
	echo 0.5 >"$work/value" && cp -p "$work/value" params/temperature || fail "a value"
	same "$(cat params/temperature)" 0.5
}
claim "cp, cp -p, cp -a and tar --overwrite write" inside copies

changes() {
	fails_with "Operation not permitted" chmod 644 prompt
	fails_with "Operation not permitted" chmod g+r .
	[ "$(id -u)" = 0 ] && fails_with "Operation not permitted" chown 65534 prompt
	chmod 600 prompt || fail "to what it is"
	python3 - <<'PY' || fail python # for another file than the one that is being written
import os
f = os.open("prompt", os.O_WRONLY)
os.fchmod(f, 0o644)
try:
    os.chmod("output", 0o644)
    raise SystemExit("not refused")
except PermissionError: pass
os.close(f)
try:
    os.chmod("prompt", 0o644)
    raise SystemExit("not refused once it is closed")
except PermissionError: pass
PY
}
claim "modes and owners stay" inside changes

untars() {
	untouched "Cannot open: File exists" tar xf "$work/prompt.tar"
	untouched "Cannot open: File exists" tar xf "$work/prompt.tar" -C "$PWD"
	untouched "Cannot unlink" tar xf "$work/prompt.tar" -U
	tar cf "$work/session.tar" . || fail "tar c"
	untouched "./prompt: Cannot open: File exists" tar xf "$work/session.tar" -C "$PWD"
	same "$(LC_ALL=C tar xf "$work/session.tar" 2>&1 | grep -c 'prompt')" 1 "how often it says so"
	untouched "Cannot unlink" tar xf "$work/session.tar" --recursive-unlink -C "$PWD"
}
claim "tar x says that the files are there, once for each" inside untars

replaces() {
	untouched "Operation not permitted" mv "$work/prompt" prompt
	untouched "Operation not permitted" mv -f "$work/prompt" "$m/prompt"
	untouched "Operation not permitted" mv params/temperature params/seed
	untouched "Operation not permitted" mv prompt other
	untouched "Operation not permitted" cp --remove-destination "$work/prompt" prompt
	untouched "Operation not permitted" install "$work/prompt" prompt
	untouched "Operation not permitted" ln -sf "$work/prompt" prompt
	untouched "Operation not permitted" sed -i s/a/b/ prompt
	untouched "Operation not permitted" sed -i s/a/b/ params/temperature
}
claim "mv, cp --remove-destination, install, ln and sed -i are refused with a reason" inside replaces

touches() {
	touch prompt params/temperature output || fail touch
	touch -d yesterday prompt || fail "touch -d"
	truncate -s 0 prompt || fail truncate
	same "$(cat prompt)" "What is the capital of France?" "the prompt"
	same "$(cat status)" done
	untouched "Operation not permitted" touch file
}
claim "touch and truncate change nothing" inside touches

exclusive() {
	untouched "File exists" dd if="$work/prompt" of=prompt conv=excl
	untouched "cannot overwrite existing file" bash -c 'set -C; echo q > prompt'
	untouched "File exists" python3 -c 'import os; os.open("prompt", os.O_WRONLY | os.O_CREAT | os.O_EXCL)'
	untouched "Operation not permitted" python3 -c 'import os; os.open("new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)'
}
claim "O_EXCL finds the file that is there" inside exclusive

rsyncs() {
	untouched "Operation not permitted" rsync -a "$work/prompt" .
	mkdir -p "$work/folder/params" && cp "$work/prompt" "$work/folder"
	untouched "Operation not permitted" rsync -a --delete "$work/folder/" "$PWD/"
	timeout $limit rsync --inplace "$work/prompt" . || fail "--inplace"
	[ -n "$(cat output)" ] && same "$(cat prompt)" "What is the capital of Peru?"
}
if command -v rsync >/dev/null; then
	claim "rsync -a is refused with a reason, and --inplace writes" inside rsyncs
else
	echo "ok rsync # skip: rsync is not installed"
fi

busyboxes() {
	untouched "Operation not permitted" busybox tar xf "$work/prompt.tar"
	untouched "Operation not permitted" busybox sed -i s/a/b/ prompt
	untouched "Operation not permitted" busybox mv "$work/prompt" prompt
	untouched "Operation not permitted" busybox rm -f prompt
	asks busybox cp "$work/prompt" prompt
}
if command -v busybox >/dev/null; then
	claim "busybox: tar, sed -i, mv and rm are refused, cp writes" inside busyboxes
else
	echo "ok busybox # skip: busybox is not installed"
fi

# ---- removing ----

removes() {
	untouched "Operation not permitted" rm prompt
	untouched "Operation not permitted" rm -f prompt params/seed
	untouched "Operation not permitted" rm -rf params
	untouched "Operation not permitted" rm -rf ./*
	untouched "Operation not permitted" rmdir params
	untouched "Operation not permitted" find . -name prompt -exec rm {} +
	untouched "Operation not permitted" python3 -c 'import os; os.unlink("prompt")'
	# A process that has the folder open, or has listed it, is not yet clearing it.
	untouched "Operation not permitted" python3 -c 'import os; os.unlink("prompt", dir_fd=os.open(".", os.O_RDONLY))'
	untouched "Operation not permitted" python3 -c 'import os; os.listdir("."); os.unlink("prompt")'
	python3 - <<'PY' || fail python # another process clears it, another folder is cleared
import os, subprocess, sys
here = os.open(".", os.O_RDONLY); os.listdir(here)
if subprocess.run(["rm", "-f", "prompt"], stderr=subprocess.DEVNULL).returncode == 0: sys.exit("rm")
try:
    os.unlink("params/seed")
    sys.exit("another folder")
except PermissionError: pass
os.unlink("prompt")
os.close(here)
try:
    os.unlink("prompt")
    sys.exit("after it was closed")
except PermissionError: pass
PY
}
claim "a file in a session can be removed only by clearing its folder" inside removes

clears() { # NAME COMMAND…: removes a session without a message
	mkdir sessions/x || fail mkdir
	(cd sessions/x && ask "What is 1 plus 1?" >/dev/null)
	same "$(LC_ALL=C timeout $limit "${@:2}" sessions/x 2>&1)" "" "$1"
	[ ! -e sessions/x ] || fail "$1: it is still there"
}
all_clear() {
	clears rm rm -rf
	clears "rm -r" rm -r
	clears find sh -c 'find "$0" -delete'
	clears shutil python3 -c 'import shutil, sys; shutil.rmtree(sys.argv[1])'
	clears "a thread" python3 -c 'import shutil, sys, threading
t = threading.Thread(target=shutil.rmtree, args=sys.argv[1:]); t.start(); t.join()'
	clears "threads" python3 -c 'import os, sys, threading
def each(f, *a, **k):
    t = threading.Thread(target=f, args=a, kwargs=k); t.start(); t.join()
def clear(d):
    for n in os.listdir(d):
        if n == "params":
            p = os.open(n, os.O_RDONLY, dir_fd=d); clear(p); os.close(p); each(os.rmdir, n, dir_fd=d)
        else: each(os.unlink, n, dir_fd=d)
d = os.open(sys.argv[1], os.O_RDONLY); clear(d); os.rmdir(sys.argv[1])'
	clears rmdir rmdir
	if command -v busybox >/dev/null; then clears busybox busybox rm -r; fi
	if command -v fish >/dev/null; then clears fish fish -c 'rm -r $argv'; fi
}
claim "rm -rf, find -delete, shutil.rmtree and busybox rm -r end a session" all_clear

inhabited() { # a session with a reader and a writer can be removed
	mkdir sessions/x && cd sessions/x || exit
	begin_long
	LC_ALL=C cat wait >/dev/null 2>"$work/said" &
	exec 4<log
	cd "$m" || exit
	rm -rf sessions/x || fail "rm -rf"
	wait $!
	[ ! -e sessions/x ] || fail "it is still there"
	let_go
	exec 4<&-
}
claim "rm -rf ends a session that works" inhabited

default_stays() {
	fails_with "Operation not permitted" rm -rf sessions/default
	fails_with "Operation not permitted" rm -f prompt ../README
	fails_with "Operation not permitted" rm -rf info
	[ -e sessions/default/params/seed ] && [ "$(cat output)" = "$answer" ] || fail "sessions/default was changed"
}
claim "sessions/default and files outside sessions stay" default_stays
finish
