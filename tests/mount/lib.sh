# Shared by the tests of the mount: a mount of $MODEL by $MOEFS in a folder of its own, which is removed however the
# test ends, and assertions that print one line each.
#
# A test sources this file, calls `mounted [options]`, makes its claims with `claim NAME command…`, and
# ends with `finish`. It prints "ok NAME" or "not ok NAME: why" for each claim and exits 1 if one failed.
# Needed: MOEFS (the program; default build/moefs) and MODEL (a checkpoint's directory).

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
MOEFS=${MOEFS:-$root/build/moefs}
MODEL=${MODEL:-$root/examples/models/fable-moe-15m}
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-test.XXXXXX") || exit 1
mnt=$work/mnt
m=$mnt/$(basename "$MODEL") # the mounted model's folder
others=()                   # models mounted beside it
limit=${LIMIT:-300}         # seconds after which a step is taken to hang, on however busy a machine
store=$work/store           # where converted weights go
export here limit           # for what the tests run
disk=                       # the process of a disk that fails on demand
daemon=                     # its process
failures=0

skip_all() { # unmounts first, as at any end
	echo "ok $(basename "$0") # skip: $1"
	exit 0
}

# False for a process that has ended but was not waited for. Its first thread may have ended before others, which keep its files.
alive() {
	grep -qs '^State:.[^ZX]' "/proc/$1/task/"*/status
}

not() { ! "$@"; } # COMMAND…

# ---- waiting for an event, however long it takes; a wait that times out says for what ----

# until_true COMMAND…: returns as soon as it succeeds, or fails after $limit seconds. The command runs in this shell: the variables
# that it sets stay set, and a call of `fail` in it ends the wait. It runs again after 1 ms, 2 ms … 32 ms.
until_true() {
	local deadline=$((SECONDS + limit)) pause=1
	until "$@"; do
		[ $SECONDS -le $deadline ] || return 1
		moment $pause
		[ $pause -ge 32 ] || pause=$((pause * 2))
	done
}
# Waits without starting a process, on a pipe that nobody writes to.
moment() { # MILLISECONDS, fewer than 1000
	local millis
	printf -v millis %03d "$1"
	read -rt "0.$millis" -u "$silent" _
	true
}
# The same for an event that a process causes: fails as soon as that process has ended without it.
until_true_by() { # PROCESS COMMAND…
	until_true true_or_over "$@" && "${@:2}"
}
true_or_over() { "${@:2}" || ! alive "$1"; }
# Every thread of a process waits, or the process has ended: none is running or about to, and none has run since the last look.
at_rest() { # PROCESS
	local before=${switches:-none}
	switches=$(cat "/proc/$1/task/"*/status 2>/dev/null | grep -E '^(State|.*_ctxt_switches):')
	! alive "$1" || { [ "$switches" = "$before" ] && ! grep -q '^State:.R' <<<"$switches"; }
}
longer() { [ "$(stat -c %s "$1")" -gt "$2" ]; } # FILE BYTES

# Unmounts as a user does. Another program may have a file open at that moment: `moefs list` looks into every mount.
user_unmounts() { # MOUNTPOINT
	until_true fusermount3 -u "$1" 2>/dev/null || fusermount3 -u "$1"
}

unmounted() { # unmounts and waits for the daemon's end
	fusermount3 -u "$mnt" 2>/dev/null || fusermount3 -u -z "$mnt" 2>/dev/null
	[ -z "$daemon" ] || until_true not alive "$daemon" || kill -9 "$daemon"
	daemon=
}

clean_up() {
	trap - EXIT
	cd /
	[ -n "$disk" ] && faults # what stalls could not end
	[ -n "$(jobs -p)" ] && kill $(jobs -p | grep -vx "${disk:-none}") 2>/dev/null
	unmounted
	if [ -n "$disk" ]; then
		fusermount3 -u "$work/faulty" || fusermount3 -u -z "$work/faulty"
		wait "$disk"
	fi
	rm -rf --one-file-system "$work"
}
trap 'clean_up' EXIT
trap 'exit 130' INT TERM
mkfifo "$work/silent" "$work/over" && exec {silent}<>"$work/silent" {over}<>"$work/over" || exit 1

