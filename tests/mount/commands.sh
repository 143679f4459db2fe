#!/usr/bin/env bash
# moefs list and moefs umount: what they print, which mounts they find, and their exit statuses; and a model in a
# folder that has a command's name.
. "$(dirname "$0")/lib.sh"

cp -r "$MODEL" "$work/list"
mkdir -p "$work/a b" "$work/other"
others=("$work/list")
mounted -o context=512
cd / || exit 1
line() { "$MOEFS" list | grep -F "$1	"; } # of a mount
words() { line "$mnt" | cut -f "$1"; }
serves() { # the process of the mount at a point, as its tree says
	cat "$1/pid"
}

lists() {
	same "$(words 1)" "$mnt" "point"
	same "$(words 2)" moefs "source"
	same "$(words 3)" "$daemon" "process"
	case $(words 4) in "$(basename "$MODEL") ("*")  list ("*")") ;; *) fail "models: $(words 4)" ;; esac
}
json() {
	"$MOEFS" list --json | jq -e --arg p "$mnt" --argjson pid "$daemon" --arg name "$(basename "$MODEL")" --argjson uid "$(id -u)" \
		'.[] | select(.mountpoint == $p) | .source == "moefs" and .process == $pid and .user == $uid and
		 (.models | map(.name)) == [$name, "list"] and (.models | all(.state | test("loading|ready|unloaded")))'
}
status_of() { # STATUS WORDS command…
	local want=$1 words=$2 said status
	shift 2
	said=$("$@" 2>&1)
	status=$?
	same $status "$want" "status"
	case $said in *"$words"*) ;; *) fail "said '$said', not '$words'" ;; esac
}
usage() {
	status_of 2 "moefs: usage: moefs list [--json]" "$MOEFS" list now &&
		status_of 2 "moefs: usage: moefs umount [-z] MOUNTPOINT|MODEL" "$MOEFS" umount &&
		status_of 2 "moefs: usage: moefs umount" "$MOEFS" umount -x "$mnt" &&
		status_of 1 "nowhere is not a mount of moefs, and no mount has a model of this name; moefs list shows" "$MOEFS" umount nowhere &&
		status_of 1 "$work is not a mount of moefs; moefs list shows" "$MOEFS" umount "$work"
}
told() { # each command is in --help and has a --help of its own
	local name
	for name in ask chat list stores top umount; do
		"$MOEFS" --help | grep -q "^  moefs $name " || fail "--help lacks $name"
		"$MOEFS" $name --help | grep -q "^usage: moefs $name " || fail "$name --help"
		"$MOEFS" $name -h >/dev/null || fail "$name -h: status $?"
		same "$("$MOEFS" $name --help | awk 'length > 90')" "" "long lines of $name --help"
	done
	same "$("$MOEFS" --help | awk 'length > 80')" "" "lines of --help that an 80 column terminal breaks"
}
unknown() { # WORD HINT: refused with the list of commands, whatever follows the word
	local said='moefs: "'$1'" is neither a command nor a folder; '$2'the commands are ask, chat, demo, list, stores, top, umount; see moefs --help'
	same "$("$MOEFS" "$1" 2>&1)" "$said"
	same "$("$MOEFS" "$1" "$MODEL" "$work/other" 2>&1)" "$said"
	status_of 1 "$said" "$MOEFS" "$1" "$MODEL"
}
unknown_words() {
	cd "$work" || exit
	unknown run "did you mean ask? "
	unknown aks "did you mean ask? "
	unknown lst "did you mean list? "
	unknown unmount "did you mean umount? "
	unknown mount "to mount: moefs MODELDIR... MOUNTPOINT; "
	unknown pull "moefs downloads nothing: get the model's files yourself, then moefs MODELDIR MOUNTPOINT; "
	unknown version "did you mean --version? "
	unknown frobnicate ""
	status_of 1 "$work/absent.gguf does not exist: download it first" "$MOEFS" absent.gguf "$work/other"
	mkdir run && status_of 1 "a model and a mountpoint are needed" "$MOEFS" run
	rmdir run
}
lost() { # STATUS COMMAND…: its output is lost, which it reports once, with the reason
	local status=$1 said
	shift
	said=$("$@" 2>&1 >/dev/full)
	same "$?" "$status" "status of $*"
	same "$said" "${program:-moefs}: cannot write to standard output: No space left on device" "$*"
}
all_lost() {
	local http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
	lost 1 "$MOEFS" --version
	lost 1 "$MOEFS" --help
	lost 1 "$MOEFS" list
	lost 1 "$MOEFS" list --help
	lost 1 "$MOEFS" ask --help
	lost 1 "$MOEFS" stores "$store"
	lost 2 "$MOEFS" --check "$MODEL"
	[ ! -x "$http" ] || program=moefs-http lost 1 "$http" --version
}
closed() { # the caller closed standard files: the daemon takes no file of the mount for one of them, and everything works
	local point=$work/other process
	# shellcheck disable=SC2094
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$point" <&- >&- 2>&- || fail "mount: status $?"
	process=$(serves "$point")
	for fd in 0 1 2; do
		same "$(readlink "/proc/$process/fd/$fd")" /dev/null "the daemon's descriptor $fd"
	done
	"$MOEFS" umount "$point" <&- >&- 2>&- || fail "umount: status $?"
	"$MOEFS" --version >&- 2>"$work/said" && fail "written to a closed file"
	grep -q "cannot write to standard output" "$work/said" || fail "$(cat "$work/said")"
}
from_within() { # the command's own working directory does not keep a mount; another process's does, and the message has the remedy
	local process
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	process=$(serves "$work/other")
	cd "$work/other" || exit
	status_of 1 "): leave it (cd)" "$MOEFS" umount "$work/other"
	cd /
	(cd "$work/other" && exec "$MOEFS" umount .) || fail "status $?"
	! mountpoint -q "$work/other" || fail "it is still there"
	until_true not alive "$process"
}
another_user() {
	status_of 1 "$mnt is the mount of user $(id -u): only that user and root may unmount it" \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$work/moefs" umount "$mnt"
}
stopped() { # PROCESS
	! cat "/proc/$1/task/"*/status | grep '^State:' | grep -qv 'State:.T'
}
looking() { # a mount that does not answer delays no command: its line says so
	kill -STOP "$daemon"
	until_true stopped "$daemon" || fail "it does not stop" # each of its threads, which may take a moment
	timeout "$limit" "$MOEFS" list >"$work/list.out"
	kill -CONT "$daemon"
	same "$(grep -F "$mnt	" "$work/list.out" | cut -f 3,4)" "-	does not answer"
}
second() { # a second mount, with a blank in its mountpoint, is found by its model's name
	timeout "$limit" "$MOEFS" -o "store=$store,name=second" "$MODEL" "$work/a b" || fail "mount"
	local process
	process=$(serves "$work/a b")
	same "$(line "$work/a b" | cut -f 1,3)" "$work/a b	$process"
	"$MOEFS" umount second || fail "by model: status $?"
	! mountpoint -q "$work/a b" || fail "it is still there"
	until_true not alive "$process"
}
which_one() { # the same model twice is ambiguous
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	local process
	process=$(serves "$work/other")
	status_of 1 "name the mountpoint" "$MOEFS" umount "$(basename "$MODEL")"
	(cd "$work" && "$MOEFS" umount other/) || fail "by a path: status $?"
	! mountpoint -q "$work/other" || fail "it is still there"
	until_true not alive "$process"
}
busy() { # the processes that use the mount are named; -z unmounts anyway
	local process
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	process=$(serves "$work/other")
	exec 7<"$work/other/version"
	status_of 1 "$work/other is in use by " "$MOEFS" umount "$work/other"
	status_of 1 "bash ($BASHPID)" "$MOEFS" umount "$work/other" # others may look at every mount just now
	"$MOEFS" umount -z "$work/other" || fail "-z: status $?"
	! mountpoint -q "$work/other" || fail "it is still there"
	same "$(cat <&7)" "$("$MOEFS" --version | cut -d ' ' -f 2)" "an open file is read to its end"
	exec 7<&-
	until_true not alive "$process"
}
soon_free() { # PROGRAM: a gateway closes its files once it sees that the mount is to go, moefs list is soon done; umount tries again
	local process program=$work/holders/$1
	mkdir -p "$work/holders"
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	process=$(serves "$work/other")
	rm -f "$work/holds"
	cat >"$program" <<-END
		#!/bin/sh
		exec 7<"$work/other/version"
		: >"$work/holds"
		until pgrep -f "umount $work/other" >/dev/null 7<&-; do sleep .01 7<&-; done
	END
	chmod +x "$program"
	"$program" &
	until_true test -e "$work/holds"
	"$MOEFS" umount "$work/other" || fail "status $?"
	! mountpoint -q "$work/other" || fail "it is still there"
	wait $!
	until_true not alive "$process"
}
killed() { # the mount of a killed daemon is listed as such, and can be unmounted
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	local process
	process=$(serves "$work/other")
	kill -9 "$process"
	until_true not alive "$process"
	same "$(line "$work/other" | cut -f 3,4)" "-	its daemon is gone"
	"$MOEFS" umount "$work/other" || fail "status $?"
	! grep -qF " $work/other " /proc/self/mountinfo || fail "it is still there"
}
elsewhere() { # another mount namespace has a copy: the daemon goes on, and the holder is named
	local process holder
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	process=$(serves "$work/other")
	mkfifo "$work/held"
	unshare -m --propagation private sh -c 'echo in; exec cat "$0"' "$work/held" >"$work/in" &
	holder=$!
	until_true [ -s "$work/in" ]
	until_true grep -qx cat "/proc/$holder/comm"
	status_of 1 "$work/other is unmounted here, but other mount namespaces still have it, those of cat ($holder): process $process goes on until they end" \
		timeout "$limit" "$MOEFS" umount "$work/other"
	! mountpoint -q "$work/other" || fail "it is still here"
	alive "$process" || fail "the daemon has ended"
	same "$("$MOEFS" list | grep -F "	$process	")" "-	-	$process	serves no mount that is visible here"
	if command -v jq >/dev/null; then
		"$MOEFS" list --json | jq -e --argjson pid "$process" '.[] | select(.process == $pid) | .mountpoint == null' >"$work/out" ||
			fail "list --json: $(cat "$work/out")"
	fi
	: >"$work/held"
	until_true not alive "$process"
	"$MOEFS" list | cut -f 3 | grep -qx "$process" && fail "list still has it"
	return 0
}
hidden() { # under another mount
	timeout "$limit" "$MOEFS" -o "store=$store" "$MODEL" "$work/other" || fail "mount"
	mount -t tmpfs none "$work/other"
	same "$(line "$work/other" | cut -f 4)" "hidden by another mount"
	status_of 1 "is not a mount of moefs" "$MOEFS" umount "$work/other"
	umount "$work/other"
	"$MOEFS" umount "$work/other" || fail "status $?"
}
named_like() { # ./list is a model
	(cd "$work" && timeout "$limit" "$MOEFS" -o "store=$store" ./list "$work/other") || fail "status $?"
	same "$(cd "$work/other" && echo list/info)" list/info
	"$MOEFS" umount "$work/other"
}

