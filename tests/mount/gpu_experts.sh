#!/usr/bin/env bash
# Experts on the GPU, as users see them: the map, the table, the picture, ls -s, attributes, the trace; pins on the GPU; and
# what info/kernels says computes the model. The driver is one without a card (tests/cuda/fake_driver.c).
. "$(dirname "$0")/lib.sh"
driver=${FAKE_DRIVER:-$(dirname "$MOEFS")/fake-driver}
[ -e "$driver/libcuda.so.1" ] || { echo "not ok $(basename "$0"): $driver/libcuda.so.1 is missing; run make unit"; exit 1; }
"$MOEFS" --check "$MODEL" | grep -q '^gpu_kernels none' && skip_all "built without GPU kernels"
export LD_LIBRARY_PATH=$driver

question="What is the capital of Peru?"
again() { echo reset >ctl && ask "$question"; } # as if it were new
says() { grep -qF "$1" "$2" || fail "$(cat "$2")"; } # WORDS FILE
of_gpu() { awk -v key="$1" '$1 == key { print $2 }' ../cache/gpu/stats; } # KEY
on_gpu() { awk "NR > 1 && \$8 && ($1)" experts/stats | wc -l; } # CONDITION of rows of the table
pins() { awk 'NR > 1 && $9 { print $1 }' experts/stats | sort | uniq -c | tr -s ' '; } # how many by layer

mounted -o gpu=0,quant=3bit
loaded
first() {
	says "computes cpu: the store is being made; the next load uses the GPU" info/kernels
	shell_fails_with "No such device" "echo 'pin gpu 00/001' >experts/ctl"
	complete
}
claim "the load that makes a store leaves the GPU alone" first
ask "$question" >"$work/cpu"
cd / && unmounted

mounted -o gpu=0,quant=3bit
loaded
dense=$(of_gpu used_dense)
cd / && unmounted

# Room for about half of the experts, of 25 kB each: an eighth of the budget is for contexts.
mounted -o gpu=0,quant=3bit,gpu_budget=$(((dense + 136 * 25600) * 8 / 7))
loaded
some() { again >"$work/said" && [ "$(of_gpu experts)" -gt 0 ]; }
computed() {
	says "computes gpu: all layers; cpu: experts that are not on the GPU" info/kernels
	until_true some || fail "no expert came: $(cat ../cache/gpu/stats)"
	cmp "$work/cpu" "$work/said" || fail "another answer"
}
claim "info/kernels says that the GPU computes" computed

told() {
	local experts
	complete # warming moves experts between two looks
	experts=$(of_gpu experts)
	[ "$experts" -gt 0 ] && [ "$experts" -lt 256 ] || fail "$experts on the GPU"
	same "$(on_gpu 1)" "$experts" "the table"
	same "$(cut -d ' ' -f 2 experts/map | tr -cd A-J | wc -c)" "$experts" "the map"
	same "$(grep -o 'class="g[0-9] ' experts/heat.svg | wc -l)" $((experts + 10)) "the picture and its legend"
	same "$(find experts -path 'experts/[0-9]*/*' -printf '%b\n' | awk '$1 >= 50' | wc -l)" \
		"$(awk 'NR > 1 && ($3 || $8)' experts/stats | wc -l)" "those with blocks"
}
claim "the map, the table, the picture and ls -s show experts on the GPU" told

attributes() {
	python3 - "$(of_gpu experts)" <<'PY'
import os, sys
def get(path, name): return os.getxattr(path, "user.moefs." + name).decode()
tiers = []
for row in list(open("experts/stats"))[1:]:
    layer, expert, resident, *_, on_gpu, pinned = row.split()
    path = f"experts/{layer}/{expert}"
    tiers.append(get(path, "tier"))
    assert tiers[-1] == ("gpu" if int(on_gpu) else "memory" if int(resident) else "disk"), (row, tiers[-1])
    assert (int(get(path, "gpu_bytes")) > 0) == (on_gpu == "1"), row
assert tiers.count("gpu") == int(sys.argv[1]) == int(get(".", "on_gpu")), tiers
assert sum(int(get(f"experts/{l:02}", "on_gpu")) for l in range(8)) == int(sys.argv[1])
assert int(get(".", "gpu_bytes")) == sum(int(get(f"experts/{l:02}", "gpu_bytes")) for l in range(8)) > 0
PY
}
needs python3 claim "attributes say in which tier an expert is" attributes

traced() {
	echo reset >ctl
	exec 3<experts/trace
	echo "$question" >prompt && timeout $limit cat <&3 >"$work/trace"
	exec 3<&-
	idle
	grep -vE '^default [0-9]+ (prompt|answer|draft) [0-9]{2}( [0-9]{3}[*+]?)+$' "$work/trace" && fail "not a line"
	same "$(grep -o '\*' "$work/trace" | wc -l)" "$(awk '$1 == "expert_misses" { print $2 }' stats)" stars
	local pluses picks
	pluses=$(grep -o '+' "$work/trace" | wc -l) picks=$(grep -oE ' [0-9]{3}\b' "$work/trace" | wc -l)
	[ "$pluses" -gt 0 ] && [ "$pluses" -lt "$picks" ] || fail "$pluses of $picks with a plus"
}
claim "the trace has a plus for each expert on the GPU" traced

all_there() { again >"$work/said" && [ "$(on_gpu '$1 == "03"')" = 32 ]; } # and computes steps
pinned() {
	shell_fails_with "No space left on device" "echo 'pin gpu *' >experts/ctl"
	grep -qE 'experts/ctl: pin gpu: the GPU has room for 1[0-9]{2} experts of this model, .* are 256; unpin some' ../error ||
		fail "$(cat ../error)"
	same "$(pins)" "" "pinned after a refusal"
	[ "$(on_gpu '$1 == "03"')" -lt 32 ] || fail "layer 03 is there already"
	echo 'pin  gpu 03 ' >experts/ctl || fail "$(cat ../error)"
	same "$(pins)" " 32 03" "pinned"
	until_true all_there || fail "not all came: $(cat experts/map)"
	cmp "$work/cpu" "$work/said" || fail "another answer"
	same "$(stat -c %A experts/03/001)" "-r--r--r--" "the sticky bit is memory's"
	echo 'unpin 03' >experts/ctl && same "$(pins)" "" "after unpin"
	shell_fails_with "Invalid argument" "echo 'load gpu 03' >experts/ctl"
}
claim "experts pinned on the GPU come in the places of others" pinned
cd / && unmounted

mounted -o gpu=off,quant=3bit
loaded
without() {
	says "computes cpu: gpu=off" info/kernels
	shell_fails_with "No such device" "echo 'pin gpu 00/001' >experts/ctl"
	grep -qF 'experts/ctl: pin gpu: the CPU computes this model: gpu=off' ../error || fail "$(cat ../error)"
}
claim "without a GPU its pins are refused in words" without
finish
