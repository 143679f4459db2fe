#!/usr/bin/env bash
# GPUs as users see them: -o gpu=, what info/kernels and --check say, and that looking for a GPU leaves nothing behind. The
# driver is one in whose place threads of the system run the kernels (tests/cuda/fake_driver.c), or there is none.
. "$(dirname "$0")/lib.sh"
driver=${FAKE_DRIVER:-$(dirname "$MOEFS")/fake-driver}
[ -e "$driver/libcuda.so.1" ] || { echo "not ok $(basename "$0"): $driver/libcuda.so.1 is missing; run make unit"; exit 1; }
mkdir -p "$mnt"
trap 'while fusermount3 -u "$mnt" 2>/dev/null; do :; done; clean_up' EXIT

# A model named at the mount is loaded at once, and opens the driver; one of a folder of models is loaded when it is asked.
mkdir "$work/models" && ln -s "$(realpath "$MODEL")" "$work/models/$(basename "$MODEL")" || exit
mounted_unloaded() { MODEL=$work/models mounted "$@"; }

refused() { # WORDS OPTION: mounting fails with these words, and nothing is mounted
	fails_with "$1" "$MOEFS" -o "$2" "$MODEL" "$mnt"
	grep -q " $mnt " /proc/self/mountinfo && fail "$2: something is mounted"
	return 0
}
says() { grep -qF "$1" "$2" || fail "$(cat "$2")"; } # WORDS FILE
none_left() { # no process that looked, alive or dead
	same "$(pgrep -P "$daemon")" "" "the daemon's children"
	grep -q libcuda "/proc/$daemon/maps" && fail "the daemon has opened the driver"
	return 0
}

values() {
	local value
	for value in x -1 0.5 1M 99999999999 ''; do
		refused "-o gpu=$value is not auto, off, or the number of a GPU, from 0" "gpu=$value"
	done
	for value in x -1 0 50% ''; do
		refused "-o gpu_budget=$value is not a size such as 20G, or auto" "gpu_budget=$value"
	done
}
claim "invalid values are refused with what was typed" values

# ---- without a driver ----

no_driver() {
	refused "-o gpu=0: no NVIDIA driver is installed" gpu=0
	"$MOEFS" --check "$MODEL" >"$work/check" || fail "--check failed"
	says "gpu none: no NVIDIA driver is installed" "$work/check"
}
not_there() {
	says "gpu none: no NVIDIA driver is installed" info/kernels
	none_left
}
if ldconfig -p | grep -qF libcuda.so.1; then
	echo "ok without a driver # skip: there is one"
else
	claim "without a driver, gpu=0 cannot be mounted, and --check says why" no_driver
	mounted_unloaded
	claim "without a driver, gpu=auto goes on without" not_there
	cd / && unmounted
fi

# ---- with one ----

export LD_LIBRARY_PATH=$driver
checked() {
	"$MOEFS" --check "$MODEL" >"$work/check" || fail "--check failed"
	says "gpu Card of threads, compute capability 8.6, 3.2 GB" "$work/check"
	"$MOEFS" --check -o gpu=off "$MODEL" >"$work/check" || fail "--check failed"
	says "gpu none: gpu=off" "$work/check"
}
claim "--check says which GPU there is" checked
numbered() {
	refused "-o gpu=7: there is no GPU 7: the driver has 1" gpu=7
	FAKE_CUDA=none refused "-o gpu=0: the driver does not start" gpu=0
	if "$MOEFS" --check "$MODEL" | grep -q '^gpu_kernels none'; then
		refused "-o gpu=0: this program was built without GPU kernels" gpu=0
	else
		FAKE_CUDA=old refused "-o gpu=0: " gpu=0
	fi
}
claim "a GPU that cannot be used is refused in words before anything is mounted" numbered

