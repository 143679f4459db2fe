#!/usr/bin/env bash
# Options of a mount: the params' first values, a log, umask=, and progress.
. "$(dirname "$0")/lib.sh"
mkdir -p "$mnt"
chmod 755 "$work" # other users come through it
unset XDG_CACHE_HOME
said=$work/log

refuses() { # WORDS OPTIONS: nothing is mounted
	fails_with "$1" "$MOEFS" -o "store=$store,$2" "$MODEL" "$mnt" && ! mountpoint -q "$mnt"
}

# ---- wrong options ----

wrong() {
	refuses "moefs: -o temperature=hot: " temperature=hot &&
		refuses "moefs: -o max_tokens=-1: " max_tokens=-1 &&
		refuses "-o temperature: there is no such option" temperature &&
		refuses "-o umask=8 is not a mode in octal" umask=8 &&
		refuses "-o umask=1000 is not a mode" umask=1000 &&
		refuses "-o uid=no-such-user: there is no such user" uid=no-such-user &&
		refuses "-o gid=no-such-group: there is no such group" gid=no-such-group &&
		refuses "-o log=$work/none/log: No such file" "log=$work/none/log" &&
		refuses "-o log=$work: Is a directory" "log=$work" &&
		refuses "-o log=$mnt/log is inside the mount" "log=$mnt/log" &&
		refuses "-o log= is not the name of a file, or journal" log= &&
		refuses "-o nonsense: there is no such option" nonsense
}
own_words() { # the message is the one that the param's file gives
	local option
	for option in temperature=hot top_k=-1 format=xml; do
		"$MOEFS" -o "store=$store,$option" "$MODEL" "$mnt" 2>"$work/why" && fail "mounted: $option"
		sed "s/^moefs: -o $option: //" "$work/why" >>"$work/whys"
	done
}
same_words() { # in a mount
	local option
	for option in temperature=hot top_k=-1 format=xml; do
		bash -c "echo ${option#*=} >sessions/default/params/${option%%=*}" 2>/dev/null && fail "taken: $option"
		sed "s|^.*sessions/default: ||; s|^$(basename "$MODEL"): ||" error
	done >"$work/theirs"
	cmp "$work/whys" "$work/theirs" || fail "$(diff "$work/whys" "$work/theirs")"
}
claim "a wrong option is reported before anything is mounted" wrong
claim "…a param's with its own sentence" own_words

# ---- a mount with everything ----

# Only root may let others in, unless /etc/fuse.conf allows it.
allow=
if [ "$(id -u)" = 0 ] || grep -qxF user_allow_other /etc/fuse.conf 2>/dev/null; then allow=,allow_other; fi
mounted -v -o "temperature=0.25,top_k=7,system=Be brief\\, please.,stop=;\\,,seed=5,log=$said,umask=027$allow" \
	-o defaults,user,noauto,nofail,_netdev,x-systemd.automount,X-mount.mkdir,comment=nothing,relatime,max_tokens=20,max_tokens=24 ||
	exit 1
