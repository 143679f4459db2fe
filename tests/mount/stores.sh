#!/usr/bin/env bash
# moefs stores: finds the stores that mounts have left on the disk, says of which checkpoint each is and whether that
# still exists, and deletes the named ones and nothing else.
. "$(dirname "$0")/lib.sh"
mkdir -p "$work/models" "$work/home" "$mnt"
cp -r "$MODEL" "$work/models/one"
MODEL=$work/models/one
m=$mnt/one
beside=$work/models/one.moefs/4bit
kept=$work/kept
export HOME=$work/home
unset XDG_CACHE_HOME

stores() { "$MOEFS" stores "$@" || fail "status $?"; }
# "STATE CHECKPOINT" of a store in the list.
said() { # STORE ARGUMENT…
	local of=$1
	shift
	stores "$@" | awk -v of="$of" '$5 == of { print $3, $4 }'
}
begin() { # [OPTION…]: a mount whose store is complete
	timeout $limit "$MOEFS" "$@" "$MODEL" "$mnt" || fail "mount"
	daemon=$(pgrep -n -f -- " $mnt\$")
	cd "$m" || exit
	loaded
	complete
	cd /
}
none() {
	same "$(stores)" "" "of an empty cache"
	same "$(stores "$work/models")" "" "of models without one"
	same "$("$MOEFS" stores 2>&1)" "" "said to a script"
	command -v python3 >/dev/null || return 0
	"$here/terminal.py" "$MOEFS" stores </dev/null | grep -q "lists those beside the models" || fail "said to people"
	fails_with "No such file" "$MOEFS" stores "$work/nothing"
	fails_with "usage: moefs stores" "$MOEFS" stores --delete
	fails_with "usage: moefs stores" "$MOEFS" stores -n "$work"
	fails_with "usage: moefs stores" "$MOEFS" stores --all
}
late() { # options behind a path are refused before anything is deleted
	status_of_late() { # OPTION ARGUMENT…
		local said status
		said=$("$MOEFS" stores "${@:2}" 2>&1)
		status=$?
		same $status 2 "status of $*"
		case $said in "moefs: $1: options come before the paths; if it is not an option, put -- before the paths; usage: moefs stores "*) ;; *) fail "$said" ;; esac
	}
	status_of_late --delete "$kept" --delete
	status_of_late -n --delete "$beside" -n
	fails_with "No such file" "$MOEFS" stores --delete -n -- -n
}
found() { # a store is found by each path that leads to it
	local path
	begin
	same "$(said "$beside" "$MODEL")" "in-use there" "while it is mounted"
	fails_with "is in use; unmount" "$MOEFS" stores --delete "$beside"
	fails_with "is in use; unmount" "$MOEFS" stores --delete -n "$beside"
	[ -e "$beside/index" ] || fail "it is deleted"
	unmounted
	for path in "$MODEL" "$work/models" "$work/models/one.moefs" "$beside"; do
		same "$(said "$beside" "$path")" "complete there" "$path"
	done
	same "$(stores "$beside" | awk 'NR == 2 { print $2 }')" "$(date -r "$beside/checkpoint" +%F)" "the day of its last use"
	same "$(stores)" "" "in the cache"
}
elsewhere() { # in a folder of stores whose names do not tell the checkpoint
	local path
	begin -o "store=$kept"
	unmounted
	path=$(echo "$kept"/one-*/4bit)
	same "$(said "$path" "$kept")" "complete there"
	XDG_CACHE_HOME=$work/caches && export XDG_CACHE_HOME
	mkdir -p "$work/caches" && mv "$kept" "$work/caches/moefs"
	same "$(said "$work/caches/moefs${path#"$kept"}")" "complete there" "in the cache"
	mv "$work/caches/moefs" "$kept"
}
changed() { # the checkpoint changes: a copy has other times, an edit has another size, and finally it is gone
	touch "$MODEL/model.safetensors" && same "$(said "$beside" "$MODEL")" "complete touched" "other times"
	echo >>"$MODEL/model.safetensors" && same "$(said "$beside" "$MODEL")" "complete changed" "another size"
	truncate -s -1 "$MODEL/model.safetensors"
	mv "$MODEL" "$work/models/two"
	same "$(said "$beside" "$work/models")" "complete gone" "renamed"
	rm "$beside/checkpoint"
	same "$(said "$beside" "$work/models")" "complete gone" "known by its place"
	mv "$work/models/two" "$MODEL"
}
unfinished() { # a conversion that was interrupted
	mkdir -p "$work/half/one.moefs" && cp -r "$beside" "$work/half/one.moefs/4bit"
	cd "$work/half/one.moefs/4bit" && rm index && printf 'MOEFSJNL' >journal
	same "$(stores "$work/half")" "" "of a journal that is torn"
	fails_with "is not a store" "$MOEFS" stores --delete "$PWD"
	[ -e dense.safetensors ] || fail "it is deleted"
}
refuses() { # folders that are not a store, or contain more, or belong to another user
	fails_with "is not a store" "$MOEFS" stores --delete "$MODEL"
	fails_with "is not a store" "$MOEFS" stores --delete "$work/models/one.moefs"
	fails_with "No such file" "$MOEFS" stores --delete "$work/nothing"
	mkdir "$beside/mine"
	fails_with "contains another folder" "$MOEFS" stores --delete "$beside"
	fails_with "another folder is in it" "$MOEFS" stores --delete -n "$beside"
	[ -e "$beside/index" ] && [ ! -e "$beside/lock" ] || fail "something of it is deleted: $(ls "$beside")"
	rmdir "$beside/mine"
	[ -e "$MODEL/config.json" ] || fail "the model is deleted"
	if [ "$(id -u)" = 0 ]; then
		chown -R 12345 "$beside"
		fails_with "belongs to user" "$MOEFS" stores --delete "$beside"
		chown -R 0 "$beside"
	fi
}
published() { # a store that was moved elsewhere is a model as well; links are not followed
	local said path=$(echo "$kept"/one-*/4bit)
	said="stays, since it is neither in a MODEL.moefs folder nor in the cache folder; to delete it anyway, add --anywhere"
	cp -r "$beside" "$work/models/pub" && mkdir "$work/pub.moefs" && ln -s "$work/models/pub" "$work/pub.moefs/4bit"
	for path in "$work/models/pub" "$work/pub.moefs/4bit" "$path"; do
		fails_with "$said" "$MOEFS" stores --delete "$path"
		fails_with "$said" "$MOEFS" stores --delete -n "$path"
		[ -e "$path/index" ] || fail "$path is deleted"
	done
	fails_with "usage: moefs stores" "$MOEFS" stores --anywhere "$work"
	touch "$work/models/pub/"$'my\nnotes'
	same "$(stores --delete -n --anywhere "$work/models/pub" | tail -n +2)" \
		"$(cd "$work/models/pub" && LC_ALL=C ls -A | sed -z 's/\nnotes/\\012notes/' | sed 's/^/  /')" "files that would go"
	[ -e "$work/models/pub/index" ] || fail "-n deletes"
	stores --delete --anywhere "$work/models/pub" || exit
	[ ! -e "$work/models/pub" ] || fail "it is still there"
	rm -r "$work/pub.moefs"
	mkdir -p "$work/caches/moefs/one-12345678" && cp -r "$beside" "$work/caches/moefs/one-12345678/4bit"
	XDG_CACHE_HOME=$work/caches stores --delete "$work/caches/moefs/one-12345678/4bit" || exit
	[ ! -e "$work/caches/moefs/one-12345678" ] || fail "the cache's is still there"
}
deletes() { # the named stores, and then the checkpoint's empty folder
	local path=$(echo "$kept"/one-*/4bit)
	same "$(stores --delete -n --anywhere "$beside" "$path" | grep -v '^  ' | sed 's/ (.*//')" "would delete $beside
would delete $path"
	[ -e "$beside/index" ] && [ -e "$path/index" ] || fail "-n deletes"
	stores --delete --anywhere "$beside" "$path" >/dev/null
	[ ! -e "$work/models/one.moefs" ] && [ -z "$(ls "$kept")" ] || fail "left: $(ls -R "$work/models" "$kept")"
	[ -e "$MODEL/config.json" ] || fail "the model is deleted"
}
again() { # and the next mount makes it anew
	begin
	[ -e "$beside/index" ] || fail "no store"
	same "$(said "$beside" "$MODEL")" "in-use there"
	unmounted
}

# A name may hold any byte: a store is still one line, and the command in the message deletes it.
named() {
	local odd=$work/$'od d\n\033\\$(touch .x)\'' lines command
	mkdir "$odd" && printf 'a fox and a cat' >"$work/text"
	cp -r "$MODEL" "$odd/two"
	command=$("$MOEFS" --refine -o quant=tq3 --text "$work/text" "$odd/two") || fail "status $?"
	command=${command#*: \`moefs } command=${command%\`}
	lines=$(stores "$odd")
	same "$(echo "$lines" | wc -l)" 3 "lines of two stores"
	case $lines in *'/od d\012\033\134$(touch .x)'"'/two.moefs/tq3.refined"*) ;; *) fail "said: $lines" ;; esac
	(cd "$work" && eval "'$MOEFS' $command") || fail "cannot be typed: $command"
	[ ! -e "$work/.x" ] || fail "it did more than that: $command"
	[ ! -e "$odd/two.moefs/tq3" ] && [ -e "$odd/two.moefs/tq3.refined/index" ] || fail "left: $(ls "$odd"/*)"
	rm -r "$odd"
}

claim "no store is not a failure; wrong arguments are" none
claim "options behind a path are refused" late
claim "stores next to a model are found, and stores in use stay" found
claim "stores elsewhere say whose they are" elsewhere
claim "the checkpoint's change is reported" changed
claim "an interrupted conversion with a torn journal is not a store" unfinished
claim "a folder that is not a store is not deleted" refuses
claim "what lies where moefs puts no stores is deleted with --anywhere alone; -n names every file" published
claim "only named stores are deleted" deletes
claim "and is made again" again
claim "a path with any characters is one line of the list, and can be typed as shown" named
finish