claim "list has a line for a mount: point, source, process, models with their states" lists
if command -v jq >/dev/null; then claim "…and the same in JSON" json; else echo "ok …and the same in JSON # skip: no jq here"; fi
claim "wrong arguments give the usage and status 2, missing files status 1" usage
claim "--help lists the commands and fits a terminal, and each has its own" told
claim "a first word that is neither a command nor a path is refused with a suggestion" unknown_words
claim "output that cannot be written is a failure, said once" all_lost
claim "standard files that are closed stay out of the way" closed
claim "umount from within: the command itself keeps nothing in use, a shell does" from_within
if [ "$(id -u)" = 0 ] && cp "$MOEFS" "$work/moefs" && chmod 755 "$work" "$work/moefs" &&
	setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$work/moefs"; then
	claim "another user's mount is called that" another_user
else
	echo "ok another user's mount # skip: needs root, and a folder that all may enter"
fi
claim "a mount that does not answer is listed as such" looking
claim "umount finds a mount by its model, also where there is a blank in its point" second
claim "…and says so where two have it" which_one
claim "a mount in use is not unmounted and its users are named; -z unmounts lazily" busy
needs pgrep claim "a gateway that still closes its files delays umount, and does not stop it" soon_free moefs-http
needs pgrep claim "nor does a moefs list that looks at the mount just then" soon_free moefs
claim "a killed daemon's mount is listed as such, and can be unmounted" killed
if mount -t tmpfs none "$work/other" 2>/dev/null && umount "$work/other"; then
	claim "a mount hidden by another is listed as such, and left alone" hidden
