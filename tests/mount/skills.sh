#!/usr/bin/env bash
# What a trained model was taught, asked through the mount at temperature 0: all 600 questions of its
# skills.jsonl, each in a conversation of its own. In exact mode every answer must be the reference's; in the
# default recipe the number of right answers is printed, and must be well above 90 %.
# For the demonstration model and, if it is there, the hybrid one beside it (tests/README.md).
# With arguments it only counts, to measure losses (tests/bench/README.md): mount options, then params.
#     skills.sh budget=2M experts_per_token=2 drop_missing=0.1
. "$(dirname "$0")/lib.sh"

questions() { # question NUL answer NUL …
	python3 -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    skill = json.loads(line)
    sys.stdout.write(skill["question"] + "\0" + skill["answer"] + "\0")' "$MODEL/skills.jsonl"
}

count_right() { # → "RIGHT of ALL", and the wrong ones in $work/wrong
	local question answer got right=0 all=0
	: >"$work/wrong"
	while IFS= read -r -d '' question && IFS= read -r -d '' answer; do
		exec 3<>ask
		printf '%s\n' "$question" >&3
		got=$(timeout $limit cat <&3)
		exec 3>&-
		all=$((all + 1))
		if [ "$got" = "$answer" ]; then
			right=$((right + 1))
		else
			printf '%s | %s | %s\n' "$question" "$answer" "$got" >>"$work/wrong"
		fi
	done < <(questions)
	echo "$right of $all"
}

if [ $# -gt 0 ]; then
	mounted -o "$1"
	for param in max_tokens=0 "${@:2}"; do
		echo "${param#*=}" > "sessions/default/params/${param%%=*}" || exit
	done
	count_right
	exit
fi

ask_all() { # MODEL
	MODEL=$1 name=$(basename "$1")
	m=$mnt/$name
	mounted -o quant=bf16
	echo 0 > sessions/default/params/max_tokens
	exact=$(count_right)
	claim "$name: exact mode answers 600 of 600" same "$exact" "600 of 600" "$(head -n 1 "$work/wrong")"
	cd /
	unmounted

	mounted
	echo 0 > sessions/default/params/max_tokens
	default=$(count_right)
	echo "# $name: the default recipe answers $default; wrong (question | answer | given):"
	sed 's/^/#   /' "$work/wrong"
	claim "$name: the default recipe answers more than 95 of 100" test "${default%% *}" -gt 570
	cd /
	unmounted
}

ask_all "$root/examples/models/fable-moe-15m"
hybrid=${MOEFS_TESTDATA:-$root/../shared}/models/fable-hybrid-18m
if [ -f "$hybrid/config.json" ]; then
	ask_all "$hybrid"
else
	echo "ok fable-hybrid-18m # skip: it is not at $hybrid"
fi
finish
