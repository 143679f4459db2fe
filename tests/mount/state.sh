#!/bin/bash
# A session's state: cp out saves it, cp in restores or forks it, across mounts; a wrong state is refused with a reason
# and harms nothing.
. "$(dirname "$0")/lib.sh"
holdable
other=$work/qwen3
cp -r "$root/tests/data/fixtures/qwen3" "$other" &&
	"$root/build/pack" -d "$other/model.safetensors.packed" "$other/model.safetensors" || exit 1
others=("$other")
mounted
loaded
kept=$work/kept

stat_of() { awk -v k="$1" '$1 == k { print $2 }' "$2/stats"; } # KEY SESSION
# All that a session shows, except the speeds of its last turn.
shows() { (cd "$m/sessions/$1" && cat log prompt output status && grep -r . params | grep -v '^params/share_with:'); }
new() { # NAME…: sessions that give short answers, always the same, and find nothing that others have computed
	local s
	for s; do
		mkdir "$m/sessions/$s" && echo "$s" >"$m/sessions/$s/params/share_with" || fail "mkdir $s"
	done
}
# Both give the same answer and compute only new tokens: the earlier prompt is in the context.
go_on_alike() { # SESSION SESSION PROMPT
	local a b
	a=$(cd "sessions/$1" && ask "$3") && b=$(cd "sessions/$2" && ask "$3") || fail "no answer"
	same "$a" "$b" "the answers of $1 and $2"
	same "$(stat_of cached_tokens "sessions/$2")" "$(stat_of cached_tokens "sessions/$1")" cached_tokens
	same "$(stat_of recomputed_tokens "sessions/$2")" 0 recomputed_tokens
	[ "$(stat_of cached_tokens "sessions/$2")" -ge "$known" ] || fail "computed anew: $(cat "sessions/$2/stats")"
}
first_turn() { # SESSION; sets known: the tokens in its context without the answer's last one
	(cd "sessions/$1" && ask "Who lived in the forest?" >/dev/null) || fail "no answer"
	known=$(stat_of context_tokens "sessions/$1")
}

saves() {
	new a
	[ "$(stat -c %s sessions/a/state)" -gt 0 ] || fail "an empty file"
	first_turn a
	local size
	size=$(stat -c %s sessions/a/state)
	cp sessions/a/state "$kept" || fail "cp"
	same "$(stat -c %s "$kept")" "$size" "the copy's size"
	cmp sessions/a/state "$kept" || fail "not the same twice"
	cmp <(dd if=sessions/a/state bs=1001 status=none) "$kept" || fail "by small pieces"
	cmp <(tar cf - -C sessions/a state | tar xOf -) "$kept" || fail "by tar"
	cmp <(tail -c 1000 sessions/a/state) <(tail -c 1000 "$kept") || fail "its end alone"
	same "$(stat -c %a sessions/a/state)" 600
}
claim "cp out saves what its size says" saves

restores() {
	first_turn a # of what it knows: the same words once more
	cp sessions/a/state "$kept" && new b && cp "$kept" sessions/b/state || fail "cp"
	diff <(shows a) <(shows b) || fail "not the same session"
	go_on_alike a b "And what did he eat?"
	go_on_alike a b "Why?"
}
claim "cp in restores, and nothing is computed again" restores

forks() {
	new c d
	first_turn c
	cp sessions/c/state sessions/d/state || fail "cp from session to session"
	c=$(cd sessions/c && ask "Was it a bear?") && d=$(cd sessions/d && ask "Was it a fox?") || fail "no answer"
	[ "$(stat_of cached_tokens sessions/d)" -ge "$known" ] || fail "computed anew"
	grep -q "a bear" sessions/c/log && ! grep -q "a fox" sessions/c/log || fail "c has what d was asked"
	grep -q "a fox" sessions/d/log && ! grep -q "a bear" sessions/d/log || fail "d has what c was asked"
	new e && first_turn e && same "$(cd sessions/e && ask "Was it a fox?")" "$d" "never forked"
	rmdir sessions/c && (cd sessions/d && ask "And then?" >/dev/null) || fail "after the other's end"
}
claim "a fork and its original go on independently" forks

forks_by_verb() {
	new v
	first_turn v
	echo 0.25 >sessions/v/params/temperature
	echo "fork its copy" >sessions/v/ctl || fail "$(cat sessions/v/error)"
	diff <(shows v) <(shows "its copy") || fail "not the same session"
	same "$(stat -c '%a %u' "sessions/its copy")" "700 $(id -u)"
	same "$(cat "sessions/its copy/params/share_with")" v
	echo copy >"sessions/its copy/params/share_with" # so that it does not find what v is asked first
	echo 0 >sessions/v/params/temperature && echo 0 >"sessions/its copy/params/temperature"
	go_on_alike v "its copy" "Was it a fox?"
	shell_fails_with "File exists" "echo fork 'its copy' > sessions/v/ctl"
	local name
	for name in "" a/b .. .; do
		shell_fails_with "Invalid argument" "echo 'fork $name' > sessions/v/ctl"
	done
	shell_fails_with "File name too long" "printf 'fork %0256d' 1 > sessions/v/ctl"
	cd sessions/v && begin_long 8
	shell_fails_with "Device or resource busy" "echo fork other > ctl"
	end_long
	cd ../.. && [ ! -e sessions/other ] || fail "a copy of a session that was working"
	shell_fails_with "File exists" "cp -r sessions/v sessions/other"
	rmdir sessions/other sessions/v "sessions/its copy"
}
claim "fork NAME in ctl makes a copy that knows as much" forks_by_verb

