#!/usr/bin/env bash
# What opens a card, without a card: build/card and build/moefs with a driver in whose place threads of the system run the
# kernels (tests/cuda/fake_driver.c). Its failures are told in words, and what can go on goes on.
set -u
cd "$(dirname "$0")/.." || exit 1
card=${CARD:-build/card} driver=${FAKE_DRIVER:-build/fake-driver}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0

if [ ! -x "$card" ] || [ ! -e "$driver/libcuda.so.1" ]; then
	echo 'ok cuda # skip it is not built; run make unit'
	exit 0
fi
if "$card" compare 2>&1 | grep -q '^gpu_kernels none'; then
	echo 'ok cuda # skip the kernels are compiled by neither nvcc nor clang'
	exit 0
fi

result() { # WHAT, and the status of what was tried
	if [ "$2" = 0 ]; then
		echo "ok $1"
	else
		echo "not ok $1:"
		sed 's/^/# /' "$out"
		failed=1
	fi
}
run() { # HOW STATUS: compares with that driver
	local status=0
	FAKE_CUDA=$1 LD_LIBRARY_PATH=$driver timeout 300 "$card" compare >"$out" 2>&1 || status=$?
	[ "$status" = "$2" ]
}
says() { grep -qF "$1" "$out"; }

run '' 0 && says 'gpu Card of threads, compute capability 8.6, 3.2 GB, driver for CUDA 12.3' && ! says 'not ok'
result 'a card is found, and its kernels give the bits of the scalar table' $?
run none 77 && says 'gpu none: the driver does not start: as the test wants (CUDA_ERROR_NO_DEVICE)'
result 'a driver without a card is told' $?
run old 1 && says 'CUDA_ERROR_NOT_FOUND'
result 'a module without one of the kernels is refused' $?
run memory 1 && says 'no GPU memory' && says 'CUDA_ERROR_OUT_OF_MEMORY'
result 'a card without memory is told' $?
run wild 1 && says 'CUDA_ERROR_ILLEGAL_ADDRESS' && [ "$(grep -c '^not ok' "$out")" = 1 ] && says 'ok attend'
result 'after a wild access the card is opened again, and the other kernels are compared' $?
exit $failed
