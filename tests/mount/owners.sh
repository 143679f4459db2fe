#!/bin/bash
# With allow_other, modes and owners count, for root as well.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip_all "only root can try being two users"
command -v setpriv >/dev/null || skip_all "setpriv is not installed"
chmod 755 "$work"
holdable
mounted -o allow_other
loaded
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
third() { setpriv --reuid=65533 --regid=65533 --clear-groups "$@"; }

looks() {
	other ls -l . >/dev/null || fail ls
	other cat info/layers experts/map ../README >/dev/null || fail cat
	fails_with "Permission denied" other cat output
	fails_with "Permission denied" other bash -c 'echo q > prompt'
	fails_with "Permission denied" other ls sessions/default/params
	fails_with "Permission denied" other bash -c 'echo 16M > ../cache/budget'
}
claim "another user may look, but not into a conversation" looks

# For all files ls -l says who may read and write, even if a daemon that runs as root serves them.
every_file() {
	find . ../cache ../README ../version ../error -type f ! -path './tensors/*' ! -path './experts/0[1-9]/*' -printf '%m %p\n' >"$work/files"
	[ "$(wc -l <"$work/files")" -gt 60 ] || fail "only $(wc -l <"$work/files") files are seen"
	export -f every_file_of
	other bash -c 'every_file_of' <"$work/files" || fail "as said"
}
every_file_of() { # the mode bits decide: denied opens fail, allowed reads work
	local mode file
	while read -r mode file; do
		if [ $((8#$mode & 4)) = 0 ]; then ! : <"$file"; else : <"$file"; fi 2>/dev/null ||
			{ echo "$file: reading, with mode $mode"; return 1; }
		[ $((8#$mode & 2)) != 0 ] || ! : >>"$file" 2>/dev/null || { echo "$file: written, with mode $mode"; return 1; }
	done 2>/dev/null
}
claim "all files: another user may what their modes say" every_file

makes() {
	other mkdir sessions/theirs || fail mkdir
	same "$(stat -c %u sessions/theirs)" 65534
	same "$(stat -c %u sessions/default)" 0
	other bash -c 'cd sessions/theirs && echo "What is 1 plus 1?" > prompt && [ -n "$(timeout $limit cat output)" ]' || fail turn
	other bash -c 'exec 3<>ask; echo "What is 1 plus 1?" >&3; [ -n "$(timeout $limit cat <&3)" ]' || fail ask
}
claim "another user has sessions and asks of their own" makes

traces() { # two users have opened the trace before both turns: each sees only its own lines
	local opened
	coproc theirs { other bash -c 'exec 3<experts/trace; echo open; read go; cat <&3'; }
	read -r -u "${theirs[0]}" opened
	exec 5<experts/trace
	ask "What is 1 plus 1?" >/dev/null
	other bash -c 'cd sessions/theirs && echo "What is 1 plus 2?" > prompt && timeout $limit cat wait' >/dev/null || fail turn
	echo go >&"${theirs[1]}"
	timeout $limit cat <&"${theirs[0]}" >"$work/theirs"
	same "$(awk '{ print $1 }' "$work/theirs" | uniq)" theirs "another's"
	same "$(timeout $limit cat <&5 | awk '{ print $1 }' | uniq | tr '\n' ' ')" "default theirs " "the owner's"
}
claim "experts/trace shows another user his own sessions alone, and the mount's owner all" traces

waits() { # each sees how many turns wait, and the lines of his own
	cd sessions/default && begin_long 0 && cd ../.. || exit
	until_stands
	mkdir sessions/secret-plan && echo "My secret." >sessions/secret-plan/prompt || fail "refused"
	other bash -c 'echo "Their secret." > sessions/theirs/prompt' || fail "another is refused"
	same "$(lines_of cat)" "queued 2 secret-plan theirs" "the owner's"
	same "$(lines_of other cat)" "queued 2 theirs" "another's"
	same "$(lines_of third cat)" "queued 2" "a third user's"
	! grep -i secret. <(third cat ../cache/waiting; other cat ../cache/waiting) || fail "another's prompt or session"
	cd sessions/default && end_long && cd ../.. || exit
	timeout $limit cat sessions/secret-plan/wait >/dev/null && rmdir sessions/secret-plan
	other timeout $limit cat sessions/theirs/wait >/dev/null
}
lines_of() { "$@" ../cache/waiting | sed -n '/^queued/,$p' | awk '{ print $1 == "queued" ? $0 : $2 }' | sort | paste -sd ' '; } # COMMAND…
claim "cache/waiting shows another user his own sessions alone, and the mount's owner all" waits

root() {
	fails_with "Permission denied" cat sessions/theirs/output
	fails_with "Permission denied" bash -c 'echo q > sessions/theirs/prompt'
	fails_with "Permission denied" ls sessions/theirs
	fails_with "Operation not permitted" rmdir sessions/theirs
	fails_with "Operation not permitted" mv sessions/theirs sessions/mine
	[ -d sessions/theirs ] || fail "gone"
	fails_with "Operation not permitted" other rmdir sessions/default
}
claim "root is refused another's session" root
lengths() { # as stat, ls -l, find and du have them: of a file alone, and with its folder
	ask "What is the capital of France?" >/dev/null
	for f in prompt output log status wait error ctl stats; do
		same "$(other stat -c %s $f)" 0 "stat $f"
		same "$(stat -c %s $f)" "$(cat $f | wc -c)" "stat $f by its owner"
		same "$(other stat -c %Y $f)" "$(other stat -c %Y sessions/default)" "the time of $f"
	done
	same "$(other ls -l . | awk '/^-rw-------/ && $5 {print $9}')" "" "ls -l"
	same "$(other find . -maxdepth 1 -type f -perm 600 -size +0 -print 2>/dev/null)" "" find
	same "$(other du --apparent-size -b log | cut -f1)" 0 du
	same "$(other stat -c %s config.json)" "$(stat -c %s config.json)" "config.json"
}
claim "how long another's texts are does not show" lengths

failures() {
	same "$(other cat ../error)" "" "before any"
	shell_fails_with "Invalid argument" "echo my-secret > sessions/default/params/temperature"
	grep -q my-secret ../error || fail "the owner's error: $(cat ../error)"
	grep -q my-secret error || fail "the session's error: $(cat error)"
	same "$(other cat ../error)" "" "another's look at the mount's error"
	same "$(other stat -c %s ../error)" 0 "its size"
	fails_with "Invalid argument" other bash -c 'echo their-secret > sessions/theirs/params/temperature'
	other grep -q their-secret ../error || fail "their error: $(other cat ../error)"
	other grep -q their-secret sessions/theirs/error || fail "their session's error"
	grep -q their-secret ../error || fail "the mount's owner sees: $(cat ../error)"
	fails_with "Invalid argument" other bash -c 'echo q > ask'
	other grep -q "ask: open it" ../error || fail "their error after ask: $(other cat ../error)"
	grep -q my-secret error || fail "the default session's error tells of another's ask: $(cat error)"
	other bash -c 'printf "caf\xff\n" > sessions/theirs/prompt; cat sessions/theirs/wait' >/dev/null
	other grep -qi utf-8 ../error || fail "a failed turn: $(other cat ../error)"
	same "$(third cat ../error)" "" "a third user"
	shell_fails_with "Invalid argument" "echo much > ../cache/budget"
	other grep -q much ../error && fail "they see the owner's"
	other grep -qi utf-8 ../error || fail "what the owner did hides theirs: $(other cat ../error)"
}
claim "error shows each user his own failures, and the mount's owner everybody's" failures

ends() { other rm -rf sessions/theirs && [ ! -e sessions/theirs ]; }
claim "its maker ends it" ends

nobodys() { # files that belong to nobody can be read by everybody
	cd / && unmounted
	mkdir "$work/models" && ln -s "$MODEL" "$work/models/good" && mkdir "$work/models/broken"
	echo '{"model_type": 7}' >"$work/models/broken/config.json"
	touch "$work/models/broken/broken"
	m=$mnt MODEL=$work/models mounted -o allow_other
	other grep -q broken "$mnt/error" || fail "error: $(other cat "$mnt/error")"
	fails_with "Invalid argument" other bash -c "echo q > $mnt/*/ask"
	grep -q ask "$mnt/error" && other grep -q ask "$mnt/error" || fail "what came last: $(cat "$mnt/error")"
	setpriv --reuid=65533 --regid=65533 --clear-groups grep -q broken "$mnt/error" || fail "a third user"
}
cd / # the mount ends when nobody stands in it
claim "a model's errors are shown to everybody" nobodys
finish