context_used() { awk '$1 == "context_used" { print $2 }' ../cache/stats; }
forks_without_room() {
	new full
	first_turn full
	rm -f prefixes/*
	local budget before
	until_true at_rest "$daemon" || fail "it does not rest" # memory of sessions and handles is given back behind them
	budget=$(cat ../cache/context_budget) before=$(context_used)
	echo 64K >../cache/context_budget || fail "cannot be set"
	echo fork shares >sessions/full/ctl || fail "$(cat sessions/full/error)"
	same "$(context_used)" "$before" "the memory of contexts"
	new copied && fails_with "No space left on device" cp sessions/full/state sessions/copied/state
	echo "$budget" >../cache/context_budget || fail "cannot be set"
	diff <(shows full) <(shows shares) || fail "not the same session"
	echo copy >sessions/shares/params/share_with
	go_on_alike full shares "Was it a fox?"
	rmdir sessions/full sessions/shares sessions/copied
}
claim "fork NAME needs no room in cache/context_budget" forks_without_room

idioms() {
	new f
	local how
	for how in "cat '$kept' > sessions/f/state" "dd if='$kept' of=sessions/f/state bs=777 status=none" \
		"cp --sparse=always '$kept' '$work/sparse' && cp '$work/sparse' sessions/f/state" \
		"gzip -c sessions/b/state >'$work/gz' && cp '$kept' sessions/f/state && gzip -dc '$work/gz' > sessions/f/state && cp '$kept' sessions/f/state" \
		"python3 -c 'import shutil; shutil.copyfile(\"$kept\", \"sessions/f/state\")'"; do
		echo reset > sessions/f/ctl && bash -c "$how" || fail "$how"
		cmp sessions/f/state "$kept" || fail "not restored: $how"
	done
	if command -v zstd >/dev/null; then
		zstd -q <sessions/f/state >"$work/zst" && echo reset > sessions/f/ctl && zstd -dq <"$work/zst" > sessions/f/state &&
			cmp sessions/f/state "$kept" || fail zstd
	fi
	before=$(shows f)
	: > sessions/f/state && true > sessions/f/state && same "$(shows f)" "$before" "truncation alone"
}
claim "cat, dd, gzip, zstd, sparse copies and python restore, too" idioms

fixed() {
	exec 3<sessions/b/state || fail "open"
	(cd sessions/b && ask "Tell me more." >/dev/null) && echo reset > sessions/b/ctl || fail "a turn"
	cat <&3 >"$work/late"
	cp "$work/late" sessions/b/state && grep -q "Why?" sessions/b/log && ! grep -q "more" sessions/b/log ||
		fail "not as it was at its opening: $(cat sessions/b/log)"
	exec 3<&-
}
claim "reading gives the session at the moment of opening" fixed

# refused WHY WORDS command…: the command fails with these words of errno's, the error says these, nothing changes
refused() {
	local why=$1 words=$2 before
	shift 2
	before=$(shows f)
	fails_with "$words" "$@"
	grep -q "$why" "$mnt/error" || fail "MOUNT/error does not say '$why': $(cat "$mnt/error")"
	grep -q "$why" sessions/f/error || fail "the session's error does not say '$why': $(cat sessions/f/error)"
	same "$(shows f)" "$before" "the session"
	cmp sessions/f/state "$kept" || fail "the session is not what it was"
}
into() { cat >"$work/new" && LC_ALL=C cp "$work/new" sessions/f/state; } # what stdin has
flip() { # AT: flips a bit of the file at this place
	python3 - "$kept" "$1" <<'PY'
import sys
data = bytearray(open(sys.argv[1], 'rb').read())
data[int(sys.argv[2])] ^= 4
sys.stdout.buffer.write(data)
PY
}
damaged() {
	local size at
	size=$(stat -c %s "$kept")
	for at in 3 40 200 400 $((size / 2)) $((size - 4)); do
		flip $at | refused "the session is unchanged" "Invalid argument" into
	done
	flip $((size / 2)) | refused "checksum" "Invalid argument" into
	head -c $((size - 1)) "$kept" | refused "ends after $((size - 1)) of $size bytes" "Invalid argument" into
	head -c 100 "$kept" | refused "within its head" "Invalid argument" into
	{ cat "$kept"; echo; } | refused "more than its head says" "Invalid argument" into
	echo hello | refused "not copied from a session's state file" "Invalid argument" into
	refused "from beginning" "Invalid argument" dd if="$kept" of=sessions/f/state seek=1 bs=4096 status=none
}
claim "a damaged state is refused with a reason and harms nothing" damaged

another_model() {
	local there=$mnt/qwen3/sessions/default
	fails_with "Invalid argument" cp "$kept" "$there/state"
	grep -q "by the model fable-moe-15m, but this is qwen3" "$there/error" || fail "$(cat "$there/error")"
	grep -q "messages.json" "$there/error" || fail "no remedy: $(cat "$there/error")"
	same "$(cat "$there/log")" ""
	fails_with "Invalid argument" bash -c "head -c 512 '$kept' >'$there/state'" # by the first write
	cp "$there/state" "$work/theirs" || fail "cp"
	refused "by the model qwen3" "Invalid argument" cp "$work/theirs" sessions/f/state
}
claim "another model's is refused by the first write" another_model

busy() {
	cp "$kept" sessions/f/state
	new g && cd sessions/g && begin_long
	fails_with "Device or resource busy" cp state "$work/busy"
	fails_with "Device or resource busy" cp "$kept" state
	fails_with "Device or resource busy" cp state ../f/state # the fork of one that generates
	grep -q "still answering.*stop" "$mnt/error" || fail "$(cat "$mnt/error")"
	working
	end_long
	cmp ../f/state "$kept" || fail "f has changed"
	cp state "$work/busy" || fail "not even now"
	exec 3>state && cat "$kept" >&3 || fail "write" # it begins, and then there is a turn
	begin_long && working && exec 3>&- # nobody hears why, but it is said
	working
	grep -q "state: the session is still working" "$mnt/error" || fail "$(cat "$mnt/error")"
	end_long
	rmdir ../g
}
claim "in a turn it is busy" busy

no_room() {
	local budget size
	budget=$(cat ../cache/context_budget) size=$(stat -c %s "$kept")
	echo 64K > ../cache/context_budget || fail "cannot be set"
	refused "context budget is used up" "No space left on device" cp "$kept" sessions/f/state
	echo "$budget" > ../cache/context_budget
	cp "$kept" sessions/f/state || fail "with room again"
	same "$(cat sessions/f/error)" "" "the error of a session that was restored"
}
claim "without room for its context it is ENOSPC with a reason" no_room

killed() {
	local before used
	before=$(shows f)
	python3 - "$work/later" sessions/f/state "$kept" <<'PY' || fail "python"
import os, signal, sys
child = os.fork()
if child == 0:
    f = os.open(sys.argv[2], os.O_WRONLY | os.O_TRUNC)
    data = open(sys.argv[3], 'rb').read()
    os.write(f, data[:len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
PY
	same "$(shows f)" "$before" "the session"
	cmp sessions/f/state "$kept" || fail "the session is not what it was"
	grep -q "ends after" "$mnt/error" || fail "MOUNT/error: $(cat "$mnt/error")"
}
claim "a cp that is killed half way harms nothing" killed

used_again() { [ "$(stat_of context_used ../cache)" = "$1" ]; }
gives_back() { # memory of handles is given back; two sessions share the blocks of one text
	local i used
	for i in $(seq 20); do cp "$kept" sessions/f/state && cp sessions/f/state "$work/again" || fail "cp"; done
	until_true at_rest "$daemon" || fail "it does not rest" # the last handle's are given back behind it
	used=$(stat_of context_used ../cache)
	for i in $(seq 20); do cp "$kept" sessions/f/state && cp sessions/f/state "$work/again" || fail "cp"; done
	until_true used_again "$used" ||
		fail "context_used grows: $used, $(stat_of context_used ../cache)"
}
claim "saving and restoring takes no memory" gives_back

ends() {
	new h && cp "$kept" sessions/h/state && exec 3<sessions/h/state 4>sessions/h/state && head -c 5000 "$kept" >&4
	rmdir sessions/h || fail rmdir
	fails_with "Stale file handle" cat <&3
	exec 3<&- 4>&- 5<&-
	true
}
claim "a session ends while its state is open" ends

cp "$kept" sessions/f/state
cd "$work" && unmounted
mounted
across() {
	same "$(ls sessions)" default
	new i j
	cp "$kept" sessions/i/state || fail "cp" # whether or not the weights are there yet
	cp "$kept" sessions/j/state && rmdir sessions/i && new i && cp sessions/j/state sessions/i/state || fail "cp"
	known=40 go_on_alike i j "And what did he eat?"
	[ "$(stat_of cached_tokens sessions/j)" -gt 40 ] || fail "computed anew: $(cat sessions/j/stats)"
}
claim "it outlives the mount" across

cd "$work" && unmounted
mounted -o quant=tq4
recipe() {
	fails_with "Invalid argument" cp "$kept" sessions/default/state
	grep -q "recipe 4bit, but this mount uses tq4" error || fail "$(cat error)"
	grep -q "messages.json" error || fail "no remedy: $(cat error)"
}
claim "another recipe's is refused with a reason" recipe
finish
