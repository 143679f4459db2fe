#!/bin/sh
# Compiles the GPU kernels with each installed compiler, and writes a C file that has the modules as arrays
# (cuda_images.h). nvcc makes code for each of the usual GPUs and PTX for later ones; they need a driver of the toolkit's
# major version. clang needs no toolkit. It makes PTX 6.3 for sm_70 and later, which drivers since 410 (CUDA 10.0) load.
# Without a compiler the list is empty, and `moefs --check` says so.
# usage: images.sh FILE, in the root of the sources. NVCC and CLANG name other compilers; empty: none.
set -eu
file=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT
source=kernels/cuda/cuda_all.cu
nvcc=${NVCC-nvcc} clang=${CLANG-clang}
images=''

image() { # NUMBER NAME FILE WAITS: an array, and a row for the list
	echo "static const unsigned char image_$1[] = {"
	od -An -v -tu1 "$3" | sed 's/ *\([0-9][0-9]*\)/\1,/g'
	echo '};'
	images="$images{\"$2\", image_$1, sizeof image_$1, $4},
"
}

# Exactness is in the options: no product and sum becomes one operation, nothing is flushed to zero.
by_nvcc() {
	version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p') || return
	known=$("$nvcc" --list-gpu-code) || return
	targets='' names=''
	for sm in 80 86 89 90; do
		if echo "$known" | grep -qx "sm_$sm"; then
			targets="$targets -gencode arch=compute_$sm,code=sm_$sm" names="$names sm_$sm"
		fi
	done
	# shellcheck disable=SC2086 # words
	"$nvcc" -std=c++17 -O3 -I. -fmad=false -ftz=false -prec-div=true -prec-sqrt=true $targets \
		-gencode arch=compute_80,code=compute_80 -fatbin -o "$work/nvcc" "$source" || return
	nvcc_name="nvcc $version:$names compute_80"
	case $names in *sm_90*) nvcc_waits=9 ;; *) nvcc_waits=0 ;; esac
}

by_clang() {
	version=$("$clang" --version | sed -n 's/.*clang version \([0-9]*\).*/\1/p' | head -n 1)
	"$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -Wno-unknown-cuda-version \
		-std=c++17 -O3 -ffp-contract=off -Xclang -target-feature -Xclang +ptx63 -I. -S -o "$work/clang" "$source" ||
		return
	printf '\0' >>"$work/clang"
	clang_name="clang $version: compute_70"
}

{
	echo '#include "kernels/cuda/cuda_images.h"'
	if [ -n "$nvcc" ] && command -v "$nvcc" >/dev/null 2>&1; then
		if by_nvcc >"$work/words" 2>&1; then
			image 0 "$nvcc_name" "$work/nvcc" "$nvcc_waits"
		else
			echo "nvcc does not compile the GPU kernels: $(head -n 3 "$work/words")" >&2
		fi
	fi
	if [ -n "$clang" ] && command -v "$clang" >/dev/null 2>&1; then
		if by_clang >"$work/words" 2>&1; then
			image 1 "$clang_name" "$work/clang" 0
		else
			echo "clang does not compile the GPU kernels: $(head -n 3 "$work/words")" >&2
		fi
	fi
	printf 'const struct cuda_image cuda_images[] = {\n%s{0, 0, 0, 0}};\n' "$images"
} >"$work/images.c"
mkdir -p "$(dirname "$file")"
cp "$work/images.c" "$file.$$" && mv "$file.$$" "$file"
