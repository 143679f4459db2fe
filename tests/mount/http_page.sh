#!/bin/bash
# moefs-http for the web page: the page's files and what they may do, and the tree's files over HTTP, which pages of
# other sites cannot read and no path leads out of. tests/clients/page.sh tests the page itself in a browser.
. "$(dirname "$0")/lib.sh"
holdable
command -v curl >/dev/null || skip_all "no curl"
command -v jq >/dev/null || skip_all "no jq"
http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
[ -x "$http" ] || { echo "not ok $(basename "$0"): $http is missing; run make"; exit 1; }
mounted
loaded
model=$(basename "$MODEL")

begin_http() { # [OPTIONS]: on a port of its own, which $url then is
	: >"$work/http.err"
	"$http" -o "listen=127.0.0.1:0${1:+,$1}" "$mnt" 2>"$work/http.err" &
	gateway=$!
	listens $gateway "$work/http.err"
}
end_http() { # a sanitizer that has found something makes its status another
	local ended
	kill $gateway
	wait $gateway
	ended=$?
	claim "moefs-http${1:+ with $1} ends well" same "$ended $(grep -v listening "$work/http.err")" "0 "
}
http() { # PATH [curl's options]: the body
	local path=$1
	shift
	curl -sS --path-as-is --max-time $limit "$url$path" "$@"
}
status() { # PATH [curl's options]: the status alone
	http "$@" -o "$work/body" -w '%{http_code}'
}
put() { # PATH TEXT [curl's options]: the status
	local path=$1 text=$2
	shift 2
	status "$path" -X PUT --data-binary "$text" -H 'Content-Type: text/plain' "$@"
}
here() { echo "/tree/$model/sessions/$1"; }

# ---- the page ----

begin_http
page_files() {
	local file type
	while read -r file type; do
		same "$(status "$file")" 200 "$file"
		same "$(http "$file" -o /dev/null -w '%{content_type}')" "$type" "$file"
	done <<-'END'
		/ text/html; charset=utf-8
		/page/page.js text/javascript; charset=utf-8
		/page/page.css text/css; charset=utf-8
		/page/icon.svg image/svg+xml
	END
	for file in "$root"/fs/gateway/page/*.*; do
		case $file in *.md | *.sh) continue ;; esac
		http "/page/${file##*/}" | cmp - "$file" || fail "$file"
	done
	for file in nothing ../page.js '' page.js/ %2e%2e/page.js; do
		same "$(status "/page/$file")" 404 "/page/$file"
	done
}
claim "the page and all of its files are in the program" page_files

libraries() {
	local name
	for name in markdown-it katex prism; do
		[ -e "$(dirname "$MOEFS")/page-libs/$name.js" ] || continue
		http "/page/$name.js" | cmp - "$(dirname "$MOEFS")/page-libs/$name.js" || fail "$name"
		http /page/licences.txt | grep -q "^==== $name ====" || fail "no licence of $name"
	done
	mkdir -p "$work/npm/node_modules/katex/dist"
	"$root/fs/gateway/page/libs.sh" "$work/libs" "$work/npm" 2>"$work/said" || fail "$(cat "$work/said")"
	same "$(cut -d @ -f 1 "$work/said" | xargs)" "the web page is built without markdown-it (markdown-it the web page is built without katex (katex the web page is built without prism (prismjs"
	echo 'alert(1)' >"$work/npm/node_modules/katex/dist/katex.js" && : >"$work/npm/node_modules/katex/LICENSE"
	! "$root/fs/gateway/page/libs.sh" "$work/libs" "$work/npm" 2>"$work/said" && [ ! -e "$work/libs/katex.js" ] || fail "another katex.js is taken"
	grep -q 'katex.js is not that of katex@' "$work/said" || fail "$(cat "$work/said")"
}
claim "the libraries are in the program with their licences; a missing one is named, a changed one refused" libraries