begins() {
	same "$(cat "$1"/params/{top_k,system,stop,seed,max_tokens})" "7
Be brief, please.
;,
5
24" "params of $1"
}
everywhere() { # lib.sh has set the temperature of the default
	begins sessions/default && mkdir sessions/new && begins sessions/new && rmdir sessions/new
}
told() {
	grep -qxF 'top_k 7 (-o top_k=)' info/defaults && grep -qxF 'system Be brief, please. (-o system=)' info/defaults &&
		grep -qxF 'temperature 0.7' info/defaults && grep -qxF 'temperature 0.25 (-o temperature=)' info/defaults ||
		fail "$(cat info/defaults)"
}
collide() { # no param has an option's name: the value would be ambiguous
	local file count=0
	for file in sessions/default/params/*; do
		! "$MOEFS" --help | grep -qE "^    (-o )?${file##*/}(=| |\$)" || fail "${file##*/} is both"
		count=$((count + 1))
	done
	[ $count -gt 20 ] || fail "only $count params"
}
each_param() { # each param's name is an option, which takes the param's own value
	local file options=
	for file in sessions/default/params/*; do
		case ${file##*/} in system | stop | grammar | logit_bias | experts_bias) continue ;; esac
		options+=",${file##*/}=$(cat "$file")"
	done
	mkdir -p "$work/every"
	timeout "$limit" "$MOEFS" -o "store=$store$options" "$MODEL" "$work/every" || fail "refused: $options"
	for file in sessions/default/params/*; do
		case ${file##*/} in system | stop | grammar | logit_bias | experts_bias | seed) continue ;; esac
		same "$(cat "$work/every/$(basename "$MODEL")/$file")" "$(cat "$file")" "$file"
	done
	"$MOEFS" umount "$work/every"
}
modes() {
	same "$(stat -c %a . .. sessions/default prompt info/state sessions ../cache/budget | xargs)" \
		"750 750 700 600 440 1750 640" "modes"
}
entered() { # by another user: the kernel and the daemon agree
	fails_with "Permission denied" setpriv --reuid=65534 --clear-groups --regid=65534 cat "$m/info/state" &&
		setpriv --reuid=65534 --clear-groups --regid="$(id -g)" cat "$m/info/state"
}
lines() { # the log's lines without their times
	sed -E 's/^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} //' "$said"
}
answered() { # a line per prompt, without its text
	ask "What is the capital of France?" && ask "What is 12 x 6?" || fail "no answer"
	exec 3<>ask && echo "What is the capital of Peru?" >&3 && cat <&3 && exec 3>&-
	settled_log 3
	lines | grep -E 'tokens in' >"$work/turns"
	grep -cE "^moefs\\[$daemon\\]: [0-9:]{8} $(basename "$MODEL")/(sessions/default|ask): [0-9]+ tokens in \\([0-9]+ cached\\), [0-9]+ out, [0-9.]+ and [0-9.]+ tokens/s, [0-9]+ hits, [0-9]+ misses, [a-z]+\$" \
		"$work/turns" | grep -qx 3 || fail "$(cat "$work/turns")"
	! grep -qE 'capital|France|Peru|Lima|12 x 6|= 72|brief' "$said" || fail "a text is in the log: $(cat "$said")"
	awk '/^tokens|^prompt_tokens/ { print $2 }' sessions/default/stats >"$work/counts"
	grep -q "sessions/default: $(cat "$work/counts") tokens in" "$work/turns" || fail "stats say $(cat "$work/counts"): $(cat "$work/turns")"
}
settled_log() { # COUNT of turns
	until_true tells_of "$1" || fail "only $(grep -c 'tokens in' "$said") turns are told: $(cat "$said")"
}
tells_of() { [ "$(grep -c 'tokens in' "$said")" -ge "$1" ]; }
begun() {
	until_true [ -s "$said" ] || fail "nothing is told" # a thread of its own writes it
	same "$(lines | head -n 1)" "moefs[$daemon]: $("$MOEFS" --version) has begun: process $daemon, 1 model" &&
		same "$(stat -c %a "$said")" 600
}
anew() { # a log that was moved away is created again
	mv "$said" "$said.1"
	ask "What is 2 x 6?" >/dev/null
	settled_log 1
	same "$(stat -c %a "$said")" 600
}

loaded
claim "every session begins with the params of -o, with commas, the last of each, over the checkpoint's" everywhere
claim "info/defaults says both" told
claim "a value is refused in the words that its file says" same_words
claim "no param is called like an option" collide
claim "each param is an option" each_param
claim "umask= takes bits away from all modes" modes
if setpriv --reuid=65534 --clear-groups --regid=65534 true 2>/dev/null; then
	claim "…and a removed one is not allowed" entered
else
	echo "ok …and what is taken away is not allowed # skip: no other user can be tried here"
fi
claim "log= is made for its user alone, and tells the beginning" begun
claim "with -v there is a line for each answered prompt, and nothing of its text" answered
claim "a log that is moved away is created again" anew
cd / && unmounted
ends() { same "$(tail -n 1 "$said" | sed 's/.*: //')" unmounted; }
claim "…and the end is reported" ends

# ---- a folder with a broken model, and a mount that fails ----

skipped() {
	mkdir -p "$work/models/broken" && echo '{' >"$work/models/broken/config.json" && ln -s "$MODEL" "$work/models/whole"
	rm -f "$said"
	timeout "$limit" "$MOEFS" -o "store=$store,log=$said" "$work/models" "$mnt" 2>"$work/stderr" || fail "status $?"
	"$MOEFS" umount "$mnt"
	grep -qF "skipped: broken: " "$work/stderr" || fail "stderr: $(cat "$work/stderr")"
	grep -qF "]: skipped: broken: " "$said" || fail "log: $(cat "$said")"
	rm -f "$said"
	fails_with "broken" "$MOEFS" -o "store=$store,log=$said" "$work/models/broken" "$mnt"
	grep -qF "broken" "$said" || fail "log: $(cat "$said")"
}
claim "skipped models, and why nothing is mounted, are in the log, too" skipped

# ---- the system's log ----

journal() {
	trap 'rm -f /dev/log' EXIT
	refuses "-o log=journal: this system has no log at /dev/log: No such file" log=journal
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind("/dev/log"); s.settimeout(int(sys.argv[1])); print("bound", flush=True)
while True:
	text = s.recv(4096).decode(); print(text, flush=True)
	if text.endswith("unmounted"): break' "$limit" >"$work/journal" &
	until_true grep -q bound "$work/journal"
	timeout "$limit" "$MOEFS" -o "store=$store,log=journal" "$MODEL" "$mnt" || fail "status $?"
	"$MOEFS" umount "$mnt"
	wait $!
	grep -qE 'moefs\[[0-9]+\]: moefs .* has begun' "$work/journal" && grep -q 'unmounted$' "$work/journal" || fail "$(cat "$work/journal")"
}
if [ "$(id -u)" = 0 ] && [ ! -e /dev/log ] && command -v python3 >/dev/null; then
	claim "log=journal goes to the system's log, and a missing one is reported" journal
else
	echo "ok log=journal # skip: a system's log of our own cannot be put here"
fi
finish
