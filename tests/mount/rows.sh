#!/usr/bin/env bash
# A test for every row of the tree's table, which the mount's README is made from: its mode, its text, the effect of a
# good write, the error of each bad one. A row of the tree that is missing below fails the test, and so does a row below
# that is not in the tree; params are rows by their names.
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || skip_all "no jq, which reads the JSON files"

# ---- the table ----

rows=() # PATH, as README has it
declare -A mode reads writes
# row PATH MODE READS [takes VALUE | takes VALUE reads ERE | ERRNO VALUE]…
#
# READS: a regular expression of bash that the whole text matches; or json and a filter of jq that must hold; or the name
# of a function, which gets the file. For a folder: "of" and a name in it, or nothing. Each write is one cp; @N is N bytes.
# An accepted value reads back, and a refused one changes nothing. A file without values cannot be opened for writing.
# Wrong sizes of a budget come before auto, with which it reads as what is in force: that follows the free memory.
row() {
	local path=$1
	rows+=("$path")
	mode[$path]=$2 reads[$path]=$3
	shift 3
	writes[$path]=
	[ $# = 0 ] || writes[$path]=$(printf '%s\x1f' "$@")
}
number='^[0-9]+$'
fraction='^-?[0-9]+(\.[0-9]+)?$'
size='^[0-9]+[KMGT]?$'

row cache/ 755 'of stats'
row cache/gpu/ 755 'of stats'
row MODEL/ 755 'of prompt'
row MODEL/sessions/ 1777 'of default'
row MODEL/prefixes/ 1777 of
row MODEL/ask.d/ 1777 of
row MODEL/sessions/NAME/ 700 'of prompt'
row MODEL/sessions/NAME/params/ 700 'of temperature'
row MODEL/info/ 755 'of layers'
row MODEL/experts/ 755 'of 00'
row MODEL/experts/LL/ 755 'of 000'
row MODEL/tokenizer/ 755 'of encode'
row MODEL/tensors/ 755 'of model.norm.weight.npy'

row README 444 '^Language models as files'
row version 444 '^[0-9]+\.[0-9]+\.[0-9]+$'
row pid 444 $number
row kept 444 '^off$'
row ctl 644 '^load' takes rescan reads '^load' EINVAL jump EINVAL '' ENOENT 'load nobody'
row error 444 '.*'
row error.json 444 'json .not_mounted == []'

row cache/budget 644 $size takes 16M takes 1.5G reads '^1536M$' EINVAL much EINVAL -1 EINVAL 101% ERANGE 1 takes auto reads $size
row cache/context_budget 644 $size takes 64M EINVAL much EINVAL '' takes 50% reads $size takes auto reads $size
row cache/policy 644 '^[a-z]+$' takes lru takes 'lfu no-prefetch' takes auto reads '^scales$' EINVAL best EINVAL 'lru lru' EINVAL ''
row cache/waiting 444 $'^waiting 0\nwait_seconds [0-9.]+\ntokens [0-9]+\nwait_ms_per_token [0-9.]+\nqueued 0$'
row cache/warming 444 '^idle$|^.* [0-9]+/[0-9]+$'
row cache/stats 444 $'^budget [0-9]+\n.*\nio [a-z_]+\n'
row cache/stats.json 444 'json .budget > 0 and .budget_asked == "auto" and .wait_seconds >= 0 and (.io | type) == "string"'
row cache/gpu/budget 644 '^auto$|^[0-9]+[KMGT]?$' takes 2G reads '^2G$' takes auto reads '^auto$|^[0-9]+[KMGT]?$' EINVAL much EINVAL 50% EINVAL '' ERANGE 0
row cache/gpu/stats 444 '^gpu .'
row cache/gpu/stats.json 444 'json .gpu | type == "string"'

row MODEL/prefixes/NAME 600 'What is 1 \+ 1\?'
row MODEL/ask 666 'asked 2' EINVAL hello
row MODEL/ask.d/NAME 600 named
row MODEL/score 666 'asked perplexity' EINVAL hello
row MODEL/embed 666 'asked ^-?[0-9]' EINVAL hello
row MODEL/embed.npy 666 'asked NUMPY' EINVAL hello
row MODEL/embed.d/ 1777 of
row MODEL/embed.d/NAME 600 named
row MODEL/info/examples 444 '^What is the capital of Lithuania.*What is 12 x 6'
row MODEL/info/params.json 444 'json length > 20 and all(.[]; .label and .help and .takes and .type and (.choices | type == "array") and (.default | type == "string")) and (map(select(.name == "thinking"))[0].choices | index("off"))'
row MODEL/info/embedding 444 '^mean of the tokens '
row MODEL/tokenizer/encode 666 'asked ^[0-9]+' EINVAL hello
row MODEL/tokenizer/decode 666 'asked ^2$' EINVAL 17
row MODEL/config.json 444 'json .model_type == "qwen3_moe"'

row MODEL/sessions/NAME/prompt 600 '.*' takes 'What is 1 + 1?' EFBIG @70000
row MODEL/sessions/NAME/output 600 '.+'
row MODEL/sessions/NAME/thoughts 600 '^$'
row MODEL/sessions/NAME/logprobs.jsonl 600 '^$'
row MODEL/sessions/NAME/log 600 'What is 1 \+ 1\?'
row MODEL/sessions/NAME/status 600 '^(idle|done|stopped)$'
row MODEL/sessions/NAME/wait 600 '^(idle|done|stopped)$'
row MODEL/sessions/NAME/error 600 '.*'
row MODEL/sessions/NAME/error.json 600 'json type == "object"'
row MODEL/sessions/NAME/ctl 600 '^stop' takes undo reads '^stop' takes reset reads reset EINVAL jump EINVAL 'answer nothing=1' EINVAL 'answer top_k' EINVAL 'stop now' EINVAL ''
row MODEL/sessions/NAME/stats 600 $'^prompt_tokens [0-9]+\n.*\nfinish [-a-z_]+'
row MODEL/sessions/NAME/stats.json 600 'json .prompt_tokens > 0 and (.seed | test("^[0-9]+$")) and .finish != "-"'
row MODEL/sessions/NAME/messages.json 600 'json .[0].role == "user"' takes '[]' takes '[{"role": "user", "content": "a"}]' reads '"content": "a"' \
	EINVAL x EINVAL '{}' EINVAL '[1]' EINVAL '[{"role": "nobody", "content": "a"}]'
row MODEL/sessions/NAME/choices 600 '.*' takes $'yes\nno' takes '["a", "b c"]' EINVAL $'a\na' EINVAL $'a\n\nb' EINVAL '["a", 1]' EINVAL '["a"' EINVAL '[]'
row MODEL/sessions/NAME/choices.tsv 600 '^$'
row MODEL/sessions/NAME/plan 600 planned EINVAL hello
row MODEL/sessions/NAME/why 600 $'^prompt_tokens [0-9]+\nfound_tokens '
row MODEL/sessions/NAME/rendered 600 'What is 1'
row MODEL/sessions/NAME/rendered_tokens 600 $number
row MODEL/sessions/NAME/template.json 600 'json . == {}' takes '{"a": 1}' reads '"a": 1' EINVAL x EINVAL '[]'
row MODEL/sessions/NAME/tools.json 600 'json . == []' takes '[]' EINVAL x EINVAL '{}' EINVAL '[1]'
row MODEL/sessions/NAME/tool_calls.json 600 'json . == []'
row MODEL/sessions/NAME/tool_result 600 'json . == []' EINVAL x EINVAL '[1]' ENODATA '{"tool_call_id": "a", "content": "b"}'
row MODEL/sessions/NAME/state 600 restores EINVAL x
param() { row "MODEL/sessions/NAME/params/$1" 600 "${@:2}"; }
param temperature $fraction takes 0.5 takes 0 takes auto reads $fraction EINVAL hot EINVAL '' ERANGE -1 ERANGE 1e9
param top_k $number takes 5 takes auto reads $number EINVAL few EINVAL 0.5 ERANGE 99999999999999999999
param top_p $fraction takes 0.5 takes auto reads $fraction EINVAL x ERANGE 1.5 ERANGE -1
param min_p $fraction takes 0.5 takes auto reads $fraction EINVAL x ERANGE 1.5 ERANGE -1
param repetition_penalty $fraction takes 1.1 takes auto reads $fraction EINVAL x ERANGE -1
param frequency_penalty $fraction takes -0.5 takes auto reads $fraction EINVAL x ERANGE 7
param presence_penalty $fraction takes 0.5 takes auto reads $fraction EINVAL x ERANGE 7
param logit_bias '^$' takes '7 -1.5' takes '' EINVAL x ERANGE '99999999 1' EFBIG @70000
param logprobs $number takes 3 takes auto reads '^0$' EINVAL x ERANGE 99999999999999999999
param max_tokens $number takes 7 takes auto reads $number EINVAL x EINVAL -1 ERANGE 99999999999999999999
param seed '^random$|^[0-9]+$' takes 42 takes random takes auto reads '^random$' EINVAL x EINVAL -1 ERANGE 99999999999999999999
param format '^text$' takes json takes choices takes auto reads '^text$' EINVAL x EINVAL '{}'
param grammar '^$' takes '[0-9]+' takes '' EFBIG @70000
param tool_choice '^auto$' takes none takes auto EINVAL '' EINVAL 'a b'
param stop '^$' takes END takes '' EFBIG @70000
param stop_repetition '^on$' takes off takes auto reads '^on$' EINVAL x
param system '^$' takes 'Be brief.' takes '' EFBIG @70000
param chat '^on$' takes off takes auto reads '^on$' EINVAL x EINVAL ''
param thinking '^default$' takes default takes auto reads '^default$' EINVAL x
param date '^auto$' takes 2024-05-31 takes auto EINVAL x EINVAL 2024-02-31
param on_full '^auto$' takes drop-oldest takes error takes auto reads '^auto$' EINVAL x
param priority '^normal$' takes low takes high takes auto reads '^normal$' EINVAL x EINVAL ''
param stream '^on$' takes off takes auto reads '^on$' EINVAL x
param draft '^auto$' takes off takes lookup takes auto EINVAL x EINVAL 'mtp x'
param share_with '^auto$' takes alice takes auto EINVAL '' EINVAL 'a b'
param experts_per_token '^0$' takes 2 takes auto reads '^0$' EINVAL x ERANGE 7
param experts_bias '^$' takes '00/001 -1.5' takes '*/00? off' takes '' EINVAL x EINVAL '99/000 1' ERANGE '00/001 1e9' EFBIG @2000000
param substitute '^off$' takes 1,8 takes auto reads '^off$' EINVAL x EINVAL 1 EINVAL 1, ERANGE 4,2 ERANGE 1,9999
param drop_missing '^0$' takes 0.5 takes auto reads '^0$' EINVAL x ERANGE 7

fact() { row "MODEL/info/$1" 444 "$2"; }
fact architecture '^qwen3_moe$'
for f in layers hidden_size heads kv_heads head_dim vocabulary experts experts_per_token parameters active_parameters \
	context context_bytes max_prompt_bytes; do
	fact $f $number
done
fact bits_per_weight $fraction
fact defaults '^do_sample true'
fact recipe '^3bit$'
fact loss '^unknown: moefs --loss measures it'
fact codec '^none'
fact kv '^f16; q8 would take [0-9]+ bytes instead of [0-9]+$'
fact source "^/.*/$(basename "$MODEL")\$"
fact store '^/.*/3bit$'
fact state '^ready$'
fact progress '^idle$'
fact template '^chat_template.jinja$'
fact kernels '^cpu (scalar|avx|neon)'
fact ngrams '^none$'
fact left_out '^none$'

row MODEL/experts/map 444 $'^00 [0-9a-j.]+\n01 '
row MODEL/experts/heat.svg 444 '^<svg .*</svg>$'
row MODEL/experts/stats 444 $'^layer expert resident pinned hits misses last_token on_gpu gpu_pinned\n00 000 [01] '
row MODEL/experts/stats.json 444 'json .[33].layer == 1 and .[33].expert == 1 and .[33].hits >= 0'
row MODEL/experts/trace 444 '^$'
row MODEL/experts/ctl 644 '^load' takes 'load 00/000' reads '^load' takes 'pin 00/000' reads '^load' takes 'unpin 00/*' reads '^load' \
	EINVAL jump EINVAL pin EINVAL 'load 99/000' EINVAL 'load nobody' EINVAL ''
row MODEL/experts/LL/EEE 444 bytes
row MODEL/tensors/NAME.npy 444 bytes

# ---- where they are ----

mounted -o quant=3bit
loaded
complete
mkdir sessions/rows || exit 1
echo 8 >sessions/rows/params/max_tokens && echo 0 >sessions/rows/params/temperature
echo "What is 1 + 1?" >sessions/rows/prompt && cat sessions/rows/output >/dev/null
at() { # PATH: its place in the mount
	local at=/$1
	at=${at%/}/
	at=${at/#\/MODEL\//\/$(basename "$MODEL")\/}
	at=${at/sessions\/NAME/sessions\/rows} at=${at/LL/00} at=${at/EEE/000} at=${at/ask.d\/NAME/ask.d\/rows} at=${at/embed.d\/NAME/embed.d\/rows}
	at=${at/NAME.npy/model.norm.weight.npy}
	at=${at/prefixes\/NAME/prefixes\/$(ls prefixes | tail -n 1)}
	echo "$mnt${at%/}"
}
declare -A file
for path in "${rows[@]}"; do file[$path]=$(at "$path"); done
wrong=() # in a claim's own shell
is_wrong() { wrong+=("$1: ${2:0:300}"); }
all_right() { [ ${#wrong[@]} = 0 ] || fail "${#wrong[@]} wrong: $(printf '%s; ' "${wrong[@]:0:12}")"; }

in_readme() { # README's rows, except those that stand for params by name
	sed '/^The params/,$d' "$mnt/README" | sed -n 's/^    \([A-Za-z][A-Za-z._/]*\)  .*/\1/p' | grep -v '/params/\(VALUE\|TEXT\)$'
	sed 's|^|MODEL/sessions/NAME/params/|' <(ls "$m/sessions/rows/params")
}
complete_table() {
	in_readme | LC_ALL=C sort -u >"$work/told"
	printf '%s\n' "${rows[@]}" | LC_ALL=C sort >"$work/tested"
	cmp -s "$work/told" "$work/tested" || fail "README (<) and this test (>): $(diff "$work/told" "$work/tested" | grep '^[<>]')"
	[ "$(wc -l <"$work/told")" -gt 90 ] || fail "README has only $(wc -l <"$work/told") rows"
}
claim "every row of README is in this test's table, and no other" complete_table

# ---- modes ----

modes() {
	local path is
	echo hello >"$m/ask.d/rows"
	echo hello >"$m/embed.d/rows"
	for path in "${rows[@]}"; do
		is=$(stat -c %a "${file[$path]}" 2>&1)
		[ "$is" = "${mode[$path]}" ] || is_wrong "$path" "$is, not ${mode[$path]}"
		is=$(stat -c %F "${file[$path]}" 2>&1)
		case $path/$is in *//directory | */"regular file" | */"regular empty file") ;; *) is_wrong "$path" "is a $is" ;; esac
	done
	cat "$m/ask.d/rows" "$m/embed.d/rows" >/dev/null
	all_right
}
claim "each has its mode and its kind" modes

# ---- reading ----

asked() { # FILE ERE: asks 17, which is both a text and an id
	local answer
	exec 3<>"$1" || return 1
	echo 17 >&3
	answer=$(timeout $limit cat <&3)
	exec 3>&-
	[[ $answer =~ $2 ]] || { echo "$answer" && return 1; }
	same "$(timeout $limit cat "$1")" "" "opened to read alone"
}
planned() { # FILE
	exec 3<>"$1" && echo 17 >&3 && [[ $(timeout $limit cat <&3) == prompt_tokens* ]] || fail "no plan"
	exec 3>&-
	[[ $(timeout $limit cat "$1") == prompt_tokens* ]] || fail "no plan of what stands"
}
named() {
	echo 17 >"$1" && [ -n "$(timeout $limit cat "$1")" ] && [ ! -e "$1" ] || fail "no answer, or the name stays"
}
restores() { # the copy has messages, and can be restored
	local state=$work/state said
	idle_session
	cp "$1" "$state" && same "$(head -c 5 "$state")" moefs || return 1
	said=$(cat "$m/sessions/rows/messages.json")
	same "$(stat -c %s "$1")" "$(stat -c %s "$state")" size
	echo reset >"$m/sessions/rows/ctl" && cp "$state" "$1" && same "$(cat "$m/sessions/rows/messages.json")" "$said" messages
}
bytes() { same "$(stat -c %s "$1")" "$(wc -c <"$1")" && [ "$(stat -c %s "$1")" -gt 0 ] || fail "empty"; }
idle_session() { timeout $limit cat "$m/sessions/rows/wait" >/dev/null; }
read_row() { # PATH
	local at=${file[$1]} want=${reads[$1]} text
	case $want in
	of) ls "$at" >/dev/null ;;
	"of "*) ls -a "$at" | grep -qxF -- "${want#of }" || fail "has no ${want#of }" ;;
	json*) text=$(timeout $limit cat "$at") && jq -e "${want#json }" <<<"$text" >/dev/null || fail "$text" ;;
	asked*) asked "$at" "${want#asked }" ;;
	named | restores | bytes | planned) "$want" "$at" ;;
	*)
		text=$(timeout $limit cat "$at") || return 1
		[[ $text =~ $want ]] || fail "reads as '$text'"
		;;
	esac
}
read_all() {
	local path said
	for path in "${rows[@]}"; do
		said=$(read_row "$path" 2>&1) || is_wrong "$path" "$said"
	done
	all_right
}
claim "each reads as what it is" read_all

