#!/bin/bash
# The web page in a browser without a screen: Debian's chromium, driven by playwright-core, which npm gets. The scripted
# model says what is looked for, the demonstration model talks for long.
. "$(dirname "$0")/../mount/lib.sh"
http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
[ -x "$http" ] || { echo "not ok $(basename "$0"): $http is missing; run make"; exit 1; }
command -v chromium >/dev/null || skip_all "no chromium"
. "$(dirname "$0")/registry.bash"
registry "${browser[@]}"

cat >"$work/script.json" <<'END'
[{"after": "Say hello.<|im_end|>\n<|im_start|>assistant\n", "say": "Hello there."},
 {"after": "Say goodbye.<|im_end|>\n<|im_start|>assistant\n", "say": "Goodbye for now."},
 {"after": "Which one is this?<|im_end|>\n<|im_start|>assistant\n", "say": "The second conversation."},
 {"after": "Think first.<|im_end|>\n<|im_start|>assistant\n", "say": "<think>\nThis is easy.\n</think>\n\nIt is done."},
 {"after": "Write a page.<|im_end|>\n<|im_start|>assistant\n", "say": "Here: <script>window.owned = 1</script> <img src=x onerror=\"window.owned = 2\"> & <b>bold</b>\n```html\n<a href=\"javascript:owned=3\">x</a>\n```\nThat is all."},
 {"after": "Write Markdown.<|im_end|>\n<|im_start|>assistant\n", "say": "# Title\n\nSome *soft* and **loud** ~~gone~~ `code`, [a name](https://example.org/), [evil.example](https://other.example/x), [no](javascript:1).\n\n- [x] done\n- [ ] open\n\n3. three\n\n> quoted\n\n| a | b |\n|--|--:|\n| 1 | 2 |\n\n```c\nint x = 1; // \u202eone\n```\n\nIt costs $5 and $10, \\(x_1 * y_2\\) is $x^2$, $\\nomacro$ is none.\n\n$$\n\\frac{1}{2}\n$$\n\n![picture](https://example.org/p.png) <em id=\"ask\">raw</em>"}]
END
others=("$root/examples/models/fable-moe-15m")
scripted "$work/script.json" "" "$here/conversation.jinja"
mounted -o threads=1
loaded
echo auto > sessions/default/params/max_tokens
MODEL=$root/examples/models/fable-moe-15m m=$mnt/fable-moe-15m
cd "$m"
echo "What is the capital of France?" > prompt && cat output >/dev/null && echo reset > ctl # so that it is loaded
umask 077
echo a-key-of-mine >"$work/keys"

serve() { # NAME [OPTIONS]: prints nothing; its address goes to $work/NAME
	: >"$work/$1"
	"$http" -o "listen=127.0.0.1:0${2:+,$2}" "$mnt" 2>"$work/$1" &
	until_true grep -q 'listening on' "$work/$1" && return 0
	echo "not ok moefs-http begins: $(cat "$work/$1")"
	exit 1
}
serve open
serve keyed "key_file=$work/keys"
address() { echo "http://$(sed -n 's/^moefs-http: listening on //p' "$work/$1")/"; }
NODE_PATH=$modules TREE=$mnt OPEN=$(address open) KEYED=$(address keyed) KEY=$(cat "$work/keys") LIMIT=$limit \
	node "$clients/page.cjs" || failures=1
cd /
finish
