#!/usr/bin/env bash
# Completion in bash, zsh and fish: each option, param and command, and what can be mounted. The files are those that
# make has made of the program's tables.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/claim.bash
pages=$PWD/build/install moefs=$PWD/build/moefs
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-completion.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -e "$pages/moefs.bash" ] || { echo "not ok completion.sh: $pages/moefs.bash is missing; run make"; exit 1; }
mkdir -p "$work/here/checkpoint" && touch "$work/here/one.gguf" "$work/here/notes.txt"
cd "$work/here" || exit 1

# What each shell offers for a line, one a line and sorted.
in_bash() { # LINE; readline's words end at "="
	bash --norc -c '. "$1"; compopt() { :; }; COMP_LINE=$2 COMP_POINT=${#2}
		read -ra COMP_WORDS <<<"${2//=/ = }"; [[ $2 == *" " ]] && COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); ${3//-/_}; printf "%s\n" "${COMPREPLY[@]}"' - "$pages/${1%% *}.bash" "$1" "_${1%% *}"
}
in_fish() { HOME=$work fish --no-config -c "source $pages/${1%% *}.fish; complete -C '$1'" | cut -f 1 | sed 's,/$,,'; }
# zsh completes on a terminal alone: one of its own is typed to, and says what was offered.
in_zsh() {
	zsh -f "$work/zsh" "$pages/${1%% *}.zsh" "$1"
}
# compadd's words and matches are what is asked of; _describe, _path_files and compset are as zsh has them, in short.
cat >"$work/zsh" <<'END'
typeset -a words
line=$2
words=(${(z)line}); [[ $line == *' ' ]] && words+=('')
CURRENT=${#words} PREFIX=${words[-1]} IPREFIX=
compset() { # -P PATTERN, or -P 1 PATTERN: the shortest
	local pattern=$2 rest
	if [[ $2 == 1 ]]; then rest=${PREFIX#${~3}}; else rest=${PREFIX##${~pattern}}; fi
	[[ $rest != $PREFIX ]] || return 1
	IPREFIX+=${PREFIX[1,$#PREFIX-$#rest]} PREFIX=$rest
}
offer() { local w; for w; do [[ $w == $PREFIX* ]] && print -r -- "$IPREFIX$w"; done }
compadd() { if [[ $1 == -a ]]; then offer ${(P)2}; else offer "$@"; fi }
_describe() { # what is tagged "options" zsh offers behind a hyphen alone
	[[ $1 != -t || $2 != options || $PREFIX == -* ]] || return 1
	while [[ $1 == -* ]]; do [[ $1 == -t ]] && shift; shift; done
	offer ${${(P)2}%%:*}
}
_path_files() { if [[ $1 == -/ ]]; then offer *(/N); else offer ${~2}(N); fi }
_files() { if [[ ${1:-} == -/ ]]; then offer *(/N); else offer *(N); fi }
file=$1; set --
source $file
END

offers() { # SHELL LINE WORD…: exactly these
	local shell=$1 line=$2 want got
	shift 2
	want=$(printf '%s\n' "$@" | LC_ALL=C sort -u)
	got=$("in_$shell" "$line" | LC_ALL=C sort -u)
	[ "$got" = "$want" ] || { echo "\"$line\" offers $(echo $got), not $(echo $want)"; return 1; }
}
listed() { # what --help has, of a kind: its names, with the = of those that take a value
	"$moefs" --help | sed -n '/^    moefs /d; s/^    \([a-z].*\)/\1/p' | sed 's/  .*//; s/, /\n/g' | sed 's/=.*/=/'
}
options() { listed | grep -v ' ' | grep -v '^\.'; params; }
params() { sed -n 's/^@ MODEL.*params\/\([a-z_][a-z_]*\)$/\1=/p' "$OLDPWD/fs/install/moefs.5.in"; } # make sees to it that they are all
switches() { "$moefs" --help | sed -n 's/^    \(-[-a-zA-Z=, ]*[a-zA-Z]\)  .*/\1/p' | sed 's/ OPTION.*//; s/=.*/=/' | tr -d , | tr ' ' '\n'; }
commands() { "$moefs" --help | sed -n '/^Commands:/,$s/^ *moefs \([a-z]*\) .*/\1/p'; }

completes() { # SHELL
	local begun=$(options | grep '^te')
	[ "$(options | wc -l)" -gt 30 ] && [ -n "$begun" ] || { echo "these are no options: $(options)"; return 1; }
	offers "$1" "moefs -o " $(options) &&
		offers "$1" "moefs -o te" $begun &&
		offers "$1" "moefs -o exact,te" $(printf 'exact,%s ' $begun) &&
		offers "$1" "moefs -" $(switches) -o &&
		offers "$1" "moefs c" checkpoint $(commands | grep ^c) &&
		offers "$1" "moefs on" one.gguf &&
		[ "$(commands | grep -c .)" -gt 1 ] &&
		offers "$1" "moefs st" stores &&
		behind "$1"
}
# Of each command's own, behind its name; no machine's mounts are asked for.
behind() { # SHELL
	offers "$1" "moefs ask --" --help --json --plan --schema --system --thoughts &&
		offers "$1" "moefs chat --s" --system &&
		offers "$1" "moefs demo --" --help --path &&
		offers "$1" "moefs demo " &&
		offers "$1" "moefs list --" --help --json &&
		offers "$1" "moefs stores --" --anywhere --delete --help &&
		offers "$1" "moefs umount --h" --help &&
		offers "$1" "moefs list " &&
		offers "$1" "moefs ask -p te" temperature= &&
		offers "$1" "moefs ask -p " $(params)
}
values() { # SHELL PREFIX PREFIX: what it offers begins with these: bash has only what is behind =
	offers "$1" "moefs -o quant=tq" "${2}tq2" "${2}tq3" "${2}tq4" &&
		offers "$1" "moefs -o quant=3" "${2}3bit" &&
		offers "$1" "moefs --refine --text=no" "${3}notes.txt" &&
		offers "$1" "moefs --refine --text no" notes.txt
}
# moefs-http's, of its own --help.
http_listed() { build=${moefs%/*}; "$build/moefs-http" --help | sed -n 's/^    \([-a-z].*\)/\1/p' | sed 's/  .*//; s/, /\n/g' | sed 's/=.*/=/; s/^-o .*/-o/'; }
completes_http() { # SHELL PREFIX: as of values
	[ "$(http_listed | wc -l)" -gt 18 ] || { echo "these are no options: $(http_listed)"; return 1; }
	offers "$1" "moefs-http -o " $(http_listed | grep -v '^-') &&
		offers "$1" "moefs-http -o log_prompts,key" log_prompts,key= log_prompts,key_file= &&
		offers "$1" "moefs-http -" $(http_listed | grep '^-') &&
		offers "$1" "moefs-http che" checkpoint &&
		offers "$1" "moefs-http -o poll=o" "${2}on" "${2}off"
}
unless() { # SHELL OTHER WORDS
	[ "$1" = "$2" ] || echo "$3"
}
for shell in bash zsh fish; do
	if ! command -v $shell >/dev/null; then
		echo "ok $shell # skip: it is not installed"
		continue
	fi
	claim "$shell completes options, params, commands, and what can be mounted" completes $shell
	claim "$shell completes an option's value" values $shell "$(unless $shell bash quant=)" "$(unless $shell bash --text=)"
	claim "$shell completes moefs-http's" completes_http $shell "$(unless $shell bash poll=)"
done
exit $status