# ---- writing ----

declare -A errno=([EINVAL]="Invalid argument" [ERANGE]="Numerical result out of range" [EFBIG]="File too large"
	[ENODATA]="No data available" [ENOENT]="No such file or directory" [EACCES]="Permission denied" [EPERM]="Operation not permitted")
value() { # the value as cp writes it
	case $1 in @*) head -c "${1#@}" /dev/zero | tr '\0' x ;; *) printf '%s\n' "$1" ;; esac >"$work/value"
}
shown() { # the text that must stay when a value is refused
	case ${reads[$1]} in asked* | named | restores | bytes | planned) ;; *) timeout $limit cat "${file[$1]}" ;; esac
}
refused() { # PATH ERRNO VALUE
	local before said
	before=$(shown "$1")
	value "$3"
	said=$(LC_ALL=C cp "$work/value" "${file[$1]}" 2>&1) && { is_wrong "$1" "takes '$3'" && return; }
	[[ $said == *"${errno[$2]}"* ]] || is_wrong "$1" "'$3' is '$said', not $2"
	[ "$(shown "$1")" = "$before" ] || is_wrong "$1" "'$3' changes it to '$(shown "$1")'"
	# An open in the wrong mode has only an errno.
	case ${reads[$1]} in asked* | planned) ;; *) [ -s "$mnt/error" ] || is_wrong "$1" "no word of '$3' in error" ;; esac
}
taken() { # PATH VALUE READS
	local text
	value "$2"
	text=$(cp "$work/value" "${file[$1]}" 2>&1) || { is_wrong "$1" "refuses '$2': $text" && return; }
	case $1 in */prompt) idle_session ;; esac
	text=$(timeout $limit cat "${file[$1]}")
	if [ -n "$3" ]; then
		[[ $text =~ $3 ]] || is_wrong "$1" "'$2' reads as '$text'"
	else
		[ "$text" = "$2" ] || is_wrong "$1" "'$2' reads as '$text'"
	fi
}
write_all() {
	local path i list
	for path in "${rows[@]}"; do
		mapfile -d $'\x1f' -t list <<<"${writes[$path]}"
		unset 'list[-1]' # here-doc's newline
		for ((i = 0; i < ${#list[@]}; i += 2)); do
			if [ "${list[i]}" != takes ]; then
				refused "$path" "${list[i]}" "${list[i + 1]}"
			elif [ "${list[i + 2]:-}" = reads ]; then
				taken "$path" "${list[i + 1]}" "${list[i + 3]}" && i=$((i + 2))
			else
				taken "$path" "${list[i + 1]}" ""
			fi
		done
	done
	all_right
}
claim "accepted values read back, and refused ones change nothing and give a reason" write_all

is_written() { [ -n "${writes[$1]}" ] || case $1 in */ask.d/NAME | */embed.d/NAME) true ;; *) false ;; esac; }
read_only() {
	local path said how
	for path in "${rows[@]}"; do
		case $path in */) continue ;; esac
		is_written "$path" && continue
		for how in 'exec 3<>"$0"' 'exec 3>>"$0"' ': >"$0"' 'truncate -s 0 "$0"'; do
			said=$(LC_ALL=C bash -c "$how" "${file[$path]}" 2>&1) && is_wrong "$path" "$how succeeds"
			[[ $said == *"${errno[EACCES]}"* ]] || is_wrong "$path" "$how: $said"
		done
	done
	all_right
}
claim "what takes nothing cannot be opened to write, by its owner either" read_only

