#!/bin/sh
# What `moefs demo` and `make demo` run, as demo.sh MODEL with moefs in PATH: mounts the demonstration model, asks it
# three questions with echo and cat (at temperature 0, so that the answers are always the same), looks at which experts
# answered, and unmounts. Each command is shown as you would type it. Only the converted store stays, in the place where
# every mount looks for it.
set -eu

model=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-demo.XXXXXX")
m=$work/m
mkdir "$m"
clean_up() {
	trap - EXIT INT TERM HUP
	cd /
	if mountpoint -q "$m"; then
		# The first waits for the process that serves it, which may still write to $work.
		moefs umount "$m" || moefs umount -z "$m"
	fi
	rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE

# Where no store can be kept, as in a container's user without a home, it goes with the demonstration.
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
if [ ! -w "$(dirname "$model")" ] && ! { [ "$cache" ] && mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; }; then
	export XDG_CACHE_HOME="$work/cache"
fi

quoted() { # a word, as it has to be typed
	case $1 in
	*[!A-Za-z0-9_./+-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
	*) printf '%s' "$1" ;;
	esac
}
show() { # a command line, and what it prints
	printf '\n$ %s\n' "$1"
	eval "$1"
}

show "moefs $(quoted "$model") $(quoted "$m")"
show "cd $(quoted "$m/${model##*/}")"
show ls
show 'echo 0 > sessions/default/params/temperature'
show 'echo "What is the capital of France?" > prompt; cat output'
show 'echo "What is 12 x 6?" > prompt; cat output'
show 'echo "What is the opposite of hot?" > prompt; cat output'

echo
echo "# The experts that answered: one line per layer, one character per expert."
show 'cat experts/map'
show 'ls -s experts/03 | head -6'
show "df -h $(quoted "$m")"
show 'cat stats'
show 'cd /'
show "moefs umount $(quoted "$m")"

echo
echo "# To go on with this model, or with one of your own:"
echo "#     moefs chat $(quoted "$model")"
echo "#     mkdir -p ~/m; moefs $(quoted "$model") ~/m; cd ~/m/${model##*/}"
echo "# man moefs has the options and commands, man 5 moefs every file."
