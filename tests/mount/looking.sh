#!/bin/bash
# Looking changes nothing: tools that walk the tree end without an error and load nothing.
. "$(dirname "$0")/lib.sh"
one=$MODEL
mkdir "$work/models" && ln -s "$one" "$work/models/first" && ln -s "$one" "$work/models/second"
mkdir "$work/models/broken" && echo '{"model_type": 7}' >"$work/models/broken/config.json"
touch "$work/models/broken/broken" "$work/models/file"
MODEL=$work/models m=$mnt/$(basename "$(readlink -f "$one")")
m=$mnt mounted 2>/dev/null
cd "$mnt" || exit 1

folder() {
	same "$(cat "$work/mnt/"*/info/state | sort -u)" unloaded
	[ "$(ls -d */info | wc -l)" = 2 ] || fail "not two models: $(ls)"
	grep -q broken error || fail "error does not say that one is broken: $(cat error)"
}
claim "a folder of models mounts each, unloaded, and says which are broken" folder
claim "ls -laR" ls -laR .
claim "ls -lsaiR" ls -lsaiR .
claim "find" find . -size +100M -newer README -printf '%k %p\n'
claim "du" du -a .
tars() { tar cf "$work/tree.tar" . && tar tf "$work/tree.tar" | grep -q experts/map; }
claim "tar c" tars
claim "tar cS" tar cSf "$work/sparse.tar" .
greps() { grep -r "no such words" . ; [ $? = 1 ]; }
claim "grep -r" greps
copies() { cp -r . "$work/copy" && cmp README "$work/copy/README" && [ -e "$work/copy/cache/stats" ]; }
claim "cp -r" copies
copies_all() { cp -a . "$work/copy2"; [ -s "$work/copy2/README" ]; }
claim "cp -a" copies_all
synced() { # sizes of live files may change between rsync's stat and its read; everything else is copied
	rsync -a . "$work/copy3" && (cd "$work/copy2" && find . -type f | sort) | cmp - <(cd "$work/copy3" && find . -type f | sort)
}
if command -v rsync >/dev/null; then claim "rsync -a" synced; else echo "ok rsync -a # skip: rsync is not installed"; fi
idle_reads() {
	cd "$(ls -d */info | head -1)/.." || exit
	same "$(cat output)" "" && same "$(cat wait)" idle && same "$(cat ask)" "" && same "$(cat log)" ""
	same "$(cat status)" idle && same "$(cat error)" "" && same "$(cat prompt)" ""
}
claim "the files of an idle session end at once" idle_reads
claim "nothing was loaded" same "$(cat */info/state | sort -u)" unloaded
claim "no token was computed" same "$(awk '$1 == "tokens" { print $2 }' cache/waiting)" 0
claim "no expert was read" same "$(awk '$1 == "bytes_read" {print $2}' cache/stats)" 0
finish