else
	echo "ok one that another mount hides is listed as such # skip: nothing may be mounted here"
fi
if unshare -m --propagation private true 2>/dev/null; then
	claim "a mount still in use in another namespace keeps its daemon: umount names the user, and fails" elsewhere
else
	echo "ok what another mount namespace still has # skip: no mount namespace can be made here"
fi
claim "a model in a folder called like a command is mounted as ./NAME" named_like
# ---- completion ----
pages=$(dirname "$MOEFS")/install
[ -e "$pages/moefs.bash" ] || pages=$root/build/install
mkdir -p "$work/bin" && ln -s "$(realpath "$MOEFS")" "$work/bin/moefs"
in_bash() { # LINE: the completions
	PATH=$work/bin:$PATH LINE=$1 bash -c '
		compopt() { :; }
		. "$0"
		COMP_LINE=$LINE COMP_POINT=${#LINE}
		read -ra COMP_WORDS <<<"$LINE"
		[[ $LINE != *" " ]] || COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_moefs
		printf "%s\n" "${COMPREPLY[@]}"' "$pages/moefs.bash"
}
in_fish() {
	PATH=$work/bin:$PATH HOME=$work fish -c "source '$pages/moefs.fish'; complete -C '$1'" | cut -f 1
}
completes() { # SHELL's function
	local name
	name=$(basename "$MODEL")
	cd "$work" || exit
	$1 "moefs ask ${name:0:3}" | grep -qxF "$name" || fail "ask lacks a model"
	$1 "moefs umount ${name:0:3}" | grep -qxF "$name" || fail "umount lacks a model"
	$1 "moefs umount " | grep -qxF "$mnt" || fail "umount lacks a mountpoint"
}
claim "bash completes the models that are mounted, and where" completes in_bash
if command -v fish >/dev/null; then claim "…and so does fish" completes in_fish; else echo "ok …and fish # skip: no fish here"; fi

ended() { "$MOEFS" umount "$mnt" && ! alive "$daemon"; }
claim "umount takes the mount away, and its daemon has ended" ended
daemon=
same "$("$MOEFS" list | grep -cF "$work")" 0 "what is left"
finish
