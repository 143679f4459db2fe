#!/usr/bin/env bash
# -o sessions=: sessions outlive the mount, a killed daemon too; their files are private; a folder of another user is
# refused; a disk that is full stops no turn.
. "$(dirname "$0")/lib.sh"
kept=$work/kept
tools='[{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}]'
keeps() { mounted -o "sessions=$kept${1:+,$1}"; } # [OPTIONS]
say() { echo "$2" >"sessions/$1/prompt" && timeout $limit cat "sessions/$1/output"; } # NAME TEXT
files() { find "$kept" -type f -path "$kept/*/*/*" ! -name '*.part' | wc -l; }
again() { cd / && unmounted && keeps; } # the next mount
refused() { # FOLDER WORDS
	mkdir -p "$work/other"
	timeout $limit "$MOEFS" -o "store=$store,sessions=$1" "$MODEL" "$work/other" 2>"$work/stderr" && fail "it is mounted"
	grep -q -- "$2" "$work/stderr" || fail "$(cat "$work/stderr")"
}
is_kept() { grep -rqs --exclude='*.part' -- "$1" "$kept"; } # TEXT
messages() { jq -c 'map(.content)' "sessions/$1/messages.json"; }
system='"Be brief.\nBe kind."'
both="[$system,\"What is the capital of Peru?\",\"The capital of Peru is Lima.\",\"What is 12 x 6?\",\"12 x 6 = 72\"]"

mounted
off() {
	same "$(cat ../kept)" off
	mkdir sessions/x && say x "What is the capital of Peru?" >/dev/null && rmdir sessions/x
	[ ! -e "$kept" ] || fail "$kept is there"
}
claim "without the option nothing is kept" off
cd / && unmounted

keeps
same "$(cat ../kept)" "$kept"
makes() {
	mkdir sessions/one "sessions/zwei Wörter" sessions/empty
	same "$(say one "What is the capital of Peru?")" "The capital of Peru is Lima."
	echo 0.25 >sessions/one/params/temperature
	echo nobody >sessions/one/params/share_with # by which moefs-http keeps the users of keys apart
	printf 'Be brief.\nBe kind.\n' >sessions/one/params/system
	echo "$tools" >sessions/one/tools.json
	echo 17 >"sessions/zwei Wörter/params/seed"
	until_true eval '[ "$(files)" = 3 ]' # with sessions/default, whose params are the test's
	until_true is_kept '^Be kind.$'
	same "$(find "$kept" -type d -printf '%m\n' | sort -u)" 700 "modes of folders"
	same "$(find "$kept" -type f -printf '%m\n' | sort -u)" 600 "modes of files"
}
claim "a session is written when it has changed, into private files" makes
say one "What is 12 x 6?" >/dev/null
until_true is_kept '12 x 6 = 72'
cd / && kill -9 "$daemon" && until_true not alive "$daemon"
for number in 1 2 3; do echo "session 1" >"$(echo "$kept"/*/fable-moe-15m)/$number.part"; done # writes that were cut short
again
killed() {
	same "$(cat ../error)" "" "what failed"
	same "$(messages one)" "$both"
	same "$(cat sessions/one/params/share_with)" nobody
	same "$(cat sessions/one/params/temperature) $(cat sessions/one/params/system | xargs) $(cat 'sessions/zwei Wörter/params/seed')" "0.25 Be brief. Be kind. 17"
	same "$(jq -c . sessions/one/tools.json)" "$(jq -c . <<<"$tools")" tools
	same "$(stat -c %U:%a sessions/one)" "$(id -un):700"
	[ ! -e sessions/empty ] || fail "a session in which nothing was written is there"
	for s in default one "zwei Wörter"; do echo 24 >"sessions/$s/params/max_tokens"; done # which replaces what was cut short
	until_true eval '[ -z "$(find "$kept" -name "*.part")" ]'
}
claim "after kill -9 messages, params and tools are there again" killed
reads() { # a mount that changes nothing writes nothing
	local before
	cd / && unmounted
	before=$(find "$kept" -type f -printf '%p %i %T@\n' | sort)
	timeout $limit "$MOEFS" -o "store=$store,sessions=$kept" "$MODEL" "$mnt" || fail "no mount"
	daemon=$(pgrep -n -f -- " $mnt\$")
	same "$(cd "$m" && messages one)" "$both"
	unmounted
	same "$(find "$kept" -type f -printf '%p %i %T@\n' | sort)" "$before" "the files"
}
cd / || exit # or this shell would keep the mount that `reads` ends
claim "a mount that only reads its sessions leaves their files as they are" reads
keeps
mv sessions/one sessions/uno && rmdir "sessions/zwei Wörter"
mkdir sessions/short && echo 3 >sessions/short/params/seed && rmdir sessions/short
echo "fork dos" >sessions/uno/ctl
echo reset >sessions/uno/ctl
again
moved() {
	same "$(ls sessions | xargs)" "default dos uno"
	same "$(messages uno) $(messages dos)" "[$system] $both"
	rmdir sessions/dos
	until_true eval '[ "$(files)" = 2 ]'
}
claim "renaming, removing, forks and reset are kept, also at an unmount right afterwards" moved
echo 0.5 >sessions/default/params/temperature && echo 0.5 >sessions/uno/params/temperature
cd / && unmounted
timeout $limit "$MOEFS" -o "store=$store,sessions=$kept,temperature=0.75" "$MODEL" "$mnt" || echo "not ok it is not mounted"
daemon=$(pgrep -n -f -- " $mnt\$")
cd "$m"
claim "what the command line gives wins in sessions/default" same "$(cat sessions/default/params/temperature) $(cat sessions/uno/params/temperature)" "0.75 0.5"
second() {
	mkdir -p "$work/other" && timeout $limit "$MOEFS" -o "store=$store,sessions=$kept" "$MODEL" "$work/other" || fail "no mount"
	grep -q "another mount keeps its sessions in $kept" "$work/other/error" || fail "$(cat "$work/other/error")"
	same "$(ls "$work/other/fable-moe-15m/sessions")" default
	user_unmounts "$work/other"
}
claim "a second mount does not keep the same sessions" second
full() { # the daemon may not write files of more than a few bytes: EFBIG, as ENOSPC on a full disk
	prlimit --pid "$daemon" --fsize=100: || return 0
	mkdir sessions/full
	same "$(say full "What is the capital of Peru?")" "The capital of Peru is Lima." "a turn"
	until_true grep -q "fable-moe-15m/sessions/full is not kept in $kept: cannot write its file: File too large" ../error || fail "$(cat ../error)"
	same "$(cat sessions/full/status) $(cat sessions/full/error)" "done " "the session"
	# A turn's end may be told twice, and be followed by a second try.
	until_true eval '[ -z "$(find "$kept" -name "*.part")" ]' || fail "left: $(find "$kept" -name '*.part')"
	prlimit --pid "$daemon" --fsize=unlimited:
	same "$(say full "What is 12 x 6?")" "12 x 6 = 72"
	until_true is_kept '12 x 6 = 72'
}
claim "where a session cannot be written its turns go on, and the next change tries again" full
cd / && unmounted