[ -x "$MOEFS" ] || { echo "not ok $(basename "$0"): $MOEFS is missing; run make"; exit 1; }
[ -f "$MODEL/config.json" ] || skip_all "no checkpoint at $MODEL"

# Mounts with the options given, and stands in the model's folder.
mounted() {
	mkdir -p "$mnt"
	if ! timeout $limit "$MOEFS" -o "store=$store" "$@" "$MODEL" "${others[@]}" "$mnt" 2>"$work/stderr"; then
		if [ ! -e /dev/fuse ]; then
			skip_all "no /dev/fuse here: load the module with modprobe fuse, or start the container with --device /dev/fuse"
		fi
		echo "not ok mount: $(tr '\n' ' ' <"$work/stderr")"
		exit 1
	fi
	daemon=$(pgrep -n -f -- " $mnt\$") # no one else has this mountpoint on its command line
	cd "$m" || exit 1
	# Answers short enough for a test, and the same every time.
	if [ -e sessions/default/params/max_tokens ]; then
		echo 24 > sessions/default/params/max_tokens
		echo 0 > sessions/default/params/temperature
	fi
}

is_settled() { # INFO, a model's folder: loading has succeeded or failed
	case $(cat "$1/state") in ready | failed) ;; *) false ;; esac
}
loaded() { # waits until the weights are there
	until_true is_settled info
	[ "$(cat info/state)" = ready ] && return 0
	echo "not ok load: $(cat info/state): $(cat ../error)"
	exit 1
}

complete() { # [FOLDER]: waits until that model's store is complete, perhaps long after its first answers
	local info=${1:-$m}/info
	until_true is_complete "$info" || fail "not ok complete: $(cat "$info/state"), $(cat "$info/progress")"
}
is_complete() { [ "$(cat "$1/state") $(cat "$1/progress")" = "ready idle" ]; } # INFO
# For the next mount of complete stores: only experts that a turn needs are read. find returns to the folder where it
# was started, which may be in a mount that is gone.
cold() {
	(cd / && find "$work" -xdev -name heat -delete)
}

# scripted SCRIPT.json [TOKENIZER_DIR [TEMPLATE]]: the next mount has a model that answers by this script
# (tests/scripted), by default with the demonstration model's tokenizer and template.
scripted() {
	local make=$(dirname "$MOEFS")/scripted
	[ -x "$make" ] || { echo "not ok $(basename "$0"): $make is missing; run make unit"; exit 1; }
	MODEL=$work/scripted
	rm -rf "$MODEL"
	m=$mnt/scripted
	if ! "$make" "$MODEL" "$1" "${2:-$root/examples/models/fable-moe-15m}" ${3:+"$3"} 2>"$work/stderr"; then
		echo "not ok $(basename "$0"): $(cat "$work/stderr")"
		exit 1
	fi
}

# The next mount runs a program whose turns stop when begin_long says so, and whose grammars wait while
# $MOEFS_HOLD_GRAMMAR exists: tests/mount/held.c.
holdable() {
	MOEFS=${MOEFS_HELD:-$(dirname "$MOEFS")/moefs-held}
	[ -x "$MOEFS" ] || { echo "not ok $(basename "$0"): $MOEFS is missing; run make unit"; exit 1; }
	export MOEFS_HOLD=$work/hold MOEFS_HOLD_GRAMMAR=$work/hold_grammar
}

