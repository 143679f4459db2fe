#!/usr/bin/env bash
# A conversion with compressed experts is interrupted while the model answers: by a kill, by an unmount, or by a full
# disk. The next mount continues it, whether it asks for the codec or lets moefs choose.
. "$(dirname "$0")/lib.sh"
question="What is the capital of France?"
answer="The capital of France is Paris."
coded=quant=bf16,codec=zstd
experts="*experts.safetensors.partial"
faulty_disk

end() {
	cd /
	faults
	unmounted
	rm -rf "$work"/disk/*
}
half() { # a mount stopped with some experts written and one being written
	trap end EXIT
	faults "$experts write stall=0 after=20"
	mounted -o $coded
	loaded
	stalled
}
kept() {
	[ -n "$(find "$work/disk" -name journal)" ] || fail "no journal is left"
	[ -z "$(find "$work/disk" -name index)" ] || fail "there is a store"
	[ "$(stat -c %s "$work"/disk/*/bf16/experts.safetensors.partial)" -gt 4096 ] || fail "no expert is left"
}
goes_on() { # OPTIONS
	mounted -o "$1"
	same "$(settled)" ready "$(cat ../error)"
	same "$(ask "$question")" "$answer"
	complete
	same "$(cut -d' ' -f1 info/codec)" zstd "codec"
	cold
	cd / && unmounted
	mounted -o "$1"
	same "$(ask "$question")" "$answer" "from the store that came of it"
}

killed() { # OPTIONS of the next mount
	half
	kill -9 "$daemon"
	cd /
	faults
	unmounted
	kept
	goes_on "$1"
}
claim "killed in the middle, the next mount goes on and answers" killed $coded
claim "…also one that leaves the codec to be chosen" killed quant=bf16

ended() {
	half
	kill -TERM "$daemon"
	cd /
	until_true not grep -q " $mnt " /proc/self/mountinfo || fail "it is still mounted"
	until_true at_rest "$daemon" || fail "it does not wait for its write" # and has told the conversion to end
	faults
	until_true not alive "$daemon" || fail "it does not end"
	kept
	goes_on $coded
}
claim "ended by SIGTERM, the next mount goes on and answers" ended

has_failed() { [ "$(cat info/state)" = failed ]; }
full() {
	trap end EXIT
	faults "$experts write error=ENOSPC after=20"
	mounted -o $coded
	until_true has_failed
	grep -q "No space left" ../error || fail "error: $(cat ../error)"
	kept
	faults
	same "$(ask "$question")" "$answer" "the next prompt"
	complete
}
claim "on a full disk it stops with a reason, and the next prompt continues once there is space" full
full_then_mounted() {
	trap end EXIT
	faults "$experts write error=ENOSPC after=20"
	mounted -o $coded
	until_true has_failed
	cd / && unmounted
	kept
	faults
	goes_on $coded
}
claim "…and so does the next mount" full_then_mounted
finish