folder=$(echo "$kept"/*/fable-moe-15m)
echo nonsense >"$folder/900"
ln -s /etc/passwd "$folder/901"
mkfifo "$folder/902"
printf 'session 1\n1\nname 3\nbad\nmessages.json 1\n7\nend 0\n\n' >"$folder/903"
printf 'session 1\n1\nname 5\n../up\nend 0\n\n' >"$folder/904"
printf 'session 99999999999999999999\n1\n' >"$folder/905"
truncate -s 200M "$folder/906"
keeps
hostile() {
	same "$(messages full | jq length)" 4 "the good one"
	same "$(ls sessions | xargs)" "bad default full uno"
	[ -e "$folder/903.refused" ] || fail "$(ls "$folder")"
	grep -q "fable-moe-15m/906: it has 209715200 bytes" ../error || fail "$(cat ../error)"
}
claim "files that were not written here are named and left out" hostile
cd / && unmounted && rm -f "$folder"/9*

late() { # a model that comes into a mounted folder
	local models=$work/models
	mkdir "$models" && cp -rs "$MODEL" "$models/first"
	MODEL=$models m=$mnt keeps
	same "$(ls first/sessions)" default
	mkdir "$work/fable-moe-15m" && cp -rs "$MODEL/." "$work/fable-moe-15m" && mv "$work/fable-moe-15m" "$models"
	echo rescan >ctl
	until_true eval '[ "$(ls fable-moe-15m/sessions 2>/dev/null | xargs)" = "default full uno" ]' || fail "$(ls fable-moe-15m/sessions)"
	same "$(jq length fable-moe-15m/sessions/full/messages.json)" 4
	cd / && unmounted
}
claim "a model that comes into the mounted folder later has its sessions, too" late

chmod 770 "$kept"
claim "a folder in which others may write is refused" refused "$kept" "others may write in $kept"
chmod 700 "$kept" && ln -s "$kept" "$work/link"
claim "so is a link" refused "$work/link" "cannot open this folder"
if [ "$(id -u)" = 0 ]; then
	chown 65534 "$kept"
	claim "so is another user's folder" refused "$kept" "$kept belongs to another user"
	chown 0 "$kept" && chown 65534 "$folder/1"
	keeps
	claim "and another user's file" grep -q 'fable-moe-15m/1: it is not a file of this user' ../error
fi
finish