mounted_unloaded
found() {
	none_left
	says "gpu Card of threads, compute capability 8.6, 3.2 GB" info/kernels
	none_left
	same "$(cat info/kernels | wc -c)" "$(stat -c %s info/kernels)" "its size"
	same "$(cat info/state)" unloaded
}
claim "a GPU is looked for when info/kernels is read, and no process is left" found
cd / && unmounted
mounted_unloaded -o gpu=off
off() {
	says "gpu none: gpu=off" info/kernels
	same "$(cat ../cache/gpu/stats)" "gpu none: gpu=off"
	same "$(cat ../cache/gpu/budget)" auto
	none_left
}
claim "gpu=off opens no driver" off
cd / && unmounted

# A number asks for a GPU that can be used, and so for kernels.
"$MOEFS" --check "$MODEL" | grep -q '^gpu_kernels none' && which=auto || which=0
mounted_unloaded -o gpu=$which,gpu_budget=1.5G
budget() {
	local budget=../cache/gpu/budget
	same "$(cat $budget)" 1536M "as asked for"
	echo 20G >$budget && same "$(cat $budget)" 20G || exit
	shell_fails_with "Invalid argument" "echo 50% >$budget"
	grep -qF 'cache/gpu/budget: "50%" is not a size; write a size such as 20G, or auto' ../error || fail "$(cat ../error)"
	shell_fails_with "Numerical result out of range" "echo 0 >$budget"
	same "$(cat $budget)" 20G "after refusals"
	echo auto >$budget && same "$(cat $budget)" auto "as the card is not open"
	same "$(cat ../cache/gpu/stats)" "gpu none: not opened before a model is loaded"
	same "$(jq -r .gpu ../cache/gpu/stats.json)" "none: not opened before a model is loaded"
	none_left
}
needs jq claim "cache/gpu/budget takes sizes and auto, and stats says that no card is open" budget
cd / && unmounted

# ---- answers ----

stats=../cache/gpu/stats
answers() { # and how likely the model finds a text
	ask "What is the capital of France?" && ask "What is 12 x 6?" || return
	exec 3<>score
	echo "The capital of France is Paris, and that of Peru is Lima." >&3
	cat <&3
	exec 3<&-
}
on_gpu() { grep -q '^gpu Card of threads' $stats; }
mounted -o gpu=off,quant=3bit
loaded
complete
answers >"$work/by-cpu" || echo "not ok answers: $(cat error)"
cd / && unmounted

same_by_gpu() {
	on_gpu || fail "the GPU is not used: $(cat $stats)"
	answers >"$work/by-gpu" || fail "$(cat error)"
	cmp "$work/by-cpu" "$work/by-gpu" || fail "$(cat "$work/by-gpu")"
	on_gpu || fail "the GPU was given up: $(cat $stats)"
	until_true holds_experts || fail "no expert is on the GPU: $(cat $stats)"
}
holds_experts() { # threads bring them, and a turn takes what has come
	[ "$(sed -n 's/^experts //p' $stats)" -gt 0 ] || { ask "What is 12 x 6?" >/dev/null; false; }
}
same_after_failure() {
	on_gpu || fail "the GPU is not used: $(cat $stats)"
	answers >"$work/by-both" || fail "$(cat error)"
	cmp "$work/by-cpu" "$work/by-both" || fail "$(cat "$work/by-both")"
	says "CUDA_ERROR_ILLEGAL_ADDRESS" $stats
	says "CUDA_ERROR_ILLEGAL_ADDRESS" ../error
	same "$(ask "What is 12 x 6?" >/dev/null && echo answered)" answered
}
if "$MOEFS" --check "$MODEL" | grep -q '^gpu_kernels none'; then
	echo "ok answers by a GPU # skip: no kernels were compiled"
else
	mounted -o gpu=0,quant=3bit
	loaded
	claim "answers are those of the CPU" same_by_gpu
	cd / && unmounted
	FAKE_CUDA=wild-after=300 mounted -o gpu=0,quant=3bit
	loaded
	claim "a GPU that fails while it answers is told, and the answer is the same" same_after_failure
fi
finish
