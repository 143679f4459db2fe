#!/bin/sh
# Many questions at once: examples/parallel.sh MODEL [JOBS] < QUESTIONS
#
# MODEL is a model's folder in the mount, QUESTIONS has one a line. Prints an answer for each, in their order, JOBS (4)
# side by side, each in a private conversation that nobody else sees and that ends by itself. Needs GNU parallel.
set -eu
[ $# -ge 1 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -d "$1/sessions" ] || { echo "$1 is not a model's folder in a mount of moefs" >&2; exit 1; }

# An open file is a conversation: written, then read.
parallel --will-cite --keep-order --jobs "${2:-4}" --quote \
	sh -c 'exec 3<>"$0"; printf "%s\n" "$1" >&3; cat <&3 || { cat "${0%/ask}/../error" >&2; exit 1; }' \
	"$1/ask" {}