# gateway [OPTIONS]: moefs-http serves the mount, at $url.
gateway() {
	: >"$work/http"
	"${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}" -o listen=127.0.0.1:0 "$@" "$mnt" 2>"$work/http" &
	served=$!
	listens $served "$work/http"
}
# Waits until a started moefs-http prints its address, and sets $url.
listens() { # PROCESS FILE: of its output
	until_true_by "$1" says_where "$2" || fail "not ok moefs-http begins: $(cat "$2")"
}
says_where() {
	url=$(sed -n 's,^moefs-http: listening on ,http://,p' "$1")
	[ -n "$url" ]
}
# scripted_gateway SCRIPT.json: a model that answers by this script, beside the demonstration model, served at $url for the
# Python files in this folder.
scripted_gateway() {
	scripted "$1" "" "$here/conversation.jinja"
	others=("$root/examples/models/fable-moe-15m")
	mounted
	loaded
	export mnt PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
	echo auto > sessions/default/params/max_tokens
	gateway
	export url
}
# Ends the gateway, and claims that it ended with status 0 and left nothing in the tree.
gateway_over() {
	local ended
	kill -TERM "$served" && wait "$served"
	ended=$?
	left_nothing() {
		same "$ended" 0 "$(tail -n 3 "$work/http")"
		same "$(ls -d "$mnt"/*/sessions/http-* 2>/dev/null)" "" "sessions that are left"
	}
	claim "moefs-http ends, and leaves no session" left_nothing
}

# ---- a disk that fails on demand: tests/mount/faultfs.c ----

