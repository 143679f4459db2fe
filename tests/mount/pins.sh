#!/usr/bin/env bash
# Pinned experts, by chmod +t and experts/ctl, and how the tree shows them: sticky bits, access times, blocks, extended
# attributes. A pin holds under every policy and any turns; pins that do not fit are refused as a whole.
. "$(dirname "$0")/lib.sh"
holdable

chmod 755 "$work"
options=budget=1M # of experts of 28 KiB: 36, while a token picks 4 in a layer
[ "$(id -u)" = 0 ] && options+=,allow_other
mounted -o "$options"
loaded
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

in_memory() { [ "$(stat -c %b "$1")" -gt 1 ]; }
await() { # FILE…: waits until they are in memory
	local file
	for file; do until_true in_memory "$file" || fail "$file does not come into memory"; done
}
table() { # LL/EEE COLUMN: of experts/stats
	awk -v l="${1%/*}" -v x="${1#*/}" -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) k = i }
		$1 == l && $2 == x { print $k }' experts/stats
}
sticky() { case $(stat -c %A "$1") in *[tT]) ;; *) fail "$1 is not shown as pinned" ;; esac }
free() { case $(stat -c %A "$1") in *[tT]) fail "$1 is shown as pinned" ;; esac }
unpinned() { echo "unpin *" > experts/ctl && same "$(awk '$1 == "pinned" { print $2 }' ../cache/stats)" 0 "bytes pinned"; }
everywhere() { # turns that use experts of every layer, more than fit into the budget
	local what
	for what in "What is the capital of France?" "What is 12 x 6?" "What is the opposite of hot?"; do ask "$what" >/dev/null || fail ask; done
}

file() {
	local x=experts/03/017
	chmod +t $x || fail "$(cat error)"
	sticky $x
	await $x
	same "$(table 03/017 pinned) $(table 03/016 pinned)" "1 0" "the table"
	everywhere
	in_memory $x || fail "it had to go"
	same "$(table 03/017 misses)" 0 misses
	free experts/03
	[ "$(df -B1 --output=used . | tail -n 1)" -le 1048576 ] || fail "beyond the budget"
	chmod -t $x
	free $x
	same "$(table 03/017 pinned)" 0 "the table"
}
claim "chmod +t has an expert read and keeps it, chmod -t lets it go" file

folder() {
	chmod +t experts/02 || fail "$(cat error)"
	sticky experts/02 && sticky experts/02/000 && sticky experts/02/031
	await experts/02/0*
	everywhere
	same "$(find experts/02 -type f -size +0 -printf '%b\n' | grep -xc 1)" 0 "those that are not there"
	chmod -t experts/02/005
	free experts/02 && sticky experts/02/006
	chmod +t experts/02/005 && sticky experts/02
	chmod -t experts/02 && free experts/02 && free experts/02/006
	same "$(ls -ld experts/02 | cut -c 1-10)" drwxr-xr-x
}
claim "of a layer's folder, it is all of its experts" folder

refused() {
	chmod +t experts/02 || exit
	fails_with "No space left on device" chmod +t experts/04
	grep -q 'raise cache/budget' error && grep -q 'raise cache/budget' ../error || fail "error says: $(cat error)"
	free experts/04/000 && free experts/04
	shell_fails_with "No space left on device" 'echo "pin 04/00[0-3] 05/*" > experts/ctl'
	free experts/04/000
	shell_fails_with "No space left on device" 'echo "load 04" > experts/ctl'
	shell_fails_with "Numerical result out of range" 'echo 512K > ../cache/budget'
	grep -q 'unpin some' error || fail "error says: $(cat error)"
	echo 2M > ../cache/budget && chmod +t experts/04 && sticky experts/04 || fail "with more room"
	unpinned
	echo 1M > ../cache/budget
}
claim "experts that do not fit into the budget are ENOSPC as a whole, with a reason" refused

not_so() {
	local mode
	for mode in u+w a+x 4444 666; do fails_with "Operation not permitted" chmod $mode experts/00/000; done
	grep -q 'sticky bit' error || fail "error says: $(cat error)"
	fails_with "Operation not permitted" chmod 700 experts/00
	fails_with "Operation not permitted" chmod +t experts
	fails_with "Operation not permitted" chmod +t experts/map
	fails_with "Operation not permitted" chmod +t experts/ctl
	chmod 444 experts/00/000 && chmod 755 experts/00 && chmod -t experts/00 experts/00/000 || fail "what they are already"
	chmod 1444 experts/00/000 && sticky experts/00/000 && chmod 444 experts/00/000 && free experts/00/000
}
claim "no other bit, and no other file" not_so

