#!/usr/bin/env bash
# A budget of 1 MiB: experts never take more, whatever is asked, and the answers stay right.
. "$(dirname "$0")/lib.sh"

mounted -o budget=1M,quant=bf16
loaded

stat_of() { awk -v key="$1" '$1 == key { print $2 }' ../cache/stats; }
# In one look: a sum over files could count an expert twice that moves during the walk.
bytes_in_memory() { df -B1 --output=used "$mnt" | tail -n 1; }
sampled() { # asks, while looking over and over
	local most=0 now i
	for i in 1 2 3 4 5; do
		echo "What is the capital of France? Then tell me a tale." > prompt
		while :; do
			now=$(bytes_in_memory)
			[ "$now" -gt "$most" ] && most=$now
			case $(cat status) in queued | prompting | generating) ;; *) break ;; esac
		done
		same "$(cat status)" done
	done
	echo "most bytes seen: $most"
	[ "$most" -gt 0 ] && [ "$most" -le 1048576 ]
}

claim "the budget is the requested one" same "$(cat ../cache/budget)" 1M
claim "df shows no more than 1 MiB of experts while it generates" sampled
claim "the pool's own peak is no more than 1 MiB" test "$(stat_of peak)" -le 1048576
claim "experts were evicted" test "$(stat_of evictions)" -gt 100
echo reset > ctl
claim "the answer is right" same "$(ask 'What is the capital of France?')" "The capital of France is Paris."
echo "# resident size of the daemon: $(awk '/^VmRSS/ { print $2, $3 }' "/proc/$daemon/status"), at most" \
	"$(awk '/^VmHWM/ { print $2, $3 }' "/proc/$daemon/status")"
finish