faulty_disk() { # the store is on a mirror of $work/disk to which `faults` adds failures
	local faultfs=${FAULTFS:-$(dirname "$MOEFS")/faultfs}
	[ -x "$faultfs" ] || { echo "not ok $(basename "$0"): $faultfs is missing; run make unit"; exit 1; }
	store=$work/faulty
	mkdir -p "$store" "$work/disk"
	"$faultfs" "$work/disk" "$store" 2>"$work/faultfs" &
	disk=$!
	until_true [ -e "$store/.faults" ] && return 0
	echo "not ok a disk that fails on demand: $(cat "$work/faultfs")"
	exit 1
}
faults() { # RULE…: these rules from now on; without arguments none. In one write, since each write replaces all rules
	cat <<<"$(printf '%s\n' "$@")" >"$work/faulty/.faults"
	[ "$(grep -c . "$work/faulty/.faults")" = $# ] || fail "not all of these rules are taken: $*"
}
struck() { # how often a rule was applied
	awk '{ for (i = 1; i < NF; i++) if ($i == "hit") n += $(i + 1) } END { print n + 0 }' "$work/faulty/.faults"
}
stalled() { # waits until an operation stalls
	until_true grep -q 'waiting [1-9]' "$work/faulty/.faults" || fail "nothing stalls: $(cat "$work/faulty/.faults")"
}

settled() { # waits until loading has succeeded or failed, and says which
	until_true is_settled "$m/info"
	cat "$m/info/state"
}

# claim NAME command…: the command succeeds in time. It runs in a subshell: functions do not change the test's
# variables.
claim() {
	local name=$1 status
	shift
	(
		set +e
		"$@"
	) >"$work/out" 2>&1 &
	local pid=$!
	(
		# Longer than a wait within the claim, which can then still report what it waited for.
		read -rt $((limit + limit / 10 + 1)) -u "$over" _ && exit 0
		echo "hung for $limit s" >>"$work/out"
		kill -9 $(children $pid) $pid 2>/dev/null
		exit 1
	) &
	local guard=$!
	wait $pid
	status=$?
	# The guard ends by a message: if it were killed right after its fork, it would still have our traps.
	echo >&"$over"
	wait $guard || read -ru "$over" _ # it has ended before
	if [ $status = 0 ]; then
		echo "ok $name"
	else
		echo "not ok $name: $(tail -n 3 "$work/out" | tr '\n' ' ') (status $status)"
		failures=$((failures + 1))
	fi
}

# needs PROGRAM claim NAME command…: a claim about a program that is not installed everywhere.
needs() {
	local program=$1
	shift
	if command -v "$program" >/dev/null; then
		"$@"
	else
		while [ "$1" = needs ]; do shift 2; done
		echo "ok $2 # skip: $program is missing"
	fi
}

children() { # of a process, and theirs
	local child
	for child in $(pgrep -P "$1"); do
		echo "$child"
		children "$child"
	done
}

finish() {
	exit $((failures > 0))
}

# ---- for use in claims; each prints why it fails ----

fail() { echo "$*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "${3:-differ}: '$1' is not '$2'"; }
differ() { [ "$1" != "$2" ] || fail "${3:-same}: '$1'"; }
fails_with() { # WORDS command…: it fails and prints these words (mostly an errno's)
	local words=$1 said
	shift
	said=$(LC_ALL=C "$@" 2>&1) && fail "succeeded: $*"
	case $said in
	*"$words"*) ;;
	*) fail "said '$said', not '$words': $*" ;;
	esac
}
shell_fails_with() { # WORDS 'shell text'
	fails_with "$1" bash -c "$2"
}
# `cat FILE` behind the test, its process in $reader, where signals reach it: a script's commands in the
# background ignore SIGINT. Sent before the process is cat, a signal would meet the shell's own traps.
begin_reader() { # FILE [OUT [SAID]]
	local name
	env --default-signal=INT,TERM LC_ALL=C cat "$1" >"${2:-/dev/null}" 2>"${3:-/dev/null}" &
	reader=$!
	until_true is_cat || fail "cat $1 did not begin: $name"
}
is_cat() { # or has ended already
	read -r name 2>/dev/null <"/proc/$reader/comm" || return 0
	[ "$name" = cat ]
}
# Waits until a reader waits: it is in a read of a file of the mount, and not running.
reads() { # PROCESS
	local call
	until_true is_in_read "$1" || fail "the reader does not wait but is in call $call"
}
is_in_read() { # PROCESS [END of the file's name]
	local fd
	read -r call fd _ 2>/dev/null <"/proc/$1/syscall" || fail "the reader has ended"
	case $call in
	0 | 63) ;; # x86-64's and arm64's number
	*) return 1 ;;
	esac
	[[ $(readlink "/proc/$1/fd/$((fd))") == "$mnt"/*"${2:-}" ]]
}
idle() { timeout $limit cat wait >/dev/null; } # in a session's folder
ask() { echo "$1" > prompt && timeout $limit cat output; }
# In a session's folder: its turn has not ended yet.
working() { # [what status was]
	case ${1:-$(cat status)} in queued | prompting | generating) ;; *) fail "the turn is over: ${1:-$(cat status)}" ;; esac
}
# In a session's folder: a turn that goes on until the context is full, thousands of tokens later: the
# likeliest continuation of this text is more of it.
long_turn() {
	echo 0 > params/max_tokens && echo 0 > params/temperature && echo off > params/chat &&
		echo off > params/stop_repetition &&
		echo "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha" > prompt || exit
}
# The same after `holdable`: the turn works until it is stopped or released, on any machine, since it pauses after this
# many tokens, and with it all turns of the mount.
begin_long() { # [TOKENS: 16]
	hold_at "${1:-16}" && long_turn
}
hold_at() { rm -f "$MOEFS_HOLD.stands" && echo "$1" >"$MOEFS_HOLD"; } # TOKENS: from now on
let_go() { rm -f "$MOEFS_HOLD" "$MOEFS_HOLD.stands"; } # after begin_long, where the session itself is gone
until_stands() { until_true [ -e "$MOEFS_HOLD.stands" ] || fail "no turn pauses"; } # nothing is computed any more
end_long() {
	echo stop > ctl
	let_go
	idle
}
begin_beside() { # HOW MANY sessions that generate, token by token in turn, beside others
	local i
	for i in $(seq "$1"); do
		mkdir "$m/sessions/beside-$i" && (cd "$m/sessions/beside-$i" && long_turn) || exit
	done
}
end_beside() {
	rmdir "$m"/sessions/beside-*
}
