#!/usr/bin/env bash
# An idle daemon gives memory back: after many requests at once, and after models that came and went, it holds no more
# than after its model was loaded with all experts in memory.
. "$(dirname "$0")/lib.sh"

grep -qaE '__(asan|tsan)_init' "$MOEFS" && skip_all "a sanitizer keeps what is freed"
checkpoint=$MODEL ours=$work/models
model() { # NAME: one more model in the mounted folder
	mkdir -p "$ours/$1" && cp "$checkpoint"/*.json "$checkpoint"/*.jinja "$ours/$1" &&
		ln -s "$checkpoint"/*.safetensors "$ours/$1"
}
model one
MODEL=$ours m=$mnt/one
mounted -o budget=16M
echo "load one" >../ctl
loaded
complete

SLACK=1024 # KiB: a twentieth of what it holds
held() { awk '/^RssAnon/ { print $2 }' "/proc/$daemon/status"; }
all_there() {
	local i all
	all=$(find experts -type f -path 'experts/*/[0-9]*' | wc -l)
	echo "load *" >experts/ctl
	for i in $(seq $((limit * 20))); do
		[ "$(awk '$1 == "experts_resident" { print $2 }' ../cache/stats)" = "$all" ] && return
		sleep 0.05
	done
	fail "experts do not come: $(cat ../cache/stats)"
}
rested() { # waits until its size is the same for two seconds
	local i now before=-1
	for i in $(seq $limit); do
		now=$(held)
		[ "$now" = "$before" ] && break
		before=$now
		sleep 2
	done
	echo "$now"
}
comes_to() { # KIB: waits until it holds at most that
	local i
	for i in $(seq $((limit * 5))); do
		[ "$(held)" -le "$1" ] && return
		sleep 0.2
	done
	fail "it holds $(held) KiB, not $1"
}
much() { # many requests at once
	local i pids=()
	for i in 1 2 3 4 5 6 7 8; do
		python3 - "$m" <<'PY' &
import os, sys
text = b"The fox and the crow met at the river. " * 20000
for name in ("tokenizer/encode", "tokenizer/encode"):
    fd = os.open(os.path.join(sys.argv[1], name), os.O_RDWR)
    os.write(fd, text)
    while os.read(fd, 1 << 20):
        pass
    os.close(fd)
PY
		pids+=($!)
	done
	wait "${pids[@]}"
}
long_prompt() {
	yes "The fox and the crow met at the river." | head -n 100 >prompt && timeout $limit cat output >/dev/null
}

others_are_gone() { ! ls -d ../other* >/dev/null 2>&1; }
come_and_go() { # forty models with a large config.json
	local round i
	for round in 1 2 3 4 5; do
		for i in 1 2 3 4 5 6 7 8; do
			model "other$i" && printf '%100000s' "" >>"$ours/other$i/config.json" || exit
		done
		echo rescan >../ctl && cat ../other*/info/state >/dev/null || fail "they do not come"
		rm -r "$ours"/other*
		echo rescan >../ctl
		# A model stays while anybody has a file of it open: `moefs list` of another test looks into every mount.
		until_true others_are_gone || fail "they do not go: $(ls ..)"
	done
}

claim "all experts are in memory" all_there
first=$(rested)
much
claim "what many took at once is given back" comes_to $((first + SLACK))
claim "a long prompt is answered" long_prompt
echo reset >ctl && rm -f prefixes/*
claim "a long prompt's memory is given back" comes_to $((first + SLACK))
claim "models come and go" come_and_go
claim "what models had that are gone is given back" comes_to $((first + SLACK))
echo "# held $first KiB at first, $(held) at last"
finish