# ---- the tree's folders and files ----

refuses() { # PATH command…: with EPERM
	local path=$1 said
	shift
	said=$(LC_ALL=C "$@" 2>&1) && is_wrong "$path" "succeeds: $*"
	[[ $said == *"${errno[EPERM]}"* ]] || is_wrong "$path" "$*: $said"
}
unchanged() {
	local path at
	for path in "${rows[@]}"; do
		at=${file[$path]}
		case $path in
		MODEL/ask.d/NAME | MODEL/embed.d/NAME | MODEL/prefixes/NAME) continue ;; # is gone; may be removed (prefixes.sh)
		MODEL/sessions/NAME/ | MODEL/) ;; # may be renamed and removed; stands at the top
		*/)
			refuses "$path" rmdir "$at"
			refuses "$path" mv -T "$at" "$at-x"
			;;
		*)
			refuses "$path" rm -f "$at"
			refuses "$path" mv -T "$at" "$at-x"
			refuses "$path" ln -T "$at" "$at-x"
			;;
		esac
		case $path in
		*/) case $path in MODEL/sessions/) ;; *) refuses "$path" mkdir "$at/new" ;; esac ;;
		esac
		case $path in
		*/) case $path in MODEL/ask.d/ | MODEL/embed.d/) ;; *) refuses "$path" touch "$at/new" ;; esac ;;
		esac
		refuses "$path" chmod 0707 "$at"
		chmod "${mode[$path]}" "$at" || is_wrong "$path" "its own mode is refused"
	done
	all_right
}
claim "nothing can be removed, renamed, linked or chmodded, and no folder accepts unknown files" unchanged
finish