policy() {
	local said
	for path in / /page/page.js "/tree/$model/config.json" /tree; do
		said=$(http "$path" -D - -o /dev/null | tr -d '\r')
		case $said in *"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self';"*"frame-ancestors 'none'"*) ;;
		*) fail "$path: $said" ;; esac
		case $said in *unsafe* | *data:*) fail "$path: $said" ;; esac
		grep -qi '^X-Content-Type-Options: nosniff' <<<"$said" || fail "$path lacks nosniff"
	done
	! grep -nE 'innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser' "$root"/fs/gateway/page/*.js || fail "a text could become markup"
	! grep -nE '<style|style=| on[a-z]+=|<script>|javascript:' "$root"/fs/gateway/page/*.html || fail "inline script or style"
	! grep -nE '(src|href|url\(|import|from|fetch\() *=? *["'\'']?(https?:)?//' "$root"/fs/gateway/page/*.{html,css,js} || fail "something comes from outside"
}
claim "a browser runs nothing but the page's own files, and no text becomes markup" policy

# ---- the tree's files ----

read_and_written() {
	same "$(http /tree | jq -r '.[] | select(.folder) | .name' | sort | tr '\n' ' ')" "cache $model "
	same "$(status "$(here one)" -X POST)" 201 made
	[ -d sessions/one ] || fail "no session was made"
	same "$(status "$(here one)" -X POST)" 400 "made again"
	same "$(put "$(here one)/params/temperature" 0)" 200
	same "$(cat sessions/one/params/temperature)" 0
	same "$(put "$(here one)/params/temperature" hot)" 400
	case $(jq -r .error.message "$work/body") in *'"hot" is not a number'*) ;; *) fail "$(cat "$work/body")" ;; esac
	same "$(put "$(here one)/prompt" 'What is the capital of France?')" 200
	same "$(http "$(here one)/output")" "The capital of France is Paris."
	same "$(http "$(here one)/messages.json" | jq -r '.[1].content')" "The capital of France is Paris."
	same "$(http "$(here one)/params/temperature" -w '%{content_type}')" "$(printf '0\ntext/plain; charset=utf-8')"
	same "$(http "/tree/$model/experts/map" | wc -l)" "$(wc -l <experts/map)"
	mkdir 'sessions/in a shell, ü'
	same "$(http "/tree/$model/sessions" | jq -r '.[].name' | sort | tr '\n' '/')" "default/in a shell, ü/one/"
	same "$(http "$(here in%20a%20shell,%20%C3%BC)/status")" idle
	same "$(status "$(here in%20a%20shell,%20%C3%BC)" -X MOVE -d 'in a page, ö')" 200
	same "$(ls sessions | tr '\n' '/')" "default/in a page, ö/one/"
	same "$(status "$(here in%20a%20page,%20%C3%B6)" -X MOVE -d one)" 400 "a name that is taken"
	for name in '' . .. a/b ../x "$(printf 'a%.0s' $(seq 300))"; do
		same "$(status "$(here one)" -X MOVE -d "$name")" 400 "MOVE to '$name'"
	done
	same "$(status "$(here none)" -X MOVE -d other)" 404
	same "$(status "$(here in%20a%20page,%20%C3%B6)" -X DELETE)" 200
	same "$(status "$(here one)" -X DELETE)" 200
	same "$(ls sessions)" default
	same "$(status "$(here one)/status")" 404
	same "$(status "/tree/$model/info/nothing")" 404
	same "$(status "$(here default)" -X DELETE)" 403
	same "$(put "/tree/$model" x)" 403
}
claim "files are read, listed and written, and sessions made, renamed and removed" read_and_written

files_held() { find "/proc/$gateway/fd" -lname "$mnt/*" 2>/dev/null | wc -l; }
are_held() { [ "$(files_held)" = "$1" ]; }
held() { # waits until this many are held
	until_true are_held "$1" || fail "$(files_held) files are open, not $1"
}
streams() {
	local reader
	mkdir "$m/sessions/long" && cd "$m/sessions/long" || exit
	begin_long
	curl -sSN "$url$(here long)/output" >"$work/stream" &
	reader=$!
	until_true longer "$work/stream" 20 || fail "nothing came"
	working
	alive $reader || fail "the stream has ended before the answer"
	curl -sSN "$url$(here long)/output" >/dev/null &
	held 2
	working
	kill $!
	held 1
	same "$(put "$(here long)/prompt" 'another')" 429 "a prompt to a session that works"
	same "$(put "$(here long)/ctl" stop)" 200
	wait $reader || fail "the stream has failed"
	same "$(cat status)" stopped
	cmp output "$work/stream" || fail "the stream is not the answer"
	held 0
	end_long
	cd "$m" && rmdir sessions/long
}
claim "an answer comes as it grows, stop ends it, and a client that leaves leaves nothing open" streams

# Browsers have six connections for all of their pages: an answer comes in parts, so that more pages take turns.
parts() {
	local whole length
	begins() { # a part has what comes within a second, which may be nothing
		same "$(status "$(here parts)/output?from=0")" 202 "a part of what grows"
		length=$(wc -c <"$work/body")
		[ "$length" -gt 0 ]
	}
	stands() { # what is not there yet is nothing, once the turn stands
		same "$(status "$(here parts)/output?from=$length")" 202 "what is not there yet"
		[ ! -s "$work/body" ] || { length=$((length + $(wc -c <"$work/body"))); false; }
	}
	mkdir sessions/parts && cd sessions/parts || exit
	begin_long
	until_true begins || fail "it is empty"
	until_true stands || fail "it does not stand"
	end_long
	whole=$(cat output)
	same "$(status "$(here parts)/output?from=3")" 200 "the rest"
	same "$(cat "$work/body")" "${whole:3}" "it"
	same "$(status "$(here parts)/output?from=999999") $(cat "$work/body")" "200 " "what is beyond its end"
	for from in '' -1 x 9999999999999999; do
		same "$(status "$(here parts)/output?from=$from")" 400 "from=$from"
	done
	cd "$m" && rmdir sessions/parts
}
claim "an answer comes in parts, from any byte on" parts

tricks() {
	local path said
	for path in /../../etc/passwd /.. /. /%2e%2e/%2e%2e/etc/passwd "/$model/../../etc/passwd" "/$model/%2e%2e%2f%2e%2e%2fetc%2fpasswd" \
		"//etc/passwd" "/$model//config.json" "/$model/config.json/" "/$model/./config.json" "/$model/sessions/../config.json" \
		"/$model/sessions/..%2f..%2f..%2fetc/passwd" "/$model/sessions/default/params/../prompt" "/%2Fetc%2Fpasswd" \
		"/$(printf 'a/%.0s' $(seq 20))" "/$(printf 'a%.0s' $(seq 2000))" "/nothing" "/$model/config.json/x" "/pid" "/ctl"; do
		said=$(status "/tree$path")
		case $said in 400 | 404) ;; *) fail "$path: $said: $(head -c 200 "$work/body")" ;; esac
		case $(put "/tree$path" x) in 400 | 403 | 404) ;; *) fail "PUT $path: $(head -c 200 "$work/body")" ;; esac
		case $(status "/tree$path" -X POST) in 400 | 403 | 404) ;; *) fail "POST $path: $(head -c 200 "$work/body")" ;; esac
		case $(status "/tree$path" -X DELETE) in 400 | 403 | 404) ;; *) fail "DELETE $path: $(head -c 200 "$work/body")" ;; esac
	done
	same "$(status "/tree/$model/config.json")" 200 "the last of them without its trick"
	same "$(ls sessions)" default
}
claim "no path leads out of the tree" tricks

only_sessions() {
	local path before
	echo 100M >../cache/budget # the automatic one follows the machine's free memory
	before=$(cat ../cache/budget)
	for path in ctl cache/budget cache/policy "$model/prompt" "$model/ctl" "$model/experts/ctl" "$model/experts/00/000" \
		"$model/sessions/default" "$model/sessions" "$model/ask.d/x"; do
		same "$(put "/tree/$path" 1M)" 403 "PUT $path"
	done
	for path in x "$model" "$model/sessions" "$model/x" "$model/sessions/default/x" "$model/experts/99"; do
		same "$(status "/tree/$path" -X POST)" 403 "POST $path"
		same "$(status "/tree/$path" -X DELETE)" 403 "DELETE $path"
		same "$(status "/tree/$path" -X MOVE -d y)" 403 "MOVE $path"
	done
	same "$(cat ../cache/budget)" "$before" budget
	same "$(jq -c . messages.json)" "[]" "sessions/default was asked"
}
claim "files outside sessions cannot be changed from a browser" only_sessions

foreign() {
	local header
	for header in 'Origin: http://elsewhere.example' 'Origin: null' 'Origin: http://localhost:1' 'Origin: http://127.0.0.1' \
		'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Site: same-site' 'Host: elsewhere.example'; do
		same "$(put "$(here default)/params/top_k" 3 -H "$header")" 403 "PUT with $header"
		same "$(status "$(here evil)" -X POST -H "$header")" 403 "POST with $header"
		same "$(status "$(here default)/messages.json" -H "$header")" 403 "GET with $header"
	done
	differ "$(cat sessions/default/params/top_k)" 3
	same "$(ls sessions)" default
	for header in "Origin: $url" 'Sec-Fetch-Site: same-origin' 'Sec-Fetch-Site: none'; do
		same "$(status "$(here default)/messages.json" -H "$header")" 200 "GET with $header"
	done
}
claim "a page of another place reads and writes nothing" foreign
claim "a file that nobody closes does not either" held 0
end_http

begin_http 'cors=*'
claim "not even where it may speak the protocols" foreign
end_http cors=

# ---- with keys ----

(umask 077 && printf 'first-key\nsecond-key\n' >"$work/keys")
begin_http "key_file=$work/keys"
first='Authorization: Bearer first-key'
second='Authorization: Bearer second-key'
private() {
	mkdir sessions/shell
	same "$(status /)" 200 "the page itself"
	same "$(status /tree)" 401
	same "$(status /tree -H 'Authorization: Bearer third-key')" 401
	same "$(status "$(here mine)" -X POST -H "$first")" 201
	same "$(put "$(here mine)/params/temperature" 0 -H "$first")" 200
	same "$(put "$(here mine)/prompt" 'What is the capital of France?' -H "$first")" 200
	same "$(http "$(here mine)/output" -H "$first")" "The capital of France is Paris."
	same "$(http "/tree/$model/sessions" -H "$first" | jq -r '.[].name')" mine
	same "$(http "/tree/$model/sessions" -H "$second")" "[]"
	for path in "$(here mine)/output" "$(here "$(cd sessions && echo key-*-mine)")/output" "$(here default)/output" "$(here shell)/log" "/tree/$model/output" \
		"/tree/$model/messages.json" "/tree/$model/experts/trace" /tree/error "/tree/$model/tensors" "/tree/$model/ask.d" \
		/tree/cache/waiting "/tree/$model/prefixes"; do
		same "$(status "$path" -H "$second")" 404 "GET $path"
	done
	same "$(put "$(here shell)/params/top_k" 3 -H "$second")" 404
	same "$(status "$(here mine)" -X DELETE -H "$second")" 404
	same "$(status "$(here mine)" -X MOVE -d yours -H "$second")" 404
	same "$(status "$(here mine)" -X MOVE -d yours -H "$first")" 200
	same "$(http "/tree/$model/sessions" -H "$first" | jq -r '.[].name') $(http "/tree/$model/sessions" -H "$second")" "yours []"
	same "$(put "$(here yours)/ctl" 'fork yours.2' -H "$first")" 200
	same "$(http "/tree/$model/sessions" -H "$first" | jq -r '.[].name' | sort | xargs) $(http "/tree/$model/sessions" -H "$second")" "yours yours.2 []"
	same "$(status "$(here yours.2)" -X DELETE -H "$first")" 200
	same "$(status "$(here yours)" -X MOVE -d mine -H "$first")" 200
	for path in "/tree/$model/experts/map" "/tree/$model/info/state" /tree/README /tree/cache/stats; do
		same "$(status "$path" -H "$second")" 200 "GET $path"
	done
	same "$(status "$(here mine)" -X POST -H "$second")" 201 "a session of the same name"
	same "$(http "$(here mine)/messages.json" -H "$second" | jq length)" 0
	same "$(status "$(here mine)" -X DELETE -H "$second")" 200
	same "$(http "$(here mine)/messages.json" -H "$first" | jq length)" 2 "the first one's"
}
claim "each key has its own sessions and sees no others" private
end_http keys
printf 'second-key\nanother-key\nfirst-key\n' >"$work/keys"
begin_http "key_file=$work/keys"
moved() {
	same "$(http "$(here mine)/messages.json" -H "$first" | jq length)" 2
	same "$(http "/tree/$model/sessions" -H "$second")" "[]"
	same "$(http "/tree/$model/sessions" -H 'Authorization: Bearer another-key')" "[]"
	same "$(status "$(here mine)" -X DELETE -H "$first")" 200
	rmdir sessions/shell
	same "$(ls sessions)" default
}
claim "and they stay its own wherever it stands in the file" moved
end_http keys
finish
