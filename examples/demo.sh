#!/usr/bin/env bash
# `make demo`: mounts the demonstration model, asks it three questions with echo and cat (at temperature 0, so
# that the answers are always the same), looks at which experts answered, and unmounts. Each command is shown as you would type it. Leaves nothing behind but
# the converted store beside the model, which the next mount opens at once.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$PWD/build:$PATH
m=$(mktemp -d "${TMPDIR:-/tmp}/moefs-demo.XXXXXX")
clean_up() {
	if mountpoint -q "$m"; then
		fusermount3 -u "$m"
	fi
	rmdir "$m"
}
trap clean_up EXIT
show() { # a command line, and what it prints
	printf '\n$ %s\n' "$1"
	eval "$1"
}

show "moefs examples/models/fable-moe-15m $m"
show "cd $m/fable-moe-15m"
show ls
show 'echo 0 > sessions/default/params/temperature'
show 'echo "What is the capital of France?" > prompt; cat output'
show 'echo "What is 12 x 6?" > prompt; cat output'
show 'echo "What is the opposite of hot?" > prompt; cat output'

echo
echo "# The experts that answered: one line per layer, one character per expert."
show 'cat experts/map'
show 'ls -s experts/03 | head -6'
show "df -h $m"
show 'cat stats'
show 'cd /'
show "fusermount3 -u $m"
