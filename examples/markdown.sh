#!/bin/sh
# A conversation as Markdown: examples/markdown.sh SESSION > talk.md
#
# SESSION is a session's folder in the mount (or the model's own). Who said what, thoughts as quotations, calls of tools
# as code. Needs jq.
set -eu
[ $# = 1 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
[ -e "$1/prompt" ] || { echo "$1 is not a session's or a model's folder in a mount of moefs" >&2; exit 1; }

jq -r '.[] | "**\(.role):** "
	+ (if (.thinking // "") == "" then "" else "\n\n> " + (.thinking | gsub("\n"; "\n> ")) + "\n\n" end)
	+ ((.content // "") | if type == "string" then . else tojson end)
	+ ([.tool_calls[]? | "\n\n    \(.function.name)(\(.function.arguments | tojson))"] | join("")) + "\n"' "$1/messages.json"
