#!/bin/bash
# With allow_other, modes and owners count, for root as well.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip_all "only root can try being two users"
command -v setpriv >/dev/null || skip_all "setpriv is not installed"
chmod 755 "$work"
mounted -o allow_other
loaded
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

looks() {
	other ls -l . >/dev/null || fail ls
	other cat info/layers experts/map ../README >/dev/null || fail cat
	fails_with "Permission denied" other cat output
	fails_with "Permission denied" other bash -c 'echo q > prompt'
	fails_with "Permission denied" other ls sessions/default/params
	fails_with "Permission denied" other bash -c 'echo 16M > ../cache/budget'
}
claim "another user may look, but not into a conversation" looks

makes() {
	other mkdir sessions/theirs || fail mkdir
	same "$(stat -c %u sessions/theirs)" 65534
	same "$(stat -c %u sessions/default)" 0
	other bash -c 'cd sessions/theirs && echo "What is 1 plus 1?" > prompt && [ -n "$(timeout $limit cat output)" ]' || fail turn
	other bash -c 'exec 3<>ask; echo "What is 1 plus 1?" >&3; [ -n "$(timeout $limit cat <&3)" ]' || fail ask
}
claim "another user has sessions and asks of their own" makes

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
ends() { other rm -rf sessions/theirs && [ ! -e sessions/theirs ]; }
claim "its maker ends it" ends
finish