theirs() {
	other stat experts/00/000 >/dev/null || fail stat
	fails_with "Operation not permitted" other chmod +t experts/00/000
	fails_with "Operation not permitted" other chmod +t experts/00
	fails_with "Permission denied" other sh -c 'echo "pin 00/000" > experts/ctl'
	other cat experts/ctl >/dev/null || fail "looking"
	free experts/00/000
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	claim "another user is not either" theirs
else
	echo "ok nor another user # skip: only root can try being two users"
fi

holds() {
	local policy
	echo "pin 01/00[0-7]" > experts/ctl || exit
	await experts/01/00[0-7]
	for policy in lru "lfu no-shield" lrfu scales; do
		echo "$policy" > ../cache/policy
		everywhere
		same "$(find experts/01/00[0-7] -printf '%b\n' | grep -xc 1)" 0 "gone by $policy"
	done
	echo 512K > ../cache/budget || fail "they fit into half of the budget: $(cat error)"
	await experts/01/00[0-7]
	everywhere
	same "$(find experts/01/00[0-7] -printf '%b\n' | grep -xc 1)" 0 "gone with less memory"
	echo 1M > ../cache/budget
	unpinned
}
claim "a pin holds by any policy and in a smaller budget" holds

all_evicted() {
	echo 'evict *' > experts/ctl || fail "$(cat error)"
	[ -z "$(awk 'NR > 1 && $3' experts/stats)" ]
}
verbs() {
	local verb
	for verb in load evict pin unpin; do
		grep -q "^$verb " experts/ctl || fail "ctl does not list $verb"
	done
	same "$(stat -c %a experts/ctl)" 644
	same "$(stat -c %s experts/ctl)" "$(wc -c <experts/ctl)"
	until_true at_rest "$daemon" || fail "it does not rest" # what is on its way comes first
	until_true all_evicted
	same "$(awk 'NR > 1 && $3' experts/stats)" "" "what is in memory after all of it was evicted"
	echo 'load 0[0-1]/01[0-3] 05/031' > experts/ctl || fail "$(cat error)"
	await experts/0[01]/01[0-3] experts/05/031
	! in_memory experts/00/014 && ! in_memory experts/02/010 || fail "more than was asked for"
	same "$(table 05/031 pinned)" 0
	printf 'pin\t05/031\n\n' > experts/ctl && sticky experts/05/031
	shell_fails_with "Device or resource busy" 'echo "evict 05 00/010" > experts/ctl'
	grep -q 'unpin' error || fail "error says: $(cat error)"
	in_memory experts/00/010 && in_memory experts/05/031 || fail "evicted all the same"
	echo 'evict 00/01?' > experts/ctl && ! in_memory experts/00/010 && in_memory experts/01/010 || fail "not as the pattern says"
	echo pin experts/01/01[0-3] > experts/ctl || fail "a shell's own names: $(cat error)"
	sticky experts/01/013
	unpinned
}
claim "experts/ctl: load, evict, pin and unpin by patterns" verbs

not_verbs() {
	local words
	for words in "jump 00/000" "pin" "pin 99/000" "pin 00/999" "pin 00/0" "pin 0/000" "pin 00/000/1" "pin x*/*" "pin [" \
		"pin 00/000 nothing" "unpin 00/000
pin 01/000" "" "pin 00/" "pin ../00"; do
		shell_fails_with "Invalid argument" "cat <<<'$words' > experts/ctl"
		grep -q 'experts/ctl' error || fail "$words: error says $(cat error)"
	done
	shell_fails_with "Invalid argument" "echo jump 00/000 > experts/ctl"
	grep -q "\"jump\" is not a verb; the verbs are load, evict, pin, pin gpu, unpin" error || fail "$(cat error)"
	same "$(awk '$1 == "pinned" { print $2 }' ../cache/stats)" 0 "bytes pinned"
	shell_fails_with "Invalid argument" 'printf "pin 00/0%0100d" 1 > experts/ctl'
	shell_fails_with "Invalid argument" "printf 'pin 00/000\0' > experts/ctl"
	shell_fails_with "Invalid argument" 'printf "pin"; for i in $(seq 1100); do printf " 0*"; done > experts/ctl'
	{ echo pin experts/00/00[0-3]; } > experts/ctl && unpinned || exit
	echo 'unpin 00/000' > experts/ctl && [ ! -s error ] || fail "what was taken leaves: $(cat error)"
}
claim "other verbs, and patterns that match no expert, are EINVAL with a reason" not_verbs

times() {
	local before newest
	before=$(stat -c %X experts/06/000)
	touch -a -d 2001-01-01 experts/06/000 experts/06 || fail "touch -a"
	touch experts/06/000 || fail touch
	same "$(stat -c %X experts/06/000)" "$before" "the access time is the daemon's"
	ask "What is the capital of Peru?" >/dev/null
	newest=$(find experts/06 -type f -printf '%A@\n' | sort -n | tail -n 1)
	same "$(find experts/06 -maxdepth 0 -printf '%A@')" "$newest" "the folder's access time"
	[ "${newest%.*}" -ge "$(stat -c %Y ../version)" ] || fail "the last use was before the mount"
	same "$(ls -u experts/06 | head -n 1)" "$(find experts/06 -type f -printf '%A@ %f\n' | sort -k 1,1nr -k 2 | head -n 1 | cut -d ' ' -f 2)" "ls -u"
	cat experts/06/000 >/dev/null
	same "$(stat -c %Y experts/06/000)" "$(stat -c %Y config.json)" "its modification"
}
claim "ls -lu shows when an expert was last used, and a layer" times

attributes() {
	chmod +t experts/07/001 && await experts/07/001
	python3 - <<'PY' || fail "see above"
import errno, os
def fails(code, call, *args):
    try: call(*args)
    except OSError as e: assert e.errno == code, (args, e)
    else: raise AssertionError((args, 'succeeded'))
def get(path, name): return os.getxattr(path, 'user.moefs.' + name).decode()
x = 'experts/07/001'
assert set(os.listxattr(x)) >= {'user.moefs.' + n for n in 'tier resident pinned bytes gpu_pinned gpu_bytes hits misses last_token format'.split()}, os.listxattr(x)
for path in x, 'experts/07', '.':
    names = os.listxattr(path)
    assert names and all(n.startswith('user.moefs.') for n in names), names
    for n in names: assert os.getxattr(path, n), n
assert get(x, 'resident') == get(x, 'pinned') == '1' and get('experts/07', 'pinned') == '1'
assert get(x, 'tier') == 'memory' and get(x, 'gpu_pinned') == get(x, 'gpu_bytes') == '0'
assert int(get(x, 'bytes')) == os.stat(x).st_blocks * 512
row = next(l.split() for l in open('experts/stats') if l.startswith('07 001 '))
assert [get(x, n) for n in ('resident', 'pinned', 'hits', 'misses', 'last_token')] == row[2:7], row
files = ['experts/07/%03d' % i for i in range(32)]
for name in 'resident', 'pinned', 'bytes', 'gpu_bytes', 'hits', 'misses':
    assert sum(int(get(f, name)) for f in files) == int(get('experts/07', name)), name
assert get('experts/07', 'experts') == '32' and get('.', 'state') == 'ready'
for path in 'prompt', 'experts/map', 'experts', '..': assert os.listxattr(path) == [], path
for name in 'user.moefs.none', 'user.other', 'security.capability', 'trusted.x':
    fails(errno.ENODATA, os.getxattr, x, name)
fails(errno.ENODATA, os.getxattr, 'prompt', 'user.moefs.pinned')
# The kernel refuses everybody except root: the file is not writable.
denied = os.getuid() and errno.EACCES
fails(denied or errno.EOPNOTSUPP, os.setxattr, x, 'user.other', b'0')
fails(denied or errno.EPERM, os.setxattr, x, 'user.moefs.pinned', b'0')
fails(denied or errno.EPERM, os.removexattr, x, 'user.moefs.pinned')
import ctypes
c = ctypes.CDLL(None, use_errno=True)
def raw(name, size):
    b = ctypes.create_string_buffer(64)
    n = c.getxattr(x.encode(), name, b, size) if name else c.listxattr(x.encode(), b, size)
    return n if n >= 0 else -ctypes.get_errno()
n = len(get(x, 'format'))
assert raw(b'user.moefs.format', 0) == raw(b'user.moefs.format', n) == n
assert raw(b'user.moefs.format', n - 1) == -errno.ERANGE and raw(None, 5) == -errno.ERANGE
assert raw(None, 0) == sum(len(n) + 1 for n in os.listxattr(x))
PY
	[ "$(id -u)" != 0 ] || grep -q 'chmod +t' error || fail "error says: $(cat error)"
	if command -v getfattr >/dev/null; then getfattr -d experts/07/001 | grep -q '^user.moefs.pinned="1"$' || fail "getfattr -d"; fi
	unpinned
}
claim "extended attributes say the rest, and are for reading" attributes

taken_out() {
	local said xattrs=--xattrs
	# tar makes a file read-only before it sets its attributes, which only root may do then.
	[ "$(id -u)" = 0 ] || xattrs=
	chmod +t experts/00/000 && mkdir "$work/cp" || exit
	complete
	for said in "cp -p experts/00/000 $work/cp/p" "cp -a experts/00/000 $work/cp/a" "cp -a experts/00 $work/cp/folder" \
		"tar --xattrs -cf $work/tar experts/00" "tar $xattrs -xpf $work/tar -C $work/cp" "tar --atime-preserve -cf $work/tar experts/00" \
		"rsync -a experts/00 $work/cp/rsync" "rsync -aX experts/00 $work/cp/rsync-x"; do
		command -v "${said%% *}" >/dev/null || continue
		same "$($said 2>&1)" "" "$said"
	done
	cmp experts/00/000 "$work/cp/p" && cmp experts/00/000 "$work/cp/folder/000" && cmp experts/00/000 "$work/cp/experts/00/000" || exit
	sticky "$work/cp/p"
	chmod -R -t experts/00 && free experts/00/000
	chmod -R +t experts/00 && sticky experts/00 && sticky experts/00/031
	chmod -R u+r,go+rX experts && sticky experts/00 && sticky experts/00/000
	chmod -t experts/00/* && free experts/00
	fails_with "Operation not permitted" cp --remove-destination "$work/cp/p" experts/00/000
	unpinned
}
claim "programs that copy all that a file has take it out without a word" taken_out

meanwhile() { # the generation goes on, with the same text as alone
	local i count
	mkdir sessions/changed sessions/quiet && cd sessions/changed && begin_long 1000 || exit
	for ((i = 0; i < 20 || $(stat -c %s log) < 300; i++)); do
		echo "pin 0$((i % 8))/0[01]$((i % 10))" > "$m/experts/ctl" || fail "$(cat "$m/error")"
		echo "load 0$((i * 3 % 8))/02?" > "$m/experts/ctl" || fail "$(cat "$m/error")"
		echo "unpin *" > "$m/experts/ctl"
		echo "evict 0[$((i % 4))-7]" > "$m/experts/ctl"
	done
	working
	end_long
	count=$(awk '$1 == "output_tokens" { print $2 }' stats)
	cd ../quiet && echo "$count" > params/max_tokens && echo 0 > params/temperature && echo off > params/chat &&
		echo off > params/stop_repetition || exit
	ask "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha" >/dev/null
	cmp output ../changed/output
	rmdir "$m/sessions/quiet" "$m/sessions/changed"
}
claim "all of it while a turn goes on, which changes no text" meanwhile
cd "$root" && unmounted

# ---- pins of a model that is not loaded ----
one=$MODEL name=$(basename "$MODEL")
mkdir "$work/models" && ln -s "$one" "$work/models/$name"
mkdir "$work/models/beside" && cp "$one"/*.json "$one"/*.jinja "$work/models/beside" && ln -s "$one"/*.safetensors "$work/models/beside"
MODEL=$work/models m=$mnt mounted -o budget=1M,umask=077
m=$mnt/$name
cd "$m" || exit 1
unloaded() {
	same "$(cat info/state)" unloaded
	same "$(stat -c %A experts/00/000 experts/00)" "-r--------
drwx------"
	python3 -c 'import os; assert os.getxattr(".", "user.moefs.state") == b"unloaded"; os.listxattr("experts/00/000")' || fail xattr
	same "$(cat info/state)" unloaded "after looking"
	fails_with "No space left on device" chmod +t experts/00 experts/01
	fails_with "No space left on device" chmod +t experts/02
	same "$(stat -c %A experts/01/000)" -r--------
	chmod +t experts/00/000 && sticky experts/00 || exit
	fails_with "Operation not permitted" chmod 1444 experts/01/000
	echo "unpin 00/01*" > experts/ctl && echo "load 01/00[0-3]" > experts/ctl || fail "$(cat error)"
	free experts/00
	loaded
	await experts/00/000 experts/00/031 experts/01/00[0-3]
	free experts/00/010 && sticky experts/00/009
}
claim "pins of a model that is not loaded have it loaded, and hold then" unloaded

again() {
	echo "unload $(basename "$m")" > ../ctl || fail "$(cat ../error)"
	same "$(cat info/state) $(awk '$1 == "pinned" { print $2 }' ../cache/stats)" "unloaded 0"
	sticky experts/00/000 && ! in_memory experts/00/000 || fail "not as it should be without weights"
	ask "What is the capital of France?" >/dev/null
	await experts/00/000 experts/00/031
	sticky experts/00/000 && free experts/00/010
}
claim "pins outlive an unload: the next load reads their experts again" again

beside() { # a model beside another one that has pinned most of the budget
	same "$(cat ../beside/info/state)" unloaded
	fails_with "No space left on device" chmod +t ../beside/experts/00
	same "$(cat ../beside/info/state)" unloaded "after a refusal"
	free ../beside/experts/00/000
	same "$(cat ../beside/info/state)" unloaded "after looking"
	echo "evict 01" >experts/ctl && await experts/00/000 experts/00/031
	chmod +t ../beside/experts/00/000 && sticky ../beside/experts/00/000 || exit
	await ../beside/experts/00/000 experts/00/000
}
claim "pins of a model that is not loaded leave others' in memory" beside
finish
